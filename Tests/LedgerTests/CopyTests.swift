import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: what the INSERT statements leave, whose types the server checks (StatementCatalogueTests).
@Suite("Batches that are copied")
struct CopyTests {
    /// Each column that a copy writes; times of the database's own differ from run to run.
    private static let tables = [
        "events": """
        id, key, source, app, environment, vendor_event_id, name, type, holder, occurred_at_ms, purchase,
        store_transaction_id, body, stray
        """,
        "purchases": """
        id, source, app, environment, store, key, kind, product, plan, subscription_id, as_of_ms, state, access
        """,
        "transactions": """
        store_transaction_id, purchase, store_original_transaction_id, purchased_at_ms,
        effective_next_renewal_at_ms, offer_type, status, as_of_ms, as_of_event
        """,
        "entitlements": "holder, purchase, active, as_of_ms, event",
        "messages": "id, key, event, type, transfer, envelope, derived_body, integrations, access",
        "deliveries": "id, message, integration, purchase, blocked, leased_by",
        "purchase_ends": "until_ms, purchase",
        "transfers": "id, purchase, from_holder, to_holder, ordinal, event, store_transaction_id",
    ]

    /// With and without everything that may be absent; letters of more than a byte; a transfer; a purchase of two.
    private static let events: [Event] = [
        .sample("ACTIVATE", purchase: "subs_1", fact: Fact(kind: .gain, holder: user, at: seconds(1))),
        .sample(
            "DEACTIVATE", at: seconds(2), purchase: "subs_1", fact: Fact(kind: .loss, holder: user, at: seconds(2))),
        .sample(
            "ACTIVATE", holder: .device, at: seconds(2), purchase: "subs_1",
            fact: Fact(kind: .gain, holder: .device, at: seconds(2))),
        .sample("LOGIN", purchase: nil, transaction: nil, vendorEventID: "evt-1", product: nil),
        .sample(
            "Žluťoučký", purchase: "subs_2", transaction: "tx_🐎", status: "AUTO_RENEWING", until: seconds(2_000),
            body: ""),
        .sample("RENEWED", at: seconds(3), purchase: "subs_2", transaction: "tx_4", until: seconds(3_000)),
        .sample("ONCE", purchase: "once", kind: .oneTime, transaction: nil, product: nil),
    ]

    private func contents(copiedFrom: Int) async throws -> [String: String] {
        var contents: [String: String] = [:]
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon(
                [.named("all"), .named("loose", order: .none)], copiedEventsMin: copiedFrom)
            daemon.open("all")
            let answers = await daemon.record(Self.events)
            #expect(answers.allSatisfy { $0 == .stored })
            for (table, columns) in Self.tables {
                contents[table] = try ledger.psql("SELECT \(columns) FROM \(table) ORDER BY 1, 2")
            }
        }
        return contents
    }

    @Test("The same rows as those of an inserted batch, column for column")
    func sameRows() async throws {
        var (copied, inserted) = (try await contents(copiedFrom: 1), try await contents(copiedFrom: .max))
        if copied["purchases"]?.prefix(8) != inserted["purchases"]?.prefix(8) {
            // Purchases of two runs have ids of two steps of time (`Identifier.behind`), of 17 minutes each.
            copied = try await contents(copiedFrom: 1)
        }
        for table in Self.tables.keys.sorted() {
            #expect(copied[table]?.isEmpty == false, "\(table)")
            #expect(copied[table] == inserted[table], "\(table)")
        }
    }

    @Test(
        "A row that was there already: the batch is run again and checks, nothing is sent twice", arguments: [1, .max])
    func thereAlready(copiedFrom: Int) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all", order: .none)], copiedEventsMin: copiedFrom)
            daemon.open("all")
            await daemon.record([.sample("A", vendorEventID: "evt-1")])
            // As after the event key's retention: the event comes once more, its message is known.
            try ledger.psql("DELETE FROM identities")
            let again = [Event.sample("A", vendorEventID: "evt-1"), .sample("B", vendorEventID: "evt-2")]
            #expect(await daemon.record(again) == [.stored, .stored])
            #expect(daemon.inbox.take().map(\.message.type) == ["A", "B"])
            #expect(try ledger.psql("SELECT type, count(*) FROM messages GROUP BY 1 ORDER BY 1") == "A|1\nB|1")
            #expect(daemon.log.warnings == [])
        }
    }
}
