/// The pool's decisions, without connections, clocks or randomness: events go in, actions come out.
///
/// A slot is vacant, opening, idle or busy. While the last opening failed and nothing is connected, the database is
/// *down*: callers fail at once, and a single slot keeps trying at growing intervals. The first success opens the rest.
/// A connection that is lost while others are open is reopened at once, then at the same intervals.
struct PoolMachine {
    enum Slot: Equatable { case vacant, opening, idle, busy }

    enum Action: Equatable {
        case open(slot: Int)
        /// Call `retryDue` after this time.
        case retry(after: Duration)
        /// The waiter has the slot now.
        case serve(waiter: UInt64, slot: Int)
        case fail(waiter: UInt64, DatabaseError)
        case publish(PoolState)
        /// Close the slot's connection.
        case close(slot: Int)
    }

    enum Acquisition: Equatable { case use(slot: Int), wait, refused(DatabaseError) }

    private(set) var slots: [Slot]
    /// First come, first served.
    private var waiters: [UInt64] = []
    private let waitersMax: Int
    private let backoff: ClosedRange<Duration>
    /// Reason of the last failed opening; nil after a success.
    private var lastFailure: String?
    private var failures = 0
    private var retryScheduled = false
    private(set) var isClosed = false
    private var publishedDown = false

    init(size: Int, waitersMax: Int, backoff: ClosedRange<Duration>) {
        slots = Array(repeating: .vacant, count: size)
        self.waitersMax = waitersMax
        self.backoff = backoff
    }

    /// Why the database is down; nil while it is not.
    var downReason: String? { slots.contains { $0 == .idle || $0 == .busy } ? nil : lastFailure }

    var isReachable: Bool { !isClosed && slots.contains { $0 == .idle || $0 == .busy } }

    mutating func start() -> [Action] { openVacant() }

    mutating func acquire(waiter: UInt64) -> Acquisition {
        if isClosed { return .refused(.connectFailed(reason: Self.closedReason)) }
        if let slot = slots.firstIndex(of: .idle) {
            slots[slot] = .busy
            return .use(slot: slot)
        }
        if let downReason { return .refused(.connectFailed(reason: downReason)) }
        guard waiters.count < waitersMax else {
            return .refused(.connectFailed(reason: "\(waitersMax) callers wait for a connection already"))
        }
        waiters.append(waiter)
        return .wait
    }

    /// The waiter's time is over; returns false if it was answered before.
    mutating func expire(waiter: UInt64) -> Bool {
        guard let index = waiters.firstIndex(of: waiter) else { return false }
        waiters.remove(at: index)
        return true
    }

    /// A caller is done with its slot; `lost` says why its connection is dead, nil if it is alive.
    mutating func release(slot: Int, lost: String?) -> [Action] {
        if isClosed {
            slots[slot] = .vacant
            return lost == nil ? [.close(slot: slot)] : []
        }
        if lost == nil { return assign(slot) }
        slots[slot] = .vacant
        var actions: [Action] = []
        if lastFailure == nil {
            slots[slot] = .opening
            actions.append(.open(slot: slot))
        } else if !slots.contains(.opening) {
            actions += scheduleRetry(jitter: 0)
        }
        return actions + stateChange()
    }

    /// Closes an idle connection and opens another in its place.
    mutating func replace(slot: Int) -> [Action] {
        guard slots[slot] == .idle else { return [] }
        return [.close(slot: slot)] + release(slot: slot, lost: "replaced")
    }

    mutating func opened(slot: Int) -> [Action] {
        if isClosed {
            slots[slot] = .vacant
            return [.close(slot: slot)]
        }
        lastFailure = nil
        failures = 0
        slots[slot] = .idle
        // Published before a caller is served, so that the caller's own reports come after it.
        return stateChange() + openVacant() + assign(slot)
    }

    /// - Parameter jitter: 0 to 1, random: spreads the interval so that daemons do not reconnect in step.
    mutating func openFailed(slot: Int, reason: String, jitter: Double) -> [Action] {
        slots[slot] = .vacant
        if isClosed { return [] }
        lastFailure = reason
        // Slots that failed together count as one failure.
        if !retryScheduled { failures += 1 }
        return scheduleRetry(jitter: jitter) + stateChange()
    }

    mutating func retryDue() -> [Action] {
        retryScheduled = false
        guard !isClosed, let slot = slots.firstIndex(of: .vacant) else { return [] }
        slots[slot] = .opening
        return [.open(slot: slot)]
    }

    /// Serves nobody from here on. Idle connections are closed now, the others when they are released or opened.
    mutating func close() -> [Action] {
        guard !isClosed else { return [] }
        isClosed = true
        var actions = waiters.map { Action.fail(waiter: $0, .connectFailed(reason: Self.closedReason)) }
        waiters.removeAll()
        for slot in slots.indices where slots[slot] == .idle {
            slots[slot] = .vacant
            actions.append(.close(slot: slot))
        }
        return actions
    }

    /// The wait before the next attempt after `failures` failures: doubles from the first to the last bound, with its
    /// upper half random.
    static func interval(afterFailures failures: Int, backoff: ClosedRange<Duration>, jitter: Double) -> Duration {
        var interval = backoff.lowerBound
        var doublings = failures - 1
        while doublings > 0, interval < backoff.upperBound {
            interval *= 2
            doublings -= 1
        }
        return min(interval, backoff.upperBound) * (0.5 + 0.5 * jitter)
    }

    private static let closedReason = "the connection pool is closed"

    private mutating func assign(_ slot: Int) -> [Action] {
        guard !waiters.isEmpty else {
            slots[slot] = .idle
            return []
        }
        slots[slot] = .busy
        return [.serve(waiter: waiters.removeFirst(), slot: slot)]
    }

    private mutating func openVacant() -> [Action] {
        var actions: [Action] = []
        for slot in slots.indices where slots[slot] == .vacant {
            slots[slot] = .opening
            actions.append(.open(slot: slot))
        }
        return actions
    }

    private mutating func scheduleRetry(jitter: Double) -> [Action] {
        guard !retryScheduled else { return [] }
        retryScheduled = true
        return [.retry(after: Self.interval(afterFailures: failures, backoff: backoff, jitter: jitter))]
    }

    /// Publishes a change between down and not down; when the database goes down, waiting callers fail.
    private mutating func stateChange() -> [Action] {
        guard let reason = downReason else {
            defer { publishedDown = false }
            // A running opening changes nothing yet; an open connection does.
            return publishedDown && isReachable ? [.publish(.recovered)] : []
        }
        var actions = waiters.map { Action.fail(waiter: $0, .connectFailed(reason: reason)) }
        waiters.removeAll()
        if !publishedDown { actions.append(.publish(.lost(reason: reason))) }
        publishedDown = true
        return actions
    }
}

/// A change of the database's reachability, as the pool sees it.
package enum PoolState: Hashable, Sendable {
    case lost(reason: String)
    case recovered
}
