import Postgres
import TestSupport
import Testing

@testable import Ledger

/// A migration while others use the tables that it changes. Oracle: SQL, which takes the lock that an INSERT takes.
@Suite("Migrations beside others", .timeLimit(.minutes(30)))
struct MigrationWaitTests {
    /// A ledger as version 16 left it: `messages` is still to be changed.
    private func olderLedger() async throws -> TestLedger {
        let ledger = try await TestLedger()
        try ledger.psql(
            """
            ALTER TABLE messages DROP COLUMN access; DROP SEQUENCE access_versions;
            DELETE FROM schema_migrations WHERE version = 17
            """)
        return ledger
    }

    private func migrate(
        _ ledger: TestLedger, onWait: @Sendable (MigrationError) -> Void
    ) async throws -> Result<(from: Int, to: Int), MigrationError> {
        let connection = try await ledger.connect()
        return try await Migrator.migrate(on: connection, onWait: onWait)
    }

    /// Behind a migration that waits it would wait for as long as the other transaction lasts.
    private func takeLockOfInsert(_ ledger: TestLedger) throws {
        try ledger.psql(
            "SET statement_timeout = '120s'; BEGIN; LOCK TABLE messages IN ROW EXCLUSIVE MODE; COMMIT")
    }

    @Test("Behind a backup it waits without holding up a webhook, and is done once the backup has ended")
    func backup() async throws {
        let ledger = try await olderLedger()
        let (waits, wait) = AsyncStream<String>.makeStream()
        let migrating = try await ledger.during("SELECT FROM messages") {
            let migrating = Task {
                defer { wait.finish() }
                return try await migrate(ledger) { wait.yield("\($0)") }
            }
            let said = await waits.first { _ in true }
            #expect(said?.contains("of the role postgres") == true, "\(said ?? "it did not wait")")
            for _ in 0..<10 { try takeLockOfInsert(ledger) }
            #expect(try ledger.psql("SELECT count(*) FROM schema_migrations WHERE version = 17") == "0")
            return migrating
        }
        #expect(try await migrating.value.get().to == Migrator.newest)
        #expect(try ledger.psql("SELECT count(access) FROM messages") == "0")
    }

    @Test("A start that is given up while it waits leaves nothing behind that webhooks wait for")
    func cancelled() async throws {
        let ledger = try await olderLedger()
        let (waits, wait) = AsyncStream<Void>.makeStream()
        try await ledger.during("SELECT FROM messages") {
            let migrating = Task {
                defer { wait.finish() }
                return try await migrate(ledger) { _ in wait.yield() }
            }
            _ = await waits.first { _ in true }
            migrating.cancel()
            await #expect(throws: CancellationError.self) { _ = try await migrating.value.get() }
            try takeLockOfInsert(ledger)
        }
    }

    @Test("A lock that is taken between look and change is waited for shortly")
    func taken() async throws {
        let ledger = try await olderLedger()
        let migration = try #require(Migration.all.first { $0.version == 17 })
        let failure = try await ledger.during("SELECT FROM messages") {
            let connection = try await ledger.connect()
            let failure = try await connection.withSession { session throws(DatabaseError) in
                try session.decidedTransaction {
                    session throws(DatabaseError) -> TransactionVerdict<MigrationError?> in
                    _ = try session.run(SwitchGate.limitWaits, ())
                    return .rollBack(Migrator.apply(migration, on: session))
                }
            }
            await connection.close()
            return failure
        }
        guard case .inUse(let users)? = failure, users.isEmpty else {
            Issue.record("\(failure.map { "\($0)" } ?? "it went through")")
            return
        }
    }

    @Test("Who waits for it in a circle is waited for; the role's own limit ends no wait for another daemon's")
    func circle() async throws {
        let ledger = try await olderLedger()
        try ledger.psql("ALTER DATABASE \(ledger.database) SET lock_timeout = '300ms'")
        let migrating = try await ledger.holding { session throws(DatabaseError) in
            try Migrator.holdStarts(on: session)
        } _: {
            try await migrate(ledger) { _ in }
        } meanwhile: {
            try await Task.sleep(for: .milliseconds(600))
        }
        #expect(try migrating.get().to == Migrator.newest)
        let deadlock = Migration(
            version: 9_999, name: "circle", sql: "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40P01'; END $$")
        let connection = try await ledger.connect()
        let failure = try await connection.withSession { session throws(DatabaseError) in
            try session.decidedTransaction { session throws(DatabaseError) -> TransactionVerdict<MigrationError?> in
                .rollBack(Migrator.apply(deadlock, on: session))
            }
        }
        await connection.close()
        guard case .inUse(let users)? = failure, users.isEmpty else {
            Issue.record("\(failure.map { "\($0)" } ?? "it went through")")
            return
        }
    }

    private static let limitsTransactions: Bool = {
        let settings = "SELECT count(*) FROM pg_settings WHERE name = 'transaction_timeout'"
        return (try? TestCluster.shared.psql(settings)) == "1"
    }()

    @Test(
        "A limit of whole transactions ends no wait for another daemon's migration",
        .enabled(if: limitsTransactions, "it takes PostgreSQL 17 (POSTHOUSE_TEST_POSTGRESQL)"))
    func limitOfTransactions() async throws {
        let ledger = try await olderLedger()
        // As the role may have it.
        let limited = try TestLedger.settings(ledger.connectionString + " options='-c transaction_timeout=3s'")
        let migrating = try await ledger.holding { session throws(DatabaseError) in
            try Migrator.holdStarts(on: session)
        } _: {
            try await Migrator.migrate(on: Connection.open(limited))
        } meanwhile: {
            try await Task.sleep(for: .seconds(4))
        }
        #expect(try migrating.get().to == Migrator.newest)
    }

    @Test("Waited for is who uses a table that the migration names, or a partition of it, and nobody else")
    func users() async throws {
        let ledger = try await TestLedger()
        let connection = try await ledger.connect()
        let partition = try ledger.psql(
            "SELECT min(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'messages'::regclass")
        let (mine, others) = try await ledger.during("SELECT FROM \(partition)") {
            try await connection.withSession { session throws(DatabaseError) in
                (
                    try SwitchGate.lastingUsers(ofTablesIn: "ALTER TABLE messages ADD x text", on: session),
                    try SwitchGate.lastingUsers(ofTablesIn: "ALTER TABLE messages_old, events ADD x text", on: session)
                )
            }
        }
        await connection.close()
        #expect(mine.count == 1 && others.isEmpty, "\(mine), \(others)")
    }
}
