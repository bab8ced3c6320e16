import Foundation
import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Five months of the database's clock, more than three times what is kept the longest. `now()` is a function of the
/// test's own, found before PostgreSQL's by the search path, so that partitions, leases, ages and defaults all live by
/// it; every day webhooks come, messages are settled and the upkeep runs as it does by the hour.
@Suite("Five months", .timeLimit(.minutes(30)))
struct MonthsTests {
    private static let days = 150
    private static let webhooksOfADay = 12
    private static let purchases = 30
    /// Days.
    private static let (attempts, events, duplicates) = (14, 45, 21)

    private static let moveClock = """
        CREATE SCHEMA moved;
        CREATE TABLE moved.clock (ahead interval NOT NULL);
        INSERT INTO moved.clock VALUES ('0');
        CREATE FUNCTION moved.now() RETURNS timestamptz STABLE LANGUAGE sql AS
            'SELECT pg_catalog.now() + ahead FROM moved.clock';
        DO $$
        DECLARE c record;
        BEGIN
            FOR c IN SELECT table_name, column_name FROM information_schema.columns
                     WHERE table_schema = 'public' AND column_default = 'now()'
            LOOP
                EXECUTE format('ALTER TABLE public.%I ALTER COLUMN %I SET DEFAULT moved.now()', c.table_name, c.column_name);
            END LOOP;
            EXECUTE format('ALTER DATABASE %I SET search_path = moved, public, pg_catalog', current_database());
        END $$
        """

    private static let nextDay = """
        UPDATE moved.clock SET ahead = ahead + interval '1 day';
        UPDATE daemons SET expires_at = now() + interval '1 hour'
        """

    /// Bytes of all tables and indexes that hold history.
    private static let bytes = """
        SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
          AND c.relname ~ '^(events|identities|messages|deliveries|attempts)'
        """

    @Test("Every table of history stays at its retention, and what the ledger must remember is there")
    func months() async throws {
        try await TestLedger.run { ledger in
            try ledger.psql(Self.moveClock)
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            let day = Duration.seconds(86_400)
            let upkeep = Upkeep(
                pool: daemon.pool,
                retention: Retention(
                    attempts: day * Self.attempts, events: day * Self.events, duplicates: day * Self.duplicates))
            var bytesAtHalf = 0
            for number in 1...Self.days {
                try await Self.pass(number, daemon, upkeep)
                if number % 30 == 0 { try ledger.psql("VACUUM events, identities, messages, deliveries") }
                if number == Self.days / 2 { bytesAtHalf = try #require(Int(try ledger.psql(Self.bytes))) }
            }
            try Self.expectBounded(ledger)
            let bytes = try #require(Int(try ledger.psql(Self.bytes)))
            #expect(bytes < bytesAtHalf * 5 / 4, "\(bytesAtHalf) bytes after half the time, \(bytes) after all of it")
            #expect(daemon.log.warnings == [])
        }
    }

    private static func pass(_ number: Int, _ daemon: Daemon, _ upkeep: Upkeep) async throws {
        try await daemon.pool.withSession { session throws(DatabaseError) in try session.script(nextDay) }
        #expect(try await daemon.queue.keepAlive())
        let events = (0..<webhooksOfADay).map { index in
            let purchase = "p\((number * webhooksOfADay + index) % purchases)"
            return Event.sample(
                "ACTIVATE", at: seconds(Int64(number)), purchase: purchase, transaction: "t\(number)-\(index)",
                fact: .activate(user, seconds(Int64(number))))
        }
        #expect(await daemon.record(events) == Array(repeating: .stored, count: webhooksOfADay))
        let deliveries = daemon.inbox.take()
        #expect(deliveries.count == webhooksOfADay)
        daemon.dispatchBuffer.release(
            daemon.row("all"), deliveries.count, bytes: deliveries.reduce(0) { $0 + $1.message.bytes })
        // One a month is given up.
        _ = try await daemon.queue.settle(
            deliveries.enumerated().map { index, delivery in
                delivery.settled(number % 30 == 0 && index == 0 ? .dead(reason: "x") : .accepted)
            })
        try await upkeep.preparePartitions()
        try await upkeep.beginPeriod()
        try await upkeep.pruneInTheEnd()
        try await upkeep.pruneEventKeys()
    }

    private static func expectBounded(_ ledger: TestLedger) throws {
        func count(_ table: String) throws -> Int {
            try #require(Int(try ledger.psql("SELECT count(*) FROM \(table)")))
        }
        // A dead letter keeps its event.
        let dead = Self.days / 30
        #expect(try count("dead_letters") == dead)
        let kept = try count("events")
        #expect((Self.events * webhooksOfADay...(Self.events + 2) * webhooksOfADay + dead).contains(kept))
        #expect(try count("messages") == kept)
        // A key stays as long as its event.
        #expect(try count("identities") == kept)
        let tried = try count("attempts")
        #expect((Self.attempts * webhooksOfADay...(Self.attempts + 1) * webhooksOfADay).contains(tried))
        #expect(try count("attempts_default") == 0)
        #expect(try count("pg_inherits WHERE inhparent = 'events'::regclass") <= Self.events + 4)
        #expect(try count("events_kept") == dead - 2, "the others are in periods that stand")
        let partitions = try count("pg_inherits WHERE inhparent = 'attempts'::regclass")
        #expect(partitions <= Self.attempts + 1 + Upkeep.partitionsAhead + 1 + 1)
        #expect(try count("deliveries") == 0)
        // The ledger is no history: what was bought stays, however long ago it was recorded.
        #expect(try count("purchases") == purchases)
        #expect(try count("transactions") == Self.days * webhooksOfADay)
        #expect(try count("entitlements") == purchases)
    }
}
