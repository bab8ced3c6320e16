import Testing
import Vocabulary

@testable import Outbound

/// Oracle: the reference library, PyPI `standardwebhooks`, whose `Webhook.sign` made the signatures below from the key,
/// id and time that the libraries' own tests use.
@Suite struct StandardWebhooksTests {
    private static let id = "msg_p5jXN8AQM9LWM0D4loKWxJek"
    private static let seconds: Int64 = 1_614_265_330
    private static let now = Timestamp(milliseconds: seconds * 1_000)
    private static let payload = "{\"test\": 2432232314}"
    private static let reference = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

    private static func key(_ base64: String = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") throws -> Integration.SigningKey {
        .symmetric(Secret(try #require(Base64.decode(base64))))
    }

    @Test(arguments: [
        (payload, reference),
        ("", "v1,v48jdbgvh29KJz2Qc+ghw8G6vG3nAKnujWBg8oM/62A="),
        (String(repeating: "é€😀", count: 100), "v1,mvcUZiDN98qoYsYWXXn9Z5UnrHdmCAhdGHCs1zATTPE="),
    ]) func signsLikeTheReferenceLibrary(payload: String, signature: String) throws {
        let signer = try StandardWebhooksSigner(keys: [try Self.key()])
        let bytes = Array(payload.utf8)
        // However the body is cut into segments.
        for cut in [0, bytes.count / 3, bytes.count] {
            let body = [Array(bytes[..<cut]), [], Array(bytes[cut...])]
            #expect(try signer.signature(id: Self.id, unixSeconds: Self.seconds, body: body) == signature)
        }
    }

    @Test func signsWithEveryKeyInOrder() throws {
        let other = try Self.key("AAECAwQFBgcICQoLDA0ODxAREhMUFRYX")
        let both = try StandardWebhooksSigner(keys: [try Self.key(), other])
        let headers = try both.headers(id: Self.id, unixSeconds: Self.seconds, body: [Array(Self.payload.utf8)])
        #expect(headers.map(\.0) == ["webhook-id", "webhook-timestamp", "webhook-signature"])
        #expect(headers.map(\.1).prefix(2) == [Self.id, "1614265330"])
        let parts = headers[2].1.split(separator: " ")
        #expect(parts.count == 2)
        #expect(parts[0] == Self.reference)
        // Either of the two verifies on its own, as a receiver in the midst of a rotation does.
        for key in [try Self.key(), other] { try verify(headers[2].1, keys: [key]) }
    }

    @Test func verifiesWhatTheReferenceLibrarySigned() throws {
        try verify(Self.reference)
        try verify("v1,AAAA v2,x v1a,\(Self.reference.dropFirst(3)) \(Self.reference)")
        try verify(Self.reference, now: Self.now.advanced(byMilliseconds: 300_000))
        try verify(Self.reference, now: Self.now.advanced(byMilliseconds: -300_000))
    }

    @Test func refuses() {
        typealias Refusal = StandardWebhooksVerifier.Refusal
        let flipped = Self.reference.replacing("g0hM", with: "h0hM")
        for signature in [flipped, "", "v1", "v1,", "v2" + Self.reference.dropFirst(2), Self.reference + "A"] {
            #expect(throws: Refusal.wrongSignature) { try verify(signature) }
        }
        #expect(throws: Refusal.wrongSignature) { try verify(Self.reference, payload: Self.payload + " ") }
        #expect(throws: Refusal.wrongSignature) { try verify(Self.reference, id: "msg_2") }
        #expect(throws: Refusal.wrongSignature) { try verify(Self.reference, keys: []) }
        #expect(throws: Refusal.tooOld) {
            try verify(Self.reference, now: Self.now.advanced(byMilliseconds: 300_001))
        }
        #expect(throws: Refusal.tooNew) {
            try verify(Self.reference, now: Self.now.advanced(byMilliseconds: -300_001))
        }
        for timestamp in ["", "x", "+1614265330", "01614265330", "-5", "1614265330.0", "99999999999999999999"] {
            #expect(throws: Refusal.unreadableTimestamp) { try verify(Self.reference, timestamp: timestamp) }
        }
        // A time beyond all reason must not trap.
        #expect(throws: Refusal.tooNew) { try verify(Self.reference, timestamp: String(Int64.max)) }
    }

    private func verify(
        _ signature: String, payload: String = payload, id: String = id, timestamp: String = String(seconds),
        keys: [Integration.SigningKey]? = nil, now: Timestamp = now
    ) throws {
        try StandardWebhooksVerifier(keys: keys ?? [Self.key()], tolerance: .seconds(300)).verify(
            id: id, timestamp: timestamp, signature: signature, body: [Array(payload.utf8)], now: now)
    }
}
