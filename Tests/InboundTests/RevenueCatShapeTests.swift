import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// Derived bodies and samples. Oracle: the relay's own reading, and every other byte of the original.
@Suite struct RevenueCatShapeTests {
    static func derived(_ original: String, type: String, from: Holder, to: Holder) -> String {
        let body = RevenueCat().derivedBody(
            from: Array(original.utf8), stating: DerivedTransfer(type: type, from: from, to: to, eventID: "derived-1"))
        return String(decoding: body, as: UTF8.self)
    }

    @Test(arguments: RevenueCatFixtures.published) func aDerivedBodyShowsOneSide(_ original: String) throws {
        let before = DerivedBody.inner("event", of: DerivedBody.object(Array(original.utf8)))
        let from = Holder.anonymous("$RCAnonymousID:\"1\"")
        let to = Holder.user("ü-2")
        for type in ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED", "ONE_TIME_PURCHASE_RECEIVED"] {
            let body = Self.derived(original, type: type, from: from, to: to)
            let event = try revenueCat(body)
            #expect(event.name == type && event.type == type)
            #expect(event.vendorEventID == "derived-1")
            #expect(event.holder == (type.hasSuffix("RECEIVED") ? to : from))
            #expect(event.facts.isEmpty && event.change == nil, "stated twice, a transfer would be made twice")

            let whole = try JSONScan.topObject(Array(body.utf8), depthMax: 8)
            #expect(whole.keys == ["event", "api_version"])
            let after = DerivedBody.inner("event", of: whole)
            #expect(try after.texts("transferred_from") == [from.id])
            #expect(try after.texts("transferred_to") == [to.id])
            let set: Set = ["type", "id", "app_user_id", "transferred_from", "transferred_to"]
            #expect(before.keys.filter { !set.contains($0) } == after.keys.filter { !set.contains($0) })
            for key in before.keys where !set.contains(key) { #expect(before.raw(key) == after.raw(key)) }
        }
    }

    @Test func changesOnlyWhatTheTransferStates() {
        let original = #"{ "event": {"type":"RENEWAL",  "price": 9.90, "app_user_id":"new"}, "api_version": "1.0" }"#
        #expect(
            Self.derived(original, type: "SUBSCRIPTION_TRANSFERRED", from: .user("old"), to: .user("new"))
                == #"{ "event": {"type":"SUBSCRIPTION_TRANSFERRED",  "price": 9.90, "app_user_id":"old",  "#
                + #""id":"derived-1",  "transferred_from":["old"],  "transferred_to":["new"]}, "api_version": "1.0" }"#)
    }

    @Test(arguments: ["", "{", "[]", "{}", #"{"event":7}"#]) func aDamagedOriginalStillLeavesTheFacts(
        _ original: String
    ) {
        #expect(
            Self.derived(original, type: "SUBSCRIPTION_RECEIVED", from: .user("old"), to: .user("new"))
                == #"{"event":{"type":"SUBSCRIPTION_RECEIVED","id":"derived-1","app_user_id":"new","#
                + #""transferred_from":["old"],"transferred_to":["new"]}}"#)
    }

    // MARK: Samples

    static func request(_ name: String, _ holder: Holder, counterpart: Holder? = nil) -> SampleRequest {
        SampleRequest(
            eventName: name, holder: holder, counterpart: counterpart, storeTransactionID: "t-1", purchaseID: "o-1",
            occurredAt: Timestamp(milliseconds: 1_700_000_000_000), eventID: "e-1", environment: "SANDBOX")
    }

    @Test(arguments: RevenueCat().knownEventNames) func aSampleReadsAsWhatWasAskedFor(_ name: String) throws {
        let holders: [(asked: Holder, read: Holder)] = [
            (.user("u-\"1\""), .user("u-\"1\"")), (.anonymous("a-1"), .anonymous("$RCAnonymousID:a-1")),
            (.anonymous("$RCAnonymousID:a-1"), .anonymous("$RCAnonymousID:a-1")),
        ]
        for (asked, read) in holders {
            let body = RevenueCat().sample(Self.request(name, asked, counterpart: .user("old")))
            let event = try revenueCat(String(decoding: body, as: UTF8.self))
            #expect(event.name == name)
            #expect(event.vendorEventID == "e-1")
            #expect(event.holder == read)
            #expect(event.scope.environment == "SANDBOX")
            #expect(event.occurredAt.milliseconds == 1_700_000_000_000)
            let isOfAPurchase =
                ![
                    "TEST", "SUBSCRIBER_ALIAS", "TRANSFER", "PURCHASE_REDEEMED", "VIRTUAL_CURRENCY_TRANSACTION",
                    "TEMPORARY_ENTITLEMENT_GRANT",
                ].contains(name)
            #expect(event.purchase?.key == (isOfAPurchase ? "o-1" : nil))
            #expect(event.transaction?.storeTransactionID == (isOfAPurchase ? "t-1" : nil))
            #expect((event.purchase?.kind == .oneTime) == (name == "NON_RENEWING_PURCHASE"))
            let isPassing = ["TRANSFER", "PURCHASE_REDEEMED"].contains(name)
            #expect(event.change == (isPassing ? .move(from: [.user("old")], to: read, isNative: true) : nil))
        }
    }

    @Test(arguments: RevenueCat().knownEventNames) func aSampleMayBeAtAnyTimeAndWithoutAnID(_ name: String) throws {
        for milliseconds in [Int64.min, .max] {
            var request = Self.request(name, .user("u"))
            request.occurredAt = Timestamp(milliseconds: milliseconds)
            request.eventID = nil
            let event = try revenueCat(String(decoding: RevenueCat().sample(request), as: UTF8.self))
            #expect(event.vendorEventID == nil)
            let isPassing = ["TRANSFER", "PURCHASE_REDEEMED"].contains(name)
            #expect((event.change != nil) == isPassing, "a transfer without a counterpart has one made up")
        }
    }
}
