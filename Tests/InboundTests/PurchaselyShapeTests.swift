import JSONText
import Testing
import Vocabulary

@testable import Inbound

@Suite struct PurchaselyShapeTests {
    static let holders: [Holder] = [.user("u-1"), .anonymous("a-1"), .user("u-2"), .anonymous("a-\"2\"é")]

    static func derived(_ original: String, type: String, from: Holder, to: Holder) -> [UInt8] {
        Purchasely().derivedBody(
            from: Array(original.utf8), stating: DerivedTransfer(type: type, from: from, to: to, eventID: "derived-1"))
    }

    static let holderFields: Set<String> = [
        "user_id", "anonymous_user_id", "transferred_to_user_id", "transferred_to_anonymous_user_id",
        "transferred_from_user_id", "transferred_from_anonymous_user_id",
    ]

    /// Oracle: the relay's own reading of a native webhook, and every other member's bytes.
    @Test(arguments: PurchaselyFixtures.names)
    func aDerivedBodyReadsAsTheNativeOneWould(_ name: String) throws {
        let original = try #require(PurchaselyFixtures.named[name])
        let before = try JSONScan.topObject(Array(original.utf8), depthMax: 8)
        for type in ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED", "ONE_TIME_PURCHASE_RECEIVED"] {
            for from in Self.holders {
                for to in Self.holders where from != to {
                    let body = Self.derived(original, type: type, from: from, to: to)
                    let event = try event(String(decoding: body, as: UTF8.self))
                    let isReceived = type.hasSuffix("RECEIVED")
                    #expect(event.name == type)
                    #expect(event.vendorEventID == "derived-1")
                    #expect(event.holder == (isReceived ? to : from))
                    #expect(event.facts.first?.kind == (isReceived ? .received : .transferred))
                    #expect(event.facts.first?.counterpart == (isReceived ? from : to))

                    let after = try JSONScan.topObject(body, depthMax: 8)
                    #expect(Self.holderFields.intersection(after.keys).count == 2)
                    let set = Self.holderFields.union(["event_name", "event_id"])
                    #expect(before.keys.filter { !set.contains($0) } == after.keys.filter { !set.contains($0) })
                    for key in before.keys where !set.contains(key) { #expect(before.raw(key) == after.raw(key)) }
                }
            }
        }
    }

    @Test func changesOnlyWhatTheTransferStates() throws {
        let original = #"{ "event_name":"ACTIVATE", "price":  9.90, "user_id":"new", "event_created_at_ms":1 }"#
        let transferred = Self.derived(
            original, type: "SUBSCRIPTION_TRANSFERRED", from: .anonymous("old"), to: .user("new"))
        #expect(
            String(decoding: transferred, as: UTF8.self)
                == #"{ "event_name":"SUBSCRIPTION_TRANSFERRED", "price":  9.90, "event_created_at_ms":1, "#
                + #""event_id":"derived-1", "anonymous_user_id":"old", "transferred_to_user_id":"new" }"#)
        let received = Self.derived(original, type: "SUBSCRIPTION_RECEIVED", from: .anonymous("old"), to: .user("new"))
        #expect(
            String(decoding: received, as: UTF8.self)
                == #"{ "event_name":"SUBSCRIPTION_RECEIVED", "price":  9.90, "user_id":"new", "#
                + #""event_created_at_ms":1, "event_id":"derived-1", "transferred_from_anonymous_user_id":"old" }"#)
    }

    @Test func aDamagedOriginalStillLeavesTheFacts() throws {
        let body = Self.derived("{", type: "SUBSCRIPTION_RECEIVED", from: .anonymous("old"), to: .user("new"))
        #expect(
            String(decoding: body, as: UTF8.self)
                == #"{"event_name":"SUBSCRIPTION_RECEIVED","event_id":"derived-1","user_id":"new","#
                + #""transferred_from_anonymous_user_id":"old"}"#)
    }

    @Test(arguments: Purchasely().knownEventNames) func aSampleReadsAsWhatWasAskedFor(_ name: String) throws {
        let isOneTime = name.hasPrefix("ONE_TIME_PURCHASE_")
        let request = SampleRequest(
            eventName: name, holder: .anonymous("a-1"), counterpart: .user("u-\"1\""), storeTransactionID: "t-1",
            purchaseID: isOneTime ? "otp_1" : "subs_1", occurredAt: Timestamp(milliseconds: 1_700_000_000_000),
            eventID: "e-1", environment: "SANDBOX")
        let event = try event(String(decoding: Purchasely().sample(request), as: UTF8.self))
        #expect(event.name == name)
        #expect(event.vendorEventID == "e-1")
        #expect(event.holder == .anonymous("a-1"))
        #expect(event.scope.environment == "SANDBOX")
        #expect(event.occurredAt == request.occurredAt)
        #expect(event.transaction?.storeTransactionID == "t-1")
        #expect(event.purchase?.key == request.purchaseID)
        #expect(event.purchase?.kind == (isOneTime ? .oneTime : .subscription))
        let isTransfer = name.hasSuffix("_TRANSFERRED") || name.hasSuffix("_RECEIVED")
        #expect(event.facts.first?.counterpart == (isTransfer ? .user("u-\"1\"") : nil))
        #expect(event.facts.first.map { ($0.until == nil) == isOneTime } ?? true)
    }

    @Test func aSampleMayGoWithoutAnEventIDAndAtAnyTime() throws {
        for milliseconds in [Int64.min, Timestamp.writable.upperBound.milliseconds, .max] {
            let body = Purchasely().sample(
                SampleRequest(
                    eventName: "ACTIVATE", holder: .user("u"), storeTransactionID: "t", purchaseID: "otp_1",
                    occurredAt: Timestamp(milliseconds: milliseconds)))
            let event = try event(String(decoding: body, as: UTF8.self))
            #expect(event.vendorEventID == nil)
            #expect(event.purchase?.kind == .oneTime)
            #expect(Timestamp.writable.contains(event.occurredAt))
        }
    }
}
