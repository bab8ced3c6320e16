import Ledger
import NIOCore
package import Vocabulary

/// The way of one delivery from its lane to the ledger: request → sign → deliver → decide → settle.
///
/// It runs on the lane's event loop. It neither claims nor writes: what it is given is leased, and its end goes into
/// the settlement buffer.
struct OutboundPath {
    let route: RoutedIntegration
    let client: EndpointClient
    let signer: StandardWebhooksSigner
    /// The shape and first secret of each source, by name: for `format = "source"`.
    let sources: [String: SourceSigning]
    let clock: DatabaseClock
    let settlements: SettlementBuffer
    let observe: Observer

    /// `completion` is called once, on the loop; false: the attempt was given up by this daemon and nothing was
    /// settled.
    func deliver(_ delivery: Delivery, completion: @escaping (Bool) -> Void) {
        let message = delivery.message
        let unixSeconds = WallClock.unixSeconds
        let body = body(of: message)
        var headers = signer.headers(id: message.id, unixSeconds: unixSeconds, body: body)
        if route.integration.format == .source, let source = sources[message.source] {
            // A source that signs after Standard Webhooks, too, has the same names: the receiver's secret is ours.
            headers += source.headers(body: message.derivedBody ?? message.original, unixSeconds: unixSeconds)
                .filter { header in !headers.contains { $0.0.lowercased() == header.0.lowercased() } }
        }
        let startedAt = NIODeadline.now()
        client.send(headers: headers, body: body, timeout: TimeAmount(route.integration.timeout)) { result in
            if case .failure(.cancelled) = result { return completion(false) }
            let latency = Int((NIODeadline.now() - startedAt).nanoseconds / 1_000_000)
            settle(delivery, result, latencyMilliseconds: latency)
            completion(true)
        }
    }

    private func body(of message: Message) -> [ByteBuffer] {
        switch route.integration.format {
        case .standard:
            [
                ByteBuffer(bytes: message.envelope), ByteBuffer(bytes: message.original),
                ByteBuffer(bytes: Message.envelopeEnd),
            ]
        case .source: [ByteBuffer(bytes: message.derivedBody ?? message.original)]
        }
    }

    private func settle(
        _ delivery: Delivery, _ result: Result<EndpointAnswer, DeliveryFailure>, latencyMilliseconds: Int
    ) {
        // The clock was read when the daemon registered; without that nothing could have been leased.
        let now = clock.now ?? delivery.createdAt
        let decision = DeliveryDecision.decide(
            result, attempt: delivery.attemptsMade + 1, schedule: route.integration.schedule,
            permanentStatuses: route.integration.permanentStatuses, createdAt: delivery.createdAt, now: now,
            random: .random(in: 0...1))
        let status = (try? result.get())?.status
        var nextAttemptAt: Timestamp?
        let verdict: Settlement.Verdict
        let failure: String?
        switch decision {
        case .accepted: (verdict, failure) = (.accepted, nil)
        case .retry(let at, let reason):
            nextAttemptAt = at
            (verdict, failure) = (.retry(after: .milliseconds(at.milliseconds - now.milliseconds)), reason)
        case .dead(let death): (verdict, failure) = (.dead(reason: death.explanation), death.explanation)
        case .pauseIntegration(let reason): (verdict, failure) = (.paused(reason: reason), reason)
        }
        settlements.append(
            Settlement(
                delivery: delivery, verdict: verdict, httpStatus: status, latencyMilliseconds: latencyMilliseconds,
                failure: failure.map { withExcerpt($0, of: result) }))
        let message = delivery.message
        observe(
            .attempt(
                AttemptTrail(
                    integration: route.integration.name, delivery: delivery.id, message: message.id,
                    type: message.type, source: message.source, event: message.eventID,
                    transaction: message.transaction, purchase: message.purchaseKey, transfer: message.transferID,
                    attempt: delivery.attemptsMade + 1, outcome: verdict.outcome, httpStatus: status,
                    latencyMilliseconds: latencyMilliseconds, nextAttemptAt: nextAttemptAt, failure: failure)))
    }

    /// What the receiver said goes into the ledger, not into the journal: it may quote what it was sent.
    private func withExcerpt(_ failure: String, of result: Result<EndpointAnswer, DeliveryFailure>) -> String {
        guard case .success(let answer) = result, !answer.excerpt.isEmpty else { return failure }
        // PostgreSQL keeps no NUL in text.
        let text = String(decoding: answer.excerpt.filter { $0 != 0 }, as: UTF8.self)
        return "\(failure): \(text)"
    }
}

/// How a source signs, for `format = "source"`.
package struct SourceSigning: Sendable {
    private let shape: any SourceShape
    private let authentication: Source.Authentication
    private let secret: Secret?

    /// `secret` is the source's first; nil: it has none and nothing is added.
    package init(shape: any SourceShape, authentication: Source.Authentication, secret: Secret?) {
        self.shape = shape
        self.authentication = authentication
        self.secret = secret
    }

    func headers(body: [UInt8], unixSeconds: Int64) -> [(String, String)] {
        guard let secret else { return [] }
        return shape.signatureHeaders(
            body: body, unixSeconds: unixSeconds, authentication: authentication, secret: secret
        ).map { ($0.name, $0.value) }
    }
}
