import JSONText
import Testing
import Vocabulary

@testable import Inbound

@Suite struct QonversionShapeTests {
    static let holders: [Holder] = [.user("u-1"), .anonymous("i-1"), .anonymous("i-\"2\"é")]

    /// Oracle: the relay's own reading, and every other member's bytes.
    @Test(arguments: [QonversionFixtures.documented, QonversionFixtures.newer])
    func aDerivedBodyNamesBothSides(_ original: String) throws {
        let before = try JSONScan.topObject(Array(original.utf8), depthMax: 8)
        for type in ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"] {
            for from in Self.holders {
                for to in Self.holders where from != to {
                    let bytes = Qonversion().derivedBody(
                        from: Array(original.utf8),
                        stating: DerivedTransfer(type: type, from: from, to: to, eventID: "derived-1"))
                    let event = try event(
                        String(decoding: bytes, as: UTF8.self), from: QonversionFixtures.source())
                    let isReceived = type.hasSuffix("RECEIVED")
                    #expect(event.name == type)
                    #expect(event.holder == (isReceived ? to : from))
                    #expect(event.facts.isEmpty && event.links.isEmpty)
                    let after = try JSONScan.topObject(bytes, depthMax: 8)
                    let other = isReceived ? from : to
                    let field =
                        (isReceived ? "transferred_from_" : "transferred_to_")
                        + (other.isAnonymous ? "user_id" : "identity_id")
                    #expect(try after.string(field) == other.id)
                    #expect(try after.string("event_id") == "derived-1")
                    #expect(after.keys.filter { $0.hasPrefix("transferred_") } == [field])
                    let set: Set = ["event_name", "user_id", "identity_id"]
                    for key in before.keys where !set.contains(key) { #expect(before.raw(key) == after.raw(key)) }
                }
            }
        }
    }

    @Test func aDamagedOriginalStillLeavesTheFacts() {
        let body = Qonversion().derivedBody(
            from: Array("{".utf8),
            stating: DerivedTransfer(
                type: "SUBSCRIPTION_RECEIVED", from: .anonymous("i"), to: .user("u"), eventID: "d"))
        #expect(
            String(decoding: body, as: UTF8.self)
                == #"{"event_name":"SUBSCRIPTION_RECEIVED","event_id":"d","user_id":"","identity_id":"u","#
                + #""transferred_from_user_id":"i"}"#)
    }

    @Test(arguments: Qonversion().knownEventNames) func aSampleReadsAsWhatWasAskedFor(_ name: String) throws {
        var request = SampleRequest(
            eventName: name, holder: .anonymous("i-1"), storeTransactionID: "2000000123", purchaseID: "1000000456",
            occurredAt: Timestamp(milliseconds: 1_700_000_000_000), environment: "SANDBOX")
        let alone = try event(
            String(decoding: Qonversion().sample(request), as: UTF8.self), from: QonversionFixtures.source())
        #expect(alone.name == name)
        #expect(alone.holder == .anonymous("i-1"))
        #expect(alone.scope.environment == "SANDBOX")
        #expect(alone.occurredAt == request.occurredAt)
        #expect(alone.purchase?.key == "1000000456")
        #expect(alone.transaction?.storeTransactionID == "2000000123")
        #expect((alone.transaction?.effectiveNextRenewalAt == nil) == (alone.purchase?.kind == .oneTime))
        #expect(alone.links.isEmpty)

        request.counterpart = .user("u-\"1\"")
        let both = try event(
            String(decoding: Qonversion().sample(request), as: UTF8.self), from: QonversionFixtures.source())
        #expect(both.holder == .anonymous("i-1"))
        #expect(both.links == [HolderLink(anonymousID: "i-1", userID: "u-\"1\"")])
        request.holder = .user("u-1")
        request.counterpart = nil
        request.purchaseID = "subs_007"
        let user = try event(
            String(decoding: Qonversion().sample(request), as: UTF8.self), from: QonversionFixtures.source())
        #expect(user.holder == .user("u-1"))
        #expect(user.purchase?.key == "subs_007")
    }

    @Test(arguments: [("abc", "Basic abc"), ("Basic abc", "Basic abc"), ("Basic", "Basic Basic")])
    func itProvesItselfAsTheVendorDoes(_ secret: String, _ value: String) {
        let headers = Qonversion().signatureHeaders(
            body: [], unixSeconds: 0, authentication: .token, secret: Secret(Array(secret.utf8)))
        #expect(headers.map(\.name) == ["Authorization"])
        #expect(headers.map(\.value) == [value])
        let verdict = Qonversion().authenticate(
            header: { name in headers.first { $0.name == name }?.value }, body: [],
            source: QonversionFixtures.source(secrets: [secret]), now: Timestamp(milliseconds: 0))
        #expect(verdict == .authentic)
        #expect(
            Qonversion().signatureHeaders(
                body: [], unixSeconds: 0, authentication: .none, secret: Secret([1])
            ).isEmpty)
    }
}
