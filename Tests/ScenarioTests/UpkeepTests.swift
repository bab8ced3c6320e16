import Foundation
import Testing
import Vocabulary

/// What a running daemon does every hour; what each step does, LedgerTests' `UpkeepTests` show.
@Suite struct UpkeepTests {
    /// Rows of one kind that are past their time, and how to find them.
    private static let past: [(table: String, condition: String)] = [
        ("events", "received_at < now() - interval '100 days'"),
        ("identities", "received_at < now() - interval '100 days'"),
        ("messages", "event < 8589934592"),
        ("attempts", "at < now() - interval '100 days'"),
        ("pg_class", "relname IN ('attempts_20200101', 'events_1', 'messages_1')"),
        ("breakers", "next_probe_at < now() - interval '2 days'"),
        ("erased_events", "erased_at < now() - interval '100 days'"),
    ]

    @Test("Two daemons prune what is past its time while webhooks come and messages go; nothing else is missing")
    func hourly() throws {
        let receiver = try Receiver()
        let retention = """
            [retention]
            events = "30d"
            duplicates = "30d"
            """
        let first = try Relay([.init("crm", receiver)], settings: retention)
        defer { first.end() }
        try first.start()
        for number in 0..<20 {
            #expect(try first.source().post(Webhook("ACTIVATE", .user("u"), purchase: "old_\(number)")) == 200)
        }
        #expect(receiver.waitForAccepted(20))
        let database = try first.database
        #expect(try database.drained())
        _ = first.stop()
        try database.rows(
            """
            UPDATE events SET received_at = now() - interval '101 days';
            UPDATE identities SET received_at = now() - interval '101 days';
            CREATE TABLE attempts_20200101 PARTITION OF attempts FOR VALUES FROM ('2020-01-01 UTC') TO ('2020-01-02 UTC');
            UPDATE attempts SET at = '2020-01-01 12:00 UTC' WHERE ctid IN (SELECT ctid FROM attempts LIMIT 10);
            UPDATE attempts SET at = now() - interval '101 days' WHERE at > '2020-01-02 UTC';
            UPDATE periods SET began_at = now() - interval '102 days';
            CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM (8589934592) TO (12884901888);
            CREATE TABLE messages_2 PARTITION OF messages FOR VALUES FROM (8589934592) TO (12884901888);
            INSERT INTO periods VALUES (2, now() - interval '40 days');
            SELECT setval('event_ids', 8589934591), setval('message_ids', 8589934591);
            INSERT INTO breakers (integration, reason, next_probe_at) VALUES (4711, 'x', now() - interval '3 days');
            INSERT INTO erased_events VALUES ('x', now() - interval '101 days');
            """)
        for (table, condition) in Self.past {
            #expect(try database.count(table, where: condition) > 0, "\(table)")
        }

        let second = try Relay(
            [.init("crm", receiver)], storage: .given(database.connectionString), settings: retention)
        defer { second.end() }
        let relays = [first, second]
        for relay in relays { try relay.launch(environment: ["POSTHOUSE_UPKEEP_MS": "50"]) }
        for relay in relays { #expect(eventually { (try? relay.get("/readyz"))?.status == 200 }) }
        // Attempts of long ago and none of the last two days: the clock may be ahead.
        for relay in relays { #expect(relay.waitForLine("no daemon ran for more than two weeks") != nil) }
        for (table, condition) in Self.past {
            #expect(try database.count(table, where: condition) > 0, "\(table)")
        }
        try database.rows(
            """
            DO $$ DECLARE today date := (now() AT TIME ZONE 'UTC')::date; day date; BEGIN
                FOREACH day IN ARRAY ARRAY[today - 2, today - 1] LOOP
                    -- At midnight one may be there.
                    EXECUTE format(
                        'CREATE TABLE IF NOT EXISTS attempts_%s PARTITION OF attempts FOR VALUES FROM (%L) TO (%L)',
                        to_char(day, 'YYYYMMDD'), day || ' UTC', (day + 1) || ' UTC');
                END LOOP;
            END $$
            """)
        var posted = 0
        func isPruned() throws -> Bool {
            try Self.past.allSatisfy { try database.count($0.table, where: $0.condition) == 0 }
        }
        while try posted < 100 || !isPruned(), posted < 5_000 {
            let webhook = Webhook("ACTIVATE", .user("u"), purchase: "new_\(posted)")
            #expect(try relays[posted % 2].source().post(webhook) == 200)
            posted += 1
        }
        #expect(try isPruned())
        #expect(receiver.waitForAccepted(20 + posted))
        #expect(try database.drained())
        #expect(receiver.count == 20 + posted)
        for table in ["events", "identities", "messages", "attempts"] {
            #expect(try database.count(table) == posted, "\(table)")
        }
        #expect(try database.count("purchases") == 20 + posted)
        // But for a wait for what another step, or the change of the tables above, had locked on a busy machine.
        let reasons = ["40P01", "55P03", "57014"]
        for line in relays.flatMap(\.lines) where line.contains("was postponed for an hour") {
            #expect(reasons.contains { line.contains($0) }, "\(line)")
        }
    }
}
