import API
import Configuration
import Front
import Inbound
import Ledger
import NIOCore
import NIOPosix
import Observing
import Outbound
import Postgres
import Vocabulary

/// The running relay: the only place where its parts are built and joined.
///
///     Front ─▶ Ingest ─▶ RecordQueue ─▶ Recorder ─▶ ledger (PostgreSQL) ─▶ HandOver / claims ─▶ Dispatcher
///
/// Started in the order of the way, from its end: whoever hands on finds somebody to hand to.
final class Relay: Sendable {
    let pool: Pool
    let group: MultiThreadedEventLoopGroup
    let dispatcher: Dispatcher
    let servers: [FrontServer]
    let recordQueue: RecordQueue
    let handOver: HandOver
    private let registration: Registration
    private let queue: Queue
    /// Ends when the record queue is closed and empty.
    private let recording: Task<Void, Never>
    /// Ends when the settlement buffer is closed and empty.
    private let settling: Task<Void, Never>
    /// Run until they are cancelled.
    private let clockwork: [Task<Void, Never>]
    private let resolverThreads: NIOThreadPool
    private let observe: Observer

    var listens: String { servers.map(\.boundAddress).joined(separator: ", ") }
    /// The database committed lately, so that a webhook that came now could be acknowledged.
    var isReady: Bool { pool.isReachable && registration.mayStart }

    init(
        configuration: Configuration, settings: ConnectionSettings, listeners: Listeners, observatory: Observatory
    ) async throws {
        let observe = observatory.observer
        self.observe = observe
        let group = MultiThreadedEventLoopGroup(numberOfThreads: System.coreCount)
        self.group = group
        let pool = Self.pool(configuration, settings, observe)
        self.pool = pool
        let clock = DatabaseClock()
        let identity = ThisProcess.identity()
        let registration = Registration(pool: pool, identity: identity, version: Posthouse.version, clock: clock)
        self.registration = registration
        let routes = Routes()
        handOver = HandOver()
        queue = Queue(pool: pool, handOver: handOver, registration: registration, routes: routes, observe: observe)
        let upkeep = Upkeep(pool: pool, retention: Retention(configuration.retention))
        try await upkeep.preparePartitions()
        try await SourceNames.remember(configuration.sources.map(\.name), in: pool)
        try await registration.register()
        try await queue.bury(place: identity.place, isAlive: ThisProcess.isAlive)
        let routed = try await queue.route(configuration.integrations)

        let rules = Dictionary(
            configuration.sources.map { ($0.name, SourceRules($0)) }, uniquingKeysWith: { first, _ in first })
        let signing = Dictionary(
            configuration.sources.map { ($0.name, SourceSigning($0)) }, uniquingKeysWith: { first, _ in first })
        dispatcher = Dispatcher(
            queue: queue, handOver: handOver, registration: registration, clock: clock, place: identity.place,
            isAlive: ThisProcess.isAlive, sources: signing, version: Posthouse.version, group: group, observe: observe)
        // A look-up can hang for as long as the resolver likes: threads of their own.
        resolverThreads = NIOThreadPool(numberOfThreads: DeliverLimits.resolverThreads)
        resolverThreads.start()
        try await dispatcher.prepare(routed, resolver: .system(pool: resolverThreads))

        recordQueue = RecordQueue()
        let recorder = Recorder(
            queue: recordQueue, pool: pool, handOver: handOver, registration: registration, routes: routes,
            rules: rules, clock: clock, observe: observe)
        recording = Task { await recorder.run() }
        settling = Task { [dispatcher] in await dispatcher.runSettling() }
        clockwork = [
            Task { [dispatcher] in await dispatcher.run() },
            Task { [dispatcher] in await WakeUps(settings: settings).run { await dispatcher.wakeUp() } },
            Task { await Self.keepUp(upkeep, observe) },
        ]

        let ingest = Ingest(
            sources: configuration.sources, queue: recordQueue, bodyBytesMax: configuration.server.maxBodyBytes,
            now: ThisProcess.now, observe: observe)
        let operations = Operations(pool: pool, registration: registration, observatory: observatory)
        let api = API(
            tokens: configuration.apiTokens, sources: configuration.sources,
            subscriptionGroups: configuration.subscriptionGroups, lookup: HolderLookup(pool: pool), queue: recordQueue,
            bodyBytesMax: configuration.server.maxBodyBytes, now: { clock.now }, observe: observe)
        servers = try await listeners.start(ingest: ingest, api: api, operations: operations, group: group)
    }

