import Postgres
import TestSupport
import Testing

@testable import Ledger

/// Oracle: what psql finds in the catalogue.
@Suite("Migrations", .serialized)
struct MigratorTests {
    private let newest = Migrator.newest

    private func migrate(_ ledger: TestLedger) async throws -> Result<(from: Int, to: Int), MigrationError> {
        let connection = try await ledger.connect()
        let result = try await connection.withSession { session throws(DatabaseError) in
            try Migrator.migrate(on: session)
        }
        await connection.close()
        return result
    }

    private func shape(_ ledger: TestLedger) throws -> String {
        try ledger.psql(
            """
            SELECT 'column', table_name, column_name, data_type, is_nullable FROM information_schema.columns
            WHERE table_schema = 'public'
            UNION ALL SELECT 'index', tablename, indexdef, '', '' FROM pg_indexes WHERE schemaname = 'public'
            UNION ALL SELECT 'applied', version::text, name, applied_at::text, checksum::text FROM schema_migrations
            ORDER BY 1, 2, 3
            """)
    }

    @Test("From nothing, and then no change")
    func twice() async throws {
        let ledger = try await TestLedger(isMigrated: false)
        let first = try await migrate(ledger).get()
        #expect(first.from == 0 && first.to == newest)
        let before = try shape(ledger)
        let second = try await migrate(ledger).get()
        #expect(second.from == newest && second.to == newest)
        #expect(try shape(ledger) == before)
    }

    /// PostgreSQL's default since 15, for a database that has another owner.
    @Test("Who may not make the first table is shown what to do, too")
    func stranger() async throws {
        let ledger = try await TestLedger(isMigrated: false)
        let role = "stranger_\(ledger.database)"
        try ledger.psql("REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE \(role) LOGIN")
        let url = ledger.connectionString.replacing(/user=\w+/, with: "user=\(role)")
        let connection = try await Connection.open(TestLedger.settings(url))
        guard case .failure(let error) = try await Migrator.migrate(on: connection) else {
            throw DatabaseError.protocolViolation(reason: "it made tables")
        }
        #expect("\(error)".hasPrefix("no table can be made: ") && "\(error)".contains("GRANT CREATE ON SCHEMA"))
        await connection.close()
    }

    /// By a locale's rules an update of the operating system may break them.
    @Test("Whatever text an index holds is compared by its bytes")
    func collations() async throws {
        let ledger = try await TestLedger()
        let others = """
            SELECT i.indexrelid::regclass, a.attname
            FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
            JOIN pg_class t ON t.oid = i.indrelid AND t.relnamespace = 'public'::regnamespace
            JOIN pg_collation c ON c.oid = a.attcollation WHERE c.collname <> 'C'
            """
        #expect(try ledger.psql(others) == "")
        #expect(try ledger.psql("SELECT count(*) > 10 FROM pg_index WHERE 950 = ANY (indcollation)") == "t")
    }

