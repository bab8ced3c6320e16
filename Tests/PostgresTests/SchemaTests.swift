import Postgres
import TestSupport
import Testing

@Suite("A schema of one's own", .timeLimit(.minutes(30))) struct SchemaTests {
    private static let searchPath = Statement<Void, (String, String?)>(
        "search_path", "SELECT current_setting('search_path'), current_schema()::text")
    private static let application = Statement<Void, String>(
        "application", "SELECT current_setting('application_name')")

    private func settings(_ connectionString: String, schema: String?) throws -> ConnectionSettings {
        try ConnectionSettings(
            connectionString, connectTimeout: .seconds(120), statementTimeout: .seconds(300),
            deadlineMargin: .seconds(60), schema: schema)
    }

    private func connection(_ schema: String?, _ connectionString: String) async throws -> Connection {
        try await Connection.open(settings(connectionString, schema: schema))
    }

    @Test("The search path is the schema alone, whatever the connection string and the role say; its name is quoted")
    func searchPath() async throws {
        let text = try TestCluster.shared.createDatabase() + " options='-c search_path=public'"
        let name = #"Odd "one", public"#
        let own = try await connection(name, text)
        let found = try await own.withSession { session throws(DatabaseError) in
            // It need not be there yet.
            let before = try session.run(Self.searchPath, ())
            try session.script(#"CREATE SCHEMA "Odd ""one"", public""#)
            try session.script(Sample.createTable)
            let after = try session.run(Self.searchPath, ())
            return before + after
        }
        #expect(found.map { $0.0 } == Array(repeating: #""Odd ""one"", public""#, count: 2))
        #expect(found.map { $0.1 } == [nil, name])
        await own.close()
        let other = try await connection(nil, text)
        let error = await databaseError {
            _ = try await other.withSession { session throws(DatabaseError) in try session.run(Sample.count, ()) }
        }
        guard case .refused(let refusal) = error else { Issue.record("\(String(describing: error))"); return }
        #expect(refusal.sqlState.code == "42P01")
        await other.close()
    }

    @Test("Advisory locks of two schemas are not the same; of public and of no schema named they are those of before")
    func lockKeys() async throws {
        let text = try TestCluster.shared.createDatabase()
        var keys: [String?: (Int64, Int32)] = [:]
        for schema in [nil, "public", "posthouse", "other"] {
            let one = try await connection(schema, text)
            keys[schema] = try await one.withSession { session throws(DatabaseError) in
                (session.lockKey(Int64(7)), session.halfLockKey(Int32(7)))
            }
            await one.close()
        }
        for schema in [nil, "public"] { #expect(keys[schema]?.0 == 7 && keys[schema]?.1 == 7) }
        // Of every version: FNV-1a of the name, by another program.
        let salted: Int64 = 0x5011_2779_F478_7A01 ^ 7
        #expect(keys["posthouse"]?.0 == salted)
        #expect(keys["posthouse"]?.1 != 7 && keys["other"]?.1 != keys["posthouse"]?.1)
        #expect(keys["other"]?.0 != keys["posthouse"]?.0)
    }

    @Test("Other settings of a pool are those of the next connection; one that is open stays")
    func replaced() async throws {
        let text = try TestCluster.shared.createDatabase()
        let pool = try pool(text + " application_name=first", size: 1)
        func asked() async throws -> (name: String, process: Int32) {
            try await pool.withSession { session throws(DatabaseError) in
                (try session.run(Self.application, ())[0], try session.run(Sample.processID, ())[0])
            }
        }
        let first = try await asked()
        pool.use(try settings(text + " application_name=second", schema: nil))
        let still = try await asked()
        #expect(first.name == "first" && still.name == "first" && still.process == first.process)
        try TestCluster.shared.psql("SELECT pg_terminate_backend(\(first.process), 300000)")
        #expect(try await asked().name == "second")
        #expect("\(pool.settings)".contains("dbname="))
        await pool.close()
    }

    @Test("Settings that name a schema say so, so that two ledgers of one database are told apart")
    func shown() throws {
        let text = "host=h dbname=d"
        let (without, with) = (try settings(text, schema: nil), try settings(text, schema: "posthouse"))
        #expect("\(with)" == "\(without) schema=posthouse")
    }
}
