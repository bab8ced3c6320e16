import Foundation
import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL; periods are moved back in time by UPDATE.
@Suite("Periods begin and are dropped", .serialized, .timeLimit(.minutes(30)))
struct PeriodUpkeepTests {
    private static let partitions = """
        SELECT string_agg(inhrelid::regclass::text, ' ' ORDER BY inhrelid::regclass::text) FROM pg_inherits
        WHERE inhparent IN ('events'::regclass, 'messages'::regclass)
        """
    private static let names = "SELECT string_agg(name, ' ' ORDER BY id) FROM events"
    private static let types = "SELECT string_agg(type, ' ' ORDER BY id) FROM messages"

    func upkeep(_ daemon: Daemon, days: Int = 30, keptMax: Int32 = 100) -> Upkeep {
        let day = Duration.seconds(86_400)
        return Upkeep(
            pool: daemon.pool, retention: Retention(attempts: day * days, events: day * days, duplicates: day * days),
            keptMax: keptMax, observe: { [log = daemon.log] in log.note($0) })
    }

    /// Days go by: the newest period ends, and the next begins.
    func pass(_ days: Int, _ ledger: TestLedger, _ upkeep: Upkeep) async throws {
        try ledger.psql(
            """
            UPDATE periods SET began_at = began_at - \(days) * interval '1 day';
            UPDATE events SET received_at = received_at - \(days) * interval '1 day';
            UPDATE identities SET received_at = received_at - \(days) * interval '1 day'
            """)
        try await upkeep.beginPeriod()
    }

    enum Outcome { case accepted, dead }

    /// - Parameter outcome: by the message's type; nil: it waits.
    func settle(_ daemon: Daemon, _ outcome: (String) -> Outcome?) async throws {
        let settled = daemon.inbox.take().compactMap { delivery in
            outcome(delivery.message.type).map { delivery.settled($0 == .dead ? .dead(reason: "x") : .accepted) }
        }
        _ = try await daemon.queue.settle(settled)
    }

