package import HTTPClient
package import Ledger
package import NIOCore
package import Vocabulary

/// All lanes of this daemon and their background tasks: renew the lease, poll for what is due, apply pauses, settle,
/// sweep. Nothing is held here alone: killing the daemon at any point loses nothing.
package final class Dispatcher: Sendable {
    private let queue: Queue
    private let dispatchBuffer: DispatchBuffer
    private let registration: Registration
    private let clock: DatabaseClock
    private let sources: SourceSignings
    private let group: any EventLoopGroup
    private let observe: Observer
    package let settlements = SettlementBuffer()
    private let lanes = Lanes()
    private let calls = LaneCallLimit()
    private let (ends, end) = AsyncStream<String>.makeStream(bufferingPolicy: .bufferingNewest(1))

    /// Why this daemon must end and be started anew, should it come to that.
    package var reasonsToEnd: AsyncStream<String> { ends }

    package init(
        queue: Queue, dispatchBuffer: DispatchBuffer, registration: Registration, clock: DatabaseClock,
        sources: SourceSignings, group: any EventLoopGroup, observe: @escaping Observer
    ) {
        self.queue = queue
        self.dispatchBuffer = dispatchBuffer
        self.registration = registration
        self.clock = clock
        self.sources = sources
        self.group = group
        self.observe = observe
    }

    // MARK: Lanes

    /// Makes these the lanes that run; nothing is sent before `run`.
    @discardableResult
    package func adopt(_ planned: [PlannedLane], resolver: AddressResolver) async -> LaneChanges {
        await lanes.adopt(planned, on: group) { [self] planned, loop in
            lane(for: planned.route, plan: planned.plan, resolver: resolver, loop: loop)
        }
    }

    private func lane(
        for route: RoutedIntegration, plan: LanePlan, resolver: AddressResolver, loop: any EventLoop
    ) -> Lane {
        let client = plan.client(
            of: route.integration, connectionsMax: route.integration.concurrency, resolver: resolver, loop: loop)
        let path = OutboundPath(
            route: route, client: client, head: plan.head, signer: plan.signer, sources: sources, clock: clock,
            settlements: settlements, confirmations: dispatchBuffer.confirmations, observe: observe)
        return Lane(
            route: route, path: path, queue: queue, dispatchBuffer: dispatchBuffer, registration: registration,
            calls: calls, loop: loop)
    }

    // MARK: Background tasks

    /// Delivers until the task is cancelled; `drain` then ends what is under way.
    package func run() async {
        await poll()
        await withTaskGroup { group in
            group.addTask {
                // After a failure it is tried again at the interval of the polls: nothing is sent once the lease has
                // run out.
                var isRenewed = true
                while (try? await Task.sleep(for: isRenewed ? Limits.leaseRenewal : Limits.pollInterval)) != nil {
                    isRenewed = await self.keepAlive()
                }
            }
            group.addTask { await self.every(Limits.pollInterval) { await self.poll() } }
            group.addTask { await self.every(Limits.leaseRenewal) { await self.keepIntegrations() } }
            group.addTask { await self.sweep() }
            group.addTask { await self.confirm() }
        }
    }

    /// Writes how attempts ended; returns after `drain`.
    package func runSettling() async {
        await settlements.run(
            settle: { [queue] batch throws(SettleFailure) in try await queue.settle(batch) },
            settled: { [self] settled in
                for (row, reason) in settled.paused { pause(row, reason: reason) }
                let refused = dispatchBuffer.passToLanes(settled.unblocked)
                if refused.isEmpty { return }
                await attempt("giving back unblocked deliveries of closed lanes") { try await queue.giveBack(refused) }
            }, report: { [observe] in observe(.warning($0.explanation)) })
    }

    /// Another daemon or a command hints that something is due.
    package func wakeUp() async { await poll() }

    private func every(_ interval: Duration, _ body: () async -> Void) async {
        while !Task.isCancelled {
            // Throws only when cancelled: the loop ends.
            guard (try? await Task.sleep(for: interval)) != nil else { return }
            await body()
        }
    }

    /// Runs one background task; the next round tries again what failed.
    /// - Parameter what: of this task alone, because its failures are counted by it (`Queue.report`).
    @discardableResult
    private func attempt<Value: Sendable>(_ what: String, _ body: () async throws -> Value) async -> Value? {
        do {
            let value = try await body()
            queue.succeeded(what)
            return value
        } catch {
            if !Task.isCancelled { queue.report(error, doing: what) }
            return nil
        }
    }

    /// False: the database is out of reach. The lease then lasts by this machine's clock, and lanes stop by themselves
    /// before it ends.
    private func keepAlive() async -> Bool {
        await attempt(Queue.renewing) { [self] in
            try await queue.keepAlive(forget: { await self.lanes.forget() })
        } != nil
    }

    private func keepIntegrations() async {
        let lost = await attempt("looking for the rows of integrations") { try await queue.keepIntegrations() } ?? []
        if lost.isEmpty { return }
        end.yield(
            """
            in the database integration \(lost.joined(separator: ", ")) has another number than in this daemon, or \
            another integration has its number, as after a restore that loses commits: this daemon ends, to be started \
            anew; posthouse audit shows what was recorded for the number before
            """)
    }

    private static let sweeping = "sweeping"

    /// Looks at the whole queue at the start, now and then, and soon after a lease was ended or the result of a commit
    /// is unknown. The longer a look takes, the less often one comes without a request. One that fails goes on from
    /// where it was.
    private func sweep() async {
        // For what daemons left that died meanwhile.
        dispatchBuffer.requestSweeps()
        var sweep = Sweep()
        var dueAt = ContinuousClock.now
        repeat {
            let began = ContinuousClock.now
            guard dispatchBuffer.takeSweepRequest() || began >= dueAt else { continue }
            dueAt = began + Limits.sweepInterval
            do {
                // What is left of a look that failed, and then a whole one.
                for _ in 0..<(sweep.isMidway ? 2 : 1) {
                    while !Task.isCancelled, try await !queue.look(&sweep) {}
                }
                queue.succeeded(Self.sweeping)
                dueAt = .now + max(Limits.sweepInterval, (.now - began) * Limits.sweepRestFactor)
                // What it has reclaimed or unblocked is due.
                await poll()
            } catch {
                if !Task.isCancelled { queue.report(error, doing: Self.sweeping, logsTimeouts: true) }
            }
        } while (try? await Task.sleep(for: Limits.pollInterval)) != nil
    }

    /// Releases acknowledgements that wait for an integration.
    private func confirm() async {
        await dispatchBuffer.confirmations.run { [self] waiting in
            await attempt("reading deliveries settled by other daemons") { try await queue.unsettled(waiting) }
        }
    }

    /// Ends leases that have run out, applies pauses, and wakes the lanes that have something due.
    private func poll() async {
        await attempt("taking over deliveries of expired leases") { try await queue.expireLeases() }
        let running = lanes.all
        let readAt = NIODeadline.now()
        guard let pauses = await attempt("reading pauses", { try await queue.pauses() }),
            let breakers = await attempt("reading open breakers", { try await queue.readBreakers() })
        else { return }
        for bound in running {
            let pause = pauses[bound.route.row]
            let breaker = breakers[bound.route.row].map(SharedBreaker.init)
            bound.loop.execute { [observe] in
                let lane = bound.lane.value
                lane.apply(breaker, readAt: readAt)
                if let pause {
                    Self.pause(lane, reason: pause, beganNow: false, observe)
                } else if lane.mayOpen(readAt: readAt) {
                    if lane.pauseReason != nil {
                        observe(.integrationResumed(integration: lane.route.integration.name))
                    }
                    lane.open()
                }
            }
        }
        let rows = running.map(\.route.row).filter { pauses[$0] == nil }
        guard let due = await attempt("reading due deliveries", { try await queue.lanesWithDue(rows) })
        else { return }
        lanes.forEach { lane in
            if due.contains(lane.route.row) { lane.expectBacklog() } else { lane.pump() }
        }
    }

    private func pause(_ row: Int32, reason: String) {
        guard let bound = lanes[row] else { return }
        bound.loop.execute { [observe] in Self.pause(bound.lane.value, reason: reason, beganNow: true, observe) }
    }

    /// Logs it once for each lane, whoever paused the integration and whether the poll or an answer finds it first.
    private static func pause(_ lane: Lane, reason: String, beganNow: Bool, _ observe: Observer) {
        guard lane.pause(reason, beganNow: beganNow) else { return }
        observe(.integrationPaused(integration: lane.route.integration.name, reason: reason))
    }

    // MARK: Stopping

    /// Starts no more attempts, finishes and settles those under way, and gives every lease back. Call it after `run`
    /// was cancelled; it makes `runSettling` end.
    ///
    /// - Returns: the number of attempts that were cut at the deadline; they will be made again.
    package func drain(upTo limit: Duration) async -> Int {
        let cut = await lanes.drain(upTo: limit)
        settlements.close()
        return cut
    }
}
