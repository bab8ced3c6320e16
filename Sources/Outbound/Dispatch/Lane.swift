import HTTPClient
import Ledger
import NIOCore
import Vocabulary

/// The worker of one integration, on one event loop. Everything here happens on that loop, so there is no lock. A dead
/// or slow receiver fills its own lane and nothing else.
final class Lane {
    let route: RoutedIntegration
    private var state: LaneState
    private var cursor = ClaimCursor()
    private let path: OutboundPath
    private let queue: Queue
    private let dispatchBuffer: DispatchBuffer
    private let registration: Registration
    private let calls: LaneCallLimit
    private let loop: any EventLoop
    /// Succeeds when nothing is under way and the lane is closed.
    private var drained: EventLoopPromise<Void>?
    /// Deliveries whose attempt this daemon cut off: leased, untried as far as is known, to be given back.
    private var cut: [Delivery] = []
    private var isStopping = false
    /// Changes when the lane is opened or retired: an answer to an attempt of a former one may be of a former address,
    /// or from before a pause.
    private var generation = 0
    /// Of this lane in the dispatch buffer, the last one; nil until `open`.
    private var opening: DispatchBuffer.Opening?
    private var isCut = false
    private var isPumpDue = false
    /// Calls `pump` when a slot of the rate may be there.
    private var alarm: Scheduled<Void>?

    init(
        route: RoutedIntegration, path: OutboundPath, queue: Queue, dispatchBuffer: DispatchBuffer,
        registration: Registration, calls: LaneCallLimit, loop: any EventLoop
    ) {
        self.route = route
        self.path = path
        self.queue = queue
        self.dispatchBuffer = dispatchBuffer
        self.registration = registration
        self.calls = calls
        self.loop = loop
        state = LaneState(
            concurrency: route.integration.concurrency, schedule: route.integration.schedule,
            rate: route.integration.rate)
    }

    /// Whether the lane is open and receives deliveries; false for a new lane until `open`.
    private(set) var isRunning = false
    /// Why its integration is paused; `open` ends that. nil: it is not.
    var pauseReason: String? { state.pauseReason }
    /// Neither running nor ending, and not closed after `readAt`.
    func mayOpen(readAt: NIODeadline) -> Bool { !isRunning && !isStopping && state.mayReopen(readAt: readAt) }
    var underWay: Int { state.underWay }

    /// Begins to receive deliveries from recording, settling and claiming.
    func open() {
        loop.preconditionInEventLoop()
        guard !isStopping else { return }
        state.reopen()
        generation += 1
        isRunning = true
        let bound = NIOLoopBound(self, eventLoop: loop)
        opening = dispatchBuffer.open(route.row) { [loop] deliveries in
            loop.execute { bound.value.receive(deliveries) }
        }
        pump()
    }

    private func receive(_ arrived: [Delivery], areClaimed: Bool = false) {
        // A delivery whose lease ended on its way here belongs to whoever reclaims it.
        let lease = registration.id
        let deliveries = arrived.filter { $0.lease == lease }
        if deliveries.count < arrived.count {
            let lost = arrived.filter { $0.lease != lease }
            dispatchBuffer.release(route.row, lost.count, bytes: lost.reduce(0) { $0 + $1.message.bytes })
            dispatchBuffer.drop(lost)
        }
        guard !deliveries.isEmpty else { return pump() }
        if state.add(deliveries, areClaimed: areClaimed) {
            pump()
        } else {
            giveBack(deliveries)
        }
    }

    /// Starts the attempts that may start, and claims more when the lane runs low.
    func pump() {
        loop.preconditionInEventLoop()
        // What starts here takes its room when it has ended.
        let hasRoom = path.settlements.hasRoom
        var (started, bytes) = (0, 0)
        while isRunning, let start = nextStart(hasRoom: hasRoom) {
            let delivery = start.delivery
            started += 1
            bytes += delivery.message.bytes
            let isOutdated = { [self, generation] in generation != self.generation }
            path.deliver(delivery, isProbe: start.isProbe, isOutdated: isOutdated) { [self] end in
                switch end {
                case .settled(let health): state.finished(start, health, at: .now())
                case .cut:
                    cut.append(delivery)
                    state.finished(start, .none, at: .now())
                }
                if isRunning { pumpSoon() } else { finishDraining() }
            }
        }
        if started > 0 { dispatchBuffer.release(route.row, started, bytes: bytes) }
        claimIfNeeded()
        performAction()
        reserveSlots()
        setAlarm()
    }

