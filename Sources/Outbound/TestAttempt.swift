package import HTTPClient
package import NIOCore
package import Vocabulary

/// One message to one integration, past its queue and its breaker: sent as a delivery is, by the same client and in the
/// same request. Nothing is leased, settled or tried again.
package struct TestAttempt: Sendable {
    package let result: Result<EndpointAnswer, RequestFailure>
    /// From the request to its answer or failure.
    package let latencyMilliseconds: Int

    /// Sends `message` once; takes `timeout` of the integration at most.
    /// - Parameter plan: of this integration.
    package static func make(
        _ message: Message, to integration: Integration, by plan: LanePlan, resolver: AddressResolver,
        on loop: any EventLoop
    ) async -> TestAttempt {
        let promise = loop.makePromise(of: TestAttempt.self)
        loop.execute {
            let request: EndpointRequest
            do throws(SigningFailure) {
                request = try EndpointRequest(
                    carrying: message, to: integration, head: plan.head, signer: plan.signer, source: nil,
                    unixSeconds: WallClock.unixSeconds)
            } catch {
                return promise.succeed(
                    TestAttempt(result: .failure(.unsendable(error.explanation)), latencyMilliseconds: 0))
            }
            let client = plan.client(of: integration, connectionsMax: 1, resolver: resolver, loop: loop)
            let startedAt = NIODeadline.now()
            client.send(request) { result in
                let latency = Int((NIODeadline.now() - startedAt).nanoseconds / 1_000_000)
                client.close()
                promise.succeed(TestAttempt(result: result, latencyMilliseconds: latency))
            }
        }
        // Fails only if the loop is shut down.
        return (try? await promise.futureResult.get())
            ?? TestAttempt(result: .failure(.cancelled), latencyMilliseconds: 0)
    }

    /// What would follow from it as the first attempt of a delivery; a next attempt is placed without jitter.
    package func decision(for integration: Integration, now: Timestamp) -> DeliveryDecision {
        DeliveryDecision.decide(
            result, isProbe: false, isOutdated: false, attempt: 1, schedule: integration.schedule,
            permanentStatuses: integration.permanentStatuses, createdAt: now, now: now, random: 0.5)
    }
}
