import HTTPServer
import Ledger
import Spool
import Vocabulary

/// The path of a webhook into the ledger: receive → verify → ask → normalise → record, then acknowledge.
///
/// A webhook of a source that spools, and that the ledger does not take in time, is written to the spool as it came,
/// once it is verified, and acknowledged then. From there it takes the same path again, from `ask` on. Other webhooks
/// do not wait until the spool is empty: event keys and event times make the order of arrival harmless (Domain.md,
/// "Invariants"), and one that the ledger refuses for good must not hold up all that follow. An acknowledgement from
/// the spool says nothing of integrations with `confirm`.
///
/// Everything before recording runs on the connection's event loop without waiting, unless the ledger or the source's
/// API is asked about the webhook first; the webhook is acknowledged when the batch with its event has been committed.
/// For the meaning of the answers see Architecture.md, "Acknowledgement".
///
/// A class, because the completion of each webhook has one, and it has many fields to copy.
final class InboundPath: Sendable {
    let source: Source
    let adapter: any SourceAdapter
    /// Looks up what is known of a webhook and asks the source's API; nil: neither.
    let enricher: Enricher?
    let queue: RecordQueue
    /// Keeps webhooks that the ledger does not take in time; nil: they are answered 503.
    let spooling: SpoolFallback?
    let now: @Sendable () -> Timestamp
    let observe: Observer

    init(
        source: Source, adapter: any SourceAdapter, enricher: Enricher? = nil, queue: RecordQueue,
        spooling: SpoolFallback? = nil, now: @escaping @Sendable () -> Timestamp, observe: @escaping Observer
    ) {
        self.source = source
        self.adapter = adapter
        self.enricher = enricher
        self.queue = queue
        self.spooling = spooling
        self.now = now
        self.observe = observe
    }

    private static let outdated = "another webhook of its purchase was recorded meanwhile"
    private static let unverifiable = "the key by which it is verified is not known yet"
    private static let unknownKey = "its token names a key that is not known, and the keys are being fetched again"

    func receive(_ request: IncomingRequest, acknowledge: @escaping @Sendable (HTTPAnswer) -> Void) {
        Failpoint.reach(.webhookRead)
        let time = now()
        let authenticity = adapter.authenticate(
            header: { request.head.first($0) }, body: request.body, source: source, now: time)
        switch authenticity {
        case .authentic: break
        case .refused(let refusal):
            observe(.refused(source: source.name, status: 401, reason: "\(refusal)"))
            return acknowledge(.unauthentic(refusal))
        case .unverifiable:
            observe(.refused(source: source.name, status: 503, reason: Self.unverifiable))
            return acknowledge(.unverifiable)
        case .unknownKey:
            observe(.unverified(source: source.name, reason: Self.unknownKey))
            return acknowledge(.unverifiable)
        }
        if let answer = adapter.handshake(request.body) { return acknowledge(.json(200, answer)) }
        let webhook = Authentic(
            body: request.body, header: { request.head.first($0) }, startedAt: .now - request.age)
        guard let spooling, let spool = spooling.spool else {
            return pass(webhook, to: Submitter(answer: acknowledge))
        }
        let keep = keeper(of: request, at: time, in: spool, acknowledge)
        if let problem = spooling.problem { return keep(problem) }
        let ticket = spooling.watch(until: webhook.startedAt + Limits.spoolTimeout, keep)
        let fallback = RecordQueue.Fallback(
            committed: { spooling.committed(ticket) },
            unavailable: { reason in if spooling.remove(ticket) { keep(reason) } })
        pass(webhook, to: Submitter(answer: acknowledge, fallback: fallback, ticket: ticket))
    }

    /// Records a webhook from the spool, which was authentic. It is read by the rules of today.
    /// - Parameter done: called once: whether it is committed.
    func record(_ spooled: SpooledWebhook, done: @escaping @Sendable (Bool) -> Void) {
        let fallback = RecordQueue.Fallback(
            committed: { [spooling] in
                spooling?.committed(nil)
                done(true)
            }, unavailable: { _ in done(false) })
        let webhook = Authentic(body: spooled.body, header: { spooled.header($0) }, startedAt: .now)
        pass(webhook, to: Submitter(answer: { _ in }, fallback: fallback))
    }

