import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Two daemons prune in the same moment. Oracle: SQL.
@Suite("Two daemons at their upkeep at once", .serialized, .timeLimit(.minutes(30)))
struct UpkeepRaceTests {
    private let periods = PeriodUpkeepTests()

    /// What such a statement has seen before another one's commit, and what PostgreSQL's functions no longer know.
    @Test("A partition that is dropped while a statement reads the catalogue is no fault and has no other name")
    func dropped() async throws {
        try await TestLedger.run { ledger in
            try ledger.psql(
                PeriodTables.creation(of: 2)
                    + """
                    CREATE TABLE attempts_20200101 PARTITION OF attempts
                        FOR VALUES FROM ('2020-01-01 UTC') TO ('2020-01-02 UTC');
                    DROP INDEX events_stray;
                    CREATE INDEX events_stray ON ONLY events (holder, id) WHERE stray
                    """)
            let reader = try await ledger.connect()
            try await reader.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    // A statement that lasts, for its snapshot is the transaction's.
                    try session.script("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT")
                    do {
                        try ledger.psql("DROP TABLE events_2, attempts_20200101")
                    } catch {
                        Issue.record(error)
                    }
                    #expect(try session.run(PeriodTables.partitions, "events").map(\.name) == ["events_1"])
                    #expect(try session.run(Upkeep.unidentified, ()) == ["attempts_20200101"])
                    #expect(try session.run(IndexMigration.withoutPart, "events_stray") == ["events_1", "events_2"])
                }
            }
        }
    }

    @Test("What daemons prove of the rows that were kept, they add once, and none of them is put off")
    func boundTwice() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            let first = periods.upkeep(daemon)
            let second = periods.upkeep(try await ledger.daemon())
            for name in ["ONE", "TWO"] {
                await daemon.record([.sample(name, purchase: name)])
                try await periods.settle(daemon) { _ in .dead }
                try await periods.pass(10, ledger, first)
            }
            try await periods.pass(21, ledger, first)
            try await first.pruneInTheEnd()
            #expect(try ledger.psql("SELECT count(*) FROM events_kept") == "1")
            try await periods.pass(20, ledger, first)
            // So that what one has read is old when it acts.
            try ledger.psql(
                """
                CREATE FUNCTION pause() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.1); END';
                CREATE EVENT TRIGGER pause ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION pause()
                """)
            await withTaskGroup { group in
                for upkeep in [first, second] {
                    group.addTask {
                        do { try await upkeep.prune() } catch {
                            // On a busy machine it has waited for too long.
                            #expect((error as? DatabaseError)?.isTemporary == true, "\(error)")
                        }
                    }
                }
            }
            try await first.pruneInTheEnd()
            #expect(try ledger.psql("SELECT count(*) FROM events_kept") == "2")
            let left = "SELECT count(*) FROM pg_constraint WHERE conname LIKE 'below_%' AND contype = 'c'"
            #expect(try ledger.psql(left) == "0")
        }
    }

    @Test("Who comes late to a period that the other has dropped neither bounds what is kept nor drops anything")
    func late() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            let (first, second) = (periods.upkeep(daemon), periods.upkeep(try await ledger.daemon()))
            for name in ["ONE", "TWO", "THREE"] {
                await daemon.record([.sample(name, purchase: name)])
                try await periods.settle(daemon) { _ in .dead }
                try await periods.pass(40, ledger, first)
                try await first.pruneInTheEnd()
            }
            #expect(try ledger.psql("SELECT count(*) FROM events_kept") == "2")
            try await second.boundKept(of: "events", below: Period.firstID(3))
            let (result, locks) = try await daemon.pool.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    let result = try second.drop(2, on: session)
                    let locks = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode ~ '^AccessEx'"
                    return (result, try session.number(locks))
                }
            }
            #expect(result == .dropped && locks == 0)
            let left = "SELECT count(*) FROM pg_constraint WHERE conname LIKE 'below_%' AND contype = 'c'"
            #expect(try ledger.psql(left) == "0")
        }
    }

    @Test("Who reads attempts while those of a day are moved to its partition finds each of them")
    func moved() async throws {
        try await TestLedger.run { ledger in
            try await ledger.awayFromMidnight()
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record([.sample()])
            try await periods.settle(daemon) { _ in .accepted }
            try ledger.psql("UPDATE attempts SET at = at + interval '20 days'")
            #expect(try ledger.psql("SELECT count(*) FROM attempts_default") == "1")
            let days = "SELECT (now() AT TIME ZONE 'UTC')::date - date '1970-01-01'"
            let day = try #require(Int32(ledger.psql(days))) + 20
            // A statement, as those of `backfill`: what it looks through is decided before its snapshot is taken.
            let count = Statement<(), Int64>("test_attempts", "SELECT count(*) FROM attempts")
            let found = try await ledger.holding { session throws(DatabaseError) in
                try Upkeep.makePartitions([day], on: session)
            } _: {
                try await daemon.pool.withSession { session throws(DatabaseError) in try session.run(count, ()) }
            }
            #expect(found == [1])
            #expect(try ledger.psql("SELECT count(*) FROM attempts_default") == "0")
        }
    }

    @Test("A look-up while a period is dropped finds what is kept of it")
    func lookup() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            let upkeep = periods.upkeep(daemon)
            await daemon.record([.sample("ONE", holder: .anonymous("device"), purchase: "one")])
            try await periods.settle(daemon) { _ in .dead }
            try await periods.pass(40, ledger, upkeep)
            // So that the session has planned otherwise before, and says so in the look-up's transaction.
            await daemon.record([.sample("TWO", holder: .anonymous("other"), purchase: "two")])
            let lookup = HolderLookup(pool: daemon.pool)
            let names = try await ledger.holding { session throws(DatabaseError) in
                #expect(try upkeep.drop(1, on: session) == .dropped)
                // A machine that stands still for a second ends no test.
                try session.script("SET LOCAL idle_in_transaction_session_timeout = 0")
            } _: {
                try await lookup.history(
                    of: .install("device"), in: LookupScope(environment: "PRODUCTION", source: nil), limit: 10
                ).entries.map(\.name)
            }
            #expect(try ledger.psql("SELECT count(*) FROM events_kept") == "1")
            #expect(names == ["ONE"])
        }
    }
}
