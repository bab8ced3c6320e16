import Foundation
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: the payload written out by hand, and Foundation's JSON parser.
@Suite("The standard payload")
struct MessageEnvelopeTests {
    private func payload(_ statement: MessageEnvelope.Statement, _ event: Event) -> String {
        String(
            decoding: MessageEnvelope.write(
                statement,
                of: MessageEnvelope.Subject(
                    purchase: event.purchase, transaction: event.transaction, money: event.money),
                causedBy: event) + event.body + Message.envelopeEnd,
            as: UTF8.self)
    }

    @Test("A transaction that an import's line did not name is in no message")
    func unnamedTransaction() {
        let transaction = Transaction(
            storeTransactionID: ImportLine.unnamedTransaction, storeOriginalTransactionID: nil, purchasedAt: nil,
            effectiveNextRenewalAt: Timestamp(milliseconds: 5), offerType: nil, status: nil)
        #expect(MessageEnvelope.Subject(transaction: transaction).transaction == nil)
    }

    @Test("Everything absent is null")
    func absent() throws {
        let event = Event(
            scope: Scope(source: "shop", app: "", environment: "SANDBOX"), vendorEventID: nil, name: "Ping",
            type: "PING", holder: .anonymous("device-1"), occurredAt: Timestamp(milliseconds: 1_636_307_015_225),
            purchase: nil, transaction: nil, body: Array(#"{"a": 1.0e+2 }"#.utf8))
        let statement = MessageEnvelope.Statement(
            type: "PING", eventID: "evt_1", eventName: "Ping", holder: event.holder, resolvedUserID: nil, transfer: nil)
        #expect(
            payload(statement, event) == """
                {"type":"PING","timestamp":"2021-11-07T17:43:35.225Z","data":{"event_id":"evt_1","event_name":"Ping",\
                "source":"shop","environment":"SANDBOX","holder":{"anonymous_user_id":"device-1"},\
                "resolved_user_id":null,"transfer":null,"purchase":null,"transaction":null,"money":null,\
                "original":{"a": 1.0e+2 }}}
                """)
    }

    @Test("What a sealed webhook says stands before it, byte for byte")
    func decoded() {
        let event = Event(
            scope: Scope(source: "store", app: "", environment: "SANDBOX"), vendorEventID: nil, name: "Ping",
            type: "PING", holder: nil, occurredAt: Timestamp(milliseconds: 0), purchase: nil, transaction: nil,
            decoded: Array(#"{"n": 1.0e+2 }"#.utf8), body: Array(#"{"sealed":"x"}"#.utf8))
        let statement = MessageEnvelope.Statement(type: "PING", eventID: "evt_1", eventName: "Ping")
        #expect(
            payload(statement, event) == """
                {"type":"PING","timestamp":"1970-01-01T00:00:00.000Z","data":{"event_id":"evt_1","event_name":"Ping",\
                "source":"store","environment":"SANDBOX","holder":null,"resolved_user_id":null,"transfer":null,\
                "purchase":null,"transaction":null,"money":null,"decoded":{"n": 1.0e+2 },"original":{"sealed":"x"}}}
                """)
    }

    @Test("A message of the relay itself has the same members, without a holder")
    func relayMessage() {
        let scope = Scope(source: "posthouse", app: "", environment: "PRODUCTION")
        let bytes = MessageEnvelope.write(
            .init(type: "posthouse.a", eventID: "pst_1", eventName: "posthouse.a"), of: .init(), in: scope,
            at: Timestamp(milliseconds: 0))
        #expect(
            String(decoding: bytes, as: UTF8.self) == """
                {"type":"posthouse.a","timestamp":"1970-01-01T00:00:00.000Z","data":{"event_id":"pst_1",\
                "event_name":"posthouse.a","source":"posthouse","environment":"PRODUCTION","holder":null,\
                "resolved_user_id":null,"transfer":null,"purchase":null,"transaction":null,"money":null,"original":
                """)
    }

    @Test("The message of a test is one of the relay itself, about one integration")
    func test() {
        let key = Identifier(high: 1, low: 2)
        let message = TestMessage.make(
            for: "crm \"2\"", version: "1.2.3", key: key, at: Timestamp(milliseconds: 1_636_307_015_225))
        #expect(message.id == "msg_00000000000000010000000000000002" && message.type == "posthouse.test")
        #expect(message.source == "posthouse" && message.derivedBody == nil)
        #expect(
            String(decoding: message.envelope + message.original + Message.envelopeEnd, as: UTF8.self) == """
                {"type":"posthouse.test","timestamp":"2021-11-07T17:43:35.225Z","data":{\
                "event_id":"pst_00000000000000010000000000000002","event_name":"posthouse.test","source":"posthouse",\
                "environment":"PRODUCTION","holder":null,"resolved_user_id":null,"transfer":null,"purchase":null,\
                "transaction":null,"money":null,"original":{"event_name":"posthouse.test","integration":"crm \\"2\\"",\
                "version":"1.2.3"}}}
                """)
    }

