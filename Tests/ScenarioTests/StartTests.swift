import Foundation
import TestSupport
import Testing
import Vocabulary

/// What a start does when it is told to end, when it fails, and when it takes long. Oracle: exit codes, the database,
/// the file system.
@Suite(.serialized, .timeLimit(.minutes(30))) struct StartTests {
    /// A start that is given up ends within five seconds; a machine under load has more. One that is not given up ends
    /// later and not with 0, if at all.
    private static let endSeconds = 60.0

    private func expectCleanEnd(of child: ChildProcess, _ signal: Int32 = SIGTERM) {
        child.signal(signal)
        #expect(child.waitForEnd(Self.endSeconds) == .exited(0), "\(child.errors)")
        #expect(child.errors.contains { $0.contains("stopping: \(signal == SIGINT ? "SIGINT" : "SIGTERM")") })
    }

    // MARK: A signal ends it

    @Test("SIGTERM and SIGINT end a start that waits for its database", arguments: [SIGTERM, SIGINT])
    func databaseAway(signal: Int32) throws {
        let text = "host=127.0.0.1 port=\(try Socket.freePort()) user=u dbname=d"
        let relay = try Relay([.init("backend", Receiver())], storage: .given(text))
        defer { relay.end() }
        let child = try relay.launch()
        #expect(child.waitForError(180) { $0.contains("database out of reach") } != nil)
        expectCleanEnd(of: child, signal)
    }

    @Test("SIGTERM at any moment of a start ends it")
    func anyMoment() throws {
        let relay = try Relay([.init("backend", Receiver())], storage: .fresh)
        defer { relay.end() }
        for number in 0..<40 {
            let child = try relay.launch()
            Thread.sleep(forTimeInterval: Double(number) * 0.01)
            child.signal(SIGTERM)
            let end = child.waitForEnd(Self.endSeconds)
            // Before the handler is there, the system ends the process.
            #expect(end == .exited(0) || end == .signalled(SIGTERM), "\(number): \(child.errors)")
            relay.kill()
        }
    }

    @Test("SIGTERM ends a start whose database takes the connection and says nothing")
    func databaseSilent() throws {
        let (listener, port) = try Socket.listen()
        defer { close(listener.descriptor) }
        listener.prepare(timeout: 180)
        let text = "host=127.0.0.1 port=\(port) user=u dbname=d sslmode=disable"
        let relay = try Relay([.init("backend", Receiver())], storage: .given(text))
        defer { relay.end() }
        let child = try relay.launch()
        let accepted = accept(listener.descriptor, nil, nil)
        try #require(accepted >= 0)
        defer { close(accepted) }
        expectCleanEnd(of: child)
    }

    @Test("SIGTERM ends a start that waits for another's lock on the schema; the next start migrates")
    func schemaLocked() throws {
        let relay = try Relay([.init("backend", Receiver())])
        defer { relay.end() }
        let holder = try ChildProcess([
            TestCluster.psql, "-X", "-q", "-d", relay.database.connectionString, "-c",
            "BEGIN; LOCK TABLE schema_migrations IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)",
        ])
        defer { holder.signal(SIGKILL) }
        let locks = "SELECT count(*) FROM pg_locks WHERE relation = 'schema_migrations'::regclass AND "
        let held = locks + "granted AND mode = 'AccessExclusiveLock'"
        #expect(try eventually { try relay.database.value(held) != "0" })
        let child = try relay.launch()
        #expect(try eventually { try relay.database.value(locks + "NOT granted") != "0" })
        expectCleanEnd(of: child)
        try relay.database.rows(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND query LIKE '%pg_sleep(600)' AND pid <> pg_backend_pid()
            """
        )
        try relay.start()
    }

    @Test("SIGTERM ends a start that has registered already, and that goes on only later: it never serves")
    func registered() throws {
        let relay = try Relay([.init("backend", Receiver())])
        defer { relay.end() }
        let database = try relay.database
        var child = try registeredAndEnded(relay, database)
        // It has four seconds until the process ends as it is: a busy machine may take longer for what is done here.
        for _ in 0..<4 where child.errors.contains(where: { $0.contains("stopped without undoing") }) {
            try database.rows("DELETE FROM daemons")
            child = try registeredAndEnded(relay, database)
        }
        #expect(child.waitForEnd(Self.endSeconds) == .exited(0), "\(child.errors)")
        #expect(!child.errors.contains { $0.contains("ready on ") }, "\(child.errors)")
        let left = try database.rows("SELECT * FROM daemons")
        #expect(left.isEmpty, "its lease is given back: \(left) \(child.errors)")
    }

    /// Starts a daemon, holds it up once it has registered, sends SIGTERM, lets it go on, and waits for its end.
    private func registeredAndEnded(_ relay: Relay, _ database: Database) throws -> ChildProcess {
        let holder = try ChildProcess([
            TestCluster.psql, "-X", "-q", "-d", database.connectionString, "-c",
            "BEGIN; LOCK TABLE integrations IN EXCLUSIVE MODE; SELECT pg_sleep(600)",
        ])
        defer { holder.signal(SIGKILL) }
        let locks = "SELECT count(*) FROM pg_locks WHERE relation = 'integrations'::regclass AND "
        #expect(try eventually { try database.value(locks + "granted") != "0" })
        let child = try relay.launch()
        #expect(try eventually { try database.value(locks + "NOT granted") != "0" })
        #expect(try database.count("daemons") == 1)
        child.signal(SIGTERM)
        // Nothing outside shows what comes of the signal that was taken.
        #expect(child.waitUntilTaken(SIGTERM))
        Thread.sleep(forTimeInterval: 0.5)
        try database.rows(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND query LIKE '%pg_sleep(600)' AND pid <> pg_backend_pid()
            """
        )
        _ = child.waitForEnd(Self.endSeconds)
        return child
    }

    @Test("SIGTERM ends a start that makes the private cluster; the next start makes it anew")
    func clusterBeingMade() throws {
        let relay = try Relay([.init("backend", Receiver())], storage: .privateCluster)
        defer { relay.end() }
        let state = relay.directory.path + "/state"
        func unfinished() -> Bool {
            ((try? FileManager.default.contentsOfDirectory(atPath: state)) ?? []).contains {
                $0.hasPrefix("cluster.new-")
            }
        }
        func isBeingMade(by child: ChildProcess) -> Bool {
            eventually { unfinished() || child.errors.contains { $0.contains("ready on ") } } && unfinished()
        }
        var child = try relay.launch()
        var isMet = isBeingMade(by: child)
        // On a busy machine it may be made while this process stands still: then another one is.
        for _ in 0..<4 where !isMet {
            #expect(relay.stop() == .exited(0), "\(child.errors)")
            try FileManager.default.removeItem(atPath: state)
            try? FileManager.default.removeItem(atPath: relay.directory.path + "/serving")
            child = try relay.launch()
            isMet = isBeingMade(by: child)
        }
        #expect(isMet)
        expectCleanEnd(of: child)
        try relay.start()
        #expect(!unfinished())
        #expect(relay.stop() == .exited(0))
    }

    @Test("SIGTERM ends a start whose private cluster does not answer; the next start has it")
    func clusterFrozen() throws {
        let relay = try Relay.running([.init("backend", Receiver())], storage: .privateCluster)
        defer { relay.end() }
        relay.kill()
        let state = relay.directory.path + "/state"
        let file = try String(contentsOfFile: state + "/cluster/postmaster.pid", encoding: .utf8)
        let postmaster = try #require(file.split(separator: "\n").first.flatMap { pid_t($0) })
        Foundation.kill(postmaster, SIGSTOP)
        defer { Foundation.kill(postmaster, SIGCONT) }
        let child = try relay.launch()
        let isHeld = eventually {
            (try? String(contentsOfFile: state + "/cluster.lock", encoding: .utf8)) == "process \(child.identifier)\n"
        }
        #expect(isHeld)
        expectCleanEnd(of: child)
        Foundation.kill(postmaster, SIGCONT)
        try relay.start()
        #expect(relay.stop() == .exited(0))
    }

    // MARK: It fails, or takes long

    @Test("A start that cannot listen delivers nothing, gives its leases back and leaves no private cluster running")
    func cannotListen() throws {
        let (listener, port) = try Socket.listen()
        defer { close(listener.descriptor) }
        let receiver = try Receiver { _ in .status(500) }
        for storage in [Relay.Storage.shared, .privateCluster] {
            let integration = Relay.Integration("backend", receiver, ["schedule": #"["1h"]"#])
            let relay = try Relay.running([integration], storage: storage)
            defer { relay.end() }
            let before = receiver.count
            #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
            #expect(receiver.wait { $0.count == before + 1 })
            #expect(try eventually { try relay.database.count("deliveries", where: "leased_by IS NULL") == 1 })
            try relay.database.rows("UPDATE deliveries SET due_at = now()")
            #expect(relay.stop() == .exited(0))
            // It may have been sent again before the stop.
            let sent = receiver.count
            try relay.configure([integration], settings: "api_listen = \"127.0.0.1:\(port)\"")
            let child = try relay.launch()
            #expect(child.waitForEnd(180) == .exited(1))
            #expect(child.errors.contains { $0.contains("another program listens there already") }, "\(child.errors)")
            #expect(receiver.count == sent)
            if case .shared = storage {
                #expect(try relay.database.count("daemons") == 0)
                #expect(try relay.database.count("deliveries", where: "leased_by IS NOT NULL") == 0)
            } else {
                let file = relay.directory.path + "/state/cluster/postmaster.pid"
                #expect(!FileManager.default.fileExists(atPath: file))
            }
        }
    }

    @Test("A start that waits asks the service manager for time, and says in the journal when the database is back")
    func waits() throws {
        let cluster = try TestCluster(durable: true)
        let relay = try Relay([.init("backend", Receiver())], storage: .given(try cluster.createDatabase()))
        defer { relay.end() }
        try cluster.stop()
        let manager = try NotifySocket(relay.directory.path + "/notify")
        let child = try relay.launch(environment: ["NOTIFY_SOCKET": manager.path])
        #expect(try manager.waits { $0.hasPrefix("EXTEND_TIMEOUT_USEC=") })
        #expect(try manager.waits { $0.hasPrefix("STATUS=waiting for the database") })
        #expect(child.waitForError(180) { $0.contains("database out of reach") } != nil)
        try cluster.start()
        #expect(child.waitForError(180) { $0.contains("database is back") } != nil)
        #expect(child.waitForError(180) { $0.contains("ready on ") } != nil)
        #expect(try manager.waits { $0.hasPrefix("READY=1") })
    }

    @Test("A start that serves from the spool asks for no more time: that would keep the watchdog off")
    func asksNoMoreOnceItServes() throws {
        let text = "host=127.0.0.1 port=\(try Socket.freePort()) user=u dbname=d"
        let relay = try Relay([], sources: [.init(name: "apphud")], storage: .given(text))
        defer { relay.end() }
        let manager = try NotifySocket(relay.directory.path + "/notify")
        _ = try relay.launch(environment: ["NOTIFY_SOCKET": manager.path])
        #expect(try manager.waits { $0.hasPrefix("READY=1") })
        // One comes every five seconds; it had asked every twenty. One request may have been under way at the first.
        var (reports, requests) = (0, 0)
        let went = try manager.waits { message in
            if message.hasPrefix("STATUS=") { reports += 1 }
            if message.hasPrefix("EXTEND_TIMEOUT_USEC="), reports > 1 { requests += 1 }
            return reports == 6
        }
        #expect(went && requests == 0)
    }

    @Test("A stop asks the service manager for the time that the private cluster's last checkpoint takes")
    func asksForTheStop() throws {
        let relay = try Relay([.init("backend", Receiver())], storage: .privateCluster)
        defer { relay.end() }
        let manager = try NotifySocket(relay.directory.path + "/notify")
        let child = try relay.launch(environment: ["NOTIFY_SOCKET": manager.path])
        #expect(try manager.waits { $0.hasPrefix("READY=1") })
        child.signal(SIGTERM)
        #expect(try manager.waits { $0.hasPrefix("STOPPING=1") })
        #expect(try manager.waits { $0.hasPrefix("EXTEND_TIMEOUT_USEC=") })
        #expect(child.waitForEnd(Self.endSeconds) == .exited(0), "\(child.errors)")
    }

    @Test("After a failover to a server that could lose what it commits nothing is acknowledged, until that is mended")
    func unsafeFailover() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        func alter(_ what: String) throws {
            try relay.database.rows(
                "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I \(what)', current_database()); END $$")
            try relay.database.rows(
                """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()
                """)
        }
        try alter("SET synchronous_commit = off")
        #expect(relay.waitForLine("database out of reach", "synchronous_commit = off", within: 180) != nil)
        #expect(try relay.get("/readyz").status == 503)
        #expect(try relay.source().postOnce(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 503)
        try alter("RESET synchronous_commit")
        // A connection that was made again before the second statement is ended by it.
        #expect(
            try eventually {
                try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200
            })
        #expect(try eventually { try relay.get("/readyz").status == 200 })
        #expect(receiver.waitForAccepted(1))
    }
}

/// Where a service manager would hear what a daemon notifies it of.
final class NotifySocket: Sendable {
    let path: String
    private let descriptor: Int32

    init(_ path: String) throws {
        self.path = path
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard descriptor >= 0, code == 0 else { throw HarnessFailure(call: "bind") }
        Socket(descriptor: descriptor).prepare(timeout: 180)
    }

    deinit { close(descriptor) }

    /// Reads messages until one matches; false: none came for long.
    func waits(for matches: (String) -> Bool) throws -> Bool {
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { return false }
            if matches(String(decoding: buffer[..<count], as: UTF8.self)) { return true }
        }
    }
}