    private static func pool(
        _ configuration: Configuration, _ settings: ConnectionSettings, _ observe: @escaping Observer
    ) -> Pool {
        let pool = Pool(
            settings, size: configuration.database.poolConnections,
            waiting: Pool.Waiting(waitersMax: 1_024, limit: Limits.acknowledgementTimeout),
            backoff: Limits.reconnectBackoff,
            onStateChange: { state in
                switch state {
                case .lost(let reason): observe(.databaseLost(reason: reason))
                case .recovered: observe(.databaseRecovered)
                }
            })
        pool.start()
        return pool
    }

    /// Partitions ahead and pruning, by the hour.
    private static func keepUp(_ upkeep: Upkeep, _ observe: @escaping Observer) async {
        while (try? await Task.sleep(for: .seconds(3_600))) != nil {
            do {
                try await upkeep.preparePartitions()
                try await upkeep.prune()
            } catch {
                observe(.warning("the hourly upkeep was put off: \(error)"))
            }
        }
    }

    /// SIGTERM: nothing new is taken, what is under way is answered, delivered and settled, every lease is given back.
    ///
    /// - Returns: attempts that were cut at the end of `limit`; nil: a database that does not answer held it up, and
    ///   the process is to end as it is. Nothing is lost by that: leases run out, and unanswered webhooks come again.
    func stop(within limit: Duration) async -> Int? {
        let (ends, end) = AsyncStream<Int?>.makeStream()
        let orderly = Task { end.yield(await drain(within: limit)) }
        let impatient = Task {
            try await Task.sleep(for: limit)
            end.yield(nil)
        }
        defer {
            orderly.cancel()
            impatient.cancel()
        }
        for await cut in ends { return cut }
        return nil
    }

    private func drain(within limit: Duration) async -> Int {
        let deadline = ContinuousClock.Instant.now + limit
        func left() -> Duration { max(.milliseconds(100), deadline - .now) }
        await withTaskGroup { group in
            for server in servers { group.addTask { await server.drain(upTo: left() / 2) } }
        }
        recordQueue.close()
        await recording.value
        clockwork.forEach { $0.cancel() }
        let cut = await dispatcher.drain(upTo: left() / 2)
        // Without a database there is an end to waiting, too: the leases run out by themselves.
        let cutOff = Task { [settling] in
            try await Task.sleep(for: left())
            settling.cancel()
        }
        await settling.value
        cutOff.cancel()
        // A round of the clockwork that is under way could lease or register after all was given back.
        for task in clockwork { await task.value }
        do {
            try await queue.leave()
        } catch {
            observe(
                .warning("the leases could not be given back and will run out in \(Limits.leaseDuration): \(error)"))
        }
        await pool.close()
        try? await group.shutdownGracefully()
        try? await resolverThreads.shutdownGracefully()
        return cut
    }
}

extension SourceRules {
    init(_ source: Source) {
        self.init(
            shape: SourceAdapters.adapter(for: source.kind), ownership: source.ownership,
            statesChanges: source.kind.traits.statesChanges)
    }
}

extension SourceSigning {
    init(_ source: Source) {
        self.init(
            shape: SourceAdapters.adapter(for: source.kind), authentication: source.authentication,
            secret: source.secrets.first)
    }
}

extension Retention {
    init(_ configured: Configuration.Retention) {
        self.init(attempts: configured.attempts, events: configured.events, duplicates: configured.duplicates)
    }
}
