import Cluster
import Configuration
import Glibc
import Ledger
import Observing
import Postgres
import Spool
import Systemd
import Vocabulary

// How the daemon starts, and how a signal ends a start at any point: while the private cluster is being made or
// recovers, while the database is waited for, or while its schema is being migrated.

extension ServeCommand {
    /// How long the start waits for a database that does not answer yet.
    private static let databaseTimeout: Duration = .seconds(60)
    /// How long the database may take to be prepared before a daemon that spools serves without it: another daemon may
    /// be migrating it. Longer than a new ledger takes on a busy machine.
    private static let preparationTimeout: Duration = .seconds(10)
    /// Reasons that the journal is given for one outage.
    private static let reasonsMax = 16
    /// A start that a signal ends has this long to undo what it began. Then the process ends as it is: a private
    /// cluster that runs on is taken over by the next start, and a migration is rolled back by the database.
    private static let undoTimeout: Duration = .seconds(4)
    /// How much more time the service manager is asked for, and how often.
    private static let extensionLength: Duration = .seconds(60)
    private static let extensionInterval: Duration = .seconds(20)

    /// What a start has brought up.
    struct Running: Sendable {
        let relay: Relay
        /// nil: `[database] url` names the database.
        let cluster: PrivateCluster?
    }

    private enum Event: Sendable {
        case ended(Result<Running, any Error>)
        case signal(Int32)
        case timedOut
    }

    /// One outage of the database: what the journal has of it, and how long the next attempt waits.
    private struct Outage {
        /// A database that comes up may then refuse the password, which only a person can put right.
        private var reasons: Set<String> = []
        private var pause = Limits.reconnectBackoff.lowerBound

        mutating func log(_ reason: String, _ observe: Observer) {
            if reasons.isEmpty {
                observe(.databaseLost(reason: reason))
            } else if reasons.count < ServeCommand.reasonsMax, !reasons.contains(reason) {
                observe(.warning("the database is still out of reach: \(reason)"))
            }
            if reasons.count < ServeCommand.reasonsMax { reasons.insert(reason) }
        }

        mutating func waitBeforeRetry() async throws {
            try await Task.sleep(for: pause)
            pause = min(pause * 2, Limits.reconnectBackoff.upperBound)
        }

        /// Logs the end of the outage, so that the journal shows how long the database was away.
        func logEnd(_ observe: Observer) { if !reasons.isEmpty { observe(.databaseRecovered) } }
    }

    /// Starts the daemon, unless a signal ends the start first.
    /// - Parameters:
    ///   - signals: all that come; they are passed on to `later`, which is read once the daemon runs.
    /// - Returns: nil when a signal ended the start.
    func start(
        _ configuration: Configuration, listeners: Listeners, observatory: Observatory, signals: AsyncStream<Int32>,
        later: AsyncStream<Int32>.Continuation
    ) async throws -> Running? {
        let (events, event) = AsyncStream<Event>.makeStream()
        let extending = Self.extendTimeout()
        defer { extending.cancel() }
        let work = Task { [path = file.path] in
            do {
                let running = try await Self.begin(configuration, path, listeners, observatory) {
                    // It is ready: the watchdog is all that counts from here on, and more time would keep it off.
                    extending.cancel()
                }
                event.yield(.ended(.success(running)))
            } catch {
                event.yield(.ended(.failure(error)))
            }
        }
        // It is never cancelled: that would end the stream of signals for good.
        Task {
            for await signal in signals {
                later.yield(signal)
                event.yield(.signal(signal))
            }
        }
        var cause: Int32?
        for await next in events {
            switch next {
            case .ended(.success(let running)): return running  // a signal that came too late is read from `later`
            case .ended(.failure(let error)):
                guard let cause else { throw error }
                Self.logEnd(cause, observatory.observer)
                return nil
            case .signal(SIGHUP):
                observatory.observer(
                    .warning(
                        "the configuration is read again once this daemon has started; to start with another [database] "
                            + "url, restart it: what is spooled stays"))
            case .signal(let signal):
                guard cause == nil else { continue }
                cause = signal
                _ = Notify.stopping(status: "giving up the start")
                work.cancel()
                Task {
                    try await Task.sleep(for: Self.undoTimeout)
                    event.yield(.timedOut)
                }
            case .timedOut:
                observatory.observer(
                    .warning("the start did not end in \(Self.undoTimeout): stopped without undoing what it began"))
                Self.logEnd(cause ?? SIGTERM, observatory.observer)
                return nil
            }
        }
        return nil
    }

