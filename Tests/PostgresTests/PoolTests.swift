import Foundation
import Postgres
import Synchronization
import TestSupport
import Testing

@Suite("The pool over a real cluster", .timeLimit(.minutes(30))) struct PoolTests {
    @Test("Many callers share few connections, each alone on its own") func concurrency() async throws {
        let pool = try pool(TestCluster.shared.createDatabase(), size: 3, waitersMax: 1_000)
        try await pool.withSession { session throws(DatabaseError) in try session.script(Sample.createTable) }
        let processes = try await withThrowingTaskGroup(of: Int32.self) { group in
            for index in 0..<200 {
                group.addTask {
                    try await pool.withSession { session throws(DatabaseError) in
                        try session.transaction { session throws(DatabaseError) in
                            _ = try session.execute(Sample.insert, (Int64(index), "x"))
                        }
                        return try session.run(Sample.processID, ())[0]
                    }
                }
            }
            return try await group.reduce(into: Set<Int32>()) { $0.insert($1) }
        }
        #expect(processes.count <= 3)
        let count = try await pool.withSession { session throws(DatabaseError) in try session.run(Sample.count, ()) }
        #expect(count == [200])
        await pool.close()
        let error = await databaseError { try await pool.withSession { _ throws(DatabaseError) in } }
        #expect(error == .connectFailed(reason: "the connection pool is closed"))
    }

    @Test("A connection that is not admitted is as good as none; one that comes after the cause has gone is")
    func admission() async throws {
        let isSafe = Mutex(false)
        let pool = try pool(
            TestCluster.shared.createDatabase(), size: 2,
            admission: { connection async throws(DatabaseError) in
                _ = try await connection.withSession { session throws(DatabaseError) in
                    try session.run(Sample.one, ())
                }
                return isSafe.withLock { $0 } ? nil : "the server is not safe"
            })
        let error = await databaseError { try await pool.withSession { _ throws(DatabaseError) in } }
        #expect(error == .connectFailed(reason: "the server is not safe"))
        #expect(!pool.isReachable)
        isSafe.withLock { $0 = true }
        while !pool.isReachable { try await Task.sleep(for: .milliseconds(5)) }
        #expect(try await pool.withSession { session throws(DatabaseError) in try session.run(Sample.one, ()) } == [1])
        await pool.close()
    }

    @Test("A session keeps the synchronous_commit that it began with, whatever the server is told meanwhile")
    func synchronousCommit() async throws {
        let cluster = try TestCluster()
        let address = try cluster.createDatabase()
        let pool = try pool(address, size: 1)
        // The second is what the server would give the session, which it heeds some time after it was told.
        let values = Statement<Void, String>(
            "values", "SELECT concat(setting, ' ', reset_val) FROM pg_settings WHERE name = 'synchronous_commit'")
        func pooled() async throws -> [String] {
            try await pool.withSession { session throws(DatabaseError) in try session.run(values, ()) }
        }
        func opened() async throws -> [String] {
            let connection = try await Connection.open(settings(address))
            let found = try await connection.withSession { session throws(DatabaseError) in
                try session.run(values, ())
            }
            await connection.close()
            return found
        }
        func tell(_ setting: String, _ value: String) async throws {
            try cluster.psql("ALTER SYSTEM SET \(setting) = '\(value)'")
            try cluster.psql("SELECT pg_reload_conf()")
            while try cluster.psql("SHOW \(setting)") != value { try await Task.sleep(for: .milliseconds(5)) }
        }
        #expect(try await pooled() == ["on on"])
        try await tell("synchronous_commit", "off")
        while try await pooled() == ["on on"] { try await Task.sleep(for: .milliseconds(5)) }
        #expect(try await pooled() == ["on off"])
        // The check of a new connection sees the truth.
        #expect(try await opened() == ["off off"])
        // Where there is no standby this is as good as "on", which also waits for one that comes later.
        try await tell("synchronous_commit", "local")
        #expect(try await opened() == ["on local"])
        try await tell("synchronous_standby_names", "absent")
        #expect(try await opened() == ["local local"])
        await pool.close()
        try cluster.stop(mode: "immediate")
    }

    @Test("Waiting is bounded in time and number") func bounded() async throws {
        let pool = try pool(TestCluster.shared.createDatabase(), size: 1, waitersMax: 1, limit: .milliseconds(100))
        // The first caller must find a connection: its wait, too, would end after the limit.
        while !pool.isReachable { try await Task.sleep(for: .milliseconds(5)) }
        let (entered, enter) = AsyncStream<Void>.makeStream()
        let release = DispatchSemaphore(value: 0)
        async let held: Void = pool.withSession { _ throws(DatabaseError) in
            enter.yield()
            release.wait()
        }
        _ = await entered.first { _ in true }
        #expect(pool.earliestDeadline != nil)
        async let waiting = databaseError { try await pool.withSession { _ throws(DatabaseError) in } }
        #expect(await waiting == .timedOut(after: .milliseconds(100)))
        release.signal()
        try await held
        #expect(pool.earliestDeadline == nil)
        await pool.close()
    }

    @Test("Backends that are killed cost an error each at most; idle ones cost none") func killedBackends() async throws
    {
        let connectionString = try TestCluster.shared.createDatabase()
        let database = connectionString.split(separator: "=").last.map(String.init) ?? ""
        let pool = try pool(connectionString, size: 3)
        try await pool.withSession { session throws(DatabaseError) in _ = try session.run(Sample.one, ()) }
        for _ in 0..<3 {
            // Idle for long: all three are open, for the pool, too. One that is killed while it opens is a database
            // that does not answer.
            let idle =
                "SELECT count(*) FROM pg_stat_activity WHERE datname = '\(database)' AND state = 'idle' "
                + "AND state_change < clock_timestamp() - interval '2 seconds'"
            while try TestCluster.shared.psql(idle) != "3" {
                // All at once: the pool hears of a dead one by its use alone, and one that is open again by the time
                // that its caller asks for another is used in place of the others.
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for _ in 0..<3 {
                        group.addTask {
                            _ = try await pool.withSession { session throws(DatabaseError) in
                                try session.execute(Sample.sleep, 0.2)
                            }
                        }
                    }
                    try await group.waitForAll()
                }
                try await Task.sleep(for: .milliseconds(2_500))
            }
            try TestCluster.shared.psql(
                "SELECT pg_terminate_backend(pid, 300000) FROM pg_stat_activity WHERE datname = '\(database)'")
            let rows = try await pool.withSession { session throws(DatabaseError) in try session.run(Sample.one, ()) }
            #expect(rows == [1])
        }
        await pool.close()
    }

    @Test("A stopped cluster: logged once, callers fail at once, then it recovers by itself") func restart()
        async throws
    {
        let cluster = try TestCluster()
        let log = StateLog()
        let pool = try pool(cluster.connectionString(database: "postgres"), size: 2, onStateChange: log.publish)
        _ = try await pool.withSession { session throws(DatabaseError) in try session.run(Sample.one, ()) }
        #expect(pool.isReachable)
        try cluster.kill()
        var failures = 0
        while pool.isReachable || failures == 0 {
            try Task.checkCancellation()
            if await databaseError({
                try await pool.withSession { session throws(DatabaseError) in try session.script("SELECT 1") }
            })
                != nil
            {
                failures += 1
            }
        }
        guard case .lost = await log.first(where: { _ in true }) else {
            Issue.record("the loss was not published"); return
        }
        let started = ContinuousClock.now
        let error = await databaseError { try await pool.withSession { _ throws(DatabaseError) in } }
        guard case .connectFailed = error else { Issue.record("\(String(describing: error))"); return }
        // Without the wait of a caller that finds no connection free, which is minutes.
        #expect(ContinuousClock.now - started < .seconds(200))
        try cluster.start()
        #expect(await log.first(where: { _ in true }) == .recovered)
        let rows = try await pool.withSession { session throws(DatabaseError) in try session.run(Sample.one, ()) }
        #expect(rows == [1] && pool.isReachable)
        await pool.close()
        try cluster.stop(mode: "immediate")
    }

    @Test("Connections and their threads end with the last reference") func threadsEnd() async throws {
        func threads() throws -> Int {
            try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").count { task in
                let name = try? String(contentsOfFile: "/proc/self/task/\(task)/comm", encoding: .utf8)
                return name == "ending-thread\n"
            }
        }
        let connectionString = try TestCluster.shared.createDatabase()
        do {
            var connections: [Connection] = []
            for _ in 0..<5 {
                connections.append(try await Connection.open(settings(connectionString), thread: "ending-thread"))
            }
            #expect(try threads() == 5)
            await connections[0].close()
        }
        let deadline = ContinuousClock.now + .seconds(300)
        while try threads() > 0, ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(5)) }
        #expect(try threads() == 0)
        // The server hears of it a moment later.
        let database = connectionString.split(separator: "=").last ?? ""
        let left = "SELECT count(*) FROM pg_stat_activity WHERE datname = '\(database)'"
        while try TestCluster.shared.psql(left) != "0", ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(20))
        }
        #expect(try TestCluster.shared.psql(left) == "0")
    }
}
