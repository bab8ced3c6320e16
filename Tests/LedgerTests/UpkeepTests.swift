import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL; rows are moved back in time by UPDATE.
@Suite("Upkeep", .serialized, .timeLimit(.minutes(30)))
struct UpkeepTests {
    private static let partitions = """
        SELECT string_agg(to_date(right(c.relname, 8), 'YYYYMMDD') - (now() AT TIME ZONE 'UTC')::date || '', ','
                          ORDER BY c.relname)
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'attempts'::regclass AND c.relname <> 'attempts_default'
        """

    private func upkeep(_ daemon: Daemon, days: Int = 30) -> Upkeep {
        let day = Duration.seconds(86_400)
        return Upkeep(
            pool: daemon.pool, retention: Retention(attempts: day * days, events: day * days, duplicates: day * days))
    }

    @Test(
        "Deleting waits where at most two days have a partition after a long gap: the clock may be ahead",
        arguments: [
            ([], false), ([100, 101, 102, 103], false), ([98, 99, 100, 101], false), ([103, 104], false),
            ([80, 81, 82, 98, 99, 100], false), ([80, 81, 82, 100, 101], true), ([80, 81, 82, 99, 100], true),
            // Now and then: once a week, and over a long weekend.
            ([86, 87, 88, 89, 93, 94, 95, 96, 100, 101, 102, 103], false), ([95, 100, 101], false),
            // The day began by the same clock; and a second time, behind what a clock ahead once left.
            ([40, 41, 42, 43, 99, 100, 101, 102], true), ([40, 41, 42, 43, 100], true), ([85, 100], true),
            ([86, 100], false),
        ] as [(Set<Int32>, Bool)])
    func gap(days: Set<Int32>, isGap: Bool) { #expect(Upkeep.followsGap(100, days) == isGap) }

    @Test("Today and the coming days have a partition; made once, by however many at once")
    func prepare() async throws {
        try await TestLedger.run { ledger in
            try await ledger.awayFromMidnight()
            let daemon = try await ledger.daemon([.named("all")])
            let upkeep = upkeep(daemon)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<3 { group.addTask { try await upkeep.preparePartitions() } }
                try await group.waitForAll()
            }
            #expect(try ledger.psql(Self.partitions) == "0,1,2,3")
            try await upkeep.preparePartitions()
            #expect(try ledger.psql(Self.partitions) == "0,1,2,3")
            daemon.open("all")
            await daemon.record([.sample()])
            _ = try await daemon.queue.settle(daemon.inbox.take().map { $0.settled(.accepted) })
            #expect(try ledger.psql("SELECT count(*) FROM attempts") == "1")
            #expect(try ledger.psql("SELECT count(*) FROM attempts_default") == "0")
        }
    }

    @Test("Partitions are their table's owner's, whichever role of that owner's makes them")
    func owner() async throws {
        try await TestLedger.run { ledger in
            try await ledger.awayFromMidnight()
            let (owner, member) = ("owner_\(ledger.database)", "member_\(ledger.database)")
            try ledger.psql(
                """
                CREATE ROLE \(owner); CREATE ROLE \(member) LOGIN IN ROLE \(owner);
                GRANT USAGE, CREATE ON SCHEMA public TO \(owner);
                GRANT ALL ON ALL TABLES IN SCHEMA public TO \(member);
                GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO \(member);
                ALTER TABLE attempts OWNER TO \(owner); ALTER TABLE attempts_default OWNER TO \(owner)
                """)
            let url = ledger.connectionString.replacing(/user=\w+/, with: "user=\(member)")
            let daemon = try await ledger.daemon(settings: TestLedger.settings(url))
            try await upkeep(daemon).preparePartitions()
            #expect(try ledger.psql(Self.partitions) == "0,1,2,3")
            let owners = """
                SELECT string_agg(DISTINCT pg_get_userbyid(relowner), ' ') FROM pg_class
                WHERE relname ~ '^attempts(_|$)' AND relkind IN ('r', 'p')
                """
            #expect(try ledger.psql(owners) == owner)
        }
    }

    @Test("What came while its day had no partition moves into it")
    func strays() async throws {
        try await TestLedger.run { ledger in
            try await ledger.awayFromMidnight()
            let daemon = try await ledger.daemon()
            let insert = """
                INSERT INTO attempts (at, delivery, message, integration, attempt, outcome, latency_ms)
                SELECT now() + i * interval '1 day', i, 1, 1, 1, 'accepted', 5 FROM generate_series(-40, 5) AS i
                """
            try ledger.psql(insert)
            try await upkeep(daemon).preparePartitions()
            #expect(try ledger.psql("SELECT count(*) FROM attempts") == "46")
            #expect(try ledger.psql("SELECT count(*) FROM attempts_default") == "42")
            #expect(try ledger.psql(Self.partitions) == "0,1,2,3")
            try await upkeep(daemon).prune()
            #expect(try ledger.psql("SELECT min(delivery), count(*) FROM attempts") == "-30|36")
        }
    }

