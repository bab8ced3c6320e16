import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: PostgreSQL, which refuses to change or delete rows that a publication could not tell from others.
@Suite("Beside a publication of all tables", .serialized, .timeLimit(.minutes(30)))
struct PublicationTests {
    /// Tables whose rows logical replication cannot tell from others.
    private static let unknown = """
        SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class c
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relreplident <> 'f'
          AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary)
        """

    @Test("Days are made and pruned, missing ends are added, and a person is erased")
    func published() async throws {
        try await TestLedger.run { ledger in
            try await ledger.awayFromMidnight()
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            try ledger.psql(
                """
                CREATE PUBLICATION everything FOR ALL TABLES;
                CREATE TABLE attempts_20200101 PARTITION OF attempts FOR VALUES FROM ('2020-01-01') TO ('2020-01-02');
                INSERT INTO purchase_ends_missing VALUES ('00000000-0000-0000-0000-000000000000')
                """)
            await daemon.record([.sample("A", holder: user, purchase: "a")])
            _ = try await daemon.queue.settle(
                daemon.inbox.take().map {
                    $0.settled(.dead(reason: "answered 400"), status: 400, failure: "answered 400: no")
                })
            let month = Duration.seconds(30 * 86_400)
            let upkeep = Upkeep(
                pool: daemon.pool, retention: Retention(attempts: month, events: month, duplicates: month))
            try await upkeep.preparePartitions()
            #expect(try ledger.psql("SELECT count(*) FROM attempts_default") == "0")
            #expect(try ledger.psql(Self.unknown) == "", "that of an older daemon, too")
            try await upkeep.beginPeriod()
            try await upkeep.prune()
            try await upkeep.pruneEventKeys()
            #expect(try ledger.psql("SELECT count(*) FROM purchase_ends_missing") == "0")
            let erasure = try await Erasure.start(user, source: nil, isDry: false, in: daemon.pool)
            let tally = try await erasure.run(in: daemon.pool) { _ in }
            #expect(tally.events == 1)
            #expect(try ledger.psql("SELECT count(*), count(failure) FROM attempts") == "1|0")
            #expect(try ledger.psql(Self.unknown) == "")
        }
    }

    @Test("The tables of a ledger from before are changed by the migration, its days, too")
    func migrated() async throws {
        let ledger = try await TestLedger()
        try ledger.psql(
            """
            ALTER TABLE attempts REPLICA IDENTITY DEFAULT;
            ALTER TABLE attempts_default REPLICA IDENTITY DEFAULT;
            ALTER TABLE purchase_ends_missing REPLICA IDENTITY DEFAULT;
            CREATE TABLE attempts_20200101 PARTITION OF attempts FOR VALUES FROM ('2020-01-01') TO ('2020-01-02');
            DELETE FROM schema_migrations WHERE name = 'replica_identity'
            """)
        let before = "attempts attempts_20200101 attempts_default purchase_ends_missing"
        #expect(try ledger.psql(Self.unknown) == before)
        let connection = try await ledger.connect()
        let result = try await connection.withSession { session throws(DatabaseError) in
            try Migrator.migrate(on: session)
        }
        await connection.close()
        _ = try result.get()
        #expect(try ledger.psql(Self.unknown) == "")
    }
}
