import HTTPServer
import Ledger
import Vocabulary

/// The path of a webhook into the ledger: receive → verify → ask → normalise → record, then acknowledge.
///
/// Everything before recording runs on the connection's event loop without waiting, unless the ledger or the source's
/// API is asked about the webhook first; the webhook is acknowledged when the batch with its event has been committed.
/// For the meaning of the answers see Architecture.md, "Acknowledgement".
struct InboundPath: Sendable {
    let source: Source
    let adapter: any SourceAdapter
    /// Looks up what is known of a webhook and asks the source's API; nil: neither.
    var enricher: Enricher?
    let queue: RecordQueue
    let now: @Sendable () -> Timestamp
    let observe: Observer

    private static let outdated = "another webhook of its purchase was recorded meanwhile"
    private static let undecided = "the keys by which its webhooks are verified are not known yet"

    func take(_ request: IncomingRequest, acknowledge: @escaping @Sendable (HTTPAnswer) -> Void) {
        Failpoint.reach(.webhookRead)
        let authenticity = adapter.authenticate(
            header: { request.head.first($0) }, body: request.body, source: source, now: now())
        switch authenticity {
        case .authentic: break
        case .refused(let refusal):
            observe(.refused(source: source.name, status: 401, reason: "\(refusal)"))
            return acknowledge(.unauthentic(refusal))
        case .undecided:
            observe(.refused(source: source.name, status: 503, reason: Self.undecided))
            return acknowledge(.undecided)
        }
        if let answer = adapter.handshake(request.body) { return acknowledge(.json(200, answer)) }
        let enrichment: Enrichment?
        do throws(Unreadable) {
            enrichment = try enricher == nil ? nil : adapter.enrichment(of: request.body, from: source)
        } catch {
            // It cannot be normalised either, which says why.
            enrichment = nil
        }
        guard let enricher, let enrichment else { return record(request, answer: nil, acknowledge: acknowledge) }
        Task {
            switch await enricher.run(enrichment, age: request.age) {
            // The recorder acknowledges one that is stored as it does every duplicate.
            case .asIs: record(request, answer: nil, acknowledge: acknowledge)
            case .answered(let answer): record(request, answer: answer, acknowledge: acknowledge)
            case .unavailable(let reason):
                observe(.refused(source: source.name, status: 503, reason: reason))
                acknowledge(.unasked)
            case .unusable(let reason):
                submit(.quarantine(quarantined(request, reason, answer: nil)), request, acknowledge: acknowledge)
            }
        }
    }

    private func record(
        _ request: IncomingRequest, answer: [UInt8]?, acknowledge: @escaping @Sendable (HTTPAnswer) -> Void
    ) {
        let item: RecordQueue.Item
        do throws(Unreadable) {
            try adapter.requireOwn(request.body, of: source)
            item = .event(
                try adapter.normalise(
                    request.body, answer: answer, header: { request.head.first($0) }, from: source))
        } catch {
            item = .quarantine(quarantined(request, error.reason, answer: answer))
        }
        submit(item, request, acknowledge: acknowledge)
    }

    private func quarantined(_ request: IncomingRequest, _ reason: String, answer: [UInt8]?) -> QuarantinedBody {
        QuarantinedBody(source: source.name, reason: reason, body: request.body, answer: answer)
    }

    private func submit(
        _ item: RecordQueue.Item, _ request: IncomingRequest, acknowledge: @escaping @Sendable (HTTPAnswer) -> Void
    ) {
        let isTaken = queue.submit(item, startedAt: .now - request.age) { [source, observe] answer in
            switch answer {
            case .stored: acknowledge(.stored)
            case .unavailable: acknowledge(.unavailable)
            // Webhooks are never conditional: it is one that presumed something of its token (`Event.tokens`).
            case .refused:
                observe(.refused(source: source.name, status: 503, reason: Self.outdated))
                acknowledge(.unavailable)
            }
        }
        if !isTaken {
            observe(.refused(source: source.name, status: 503, reason: "too many webhooks wait to be stored"))
        }
    }
}
