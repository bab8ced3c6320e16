import API
import Configuration
import HTTPClient
import HTTPServer
import Inbound
import Ledger
import NIOCore
import NIOPosix
import Observing
import Outbound
import Postgres
import Spool
import Systemd
import Vocabulary

/// The running relay: the only place where its parts are built and joined.
///
///     HTTPServer ─▶ Ingest ─▶ RecordQueue ─▶ Recorder ─▶ ledger ─▶ DispatchBuffer / claims ─▶ Dispatcher
///
/// Built from the end of this path to its start, so that each part finds the one that it passes work to.
final class Relay: Sendable {
    let pool: Pool
    let group: MultiThreadedEventLoopGroup
    let recordQueue: RecordQueue
    let dispatchBuffer: DispatchBuffer
    let recordingHealth: RecordingHealth
    let spool: SpoolOpening
    /// Applies a new configuration to the parts.
    let reloader: Reloader
    private let dispatcher: Dispatcher
    private let openListeners: OpenListeners
    private let queue: Queue
    private let registration: Registration
    /// Ends when the record queue is closed and empty.
    private let recording: Task<Void, Never>
    /// Ends when the settlement buffer is closed and empty.
    private let settling: Task<Void, Never>
    /// The background tasks; they run until they are cancelled.
    private let backgroundTasks: [Task<Void, Never>]
    /// Fill and empty the spool. Nothing waits for their end: what they leave is recorded by the next daemon.
    private let spoolTasks: [Task<Void, Never>]
    private let indexing: Task<Void, Never>
    private let clients: NetworkClients
    let observe: Observer

    var listens: String { openListeners.addresses }
    /// Why it must end and be started anew, should it come to that.
    var reasonsToEnd: AsyncStream<String> { dispatcher.reasonsToEnd }
    var isListening: Bool { openListeners.areListening }
    /// Whether a webhook that came now could be acknowledged: the database is reachable and committed lately.
    var isReady: Bool { pool.isReachable && registration.mayStart }

    /// Starts the relay. Everything that can fail comes before the first delivery; a start that fails ends what it
    /// began, and gives its leases back.
    /// - Parameters:
    ///   - lock: nil: what a daemon before it leased here waits until its lease has run out.
    ///   - spool: closed by `stop`; after a start that fails it is the caller's.
    ///   - early: its listeners and clients become the relay's; after a start that fails they serve on as before.
    static func start(
        configuration: Configuration, settings: ConnectionSettings, listeners: Listeners, lock: StateLock?,
        spool: SpoolOpening, early: EarlyService?, observatory: Observatory
    ) async throws -> Relay {
        let undo = StartUndo()
        do {
            return try await Relay(
                configuration: configuration, settings: settings, listeners: listeners, lock: lock, spool: spool,
                early: early, observatory: observatory, undo: undo)
        } catch {
            if await !undo.run(within: Limits.startUndoTimeout) {
                observatory.observer(
                    .warning("what the start had begun could not be undone in \(Limits.startUndoTimeout)"))
            }
            throw error
        }
    }

