import Foundation
import Testing
import Vocabulary

@testable import Cluster

/// The whole life of a cluster, with real servers; psql and /proc are the oracles. One after the other, for each starts
/// servers on a machine that other tests share.
@Suite(.serialized, .timeLimit(.minutes(30))) struct LifeTests {
    @Test func startsStopsAndStartsAgain() async throws {
        try await TestPlace.with { place in
            let first = try await place.start()
            let settings = """
                SELECT current_setting('fsync') || current_setting('synchronous_commit') ||
                current_setting('full_page_writes') || current_setting('data_checksums') ||
                '[' || current_setting('listen_addresses') || ']' || current_setting('server_encoding') ||
                current_setting('lc_collate') || current_setting('max_connections') || current_database() ||
                current_user || current_setting('wal_compression')
                """
            #expect(try query(first, settings) == "onononon[]UTF8C100posthouseposthouselz4")
            _ = try query(first, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (42)")
            let pid = await pid(of: first)
            #expect(ServerProcesses.isServer(pid, on: place.data))
            // Nothing of the daemon's environment, which may hold secrets, and neither HOME nor NOTIFY_SOCKET.
            let environment = try String(contentsOfFile: "/proc/\(pid)/environ", encoding: .utf8)
            #expect(!environment.contains("HOME="))
            await first.stop()
            #expect(ServerProcesses.all(on: place.data).isEmpty)

            let second = try await place.start(pool: 90)
            #expect(place.observed.wasTakenOver == false)
            #expect(second.connectionString == first.connectionString)
            #expect(try query(second, "SELECT n FROM kept") == "42")
            #expect(try query(second, "SHOW max_connections") == "110")
            await second.stop()
            #expect(place.observed.all.filter { $0.hasPrefix("clusterStarted") }.count == 2)
            #expect(place.observed.all.filter { $0 == "clusterStopped" }.count == 2)
            #expect(place.observed.warnings.isEmpty)
        }
    }

    @Test("The daemon's role owns its database and is no superuser; commands that need one have another role")
    func roles() async throws {
        try await TestPlace.with { place in
            let cluster = try await place.start()
            try expectOrdinaryRole(cluster)
            _ = try query(cluster, "CREATE TABLE own (n int)")
            await cluster.stop()
        }
    }

    @Test("A cluster of an earlier version, whose superuser the daemon was, gets an ordinary role for it at its start")
    func separatedRoles() async throws {
        try await TestPlace.with { place in
            let (paths, account) = try await ClusterPaths.prepare(place.directory)
            let binaries = try await Binaries.find(for: nil, clusterDirectory: paths.data, in: place.hostEnvironment)
            try await Tool.output(
                of: binaries.initdb,
                ["-D", paths.data, "-U", Settings.role, "--auth-local=trust", "--auth-host=reject"], as: account)
            func run(_ statements: String, in database: String) async throws {
                try await Roles.run(statements, in: paths.data, database: database, account, binaries)
            }
            try await run("CREATE DATABASE posthouse\n", in: "template1")
            try await run(
                """
                CREATE TABLE kept (id bigserial PRIMARY KEY, n int) PARTITION BY RANGE (id)
                CREATE TABLE kept_1 PARTITION OF kept FOR VALUES FROM (0) TO (100)
                CREATE SEQUENCE loose
                INSERT INTO kept (n) VALUES (42)

                """, in: "posthouse")
            // Cut short, it is done again.
            try await run(Roles.separation.split(separator: "\n")[0] + "\n", in: "posthouse")

            for _ in 0..<2 {
                let cluster = try await place.start()
                try expectOrdinaryRole(cluster)
                #expect(try query(cluster, "SELECT n FROM kept") == "42")
                let owned =
                    "SELECT count(*) FROM pg_class WHERE relowner = 'posthouse'::regrole AND relkind IN ('r', 'p', 'S')"
                #expect(try query(cluster, owned) == "4")
                _ = try query(cluster, "ALTER TABLE kept ADD m int; ALTER TABLE kept DROP m; SELECT nextval('loose')")
                await cluster.stop()
            }
            #expect(place.observed.warnings.isEmpty)
        }
    }

    private func expectOrdinaryRole(_ cluster: PrivateCluster) throws {
        let roles =
            "SELECT string_agg(rolname || ' ' || rolsuper, ', ' ORDER BY rolname) FROM pg_roles WHERE rolname !~ '^pg_'"
        #expect(try query(cluster, roles) == "postgres true, posthouse false")
        let owner =
            "SELECT pg_get_userbyid(datdba) || ' ' || current_user FROM pg_database WHERE datname = current_database()"
        #expect(try query(cluster, owner) == "posthouse posthouse")
    }

    @Test func takesOverTheServerOfADeadDaemon() async throws {
        try await TestPlace.with { place in
            var cluster: PrivateCluster? = try await place.start()
            let before = try await pid(of: #require(cluster))
            // Dropping it without a stop closes the lock and leaves the server, just as the death of the process does.
            cluster = nil
            var other = place.hostEnvironment
            other.runtimeDirectory = nil
            let heir = try await place.start(other)
            #expect(await pid(of: heir) == before)
            #expect(heir.connectionString.contains(place.sockets))
            #expect(try query(heir, "SELECT 1") == "1")
            #expect(place.observed.all.last == "clusterStarted(directory: \"\(place.data)\", takenOver: true)")

            // It is supervised like one of its own, and comes back under the same connection string.
            kill(before, SIGKILL)
            await place.observed.restarted()
            #expect(try query(heir, "SELECT 1") == "1")
            await heir.stop()
            #expect(ServerProcesses.all(on: place.data).isEmpty)
        }
    }

    @Test func startsAKilledServerAgainAndLosesNothing() async throws {
        try await TestPlace.with { place in
            let cluster = try await place.start()
            let before = await pid(of: cluster)
            _ = try query(cluster, "CREATE TABLE kept (n int)")
            _ = try query(cluster, "INSERT INTO kept VALUES (7)")
            // A backend that does not notice the death of its postmaster keeps the old shared memory.
            let busy = Process()
            busy.executableURL = URL(fileURLWithPath: "/usr/bin/psql")
            busy.arguments = [cluster.connectionString, "-Xc", "SELECT count(*) FROM generate_series(1, 4000000000)"]
            busy.standardError = FileHandle.nullDevice
            try busy.run()
            while try query(cluster, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%series%'") != "2" {
                try await Task.sleep(for: .milliseconds(5))
            }
            kill(before, SIGKILL)
            await place.observed.restarted()
            busy.waitUntilExit()
            #expect(await pid(of: cluster) != before)
            #expect(try query(cluster, "SELECT n FROM kept") == "7")
            await cluster.stop()
        }
    }

    @Test("A stop waits for a long checkpoint and says so; the next start has nothing to recover")
    func longCheckpoint() async throws {
        try await TestPlace.with { place in
            let cluster = try await place.start()
            _ = try query(cluster, "CREATE TABLE kept (n int)")
            let checkpointer = try await serverProcess("checkpointer", on: place.data)
            kill(checkpointer, SIGSTOP)
            let stop = Task { await cluster.stop() }
            let said = await place.observed.next {
                switch $0 {
                case .warning(let text): text.contains("has been stopping for")
                case .clusterStopped: true
                default: false
                }
            }
            kill(checkpointer, SIGCONT)
            await stop.value
            #expect(String(describing: said).contains("has been stopping for"))
            #expect(try state(of: place.data) == "shut down")
        }
    }

    /// Waits for a process of a server: it gives itself its title some time after the server's start.
    private func serverProcess(_ title: String, on data: String) async throws -> pid_t {
        while true {
            for process in ServerProcesses.all(on: data) {
                let line = try? String(contentsOfFile: "/proc/\(process.pid)/cmdline", encoding: .utf8)
                if line?.contains(title) == true { return process.pid }
            }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    @Test func aSecondOwnerIsRefused() async throws {
        try await TestPlace.with { place in
            let cluster = try await place.start()
            let error = try #require(
                await #expect(throws: ClusterError.self) {
                    let second = try await place.startOnce()
                    await second.stop()
                })
            #expect(error == .inUse(directory: place.data, holder: "process \(getpid())"))
            #expect("\(error)".contains("another posthouse"))
            #expect(try query(cluster, "SELECT 1") == "1")
            await cluster.stop()
        }
    }

    @Test func aServerWithoutItsSocketIsStartedAgain() async throws {
        try await TestPlace.with { place in
            var cluster: PrivateCluster? = try await place.start()
            let before = try await pid(of: #require(cluster))
            cluster = nil
            try FileManager.default.removeItem(atPath: place.sockets)
            try FileManager.default.createDirectory(atPath: place.sockets, withIntermediateDirectories: false)
            let heir = try await place.start()
            #expect(place.observed.wasTakenOver == false)
            #expect(await pid(of: heir) != before)
            #expect(try query(heir, "SELECT 1") == "1")
            await heir.stop()
        }
    }

    /// PostgreSQL alone refuses here: kill(2) answers for a zombie, and for any other process of the same user.
    @Test func aZombieInTheLockFileDoesNotHinderTheStart() async throws {
        try await TestPlace.with { place in
            await (try place.start()).stop()
            let zombie = try makeZombie()
            defer { var status: Int32 = 0; waitpid(zombie, &status, 0) }
            let lock = "\(zombie)\n\(place.data)\n1700000000\n5432\n\(place.sockets)\n\n0 0\nready   \n"
            try lock.write(toFile: PostmasterFile.path(in: place.data), atomically: false, encoding: .utf8)
            let cluster = try await place.start()
            #expect(place.observed.wasTakenOver == false)
            #expect(try query(cluster, "SELECT 1") == "1")
            await cluster.stop()
        }
    }

    private func makeZombie() throws -> pid_t {
        var child: pid_t = 0
        var arguments: [UnsafeMutablePointer<CChar>?] = [strdup("true"), nil]
        defer { free(arguments[0]) }
        try #require(posix_spawn(&child, "/bin/true", nil, nil, &arguments, nil) == 0)
        var info = siginfo_t()
        // Waits for its end without reaping it.
        waitid(P_PID, id_t(child), &info, WEXITED | WNOWAIT)
        return child
    }
}
