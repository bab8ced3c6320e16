import Postgres
import Synchronization
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// What doctor asks a database. Oracle: SQL, and what the test has done to the database.
@Suite("What a server says of itself", .serialized)
struct ServerFactsTests {
    private func withPool(
        _ connectionString: String, _ body: (Pool) async throws -> Void
    ) async throws {
        let pool = Pool(
            try TestLedger.settings(connectionString), size: 1,
            waiting: Pool.Waiting(waitersMax: 4, limit: .seconds(120)), backoff: .milliseconds(50)...(.seconds(1)))
        pool.start()
        let result: Result<Void, any Error>
        do { result = .success(try await body(pool)) } catch { result = .failure(error) }
        await pool.close()
        try result.get()
    }

    @Test("Version, role and size are those of psql; tables come by size, partitions under their parent")
    func facts() async throws {
        let ledger = try await TestLedger()
        try ledger.psql(
            """
            CREATE TABLE attempts_20200101 PARTITION OF attempts FOR VALUES FROM ('2020-01-01') TO ('2020-01-02');
            CREATE TABLE large AS SELECT repeat(md5(i::text), 20) AS text FROM generate_series(1, 5000) i
            """)
        try await withPool(ledger.connectionString) { pool in
            let facts = try await ServerFacts.read(from: pool)
            #expect(try ledger.psql("SHOW server_version") == facts.version)
            #expect(try ledger.psql("SELECT current_user") == facts.role)
            #expect(facts.isSuperuser)
            #expect(facts.databaseBytes > 1 << 20)
            let largest = try await TableSize.largest(3, in: pool)
            #expect(largest.count == 3 && largest.first?.table == "large")
            #expect(largest.map(\.bytes) == largest.map(\.bytes).sorted(by: >))
            let all = try await TableSize.largest(100, in: pool).map(\.table)
            #expect(all.contains("attempts") && !all.contains { $0.hasPrefix("attempts_") })
        }
    }

    @Test("The clock is read between two readings of this machine's")
    func clock() async throws {
        let ledger = try await TestLedger()
        let readings = Mutex<[Int64]>([1_000, 1_040])
        try await withPool(ledger.connectionString) { pool in
            let reading = try await ClockReading.take(from: pool) {
                Timestamp(milliseconds: readings.withLock { $0.isEmpty ? 0 : $0.removeFirst() })
            }
            #expect(reading.before.milliseconds == 1_000 && reading.after.milliseconds == 1_040)
            let seconds = try #require(Int64(ledger.psql("SELECT extract(epoch FROM clock_timestamp())::bigint")))
            #expect(abs(reading.database.milliseconds / 1_000 - seconds) <= 30)
        }
    }

    @Test("A database without a schema has no version; a migrated one has the program's, and nothing is left to build")
    func schema() async throws {
        let empty = try await TestLedger(isMigrated: false)
        try await withPool(empty.connectionString) { pool in
            let version = try await SchemaVersion.read(from: pool)
            #expect(version.database == nil)
        }
        let ledger = try await TestLedger()
        try await withPool(ledger.connectionString) { pool in
            let version = try await SchemaVersion.read(from: pool)
            #expect(version.database == version.program)
            #expect(version.program == Migrator.newest)
            let built = try await IndexMigration.unfinished(in: pool)
            #expect(built == [])
            try ledger.psql("DROP INDEX events_stray; CREATE INDEX events_holder ON events (holder, id)")
            let unfinished = try await IndexMigration.unfinished(in: pool)
            #expect(unfinished == ["events_stray", "events_holder"])
        }
    }

    @Test("An owner lacks nothing; of another role each privilege that it lacks is named")
    func privileges() async throws {
        let ledger = try await TestLedger()
        let role = "lacking_\(ledger.database)"
        try ledger.psql(
            """
            CREATE ROLE \(role) LOGIN;
            GRANT USAGE, CREATE ON SCHEMA public TO \(role);
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO \(role);
            GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO \(role);
            REVOKE INSERT, UPDATE, DELETE ON schema_migrations FROM \(role);
            REVOKE INSERT ON events FROM \(role);
            REVOKE USAGE ON SEQUENCE event_ids FROM \(role)
            """)
        try await withPool(ledger.connectionString) { pool in
            let missing = try await MissingPrivilege.read(from: pool)
            #expect(missing == [])
        }
        let url = ledger.connectionString.replacing(/user=\w+/, with: "user=\(role)")
        try await withPool(url) { pool in
            let facts = try await ServerFacts.read(from: pool)
            #expect(facts.role == role && !facts.isSuperuser)
            #expect(
                try await MissingPrivilege.read(from: pool) == [
                    MissingPrivilege(object: "SEQUENCE delivery_ids", privilege: "UPDATE"),
                    MissingPrivilege(object: "SEQUENCE event_ids", privilege: "UPDATE"),
                    MissingPrivilege(object: "SEQUENCE event_ids", privilege: "USAGE"),
                    MissingPrivilege(object: "SEQUENCE message_ids", privilege: "UPDATE"),
                    MissingPrivilege(object: "TABLE attempts", privilege: "OWNER"),
                    MissingPrivilege(object: "TABLE events", privilege: "INSERT"),
                    MissingPrivilege(object: "TABLE events", privilege: "OWNER"),
                    MissingPrivilege(object: "TABLE messages", privilege: "OWNER"),
                ])
        }
    }
}