    /// Writes a webhook into the spool and answers it.
    private func keeper(
        of request: IncomingRequest, at time: Timestamp, in spool: Spool,
        _ acknowledge: @escaping @Sendable (HTTPAnswer) -> Void
    ) -> @Sendable (_ cause: String) -> Void {
        { [self] cause in
            let id = adapter.idHeader.flatMap { name in
                request.head.first(name).map { SpooledWebhook.Header(name: name, value: $0) }
            }
            let webhook = SpooledWebhook(
                source: source.name, receivedAt: time, headers: id.map { [$0] } ?? [], body: request.body)
            spool.write(webhook, because: cause) { [self] answer in
                switch answer {
                case .written: acknowledge(.stored)
                case .refused(let reason):
                    observeRefusal(reason, age: request.age)
                    acknowledge(.unavailable)
                }
            }
        }
    }

    // MARK: To the ledger

    private struct Authentic: Sendable {
        let body: [UInt8]
        let header: @Sendable (String) -> String?
        /// When the first byte of its request arrived, or it was taken from the spool.
        let startedAt: ContinuousClock.Instant

        var age: Duration { .now - startedAt }
    }

    private struct Submitter: Sendable {
        let answer: @Sendable (HTTPAnswer) -> Void
        var fallback: RecordQueue.Fallback?
        /// Stands for it with `spooling`.
        var ticket: UInt64?
    }

    private func pass(_ webhook: Authentic, to submitter: Submitter) {
        let enrichment: Enrichment?
        do throws(Unreadable) {
            enrichment = try enricher == nil ? nil : adapter.enrichment(of: webhook.body, from: source)
        } catch {
            // It cannot be normalised either, which says why.
            enrichment = nil
        }
        guard let enricher, let enrichment else { return record(webhook, document: nil, submitter) }
        Task {
            switch await enricher.run(enrichment, age: webhook.age) {
            // The recorder acknowledges one that is stored as it does every duplicate.
            case .asIs: record(webhook, document: nil, submitter)
            case .answered(let document): record(webhook, document: document, submitter)
            case .unavailable(let reason): refuse(reason, .storeUnavailable, webhook, submitter)
            case .unusable(let reason):
                submit(.quarantine(quarantined(webhook, reason, document: nil)), webhook, submitter)
            }
        }
    }

    /// - Parameter document: what the source's API answered about the webhook; nil: nothing was asked.
    private func record(_ webhook: Authentic, document: [UInt8]?, _ submitter: Submitter) {
        let item: RecordQueue.Item
        do throws(Unreadable) {
            try adapter.requireOwn(webhook.body, of: source)
            item = .event(
                try adapter.normalise(webhook.body, answer: document, header: webhook.header, from: source))
        } catch {
            item = .quarantine(quarantined(webhook, error.reason, document: document))
        }
        submit(item, webhook, submitter)
    }

    private func quarantined(_ webhook: Authentic, _ reason: String, document: [UInt8]?) -> QuarantinedBody {
        QuarantinedBody(
            source: source.name, reason: reason, body: webhook.body, answer: document,
            eventID: adapter.eventID(header: webhook.header))
    }

    private func submit(_ item: RecordQueue.Item, _ webhook: Authentic, _ submitter: Submitter) {
        if let ticket = submitter.ticket { spooling?.given(ticket) }
        let problem = queue.submit(item, startedAt: webhook.startedAt, fallback: submitter.fallback) { [self] answer in
            switch answer {
            case .stored: submitter.answer(.stored)
            case .unavailable: submitter.answer(.unavailable)
            // Webhooks are never conditional: it is one that presumed something of its token (`Event.tokens`).
            case .conditionFailed: refuse(Self.outdated, .unavailable, webhook, submitter)
            }
        }
        if let problem, submitter.fallback == nil { observeRefusal(problem, age: webhook.age) }
    }

    private func refuse(_ reason: String, _ answer: HTTPAnswer, _ webhook: Authentic, _ submitter: Submitter) {
        if let fallback = submitter.fallback { return fallback.unavailable(reason) }
        observeRefusal(reason, age: webhook.age)
        submitter.answer(answer)
    }

    /// One that is too old was answered by the server, and reported (`Ingest.rejected`).
    private func observeRefusal(_ reason: String, age: Duration) {
        guard age < Limits.acknowledgementTimeout else { return }
        observe(.refused(source: source.name, status: 503, reason: reason))
    }
}
