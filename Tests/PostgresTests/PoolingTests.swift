import Foundation
import TestSupport
import Testing

@testable import Postgres

/// PgBouncer with one server connection, which another client, psql, uses in between. Oracle: PostgreSQL, which says
/// what is in force, and where the rows are.
@Suite("A session that a pooler gives to other clients", .timeLimit(.minutes(30)))
struct PoolingTests {
    private static let inForce = Statement<Void, String>(
        "in_force",
        """
        SELECT concat_ws('; ', current_user, current_setting('search_path'), current_setting('transaction_isolation'),
            current_setting('transaction_read_only'), current_setting('statement_timeout'),
            current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout'),
            current_setting('synchronous_commit'), current_setting('client_min_messages'),
            current_setting('plan_cache_mode'), current_setting('jit'))
        """)
    private static let own = """
        postgres; "own", pg_temp; read committed; off; 2min; 3min; 0; on; warning; force_custom_plan; off
        """
    private static let items = Table<(Int64, String)>(
        "items", [Column("id", { $0.0 }), Column("note", { $0.1 })])
    private static let add = Statement<Int64, Void>("add", "UPDATE items SET id = id + $1")

    private struct Bed {
        let cluster: TestCluster
        let pooler: TestPooler
        /// Of a database with the schema "own" and its table `items`.
        let direct: String
        let settings: ConnectionSettings

        init(_ cluster: TestCluster, connections: Int = 1) throws {
            self.cluster = cluster
            direct = try cluster.createDatabase()
            pooler = try TestPooler(before: cluster, mode: "transaction", connections: connections)
            settings = try ConnectionSettings(
                pooler.connectionString(for: direct), connectTimeout: .seconds(300), statementTimeout: .seconds(120),
                deadlineMargin: .seconds(60), schema: "own", pooling: .transaction)
            try psql("CREATE SCHEMA own; CREATE TABLE own.items (id int8 PRIMARY KEY, note text NOT NULL)")
        }

        var database: String { String(direct.split(separator: "dbname=").last ?? "") }

        /// Past the pooler.
        @discardableResult func psql(_ sql: String) throws -> String { try cluster.psql(sql, database: database) }

        /// Sets for the session whatever would harm the next client of it. The time-out comes last: from there on each
        /// statement has a millisecond.
        func poison() throws {
            try asOther(
                """
                SET statement_timeout = 0; RESET ROLE; BEGIN READ WRITE; SET LOCAL search_path = public;
                CREATE TEMP TABLE IF NOT EXISTS items (id int8, note text); COMMIT;
                SET lock_timeout = 1; SET synchronous_commit = off; SET client_min_messages = error;
                SET plan_cache_mode = force_generic_plan; SET jit = on; SET default_transaction_isolation = 'serializable';
                SET default_transaction_read_only = on; SET search_path = evil, pg_catalog; SET ROLE pg_monitor;
                SET idle_in_transaction_session_timeout = 1; SET statement_timeout = 1
                """)
        }

        /// As the other client; again while it does not begin within the millisecond that it has set itself.
        @discardableResult func asOther(_ sql: String) throws -> String {
            var last: (any Error)?
            for _ in 1...1_000 {
                do { return try pooler.psql(sql, direct) } catch {
                    guard "\(error)".contains("statement timeout") else { throw error }
                    last = error
                }
            }
            throw last ?? DatabaseError.connectFailed(reason: "not run")
        }

        /// Poisons the session and runs `body` in it; again while it does not begin within the other client's
        /// millisecond.
        func poisoned<Value: Sendable>(
            _ body: @Sendable (borrowing Session) throws(DatabaseError) -> Value
        ) async throws -> Value {
            var last: DatabaseError?
            for _ in 1...1_000 {
                do {
                    let connection = try await Connection.open(settings)
                    try poison()
                    return try await connection.withSession(body)
                } catch let error as DatabaseError {
                    guard error.isRetryable || error.isConnectionLevel else { throw error }
                    last = error
                }
            }
            throw last ?? DatabaseError.connectFailed(reason: "not run")
        }
    }

