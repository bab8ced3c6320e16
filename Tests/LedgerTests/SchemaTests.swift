import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// `[database] schema`. Oracle: SQL, which names every schema itself.
@Suite("A ledger in a schema of its own", .timeLimit(.minutes(30)))
struct SchemaTests {
    private let newest = Migrator.newest

    /// What an app has in `public`, under our names.
    private static let decoys = """
        CREATE TABLE schema_migrations (version varchar PRIMARY KEY);
        CREATE TABLE events (id integer PRIMARY KEY, name text);
        CREATE TABLE messages (id integer PRIMARY KEY, event integer);
        CREATE TABLE deliveries (id integer PRIMARY KEY);
        CREATE TABLE attempts (id integer PRIMARY KEY);
        CREATE TABLE attempts_20200101 () INHERITS (attempts);
        CREATE TABLE purchases (id integer PRIMARY KEY);
        CREATE TABLE daemons (id integer PRIMARY KEY);
        CREATE SEQUENCE event_ids MINVALUE -5 START -5;
        CREATE SEQUENCE message_ids MINVALUE -5 START -5
        """
    /// Everything that is in `public`, with what it holds.
    private static let inPublic = """
        SELECT relname, relkind,
               CASE WHEN relkind = 'r' THEN (SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute
                                             WHERE attrelid = c.oid AND attnum > 0) END,
               CASE WHEN relkind = 'S' THEN pg_sequence_last_value(oid) END,
               CASE WHEN relkind = 'r' THEN (xpath('/row/n/text()', query_to_xml(
                   format('SELECT count(*) AS n FROM %s', oid::regclass), false, true, '')))[1]::text END
        FROM pg_class c WHERE relnamespace = 'public'::regnamespace ORDER BY 1
        """

    private func migrate(_ settings: ConnectionSettings) async throws -> Result<(from: Int, to: Int), MigrationError> {
        let connection = try await Connection.open(settings)
        let result = try await connection.withSession { session throws(DatabaseError) in
            try Migrator.migrate(on: session)
        }
        await connection.close()
        return result
    }

    private func migrateIndexes(_ settings: ConnectionSettings) async throws -> IndexMigration.Outcome {
        let connection = try await Connection.open(settings)
        let outcome = try await connection.withSession { session throws(DatabaseError) in
            try IndexMigration.run(on: session)
        }
        await connection.close()
        return outcome
    }

    private func pool(_ settings: ConnectionSettings) -> Pool {
        Pool(
            settings, size: 1, waiting: Pool.Waiting(waitersMax: 4, limit: .seconds(120)),
            backoff: .milliseconds(50)...(.seconds(1)))
    }