    private init(
        configuration: Configuration, settings: ConnectionSettings, listeners: Listeners, lock: StateLock?,
        spool: SpoolOpening, early: EarlyService?, observatory: Observatory, undo: StartUndo
    ) async throws {
        let observe = observatory.observer
        self.observe = observe
        let live = LiveConfiguration(configuration)
        let disk = DiskWatcher(directory: configuration.clusterDirectory)
        let clients = early?.clients ?? NetworkClients(observe)
        self.clients = clients
        let group = clients.group
        self.group = group
        if early == nil { undo.add { await clients.close() } }
        let pool = Self.pool(configuration, settings, observe)
        self.pool = pool
        undo.add { await pool.close() }
        let clock = DatabaseClock()
        let registration = Registration(pool: pool, key: lock?.own.key, version: Posthouse.version, clock: clock)
        self.registration = registration
        let ledger = try await LedgerMark.read(from: pool)
        try spool.admit { try SpoolLedger.claim($0, for: ledger) }
        let direct: @Sendable () -> ConnectionSettings? = { [started = configuration.database] in
            try? DirectConnection(live.current.database, as: started).settings(pool.settings)
        }
        if configuration.database.directURL != nil, let settings = direct(),
            let problem = try await ledger.problem(
                with: settings, insteadOf: pool, isDeclared: configuration.database.durability == .declared)
        {
            throw OperatorError(DirectConnection.refusal(settings, problem))
        }
        let routes = Routes(RouteTable())
        dispatchBuffer = DispatchBuffer()
        queue = Queue(
            pool: pool, dispatchBuffer: dispatchBuffer, registration: registration, routes: routes, observe: observe)
        // Leases that cannot be given back run out by themselves.
        undo.add { [queue] in try? await queue.leave() }
        let upkeep = Upkeep(pool: pool, retention: configuration.retention)
        await UpkeepRounds.preparePartitions(upkeep, observe)
        // Before anything is recorded: sequences may be behind their tables.
        let isPeriodNew = await UpkeepRounds.beginPeriod(upkeep, observe)
        try await SourceNames.remember(configuration.sources.map(\.name), in: pool)
        if let former = lock?.former { try await queue.takeOver(fromPredecessor: former.key) }
        lock?.leaveMark()
        try await registration.register(isStart: true)
        try Task.checkCancellation()
        let plans = try LanePlan.make(configuration.integrations, version: Posthouse.version)
        if let problem = StoreClients.problems(in: configuration).first { throw OperatorError(problem) }
        let routed = try await queue.route(configuration.integrations)
        let lanes = try PlannedLane.join(routed, plans)

        let rules = SourceRuleBook(SourceRules.byName(configuration))
        let signings = SourceSignings(SourceSigning.byName(configuration.sources))
        dispatcher = Dispatcher(
            queue: queue, dispatchBuffer: dispatchBuffer, registration: registration, clock: clock, sources: signings,
            group: group, observe: observe)

        recordQueue = RecordQueue()
        let recorder = Recorder(
            queue: recordQueue, pool: pool, dispatchBuffer: dispatchBuffer, registration: registration, routes: routes,
            rules: rules, clock: clock, observe: observe)
        recordingHealth = recorder.health

        let reading = SlowReader<[QueueFigures]>.figures(of: pool)
        let overdue = SlowReader<[OverdueFigures]>.overdue()
        self.spool = spool
        let spooling = RelaySpool(spool, beside: pool)
        // Of the pool as it is: another size takes a restart.
        let gate = LookupGate(ofConnections: configuration.database.poolConnections)
        let lookups = Enricher.Lookups(TokenLookup(pool: pool), gate: gate)
        let makeHandlers = { @Sendable [pool, recordQueue] configuration in
            OpenListeners.Handlers(
                configuration, pool: pool, reading: reading, overdue: overdue, queue: recordQueue, recorder: recorder,
                gate: gate, lookups: lookups, stores: clients.stores, disk: disk, spooling: spooling,
                registration: registration, clock: clock, observatory: observatory)
        }
        if let early {
            openListeners = early.openListeners
        } else {
            openListeners = try await OpenListeners.open(
                listeners.roles, tls: listeners.tls, handlers: makeHandlers(configuration), group: group,
                observe: observe)
        }

        try Task.checkCancellation()
        // Nothing fails from here on: webhooks and deliveries may begin.
        if let early {
            openListeners.answer(by: makeHandlers(configuration))
            early.handOver()
        }
        let resolver = clients.names.resolver
        await dispatcher.adopt(lanes, resolver: resolver)
        recording = Task { await recorder.run() }
        settling = Task { [dispatcher] in await dispatcher.runSettling() }
        backgroundTasks = [
            Task { [dispatcher] in await dispatcher.run() },
            Task { [dispatcher] in await WakeUps(settings: direct()).run { await dispatcher.wakeUp() } },
            Task { [routes] in await UpkeepRounds.run(pool, live, routes, isPeriodNew: isPeriodNew, observe) },
            Task { await disk.run(observe) },
            Task { await SourceReporter(pool: pool, registration: registration, observatory: observatory).run() },
            Task { await ConfigurationReporter(pool: pool, registration: registration, live: live).run() },
        ]
        spoolTasks = [
            Task { await spooling.fallback.run() }, Task { await spooling.runDrain() },
        ]
        indexing = Task { await Self.buildIndexes(pool, direct, observe) }
        reloader = Reloader(
            started: configuration, live: live, pool: pool, ledger: ledger, queue: queue, rules: rules,
            signings: signings, dispatcher: dispatcher, resolver: resolver, outgoing: clients.outgoing,
            spool: spool, openListeners: openListeners, observatory: observatory, makeHandlers: makeHandlers)
    }