    @Test("The next begins when its time has come, once, by however many at once; its ids are above all before")
    func begin() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all", order: .purchase)])
            daemon.open("all")
            let upkeep = upkeep(daemon)
            #expect(try ledger.psql(Self.partitions) == "events_1 messages_1")
            await daemon.record([.sample("A", purchase: "p", transaction: "t1")])
            try await upkeep.beginPeriod()
            #expect(try ledger.psql(Self.partitions) == "events_1 messages_1", "it is not a day old")
            try ledger.psql("UPDATE periods SET began_at = now() - interval '25 hours'")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 { group.addTask { try await upkeep.beginPeriod() } }
                try await group.waitForAll()
            }
            #expect(try ledger.psql(Self.partitions) == "events_1 events_2 messages_1 messages_2")
            await daemon.record([
                .sample("B", purchase: "p", transaction: "t2"), .sample("A", purchase: "p", transaction: "t1"),
            ])
            #expect(try ledger.psql("SELECT string_agg((id >> 32) || name, ' ' ORDER BY id) FROM events") == "1A 2B")
            #expect(try ledger.psql("SELECT string_agg((id >> 32) || type, ' ' ORDER BY id) FROM messages") == "1A 2B")
            #expect(daemon.log.recorded(duplicate: true).count == 1)
            #expect(daemon.inbox.take().map(\.message.type) == ["A"], "B is blocked")
            #expect(try ledger.psql("SELECT count(*) FROM events WHERE purchase = (SELECT id FROM purchases)") == "2")
        }
    }

    @Test("Who was cut off before the ids moved goes on, and is helped by the next")
    func cutOff() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try ledger.psql(PeriodTables.creation(of: 2) + "INSERT INTO periods (id) VALUES (2)")
            await daemon.record([.sample("A", purchase: "a")])
            try await upkeep(daemon).beginPeriod()
            await daemon.record([.sample("B", purchase: "b")])
            #expect(try ledger.psql("SELECT string_agg((id >> 32) || name, ' ' ORDER BY id) FROM events") == "1A 2B")
            // A sequence that is further than that is never moved back.
            try ledger.psql("SELECT setval('event_ids', \(Period.firstID(2) + 700))")
            try await upkeep(daemon).beginPeriod()
            #expect(try ledger.psql("SELECT nextval('event_ids')") == "\(Period.firstID(2) + 701)")
        }
    }

    @Test("Sequences that are behind their tables are moved on, before a webhook draws what is taken")
    func behind() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record(["A", "B"].map { .sample($0, purchase: $0, transaction: $0) })
            try await settle(daemon) { $0 == "B" ? .dead : nil }
            let ids = "SELECT nextval('event_ids') || ' ' || nextval('message_ids') || ' ' || nextval('delivery_ids')"
            let drawn = try ledger.psql(ids)
            try ledger.psql("SELECT setval('event_ids', 1), setval('message_ids', 1), setval('delivery_ids', 1)")
            try await upkeep(daemon).beginPeriod()
            #expect(try ledger.psql(ids) == drawn)
            #expect(await daemon.record([.sample("C", purchase: "c", transaction: "c")]) == [.stored])
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "0" && ledger.psql(Self.names) == "A B C")
        }
    }

    @Test("A period past its time is dropped; what a delivery or a dead letter needs is kept, and nothing else of it")
    func drop() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            let upkeep = upkeep(daemon)
            for name in ["DONE", "DEAD", "WAITS"] { await daemon.record([.sample(name, purchase: name)]) }
            try await settle(daemon) { ["DONE": .accepted, "DEAD": .dead][$0] }
            try await pass(10, ledger, upkeep)
            await daemon.record([.sample("LATER", purchase: "l"), .sample("DEAD2", purchase: "d2")])
            try await settle(daemon) { $0 == "LATER" ? .accepted : .dead }
            try await pass(25, ledger, upkeep)
            await daemon.record([.sample("YOUNG", purchase: "y")])
            try await settle(daemon) { _ in .accepted }
            try await upkeep.pruneInTheEnd()
            try await upkeep.pruneEventKeys()
            // The first ended 25 days ago.
            #expect(try ledger.psql(Self.names) == "DONE DEAD WAITS LATER DEAD2 YOUNG")
            try await pass(10, ledger, upkeep)
            try await upkeep.pruneInTheEnd()
            #expect(try ledger.psql(Self.names) == "DEAD WAITS LATER DEAD2 YOUNG")
            let first = "events_2 events_3 events_4 events_kept messages_2 messages_3 messages_4 messages_kept"
            #expect(try ledger.psql(Self.partitions) == first)
            try await pass(25, ledger, upkeep)
            try await upkeep.pruneInTheEnd()
            try await upkeep.pruneEventKeys()
            #expect(try ledger.psql(Self.names) == "DEAD WAITS DEAD2 YOUNG")
            #expect(try ledger.psql(Self.types) == "DEAD WAITS DEAD2 YOUNG")
            #expect(try ledger.psql("SELECT count(*) FROM identities") == "4")
            let second = "events_3 events_4 events_5 events_kept messages_3 messages_4 messages_5 messages_kept"
            #expect(try ledger.psql(Self.partitions) == second)
            #expect(try ledger.psql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM periods") == "3 4 5")
            // What waits is delivered, and what is dead can be replayed.
            try ledger.psql("UPDATE deliveries SET leased_by = NULL")
            daemon.dispatchBuffer.dropAll()
            #expect(try await daemon.claimAll("all").map(\.message.type) == ["WAITS"])
            try ledger.psql("DELETE FROM deliveries; DELETE FROM dead_letters")
            try await upkeep.pruneInTheEnd()
            try await upkeep.pruneInTheEnd()
            #expect(try ledger.psql(Self.names) == "YOUNG")
            #expect(try ledger.psql(Self.partitions) == "events_3 events_4 events_5 messages_3 messages_4 messages_5")
            await daemon.record([.sample("NEW", purchase: "n"), .sample("YOUNG", purchase: "y")])
            #expect(try ledger.psql(Self.names) == "YOUNG NEW")
        }
    }

    @Test("A period that still grows, or has young events, stands, whatever is written of it")
    func growing() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try ledger.psql(
                PeriodTables.creation(of: 2)
                    + "INSERT INTO periods (id, began_at) VALUES (2, now() - interval '40 days')")
            await daemon.record([.sample("A", purchase: "a")])
            // Nobody moved the sequences.
            try await upkeep(daemon).pruneInTheEnd()
            #expect(try ledger.psql(Self.names) == "A")
            try await upkeep(daemon).beginPeriod()
            try await upkeep(daemon).pruneInTheEnd()
            #expect(try ledger.psql(Self.names) == "A" && ledger.psql(Self.partitions).contains("events_1"))
            try ledger.psql("UPDATE events SET received_at = now() - interval '31 days'")
            try await upkeep(daemon).pruneInTheEnd()
            #expect(try ledger.psql("SELECT count(*) FROM events") == "0")
            #expect(try !ledger.psql(Self.partitions).contains("events_1"))
        }
    }

    @Test("Who may not move the ids begins no period")
    func notAllowed() async throws {
        try await TestLedger.run { ledger in
            let role = "unmoving_\(ledger.database)"
            try ledger.psql(
                """
                CREATE ROLE \(role) LOGIN;
                GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO \(role);
                GRANT USAGE, CREATE ON SCHEMA public TO \(role);
                GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO \(role);
                ALTER TABLE events OWNER TO \(role); ALTER TABLE messages OWNER TO \(role);
                UPDATE periods SET began_at = now() - interval '2 days'
                """)
            let url = ledger.connectionString.replacing(/user=\w+/, with: "user=\(role)")
            let daemon = try await ledger.daemon(settings: TestLedger.settings(url))
            await #expect(throws: DatabaseError.self) { try await upkeep(daemon).beginPeriod() }
            #expect(try ledger.psql("SELECT count(*) FROM periods") == "1")
            #expect(await daemon.record([.sample("A", purchase: "a")]) == [.stored])
            try ledger.psql("GRANT UPDATE ON SEQUENCE event_ids, message_ids TO \(role)")
            try await upkeep(daemon).beginPeriod()
            await daemon.record([.sample("B", purchase: "b")])
            #expect(try ledger.psql("SELECT string_agg((id >> 32) || name, ' ' ORDER BY id) FROM events") == "1A 2B")
        }
    }

    @Test("A message in the period after its event's is kept with it")
    func astride() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            let upkeep = upkeep(daemon)
            await daemon.record([.sample("A", purchase: "a"), .sample("B", purchase: "b")])
            try ledger.psql(PeriodTables.creation(of: 2) + "INSERT INTO periods (id) VALUES (2)")
            for (table, column) in [("messages", "id"), ("deliveries", "message")] {
                try ledger.psql("UPDATE \(table) SET \(column) = \(column) + 4294967296")
            }
            try await settle(daemon) { _ in nil }
            try ledger.psql("DELETE FROM deliveries WHERE message = (SELECT id FROM messages WHERE type = 'A')")
            try await pass(10, ledger, upkeep)
            try await pass(25, ledger, upkeep)
            try await upkeep.pruneInTheEnd()
            // The period of the events alone is past its time.
            #expect(try ledger.psql(Self.names) == "B" && ledger.psql(Self.types) == "B")
            #expect(try ledger.psql(Self.partitions).contains("messages_2"))
            try await pass(10, ledger, upkeep)
            try await upkeep.pruneInTheEnd()
            #expect(try ledger.psql(Self.names) == "B" && ledger.psql(Self.types) == "B")
            try ledger.psql("UPDATE deliveries SET leased_by = NULL")
            daemon.dispatchBuffer.dropAll()
            #expect(try await daemon.claimAll("all").map(\.message.type) == ["B"])
        }
    }

    @Test("What was kept before is not read again while everybody waits")
    func keptIsProven() async throws {
        try await TestLedger.run { ledger in
            try ledger.psql("ALTER DATABASE \(ledger.database) SET log_min_messages = debug1")
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            let upkeep = upkeep(daemon)
            for name in ["ONE", "TWO", "THREE"] {
                await daemon.record([.sample(name, purchase: name)])
                try await settle(daemon) { _ in .dead }
                try await pass(10, ledger, upkeep)
            }
            try await pass(11, ledger, upkeep)
            try await upkeep.pruneInTheEnd()
            let kept = "SELECT count(*) FROM events_kept"
            #expect(try ledger.psql(kept) == "1")
            try await pass(20, ledger, upkeep)
            try await upkeep.pruneInTheEnd()
            #expect(try ledger.psql(kept) == "3")
            // PostgreSQL's own word, with each partition that it does not read.
            let log = try String(contentsOfFile: TestCluster.shared.directory + "/data/log", encoding: .utf8)
            let unread = log.split(separator: "\n").count {
                $0.contains("partition constraint for table \"events_kept\" is implied by existing constraints")
            }
            #expect(unread == 2)
            let left = "SELECT count(*) FROM pg_constraint WHERE conname LIKE 'below_%' AND contype = 'c'"
            #expect(try ledger.psql(left) == "0")
        }
    }

    @Test("Of a period that too much is needed of the rest is pruned; it goes once less is")
    func tooMuch() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            let upkeep = upkeep(daemon, keptMax: 2)
            await daemon.record((0..<6).map { .sample("E\($0)", purchase: "p\($0)") })
            try await settle(daemon) { ["E0", "E1"].contains($0) ? .accepted : .dead }
            try await pass(10, ledger, upkeep)
            try await pass(31, ledger, upkeep)
            try await upkeep.pruneInTheEnd()
            let standing = "events_1 events_2 events_3 messages_1 messages_2 messages_3"
            #expect(try ledger.psql(Self.partitions) == standing)
            #expect(try ledger.psql(Self.names) == "E2 E3 E4 E5")
            #expect(daemon.log.warnings.contains { $0.contains("are kept beyond [retention] events") })
            let two = "SELECT delivery FROM dead_letters ORDER BY 1 LIMIT 2"
            try ledger.psql("DELETE FROM dead_letters WHERE delivery IN (\(two))")
            try await upkeep.pruneInTheEnd()
            #expect(try ledger.psql(Self.names) == "E4 E5")
            let kept = "events_2 events_3 events_kept messages_2 messages_3 messages_kept"
            #expect(try ledger.psql(Self.partitions) == kept)
        }
    }

    @Test("Who reads events for long holds up neither who records nor the rest of the upkeep")
    func longReader() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let upkeep = upkeep(daemon)
            await daemon.record([.sample("A", purchase: "a")])
            try await pass(2, ledger, upkeep)
            try await pass(40, ledger, upkeep)
            try await ledger.during("SELECT count(*) FROM events") {
                // From then on it is seen, and nothing is tried that others would wait behind.
                try ledger.psql("SELECT pg_sleep(1.1)")
                try await upkeep.pruneInTheEnd()
                #expect(try ledger.psql(Self.partitions).contains("events_1"))
                try ledger.psql("UPDATE periods SET began_at = began_at - interval '2 days'")
                try await upkeep.beginPeriod()
                #expect(await daemon.record([.sample("B", purchase: "b")]) == [.stored])
                #expect(try ledger.psql("SELECT max(id) >> 32 FROM events") == "4")
            }
            try await upkeep.pruneInTheEnd()
            #expect(try !ledger.psql(Self.partitions).contains("events_1"))
        }
    }
}