    /// Asks the service manager for more time, for the start or the stop, until the task is cancelled.
    static func extendTimeout() -> Task<Void, Never> {
        Task {
            repeat {
                _ = Notify.extendTimeout(by: extensionLength)
            } while (try? await Task.sleep(for: extensionInterval)) != nil
        }
    }

    private static func logEnd(_ signal: Int32, _ observe: Observer) {
        observe(.stopping(reason: name(of: signal)))
        observe(.stopped(inFlight: 0))
    }

    static func name(of signal: Int32) -> String { signal == SIGINT ? "SIGINT" : "SIGTERM" }

    /// Starts the private cluster, if there is one, then the relay. Everything that can fail comes before the first
    /// delivery; a failure ends what was begun.
    /// - Parameters:
    ///   - path: the path of the configuration file.
    ///   - servesEarly: called once webhooks are spooled before the database is there.
    private static func begin(
        _ configuration: Configuration, _ path: String, _ listeners: Listeners, _ observatory: Observatory,
        servesEarly: @escaping @Sendable () -> Void
    ) async throws -> Running {
        let observe = observatory.observer
        let serving = try ServingFile.ofUnit(spool: configuration.spool.directory, observe)
        let cluster = try await privateCluster(configuration, serving, observe)
        // Behind the cluster, which makes the directory that both lie in.
        let spool: SpoolOpening
        do {
            spool = try await SpoolOpening.open(configuration, observe)
        } catch {
            await cluster?.stop()
            throw error
        }
        // Before the first webhook can be written there.
        serving?.recordSpool()
        // A private cluster is this daemon's own: it is there, or the start fails.
        let mayServeEarly = cluster == nil && spool.current != nil && configuration.sources.contains(where: \.spools)
        var early: EarlyService?
        do {
            /// Serves from the spool alone, unless it does so already.
            func serveEarly(because reason: String) async throws {
                early?.waits(because: reason)
                guard early == nil, let spool = spool.current else { return }
                early = try await EarlyService.open(configuration, listeners, spool, observatory, because: reason)
                serves(early, because: reason, observe)
                servesEarly()
            }
            let target = cluster?.connectionString ?? DatabaseAccess.url(configuration) ?? ""
            let settings = try DatabaseAccess.settings(target, by: configuration.database)
            let direct = try DirectConnection(configuration.database, as: configuration.database)
            let isDeclared = configuration.database.durability == .declared
            let moved = cluster == nil ? EmbeddedLedger.Moved(in: configuration.embedded.directory) : nil
            let place: LastServed.Location =
                cluster == nil ? .database("\(settings)") : .cluster(in: configuration.embedded.directory)
            let admit: @Sendable (ConnectionSettings) async throws -> Void = { settings in
                if let moved { try await EmbeddedLedger.refuseUnlessLedger(moved, settings) }
                try await serving?.refuseToBegin(in: place, by: settings)
            }
            // Taken once: a second try of this process would find it held.
            let lock = ThisProcess.stateLock(configuration)
            if isDeclared { observe(.warning(declaredDurability)) }
            if let report = direct.report(configuration.database.pooling) { observe(.warning(report)) }
            var outage = Outage()
            while true {
                let (from, to) = try await prepare(
                    settings, direct, isDeclared: isDeclared, admit, configuration, path, &outage, observe,
                    mayServeEarly: mayServeEarly, serveEarly: serveEarly)
                if from != to { observe(.migrated(from: from, to: to)) }
                try Task.checkCancellation()
                do {
                    let relay = try await Relay.start(
                        configuration: configuration, settings: settings, listeners: listeners, lock: lock,
                        spool: spool, early: early, observatory: observatory)
                    outage.logEnd(observe)
                    serving?.record(
                        LastServed.Ledger(mark: relay.reloader.ledger.text, place: place), moved: moved)
                    return Running(relay: relay, cluster: cluster)
                } catch let error as DatabaseError where mayServeEarly && error.isTemporary {
                    // Lost again, or it answers and takes nothing: it is a standby, or a primary without one.
                    outage.log("\(error)", observe)
                    try await serveEarly(because: "\(error)")
                    try await outage.waitBeforeRetry()
                }
            }
        } catch {
            await early?.close()
            await spool.close()
            await cluster?.stop()
            // Lost or locked since the check: the unit restarts the daemon.
            if let error = error as? DatabaseError, error.isTemporary {
                throw DatabaseAccess.unreachable(error, configuration, path)
            }
            throw error
        }
    }

    private static func serves(_ early: EarlyService?, because reason: String, _ observe: Observer) {
        guard let early else { return }
        observe(
            .warning("serving \(early.listens) without the database: webhooks are spooled, or answered 503; \(reason)"))
        _ = Notify.ready(status: "serving \(early.listens); waiting for the database: \(reason)")
    }