    @Test("Daemons that start at once take turns")
    func atOnce() async throws {
        let ledger = try await TestLedger(isMigrated: false)
        let starts = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<4 { group.addTask { try await migrate(ledger).get().from } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(starts.sorted() == [0, newest, newest, newest])
    }

    @Test("A migration of another daemon is waited for longer than a statement may take")
    func timeout() async throws {
        let ledger = try await TestLedger(isMigrated: false)
        let impatient = try ConnectionSettings(
            ledger.connectionString, connectTimeout: .seconds(120), statementTimeout: .seconds(20),
            deadlineMargin: .seconds(120))
        let newest = try await ledger.holding { session throws(DatabaseError) in
            try Migrator.holdStarts(on: session)
        } _: {
            let connection = try await Connection.open(impatient)
            let result = try await connection.withSession { session throws(DatabaseError) in
                try Migrator.migrate(on: session)
            }
            await connection.close()
            return try result.get().to
        } meanwhile: {
            // Longer than the limit, however slow the machine.
            try await Task.sleep(for: .seconds(21))
        }
        #expect(newest == self.newest)
    }

    @Test("Who may not change the schema is shown what to do")
    func forbidden() async throws {
        let refusal = Refusal(sqlState: "42501", message: "permission denied for schema public")
        #expect("\(MigrationError.failed(version: 3, name: "operator", .refused(refusal)))".contains("GRANT CREATE"))
        let other = MigrationError.failed(
            version: 3, name: "operator", .refused(Refusal(sqlState: "42P07", message: "")))
        #expect(!"\(other)".contains("GRANT") && "\(other)".contains("[database] schema"))
    }

    @Test("A migration that was applied in another form is refused, and nothing is touched")
    func changed() async throws {
        let ledger = try await TestLedger()
        try ledger.psql(#"UPDATE schema_migrations SET checksum = '\x00' WHERE version = 1"#)
        let before = try shape(ledger)
        guard case .failure(.changed(version: 1, name: "ledger")) = try await migrate(ledger) else {
            Issue.record("a changed migration went through")
            return
        }
        #expect(try shape(ledger) == before)
    }

    @Test("A database of a newer program is refused, and nothing is touched")
    func newer() async throws {
        let ledger = try await TestLedger()
        try ledger.psql(#"INSERT INTO schema_migrations VALUES (99, 'of tomorrow', '\x00')"#)
        let before = try shape(ledger)
        let result = try await migrate(ledger)
        guard case .failure(.newer(database: 99, program: Int32(newest))) = result else {
            Issue.record("a newer database went through")
            return
        }
        #expect(try shape(ledger) == before)
    }

    @Test("Whether the schema is up to date is found out without a change, and what speaks against it")
    func isUpToDate() async throws {
        let ledger = try await TestLedger(isMigrated: false)
        func ask() async throws -> String {
            let connection = try await ledger.connect()
            let result = try await connection.withSession { session throws(DatabaseError) in
                try Migrator.isUpToDate(on: session)
            }
            await connection.close()
            return switch result {
            case .success(let isUpToDate): "\(isUpToDate)"
            case .failure(.changed(let version, _)): "changed \(version)"
            case .failure(.newer): "newer"
            case .failure(.foreign): "foreign"
            case .failure(let other): "\(other)"
            }
        }
        #expect(try await ask() == "false")
        #expect(try ledger.psql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0")
        _ = try await migrate(ledger).get()
        #expect(try await ask() == "true")
        try ledger.psql("DELETE FROM schema_migrations WHERE version = \(newest)")
        #expect(try await ask() == "false")
        try ledger.psql(#"UPDATE schema_migrations SET checksum = '\x00' WHERE version = 1"#)
        #expect(try await ask() == "changed 1")
        try ledger.psql(#"INSERT INTO schema_migrations VALUES (99, 'of tomorrow', '\x00')"#)
        #expect(try await ask() == "newer")
        try ledger.psql("DROP TABLE schema_migrations; CREATE TABLE schema_migrations (version varchar PRIMARY KEY)")
        #expect(try await ask() == "foreign")
    }

    @Test("A migration that fails leaves nothing behind")
    func failing() async throws {
        let ledger = try await TestLedger(isMigrated: false)
        try ledger.psql("CREATE TABLE purchases (mine integer)")
        guard case .failure(.failed(version: 1, name: "ledger", _)) = try await migrate(ledger) else {
            Issue.record("it did not fail")
            return
        }
        #expect(
            try ledger.psql("SELECT string_agg(tablename, ',') FROM pg_tables WHERE schemaname = 'public'")
                == "purchases")
    }

    @Test("A database that may forget what it acknowledged is refused", arguments: ["fsync", "synchronous_commit"])
    func durability(setting: String) async throws {
        // The shared cluster runs without fsync; one of its own shows the other.
        let cluster = setting == "fsync" ? try TestCluster.shared : try TestCluster(durable: true)
        let ledger = try await TestLedger(on: cluster, isMigrated: false)
        if setting == "synchronous_commit" {
            let connection = try await ledger.connect()
            let fine = try await connection.withSession { session throws(DatabaseError) in
                try Durability.unsafeServer(on: session).map { "\($0)" }
            }
            #expect(fine == nil)
            await connection.close()
            try ledger.psql("ALTER DATABASE \(ledger.database) SET synchronous_commit = off")
        }
        let connection = try await ledger.connect()
        let refusal = try await connection.withSession { session throws(DatabaseError) in
            try Durability.unsafeServer(on: session)
        }
        await connection.close()
        let declared = try await ledger.connect()
        let left = try await declared.withSession { session throws(DatabaseError) in
            try Durability.unsafeServer(on: session, isDeclared: true).map { "\($0)" }
        }
        await declared.close()
        // An operator may answer for the storage, not for what the server acknowledges before it is written at all.
        #expect((left == nil) == (setting == "fsync"), "\(left ?? "")")
        guard case .unsafe(setting: setting, value: "off") = refusal else {
            Issue.record("\(String(describing: refusal))")
            return
        }
    }
}