    private static func pool(
        _ configuration: Configuration, _ settings: ConnectionSettings, _ observe: @escaping Observer
    ) -> Pool {
        let isDeclared = configuration.database.durability == .declared
        let pool = Pool(
            settings, size: configuration.database.poolConnections,
            waiting: Pool.Waiting(waitersMax: 1_024, limit: Limits.acknowledgementTimeout),
            backoff: Limits.reconnectBackoff,
            admission: { connection async throws(DatabaseError) in
                try await Durability.problem(with: connection, isDeclared: isDeclared)
            },
            onStateChange: { state in
                switch state {
                case .lost(let reason): observe(.databaseLost(reason: reason))
                case .recovered: observe(.databaseRecovered)
                }
            })
        pool.start()
        return pool
    }

    /// Builds the indexes that an update brought, and drops those that only the version before needed; once an hour it
    /// looks whether they are all there. It leases nothing and has a connection of its own, so a stop does not wait for
    /// it: what it has begun is done again.
    /// - Parameter direct: nil: there is no session to do it in, and `posthouse migrate` is to be run.
    private static func buildIndexes(
        _ pool: Pool, _ direct: @Sendable () -> ConnectionSettings?, _ observe: @escaping Observer
    ) async {
        while !Task.isCancelled {
            do {
                guard let settings = direct() else {
                    let unfinished = try await IndexMigration.unfinished(in: pool)
                    if !unfinished.isEmpty { observe(.warning(Self.indexesLeft(unfinished))) }
                    try await Task.sleep(for: .seconds(3_600))
                    continue
                }
                let isDone = try await DatabaseAccess.migrateIndexes(settings) == .done
                try await Task.sleep(for: .seconds(isDone ? 3_600 : 60))
            } catch {
                // At a stop the private cluster ends what is being built.
                if Task.isCancelled { return }
                observe(
                    .warning(
                        """
                        the indexes of this version could not be built and are tried again in an hour; \
                        posthouse migrate builds them, too: \(error)
                        """))
                try? await Task.sleep(for: .seconds(3_600))
            }
        }
    }

    private static func indexesLeft(_ unfinished: [String]) -> String {
        """
        indexes of this version are still to be built or dropped (\(unfinished.joined(separator: ", "))): run posthouse \
        migrate where [database] direct_url names PostgreSQL itself, the last time an hour after an upgrade
        """
    }

    /// Stops the relay at SIGTERM: takes nothing new, answers, delivers and settles what is under way, and gives every
    /// lease back.
    ///
    /// - Returns: how many attempts were cut at the end of `limit`. nil: a database that does not answer held it up,
    ///   and the process is to end as it is. Nothing that was acknowledged is lost by that, and leases run out.
    func stop(within limit: Duration) async -> Int? {
        await TimeLimit.value(of: Task { await drain(within: limit) }, within: limit)
    }

    private func drain(within limit: Duration) async -> Int {
        let deadline = ContinuousClock.Instant.now + limit
        func left() -> Duration { max(.milliseconds(100), deadline - .now) }
        await withTaskGroup { group in
            for server in openListeners.servers { group.addTask { await server.drain(upTo: left() / 2) } }
        }
        clients.stores.stop()
        recordQueue.close()
        spoolTasks.forEach { $0.cancel() }
        backgroundTasks.forEach { $0.cancel() }
        indexing.cancel()
        reloader.stop()
        // Beside each other: a database that stores nothing must not keep attempts from ending. Whoever sent what is
        // still being stored has been answered by now. What is stored late is leased by nobody, or reclaimed.
        async let recorded = TimeLimit.value(of: recording, within: min(Limits.recordDrainTimeout, left()))
        let cut = await dispatcher.drain(upTo: left() / 2)
        let isRecorded = await recorded != nil
        // Bounds the wait for a database that does not answer: the leases run out by themselves.
        if await TimeLimit.value(of: settling, within: left()) == nil {
            settling.cancel()
            await settling.value
        }
        // A background task in the middle of a round could lease or register after all leases were given back.
        for task in backgroundTasks { await task.value }
        do {
            try await queue.leave()
        } catch {
            observe(
                .warning("the leases could not be given back and will run out in \(Limits.leaseDuration): \(error)"))
        }
        // The process ends with the transactions that are still running.
        await spool.close()
        guard isRecorded else { return cut }
        await pool.close()
        await clients.close()
        return cut
    }
}