    @Test("Each transaction finds its own settings and tables, whatever another client has left in the session")
    func hostile() async throws {
        let bed = try Bed(TestCluster.shared)
        try bed.psql(
            """
            CREATE SCHEMA evil; CREATE TABLE evil.items (id int8, note text); GRANT USAGE ON SCHEMA evil TO PUBLIC;
            CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS $$ SELECT 'evil' $$
            """)
        let alone = try await bed.poisoned { session throws(DatabaseError) in
            try session.run(Self.inForce, ())
        }
        #expect(alone == [Self.own])
        let together = try await bed.poisoned { session throws(DatabaseError) in
            try session.transaction(planning: .onceByIndex) { session throws(DatabaseError) in
                try session.enqueue(Sample.insert, (1, "enqueued"))
                let first = try session.run(Self.inForce, ())
                try session.copy([Self.items.copied([(2, "copied"), (3, "copied")])])
                try session.script("INSERT INTO items VALUES (4, 'by a script')")
                let pending = try session.enqueueQuery(Self.inForce, ())
                return try first + session.answer(to: pending)
            }
        }
        #expect(together == [Self.own, Self.own])
        let added = try await bed.poisoned { session throws(DatabaseError) in
            try session.execute(Sample.insert, (5, "alone"))
        }
        #expect(added == 1)
        let snapshot = try await bed.poisoned { session throws(DatabaseError) in
            try session.transaction(.snapshot) { session throws(DatabaseError) in try session.run(Self.inForce, ()) }
        }
        let expected = Self.own.replacing("read committed; off", with: "repeatable read; on")
        #expect(snapshot == [expected])
        _ = try await bed.poisoned { session throws(DatabaseError) in
            try session.script("INSERT INTO items VALUES (6, 'a script alone')")
        }
        #expect(try bed.psql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM own.items") == "1 2 3 4 5 6")
        #expect(try bed.psql("SELECT count(*) FROM evil.items") == "0")
        // The other client finds what it has left, and in its own table no row.
        let left = "SELECT current_user, current_setting('search_path'), current_setting('statement_timeout')"
        #expect(try bed.asOther(left) == "pg_monitor|evil, pg_catalog|1ms")
        #expect(try bed.asOther("SET statement_timeout = 0; RESET ROLE; SELECT count(*) FROM items") == "0")
    }

    @Test("Nothing is left in the session: no prepared statement, no transaction, no setting")
    func nothingLeft() async throws {
        let bed = try Bed(TestCluster.shared)
        let before = try bed.pooler.psql("SELECT name, setting FROM pg_settings WHERE source = 'session'", bed.direct)
        let connection = try await Connection.open(bed.settings)
        let processes = try await connection.withSession { session throws(DatabaseError) in
            try session.execute(Sample.insert, (1, "a"))
            return try session.transaction(planning: .onceByIndex) { session throws(DatabaseError) in
                try session.run(Sample.processID, ())
            }
        }
        let prepared = "SELECT pg_backend_pid(), count(*) FROM pg_prepared_statements"
        #expect(try bed.pooler.psql(prepared, bed.direct) == "\(processes[0])|0")
        let after = try bed.pooler.psql("SELECT name, setting FROM pg_settings WHERE source = 'session'", bed.direct)
        #expect(after == before)
        #expect(connection.isAlive)
    }