    @Test("Everything present")
    func present() {
        let transaction = Transaction(
            storeTransactionID: "tx_1", storeOriginalTransactionID: "tx_0",
            purchasedAt: Timestamp(milliseconds: -1), effectiveNextRenewalAt: Timestamp(milliseconds: 2),
            offerType: "INTRO", status: "AUTO_RENEWING")
        let event = Event(
            scope: Scope(source: "shop", app: "app.one", environment: "PRODUCTION"), vendorEventID: "e1",
            name: "ACTIVATE", type: "ACTIVATE", holder: user, occurredAt: Timestamp(milliseconds: 0),
            purchase: Purchase(
                key: "subs_1", kind: .oneTime, store: "STRIPE", product: "gold", plan: "year",
                subscriptionID: "subs_1"),
            transaction: transaction, money: Array(#"{"amount":"9.90","currency":"EUR"}"#.utf8),
            body: Array("{}".utf8))
        let statement = MessageEnvelope.Statement(
            type: "SUBSCRIPTION_RECEIVED", eventID: "evt_9", eventName: "SUBSCRIPTION_RECEIVED", holder: user,
            resolvedUserID: "jeff", transfer: ("trf_1", anonymous, user))
        #expect(
            payload(statement, event) == """
                {"type":"SUBSCRIPTION_RECEIVED","timestamp":"1970-01-01T00:00:00.000Z","data":{"event_id":"evt_9",\
                "event_name":"SUBSCRIPTION_RECEIVED","source":"shop","environment":"PRODUCTION",\
                "holder":{"user_id":"jeff"},"resolved_user_id":"jeff","transfer":{"id":"trf_1",\
                "from":{"anonymous_user_id":"\(anonymous.id)"},"to":{"user_id":"jeff"}},\
                "purchase":{"key":"subs_1","kind":"one_time","product":"gold","plan":"year","store":"STRIPE",\
                "app":"app.one","subscription_id":"subs_1"},"transaction":{"store_transaction_id":"tx_1",\
                "store_original_transaction_id":"tx_0","purchased_at_ms":-1,"effective_next_renewal_at_ms":2,\
                "offer_type":"INTRO","status":"AUTO_RENEWING"},"money":{"amount":"9.90","currency":"EUR"},\
                "original":{}}}
                """)
    }

    @Test(
        "Whatever is in an id comes back out of another's parser",
        arguments: [
            "\"", "\\", "\u{0}\u{1}\u{1F}\u{7F}", "\n\r\t\u{8}\u{C}", "é \u{2028} 🏳️‍🌈 </script>", "{\"a\":1}", "",
        ])
    func escaping(text: String) throws {
        let event = Event.sample(
            "N\(text)", holder: .user(text), purchase: "p\(text)", transaction: "t\(text)", source: "s\(text)",
            app: "a\(text)", environment: "e\(text)", status: text, body: "{}")
        let statement = MessageEnvelope.Statement(
            type: "T\(text)", eventID: "i\(text)", eventName: "n\(text)", holder: event.holder, resolvedUserID: text,
            transfer: ("x\(text)", .anonymous(text), .user(text)))
        let parsed = try JSONSerialization.jsonObject(with: Data(payload(statement, event).utf8))
        let root = try #require(parsed as? [String: Any])
        let data = try #require(root["data"] as? [String: Any])
        #expect(root["type"] as? String == "T\(text)" && data["event_id"] as? String == "i\(text)")
        #expect(data["source"] as? String == "s\(text)" && data["environment"] as? String == "e\(text)")
        #expect(data["holder"] as? [String: String] == ["user_id": text])
        #expect(data["resolved_user_id"] as? String == text)
        let transfer = try #require(data["transfer"] as? [String: Any])
        #expect(transfer["from"] as? [String: String] == ["anonymous_user_id": text])
        let purchase = try #require(data["purchase"] as? [String: Any])
        #expect(purchase["key"] as? String == "p\(text)" && purchase["app"] as? String == "a\(text)")
        let transaction = try #require(data["transaction"] as? [String: Any])
        #expect(
            transaction["store_transaction_id"] as? String == "t\(text)" && transaction["status"] as? String == text)
    }
}
