import Ledger
import NIOCore
import Vocabulary

/// What one integration's lane holds and may do next. Pure: no I/O, no clock; the lane asks and acts.
///
/// A delivery is in exactly one place: in `waiting` here, under way at the receiver, or no longer this lane's. The
/// ledger keeps the order of a purchase: it leases one delivery of a purchase at a time. Deliveries that wait for the
/// breaker or for a slot of the rate stay in `waiting`, leased.
struct LaneState {
    /// An attempt that starts now.
    struct Start {
        let delivery: Delivery
        fileprivate let attempt: Breaker.AttemptStart
        /// The number of the request under the rate; nil: there is no limit.
        fileprivate let request: Int?

        var isProbe: Bool { attempt.isProbe }
    }

    private(set) var waiting = WaitingDeliveries()
    private(set) var underWay = 0
    private(set) var isAccepting = true
    /// The table may hold due deliveries of this lane that nobody has leased.
    private(set) var mayHaveBacklog = true
    private(set) var isClaiming = false
    /// Whether the daemon lets attempts start: its lease lasts, and there is room for their results. The lane sets it
    /// before each start; a lane that may not start reserves no slots and sets no alarm.
    var mayStartAttempts = true
    /// When the lane was last closed.
    private var closedAt: NIODeadline?
    /// Why its integration is paused, where it was closed for that; `reopen` ends it.
    private(set) var pauseReason: String?
    let concurrency: Int
    private var breaker: Breaker
    private var rate: RateSlots?

    init(concurrency: Int, schedule: RetrySchedule, rate: RateLimit?) {
        self.concurrency = concurrency
        breaker = Breaker(concurrency: concurrency, schedule: schedule)
        self.rate = rate.map(RateSlots.init)
    }

    /// Adds leased deliveries; false if the lane is closed and they must be given back.
    /// - Parameter areClaimed: from the table, not just recorded.
    mutating func add(_ deliveries: [Delivery], areClaimed: Bool = false) -> Bool {
        guard isAccepting else { return false }
        waiting.append(deliveries, areClaimed: areClaimed)
        return true
    }

    // MARK: Attempts

    /// The next attempt to start; it counts as under way from here on.
    mutating func start(at now: NIODeadline) -> Start? {
        guard mayStartOne else { return nil }
        var request: Int?
        if rate != nil {
            request = rate?.useSlot(at: now)
            if request == nil { return nil }
        }
        guard let delivery = waiting.popFirst() else { return nil }
        underWay += 1
        return Start(delivery: delivery, attempt: breaker.start(), request: request)
    }

    /// Whether an attempt may start, apart from a slot of the rate.
    private var mayStartOne: Bool {
        isAccepting && mayStartAttempts && !waiting.isEmpty && underWay < concurrency && breaker.admits
    }

    mutating func finished(_ start: Start, _ health: EndpointHealth, at now: NIODeadline) {
        underWay -= 1
        if let request = start.request { rate?.ended(request, at: now) }
        changeBreaker { $0.ended(start.attempt, health, at: now) }
    }

    /// Slots that were reserved before the breaker opened go unused; those for its probes must not.
    private mutating func changeBreaker(_ change: (inout Breaker) -> Void) {
        let wasOpen = breaker.isOpen
        change(&breaker)
        if breaker.isOpen, !wasOpen { rate?.dropReservedSlots() }
    }

    // MARK: Claims

    /// How many to claim now; nil: none, or a claim is under way already. A claim is worth its round trip only when the
    /// lane is about to run out of claimed deliveries, however many new ones wait; while the breaker is open, one
    /// delivery for the probe is enough.
    mutating func beginClaim() -> Int? {
        let hasEnough = breaker.isOpen ? !waiting.isEmpty : waiting.claimedCount > Limits.claimDeliveriesMax / 2
        guard isAccepting, mayHaveBacklog, !isClaiming, !hasEnough else { return nil }
        isClaiming = true
        return Limits.claimDeliveriesMax
    }

