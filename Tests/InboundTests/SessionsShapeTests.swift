import JSONText
import Testing
import Vocabulary

@testable import Inbound

@Suite struct SessionsShapeTests {
    static let holders: [Holder] = [.user("u-1"), .anonymous("a-1"), .anonymous("a-\"2\"é")]
    static let flat = """
        {"event_name":"ACTIVATE","timestamp":"2023-11-14T22:13:20Z","event_id":"e","user_id":"u","purchase_id":"p",\
        "price":9.90}
        """
    static let mixed = """
        {"type":"ACTIVATE","timestamp":"2023-11-14T22:13:20Z","event_id":"e","user_id":"u","data":{"price":9.90,\
        "anonymous_id":"","purchase_id":"p","transferred_from_user_id":"x"}}
        """

    /// The end of a loss is not read, and would be that of a transfer.
    static let lost = """
        {"type":"DEACTIVATE","timestamp":"2023-11-14T22:13:20Z","event_id":"e","effective_next_renewal_at_ms":"soon",\
        "data":{"user_id":"u","purchase_id":"p","effective_next_renewal_at":"2026-12-24"}}
        """

    /// Oracle: the relay's own reading of a native transfer.
    @Test(arguments: [SessionsFixtures.purchase, flat, mixed, lost])
    func aDerivedBodyReadsAsTheNativeOneWould(_ original: String) throws {
        for type in ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED", "ONE_TIME_PURCHASE_RECEIVED"] {
            for from in Self.holders {
                for to in Self.holders where from != to {
                    let bytes = Sessions().derivedBody(
                        from: Array(original.utf8),
                        stating: DerivedTransfer(type: type, from: from, to: to, eventID: "derived-1"))
                    let event = try event(String(decoding: bytes, as: UTF8.self), from: SessionsFixtures.source)
                    let isReceived = type.hasSuffix("RECEIVED")
                    #expect(event.name == type)
                    #expect(event.vendorEventID == "derived-1")
                    #expect(event.holder == (isReceived ? to : from))
                    #expect(event.facts.map(\.kind) == [isReceived ? .received : .transferred])
                    #expect(event.facts.map(\.counterpart) == [isReceived ? from : to])
                    #expect(event.occurredAt == SessionsFixtures.at)
                }
            }
        }
    }

    @Test func changesOnlyWhatTheTransferStates() {
        let transfer = DerivedTransfer(
            type: "SUBSCRIPTION_RECEIVED", from: .anonymous("a"), to: .user("u"), eventID: "d")
        #expect(
            String(decoding: Sessions().derivedBody(from: Array(Self.mixed.utf8), stating: transfer), as: UTF8.self)
                == #"{"type":"SUBSCRIPTION_RECEIVED","timestamp":"2023-11-14T22:13:20Z","data":{"price":9.90,"#
                + #""purchase_id":"p","user_id":"u","transferred_from_anonymous_user_id":"a","event_id":"d"}}"#)
        #expect(
            String(decoding: Sessions().derivedBody(from: Array("{".utf8), stating: transfer), as: UTF8.self)
                == #"{"type":"SUBSCRIPTION_RECEIVED","user_id":"u","transferred_from_anonymous_user_id":"a","#
                + #""event_id":"d"}"#)
    }

    @Test(arguments: Sessions().knownEventNames + ["SUBSCRIPTION_RECEIVED", "OWN_NAME"])
    func aSampleReadsAsWhatWasAskedFor(_ name: String) throws {
        let isSession = SessionsNames.sessions.contains(name)
        for holder in [Holder.user("u-\"1\""), .anonymous("a-1")] {
            let other: Holder = holder.isAnonymous ? .user("u-2") : .anonymous("a-2")
            for counterpart in [nil, other] {
                let request = SampleRequest(
                    eventName: name, holder: holder, counterpart: counterpart, storeTransactionID: "t-1",
                    purchaseID: "subs_1", occurredAt: SessionsFixtures.at, eventID: "e-1", environment: "SANDBOX")
                let event = try event(
                    String(decoding: Sessions().sample(request), as: UTF8.self), from: SessionsFixtures.source)
                #expect(event.name == name)
                #expect(event.vendorEventID == "e-1")
                #expect(event.scope.environment == "SANDBOX")
                #expect(event.occurredAt == request.occurredAt)
                #expect((event.purchase?.key == "subs_1") == !isSession)
                if !isSession || (counterpart == nil && name != SessionsNames.login) { #expect(event.holder == holder) }
                if name == SessionsNames.login { #expect(event.holder?.isAnonymous == false) }
                let isReceived = name == "SUBSCRIPTION_RECEIVED"
                #expect(event.facts.first?.counterpart == (isReceived ? counterpart : nil))
            }
        }
    }

    @Test func aSampleOfBothIsALogin() throws {
        let request = SampleRequest(
            eventName: "SESSION_LOGIN", holder: .anonymous("a"), counterpart: .user("u"), storeTransactionID: "",
            purchaseID: "", occurredAt: SessionsFixtures.at)
        let event = try event(
            String(decoding: Sessions().sample(request), as: UTF8.self), from: SessionsFixtures.source(merges: true))
        #expect(event.vendorEventID == nil)
        #expect(event.change == .move(from: [.anonymous("a")], to: .user("u"), isNative: false))
        #expect(event.links.map(\.until) == [SessionsTests.until])
    }
}
