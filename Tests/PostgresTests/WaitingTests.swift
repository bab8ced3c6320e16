import Foundation
import Postgres
import TestSupport
import Testing

@Suite("Every wait ends", .timeLimit(.minutes(30))) struct WaitingTests {
    @Test("statement_timeout is the server's refusal, and may be tried again") func statementTimeout() async throws {
        // Our own deadline comes minutes later, or it might be first on a machine that stands still.
        let connection = try await Connection.open(
            settings(
                TestCluster.shared.createDatabase(), statementTimeout: .seconds(5), deadlineMargin: .seconds(300)))
        let error = await databaseError {
            _ = try await connection.withSession { session throws(DatabaseError) in
                try session.execute(Sample.sleep, 3_600)
            }
        }
        guard case .refused(let refusal) = error else { Issue.record("\(String(describing: error))"); return }
        #expect(refusal.sqlState == "57014" && error?.isRetryable == true && connection.isAlive)
        #expect(error?.isTemporary == true)
    }

    @Test("Our own deadline holds where the server has none") func ownDeadline() async throws {
        let connection = try await Connection.open(
            settings(TestCluster.shared.createDatabase(), statementTimeout: .zero, deadlineMargin: .seconds(2)))
        let started = ContinuousClock.now
        let error = await databaseError {
            _ = try await connection.withSession { session throws(DatabaseError) in
                try session.execute(Sample.sleep, 3_600)
            }
        }
        #expect(error == .timedOut(after: .seconds(2)) && error?.isConnectionLevel == true)
        // Before the statement would have ended by itself.
        #expect((.seconds(2)..<(.seconds(3_600))).contains(ContinuousClock.now - started))
        #expect(!connection.isAlive)
        let later = await databaseError { try await connection.withSession { _ throws(DatabaseError) in } }
        guard case .connectionLost = later else { Issue.record("\(String(describing: later))"); return }
    }

    @Test("A deadline at COMMIT leaves the outcome unknown") func deadlineAtCommit() async throws {
        let connectionString = try TestCluster.shared.createDatabase()
        let preparing = try await Connection.open(settings(connectionString))
        try await preparing.withSession { session throws(DatabaseError) in
            // A deferred trigger sleeps inside COMMIT.
            try session.script(
                """
                \(Sample.createTable);
                CREATE FUNCTION doze() RETURNS trigger LANGUAGE plpgsql AS
                  'BEGIN PERFORM pg_sleep(3600); RETURN NULL; END';
                CREATE CONSTRAINT TRIGGER doze AFTER INSERT ON items INITIALLY DEFERRED
                  FOR EACH ROW EXECUTE FUNCTION doze()
                """)
        }
        await preparing.close()
        // Long enough for BEGIN and INSERT on a busy machine: they have the same deadline.
        let connection = try await Connection.open(
            settings(connectionString, statementTimeout: .zero, deadlineMargin: .seconds(12)))
        let error = await databaseError {
            try await connection.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    _ = try session.execute(Sample.insert, (1, "a"))
                }
            }
        }
        guard case .commitUnknown = error else { Issue.record("\(String(describing: error))"); return }
        #expect(!connection.isAlive)
    }

    @Test("A server that never answers is given up at the connect time-out") func silentServer() async throws {
        let listener = try SilentListener()
        let settings = try ConnectionSettings(
            "host=127.0.0.1 port=\(listener.port) dbname=x", connectTimeout: .milliseconds(200),
            statementTimeout: .seconds(1), deadlineMargin: .seconds(1))
        let error = await databaseError { _ = try await Connection.open(settings) }
        guard case .connectFailed(let reason) = error else { Issue.record("\(String(describing: error))"); return }
        #expect(reason.contains("did not answer within"))
    }

    /// The process may end right after: what a thread still does in libpq and OpenSSL then crashes.
    @Test("A pool that is closed waits for the connection that it opens") func closedWhileOpening() async throws {
        let listener = try SilentListener()
        let settings = try ConnectionSettings(
            "host=127.0.0.1 port=\(listener.port) dbname=x", connectTimeout: .milliseconds(500),
            statementTimeout: .seconds(1), deadlineMargin: .seconds(1))
        let pool = Pool(
            settings, size: 1, waiting: Pool.Waiting(waitersMax: 1, limit: .seconds(1)),
            backoff: .seconds(1)...(.seconds(1)))
        pool.start()
        _ = try await listener.client()
        await pool.close()
        #expect(try listener.openClient() == nil)
    }

    @Test(
        "Over TCP the kernel waits 10 s for the server to acknowledge what was sent, or as long as the string says",
        arguments: [("", 10_000), ("tcp_user_timeout=3000", 3_000)])
    func userTimeout(option: String, expected: UInt32) async throws {
        let listener = try SilentListener()
        let settings = try ConnectionSettings(
            "host=127.0.0.1 port=\(listener.port) dbname=x \(option)", connectTimeout: .seconds(600),
            statementTimeout: .seconds(1), deadlineMargin: .seconds(1))
        async let refused = databaseError { _ = try await Connection.open(settings) }
        let client = try await listener.client()
        var milliseconds: UInt32 = 0
        var length = socklen_t(MemoryLayout<UInt32>.size)
        #expect(getsockopt(client, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &milliseconds, &length) == 0)
        #expect(milliseconds == expected)
        listener.stop()
        #expect(await refused != nil)
    }

    @Test("Of several hosts the next one is tried, the silent one included") func severalHosts() async throws {
        let listener = try SilentListener()
        let cluster = try TestCluster.shared
        let settings = try ConnectionSettings(
            "host=127.0.0.1,\(cluster.directory) port=\(listener.port),5432 user=postgres dbname=postgres",
            // The silent one takes all of it; it must do for the other on a busy machine.
            connectTimeout: .seconds(12), statementTimeout: .seconds(120), deadlineMargin: .seconds(60))
        let connection = try await Connection.open(settings)
        let rows = try await connection.withSession { session throws(DatabaseError) in try session.run(Sample.one, ()) }
        #expect(rows == [1])
    }

    @Test("A killed backend is a lost connection, at once and for good") func killedBackend() async throws {
        let connection = try await freshConnection()
        let processID = try await connection.withSession { session throws(DatabaseError) in
            try session.run(Sample.processID, ())
        }[0]
        async let outcome = databaseError {
            _ = try await connection.withSession { session throws(DatabaseError) in
                try session.execute(Sample.sleep, 3_600)
            }
        }
        let cluster = try TestCluster.shared
        while try cluster.psql("SELECT wait_event FROM pg_stat_activity WHERE pid = \(processID)") != "PgSleep" {
            try await Task.sleep(for: .milliseconds(5))
        }
        // Seen from outside while the thread is busy.
        #expect(connection.deadline != nil)
        try cluster.psql("SELECT pg_terminate_backend(\(processID))")
        let error = await outcome
        guard case .connectionLost(let reason) = error else { Issue.record("\(String(describing: error))"); return }
        #expect(reason.contains("57P01"))
        #expect(!connection.isAlive && connection.deadline == nil)
    }

    // MARK: Notifications

    @Test("A notification wakes a listener") func notification() async throws {
        let connection = try await freshConnection()
        let database = try await connection.withSession { session throws(DatabaseError) in
            try session.script("LISTEN work")
            return try session.run(Statement<Void, String>("database", "SELECT current_database()::text"), ())
        }[0]
        async let arrived = connection.withSession { session throws(DatabaseError) in
            try session.waitForNotification(upTo: .seconds(1_200))
        }
        try TestCluster.shared.psql("NOTIFY work, 'lane 7'", database: database)
        let hasArrived = try await arrived
        #expect(hasArrived)
    }

    @Test("An interrupt ends the wait, before or during it; so does the limit") func interrupt() async throws {
        let connection = try await freshConnection()
        let started = ContinuousClock.now
        connection.interrupt()
        for _ in 0..<3 {
            async let woken = connection.withSession { session throws(DatabaseError) in
                try session.waitForNotification(upTo: .seconds(1_200))
            }
            connection.interrupt()
            #expect(try await woken == false)
        }
        let idle = try await connection.withSession { session throws(DatabaseError) in
            // One interrupt may be left over from the last round.
            _ = try session.waitForNotification(upTo: .milliseconds(50))
            return try session.waitForNotification(upTo: .milliseconds(50))
        }
        #expect(idle == false)
        // No wait but the last two came to its limit.
        #expect(ContinuousClock.now - started < .seconds(1_200))
    }

    @Test("A listener whose server dies hears of it") func lostListener() async throws {
        let connection = try await freshConnection()
        let processID = try await connection.withSession { session throws(DatabaseError) in
            try session.run(Sample.processID, ())
        }[0]
        async let outcome = databaseError {
            _ = try await connection.withSession { session throws(DatabaseError) in
                try session.waitForNotification(upTo: .seconds(1_200))
            }
        }
        try TestCluster.shared.psql("SELECT pg_terminate_backend(\(processID))")
        guard case .connectionLost = await outcome else { Issue.record("the loss was not noticed"); return }
    }
}