    /// Behind what else the loop has read: many answers come at once, and one look is enough for them.
    private func pumpSoon() {
        if isPumpDue { return }
        isPumpDue = true
        let bound = NIOLoopBound(self, eventLoop: loop)
        loop.execute {
            bound.value.isPumpDue = false
            bound.value.pump()
        }
    }

    private func nextStart(hasRoom: Bool) -> LaneState.Start? {
        state.mayStartAttempts = hasRoom && registration.mayStart
        return state.start(at: .now())
    }

    /// Something may be due in the table.
    func expectBacklog() {
        state.expectBacklog()
        pump()
    }

    private func claimIfNeeded() {
        guard isRunning, registration.mayStart, let limit = state.beginClaim() else { return }
        let bound = NIOLoopBound(self, eventLoop: loop)
        // A lane that is replaced while its claim waits has a successor under the same row.
        Task { [queue, calls, loop, route, cursor, opening] in
            await calls.begin()
            defer { calls.end() }
            var walk = cursor
            var claimed: (deliveries: [Delivery], isDrained: Bool)?
            let what = "claiming deliveries of \(route.integration.name)"
            do {
                let found = try await queue.claim(route.row, in: opening, upTo: limit, cursor: &walk)
                // Otherwise it may not have asked the database.
                if found.isDrained || !found.deliveries.isEmpty { queue.succeeded(what) }
                claimed = found
            } catch {
                queue.report(error, doing: what)
            }
            loop.execute { [claimed, walk] in bound.value.claimed(claimed, cursor: walk) }
        }
    }

    private func claimed(_ claimed: (deliveries: [Delivery], isDrained: Bool)?, cursor: ClaimCursor) {
        self.cursor = cursor
        // A failed claim is over, too: the next poll asks again.
        state.endClaim(isDrained: claimed?.isDrained ?? true)
        // Receiving them claims more. A claim that found every place in the dispatch buffer reserved got none: whatever
        // has the places leads to the next claim, and after one of a former opening the next poll does.
        if let claimed, !claimed.deliveries.isEmpty { receive(claimed.deliveries, areClaimed: true) }
        if !isRunning { finishDraining() }
    }

    // MARK: Breaker

    /// Applies what the other daemons know of the breaker; called before `open`, and with each poll.
    func apply(_ shared: SharedBreaker?, readAt: NIODeadline) { state.apply(shared, readAt: readAt) }

    private func performAction() {
        guard isRunning, let action = state.nextAction() else { return }
        guard registration.mayStart else { return state.actionFailed() }
        let bound = NIOLoopBound(self, eventLoop: loop)
        let probeLasts = route.integration.timeout + state.slotWaitMax
        Task { [queue, calls, loop, route, observe = path.observe] in
            await calls.begin()
            defer { calls.end() }
            let name = route.integration.name
            let what = "publishing the breaker of \(name)"
            do {
                var isGranted = false
                switch action {
                case .publishOpened(let reason):
                    if try await queue.openBreaker(route.row, reason: reason) {
                        observe(.breakerOpened(integration: name, reason: reason))
                    }
                case .publishClosed:
                    if let after = try await queue.closeBreaker(route.row) {
                        observe(.breakerClosed(integration: name, openSeconds: Int(after.components.seconds)))
                    }
                case .requestProbe:
                    isGranted = try await queue.claimProbe(route.row, lasting: probeLasts)
                case .publishProbeEnded: try await queue.endProbe(route.row)
                }
                queue.succeeded(what)
                loop.execute { [isGranted] in bound.value.actionEnded(isGranted: isGranted) }
            } catch {
                queue.report(error, doing: what)
                loop.execute { bound.value.actionEnded(isGranted: nil) }
            }
        }
    }

    /// - Parameter isGranted: nil: the database did not accept the action.
    private func actionEnded(isGranted: Bool?) {
        if let isGranted { state.actionDone(isGranted: isGranted, at: .now()) } else { state.actionFailed() }
        if isRunning { pump() } else if isStopping { giveProbeUp() }
    }

