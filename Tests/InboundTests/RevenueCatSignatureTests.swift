import Testing
import Vocabulary

@testable import Inbound

/// Oracle: a vector made with Python's `hmac` over `1698322022.` and the body, and Stripe's form of header, which this
/// one follows.
@Suite struct RevenueCatSignatureTests {
    static let body = Array(#"{"event":{"type":"TEST"},"api_version":"1.0"}"#.utf8)
    static let hex = "4948e2964309d59aec682a21723830c5b945170bca71378449d742a24735a1f9"
    static let signed = "t=1698322022,v1=" + hex
    static let signedAt = Timestamp(milliseconds: 1_698_322_022_000)

    static func judge(
        _ signature: String?, authorization: String? = nil, body: [UInt8] = body,
        source: Source = revenueCatSource(authentication: .signature), now: Timestamp = signedAt
    ) -> Authenticity {
        let headers = ["x-revenuecat-webhook-signature": signature, "authorization": authorization]
        return SourceAdapters.adapter(for: source.kind).authenticate(
            header: { headers[$0.lowercased()] ?? nil }, body: body, source: source, now: now)
    }

    @Test func takesAndMakesTheVector() {
        #expect(Self.judge(Self.signed) == .authentic)
        let headers = RevenueCat().signatureHeaders(
            body: Self.body, unixSeconds: 1_698_322_022, authentication: .signature,
            secret: Secret(Array("rc-secret".utf8)))
        #expect(headers.map(\.name) == ["X-RevenueCat-Webhook-Signature"])
        #expect(headers.map(\.value) == [Self.signed])
    }

    @Test func refusesEveryChangedBit() {
        for at in Self.body.indices {
            var changed = Self.body
            changed[at] ^= 1
            #expect(Self.judge(Self.signed, body: changed) == .refused(.wrongSignature))
        }
        for at in 0..<64 {
            var changed = Array(Self.hex.utf8)
            changed[at] = changed[at] == UInt8(ascii: "0") ? UInt8(ascii: "1") : UInt8(ascii: "0")
            let header = "t=1698322022,v1=" + String(decoding: changed, as: UTF8.self)
            #expect(Self.judge(header) == .refused(.wrongSignature))
        }
        #expect(Self.judge("t=1698322023,v1=" + Self.hex) == .refused(.wrongSignature))
        #expect(Self.judge("t=01698322022,v1=" + Self.hex) == .refused(.wrongSignature), "the text is signed")
    }

    @Test(arguments: [["other"], ["rc-secret "], []]) func refusesOtherSecrets(_ secrets: [String]) {
        let source = revenueCatSource(authentication: .signature, secrets: secrets)
        #expect(Self.judge(Self.signed, source: source) == .refused(.wrongSignature))
    }

    @Test func takesAnySecretAndAnyOfSeveralSignatures() {
        let source = revenueCatSource(authentication: .signature, secrets: ["new", "rc-secret"])
        #expect(Self.judge(Self.signed, source: source) == .authentic)
        let wrong = "v1=" + String(repeating: "0", count: 64)
        #expect(Self.judge("t=1698322022,\(wrong),v1=\(Self.hex)") == .authentic)
        #expect(Self.judge("v1=\(Self.hex),\(wrong),t=1698322022") == .authentic)
        #expect(Self.judge("t=1698322022,\(wrong),\(wrong)") == .refused(.wrongSignature))
        #expect(Self.judge("t=1698322022,v0=abc,v1=\(Self.hex),v2=") == .authentic, "schemes to come are passed over")
    }

    @Test(
        arguments: [
            (nil, .missingSignature), ("", .missingSignature), (hex, .malformedSignature),
            ("t=1698322022", .malformedSignature), ("t=1698322022,v1=", .malformedSignature),
            ("t=1698322022,v1=abc", .malformedSignature), ("t=1698322022,v1=\(hex)00", .malformedSignature),
            ("t=1698322022, v1=\(hex)", .malformedSignature), (" t=1698322022,v1=\(hex)", .missingTimestamp),
            ("t=1698322022,v1=\(hex),", .malformedSignature), ("t=1698322022;v1=\(hex)", .malformedSignature),
            ("t=1698322022,=x,v1=\(hex)", .malformedSignature), ("t=1,t=1698322022,v1=\(hex)", .malformedSignature),
            ("v1=\(hex)", .missingTimestamp), ("t=,v1=\(hex)", .malformedTimestamp),
            ("t=-1698322022,v1=\(hex)", .malformedTimestamp), ("t=1698322022.0,v1=\(hex)", .malformedTimestamp),
            ("t=000000000001698322022,v1=\(hex)", .malformedTimestamp), ("t=١,v1=\(hex)", .malformedTimestamp),
            ("t=1" + String(repeating: ",v1=\(hex)", count: 9), .malformedSignature),
        ] as [(String?, Authenticity.Refusal)])
    func readsTheHeaderStrictly(_ header: String?, _ refusal: Authenticity.Refusal) {
        #expect(Self.judge(header) == .refused(refusal))
    }

    @Test(
        arguments: [(0, true), (300_000, true), (300_001, false), (-300_000, true), (-300_001, false)]
            as [(Int64, Bool)])
    func holdsTheFreshnessWindow(_ later: Int64, _ isFresh: Bool) {
        let now = Self.signedAt.advanced(byMilliseconds: later)
        let source = revenueCatSource(authentication: .signature, freshness: .seconds(300))
        #expect(Self.judge(Self.signed, source: source, now: now) == (isFresh ? .authentic : .refused(.staleTimestamp)))
        #expect(Self.judge(Self.signed, now: now) == .authentic, "without a window, age does not matter")
        let other = revenueCatSource(authentication: .signature, secrets: ["other"], freshness: .seconds(300))
        #expect(Self.judge(Self.signed, source: other, now: now) == .refused(.wrongSignature), "the signature first")
    }

    // MARK: The static header

    @Test func theTokenIsTakenVerbatim() {
        let source = revenueCatSource(secrets: ["new", "Bearer abc"])
        #expect(Self.judge(nil, authorization: "Bearer abc", source: source) == .authentic)
        #expect(Self.judge(nil, authorization: "new", source: source) == .authentic)
        for wrong in ["abc", "bearer abc", "Bearer abc ", "Bearer  abc", "Bearer ab", "Bearer abcd"] {
            #expect(Self.judge(nil, authorization: wrong, source: source) == .refused(.wrongToken))
        }
        for missing in [nil, ""] {
            #expect(Self.judge(Self.signed, authorization: missing, source: source) == .refused(.missingToken))
        }
        let headers = RevenueCat().signatureHeaders(
            body: Self.body, unixSeconds: 1, authentication: .token, secret: Secret(Array("Bearer abc".utf8)))
        #expect(headers.map(\.name) == ["Authorization"] && headers.map(\.value) == ["Bearer abc"])
    }

    @Test func aTokenIsNoSignatureAndWithoutAuthenticationNothingIsAsked() {
        #expect(Self.judge(nil, authorization: "rc-secret") == .refused(.missingSignature))
        let open = revenueCatSource(authentication: .none, secrets: [])
        #expect(Self.judge(nil, source: open) == .authentic)
        let headers = RevenueCat().signatureHeaders(
            body: Self.body, unixSeconds: 1, authentication: .none, secret: Secret(Array("x".utf8)))
        #expect(headers.isEmpty)
    }
}
