import Configuration
import HTTPClient
import Inbound
import Ledger
import NIOCore
import NIOPosix
import Postgres
import Vocabulary

/// Reads quarantined webhooks again, by the current rules of their source.
struct QuarantineRetry {
    typealias Retried = (id: Int64, result: Result)

    enum Result {
        case recorded(EventTrail, unmoved: [String])
        case duplicate(EventTrail)
        case stillQuarantined(reason: String)
        /// Somebody else has recorded it or thrown it away.
        case vanished

        var isGone: Bool {
            switch self {
            case .recorded, .duplicate, .vanished: true
            case .stillQuarantined: false
            }
        }

        var word: String {
            switch self {
            case .recorded: "recorded"
            case .duplicate: "duplicate"
            case .stillQuarantined: "kept"
            case .vanished: "vanished"
            }
        }

        var explanation: String {
            switch self {
            case .recorded(let trail, let unmoved):
                ([
                    "\(trail.name) \(trail.event) of \(trail.source)",
                    trail.messages == 1 ? "1 message" : "\(trail.messages) messages",
                    trail.deliveries == 1 ? "1 delivery" : "\(trail.deliveries) deliveries",
                ] + unmoved.map(KeptMove.movedNothing)).joined(separator: ", ")
            case .duplicate(let trail): "\(trail.name) \(trail.event) of \(trail.source) had been recorded before"
            case .stillQuarantined(let reason): reason
            case .vanished: "it is not in quarantine any more"
            }
        }

        /// Keys of purchases that it came too late to move.
        var unmoved: [String] {
            if case .recorded(_, let unmoved) = self { unmoved } else { [] }
        }
    }

    let configuration: Configuration
    let routes: [RoutedIntegration]
    let pool: Pool
    /// Has adopted the sources of the configuration.
    let stores: StoreClients

    /// Makes one, with what it needs of the network, for as long as `body` runs.
    static func with<Value>(
        _ configuration: Configuration, _ pool: Pool, _ body: (QuarantineRetry) async throws -> Value
    ) async throws -> Value {
        let routes = try await NamedIntegrations.read(configuration.integrations, in: pool).routes
        let names = NameResolver()
        let outgoing = OutgoingClients(on: NIOSingletons.posixEventLoopGroup.next(), resolver: names.resolver)
        defer {
            outgoing.close()
            names.close()
        }
        let stores = StoreClients(sendingBy: outgoing) { _ in }
        stores.adoptAPIs(configuration.sources)
        return try await body(
            QuarantineRetry(configuration: configuration, routes: routes, pool: pool, stores: stores))
    }

    /// Retries each by itself, until the connection is lost: it is not known what became of the one under way then.
    func run(_ ids: [Int64]) async -> (results: [Retried], lost: DatabaseError?) {
        var results: [Retried] = []
        for id in ids {
            do throws(DatabaseError) {
                results.append((id, try await readAgain(id)))
            } catch {
                if case .commitUnknown = error { return (results, error) }
                if error.isConnectionLevel { return (results, error) }
                results.append((id, .stillQuarantined(reason: "it could not be recorded: \(error)")))
            }
        }
        return (results, nil)
    }

    func readAgain(_ id: Int64) async throws(DatabaseError) -> Result {
        guard let kept = try await Quarantine.body(id, in: pool) else { return .vanished }
        let row = kept.row
        guard let source = configuration.sources.first(where: { $0.name.utf8.elementsEqual(row.source.utf8) }) else {
            return .stillQuarantined(
                reason: "the configuration has no source \(row.source); restore that name, then try again")
        }
        if let line = ImportLine.setAside(row, kept.body) {
            if let fault = line.fault(at: ThisProcess.now()) { return .stillQuarantined(reason: fault) }
            return try await record(id, line.event, isLine: true)
                ?? .stillQuarantined(reason: "it contradicts what is stored about its purchase")
        }
        // What was answered before may not fit any more what is known of its token: then it is asked about anew, once.
        let answers: [[UInt8]?] = kept.answer == nil ? [nil] : [kept.answer, nil]
        for answer in answers {
            if let result = try await readAgain(kept, answer: answer, of: source) { return result }
        }
        return .stillQuarantined(reason: "other webhooks of its purchase were recorded meanwhile; try again")
    }

    /// - Returns: nil: the answer does not fit any more what is known.
    private func readAgain(
        _ kept: Quarantine.QuarantinedWebhook, answer stored: [UInt8]?, of source: Source
    ) async throws(DatabaseError) -> Result? {
        let adapter = SourceAdapters.adapter(for: source.kind)
        let (id, body) = (kept.row.id, kept.body)
        let event: Event
        do throws(Unreadable) {
            try adapter.requireOwn(body, of: source)
            var answer = stored
            if answer == nil, let enrichment = try adapter.enrichment(of: body, from: source) {
                switch await ask(enrichment, source) {
                case .asIs: break
                case .answered(let given): answer = given
                // It says nothing of the body, whose reason stays.
                case .unavailable(let reason): return .stillQuarantined(reason: reason)
                case .unusable(let reason): throw Unreadable(reason: reason)
                }
            }
            event = try adapter.normalise(
                body, answer: answer, header: { $0 == adapter.idHeader ? kept.eventID : nil }, from: source)
        } catch {
            return try await keep(id, error.reason)
        }
        return try await record(id, event)
    }

    /// - Parameter isLine: it is a line of an import, which its reason alone distinguishes from a webhook: that stays.
    /// - Returns: nil: the event does not fit any more what is known.
    private func record(_ id: Int64, _ event: Event, isLine: Bool = false) async throws(DatabaseError) -> Result? {
        let outcome: Quarantine.Outcome
        do throws(DatabaseError) {
            outcome = try await Quarantine.record(
                id, as: event, routes: routes, rules: SourceRules.byName(configuration), in: pool)
        } catch {
            // Any other error may be gone next time, and says nothing of the body.
            guard error.isDataError, !error.isSequenceBehind else { throw error }
            let reason = "the database cannot store it: \(error)"
            if isLine { return .stillQuarantined(reason: reason) }
            return try await keep(id, reason)
        }
        return switch outcome {
        case .recorded(let trail, let unmoved): .recorded(trail, unmoved: unmoved)
        case .duplicate(let trail): .duplicate(trail)
        case .stillQuarantined(let reason): .stillQuarantined(reason: reason)
        case .outdated: nil
        case .vanished: .vanished
        }
    }

    /// Asks what was not asked when the webhook came.
    private func ask(_ enrichment: Enrichment, _ source: Source) async -> Enricher.Outcome {
        let lookups = Enricher.Lookups(TokenLookup(pool: pool), gate: LookupGate())
        guard let enricher = stores.enricher(for: source, lookups: lookups) else {
            return .unavailable(reason: "the API of its source cannot be asked here")
        }
        return await enricher.run(enrichment)
    }

    /// Leaves a body in quarantine with a new reason.
    private func keep(_ id: Int64, _ reason: String) async throws(DatabaseError) -> Result {
        try await Quarantine.setReason(reason, of: id, in: pool)
        return .stillQuarantined(reason: reason)
    }
}