    /// Lets the successor of this lane send the next probe: this one's answer may be that of a former address. Where
    /// the database does not answer, the next one comes when the time of this one is over.
    private func giveProbeUp() {
        guard state.hasProbe else { return }
        Task { [queue, calls, route] in
            await calls.begin()
            defer { calls.end() }
            try? await queue.endProbe(route.row)
        }
    }

    // MARK: Rate

    private func reserveSlots() {
        guard isRunning, let wanted = state.beginReservation(at: .now()) else { return }
        let bound = NIOLoopBound(self, eventLoop: loop)
        let interval = state.slotInterval
        Task { [queue, calls, loop, route] in
            let askedAt = NIODeadline.now()
            await calls.begin()
            defer { calls.end() }
            var first: NIODeadline?
            let what = "reserving rate slots for \(route.integration.name)"
            do {
                let slot = try await queue.reserveSlots(
                    route.row, count: wanted.count, interval: .nanoseconds(interval.nanoseconds),
                    notBefore: .nanoseconds(wanted.notBefore.nanoseconds))
                first = .now() + TimeAmount(slot - .now)
                queue.succeeded(what)
            } catch {
                queue.report(error, doing: what)
            }
            loop.execute { [first] in
                if let first {
                    bound.value.state.endReservation(first: first, count: wanted.count, askedAt: askedAt, at: .now())
                } else {
                    bound.value.state.failReservation()
                }
                bound.value.pump()
            }
        }
    }

    private func setAlarm() {
        guard route.integration.rate != nil else { return }
        alarm?.cancel()
        alarm = nil
        guard isRunning, let time = state.wakeUp(after: .now()) else { return }
        let bound = NIOLoopBound(self, eventLoop: loop)
        alarm = loop.scheduleTask(deadline: time) { bound.value.pump() }
    }

    // MARK: Closing

    /// Closes it because its integration is paused (`LaneState.pause`).
    /// - Returns: whether it was not paused for that reason before.
    func pause(_ reason: String, beganNow: Bool) -> Bool {
        let (waited, isNew) = state.pause(reason, beganNow: beganNow, at: .now())
        stopReceiving()
        giveBack(waited)
        return isNew
    }

    /// Closes a removed or stopping lane: it accepts and starts nothing more, and gives back what waits.
    func close() {
        stopReceiving()
        giveBack(state.close(at: .now()))
    }

    private func stopReceiving() {
        loop.preconditionInEventLoop()
        // A replaced lane closes once more as it drains: by then its place in the dispatch buffer is its successor's.
        if isRunning { dispatchBuffer.close(route.row) }
        isRunning = false
    }

    /// Closes for good: another lane replaces it, or none does.
    func retire() {
        generation += 1
        stop()
        giveProbeUp()
    }

    private func stop() {
        isStopping = true
        close()
    }

    /// Closes; the future succeeds when nothing is under way and nothing is being claimed.
    func drain() -> EventLoopFuture<Void> {
        stop()
        let promise = drained ?? loop.makePromise(of: Void.self)
        drained = promise
        finishDraining()
        return promise.futureResult
    }

    /// Ends what is under way and does not wait for a claim: a lease that it brings runs out.
    func cancel() {
        isCut = true
        path.client.cancelAll()
        finishDraining()
    }

    func closeClient() { path.client.close() }

    /// Makes new connections trust these authorities.
    func renew(_ trust: EndpointTrust) { path.client.renew(trust) }

    private func finishDraining() {
        // A claim leases deliveries until it has ended.
        guard state.underWay == 0, isCut || !state.isClaiming else { return }
        giveBack(cut)
        cut = []
        drained?.succeed()
        drained = nil
    }

    /// Drops what waits here: this daemon's lease is lost, so it is not this daemon's any more.
    func forget() {
        let forgotten = state.forget()
        dispatchBuffer.release(route.row, forgotten.count, bytes: forgotten.reduce(0) { $0 + $1.message.bytes })
    }

    private func giveBack(_ deliveries: [Delivery]) {
        guard !deliveries.isEmpty else { return }
        // If the database does not answer now, the sweep or the end of the lease gives them back.
        Task { [queue, calls, route] in
            await calls.begin()
            defer { calls.end() }
            let what = "giving back deliveries of \(route.integration.name)"
            do {
                try await queue.giveBack(deliveries)
                queue.succeeded(what)
            } catch {
                queue.report(error, doing: what)
            }
        }
    }
}
