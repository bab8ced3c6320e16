package import Ledger
package import NIOCore
import NIOPosix
import Synchronization
package import Vocabulary

/// All lanes of this daemon, and the clockwork around them: keep the lease, poll for what is due, follow pauses,
/// settle, sweep. It holds no truth; killing it at any point loses nothing.
package final class Dispatcher: Sendable {
    private struct BoundLane: Sendable {
        let route: RoutedIntegration
        let loop: any EventLoop
        let lane: NIOLoopBound<Lane>
    }

    private let queue: Queue
    private let handOver: HandOver
    private let registration: Registration
    private let clock: DatabaseClock
    private let place: String
    private let isAlive: Queue.IsAlive
    private let sources: [String: SourceSigning]
    private let version: String
    private let group: any EventLoopGroup
    private let observe: Observer
    package let settlements = SettlementBuffer()
    private let lanes = Mutex<[Int32: BoundLane]>([:])

    package init(
        queue: Queue, handOver: HandOver, registration: Registration, clock: DatabaseClock, place: String,
        isAlive: @escaping Queue.IsAlive, sources: [String: SourceSigning], version: String,
        group: any EventLoopGroup, observe: @escaping Observer
    ) {
        self.queue = queue
        self.handOver = handOver
        self.registration = registration
        self.clock = clock
        self.place = place
        self.isAlive = isAlive
        self.sources = sources
        self.version = version
        self.group = group
        self.observe = observe
    }

    // MARK: Lanes

    /// Makes a lane for each route; nothing is sent before `run`.
    package func prepare(_ routes: [RoutedIntegration], resolver: AddressResolver) async throws {
        let system =
            try routes.contains { $0.integration.certificateAuthorityFile == nil && $0.integration.url.isTLS }
            ? EndpointTrust.system() : nil
        for route in routes {
            let integration = route.integration
            let trust: EndpointTrust
            if let file = integration.certificateAuthorityFile {
                trust = try EndpointTrust.authorities(file: file)
            } else if let system {
                trust = system
            } else {
                trust = try EndpointTrust.nobody()
            }
            let head = try RequestHead(
                endpoint: integration.url, userAgent: "posthouse/\(version)", headers: integration.headers)
            let loop = group.next()
            let bound = try await loop.submit { [self] in
                NIOLoopBound(
                    lane(for: route, head: head, trust: trust, resolver: resolver, loop: loop), eventLoop: loop)
            }.get()
            lanes.withLock { $0[route.row] = BoundLane(route: route, loop: loop, lane: bound) }
        }
    }

    private func lane(
        for route: RoutedIntegration, head: RequestHead, trust: EndpointTrust, resolver: AddressResolver,
        loop: any EventLoop
    ) -> Lane {
        let client = EndpointClient(
            endpoint: route.integration.url, requestHead: head,
            allowsPrivateAddresses: route.integration.allowsPrivateAddresses, trust: trust, resolver: resolver,
            connectionsMax: route.integration.concurrency, eventLoop: loop)
        let path = OutboundPath(
            route: route, client: client, signer: StandardWebhooksSigner(keys: route.integration.signingKeys),
            sources: sources, clock: clock, settlements: settlements, observe: observe)
        return Lane(
            route: route, path: path, queue: queue, handOver: handOver, registration: registration, loop: loop)
    }

    private func forEachLane(_ rows: Set<Int32>? = nil, _ body: @escaping @Sendable (Lane) -> Void) {
        for bound in lanes.withLock({ Array($0.values) }) where rows?.contains(bound.route.row) ?? true {
            bound.loop.execute { body(bound.lane.value) }
        }
    }

    // MARK: Clockwork

    /// Delivers until the task is cancelled; `drain` then ends what is under way.
    package func run() async {
        await poll()
        await withTaskGroup { group in
            group.addTask {
                // After a failure it is tried again with each poll: nothing is sent before the lease is renewed.
                var isRenewed = true
                while (try? await Task.sleep(for: isRenewed ? Limits.leaseRenewal : Limits.pollInterval)) != nil {
                    isRenewed = await self.keepAlive()
                }
            }
            group.addTask { await self.every(Limits.pollInterval) { await self.poll() } }
            group.addTask { await self.sweep() }
        }
    }

    /// Writes what has ended; returns after `drain`.
    package func runSettling() async {
        await settlements.run(
            settle: { [queue] batch in
                do {
                    return try await queue.settle(batch)
                } catch {
                    queue.report(error, doing: "settling \(batch.count) deliveries")
                    throw error
                }
            },
            settled: { [self] settled in
                for (row, reason) in settled.paused { pause(row, reason: reason) }
                let refused = handOver.hand(settled.released)
                await attempt("giving deliveries back") { try await queue.release(refused) }
            })
    }

    /// A hint that something is due, from another daemon or command.
    package func wakeUp() async { await poll() }

    private func every(_ interval: Duration, _ body: () async -> Void) async {
        while !Task.isCancelled {
            // Throws only when cancelled: the loop ends.
            guard (try? await Task.sleep(for: interval)) != nil else { return }
            await body()
        }
    }

    /// Runs one piece of the clockwork; a failure is told and the next round tries again.
    @discardableResult
    private func attempt<Value: Sendable>(_ what: String, _ body: () async throws -> Value) async -> Value? {
        do {
            return try await body()
        } catch {
            if !Task.isCancelled { queue.report(error, doing: what) }
            return nil
        }
    }

    /// False: the database is out of reach. The lease runs on by this machine's clock, and lanes stop by themselves
    /// before it ends.
    private func keepAlive() async -> Bool {
        await attempt("renewing the lease") { [self] in
            try await queue.keepAlive(place: place, forget: { await self.forget() }, isAlive: isAlive)
        } != nil
    }

    /// Looks for leaks now and then, and with the next poll where a commit is in doubt.
    private func sweep() async {
        var suspects: Set<Int64> = []
        var sweptAt = ContinuousClock.now
        await every(Limits.pollInterval) {
            let isDue = ContinuousClock.now - sweptAt >= Limits.sweepInterval
            guard handOver.takeSweepWanted() || isDue else { return }
            sweptAt = .now
            let found = await attempt("sweeping") { [queue, suspects] in try await queue.sweep(suspects: suspects) }
            if found == nil { handOver.wantSweeps() }
            suspects = found ?? []
        }
    }

    /// Returns when no lane holds anything that waits.
    private func forget() async {
        for bound in lanes.withLock({ Array($0.values) }) {
            // Fails only if the loop is shut down, and then nothing waits.
            try? await bound.loop.submit { bound.lane.value.forget() }.get()
        }
    }

    /// Follows pauses, and wakes the lanes that have something due.
    private func poll() async {
        let bound = lanes.withLock { Array($0.values) }
        guard let pauses = await attempt("polling", { try await queue.pauses() }) else { return }
        for lane in bound {
            let isPaused = pauses[lane.route.row] != nil
            lane.loop.execute { [observe] in
                if isPaused, lane.lane.value.isRunning {
                    lane.lane.value.close()
                } else if !isPaused, !lane.lane.value.isRunning {
                    if lane.lane.value.wasPaused {
                        observe(.integrationResumed(integration: lane.route.integration.name))
                    }
                    lane.lane.value.open()
                }
            }
        }
        let rows = bound.map(\.route.row).filter { pauses[$0] == nil }
        guard let due = await attempt("polling", { try await queue.lanesWithDue(rows) }) else { return }
        forEachLane { lane in
            if due.contains(lane.route.row) { lane.expectBacklog() } else { lane.pump() }
        }
    }

    private func pause(_ row: Int32, reason: String) {
        guard let bound = lanes.withLock({ $0[row] }) else { return }
        observe(.integrationPaused(integration: bound.route.integration.name, reason: reason))
        bound.loop.execute { bound.lane.value.close() }
    }

    // MARK: Stopping

    /// Starts nothing more, lets what is under way end, settles it, gives every lease back. Call after `run` was
    /// cancelled; `runSettling` ends by it.
    ///
    /// - Returns: the attempts that were cut at the deadline; they will be made again.
    package func drain(upTo limit: Duration) async -> Int {
        let bound = lanes.withLock { Array($0.values) }
        let cut = await withTaskGroup { group in
            for lane in bound {
                group.addTask { await Self.drain(lane, upTo: limit) }
            }
            return await group.reduce(0, +)
        }
        settlements.close()
        return cut
    }

    private static func drain(_ bound: BoundLane, upTo limit: Duration) async -> Int {
        let (loop, lane) = (bound.loop, bound.lane)
        let deadline = loop.scheduleTask(in: TimeAmount(limit)) {
            defer { lane.value.cancel() }
            return lane.value.underWay
        }
        try? await loop.flatSubmit { lane.value.drain() }.get()
        deadline.cancel()
        loop.execute { lane.value.closeClient() }
        // Cancelled in time: nothing was cut. A cancelled task fails its future.
        return (try? await deadline.futureResult.get()) ?? 0
    }
}
