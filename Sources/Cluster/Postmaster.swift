internal import Glibc

/// `postmaster.pid`, which the server keeps in its data directory (PostgreSQL's miscadmin.h, "LOCK_FILE_LINE_…").
struct PostmasterFile: Equatable {
    let pid: pid_t
    let socketDirectory: String?
    /// `starting`, `stopping`, `ready` or `standby`, once the server has written it.
    let status: String?

    init?(in data: String) {
        guard let text = Files.text(Self.path(in: data)) else { return nil }
        self.init(parsing: text)
    }

    init?(parsing text: String) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
            .map { line in line.split(separator: " ", omittingEmptySubsequences: true).joined(separator: " ") }
        // A standalone backend writes its number negated.
        guard let first = lines.first, let number = pid_t(first), number != 0, number != .min else { return nil }
        pid = abs(number)
        socketDirectory = lines.count > 4 && !lines[4].isEmpty ? lines[4] : nil
        status = lines.count > 7 && !lines[7].isEmpty ? lines[7] : nil
    }

    static func path(in data: String) -> String { data + "/postmaster.pid" }
}

/// Finds what an earlier server left behind, and removes it.
enum Predecessor {
    /// The postmaster that runs on `data` right now.
    static func postmaster(on data: String) -> ServerProcess? {
        guard let file = PostmasterFile(in: data), ServerProcesses.isServer(file.pid, on: data) else { return nil }
        return ServerProcess(running: file.pid)
    }

    /// Ends the processes of a dead postmaster, and removes lock files that would mislead PostgreSQL. Call it only when
    /// there is no postmaster.
    ///
    /// PostgreSQL removes a stale lock file itself when kill(2) answers ESRCH for its pid. It refuses to start when the
    /// pid is a zombie's or has gone to another process of this user, and while an old backend is attached to the old
    /// shared memory. Where the process cannot be seen, the lock file stays, and the error names both.
    static func clear(data: String, socketDirectory: String) async throws(ClusterError) {
        let clock = ContinuousClock()
        let begin = clock.now
        var leftover = ServerProcesses.all(on: data)
        while !leftover.isEmpty {
            // Without a postmaster their work is void: recovery replays the log in any case.
            let waited = clock.now - begin
            if waited > ClusterLimits.orphanStopTimeout { leftover.forEach { $0.signal(SIGKILL) } }
            if waited > ClusterLimits.orphanTimeout {
                throw .orphans(directory: data, pids: leftover.map(\.pid))
            }
            do { try await clock.sleep(for: ClusterLimits.readyPoll) } catch { throw .cancelled }
            leftover = leftover.filter(\.isAlive)
        }
        let socketLock = socketDirectory + "/.s.PGSQL.\(SocketDirectory.port).lock"
        for path in [PostmasterFile.path(in: data), socketLock] {
            if try misleads(path, on: data) { unlink(path) }
        }
    }

    private static func misleads(_ path: String, on data: String) throws(ClusterError) -> Bool {
        guard let text = Files.text(path) else { return false }
        guard let file = PostmasterFile(parsing: text) else { return true }
        switch ServerProcesses.look(at: file.pid, on: data) {
        // Started a moment ago: PostgreSQL refuses to start beside it.
        case .server: return false
        case .other: return kill(file.pid, 0) == 0
        case .hidden: throw .hiddenProcess(lockFile: path, pid: file.pid)
        }
    }

    /// Stops the server: fast, then immediate, then SIGKILL, each step bounded in time.
    /// - Parameters:
    ///   - timeout: for the fast stop.
    ///   - goesOn: called from time to time during the fast stop with the time that it has taken.
    /// - Returns: whether the fast stop was enough: the next start has nothing to recover.
    @discardableResult
    static func stop(
        _ process: ServerProcess, within timeout: Duration = ClusterLimits.stuckStopTimeout,
        goesOn: @escaping @Sendable (Duration) -> Void = { _ in }
    ) async -> Bool {
        process.signal(SIGINT)
        if await end(of: process, within: timeout, goesOn) { return true }
        for signal in [SIGQUIT, SIGKILL] {
            process.signal(signal)
            if await end(of: process, within: ClusterLimits.immediateStopTimeout) { break }
        }
        return false
    }

    /// Waits for the end of the process in a task of its own: the caller may be cancelled, the stop is not.
    private static func end(
        of process: ServerProcess, within timeout: Duration,
        _ goesOn: @escaping @Sendable (Duration) -> Void = { _ in }
    ) async -> Bool {
        await Task.detached {
            let clock = ContinuousClock()
            let begin = clock.now
            var progress = ClusterLimits.progressInterval
            while process.isAlive {
                let waited = clock.now - begin
                if waited >= timeout { return false }
                if waited >= progress {
                    goesOn(waited)
                    progress += ClusterLimits.progressInterval
                }
                try? await clock.sleep(for: .milliseconds(20))
            }
            return true
        }.value
    }
}
