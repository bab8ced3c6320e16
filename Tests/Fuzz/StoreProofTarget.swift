import Crypto
import Foundation
import Vocabulary

@testable import Inbound
@testable import JSONText

/// How the stores prove themselves that have no secret: Apple by certificates in the body, Google by a token.
enum StoreProofTarget {
    private static let bundleID = "com.example.app"
    private static let audience = "https://hooks.example.com/ingest/google"
    private static let sender = "push@example-project.iam.gserviceaccount.com"
    /// A minute after the corpus' token was issued.
    private static let now = Timestamp(milliseconds: 1_790_841_660_000)

    private static func source(_ kind: SourceKind, _ settings: KindSettings) -> Source {
        Source(
            name: "fuzz", kind: kind, authentication: kind.traits.authentications[0], secrets: [], app: nil,
            defaultEnvironment: nil, freshness: nil, settings: settings)
    }

    // MARK: Apple

    /// The root that the body brings is the pinned one: otherwise no other certificate would be looked at.
    static func apple(_ body: [UInt8]) {
        let roots = root(of: body).map { [Array(SHA256.hash(data: $0))] } ?? []
        func judge(_ adapter: Apple, _ roots: [[UInt8]], of app: String) -> Authenticity {
            let settings = AppleSettings(bundleIDs: [app], roots: roots)
            return adapter.authenticate(
                header: { _ in nil }, body: body, source: source(.apple, .apple(settings)), now: now)
        }
        let adapter = Apple()
        let verdict = judge(adapter, roots, of: bundleID)
        require(judge(adapter, roots, of: bundleID) == verdict, "apple: what is remembered changes the verdict")
        require(judge(adapter, [], of: bundleID) != .authentic, "apple: authentic without a pinned root")
        require(judge(adapter, roots, of: "com.example.other") != .authentic, "apple: authentic for another app")
        require(adapter.proof.chains.count <= 1, "apple: more chains are remembered than there were")
        guard verdict == .authentic else { return }
        require(adapter.proof.chains.count == 1, "apple: authentic without a proven chain")
        require(adapter.decoded(body, answer: nil) != nil, "apple: authentic, and cannot be opened")
    }

    private static func root(of body: [UInt8]) -> [UInt8]? {
        guard let envelope = try? JSONScan.topObject(body, depthMax: Limits.jsonDepthMax),
            let text = envelope.writtenText("signedPayload"), let jws = try? CompactJWS(text),
            let certificates = try? jws.header.texts("x5c")
        else { return nil }
        return certificates.last.flatMap { Base64.decode($0) }
    }

    // MARK: Google

    /// The header field, and from the second line on a key set.
    static func google(_ input: [UInt8]) {
        let end = input.firstIndex(of: 0x0A) ?? input.endIndex
        let field = String(decoding: input[..<end], as: UTF8.self)
        let keys = keySet(Array(input[end...].dropFirst()))
        func judge(_ lookup: @escaping JSONWebKeyLookup, from sender: String) -> Authenticity {
            let settings = GooglePlaySettings(packages: [bundleID], audiences: [audience], sender: sender)
            return GooglePlay(keys: lookup).authenticate(
                header: { $0.lowercased() == "authorization" ? field : nil }, body: [],
                source: source(.googlePlay, .googlePlay(settings)), now: now)
        }
        let lookup: JSONWebKeyLookup = { id in
            if let key = keys?.key(id) { .key(key) } else { .unknown }
        }
        require(judge({ _ in .unknown }, from: sender) != .authentic, "google-play: authentic without a key")
        require(judge(lookup, from: "pull@example.com") != .authentic, "google-play: authentic for another sender")
        guard judge(lookup, from: sender) == .authentic else { return }
        let parts = field.split(separator: ".", omittingEmptySubsequences: false)
        let claims = parts.count == 3 ? Base64URL.decode(Array(parts[1].utf8)[...]) : nil
        let said = claims.flatMap { try? JSONScan.topObject($0, depthMax: JSONWebToken.claimsDepthMax) }
        require((try? said?.string("email")) == sender, "google-play: authentic, and does not name its sender")
    }

    private static func keySet(_ document: [UInt8]) -> JSONWebKeys? {
        do throws(JSONWebKeys.Unusable) {
            return try JSONWebKeys(document)
        } catch {
            requirePlain(error.reason, "google-play: what is wrong with a key set")
            return nil
        }
    }
}
