internal import Ledger
internal import Vocabulary

/// Stripe's form of a signature: one header `t=<unix>,v1=<hex>`, where the hex is HMAC-SHA256 over `<unix>.` and the
/// raw body. Each attempt is signed anew, so a freshness window does not reject retries.
///
/// Read strictly: parts of the form `scheme=value`, exactly one `t`, one or more `v1` (several while a secret is
/// rotated; one good one is enough), nothing around them. Other schemes are ignored.
protocol TimedHexSignature: WebhookSignature {
    static var signatureHeader: String { get }
    /// Signatures that a header may have; limits the comparisons that one request can cause.
    static var signaturesMax: Int { get }
    /// Bytes that a header may have.
    static var headerBytesMax: Int { get }
    /// Whether a `v1` that is not 64 hex digits (in either case) is ignored; if not, it makes the header malformed.
    static var ignoresUnreadable: Bool { get }
}

extension TimedHexSignature {
    static func headers(body: [UInt8], unixSeconds: Int64, secret: Secret) -> [(name: String, value: String)] {
        let timestamp = String(unixSeconds)
        let signature = HexSignature.sign(prefix: prefix(timestamp), body: body, secret: secret)
        return [(signatureHeader, "t=\(timestamp),v1=\(signature)")]
    }

    static func authenticate(
        header: (String) -> String?, body: [UInt8], source: Source, keys: [KeyedSHA256], now: Timestamp
    ) -> Authenticity {
        guard let given = header(signatureHeader), !given.isEmpty else { return .refused(.missingSignature) }
        guard let parts = parts(of: given) else { return .refused(.malformedSignature) }
        guard let written = parts.timestamp else { return .refused(.missingTimestamp) }
        guard let timestamp = SignedTimestamp(written) else { return .refused(.malformedTimestamp) }
        let isSigned = HexSignature.matches(
            anyOf: parts.signatures, prefix: prefix(timestamp.text), body: body, keys: keys)
        return timestamp.verdict(isSigned: isSigned, source: source, now: now)
    }

    private static func prefix(_ timestamp: String) -> [UInt8] { Array(timestamp.utf8) + [UInt8(ascii: ".")] }

    /// Nil unless every part is `scheme=value`, `t` occurs at most once and there is a readable `v1`.
    private static func parts(of header: String) -> (timestamp: Substring?, signatures: [[UInt8]])? {
        guard header.utf8.count <= headerBytesMax else { return nil }
        var timestamp: Substring?
        var signatures: [[UInt8]] = []
        var count = 0
        for part in header.split(separator: ",", omittingEmptySubsequences: false) {
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2, !pair[0].isEmpty else { return nil }
            switch pair[0] {
            case "t":
                guard timestamp == nil else { return nil }
                timestamp = pair[1]
            case "v1":
                count += 1
                guard count <= signaturesMax else { return nil }
                if let signature = HexSignature.decode(pair[1]) {
                    signatures.append(signature)
                } else if !ignoresUnreadable {
                    return nil
                }
            default: continue
            }
        }
        return signatures.isEmpty ? nil : (timestamp, signatures)
    }
}