    /// - Parameter isDrained: the claim reached the end of what is due.
    mutating func endClaim(isDrained: Bool) {
        isClaiming = false
        if isDrained { mayHaveBacklog = false }
    }

    /// A poll or a notification says that something may be due.
    mutating func expectBacklog() { mayHaveBacklog = true }

    // MARK: Breaker

    /// Applies what the other daemons have found out.
    /// - Parameters:
    ///   - shared: nil: the breaker is closed.
    ///   - readAt: a time before it was read.
    mutating func apply(_ shared: SharedBreaker?, readAt: NIODeadline) {
        changeBreaker { $0.apply(shared, readAt: readAt) }
        rate?.polled()
    }

    mutating func nextAction() -> Breaker.Action? {
        isAccepting ? breaker.nextAction(hasWaiting: !waiting.isEmpty) : nil
    }

    var hasProbe: Bool { breaker.hasProbe }

    mutating func actionDone(isGranted: Bool = false, at now: NIODeadline) {
        breaker.done(isGranted: isGranted, at: now)
    }

    mutating func actionFailed() { breaker.failed() }

    // MARK: Rate

    /// The time between two slots of the rate.
    var slotInterval: TimeAmount { rate?.interval ?? .zero }

    /// How long a probe may wait for its slot: the limit's whole count of requests may just have been made, and another
    /// daemon may have the next slot.
    var slotWaitMax: Duration { rate.map { $0.limit.period + .nanoseconds($0.interval.nanoseconds) } ?? .zero }

    /// Slots to reserve now; nil: none.
    mutating func beginReservation(at now: NIODeadline) -> RateSlots.Reservation? {
        guard mayStartOne else { return nil }
        return rate?.beginReservation(wanted: breaker.isOpen ? 1 : waiting.count, at: now)
    }

    mutating func endReservation(first: NIODeadline, count: Int, askedAt: NIODeadline, at now: NIODeadline) {
        rate?.endReservation(first: first, count: count, askedAt: askedAt, at: now)
    }

    /// The database did not answer: the next reservation follows the next poll.
    mutating func failReservation() { rate?.failReservation() }

    /// When a slot may be there for what waits; nil: nothing waits for one.
    func wakeUp(after now: NIODeadline) -> NIODeadline? { mayStartOne ? rate?.wakeUp(after: now) : nil }

    // MARK: Closing

    /// Closes the lane. Returns what waited: leased, untried, to be given back.
    mutating func close(at now: NIODeadline) -> [Delivery] {
        isAccepting = false
        closedAt = now
        return empty()
    }

    /// Closes the lane because its integration is paused.
    /// - Parameter beganNow: an answer has just begun the pause, so that nothing which was read before counts. One that
    ///   a poll has read changes nothing where the lane is paused already.
    /// - Returns: what waited, to be given back, and whether it was not paused for that reason before.
    mutating func pause(
        _ reason: String, beganNow: Bool, at now: NIODeadline
    ) -> (waited: [Delivery], isNew: Bool) {
        if pauseReason != nil, !beganNow { return ([], false) }
        let isNew = reason != pauseReason
        pauseReason = reason
        return (close(at: now), isNew)
    }

    /// Empties the lane because the lease is lost: what is returned is not this daemon's any more.
    mutating func forget() -> [Delivery] { empty() }

    private mutating func empty() -> [Delivery] {
        breaker.cancelProbe()
        rate?.dropReservedSlots()
        return waiting.removeAll()
    }

    /// Whether pauses that were read then still count: a poll that began before the lane closed does not know why it
    /// closed.
    /// - Parameter readAt: a time before they were read.
    func mayReopen(readAt: NIODeadline) -> Bool { closedAt.map { $0 < readAt } ?? true }

    mutating func reopen() {
        isAccepting = true
        pauseReason = nil
        mayHaveBacklog = true
    }
}
