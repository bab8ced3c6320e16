import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// As at a logical subscriber, which has the rows of the publisher and not its sequences. Oracle: SQL.
@Suite("Sequences that fall behind while a daemon serves", .serialized, .timeLimit(.minutes(30)))
struct LaggingSequenceTests {
    /// - Parameter last: the last ids drawn, it seems: before those of the rows, or before those of all partitions.
    @Test(
        "A webhook that draws a taken id, or one without a table, is stored, and none is quarantined",
        arguments: [Period.firstID(1) - 1, 1], [1, 1_000])
    func webhooks(last: Int64, copiedEventsMin: Int) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")], copiedEventsMin: copiedEventsMin)
            await daemon.record((0..<5).map { .sample("A\($0)", purchase: "a\($0)") })
            try ledger.psql(
                """
                SELECT setval('event_ids', \(last)), setval('message_ids', \(last)), setval('delivery_ids', 1, false)
                """)
            let events: [Event] = (0..<3).map { .sample("B\($0)", purchase: "b\($0)") }
            #expect(await daemon.record(events) == [.stored, .stored, .stored])
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "0")
            let names = "SELECT string_agg(name, ' ' ORDER BY id) FROM events"
            #expect(try ledger.psql(names) == "A0 A1 A2 A3 A4 B0 B1 B2")
            #expect(try ledger.psql("SELECT count(*), count(DISTINCT message) FROM deliveries") == "8|8")
        }
    }

    @Test(
        "Keys of the ledger's own rows, and of nobody else's",
        arguments: [
            "events_4_pkey", "events_before_pkey", "messages_kept_4_pkey", "deliveries_pkey", "holder_changes_pkey",
            "quarantine_pkey", "events_4_pkey1",
        ], ["events_audit_pkey", "purchases_pkey", "events_4_key", "quarantine_source_digest_key"])
    func keys(own: String, other: String) {
        #expect(DatabaseError.isDrawnID(key: own) && !DatabaseError.isDrawnID(key: other))
    }

    @Test("What cannot be read is quarantined all the same; the ids of daemons and integrations are moved on, too")
    func columns() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            func body(_ text: String) -> RecordQueue.Item {
                .quarantine(QuarantinedBody(source: "shop", reason: "odd", body: Array(text.utf8)))
            }
            await daemon.record([body("a"), body("b")])
            let lagging = ["quarantine", "daemons", "integrations"].map { "setval('\($0)_id_seq', 1, false)" }
            try ledger.psql("SELECT \(lagging.joined(separator: ", "))")
            #expect(await daemon.record([body("c")]) == [.stored])
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "3")
            _ = try await ledger.daemon([.named("all"), .named("new")])
            #expect(try ledger.psql("SELECT count(*) FROM daemons") == "2")
            #expect(try ledger.psql("SELECT string_agg(name, ' ' ORDER BY id) FROM integrations") == "all new")
        }
    }

    @Test("An import's lines are recorded all the same, and what is tried again from quarantine")
    func otherWriters() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let body = QuarantinedBody(source: "shop", reason: "odd", body: Array("a".utf8))
            await daemon.record((0..<5).map { .sample("A\($0)", purchase: "a\($0)") })
            await daemon.record([.quarantine(body)])
            let lag = "SELECT setval('event_ids', \(Period.firstID(1) - 1)), setval('message_ids', 1)"
            try ledger.psql(lag)
            let lines = (0..<3).map { number -> ImportLine in
                let purchase = Purchase(
                    key: "b\(number)", kind: .subscription, store: "APPLE_APP_STORE", product: "gold", plan: "monthly",
                    subscriptionID: nil)
                return ImportLine(
                    scope: Scope(source: "shop", app: "app.one", environment: "PRODUCTION"), holder: user,
                    asOf: seconds(100), until: seconds(1_000),
                    subject: .purchase(ImportLine.Stated(purchase: purchase, isActive: true)))
            }
            let outcomes = try await Importer(rules: Daemon.rules, in: daemon.pool).record(lines)
            #expect(outcomes == [.recorded, .recorded, .recorded])
            #expect(try ledger.psql("SELECT count(*), count(DISTINCT id) FROM events") == "8|8")
            try ledger.psql(lag)
            let row = try #require(Int64(try ledger.psql("SELECT id FROM quarantine")))
            let outcome = try await Quarantine.record(
                row, as: .sample("C", purchase: "c"), routes: [], rules: Daemon.rules, in: daemon.pool)
            guard case .recorded = outcome else { throw DatabaseError.protocolViolation(reason: "\(outcome)") }
            #expect(try ledger.psql("SELECT count(*), count(DISTINCT id) FROM events") == "9|9")
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "0")
        }
    }

    /// As after a restore to an earlier time, or a promotion that lost commits, under a daemon that lives on.
    @Test("A settlement of a lost delivery, or its return, does not end a new delivery that has its id")
    func redrawnDeliveries() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record((0..<4).map { .sample("A\($0)", purchase: "a\($0)") })
            let lost = daemon.inbox.take()
            try ledger.psql("DELETE FROM deliveries; SELECT setval('delivery_ids', 1, false)")
            await daemon.record((0..<4).map { .sample("B\($0)", purchase: "b\($0)") })
            let new = daemon.inbox.take()
            #expect(new.map(\.id) == lost.map(\.id) && new.map(\.lease) == lost.map(\.lease))
            _ = try await daemon.queue.settle([
                lost[0].settled(.accepted), lost[1].settled(.retry(after: .zero)),
                lost[2].settled(.dead(reason: "no"), status: 400, failure: "no"),
            ])
            try await daemon.queue.giveBack([lost[3]])
            let leased = "SELECT count(*) FILTER (WHERE leased_by IS NOT NULL), count(*), max(attempts) FROM deliveries"
            #expect(try ledger.psql(leased) == "4|4|0")
            #expect(try ledger.psql("SELECT count(*) FROM dead_letters") == "0")
            // Both of one id at once: the new one goes, and the lost one leaves no dead letter.
            let both = [lost[0].settled(.dead(reason: "no"), status: 400, failure: "no"), new[0].settled(.accepted)]
            _ = try await daemon.queue.settle(both)
            #expect(try ledger.psql("SELECT count(*) FROM deliveries") == "3")
            _ = try await daemon.queue.settle([new[1].settled(.accepted), lost[1].settled(.accepted)])
            #expect(try ledger.psql("SELECT count(*) FROM deliveries") == "2")
            _ = try await daemon.queue.settle(new.map { $0.settled(.accepted) })
            #expect(try ledger.psql("SELECT count(*) FROM deliveries") == "0")
            #expect(try ledger.psql("SELECT count(*) FROM dead_letters") == "0")
        }
    }

    @Test("Dead letters, of which a relay message is written, are settled when they are tried again")
    func settling() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a"), .named("ops", events: ["posthouse.integration.dead"])])
            daemon.open("a")
            await daemon.record((0..<3).map { .sample("A\($0)", purchase: "a\($0)") })
            let batch = daemon.inbox.take().map { $0.settled(.dead(reason: "no"), status: 400, failure: "no") }
            try ledger.psql("SELECT setval('event_ids', \(Period.firstID(1) - 1))")
            await #expect(throws: SettleFailure.self) { _ = try await daemon.queue.settle(batch) }
            _ = try await daemon.queue.settle(batch)
            #expect(try ledger.psql("SELECT count(*) FROM dead_letters") == "3")
            #expect(try ledger.psql("SELECT count(*) FROM events WHERE type = 'posthouse.integration.dead'") == "1")
        }
    }

    @Test("Where the role may not move them the webhook comes again: it is not the reason")
    func forbidden() async throws {
        try await TestLedger.run { ledger in
            let role = "lagging_\(ledger.database)"
            try ledger.psql(
                """
                CREATE ROLE \(role) LOGIN;
                GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO \(role);
                GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO \(role)
                """)
            let url = ledger.connectionString.replacing(/user=\w+/, with: "user=\(role)")
            let daemon = try await ledger.daemon(settings: TestLedger.settings(url))
            await daemon.record((0..<20).map { .sample("A\($0)", purchase: "a\($0)") })
            try ledger.psql("SELECT setval('event_ids', \(Period.firstID(1) - 1))")
            let events: [RecordQueue.Item] = ["B", "C"].map { .event(.sample($0, purchase: $0)) }
            #expect(await daemon.recordOnce(events) == [.unavailable, .unavailable])
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "0")
            try ledger.psql("GRANT UPDATE ON SEQUENCE event_ids, message_ids, delivery_ids TO \(role)")
            #expect(await daemon.record(events) == [.stored, .stored])
        }
    }

    @Test("A relay message has another id where its row is drawn again, as after a restore to an earlier time")
    func relayMessages() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([
                .named("a"), .named("ops", events: ["posthouse.integration.*"]),
            ])
            func publish() async throws -> String {
                #expect(try await daemon.queue.openBreaker(daemon.row("a"), reason: "answered 503"))
                return try ledger.psql("SELECT id, vendor_event_id, key FROM events")
            }
            let first = try await publish().split(separator: "|")
            try ledger.psql(
                """
                DELETE FROM breakers; DELETE FROM deliveries; DELETE FROM messages; DELETE FROM events;
                SELECT setval('event_ids', \(Period.firstID(1) - 1))
                """)
            let second = try await publish().split(separator: "|")
            #expect(first.count == 3 && second.count == 3 && first[0] == second[0])
            #expect(first[1] != second[1] && first[2] != second[2])
        }
    }
}
