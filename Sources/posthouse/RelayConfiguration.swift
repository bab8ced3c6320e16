import API
import Configuration
import Inbound
import Ledger
import Observing
import Outbound
import Postgres
import Vocabulary

// What the relay takes from a configuration.

/// The current configuration.
final class LiveConfiguration: Sendable {
    private struct State {
        let current: Configuration
        let digests: [String: String]
        var refusal: String?

        init(_ current: Configuration) {
            self.current = current
            digests = current.digests
        }
    }

    private let state: Replaceable<State>

    init(_ configuration: Configuration) { state = Replaceable(State(configuration)) }

    var current: Configuration { state.current.current }
    /// Of the current configuration, made once.
    var digests: [String: String] { state.current.digests }
    /// Why the last reload was refused; nil: it was not, or there was none.
    var refusal: String? { state.current.refusal }

    func replace(_ next: Configuration) { state.replace(State(next)) }

    func refused(_ reason: String) { state.change { $0.refusal = reason } }
}

extension Configuration {
    /// Where the private cluster is; nil: `[database] url` names the database, whose disk cannot be seen from here.
    var clusterDirectory: String? { database.usesPrivateCluster ? embedded.directory : nil }
}

extension OpenListeners.Handlers {
    /// Makes the handlers, at the start and at each reload.
    init(
        _ configuration: Configuration, pool: Pool, reading: SlowReader<[QueueFigures]>,
        overdue: SlowReader<[OverdueFigures]>, queue: RecordQueue, recorder: Recorder, gate: LookupGate,
        lookups: Enricher.Lookups, stores: StoreClients, disk: DiskWatcher, spooling: RelaySpool,
        registration: Registration, clock: DatabaseClock, observatory: Observatory
    ) {
        let observe = observatory.observer
        observatory.expect(
            sources: configuration.sources.map(\.name), integrations: configuration.integrations.map(\.name))
        let bodyBytesMax = configuration.server.maxBodyBytes
        stores.adopt(configuration.sources)
        let leeways = Leeways(configuration.sources)
        overdue.adopt(leeways, in: pool)
        let ingest = Ingest(
            sources: configuration.sources, stores: stores, lookups: lookups, queue: queue,
            spooling: spooling.fallback, bodyBytesMax: bodyBytesMax, now: ThisProcess.now, observe: observe)
        self.ingest = ingest
        spooling.drain.adopt(ingest)
        api = API(
            tokens: configuration.apiTokens, sources: configuration.sources,
            subscriptionGroups: configuration.subscriptionGroups,
            lookup: HolderLookup(pool: pool, leeways: leeways), queue: queue,
            bodyBytesMax: bodyBytesMax, gate: gate, now: { clock.now }, observe: observe)
        operations = Operations(
            pool: pool, reading: reading, overdue: overdue, registration: registration, observatory: observatory,
            recording: recorder.figures, health: recorder.health, recordQueue: queue,
            disk: disk, spool: spooling.opening, spools: configuration.sources.contains(where: \.spools),
            integrations: Set(configuration.integrations.map(\.name)), sources: configuration.sources.map(\.name))
    }
}

extension SourceRules {
    init(_ source: Source) {
        self.init(
            shape: SourceAdapters.adapter(for: source.kind), ownership: source.ownership,
            mayLackName: source.kind.traits.mayLackName, leeway: source.leeway)
    }

    static func byName(_ configuration: Configuration) -> [String: SourceRules] {
        Dictionary(firstOf: configuration.sources.map { ($0.name, SourceRules($0)) })
    }
}

extension SourceSigning {
    init(_ source: Source) {
        self.init(
            shape: SourceAdapters.adapter(for: source.kind), authentication: source.authentication,
            secret: source.secrets.first)
    }

    static func byName(_ sources: [Source]) -> [String: SourceSigning] {
        Dictionary(firstOf: sources.map { ($0.name, SourceSigning($0)) })
    }
}
