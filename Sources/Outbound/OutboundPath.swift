import HTTPClient
import Ledger
import NIOCore
import Vocabulary

/// Takes one delivery from its lane to the ledger: request → sign → deliver → decide → settle.
///
/// It runs on the lane's event loop. It neither claims nor writes: the delivery that it is given is leased already, and
/// the result goes into the settlement buffer.
///
/// A class, because the completion of each attempt has one, and it has many fields to copy.
final class OutboundPath {
    let route: RoutedIntegration
    let client: EndpointClient
    let head: RequestHead
    let signer: StandardWebhooksSigner
    /// For `format = "source"`.
    let sources: SourceSignings
    let clock: DatabaseClock
    let settlements: SettlementBuffer
    let confirmations: Confirmations
    let observe: Observer

    init(
        route: RoutedIntegration, client: EndpointClient, head: RequestHead, signer: StandardWebhooksSigner,
        sources: SourceSignings, clock: DatabaseClock, settlements: SettlementBuffer, confirmations: Confirmations,
        observe: @escaping Observer
    ) {
        self.route = route
        self.client = client
        self.head = head
        self.signer = signer
        self.sources = sources
        self.clock = clock
        self.settlements = settlements
        self.confirmations = confirmations
        self.observe = observe
    }

    /// How an attempt ended, as its lane sees it.
    enum End {
        case settled(EndpointHealth)
        /// This daemon cut the attempt off; nothing was settled.
        case cut
    }

    /// Makes one attempt. `completion` is called once, on the loop.
    /// - Parameters:
    ///   - isProbe: the attempt is the probe of an open breaker.
    ///   - isOutdated: whether the lane was replaced, removed or opened anew by now; called when the attempt has ended.
    func deliver(
        _ delivery: Delivery, isProbe: Bool, isOutdated: @escaping () -> Bool, completion: @escaping (End) -> Void
    ) {
        let message = delivery.message
        let source = route.integration.format == .source ? sources.current[message.source] : nil
        let request: EndpointRequest
        do throws(SigningFailure) {
            request = try EndpointRequest(
                carrying: message, to: route.integration, head: head, signer: signer, source: source,
                unixSeconds: WallClock.unixSeconds)
        } catch {
            return client.eventLoop.assumeIsolated().execute { [self] in
                settle(
                    delivery, .failure(.unsendable(error.explanation)), isProbe: isProbe, isOutdated: isOutdated(),
                    latencyMilliseconds: 0)
                completion(.settled(.none))
            }
        }
        Failpoint.reach(.deliveryBeforeRequest)
        let startedAt = NIODeadline.now()
        client.send(request) { [self] result in
            if case .failure(.cancelled) = result { return completion(.cut) }
            Failpoint.reach(.deliveryAfterAnswer)
            let latency = Int((NIODeadline.now() - startedAt).nanoseconds / 1_000_000)
            settle(delivery, result, isProbe: isProbe, isOutdated: isOutdated(), latencyMilliseconds: latency)
            completion(.settled(EndpointHealth(result)))
        }
    }

    private func settle(
        _ delivery: Delivery, _ result: Result<EndpointAnswer, RequestFailure>, isProbe: Bool, isOutdated: Bool,
        latencyMilliseconds: Int
    ) {
        // The clock was read when the daemon registered; without that nothing could have been leased.
        let now = clock.now ?? delivery.createdAt
        let decision = DeliveryDecision.decide(
            result, isProbe: isProbe, isOutdated: isOutdated, attempt: delivery.attemptsMade + 1,
            schedule: route.integration.schedule, permanentStatuses: route.integration.permanentStatuses,
            createdAt: delivery.createdAt, now: now, random: .random(in: 0...1))
        let status = (try? result.get())?.status
        let verdict = decision.verdict(now: now)
        let failure = decision.failure
        // Before it is written: an acknowledgement that waits for the receiver waits for nothing else.
        if verdict.isFinal { confirmations.settled(delivery.id) }
        settlements.append(
            Settlement(
                delivery: delivery, verdict: verdict, httpStatus: status, latencyMilliseconds: latencyMilliseconds,
                failure: failure.map { DeliveryDecision.withExcerpt($0, of: result) }))
        observe(
            .attempt(
                AttemptTrail(
                    integration: route.integration.name, delivery: delivery.id, message: delivery.message.trail,
                    attempt: delivery.attemptsMade + 1, outcome: verdict.outcome, httpStatus: status,
                    latencyMilliseconds: latencyMilliseconds, nextAttemptAt: decision.nextAttemptAt, failure: failure)))
    }
}