    @Test("Beside another program's tables of the same names it is made, filled and kept up, and touches none of them")
    func besideOthers() async throws {
        let ledger = try await TestLedger(isMigrated: false)
        try ledger.psql(Self.decoys)
        let before = try ledger.psql(Self.inPublic)
        let settings = try TestLedger.settings(ledger.connectionString, schema: "posthouse")
        let first = try await migrate(settings).get()
        #expect(first.from == 0 && first.to == newest)
        #expect(try await migrate(settings).get().from == newest)
        #expect(try await migrateIndexes(settings) == .done)

        let daemon = try await ledger.daemon([.named("all")], settings: settings)
        let answers = await daemon.record([.sample(), .sample("CANCELLED", at: seconds(5), transaction: "tx_2")])
        #expect(answers.count == 2 && !answers.contains(.unavailable))
        #expect(try ledger.psql("SELECT count(*) FROM posthouse.events") == "2")
        let upkeep = Upkeep(
            pool: daemon.pool,
            retention: Retention(attempts: .seconds(86_400), events: .seconds(86_400), duplicates: .seconds(86_400)))
        try await upkeep.preparePartitions()
        try await upkeep.prune()
        // The default one, today's and those made ahead.
        #expect(
            try ledger.psql(
                """
                SELECT count(*) >= 5 FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                WHERE i.inhparent = 'posthouse.attempts'::regclass AND c.relnamespace = 'posthouse'::regnamespace
                """) == "t")
        #expect(try await MissingPrivilege.read(from: daemon.pool) == [])
        #expect(try await SchemaVersion.read(from: daemon.pool).database == newest)
        await daemon.pool.close()
        #expect(try ledger.psql(Self.inPublic) == before)
    }

    @Test("Two ledgers in two schemas of one database know nothing of each other, and do not wait for each other")
    func two() async throws {
        let ledger = try await TestLedger(isMigrated: false)
        let one = try TestLedger.settings(ledger.connectionString, schema: "one")
        // It would fail if it had to wait.
        let two = try TestLedger.settings(
            ledger.connectionString + " options='-c lock_timeout=60000'", schema: "two")
        _ = try await migrate(one).get()
        // Meanwhile every start on the one is held up.
        let holder = try await Connection.open(one)
        let gate = Gate()
        async let held: Void = holder.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                try Migrator.holdStarts(on: session)
                gate.open()
                gate.waitForClose()
            }
        }
        await gate.opened()
        let outcome: Result<(from: Int, to: Int), any Error>
        do { outcome = .success(try await migrate(two).get()) } catch { outcome = .failure(error) }
        gate.close()
        try await held
        await holder.close()
        #expect(try outcome.get().from == 0)
        let daemon = try await ledger.daemon([.named("all")], settings: two)
        await daemon.record([.sample()])
        await daemon.pool.close()
        #expect(try ledger.psql("SELECT (SELECT count(*) FROM one.events), (SELECT count(*) FROM two.events)") == "0|1")
    }

    @Test("A role that may not make or use the schema is told who must run what")
    func forbidden() async throws {
        let ledger = try await TestLedger(isMigrated: false)
        let role = "schemaless_\(ledger.database)"
        try ledger.psql("CREATE ROLE \(role) LOGIN")
        let url = ledger.connectionString.replacing(/user=\w+/, with: "user=\(role)")
        let settings = try TestLedger.settings(url, schema: "posthouse")
        guard case .failure(let missing) = try await migrate(settings) else { Issue.record("it was made"); return }
        #expect("\(missing)".hasSuffix("CREATE SCHEMA \"posthouse\" AUTHORIZATION \(role)"), "\(missing)")
        try ledger.psql("CREATE SCHEMA posthouse")
        guard case .failure(let unusable) = try await migrate(settings) else { Issue.record("it was used"); return }
        #expect("\(unusable)".hasSuffix("GRANT USAGE, CREATE ON SCHEMA \"posthouse\" TO \(role)"), "\(unusable)")
        // What they say helps.
        try ledger.psql("DROP SCHEMA posthouse; CREATE SCHEMA \"posthouse\" AUTHORIZATION \(role)")
        #expect(try await migrate(settings).get().to == newest)
    }

    @Test("A privilege that is missing is named with the schema, so that its GRANT works from anywhere")
    func privileges() async throws {
        let ledger = try await TestLedger(isMigrated: false)
        _ = try await migrate(TestLedger.settings(ledger.connectionString, schema: "posthouse")).get()
        let role = "lacking_\(ledger.database)"
        try ledger.psql(
            """
            CREATE ROLE \(role) LOGIN;
            GRANT USAGE ON SCHEMA posthouse TO \(role);
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA posthouse TO \(role);
            GRANT USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA posthouse TO \(role);
            REVOKE UPDATE ON posthouse.purchases FROM \(role);
            ALTER TABLE posthouse.attempts OWNER TO \(role);
            ALTER TABLE posthouse.events OWNER TO \(role)
            """)
        let url = ledger.connectionString.replacing(/user=\w+/, with: "user=\(role)")
        let pool = pool(try TestLedger.settings(url, schema: "posthouse"))
        pool.start()
        let missing = Set(try await MissingPrivilege.read(from: pool))
        await pool.close()
        #expect(
            missing.isSuperset(of: [
                MissingPrivilege(object: "SCHEMA posthouse", privilege: "CREATE"),
                MissingPrivilege(object: "TABLE posthouse.messages", privilege: "OWNER"),
                MissingPrivilege(object: "TABLE posthouse.purchases", privilege: "UPDATE"),
            ]), "\(missing)")
        #expect(missing.allSatisfy { $0.object.contains("posthouse") }, "\(missing)")
        for one in missing where one.privilege != "OWNER" {
            try ledger.psql("GRANT \(one.privilege) ON \(one.object) TO \(role)")
        }
    }

    @Test("Where the table of migrations is another program's, nothing is touched, and the key that helps is named")
    func foreign() async throws {
        let ledger = try await TestLedger(isMigrated: false)
        try ledger.psql(Self.decoys)
        let before = try ledger.psql(Self.inPublic)
        guard case .failure(let error) = try await migrate(TestLedger.settings(ledger.connectionString)) else {
            Issue.record("another program's tables were taken for ours")
            return
        }
        #expect("\(error)".contains("[database] schema"), "\(error)")
        #expect(try ledger.psql(Self.inPublic) == before)
    }

    @Test("Beside a living daemon that finds the schema otherwise no daemon registers and no command runs")
    func sharedLocks() async throws {
        let ledger = try await TestLedger(isMigrated: false)
        let named = try TestLedger.settings(ledger.connectionString, schema: "posthouse")
        let found = try TestLedger.settings(ledger.connectionString + " options='-c search_path=posthouse'")
        _ = try await migrate(named).get()
        func with(_ settings: ConnectionSettings, _ body: (Pool, Registration) async throws -> Void) async throws {
            let pool = pool(settings)
            pool.start()
            let result: Result<Void, any Error>
            do {
                result = .success(
                    try await body(
                        pool,
                        Registration(
                            pool: pool, key: nil, version: "test", clock: DatabaseClock(),
                            // Nobody renews it, and on a busy machine a test takes longer than a lease lasts.
                            leaseDuration: .seconds(3_600))))
            } catch {
                result = .failure(error)
            }
            await pool.close()
            try result.get()
        }
        try await with(found) { pool, registration in
            try await registration.register()
            try await SharedLocks.require(in: pool)
        }
        try await with(named) { pool, registration in
            await #expect(throws: SharedLocks.Mismatch.self) { try await registration.register() }
            await #expect(throws: SharedLocks.Mismatch.self) { try await SharedLocks.require(in: pool) }
            // As once its lease has ended, or an older version has registered.
            for gone in ["expires_at = now() - interval '1 second'", "lock_salt = NULL"] {
                try ledger.psql("UPDATE posthouse.daemons SET \(gone)")
                try await SharedLocks.require(in: pool)
            }
            try await registration.register()
        }
        // An older version's ledger.
        try ledger.psql("ALTER TABLE posthouse.daemons DROP COLUMN lock_salt")
        try await with(named) { pool, _ in try await SharedLocks.require(in: pool) }
    }

    @Test("Other settings are used for the same ledger alone: not for an empty database, another ledger or a copy")
    func mark() async throws {
        let ledger = try await TestLedger()
        let other = try await TestLedger()
        let empty = try await TestLedger(isMigrated: false)
        let copyURL = try TestCluster.shared.createDatabase(copyOf: ledger.database)

        let open = try pool(TestLedger.settings(ledger.connectionString))
        open.start()
        let mark = try await LedgerMark.read(from: open)
        // Never started: as out of reach.
        let lost = try pool(TestLedger.settings(ledger.connectionString))
        func problem(_ url: String, _ pool: Pool, isDeclared: Bool = true) async throws -> String? {
            try await mark.problem(with: TestLedger.settings(url), insteadOf: pool, isDeclared: isDeclared)
        }
        let renamed = ledger.connectionString + " application_name=renamed"
        #expect(try await problem(renamed, open) == nil)
        #expect(try await problem(renamed, lost) == nil)
        for url in [other.connectionString, empty.connectionString] {
            #expect(try await problem(url, open)?.contains("another ledger") == true)
            #expect(try await problem(url, lost)?.contains("another ledger") == true)
        }
        // A copy has the mark: only a connection to the original tells them apart.
        #expect(try await problem(copyURL, open)?.contains("another ledger") == true)
        #expect(try await problem(copyURL, lost) == nil)
        // The shared cluster runs without fsync.
        #expect(try await problem(renamed, open, isDeclared: false)?.contains("fsync") == true)
        await #expect(throws: DatabaseError.self) {
            _ = try await problem("host=/nowhere dbname=x", open)
        }
        await open.close()
    }
}
