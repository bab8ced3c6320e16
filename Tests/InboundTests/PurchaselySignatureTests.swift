import Testing
import Vocabulary

@testable import Inbound

/// Oracle: the vector of Purchasely's documentation ("Backend entitlements security").
@Suite struct PurchaselySignatureTests {
    static let secret = "foobar"
    static let timestamp = "1698322022"
    static let body = Array(#"{"a_random_key":"a_random_value_ad"}"#.utf8)
    static let signature = "f3c2a452e9ea72f41107321aeaf7999f1054148866a710c9b23f9f501785e2a4"
    static let signedAt = Timestamp(milliseconds: 1_698_322_022_000)

    static func judge(
        signature: String? = signature, timestamp: String? = timestamp, body: [UInt8] = body,
        source: Source = purchaselySource(), now: Timestamp = signedAt, adapter: (any SourceAdapter)? = nil
    ) -> Authenticity {
        let headers = [
            "x-purchasely-request-signature": signature, "x-purchasely-timestamp": timestamp,
            // The deprecated one, right for this secret and timestamp: it must not count.
            "x-purchasely-signature": "ea909b88098b63ef93711cd14542403e5efe1a23c07d94a764bd4db55abba5a6",
        ]
        return (adapter ?? SourceAdapters.adapter(for: source.kind)).authenticate(
            header: { headers[$0.lowercased()] ?? nil }, body: body, source: source, now: now)
    }

    @Test func takesTheDocumentedVector() {
        #expect(Self.judge() == .authentic)
        #expect(Self.judge(signature: Self.signature.uppercased()) == .authentic)
    }

    @Test func makesTheDocumentedVector() {
        let headers = SourceAdapters.adapter(for: .purchasely).signatureHeaders(
            body: Self.body, unixSeconds: 1_698_322_022, authentication: .signature,
            secret: Secret(Array(Self.secret.utf8)))
        #expect(headers.map(\.name) == ["X-PURCHASELY-TIMESTAMP", "X-PURCHASELY-REQUEST-SIGNATURE"])
        #expect(headers.map(\.value) == [Self.timestamp, Self.signature])
    }

    @Test func refusesEveryChangedBitOfTheBody() {
        for at in Self.body.indices {
            for bit in 0..<8 {
                var changed = Self.body
                changed[at] ^= 1 << UInt8(bit)
                #expect(Self.judge(body: changed) == .refused(.wrongSignature))
            }
        }
        #expect(Self.judge(body: Self.body + [0x20]) == .refused(.wrongSignature))
        #expect(Self.judge(body: Array(Self.body.dropLast())) == .refused(.wrongSignature))
        #expect(Self.judge(body: []) == .refused(.wrongSignature))
    }

    @Test func refusesEveryChangedDigitOfTheSignature() {
        for at in 0..<64 {
            var changed = Array(Self.signature.utf8)
            changed[at] = changed[at] == UInt8(ascii: "0") ? UInt8(ascii: "1") : UInt8(ascii: "0")
            #expect(Self.judge(signature: String(decoding: changed, as: UTF8.self)) == .refused(.wrongSignature))
        }
    }

    @Test func refusesEveryChangedTimestampAndSecret() {
        for at in 0..<10 {
            var changed = Array(Self.timestamp.utf8)
            changed[at] = changed[at] == UInt8(ascii: "9") ? UInt8(ascii: "0") : changed[at] + 1
            #expect(Self.judge(timestamp: String(decoding: changed, as: UTF8.self)) == .refused(.wrongSignature))
        }
        for secret in ["", "foobaR", "foobar ", "oobar", "foobar\n"] {
            #expect(Self.judge(source: purchaselySource(secrets: [secret])) == .refused(.wrongSignature))
        }
        #expect(Self.judge(source: purchaselySource(secrets: [])) == .refused(.wrongSignature))
    }

    @Test func takesAnyOfTheSourcesSecrets() {
        #expect(Self.judge(source: purchaselySource(secrets: ["new", "foobar"])) == .authentic)
        #expect(Self.judge(source: purchaselySource(secrets: ["foobar", "new"])) == .authentic)
        #expect(Self.judge(source: purchaselySource(secrets: ["new", "newer"])) == .refused(.wrongSignature))
    }

    /// A source's adapter keeps the keys of its secrets.
    @Test func theKeysOfOneSecretProveNothingForAnother() {
        let adapter = SourceAdapters.adapter(for: .purchasely)
        for secrets in [["foobar"], ["other"], ["foobar"], [], ["new", "foobar"], ["new"], ["foobar", "new"]] {
            let expected: Authenticity = secrets.contains("foobar") ? .authentic : .refused(.wrongSignature)
            let source = purchaselySource(secrets: secrets)
            for _ in 0..<2 { #expect(Self.judge(source: source, adapter: adapter) == expected) }
        }
    }

    @Test(arguments: [nil, ""]) func theDeprecatedSignatureDoesNotCount(_ signature: String?) {
        #expect(Self.judge(signature: signature) == .refused(.missingSignature))
    }

    @Test(arguments: [
        "f3", "g3c2a452e9ea72f41107321aeaf7999f1054148866a710c9b23f9f501785e2a4", signature + "a4",
        String(signature.dropLast()), " " + signature.dropFirst(), String(repeating: "é", count: 32),
        "sha256=" + signature,
    ])
    func refusesWhatIsNotHex(_ text: String) {
        #expect(Self.judge(signature: text) == .refused(.malformedSignature))
    }

    @Test(
        arguments: [
            (nil, .missingTimestamp), ("", .missingTimestamp), ("-1698322022", .malformedTimestamp),
            ("1698322022.0", .malformedTimestamp), (" 1698322022", .malformedTimestamp), ("١", .malformedTimestamp),
            ("000000000001698322022", .malformedTimestamp), ("now", .malformedTimestamp),
        ] as [(String?, Authenticity.Refusal)])
    func refusesATimestampThatIsNone(_ timestamp: String?, _ refusal: Authenticity.Refusal) {
        #expect(Self.judge(timestamp: timestamp) == .refused(refusal))
    }

    @Test(
        arguments: [
            (0, true), (300_000, true), (300_001, false), (-300_000, true), (-300_001, false),
            (.max - 1_698_322_022_000, false),
        ] as [(Int64, Bool)])
    func refusesOutsideTheFreshnessWindow(_ later: Int64, _ isFresh: Bool) {
        let now = Self.signedAt.advanced(byMilliseconds: later)
        let verdict = Self.judge(source: purchaselySource(freshness: .seconds(300)), now: now)
        #expect(verdict == (isFresh ? .authentic : .refused(.staleTimestamp)))
        #expect(Self.judge(now: now) == .authentic, "without a window, age does not matter: retries last 20 days")
    }

    @Test(arguments: ["99999999999999999999", "9223372036854775807", "0"])
    func aSignedTimestampOutsideAllTimesIsStale(_ timestamp: String) {
        let signature = HexSignature.sign(
            prefix: Array(timestamp.utf8), body: Self.body, secret: Secret(Array(Self.secret.utf8)))
        let source = purchaselySource(freshness: .seconds(300))
        #expect(
            Self.judge(signature: signature, timestamp: timestamp, source: source) == .refused(.staleTimestamp))
    }

    @Test func judgesTheSignatureBeforeTheTimestamp() {
        let source = purchaselySource(secrets: ["other"], freshness: .seconds(1))
        let later = Self.signedAt.advanced(byMilliseconds: 1_000_000)
        #expect(Self.judge(source: source, now: later) == .refused(.wrongSignature))
    }

    @Test func withoutAuthenticationNothingIsAsked() {
        let source = purchaselySource(authentication: .none, secrets: [])
        #expect(Self.judge(signature: nil, timestamp: nil, source: source) == .authentic)
        let token = purchaselySource(authentication: .token)
        #expect(Self.judge(source: token) == .refused(.unsupportedAuthentication))
    }

    @Test func aReasonHoldsNoValue() {
        for refusal in Authenticity.Refusal.allCases {
            for value in [Self.secret, Self.timestamp, Self.signature] {
                #expect(!refusal.description.contains(value))
            }
        }
    }
}
