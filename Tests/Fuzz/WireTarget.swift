import Crypto
import Foundation
import Vocabulary

@testable import Inbound
@testable import Outbound

/// 0: requests to the HTTP server. 1: answers of a receiver. 2: webhooks and the headers that prove them. 3: the same
/// for `posthouse listen`. 4: the certificates of a notification of Apple's. 5: a token of Google's, and its keys.
enum WireTarget {
    static func run(_ choice: Int, _ input: [UInt8]) {
        switch choice {
        case 0: HTTPServerTarget.run(input)
        case 1: AnswerTarget.run(input)
        case 2: inbound(input)
        case 3: outbound(input)
        case 4: StoreProofTarget.apple(input)
        default: StoreProofTarget.google(input)
        }
    }

    private static let key = Array("fuzz-secret".utf8)
    private static let now = Timestamp(milliseconds: 1_700_000_000_000)

    /// The first byte, then lines up to an empty one, then a body.
    private struct Signed {
        let choice: UInt8
        let lines: [String]
        let body: [UInt8]

        init(_ input: [UInt8]) {
            choice = input.first ?? 0
            let rest = input.dropFirst()
            let end = rest.firstRange(of: [0x0A, 0x0A])
            lines = rest[..<(end?.lowerBound ?? rest.endIndex)].split(separator: 0x0A, omittingEmptySubsequences: false)
                .map { String(decoding: $0, as: UTF8.self) }
            body = Array(rest[(end?.upperBound ?? rest.endIndex)...])
        }

        func line(_ index: Int) -> String? { index < lines.count ? lines[index] : nil }

        /// Signature or token, timestamp, id.
        func header(_ name: String) -> String? {
            let name = name.lowercased()
            return name.hasSuffix("-id") ? line(2) : name.hasSuffix("timestamp") ? line(1) : line(0)
        }
    }

    // MARK: What sources send

    /// Each kind that has a secret with each way to prove itself.
    private static let sources: [Source] = SourceKind.allCases.filter(\.traits.hasSecrets).flatMap { kind in
        kind.traits.authentications.filter { $0 != .none }.map { authentication in
            Source(
                name: "fuzz", kind: kind, authentication: authentication, secrets: [Secret(key)], app: nil,
                defaultEnvironment: "PRODUCTION", freshness: nil)
        }
    }

    private static func inbound(_ input: [UInt8]) {
        let signed = Signed(input)
        let source = sources[Int(signed.choice) % sources.count]
        let adapter = SourceAdapters.adapter(for: source.kind)
        let verdict = adapter.authenticate(header: signed.header, body: signed.body, source: source, now: now)
        if verdict == .authentic {
            require(isProven(signed, source), "\(source.kind): authentic without the secret or a signature by it")
        }
        let made = adapter.signatureHeaders(
            body: signed.body, unixSeconds: Int64(signed.choice), authentication: source.authentication,
            secret: Secret(key))
        func own(_ name: String) -> String? {
            made.first { $0.name.caseInsensitiveCompare(name) == .orderedSame }?.value
        }
        require(
            adapter.authenticate(header: own, body: signed.body, source: source, now: now) == .authentic,
            "\(source.kind): what is signed as the source does is refused")
        guard source.authentication == .signature else { return }
        let other = signed.body + [signed.choice]
        require(
            adapter.authenticate(header: own, body: other, source: source, now: now) != .authentic,
            "\(source.kind): a signature holds for another body")
    }

    /// The oracle: the headers hold the token, or a code of Crypto's over one of the texts that vendors sign.
    private static func isProven(_ signed: Signed, _ source: Source) -> Bool {
        let given = signed.line(0) ?? ""
        if source.authentication == .token { return given.utf8.suffix(key.count).elementsEqual(key) }
        var times = [signed.line(1) ?? ""]
        times += given.split(separator: ",").filter { $0.hasPrefix("t=") }.map { String($0.dropFirst(2)) }
        let prefixes = times.flatMap { [$0, $0 + ".", "\(signed.line(2) ?? "").\($0)."] }
        return prefixes.contains { holds(given, SymmetricKey(data: key), Array($0.utf8) + signed.body) }
    }

    private static func holds(_ given: String, _ key: SymmetricKey, _ text: [UInt8]) -> Bool {
        let code = Data(HMAC<SHA256>.authenticationCode(for: text, using: key))
        return given.contains(code.base64EncodedString())
            || given.lowercased().contains(code.map { String(format: "%02x", $0) }.joined())
    }

    // MARK: What this relay sends

    private static let signing = Integration.SigningKey.symmetric(Secret(key))
    private static let seed = Integration.SigningKey.asymmetric(seed: Secret([UInt8](repeating: 7, count: 32)))

    private static func outbound(_ input: [UInt8]) {
        let signed = Signed(input)
        let body = [signed.body]
        guard let verifier = try? StandardWebhooksVerifier(keys: [signing, seed], tolerance: .seconds(300)),
            let signer = try? StandardWebhooksSigner(keys: [signing, seed])
        else { breach("the keys of the test are refused") }
        let (id, written) = (signed.line(2) ?? "", signed.line(1) ?? "")
        let given = signed.line(0) ?? ""
        if (try? verifier.verify(id: id, timestamp: written, signature: given, body: body, now: now)) != nil {
            let text = Array("\(id).\(written).".utf8) + signed.body
            require(
                holds(given, SymmetricKey(data: key), text) || given.contains("v1a,"),
                "verified without a signature by the key")
            let age = abs((Int64(written) ?? 0) - now.milliseconds / 1_000)
            require(age <= 300, "verified though it is \(age) s away from now")
        }
        let unix = now.milliseconds / 1_000
        guard let signature = try? signer.signature(id: id, unixSeconds: unix, body: body) else {
            breach("signing fails")
        }
        func isTaken(_ body: [[UInt8]]) -> Bool {
            (try? verifier.verify(id: id, timestamp: String(unix), signature: signature, body: body, now: now)) != nil
        }
        require(isTaken(body), "what the relay signs is refused")
        require(!isTaken(body + [[signed.choice]]), "a signature holds for another body")
    }
}