extension PeriodUpkeepTests {
    @Test("Ids that no table takes are no fault of the webhook: it comes again; the table is made after a start")
    func withoutPartition() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            // As a dump has it that was made while a period began: its sequences are newer than its tables.
            let first = Period.firstID(2)
            try ledger.psql("SELECT setval('event_ids', \(first)), setval('message_ids', \(first))")
            let samples: [Event] = [.sample("A", purchase: "a"), .sample("B", purchase: "b")]
            #expect(await daemon.recordOnce(samples.map { .event($0) }) == [.unavailable, .unavailable])
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "0")
            try await upkeep(daemon).beginPeriod()
            #expect(await daemon.record(samples) == [.stored, .stored])
            #expect(try ledger.psql("SELECT min(id >> 32) FROM events") == "2")
        }
    }

    @Test("What is committed while the lock for dropping an emptied partition is waited for is not dropped with it")
    func emptied() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            try ledger.recordBeforePeriods()
            let insert = """
                INSERT INTO events (id, key, source, app, environment, name, type, holder, occurred_at_ms, body)
                VALUES (5, gen_random_uuid(), 'shop', '', 'PRODUCTION', 'LATE', 'LATE', 'user:u', 1, '')
                """
            let pruning = try await ledger.during(insert) {
                let pruning = Task { [upkeep = upkeep(daemon)] in try await upkeep.prune() }
                let waiting = """
                    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                    """
                for _ in 0..<40 where try ledger.psql(waiting) == "0" { try await Task.sleep(for: .milliseconds(10)) }
                return pruning
            }
            // Where it was too late to be waited for, the upkeep has given up.
            _ = await pruning.result
            #expect(try ledger.psql("SELECT name FROM events WHERE id = 5") == "LATE")
        }
    }

    @Test("A lock on one partition alone, as of autovacuum, is seen; and what hangs on one partition holds up no other")
    func partitionLock() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let upkeep = upkeep(daemon)
            try ledger.allowIDsBefore()
            try ledger.psql("CREATE VIEW hung AS SELECT * FROM events_before")
            await daemon.record([.sample("A", purchase: "a")])
            try await pass(2, ledger, upkeep)
            try await pass(40, ledger, upkeep)
            try await ledger.during("LOCK TABLE events_3 IN SHARE UPDATE EXCLUSIVE MODE") {
                try ledger.psql("SELECT pg_sleep(1.1)")
                try await upkeep.pruneInTheEnd()
                #expect(try ledger.psql("SELECT to_regclass('events_1') IS NOT NULL") == "t")
            }
            // `before` cannot be dropped because of the view.
            await #expect(throws: DatabaseError.self) { try await upkeep.pruneInTheEnd() }
            let gone = "SELECT to_regclass('events_1') IS NULL, to_regclass('events_before') IS NULL"
            #expect(try ledger.psql(gone) == "t|f")
            try ledger.psql("DROP VIEW hung; DELETE FROM deliveries")
            try await upkeep.pruneInTheEnd()
            try await upkeep.pruneInTheEnd()
            #expect(try ledger.psql("SELECT to_regclass('events_before') IS NULL") == "t")
            #expect(try ledger.psql("SELECT to_regclass('events_kept') IS NULL") == "t")
        }
    }

    @Test("A lock on another database's table with the same OID holds up no drop")
    func otherDatabase() async throws {
        try await TestLedger.run { other in
            try await TestLedger.run { ledger in
                let oid = "SELECT 'events_1'::regclass::oid"
                #expect(try ledger.psql(oid) == other.psql(oid))
                let daemon = try await ledger.daemon()
                let upkeep = upkeep(daemon)
                await daemon.record([.sample("A", purchase: "a")])
                try await pass(2, ledger, upkeep)
                try await pass(40, ledger, upkeep)
                try await other.during("LOCK TABLE events_1 IN SHARE UPDATE EXCLUSIVE MODE") {
                    try ledger.psql("SELECT pg_sleep(1.1)")
                    try await upkeep.pruneInTheEnd()
                    #expect(try ledger.psql("SELECT to_regclass('events_1') IS NULL") == "t")
                }
            }
        }
    }

    @Test("A period that began in a time to come begins now")
    func clockBack() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try ledger.psql("UPDATE periods SET began_at = now() + interval '400 days'")
            try await upkeep(daemon).beginPeriod()
            #expect(try ledger.psql("SELECT began_at <= now() FROM periods") == "t")
        }
    }
}