    @Test("What is settled while its day gets a partition moves into it, too")
    func settledMeanwhile() async throws {
        try await TestLedger.run { ledger in
            try await ledger.awayFromMidnight()
            let daemon = try await ledger.daemon()
            let upkeep = upkeep(daemon)
            try await ledger.holding { session throws(DatabaseError) in
                try session.script(
                    """
                    INSERT INTO attempts (at, delivery, message, integration, attempt, outcome, latency_ms)
                    VALUES (now(), 1, 1, 1, 1, 'accepted', 5)
                    """)
            } _: {
                while true {
                    do {
                        return try await upkeep.preparePartitions()
                    } catch let error as DatabaseError where error.isRetryable {
                        // The others took longer than a lock is waited for.
                        continue
                    }
                }
            }
            #expect(try ledger.psql(Self.partitions) == "0,1,2,3")
            #expect(try ledger.psql("SELECT count(*) FROM attempts_default") == "0")
            #expect(try ledger.psql("SELECT count(*) FROM attempts") == "1")
        }
    }

    @Test("Days that a clock ahead has made go once it is right; their attempts are today's, and it is noticed again")
    func daysAhead() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let upkeep = upkeep(daemon, days: 30)
            try await upkeep.preparePartitions()
            for (from, to) in [("2999-01-01", "2999-01-02"), ("2999-01-02", "2999-01-03")] {
                try ledger.psql(
                    """
                    CREATE TABLE attempts_\(from.filter { $0 != "-" }) PARTITION OF attempts
                        FOR VALUES FROM ('\(from) UTC') TO ('\(to) UTC')
                    """)
            }
            try ledger.psql(
                """
                INSERT INTO attempts (delivery, message, integration, attempt, at, outcome, latency_ms)
                VALUES (1, 1, 1, 1, '2999-01-02 12:00 UTC', 'accepted', 1)
                """)
            // Of two hosts.
            async let other: Void = upkeep.pruneInTheEnd()
            try await upkeep.pruneInTheEnd()
            try await other
            #expect(try ledger.psql(Self.partitions) == "0,1,2,3")
            #expect(try ledger.psql("SELECT delivery FROM attempts WHERE at::date <= now()::date") == "1")
            // Seven days later than it was ahead the first time.
            try ledger.psql(
                """
                CREATE TABLE attempts_29990109 PARTITION OF attempts
                    FOR VALUES FROM ('2999-01-09 UTC') TO ('2999-01-10 UTC')
                """)
            let days = Set(
                try ledger.psql("SELECT right(relname, 8) FROM pg_class WHERE relname ~ '^attempts_[0-9]{8}$'")
                    .split(separator: "\n"))
            #expect(days.contains("29990109") && !days.contains("29990102"))
        }
    }

    @Test("By a clock that is behind the days stay as they are")
    func daysBehind() async throws {
        #expect(Upkeep.daysAhead(of: 100, [98, 99, 100, 101, 102, 104, 118, 140, 133, 141]) == [133, 140, 141])
        #expect(Upkeep.daysAhead(of: 100, [80]) == [] && Upkeep.daysAhead(of: 100, [80, 115]) == [115])
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let upkeep = upkeep(daemon, days: 30)
            try await upkeep.preparePartitions()
            // Five days behind: what was written since lies in days that follow without a gap.
            for day in 4..<9 {
                let name = try ledger.psql("SELECT to_char((now() AT TIME ZONE 'UTC')::date + \(day), 'YYYYMMDD')")
                try ledger.psql(
                    """
                    CREATE TABLE attempts_\(name) PARTITION OF attempts
                        FOR VALUES FROM ('\(name) UTC') TO (('\(name)'::date + 1)::timestamp AT TIME ZONE 'UTC');
                    INSERT INTO attempts (delivery, message, integration, attempt, at, outcome, latency_ms)
                    VALUES (\(day), 1, 1, 1, '\(name) 12:00 UTC', 'accepted', 1)
                    """)
            }
            let at = "SELECT string_agg(delivery || ' ' || at, ',' ORDER BY delivery) FROM attempts"
            let before = try ledger.psql(at)
            try await upkeep.pruneInTheEnd()
            #expect(try ledger.psql(at) == before)
            // Years behind: before the newest migration.
            try ledger.psql(
                """
                UPDATE schema_migrations SET applied_at = applied_at + interval '5 years';
                DELETE FROM attempts WHERE delivery = 4
                """)
            let kept = try ledger.psql(at)
            for _ in 0..<2 { try await upkeep.pruneInTheEnd() }
            #expect(try ledger.psql(at) == kept)
        }
    }

    @Test("Days past their time are dropped, and no others")
    func drop() async throws {
        try await TestLedger.run { ledger in
            try await ledger.awayFromMidnight()
            let daemon = try await ledger.daemon()
            for day in [-40, -31, -30, -1] {
                let date = try ledger.psql("SELECT (now() AT TIME ZONE 'UTC')::date + (\(day))")
                let next = try ledger.psql("SELECT (now() AT TIME ZONE 'UTC')::date + (\(day + 1))")
                try ledger.psql(
                    """
                    CREATE TABLE attempts_\(date.filter { $0 != "-" }) PARTITION OF attempts
                    FOR VALUES FROM ('\(date) 00:00:00+00') TO ('\(next) 00:00:00+00')
                    """)
            }
            try await upkeep(daemon).prune()
            #expect(try ledger.psql(Self.partitions) == "-30,-1")
        }
    }

    @Test("Who reads attempts for long holds up neither those who settle nor the rest of the upkeep")
    func longReader() async throws {
        try await TestLedger.run { ledger in
            try await ledger.awayFromMidnight()
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record([.sample()])
            let delivery = try #require(daemon.inbox.take().first)
            try ledger.psql(
                """
                CREATE TABLE attempts_20200101 PARTITION OF attempts
                FOR VALUES FROM ('2020-01-01 00:00:00+00') TO ('2020-01-02 00:00:00+00');
                INSERT INTO breakers (integration, reason, next_probe_at)
                VALUES (99, 'x', now() - interval '25 hours'), (98, 'x', now())
                """)
            let upkeep = upkeep(daemon)
            // It reads on until the others are done, which they must be without it.
            let failures = try await ledger.during("SELECT count(*) FROM attempts") {
                var failures: [String] = []
                for work in [{ try await upkeep.prune() }, { try await upkeep.preparePartitions() }] {
                    do {
                        try await work()
                    } catch DatabaseError.refused(let refusal) {
                        failures.append(refusal.sqlState.code)
                    }
                }
                _ = try await daemon.queue.settle([delivery.settled(.accepted)])
                return failures
            }
            #expect(failures == ["55P03", "55P03"])
            #expect(try ledger.psql("SELECT integration FROM breakers") == "98", "the rest was done")
            try await upkeep.preparePartitions()
            try await upkeep.prune()
            #expect(try ledger.psql(Self.partitions) == "0,1,2,3")
        }
    }

    @Test("An idle breaker is pruned only if its integration is not configured: whoever was notified waits for its end")
    func idleBreakers() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("kept"), .named("removed")])
            for name in ["kept", "removed"] {
                #expect(try await daemon.queue.openBreaker(daemon.row(name), reason: "answered 503"))
            }
            try ledger.psql("UPDATE breakers SET next_probe_at = now() - interval '25 hours'")
            let retention = upkeep(daemon).retention
            try await Upkeep(pool: daemon.pool, retention: retention, integrations: ["kept"]).prune()
            #expect(try ledger.psql("SELECT integration FROM breakers") == "\(daemon.row("kept"))")
        }
    }

    @Test("Where everything is past its time the newest event goes, too")
    func pruneAll() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try ledger.recordBeforePeriods()
            await daemon.record((0..<3).map { .sample("E\($0)", purchase: "p\($0)") })
            try ledger.psql("UPDATE events SET received_at = now() - interval '31 days'")
            try await upkeep(daemon).prune()
            #expect(try ledger.psql("SELECT count(*) FROM events") == "0")
            // The ids have not reached the first period yet.
            try await upkeep(daemon).prune()
            #expect(await daemon.record([.sample("LATER")]) == [.stored])
        }
    }

    @Test("Events past their time go with their messages, unless something of them is still to do or was given up")
    func prune() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            try ledger.recordBeforePeriods()
            await daemon.record(["DONE", "WAITS", "DEAD", "YOUNG"].map { .sample($0, purchase: $0, transaction: $0) })
            let deliveries = daemon.inbox.take()
            func delivery(_ type: String) throws -> Delivery {
                try #require(deliveries.first { $0.message.type == type })
            }
            _ = try await daemon.queue.settle([
                try delivery("DONE").settled(.accepted), try delivery("YOUNG").settled(.accepted),
                try delivery("DEAD").settled(.dead(reason: "x")),
            ])
            try await upkeep(daemon).prune()
            try await upkeep(daemon).pruneEventKeys()
            #expect(try ledger.psql("SELECT count(*) FROM events") == "4")
            #expect(try ledger.psql("SELECT count(*) FROM identities") == "4")
            try ledger.psql("UPDATE events SET received_at = now() - interval '31 days' WHERE type <> 'YOUNG'")
            try ledger.psql(
                """
                UPDATE identities i SET received_at = now() - interval '31 days' FROM events e
                WHERE e.id = i.event AND e.type <> 'YOUNG'
                """)
            try await upkeep(daemon).prune()
            try await upkeep(daemon).pruneEventKeys()
            #expect(try ledger.psql("SELECT string_agg(type, ',' ORDER BY type) FROM events") == "DEAD,WAITS,YOUNG")
            #expect(try ledger.psql("SELECT string_agg(type, ',' ORDER BY type) FROM messages") == "DEAD,WAITS,YOUNG")
            // A key stays as long as its event: nothing else tells that the event came again.
            #expect(try ledger.psql("SELECT count(*) FROM identities") == "3")
            // The ledger is no history: purchases, transactions and entitlements stay.
            #expect(try ledger.psql("SELECT count(*) FROM purchases") == "4")
        }
    }
}