    @Test("A refusal, alone or in a transaction, leaves the connection usable and nothing written")
    func refusals() async throws {
        let bed = try Bed(TestCluster.shared)
        let connection = try await Connection.open(bed.settings)
        try await connection.withSession { session throws(DatabaseError) in
            _ = try session.execute(Sample.insert, (1, "a"))
        }
        let alone = await databaseError {
            try await connection.withSession { session throws(DatabaseError) in
                _ = try session.execute(Sample.insert, (1, "again"))
            }
        }
        let together = await databaseError {
            try await connection.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    try session.enqueue(Sample.insert, (2, "b"))
                    try session.enqueue(Sample.insert, (1, "again"))
                }
            }
        }
        for error in [alone, together] {
            guard case .refused(let refusal) = error else { Issue.record("\(String(describing: error))"); continue }
            #expect(refusal.sqlState == "23505" && refusal.statement == "insert")
        }
        let rows = try await connection.withSession { session throws(DatabaseError) in
            try session.run(Sample.count, ())
        }
        #expect(rows == [1])
        // Alone it would find what other clients have set.
        let copied = await databaseError {
            try await connection.withSession { session throws(DatabaseError) in
                try session.copy([Self.items.copied([(3, "c")])])
            }
        }
        guard case .protocolViolation = copied else { Issue.record("\(String(describing: copied))"); return }
        #expect(connection.isAlive)
    }

    @Test("Many connections over two sessions: no transaction sees another's half, and no sum is lost")
    func many() async throws {
        let bed = try Bed(TestCluster.shared, connections: 2)
        try bed.psql("INSERT INTO own.items VALUES (0, 'sum')")
        let pool = Pool(
            bed.settings, size: 8, waiting: Pool.Waiting(waitersMax: 1_000, limit: .seconds(120)),
            backoff: .milliseconds(20)...(.milliseconds(200)))
        pool.start()
        try await withThrowingTaskGroup { group in
            for _ in 1...40 {
                group.addTask {
                    try await pool.withSession { session throws(DatabaseError) in
                        try session.transaction { session throws(DatabaseError) in
                            _ = try session.execute(Self.add, 1)
                            try session.enqueue(Self.add, 1)
                        }
                        _ = try session.execute(Self.add, 1)
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try bed.psql("SELECT id FROM own.items") == "120")
        await pool.close()
    }

    @Test("Another server behind the pooler ends the connection, and the next one is checked anew")
    func otherServer() async throws {
        let bed = try Bed(TestCluster(durable: true))
        let (admitted, admission) = AsyncStream<Void>.makeStream()
        let pool = Pool(
            bed.settings, size: 1, waiting: Pool.Waiting(waitersMax: 10, limit: .seconds(120)),
            backoff: .milliseconds(20)...(.milliseconds(200)),
            admission: { _ in
                admission.yield()
                return nil
            })
        pool.start()
        var admissions = admitted.makeAsyncIterator()
        await admissions.next()
        func insert(_ id: Int64) async -> DatabaseError? {
            await databaseError {
                try await pool.withSession { session throws(DatabaseError) in
                    try session.transaction { session throws(DatabaseError) in
                        try session.enqueue(Sample.insert, (id, "a"))
                    }
                }
            }
        }
        #expect(await insert(1) == nil)
        // The pooler goes on as if it were the same, once it has heard of the end of its sessions.
        try bed.cluster.restart()
        while (try? bed.pooler.psql("SELECT 1", bed.direct)) == nil { try await Task.sleep(for: .milliseconds(20)) }
        guard case .commitUnknown(let reason) = await insert(2) else { Issue.record("it was not noticed"); return }
        #expect(reason.contains("another server"), "\(reason)")
        await admissions.next()
        #expect(await insert(3) == nil)
        // Another default of the role, which a session that is opened from now on has.
        func setDefault(_ value: String) throws {
            try bed.psql("ALTER ROLE postgres SET synchronous_commit = \(value)")
            try bed.psql(
                """
                SELECT pg_terminate_backend(pid, 300000) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()
                """)
        }
        try setDefault("off")
        guard case .commitUnknown = await insert(4) else { Issue.record("it was not noticed"); return }
        await admissions.next()
        // A standby that a session with this default would not wait for.
        try setDefault("local")
        guard case .commitUnknown = await insert(5) else { Issue.record("it was not noticed"); return }
        await admissions.next()
        #expect(await insert(6) == nil)
        try bed.psql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        try bed.psql("SELECT pg_reload_conf()")
        while try bed.psql("SHOW synchronous_standby_names") != "nobody" {
            try await Task.sleep(for: .milliseconds(20))
        }
        guard case .commitUnknown = await insert(7) else { Issue.record("it was not noticed"); return }
        await admissions.next()
        await pool.close()
    }

    @Test("A server that is a standby by now counts as one that is out of reach")
    func standby() async throws {
        let bed = try Bed(TestCluster())
        let connection = try await Connection.open(bed.settings)
        try bed.cluster.stop()
        try bed.cluster.becomeStandby()
        try bed.cluster.start()
        let error = await databaseError {
            _ = try await connection.withSession { session throws(DatabaseError) in try session.run(Sample.one, ()) }
        }
        #expect(error?.isConnectionLevel == true && !connection.isAlive, "\(String(describing: error))")
        let opened = await databaseError { _ = try await Connection.open(bed.settings) }
        guard case .connectFailed(let reason) = opened else { Issue.record("\(String(describing: opened))"); return }
        #expect(reason.contains("recovery"), "\(reason)")
    }

    @Test("The time of a statement that is sent behind the pooler's wait is not that of the wait")
    func timed() async throws {
        let bed = try Bed(TestCluster.shared)
        let (holder, other) = (try await Connection.open(bed.settings), try await Connection.open(bed.settings))
        let (held, hold) = AsyncStream<Void>.makeStream()
        async let releasedAt = holder.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                _ = try session.run(Sample.one, ())
                hold.yield()
                _ = try session.execute(Sample.sleep, 1)
                return ContinuousClock.now
            }
        }
        for await _ in held { break }
        let (sentAt, rows) = try await other.withSession { session throws(DatabaseError) in
            try session.runTimed(Sample.one, ())
        }
        #expect(rows == [1])
        #expect(try await sentAt > releasedAt)
    }
}
