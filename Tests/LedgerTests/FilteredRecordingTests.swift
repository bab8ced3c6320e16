import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL over the deliveries.
@Suite("where of an integration: recording, backfill, replay", .serialized, .timeLimit(.minutes(30)))
struct FilteredRecordingTests {
    private static let gold = MessageFilter([.product: ["gold*"], .environment: ["PRODUCTION"]])

    /// Types of what waits for an integration, in message order.
    private func waiting(for row: Int32, in ledger: TestLedger) throws -> String {
        try ledger.psql(
            """
            SELECT string_agg(m.type, ' ' ORDER BY m.id)
            FROM deliveries d JOIN messages m ON m.id = d.message WHERE d.integration = \(row)
            """)
    }

    private static let webhooks: [Event] = [
        .sample("GOLD", purchase: "p1", transaction: nil, product: "gold.monthly"),
        .sample("SILVER", purchase: "p2", transaction: nil, product: "silver"),
        .sample("NOTHING", purchase: "p3", transaction: nil, product: nil),
        .sample("SANDBOX", purchase: "p4", transaction: nil, environment: "SANDBOX", product: "gold"),
        .sample("STRAY", purchase: nil, transaction: nil),
    ]

    /// A webhook whose envelope has `decoded`, more than a filter should read, after a key that looks like it.
    private static let sealed = Event(
        scope: Scope(source: "sealed", app: "app.one", environment: "PRODUCTION"), vendorEventID: "sealed-1",
        name: "SEALED", type: "SEALED", holder: user, occurredAt: seconds(1),
        purchase: Purchase(
            key: #"s","decoded":{"#, kind: .subscription, store: "APPLE_APP_STORE", product: "gold", plan: nil,
            subscriptionID: nil), transaction: nil,
        decoded: Array(#"{"deep":[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]],"decoded":{}}"#.utf8),
        body: Array(#"{"sealed":"x"}"#.utf8))

    @Test("An integration with where is sent the messages whose fields it names; one without is sent all")
    func recording() async throws {
        try await TestLedger.run { ledger in
            let transfers = MessageFilter([.transferID: ["*"], .holderUser: ["*"]])
            let daemon = try await ledger.daemon([
                .named("gold", filter: Self.gold), .named("all"), .named("transfers", filter: transfers),
            ])
            await daemon.record(Self.webhooks + [Self.sealed])
            #expect(try waiting(for: daemon.row("gold"), in: ledger) == "GOLD SEALED")
            #expect(
                try waiting(for: daemon.row("all"), in: ledger) == "GOLD SILVER NOTHING SANDBOX STRAY SEALED")
            #expect(try waiting(for: daemon.row("transfers"), in: ledger) == "")
            await daemon.record(login.map { .stating($0, purchase: "moved") })
            #expect(try waiting(for: daemon.row("transfers"), in: ledger) == "SUBSCRIPTION_RECEIVED")
        }
    }

    @Test("A message that where leaves out does not block the next one of its purchase")
    func order() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("gold", filter: Self.gold)])
            await daemon.record([
                .sample("BEFORE", at: seconds(0), purchase: "p1", transaction: nil, product: "silver"),
                .sample("UPGRADE", at: seconds(1), purchase: "p1", transaction: nil, product: "gold"),
                .sample("AFTER", at: seconds(2), purchase: "p1", transaction: nil, product: "gold"),
            ])
            #expect(
                try ledger.psql(
                    """
                    SELECT m.type, d.blocked FROM deliveries d JOIN messages m ON m.id = d.message ORDER BY d.id
                    """) == "UPGRADE|f\nAFTER|t")
        }
    }

    @Test("A backfill judges by the present where what messages said when they were recorded")
    func backfill() async throws {
        try await TestLedger.run { ledger in
            let before = try await ledger.daemon([])
            await before.record(Self.webhooks + [Self.sealed])
            // What is known of the purchase by now is not what the message said.
            await before.record([.sample("LATER", at: seconds(9), purchase: "p2", transaction: nil, product: "gold")])
            let daemon = try await ledger.daemon([.named("new", filter: Self.gold)])
            let route = try #require(daemon.routes.current.all.first)
            func run(isDry: Bool) async throws -> Int {
                var backfill = try await Backfill.start(
                    route, since: Timestamp(milliseconds: 0), until: nil, in: daemon.pool)
                var queued = 0
                while !backfill.isDone { queued += try await backfill.step(isDry: isDry, in: daemon.pool) }
                return queued
            }
            #expect(try await run(isDry: true) == 3)
            #expect(try await run(isDry: false) == 3)
            #expect(try waiting(for: route.row, in: ledger) == "GOLD SEALED LATER")
            #expect(try await run(isDry: false) == 0)
        }
    }

    @Test("A backfill leaves out a message that where cannot read, counts it, and goes on")
    func unreadable() async throws {
        try await TestLedger.run { ledger in
            let before = try await ledger.daemon([])
            await before.record(Self.webhooks + [Self.sealed])
            _ = try ledger.psql("UPDATE messages SET envelope = '{' WHERE type = 'GOLD'")
            let daemon = try await ledger.daemon([.named("new", filter: Self.gold)])
            let route = try #require(daemon.routes.current.all.first)
            var backfill = try await Backfill.start(
                route, since: Timestamp(milliseconds: 0), until: nil, in: daemon.pool)
            var queued = 0
            while !backfill.isDone { queued += try await backfill.step(isDry: false, in: daemon.pool) }
            #expect(queued == 1 && backfill.unreadable == 1)
            #expect(try waiting(for: route.row, in: ledger) == "SEALED")
        }
    }

    @Test("After a reload the new where judges; a replay repeats what was sent all the same")
    func reload() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            daemon.open("a")
            await daemon.record([.sample("SILVER", purchase: "p1", transaction: nil, product: "silver")])
            _ = try await daemon.queue.settle(daemon.inbox.take().map { $0.settled(.accepted) })
            _ = try await daemon.queue.route([.named("a", filter: Self.gold)])
            await daemon.record([.sample("BRONZE", purchase: "p2", transaction: nil, product: "bronze")])
            #expect(try waiting(for: daemon.row("a"), in: ledger) == "")
            let filter = Replay.Filter(integrations: [daemon.row("a")])
            var replay = try #require(
                await Replay.start(filter, routes: daemon.routes.current.all, in: daemon.pool))
            let queued = try await replay.step(in: daemon.pool).queued
            #expect(queued == 1)
            #expect(try waiting(for: daemon.row("a"), in: ledger) == "SILVER")
        }
    }
}
