import API
import Configuration
import HTTPServer
import Inbound
import Ledger
import Observing
import Spool
import Vocabulary

/// Serves webhooks from the spool alone, until the database is prepared and takes what a start writes, for the first
/// time: those of sources that spool are written there, all others are answered 503. The relay then takes over its
/// listeners, without closing one.
struct EarlyService: Sendable {
    let clients: NetworkClients
    let openListeners: OpenListeners
    /// Why the relay does not start.
    private let reason: Replaceable<String>
    /// Keeps the watchdog fed.
    private let check: Task<Void, Never>
    /// Finds out that the disk has room again.
    private let looking: Task<Void, Never>

    var listens: String { openListeners.addresses }

    static func open(
        _ configuration: Configuration, _ listeners: Listeners, _ spool: Spool, _ observatory: Observatory,
        because reason: String
    ) async throws -> EarlyService {
        if let problem = StoreClients.problems(in: configuration).first { throw OperatorError(problem) }
        let clients = NetworkClients(observatory.observer)
        do {
            let openListeners = try await OpenListeners.open(
                listeners.roles, tls: listeners.tls,
                handlers: OpenListeners.Handlers(early: configuration, clients.stores, spool, observatory),
                group: clients.group, observe: observatory.observer)
            return EarlyService(clients, openListeners, spool, reason, observatory.observer)
        } catch {
            await clients.close()
            throw error
        }
    }

    private init(
        _ clients: NetworkClients, _ openListeners: OpenListeners, _ spool: Spool, _ reason: String,
        _ observe: @escaping Observer
    ) {
        self.clients = clients
        self.openListeners = openListeners
        let reason = Replaceable(reason)
        self.reason = reason
        check = Task {
            await SelfCheck.run(
                hang: { await SelfCheck.answer(clients.group) ? nil : SelfCheck.loopHangs },
                isListening: { openListeners.areListening },
                status: {
                    "serving \(openListeners.addresses); webhooks are spooled, or answered 503; "
                        + "waiting for the database: \(reason.current)"
                }, observe: observe)
        }
        looking = Task { await spool.keepLooking() }
    }

    /// For `systemctl status`, from the next look at the watchdog on.
    func waits(because reason: String) { self.reason.replace(reason) }

    /// The relay serves from here on.
    func handOver() {
        check.cancel()
        looking.cancel()
    }

    /// Ends it, for a start that fails or is given up.
    func close() async {
        handOver()
        for server in openListeners.servers { await server.drain(upTo: Self.drainTimeout) }
        await clients.close()
    }

    /// A write to the disk may be under way.
    private static let drainTimeout: Duration = .seconds(1)
}

extension OpenListeners.Handlers {
    fileprivate init(
        early configuration: Configuration, _ stores: StoreClients, _ spool: Spool, _ observatory: Observatory
    ) {
        observatory.expect(
            sources: configuration.sources.map(\.name), integrations: configuration.integrations.map(\.name))
        stores.adopt(configuration.sources)
        // Nothing is given to the ledger: a queue that is closed refuses it, and no look-up is made.
        let queue = RecordQueue()
        queue.close(because: EarlyOperations.problem)
        let lookups = Enricher.Lookups.unreachable
        ingest = Ingest(
            sources: configuration.sources, stores: stores, lookups: lookups, queue: queue,
            spooling: SpoolFallback(spool: spool) { false }, bodyBytesMax: configuration.server.maxBodyBytes,
            now: ThisProcess.now, observe: observatory.observer)
        api = nil
        operations = EarlyOperations(spool: spool, observatory: observatory)
    }
}

/// What is answered besides webhooks before the database is of use for the first time.
private struct EarlyOperations: OperationalPaths {
    let spool: Spool
    let observatory: Observatory

    /// Without the cause, which may name the database: these pages need no token, and the journal has it.
    static let problem = "this daemon waits for its database"

    func admit(_ head: IncomingHead, servesAPI: Bool) -> Admission {
        if servesAPI, API.owns(path: head.path) { return .refuse(API.unavailable(Self.problem)) }
        return Operations.admit(head, servesAPI: servesAPI, timeoutText: Self.problem)
    }

    func respond(to request: IncomingRequest, with responder: Responder) {
        switch request.head.path {
        case "/healthz": responder.respond(ProcessHealth.ofThisProcess.answer)
        case "/readyz":
            responder.respond(spool.hasRoom ? .spooling(Self.problem) : .text(503, Self.problem + "\n"))
        default:
            let gauges = Gauges(databaseIsUp: false, queues: [], spool: Gauges.Spool(spool.figures))
            responder.respond(.metrics(observatory.metricsPage(gauges: gauges)))
        }
    }
}
