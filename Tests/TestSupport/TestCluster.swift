import Foundation

/// A private PostgreSQL cluster for tests: on a unix socket in a short temporary directory, started from the
/// distribution's binaries (as user `postgres` when the tests run as root), synchronous and slow enough to be shared:
/// use `TestCluster.shared` and a database each, and a cluster of one's own only where it is to be stopped or killed.
///
/// Everyone is trusted on the socket but the role `with_password`, which has to give its password.
///
/// A small shell outside the test's process group waits for the end of this process, however it comes, and removes the
/// cluster then.
package final class TestCluster: Sendable {
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    private static let sharedResult = Result { try TestCluster() }

    /// One for the whole process, started on first use.
    package static var shared: TestCluster { get throws { try sharedResult.get() } }

    /// Where the socket lies: `host` of a connection string.
    package let directory: String
    private let binaries: String
    private let databases = Counter()
    private let options: String
    /// Files are copied faster than pages are logged, at the price of two checkpoints, which cost little without fsync.
    private let strategy: String
    /// Held open for as long as this process lives: its end is the guardian's signal.
    private let lifeline: FileHandle

    /// Creates and starts a cluster.
    /// - Parameters:
    ///   - durable: fsync and full_page_writes on, as in production.
    ///   - settings: further lines of the configuration, `name=value`.
    package init(durable: Bool = false, settings: [String] = []) throws {
        strategy = durable ? "" : " STRATEGY FILE_COPY"
        binaries = try Self.foundBinaries.get()
        directory = try Self.makeDirectory()
        let all =
            [
                "listen_addresses=", "unix_socket_directories=\(directory)", "max_connections=800",
                "log_min_messages=warning",
            ] + (durable ? [] : ["fsync=off", "full_page_writes=off"]) + settings
        options = all.map { "-c '\($0)'" }.joined(separator: " ")
        let stop = Self.asOwner([binaries + "/pg_ctl", "stop", "-m", "immediate", "-D", directory + "/data"])
        lifeline = try Self.guardian("read line; \(stop.joined(separator: " ")); rm -rf '\(directory)'")
        let data = directory + "/data"
        try run("initdb", ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"])
        let access = "local all with_password scram-sha-256\nlocal all all trust\nlocal replication all trust\n"
        // Rewriting in place keeps the file's owner.
        let file = try FileHandle(forWritingTo: URL(fileURLWithPath: data + "/pg_hba.conf"))
        try file.truncate(atOffset: 0)
        try file.write(contentsOf: Data(access.utf8))
        try file.close()
        try start()
    }

    package func start() throws {
        // After a kill its orphans may hold the shared memory for a moment, on a busy machine for a longer one.
        var last: (any Error)?
        for _ in 0..<300 {
            do {
                try run(
                    "pg_ctl",
                    [
                        "start", "-w", "-t", "300", "-D", directory + "/data", "-l", directory + "/data/log", "-o",
                        options,
                    ])
                return
            } catch { last = error }
            usleep(100_000)
        }
        throw last ?? Failure(description: "the test cluster did not start")
    }

    /// - Parameter mode: `smart`, `fast` or `immediate`, as of pg_ctl.
    package func stop(mode: String = "fast") throws {
        try run("pg_ctl", ["stop", "-w", "-t", "300", "-m", mode, "-D", directory + "/data"])
    }

    package func restart(mode: String = "fast") throws {
        try stop(mode: mode)
        try start()
    }

    /// SIGKILL to the postmaster; its children notice and end by themselves.
    package func kill() throws {
        let identifier = try String(contentsOfFile: directory + "/data/postmaster.pid", encoding: .utf8)
            .split(separator: "\n").first.flatMap { pid_t($0) }
        guard let identifier else { throw Failure(description: "postmaster.pid holds no process id") }
        Foundation.kill(identifier, SIGKILL)
    }

    /// Makes the cluster, which must be stopped, a standby from its next start on.
    package func becomeStandby() throws {
        try Self.run(Self.asOwner(["touch", directory + "/data/standby.signal"]))
    }

    /// A database of its own, empty or a copy of one that nobody is connected to; its connection string.
    package func createDatabase(copyOf template: String? = nil) throws -> String {
        let name = "test_\(databases.next())"
        let sql = "CREATE DATABASE \(name)" + (template.map { " TEMPLATE \($0)" } ?? "") + strategy
        if let template { KeptSessions.end(of: connectionString(database: template)) }
        for _ in 1..<20 {
            do {
                try psql(sql)
                return connectionString(database: name)
            } catch let failure as Failure where failure.description.contains("being accessed by other users") {
                // By a session that is ending, for which the server waits five seconds: a busy machine needs longer.
            }
        }
        try psql(sql)
        return connectionString(database: name)
    }

    package func connectionString(database: String) -> String { "host=\(directory) user=postgres dbname=\(database)" }

    /// What one or several statements give, as `psql -A -t -c` prints it: unaligned and without headings.
    /// - Parameter isKept: as for `Query.rows`.
    @discardableResult
    package func psql(
        _ sql: String, database: String = "postgres", inKeptSession isKept: Bool = false
    ) throws -> String {
        do {
            let rows = try Query.rows(sql, on: connectionString(database: database), inKeptSession: isKept)
            return rows.map { $0.joined(separator: "|") }.joined(separator: "\n")
                .trimmingCharacters(in: .whitespacesAndNewlines)
        } catch { throw Failure(description: error.description) }
    }

    /// psql itself: what Debian has in PATH is a script before it that takes five times as long.
    package static let psql = (try? foundBinaries.get()).map { $0 + "/psql" } ?? "psql"

    private static let foundBinaries = Result { try findBinaries() }

    // MARK: Processes

    /// Held while a child is started, and while a descriptor exists that a child must not inherit yet.
    private static let spawning = NSLock()

    @discardableResult
    private func run(_ program: String, _ arguments: [String]) throws -> String {
        try Self.run(Self.asOwner([binaries + "/" + program] + arguments))
    }

    /// PostgreSQL refuses to run as root.
    private static func asOwner(_ command: [String]) -> [String] {
        getuid() == 0 ? ["runuser", "-u", "postgres", "--"] + command : command
    }

    @discardableResult
    static func run(_ command: [String]) throws -> String {
        let output = NSTemporaryDirectory() + "/posthouse-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: output) }
        let child = try spawn(command, input: nil, output: output)
        var status: Int32 = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        let text = (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""
        guard status == 0 else {
            throw Failure(description: "\(command.joined(separator: " ")) ended with status \(status): \(text)")
        }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Starts a program with its output in a file. Not by Foundation's Process: that waits until every descendant has
    /// ended, so for ever where a server is started.
    private static func spawn(_ command: [String], input: Int32?, output: String) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let input {
            posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
        } else {
            posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
        }
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO)
        let arguments = command.map { strdup($0) } + [nil]
        defer { arguments.forEach { free($0) } }
        var child = pid_t()
        let code = withPlainSignals { attributes in
            spawning.withLock { posix_spawnp(&child, command[0], &actions, &attributes, arguments, environ) }
        }
        guard code == 0 else { throw Failure(description: "\(command[0]): \(String(cString: strerror(code)))") }
        return child
    }

    /// Of the version whose binaries POSTHOUSE_TEST_POSTGRESQL names, else the newest that is installed.
    private static func findBinaries() throws -> String {
        let named = ProcessInfo.processInfo.environment["POSTHOUSE_TEST_POSTGRESQL"] ?? ""
        if !named.isEmpty { return named }
        let installed = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: installed)) ?? []
        let newest = versions.compactMap { Int($0) }.sorted().last { version in
            FileManager.default.isExecutableFile(atPath: "\(installed)/\(version)/bin/initdb")
        }
        if let newest { return "\(installed)/\(newest)/bin" }
        return try run(["pg_config", "--bindir"])
    }

    private static func makeDirectory() throws -> String {
        // A socket's path holds 107 bytes: short on purpose.
        var template = Array("/tmp/phXXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw Failure(description: "mkdtemp: \(String(cString: strerror(errno)))")
        }
        let directory = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        if getuid() == 0 {
            guard let owner = getpwnam("postgres") else { throw Failure(description: "there is no user postgres") }
            chown(directory, owner.pointee.pw_uid, owner.pointee.pw_gid)
        }
        chmod(directory, 0o755)
        return directory
    }

    /// Runs a script outside the test's process group. The end of its standard input is the end of this process, or of
    /// what is returned.
    static func guardian(_ script: String) throws -> FileHandle {
        // No child may inherit the end whose closing is awaited.
        let pipe = spawning.withLock {
            let pipe = Pipe()
            _ = fcntl(pipe.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
            return pipe
        }
        _ = try spawn(
            ["setsid", "sh", "-c", script], input: pipe.fileHandleForReading.fileDescriptor, output: "/dev/null")
        return pipe.fileHandleForWriting
    }
}

// `value` is touched only under `lock`.
private final class Counter: @unchecked Sendable {
    private let lock = NSLock()
    private var value = 0

    func next() -> Int {
        lock.withLock {
            value += 1
            return value
        }
    }
}
