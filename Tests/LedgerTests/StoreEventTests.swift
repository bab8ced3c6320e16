import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Events that only the stores send: about nobody, and sealed. Oracle: what psql finds in the tables.
@Suite("Recording: events of the stores", .serialized)
struct StoreEventTests {
    private static func sealed(_ event: Event, holder: Holder?) -> Event {
        Event(
            scope: event.scope, vendorEventID: event.vendorEventID, name: event.name, type: event.type,
            holder: holder, occurredAt: event.occurredAt, purchase: event.purchase, transaction: event.transaction,
            facts: event.facts, decoded: Array(#"{"says":"\#(event.name)"}"#.utf8), body: event.body)
    }

    @Test("An event about nobody is stored and passed on, and is about no purchase")
    func aboutNobody() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let event = Self.sealed(.sample(), holder: nil)
            #expect(await daemon.record([event, event]) == [.stored, .stored])
            #expect(await daemon.record([event]) == [.stored])
            #expect(daemon.log.recorded(duplicate: true).count == 2)
            #expect(
                try ledger.psql("SELECT holder = '', purchase IS NULL, store_transaction_id IS NULL, stray FROM events")
                    == "t|t|t|f")
            #expect(
                try ledger.psql(
                    "SELECT (SELECT count(*) FROM purchases), (SELECT count(*) FROM entitlements), "
                        + "(SELECT count(*) FROM transactions), (SELECT count(*) FROM transfers)") == "0|0|0|0")
            let envelope = try ledger.psql("SELECT convert_from(envelope, 'UTF8') FROM messages")
            #expect(envelope.contains(#""holder":null,"resolved_user_id":null,"transfer":null,"purchase":null,"#))
            #expect(envelope.hasSuffix(#""transaction":null,"money":null,"decoded":{"says":"RENEWED"},"original":"#))
            #expect(try ledger.psql("SELECT count(*) FROM deliveries") == "1")
        }
    }

    @Test("The way of a sealed webhook shows what it says, and the size of what came")
    func trace() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let body = #"{"sealed":"…"}"#
            await daemon.record(
                ["sealed", "shop"].map { .sample(transaction: "tx_1", source: $0, body: body) })
            let openings: Trace.Openings = [
                "sealed": { sealed, _ in sealed == Array(body.utf8) ? Array("{}".utf8) : nil }
            ]
            let handle = EventHandle(.transaction, "tx_1")
            let trace = try #require(try await Trace.read(handle, opening: openings, from: daemon.pool))
            #expect(trace.webhooks.map(\.source) == ["sealed", "shop"])
            #expect(trace.webhooks.map { $0.sealed?.bytes } == [body.utf8.count, nil])
            #expect(trace.webhooks[0].sealed?.decoded == Array("{}".utf8))
            let closed = try await Trace.read(handle, opening: ["sealed": { _, _ in nil }], from: daemon.pool)
            #expect(closed?.webhooks.first?.sealed?.bytes == body.utf8.count)
            #expect(closed?.webhooks.first?.sealed?.decoded == nil)
        }
    }

    @Test("The event key of an event about nobody is that of no holder")
    func key() {
        let nobody = Self.sealed(.sample(), holder: nil)
        let others = [Holder.user(""), .anonymous(""), user].map {
            KeyHash.eventHash(Self.sealed(.sample(), holder: $0))
        }
        #expect(!others.contains(KeyHash.eventHash(nobody)))
        #expect(KeyHash.eventHash(nobody) == KeyHash.eventHash(Self.sealed(.sample(), holder: nil)))
    }

    @Test("A derived transfer of a sealed source has the standard shape in either format")
    func derived() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            await daemon.record(
                login.map { Self.sealed(.stating($0, source: "sealed"), holder: $0.holder) }
                    + login.map { .stating($0, purchase: "subs_2") })
            let whole = "m.derived_body = m.envelope || e.body || '}}'::bytea"
            #expect(
                try ledger.psql(
                    "SELECT e.source, count(*), count(*) FILTER (WHERE \(whole)), "
                        + "count(*) FILTER (WHERE position('\"decoded\":'::bytea IN m.envelope) > 0) "
                        + "FROM messages m JOIN events e ON e.id = m.event WHERE m.derived_body IS NOT NULL "
                        + "GROUP BY 1 ORDER BY 1")
                    == "sealed|2|2|2\nshop|2|0|0")
        }
    }
}
