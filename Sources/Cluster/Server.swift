internal import Glibc
internal import Subprocess
internal import SystemPackage
internal import Vocabulary

/// A running postmaster and how to reach it.
struct Server: Sendable, Equatable {
    let process: ServerProcess
    let socketDirectory: String
}

/// Starts a postmaster, or takes over one that runs already; waits until it is ready.
struct ServerLauncher: Sendable {
    let paths: ClusterPaths
    let account: Account
    let binaries: Binaries
    var socketDirectory: String
    /// Connections of the daemon's pool.
    let pool: Int
    let observe: Observer

    /// The server that an earlier daemon left running and that answers; nil when there is none. One that runs but does
    /// not answer (frozen, or its socket was swept away) is stopped.
    func takeOver() async throws(ClusterError) -> Server? {
        guard let process = Predecessor.postmaster(on: paths.data) else { return nil }
        try await waitUntilReady(process, logOffset: logSize())
        guard process.isAlive, let file = PostmasterFile(in: paths.data), file.pid == process.pid,
            let directory = file.socketDirectory
        else { return nil }
        // Blocks this thread, bounded; nothing is served yet.
        for _ in 0..<ClusterLimits.answerAttempts where process.isAlive {
            if SocketProbe.answers(directory: directory, port: SocketDirectory.port) {
                return Server(process: process, socketDirectory: directory)
            }
        }
        observe(
            .warning(
                "PostgreSQL (process \(process.pid)) runs on \(paths.data) but does not answer in \(directory): "
                    + "stopping it to start it again"))
        await Predecessor.stop(process)
        return nil
    }

    /// Starts a server. Call it when `takeOver` found none; a server that somebody started by hand meanwhile is stopped
    /// in good order.
    func launch() async throws(ClusterError) -> Server {
        if let running = Predecessor.postmaster(on: paths.data) { await Predecessor.stop(running) }
        // Checked at each start: a cleaner of /tmp or of the runtime directory may have been there.
        if let problem = SocketDirectory.use(socketDirectory, account) {
            throw .noSocketDirectory(tried: [problem])
        }
        try await Predecessor.clear(data: paths.data, socketDirectory: socketDirectory)
        try await Roles.separate(paths, account, binaries)
        try await Settings.write(in: paths.data, pool: pool, account, binaries)
        let log = try openLog()
        let offset = logSize()
        let (pids, announce) = AsyncStream.makeStream(of: pid_t.self)
        // Never cancelled: cancelling it would end the server. It waits to reap the server whenever that ends; if the
        // daemon dies first, init does.
        let run = runDetached(log: log, announce: announce)
        // In a task of its own: a cancelled task would not wait for the pid of a server that is being started.
        let first = Task.detached { await pids.first { _ in true } }
        guard let pid = await first.value, let process = ServerProcess(running: pid) else {
            throw failedStart(await run.value, logOffset: offset)
        }
        let server = Server(process: process, socketDirectory: socketDirectory)
        do throws(ClusterError) {
            try await waitUntilReady(process, logOffset: offset)
        } catch {
            await Predecessor.stop(process)
            throw error
        }
        guard process.isAlive else { throw failedStart(await run.value, logOffset: offset) }
        return server
    }

    private func runDetached(
        log: FileDescriptor, announce: AsyncStream<pid_t>.Continuation
    ) -> Task<String, Never> {
        let configuration = Tool.configuration(
            binaries.postgres, Settings.arguments(data: paths.data, socketDirectory: socketDirectory), as: account)
        return Task.detached {
            defer { announce.finish() }
            do {
                let result = try await Subprocess.run(
                    configuration, input: .none,
                    output: .fileDescriptor(log, closeAfterSpawningProcess: true), error: .combinedWithOutput
                ) { execution in
                    announce.yield(execution.processIdentifier.value)
                    announce.finish()
                }
                return "\(result.terminationStatus)"
            } catch {
                return "\(error)"
            }
        }
    }

    /// Returns when postmaster.pid says that the server is ready, or when it is dead (the caller checks which).
    private func waitUntilReady(_ process: ServerProcess, logOffset: Int) async throws(ClusterError) {
        let clock = ContinuousClock()
        let begin = clock.now
        var progress = begin + ClusterLimits.progressInterval
        var timeout = StartTimeout(begin: begin)
        while process.isAlive {
            let status = PostmasterFile(in: paths.data).flatMap { $0.pid == process.pid ? $0.status : nil }
            if status == "ready" { return }
            let waited = clock.now - begin
            if clock.now >= progress {
                // A standby, as what a backup left in the directory may make it, works indefinitely and is never ready.
                let work = status == "standby" ? [:] : ServerProcesses.work(on: paths.data)
                if timeout.isOver(at: clock.now, work: work) {
                    throw .notReady(
                        log: paths.log, seconds: ClusterLimits.idleStartTimeout.components.seconds,
                        lines: logLines(from: logOffset))
                }
                observe(
                    .warning(
                        "PostgreSQL (process \(process.pid)) has been starting for \(waited.components.seconds) s: "
                            + "after a crash it replays its log first"))
                progress += ClusterLimits.progressInterval
            }
            do { try await clock.sleep(for: ClusterLimits.readyPoll) } catch { throw .cancelled }
        }
    }

    private func failedStart(_ reason: String, logOffset: Int) -> ClusterError {
        let lines = logLines(from: logOffset)
        if Tool.indicatesFullDisk(lines) { return .diskFull(directory: paths.data) }
        return .startFailed(log: paths.log, reason: reason, lines: lines)
    }

    // MARK: The log

    /// The last lines that the server wrote after `offset`.
    func logLines(from offset: Int) -> [String] {
        let bytes = Files.tail(paths.log, from: offset, limit: ClusterLimits.logTailBytesMax)
        return Tool.lastLines(of: String(decoding: bytes, as: UTF8.self))
    }

    func logSize() -> Int { Files.status(paths.log).map { Int($0.st_size) } ?? 0 }

    /// Empties the log when it has grown too long. The server writes at its end (O_APPEND), wherever that is.
    func boundLog() {
        guard logSize() > ClusterLimits.logBytesMax else { return }
        let descriptor = open(paths.log, O_WRONLY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        _ = ftruncate(descriptor, 0)
        close(descriptor)
    }

    private func openLog() throws(ClusterError) -> FileDescriptor {
        boundLog()
        let descriptor = open(paths.log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .failed("open", paths.log, errno) }
        if account.switches { _ = fchown(descriptor, account.userID, account.groupID) }
        return FileDescriptor(rawValue: descriptor)
    }
}
