package import Ledger
internal import Vocabulary

/// Asks a store's API about webhooks before they are recorded. `Enrichment` says what to ask and to look up;
/// this does it, within the time of the acknowledgement.
package struct Enricher: Sendable {
    /// What the ledger knows; tests give their own.
    package struct Lookups: Sendable {
        let event: @Sendable (TokenLookup.Subject) async throws -> TokenLookup.Answer
        let token: @Sendable (_ token: Identifier, _ source: String) async throws -> KnownToken?
        /// Of all sources that have these look-ups, and of the API.
        let gate: LookupGate

        init(
            event: @escaping @Sendable (TokenLookup.Subject) async throws -> TokenLookup.Answer,
            token: @escaping @Sendable (_ token: Identifier, _ source: String) async throws -> KnownToken?,
            gate: LookupGate = LookupGate()
        ) {
            self.event = event
            self.token = token
            self.gate = gate
        }

        /// For a daemon that has not reached its database yet.
        package static let unreachable = Lookups(
            event: { _ in throw DatabaseIsAway() }, token: { _, _ in throw DatabaseIsAway() })

        private struct DatabaseIsAway: Error, CustomStringConvertible {
            var description: String { "the database is out of reach" }
        }

        /// - Parameter gate: that of the pool of `lookup`.
        package init(_ lookup: TokenLookup, gate: LookupGate) {
            self.init(
                event: { try await lookup.find($0) }, token: { try await lookup.find($0, of: $1) }, gate: gate)
        }
    }

    package enum Outcome: Sendable, Hashable {
        /// Record it as it came: it is stored already, or there is nothing to ask and nothing known of its token.
        case asIs
        /// Record it with this answer.
        case answered([UInt8])
        /// Record nothing. The reason is for the journal.
        case unavailable(reason: String)
        /// Quarantine it. The reason is for a person.
        case unusable(reason: String)
    }

    private let source: String
    /// Nil: the source has no API, and only the ledger is asked.
    private let client: StoreAPIClient?
    private let lookups: Lookups
    private let clock: StoreRequestClock

    init(source: String, client: StoreAPIClient?, lookups: Lookups, clock: StoreRequestClock) {
        self.source = source
        self.client = client
        self.lookups = lookups
        self.clock = clock
    }

    /// - Parameters:
    ///   - enrichment: of the webhook, not begun yet.
    ///   - age: of the webhook's request.
    package func run(_ enrichment: Enrichment, age: Duration = .zero) async -> Outcome {
        let end = clock.elapsed() + StoreRequestLimits.askingTimeout - age
        do {
            return try await run(enrichment, until: end)
        } catch {
            return .unavailable(reason: "what is known of its purchase could not be looked up: \(error)")
        }
    }

    private func run(_ enrichment: Enrichment, until end: Duration) async throws -> Outcome {
        var enrichment = enrichment
        let subject = TokenLookup.Subject(
            source: source, eventID: enrichment.messageID, occurredAt: enrichment.occurredAt,
            token: enrichment.token.id)
        let known = try await lookUp(alwaysWaits: false, until: end) { try await lookups.event(subject) }
        if known.isRecorded { return .asIs }
        if let client, !client.begin() { return .unavailable(reason: "too many webhooks wait for the API") }
        defer { client?.end() }
        var step = enrichment.start(known: known.known, askedAt: known.now)
        while true {
            switch step {
            case .ask(let question):
                let left = end - clock.elapsed()
                guard let client, left > .zero else { return .unavailable(reason: "the API did not answer in time") }
                switch await client.ask(
                    question.target(package: enrichment.packageName), about: enrichment.packageName, timeout: left)
                {
                case .answered(let status, let body): step = enrichment.answered(status: status, body: body)
                case .failed(let reason): return .unavailable(reason: reason)
                }
            case .lookUp(let token):
                let row = try await lookUp(alwaysWaits: true, until: end) {
                    try await lookups.token(token.id, source)
                }
                step = enrichment.found(row)
            case .done(let answer): return .answered(answer)
            case .asIs: return .asIs
            case .cannotSay(let reason): return .unavailable(reason: reason)
            case .unusable(let reason): return .unusable(reason: reason)
            }
        }
    }

    /// Waits for a turn at the gate, then runs `body`.
    /// - Parameters:
    ///   - alwaysWaits: it waits however many others do: it follows an answer of the API, and
    ///     `StoreRequestLimits.eventsMax` bounds the number of these for each source. A webhook's first look-up is
    ///     refused if too many wait.
    ///   - end: a turn that comes later is not taken.
    /// - Throws: `LookupGate.Refusal`, or what `body` throws.
    private func lookUp<Value: Sendable>(
        alwaysWaits: Bool, until end: Duration, _ body: () async throws -> Value
    ) async throws -> Value {
        let isLate = { @Sendable [clock] in clock.elapsed() >= end }
        if let refusal = await lookups.gate.enter(.webhook, alwaysWaits: alwaysWaits, isLate: isLate) { throw refusal }
        defer { lookups.gate.leave(.webhook) }
        return try await body()
    }
}
