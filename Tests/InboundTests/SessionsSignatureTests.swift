import Crypto
import Testing
import Vocabulary

@testable import Inbound

/// Oracles: the test vector of the reference libraries (standard-webhooks/standard-webhooks), and an HMAC made here.
@Suite struct SessionsSignatureTests {
    static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    static let id = "msg_p5jXN8AQM9LWM0D4loKWxJek"
    static let timestamp = "1614265330"
    static let body = Array(#"{"test": 2432232314}"#.utf8)
    static let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    static let signedAt = Timestamp(milliseconds: 1_614_265_330_000)

    static func judge(
        id: String? = id, timestamp: String? = timestamp, signature: String? = signature, body: [UInt8] = body,
        source: Source = SessionsFixtures.source(secrets: [secret]), now: Timestamp = signedAt
    ) -> Authenticity {
        let headers = ["webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature]
        return SourceAdapters.adapter(for: .sessions).authenticate(
            header: { headers[$0] ?? nil }, body: body, source: source, now: now)
    }

    static func signature(key: [UInt8]) -> String {
        let content = Array("\(id).\(timestamp).".utf8) + body
        return "v1," + Base64.encode(HMAC<SHA256>.authenticationCode(for: content, using: SymmetricKey(data: key)))
    }

    @Test func takesTheReferenceVector() {
        #expect(Self.judge() == .authentic)
        #expect(Self.judge(body: Self.body + [0x20]) == .refused(.wrongSignature))
        #expect(Self.judge(id: "msg_other") == .refused(.wrongSignature))
        #expect(Self.judge(timestamp: "1614265331") == .refused(.wrongSignature))
    }

    @Test(arguments: [
        "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= " + signature, signature + " v1a,xyz", "v2,x  " + signature,
        "v1,short " + signature,
    ])
    func anyOfSeveralSignaturesCounts(_ header: String) { #expect(Self.judge(signature: header) == .authentic) }

    @Test(arguments: [
        "v1", "v1,", String(signature.dropFirst(3)), "v1a," + signature.dropFirst(3), "V1," + signature.dropFirst(3),
        String(signature.dropLast()), signature + "=", "v1,AAAA", " ", "v1 ," + signature.dropFirst(3),
    ])
    func whatHoldsNoSignatureIsRefused(_ header: String) {
        #expect(Self.judge(signature: header) == .refused(.malformedSignature))
    }

    /// What one request can make the relay compare is bounded.
    @Test func signaturesPastTheBoundAreNotLookedAt() {
        let wrong = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
        func header(_ before: Int) -> String {
            (Array(repeating: wrong, count: before) + [Self.signature]).joined(separator: " ")
        }
        #expect(Self.judge(signature: header(15)) == .authentic)
        #expect(Self.judge(signature: header(16)) == .refused(.wrongSignature))
    }

    @Test func eachHeaderIsNeeded() {
        #expect(Self.judge(signature: nil) == .refused(.missingSignature))
        #expect(Self.judge(id: nil) == .refused(.missingMessageID))
        #expect(Self.judge(id: "") == .refused(.missingMessageID))
        #expect(Self.judge(timestamp: nil) == .refused(.missingTimestamp))
        for text in ["now", "-1", "1614265330.0", "000000000001614265330"] {
            #expect(Self.judge(timestamp: text) == .refused(.malformedTimestamp))
        }
        #expect(Self.judge(source: SessionsFixtures.source(authentication: .none)) == .authentic)
        let token = SessionsFixtures.source(authentication: .token)
        #expect(Self.judge(source: token) == .refused(.unsupportedAuthentication))
    }

    @Test(
        arguments: [(0, true), (300_000, true), (300_001, false), (-300_000, true), (-300_001, false)]
            as [(Int64, Bool)])
    func refusesOutsideTheFreshnessWindow(_ later: Int64, _ isFresh: Bool) {
        let now = Self.signedAt.advanced(byMilliseconds: later)
        let source = SessionsFixtures.source(secrets: [Self.secret], freshness: .seconds(300))
        #expect(Self.judge(source: source, now: now) == (isFresh ? .authentic : .refused(.staleTimestamp)))
        #expect(Self.judge(now: now) == .authentic)
    }

    /// A text without `whsec_` is the key, or base64 of it; with it, it is base64 and nothing else.
    @Test(
        arguments: [
            ("plain secret!", "plain secret!", true), ("YWJj", "YWJj", true), ("YWJj", "abc", true),
            ("whsec_YWJj", "abc", true), ("whsec_YWJj", "whsec_YWJj", false), ("whsec_YWJj", "YWJj", false),
            ("whsec_not base64", "whsec_not base64", true), ("YWJj", "ab", false), ("whsec_", "whsec_", true),
            ("whsec_", "", false),
        ] as [(String, String, Bool)])
    func theSecretMayBeWrittenInTwoWays(_ secret: String, _ key: String, _ isAuthentic: Bool) {
        let source = SessionsFixtures.source(secrets: ["rotated", secret])
        let verdict = Self.judge(signature: Self.signature(key: Array(key.utf8)), source: source)
        #expect(verdict == (isAuthentic ? .authentic : .refused(.wrongSignature)))
    }

    @Test(arguments: [secret, "plain secret!", "YWJj"]) func itSignsWhatItTakes(_ secret: String) {
        let headers = Sessions().signatureHeaders(
            body: Self.body, unixSeconds: 1_614_265_330, authentication: .signature, secret: Secret(Array(secret.utf8)))
        let named = Dictionary(uniqueKeysWithValues: headers.map { ($0.name, $0.value) })
        let digest = Identifier.hex(of: SHA256.hash(data: Self.body).prefix(16))
        #expect(named["webhook-id"] == "msg_" + digest)
        #expect(named["webhook-timestamp"] == Self.timestamp)
        let verdict = Self.judge(
            id: named["webhook-id"], signature: named["webhook-signature"],
            source: SessionsFixtures.source(secrets: [secret]))
        #expect(verdict == .authentic)
        #expect(
            Sessions().signatureHeaders(
                body: Self.body, unixSeconds: 0, authentication: .none, secret: Secret([1])
            ).isEmpty)
    }
}
