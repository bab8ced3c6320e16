import Testing
import Vocabulary

@testable import Inbound

/// Oracle: vectors made with Python's `hmac` over `1790000000.` and the body, and Stripe's page "Verify webhook
/// signatures manually".
@Suite("The signature of Stripe")
struct StripeSignatureTests {
    static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    static let body = Array(#"{"id":"evt_1","object":"event","created":1790000000,"type":"customer.created"}"#.utf8)
    static let hex = "9a0802e396e95235a90de56ce568a429057bc9b93c168e98f35ba1c1b1f88a67"
    static let wrong = String(repeating: "0", count: 64)
    static let signed = "t=1790000000,v1=" + hex
    static let signedAt = Timestamp(milliseconds: 1_790_000_000_000)

    static func judge(
        _ signature: String?, body: [UInt8] = body, source: Source = stripeSource(), now: Timestamp = signedAt
    ) -> Authenticity {
        let headers = ["stripe-signature": signature]
        return Stripe().authenticate(
            header: { headers[$0.lowercased()] ?? nil }, body: body, source: source, now: now)
    }

    @Test("The vector is made and taken")
    func vector() {
        #expect(Self.judge(Self.signed) == .authentic)
        let headers = Stripe().signatureHeaders(
            body: Self.body, unixSeconds: 1_790_000_000, authentication: .signature,
            secret: Secret(Array(Self.secret.utf8)))
        #expect(headers.map(\.name) == ["Stripe-Signature"])
        #expect(headers.map(\.value) == [Self.signed])
    }

    @Test("The key is the whole text of the secret: neither without its prefix nor decoded")
    func key() {
        let decoded = "b943a4071566e85c41b0255f0377bac89cdc41bae3050c9e7295b3f1f6098b05"
        let bare = "70bc0f711a8f6ef9b19157c70bb3ab7ad55857f4bca60d6340fc0d9dc5dfdb90"
        for other in [decoded, bare] {
            #expect(Self.judge("t=1790000000,v1=\(other)") == .refused(.wrongSignature))
        }
        let source = stripeSource(secrets: ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
        #expect(Self.judge(Self.signed, source: source) == .refused(.wrongSignature))
        #expect(Self.judge("t=1790000000,v1=\(bare)", source: source) == .authentic, "any text is a key")
    }

    @Test("Every changed byte of the body, digit of the signature and digit of the time is refused")
    func changes() {
        for at in Self.body.indices {
            var changed = Self.body
            changed[at] ^= 1
            #expect(Self.judge(Self.signed, body: changed) == .refused(.wrongSignature))
        }
        #expect(Self.judge(Self.signed, body: Self.body + [0x0A]) == .refused(.wrongSignature))
        #expect(Self.judge(Self.signed, body: []) == .refused(.wrongSignature))
        for at in 0..<64 {
            var changed = Array(Self.hex.utf8)
            changed[at] = changed[at] == UInt8(ascii: "0") ? UInt8(ascii: "1") : UInt8(ascii: "0")
            let header = "t=1790000000,v1=" + String(decoding: changed, as: UTF8.self)
            #expect(Self.judge(header) == .refused(.wrongSignature))
        }
        #expect(Self.judge("t=1790000001,v1=" + Self.hex) == .refused(.wrongSignature))
        #expect(Self.judge("t=01790000000,v1=" + Self.hex) == .refused(.wrongSignature), "the text is signed")
    }

    @Test("Any secret of the source is taken, and any of several signatures")
    func several() {
        #expect(Self.judge(Self.signed, source: stripeSource(secrets: ["whsec_new", Self.secret])) == .authentic)
        #expect(Self.judge(Self.signed, source: stripeSource(secrets: [Self.secret, "whsec_new"])) == .authentic)
        #expect(Self.judge(Self.signed, source: stripeSource(secrets: ["whsec_new"])) == .refused(.wrongSignature))
        #expect(Self.judge(Self.signed, source: stripeSource(secrets: [])) == .refused(.wrongSignature))
        #expect(Self.judge("t=1790000000,v1=\(Self.wrong),v1=\(Self.hex)") == .authentic)
        #expect(Self.judge("v1=\(Self.hex),v1=\(Self.wrong),t=1790000000") == .authentic)
        #expect(Self.judge("t=1790000000,v1=\(Self.wrong),v1=\(Self.wrong)") == .refused(.wrongSignature))
        let other = "fd8e6f0f2f40d419b21412e1a9bb48256401d4e4eede9e9dd9b040679df9fa05"
        let rolled = "t=1790000000,v1=\(other),v1=\(Self.hex)"
        for secret in [Self.secret, "whsec_other"] {
            #expect(Self.judge(rolled, source: stripeSource(secrets: [secret])) == .authentic)
        }
    }

    @Test("Other schemes and unreadable signatures are ignored, and are none")
    func schemes() {
        #expect(Self.judge("t=1790000000,v0=\(Self.wrong),v1=\(Self.hex),v2=") == .authentic)
        #expect(Self.judge("t=1790000000,v1=abc,v1=\(Self.hex)") == .authentic)
        #expect(Self.judge("t=1790000000,v0=\(Self.hex)") == .refused(.malformedSignature), "v0 proves nothing")
        #expect(Self.judge("t=1790000000,V1=\(Self.hex)") == .refused(.malformedSignature))
        #expect(Self.judge("t=1790000000,v1=\(Self.hex.uppercased())") == .authentic, "hex is hex")
    }

    @Test(
        "The header is read strictly",
        arguments: [
            (nil, .missingSignature), ("", .missingSignature), (hex, .malformedSignature),
            ("t=1790000000", .malformedSignature), ("t=1790000000,v1=", .malformedSignature),
            ("t=1790000000,v1=\(hex)00", .malformedSignature), ("t=1790000000, v1=\(hex)", .malformedSignature),
            ("t=1790000000,v1= \(hex)", .malformedSignature), (" t=1790000000,v1=\(hex)", .missingTimestamp),
            ("t=1790000000,v1=\(hex),", .malformedSignature), ("t=1790000000;v1=\(hex)", .malformedSignature),
            ("t=1790000000,=x,v1=\(hex)", .malformedSignature),
            ("t=1790000000,t=1790000000,v1=\(hex)", .malformedSignature),
            ("t=1,t=1790000000,v1=\(hex)", .malformedSignature), ("v1=\(hex)", .missingTimestamp),
            ("t=,v1=\(hex)", .malformedTimestamp), ("t=now,v1=\(hex)", .malformedTimestamp),
            ("t=-1790000000,v1=\(hex)", .malformedTimestamp), ("t=1790000000.0,v1=\(hex)", .malformedTimestamp),
            ("t=000000000001790000000,v1=\(hex)", .malformedTimestamp), ("t=١,v1=\(hex)", .malformedTimestamp),
        ] as [(String?, Authenticity.Refusal)])
    func strictness(_ header: String?, _ refusal: Authenticity.Refusal) {
        #expect(Self.judge(header) == .refused(refusal))
    }

    @Test("A header of too many signatures or too many bytes is refused, whatever is in it")
    func size() {
        let sixteen = String(repeating: ",v1=\(Self.wrong)", count: 15) + ",v1=\(Self.hex)"
        #expect(Self.judge("t=1790000000" + sixteen) == .authentic)
        #expect(Self.judge("t=1790000000,v1=abc" + sixteen) == .refused(.malformedSignature))
        let padding = ",v0=" + String(repeating: "0", count: 2_400)
        #expect(Self.judge(Self.signed + padding) == .authentic)
        #expect(Self.judge(Self.signed + padding + padding) == .refused(.malformedSignature))
        #expect(Self.judge(String(repeating: "v1=\(Self.hex),", count: 100_000)) == .refused(.malformedSignature))
    }

    @Test(
        "A webhook is fresh within the source's window, and the signature is judged first",
        arguments: [
            (0, true), (300_000, true), (300_001, false), (301_000, false), (-300_000, true), (-300_001, false),
        ] as [(Int64, Bool)])
    func freshness(_ later: Int64, _ isFresh: Bool) {
        let now = Self.signedAt.advanced(byMilliseconds: later)
        let source = stripeSource(freshness: .seconds(300))
        #expect(Self.judge(Self.signed, source: source, now: now) == (isFresh ? .authentic : .refused(.staleTimestamp)))
        #expect(Self.judge(Self.signed, now: now) == .authentic, "without a window, age does not matter")
        let other = stripeSource(secrets: ["whsec_new"], freshness: .seconds(300))
        #expect(Self.judge(Self.signed, source: other, now: now) == .refused(.wrongSignature))
    }

    @Test("Without authentication nothing is asked, and a token is none")
    func otherAuthentications() {
        #expect(Self.judge(nil, source: stripeSource(authentication: .none, secrets: [])) == .authentic)
        let token = stripeSource(authentication: .token)
        #expect(Self.judge(Self.signed, source: token) == .refused(.unsupportedAuthentication))
        let headers = Stripe().signatureHeaders(
            body: Self.body, unixSeconds: 1, authentication: .none, secret: Secret(Array(Self.secret.utf8)))
        #expect(headers.isEmpty)
    }
}
