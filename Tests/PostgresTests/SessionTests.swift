import Postgres
import TestSupport
import Testing

@Suite("A session", .timeLimit(.minutes(30))) struct SessionTests {
    @Test("Affected rows are counted, Void means no parameters") func affectedRows() async throws {
        let connection = try await freshConnection()
        let delete = Statement<Void, Void>("delete", "DELETE FROM items")
        let deleted = try await connection.withSession { session throws(DatabaseError) in
            try session.script(Sample.createTable + "; INSERT INTO items SELECT i, 'x' FROM generate_series(1, 3) i")
            return try session.execute(delete, ())
        }
        #expect(deleted == 3)
    }

    @Test("A statement is prepared once") func preparedOnce() async throws {
        let connection = try await freshConnection()
        let prepared = Statement<Void, (String, Int64)>(
            "prepared", "SELECT name, generic_plans + custom_plans FROM pg_prepared_statements WHERE name = 'one'")
        let rows = try await connection.withSession { session throws(DatabaseError) in
            for _ in 0..<3 { _ = try session.run(Sample.one, ()) }
            return try session.run(prepared, ())
        }
        #expect(rows.count == 1 && rows.first?.1 == 3)
    }

    @Test("The description holds the server's types") func describe() async throws {
        let connection = try await freshConnection()
        let honest = Statement<([String], Int64), (Int64, String)>("honest", "SELECT $2, x FROM unnest($1) x")
        let wrong = Statement<Void, Int64>("wrong", "SELECT 1::int4")
        let (first, second) = try await connection.withSession { session throws(DatabaseError) in
            (try session.describe(honest), try session.describe(wrong))
        }
        #expect(first.parameterOIDs == honest.parameterOIDs && first.resultOIDs == honest.resultOIDs)
        #expect(second.resultOIDs == [23] && wrong.resultOIDs == [20])
        let error = await databaseError {
            _ = try await connection.withSession { session throws(DatabaseError) in try session.run(wrong, ()) }
        }
        guard case .protocolViolation = error else { Issue.record("\(String(describing: error))"); return }
    }

    @Test("Two statements of one name are a mistake") func sameName() async throws {
        let connection = try await freshConnection()
        let other = Statement<Void, Int32>("one", "SELECT 2")
        let error = await databaseError {
            _ = try await connection.withSession { session throws(DatabaseError) in
                _ = try session.run(Sample.one, ())
                return try session.run(other, ())
            }
        }
        #expect(error == .protocolViolation(reason: "two statements are named one"))
    }

    @Test("A script's first error ends it; nothing of it stays") func scriptFails() async throws {
        let connection = try await freshConnection()
        let error = await databaseError {
            try await connection.withSession { session throws(DatabaseError) in
                try session.script("\(Sample.createTable); SELECT 1/0; CREATE TABLE other ()")
            }
        }
        guard case .refused(let refusal) = error else { Issue.record("\(String(describing: error))"); return }
        #expect(refusal.sqlState == "22012" && refusal.statement == nil)
        let tables = try await connection.withSession { session throws(DatabaseError) in
            try session.run(
                Statement<Void, Int64>("tables", "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), ())
        }
        #expect(tables == [0])
    }

    @Test("Long values are compressed with LZ4 where the server has it, unless another compression was chosen")
    func compression() async throws {
        let database = try TestCluster.shared.createDatabase()
        let inForce = Statement<Void, String>("in_force", "SELECT current_setting('default_toast_compression')")
        let best = Statement<Void, String>(
            "best",
            """
            SELECT CASE WHEN 'lz4' = ANY (enumvals) THEN 'lz4' ELSE 'pglz' END FROM pg_settings
            WHERE name = 'default_toast_compression'
            """)
        let first = try await Connection.open(settings(database))
        let (found, expected) = try await first.withSession { session throws(DatabaseError) in
            try session.script(
                """
                DO $$BEGIN
                EXECUTE format('ALTER DATABASE %I SET default_toast_compression = pglz', current_database());
                END$$
                """)
            return (try session.run(inForce, ()), try session.run(best, ()))
        }
        #expect(found == expected)
        let second = try await Connection.open(settings(database))
        let chosen = try await second.withSession { session throws(DatabaseError) in try session.run(inForce, ()) }
        #expect(chosen == ["pglz"])
    }

    @Test("COPY has no use here: the connection is closed") func copy() async throws {
        let connection = try await freshConnection()
        let error = await databaseError {
            try await connection.withSession { session throws(DatabaseError) in
                try session.script("COPY (SELECT 1) TO STDOUT")
            }
        }
        guard case .protocolViolation = error else { Issue.record("\(String(describing: error))"); return }
        #expect(!connection.isAlive)
    }

    // MARK: Transactions

    @Test("A transaction commits, or leaves nothing and the same error") func transaction() async throws {
        let connection = try await freshConnection()
        try await connection.withSession { session throws(DatabaseError) in
            try session.script(Sample.createTable)
            try session.transaction { session throws(DatabaseError) in _ = try session.execute(Sample.insert, (1, "a"))
            }
        }
        let error = await databaseError {
            try await connection.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    _ = try session.execute(Sample.insert, (2, "b"))
                    _ = try session.execute(Sample.insert, (1, "again"))
                }
            }
        }
        guard case .refused(let refusal) = error else { Issue.record("\(String(describing: error))"); return }
        #expect(refusal.sqlState == "23505" && refusal.constraint == "items_pkey" && refusal.statement == "insert")
        #expect(error?.isDataError == true && error?.isRetryable == false && error?.isConnectionLevel == false)
        #expect(error?.isTemporary == false)
        let count = try await connection.withSession { session throws(DatabaseError) in
            try session.decidedTransaction { session throws(DatabaseError) in
                _ = try session.execute(Sample.insert, (3, "c"))
                return .rollBack(try session.run(Sample.count, ()))
            } + (try session.run(Sample.count, ()))
        }
        #expect(count == [2, 1])
        #expect(connection.isAlive)
    }

    @Test("A swallowed failure does not pass for a commit") func swallowed() async throws {
        let connection = try await freshConnection()
        let error = await databaseError {
            try await connection.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    do throws(DatabaseError) { try session.script("SELECT 1/0") } catch {}
                }
            }
        }
        guard case .refused(let refusal) = error else { Issue.record("\(String(describing: error))"); return }
        #expect(refusal.sqlState == "25P02")
    }

    @Test("A constraint that is checked at COMMIT refuses it") func deferred() async throws {
        let connection = try await freshConnection()
        let error = await databaseError {
            try await connection.withSession { session throws(DatabaseError) in
                try session.script("CREATE TABLE pairs (id int8 UNIQUE DEFERRABLE INITIALLY DEFERRED)")
                try session.transaction { session throws(DatabaseError) in
                    try session.script("INSERT INTO pairs VALUES (1), (1)")
                }
            }
        }
        guard case .refused(let refusal) = error else { Issue.record("\(String(describing: error))"); return }
        #expect(refusal.sqlState == "23505")
    }

    @Test("A connection left inside a transaction is closed") func leftOpen() async throws {
        let connection = try await freshConnection()
        try await connection.withSession { session throws(DatabaseError) in try session.script("BEGIN") }
        #expect(!connection.isAlive)
        let error = await databaseError { try await connection.withSession { _ throws(DatabaseError) in } }
        #expect(error == .connectionLost(reason: "it was left inside a transaction"))
    }

    @Test("What a statement or a script outside a transaction warns of is no doubt about its commit")
    func warning() async throws {
        let connection = try await freshConnection()
        try await connection.withSession { session throws(DatabaseError) in
            try session.execute(Sample.warning, ())
            try session.script(Sample.warning.sql)
        }
        #expect(connection.isAlive)
    }

    enum Way: CaseIterable { case alone, inTransaction, withCommit }

    @Test("A COMMIT whose wait for a standby is cut short is no acknowledgement", arguments: Way.allCases)
    func standbyWait(_ way: Way) async throws {
        // No standby exists: every commit waits until the wait is cancelled.
        let cluster = try TestCluster(settings: ["synchronous_standby_names=absent"])
        let connection = try await Connection.open(settings(cluster.connectionString(database: "postgres")))
        try await connection.withSession { session throws(DatabaseError) in
            try session.script("SET synchronous_commit = local")
            try session.script(Sample.createTable)
            // More warnings than are kept, and none of them is of the commit.
            try session.script(
                """
                CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN FOR i IN 1..20 LOOP RAISE WARNING 'of a trigger'; END LOOP; RETURN NEW; END $$;
                CREATE TRIGGER warn BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION warn()
                """)
            try session.script("SET synchronous_commit = on")
        }
        async let outcome = databaseError {
            try await connection.withSession { session throws(DatabaseError) in
                if way == .alone { return _ = try session.execute(Sample.insert, (1, "a")) }
                try session.transaction { session throws(DatabaseError) in
                    if way == .inTransaction { return _ = try session.execute(Sample.insert, (1, "a")) }
                    try session.enqueue(Sample.insert, (1, "a"))
                    // More warnings than are kept, and none of them is COMMIT's.
                    for _ in 0..<20 { try session.enqueue(Sample.unlock, ()) }
                }
            }
        }
        while try cluster.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "0" {
            try await Task.sleep(for: .milliseconds(5))
        }
        try cluster.psql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        let error = await outcome
        guard case .commitUnknown(let reason) = error else { Issue.record("\(String(describing: error))"); return }
        #expect(reason.contains("synchronous replication"))
        try cluster.stop(mode: "immediate")
    }
}