    private static let takesLong = """
        the database is not prepared after \(preparationTimeout): its tables are being changed, somebody else holds them \
        (another daemon? pg_stat_activity shows it), or it answers slowly or not at all
        """

    private static let declaredDurability = """
        [database] durability = "declared": that the database keeps an acknowledged webhook through a crash is declared, \
        not checked
        """

    private static func privateCluster(
        _ configuration: Configuration, _ serving: ServingFile?, _ observe: @escaping Observer
    ) async throws -> PrivateCluster? {
        guard configuration.database.usesPrivateCluster else {
            try await EmbeddedLedger.refuseUnlessMoved(configuration.embedded.directory, observe)
            return nil
        }
        try EmbeddedLedger.refuseIfMoved(configuration.embedded.directory)
        if let state = ThisProcess.unitStateDirectory {
            try EmbeddedLedger.refuseToBeginBeside(state, in: configuration.embedded.directory)
        }
        try serving?.refuseToBegin(clusterIn: configuration.embedded.directory)
        _ = Notify.status("starting the private PostgreSQL cluster in \(configuration.embedded.directory)")
        return try await PrivateCluster.start(
            directory: configuration.embedded.directory, pool: configuration.database.poolConnections, observe: observe)
    }

    /// Prepares the database, and waits for one that is still starting. A wrong setting fails at once.
    /// - Parameters:
    ///   - admit: as for `DatabaseAccess.prepare`.
    ///   - mayServeEarly: the daemon serves without the database and waits for as long as it takes, also for one that
    ///     is there and takes nothing yet, or whose tables others keep from being changed.
    ///   - serveEarly: called then, with the reason.
    private static func prepare(
        _ settings: ConnectionSettings, _ direct: DirectConnection, isDeclared: Bool,
        _ admit: @escaping @Sendable (ConnectionSettings) async throws -> Void,
        _ configuration: Configuration, _ path: String, _ outage: inout Outage, _ observe: @escaping Observer,
        mayServeEarly: Bool, serveEarly: (_ reason: String) async throws -> Void
    ) async throws -> (from: Int, to: Int) {
        // From the first failure of a row on: before and between them may lie a long wait for others' locks.
        var deadline: ContinuousClock.Instant?
        while true {
            do {
                return try await attempt(settings, direct, isDeclared: isDeclared, admit, observe) { reason in
                    if mayServeEarly {
                        try await serveEarly(reason)
                    } else {
                        deadline = nil
                        _ = Notify.status("waiting to migrate: \(reason)")
                    }
                }
            } catch let error as DatabaseError where error.isConnectionLevel || mayServeEarly && error.isTemporary {
                outage.log("\(error)", observe)
                if mayServeEarly {
                    try await serveEarly("\(error)")
                } else {
                    let now = ContinuousClock.Instant.now
                    guard now < deadline ?? now + databaseTimeout else {
                        throw DatabaseAccess.unreachable(error, configuration, path)
                    }
                    deadline = deadline ?? now + databaseTimeout
                    _ = Notify.status("waiting for the database: \(error)")
                }
                try await outage.waitBeforeRetry()
            }
        }
    }

    /// Prepares the database, once.
    /// - Parameter waits: called, with the reason, when others keep the tables from being changed, or when it takes
    ///   longer than `preparationTimeout`. What it throws ends the attempt.
    private static func attempt(
        _ settings: ConnectionSettings, _ direct: DirectConnection, isDeclared: Bool,
        _ admit: @escaping @Sendable (ConnectionSettings) async throws -> Void,
        _ observe: @escaping Observer, waits: (_ reason: String) async throws -> Void
    ) async throws -> (from: Int, to: Int) {
        let (reasons, reason) = AsyncStream<String>.makeStream()
        // A task of its own: a wait in PostgreSQL cannot be cancelled, and must not hold up the error of `waits`.
        let work = Task<(from: Int, to: Int), any Error> {
            defer { reason.finish() }
            return try await DatabaseAccess.prepare(
                settings, direct: direct, isDeclared: isDeclared, admit: admit,
                onWait: { wait in
                    observe(.warning("\(wait); this daemon starts once they have ended"))
                    reason.yield("\(wait)")
                })
        }
        defer { work.cancel() }
        let timeout = Task {
            try await Task.sleep(for: preparationTimeout)
            reason.yield(takesLong)
        }
        defer { timeout.cancel() }
        for await next in reasons {
            timeout.cancel()
            try await waits(next)
        }
        // A start that is given up ends the stream, too.
        if Task.isCancelled { work.cancel() }
        return try await work.value
    }
}
