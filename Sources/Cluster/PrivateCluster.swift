package import Vocabulary

// The PostgreSQL that the daemon keeps when the configuration names none.
//
// Who owns what: the lock file says which daemon keeps the directory; `postmaster.pid` and /proc say which server runs
// on it. The server need not be a child: it has a session of its own and survives a killed daemon, and the next daemon
// takes it over. So nothing here relies on being its parent; /proc shows whether it is dead.
//
// A server that dies is started again, with growing gaps, until `stop`, which is for good.
// A cluster that is dropped without `stop` leaves its server running, as a killed daemon would.

/// The private PostgreSQL cluster: started, supervised, stopped.
package actor PrivateCluster {
    /// The libpq connection string in keyword form, without a password. It stays the same for the cluster's whole life,
    /// restarts included.
    package nonisolated let connectionString: String

    private let launcher: ServerLauncher
    private var lock: DirectoryLock?
    private(set) var server: Server
    private var startedAt: ContinuousClock.Instant
    private var isStopped = false
    private var backoff = RestartBackoff()
    private var supervisor: Task<Void, Never>?

    /// Takes over the server that runs on `directory`, or starts it, after making the cluster if there is none. Returns
    /// when it accepts connections. Cancelling the task stops what was begun.
    ///
    /// - Parameters:
    ///   - directory: absolute; the cluster is a directory in it. Made if it is missing.
    ///   - pool: connections of the caller's pool: a server that is started has room for them.
    package static func start(
        directory: String, pool: Int = 0, observe: @escaping Observer, hostEnvironment: HostEnvironment = .current
    ) async throws(ClusterError) -> PrivateCluster {
        let (paths, account) = try await ClusterPaths.prepare(directory)
        let lock = try DirectoryLock(paths, account: account)
        let existing = try paths.existingVersion()
        let binaries = try await Binaries.find(for: existing, clusterDirectory: paths.data, in: hostEnvironment)
        await Initialisation.removeLeftovers(paths, account)
        var launcher = ServerLauncher(
            paths: paths, account: account, binaries: binaries,
            socketDirectory: try SocketDirectory.make(for: paths, account: account, in: hostEnvironment), pool: pool,
            observe: observe)
        if existing == nil { try await Initialisation.run(paths, account, binaries) }
        let found = try await launcher.takeOver()
        let server: Server
        if let found {
            // Its socket lies where its own start put it, and stays there when the server is started again.
            launcher.socketDirectory = found.socketDirectory
            server = found
        } else {
            server = try await launcher.launch()
        }
        let cluster = PrivateCluster(launcher, lock, server)
        await cluster.supervise()
        observe(.clusterStarted(directory: paths.data, takenOver: found != nil))
        return cluster
    }

    private init(_ launcher: ServerLauncher, _ lock: DirectoryLock, _ server: Server) {
        self.launcher = launcher
        self.lock = lock
        self.server = server
        startedAt = .now
        connectionString = Self.connectionString(socketDirectory: server.socketDirectory)
    }

    deinit { supervisor?.cancel() }

    /// Stops the server: fast (a checkpoint, no waiting for clients), then harder. Returns when it is gone, within the
    /// sum of the stop time-outs and `orphanTimeout` of `ClusterLimits`: longer than a service manager waits that is
    /// not asked for time.
    package func stop() async {
        guard !isStopped else { return }
        isStopped = true
        supervisor?.cancel()
        await supervisor?.value
        let (process, observe) = (server.process, launcher.observe)
        // One that does not answer will write no checkpoint, however long one waits. Blocks this thread, bounded;
        // nothing is served any more.
        let answers = SocketProbe.answers(directory: server.socketDirectory, port: SocketDirectory.port)
        let limit = answers ? ClusterLimits.fastStopTimeout : ClusterLimits.stuckStopTimeout
        let isClean = await Predecessor.stop(process, within: limit) { taken in
            observe(
                .warning(
                    "PostgreSQL (process \(process.pid)) has been stopping for \(taken.components.seconds) s: "
                        + (answers
                            ? "it writes a checkpoint, so that the next start has nothing to recover"
                            : "it did not answer before, and is ended after \(limit)")))
        }
        if !isClean {
            observe(
                .warning(
                    "PostgreSQL (process \(process.pid)) wrote no checkpoint in \(limit) and "
                        + "was ended without it: the next start replays its log first"))
            // The children of a killed postmaster end once they see that it is gone; the caller may be cancelled, this
            // is not. Where one stays, the next start names it.
            let (data, sockets) = (launcher.paths.data, server.socketDirectory)
            await Task.detached { try? await Predecessor.clear(data: data, socketDirectory: sockets) }.value
        }
        lock = nil
        launcher.observe(.clusterStopped)
    }

    // MARK: Supervision

    private func supervise() {
        let launcher = launcher
        // Holds the cluster only while it starts the server again, so that dropping the cluster ends this task.
        supervisor = Task { [weak self] in
            while let watched = await self?.server, await Self.outlived(watched.process, launcher) {
                guard let self, await self.recover(from: watched) else { return }
            }
        }
    }

    /// Waits for the end of the process: true when it has ended, false when the wait is cancelled first.
    private static func outlived(_ process: ServerProcess, _ launcher: ServerLauncher) async -> Bool {
        var ticks = 0
        while process.isAlive {
            do { try await Task.sleep(for: ClusterLimits.watchInterval) } catch { return false }
            ticks += 1
            if ticks % ClusterLimits.logCheckTicks == 0 { launcher.boundLog() }
        }
        return !Task.isCancelled
    }

    /// Starts the server again until it runs; false when the cluster was stopped meanwhile.
    private func recover(from dead: Server) async -> Bool {
        var uptime: Duration? = ContinuousClock.now - startedAt
        var reason = "PostgreSQL (process \(dead.process.pid)) died"
        while !isStopped {
            let gap = backoff.gap(uptime: uptime)
            launcher.observe(.warning("\(reason); starting it again in \(gap)"))
            do {
                try await Task.sleep(for: gap)
                server = try await launcher.launch()
                guard !isStopped else { return false }
                startedAt = .now
                launcher.observe(.clusterStarted(directory: launcher.paths.data, takenOver: false))
                return true
            } catch {
                if Task.isCancelled { return false }
                reason = "\(error)"
                uptime = nil
            }
        }
        return false
    }
}
