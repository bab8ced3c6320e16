import Postgres
import Synchronization
package import Vocabulary

/// Counts the bounded dispatch buffer: slots, bytes and ids of leased deliveries. They themselves wait in their lanes
/// (`LaneState`).
///
/// Recording and claiming reserve slots, lanes release them. Both sides see only this buffer, so inbound and outbound
/// share nothing but the ledger. The table is authoritative: what is in the buffer is leased there; what finds no slot
/// stays there, unleased, for a claim.
package final class DispatchBuffer: Sendable {
    /// Called from any thread with deliveries whose slots were reserved; must not block.
    package typealias Receive = @Sendable ([Delivery]) -> Void

    private struct LaneSlots {
        let opening: Opening
        var waiting = 0
        /// Bytes of the messages that wait; a message that waits in several lanes counts in each.
        var waitingBytes = 0
        var receive: Receive

        /// - Returns: how many slots it has reserved.
        mutating func reserve(upTo wanted: Int, bytesEach: Int, slotsMax: Int, bytesMax: Int) -> Int {
            guard waitingBytes < bytesMax else { return 0 }
            let granted = max(0, min(wanted, slotsMax - waiting))
            waiting += granted
            waitingBytes += granted * bytesEach
            return granted
        }
    }

    /// One opening of a lane. What was reserved in one opening is never counted in another.
    package struct Opening: Sendable, Equatable {
        fileprivate var number: UInt64
    }

    private struct State {
        var lanes: [Int32: LaneSlots] = [:]
        var lastOpening = Opening(number: 0)
        /// Every delivery that this process leased and has not settled, by lease: a delivery that is claimed again
        /// after its lease was lost has nothing to do with what is still under way under the old one. What the table
        /// says is leased by this daemon and is not in here was leaked by a lost answer (see `Sweep`). Each id with the
        /// time at which its delivery was created: ids may be drawn again under the same lease
        /// (`QueueStatements.isTheSame`), and the newer delivery is held until it has ended itself.
        var held: [Int64: [Int64: Timestamp]] = [:]
        var notifiedAt: ContinuousClock.Instant?
        var sweepsRequested = 0
        /// The last delay of each delivery whose message could not be read.
        var unreadable: [Int64: Duration] = [:]

        /// Whether the lane is open and, if `opening` is given, still in that opening.
        func holds(_ integration: Int32, _ opening: Opening?) -> Bool {
            lanes[integration].map { opening == nil || $0.opening == opening } ?? false
        }

        mutating func drop(_ id: Int64, createdAt: Timestamp, under lease: Int64) {
            guard held[lease]?[id] == createdAt else { return }
            held[lease]?[id] = nil
            if held[lease]?.isEmpty == true { held[lease] = nil }
        }
    }

    /// The shortest time between two notifications of a daemon whose lanes are full. NOTIFY takes a lock that all
    /// commits of the database share; the poll finds the rest.
    private static let hintInterval: Duration = .milliseconds(200)

    package let confirmations = Confirmations()
    private let slotsPerLane: Int
    private let bytesPerLane: Int
    private let state = Mutex(State())

    package init(slotsPerLane: Int = Limits.laneDeliveriesMax, bytesPerLane: Int = Limits.laneBytesMax) {
        self.slotsPerLane = slotsPerLane
        self.bytesPerLane = bytesPerLane
    }

    /// Opens a lane for deliveries.
    @discardableResult
    package func open(_ integration: Int32, receive: @escaping Receive) -> Opening {
        state.withLock { state in
            state.lastOpening.number += 1
            state.lanes[integration] = LaneSlots(opening: state.lastOpening, receive: receive)
            return state.lastOpening
        }
    }

    /// Closes a lane (paused, removed, stopping); what already has a slot in it is refused by `passToLanes`.
    package func close(_ integration: Int32) {
        _ = state.withLock { $0.lanes.removeValue(forKey: integration) }
    }

    /// Reserves up to `wanted` slots; 0 if the lane is closed or full.
    /// - Parameter bytesEach: size of each message, if known; otherwise `reserveBytes` counts it later. A lane takes a
    ///   message while it has any room left, so that the largest message gets through, too.
    func reserve(_ integration: Int32, upTo wanted: Int, bytesEach: Int = 0) -> Int {
        state.withLock { state in
            let bytesMax = bytesOfOne(of: state)
            return state.lanes[integration]?.reserve(
                upTo: wanted, bytesEach: bytesEach, slotsMax: slotsPerLane, bytesMax: bytesMax) ?? 0
        }
    }

    /// Reserves a slot for each message of a batch, in this order, where its lane is open and not full.
    /// - Returns: whether each has one.
    func reserve(_ messages: [(integration: Int32, bytes: Int)]) -> [Bool] {
        state.withLock { state in
            let bytesMax = bytesOfOne(of: state)
            return messages.map { integration, bytes in
                state.lanes[integration]?.reserve(
                    upTo: 1, bytesEach: bytes, slotsMax: slotsPerLane, bytesMax: bytesMax) == 1
            }
        }
    }

    /// Reserves slots for a claim, which takes a while: the slots belong to the opening in which they were reserved.
    /// Claims have an eighth more room than fresh messages, so that a stream of these does not keep out retries and the
    /// backlog.
    /// - Parameter opening: of the lane that claims; another one gets no slot. nil: whichever there is.
    /// - Returns: nil: no slot.
    func reserveForClaim(
        _ integration: Int32, in opening: Opening? = nil, upTo wanted: Int
    ) -> (slots: Int, opening: Opening)? {
        state.withLock { state in
            guard state.holds(integration, opening), let lane = state.lanes[integration],
                Self.withClaims(bytesOfOne(of: state)) > lane.waitingBytes
            else { return nil }
            let granted = max(0, min(wanted, Self.withClaims(slotsPerLane) - lane.waiting))
            state.lanes[integration]?.waiting += granted
            return granted > 0 ? (granted, lane.opening) : nil
        }
    }

    private static func withClaims(_ limit: Int) -> Int { limit + limit / 8 }

    /// Bytes that a lane has room for in a claim.
    func roomForClaim(_ integration: Int32) -> Int {
        state.withLock { state in
            Self.withClaims(bytesOfOne(of: state)) - (state.lanes[integration]?.waitingBytes ?? 0)
        }
    }

    /// Bytes that a lane has room for.
    func room(_ integration: Int32) -> Int {
        state.withLock { state in bytesOfOne(of: state) - (state.lanes[integration]?.waitingBytes ?? 0) }
    }

    /// Slots that are reserved in a lane. Read by tests.
    func reservedSlots(_ integration: Int32) -> Int { state.withLock { $0.lanes[integration]?.waiting ?? 0 } }

    /// Bytes that each lane may hold: its own share, so that the lanes of dead receivers take nothing from others.
    private func bytesOfOne(of state: State) -> Int {
        min(bytesPerLane, max(Limits.laneBytesMin, Limits.dispatchBufferBytesMax / max(1, state.lanes.count)))
    }

    /// Counts the bytes of messages whose slots were reserved without them.
    /// - Parameter opening: if it is over, its reservations are gone and nothing is counted.
    func reserveBytes(of deliveries: [Delivery], in opening: Opening? = nil) {
        state.withLock { state in
            for delivery in deliveries where state.holds(delivery.integration, opening) {
                state.lanes[delivery.integration]?.waitingBytes += delivery.message.bytes
            }
        }
    }

    /// Releases slots that were reserved and not used, or whose delivery left the lane's queue. A lane that was closed
    /// and opened again counts from 0: earlier reservations must not make it count below.
    package func release(_ integration: Int32, _ count: Int, bytes: Int = 0) {
        release(integration, count, bytes: bytes, of: nil)
    }

    func release(_ integration: Int32, _ count: Int, bytes: Int = 0, of opening: Opening?) {
        state.withLock { state in
            guard state.holds(integration, opening), let lane = state.lanes[integration] else { return }
            state.lanes[integration]?.waiting = max(0, lane.waiting - count)
            state.lanes[integration]?.waitingBytes = max(0, lane.waitingBytes - bytes)
        }
    }

    /// Holds deliveries before their lease is committed, so that a sweep in between does not take them for leaked.
    func hold(_ deliveries: [Delivery]) {
        state.withLock { state in
            for delivery in deliveries { state.held[delivery.lease, default: [:]][delivery.id] = delivery.createdAt }
        }
    }

    /// Stops holding deliveries that were given back, or never committed under their lease.
    package func drop(_ deliveries: [Delivery]) {
        state.withLock { state in
            for delivery in deliveries { state.drop(delivery.id, createdAt: delivery.createdAt, under: delivery.lease) }
        }
    }

    /// Stops holding deliveries that were settled.
    func drop(_ deliveries: [SettledDelivery]) {
        state.withLock { state in
            for delivery in deliveries { state.drop(delivery.id, createdAt: delivery.createdAt, under: delivery.lease) }
        }
    }

    func holds(_ id: Int64, under lease: Int64) -> Bool { state.withLock { $0.held[lease]?[id] != nil } }

    /// Stops holding all ids: the lease that they were held under is lost.
    func dropAll() { state.withLock { $0.held.removeAll() } }

    /// The next delay of a delivery whose message could not be read.
    func delayOfUnreadable(_ id: Int64) -> Duration {
        let bounds = Limits.unreadableRetry
        return state.withLock { state in
            let delay = state.unreadable[id].map { min($0 * 4, bounds.upperBound) } ?? bounds.lowerBound
            if state.unreadable.count >= Limits.unreadableRemembered { state.unreadable = [:] }
            state.unreadable[id] = delay
            return delay
        }
    }

    /// Notes that a transaction failed which may have leased something. If its commit is in doubt, requests two sweeps:
    /// one finds what is leaked, the next gives it back.
    func failed(_ error: any Error) {
        if case DatabaseError.commitUnknown = error { requestSweeps() }
    }

    /// Requests two sweeps out of turn: after a commit in doubt, and after one that could not reach the database.
    package func requestSweeps() { state.withLock { $0.sweepsRequested = 2 } }

    /// Whether a sweep is requested out of turn; each request is returned once.
    package func takeSweepRequest() -> Bool {
        state.withLock { state in
            guard state.sweepsRequested > 0 else { return false }
            state.sweepsRequested -= 1
            return true
        }
    }

    /// Whether the other daemons may be notified now of what was left in the table.
    func mayHint() -> Bool {
        state.withLock { state in
            let now = ContinuousClock.Instant.now
            if let last = state.notifiedAt, now - last < Self.hintInterval { return false }
            state.notifiedAt = now
            return true
        }
    }

    package var heldCount: Int { state.withLock { $0.held.values.reduce(0) { $0 + $1.count } } }

    /// Gives leased deliveries to their lanes; returns those whose lane has closed meanwhile.
    package func passToLanes(_ deliveries: [Delivery]) -> [Delivery] {
        guard !deliveries.isEmpty else { return [] }
        let byLane = Dictionary(grouping: deliveries, by: \.integration)
        var refused: [Delivery] = []
        for (integration, group) in byLane {
            guard let receive = state.withLock({ $0.lanes[integration]?.receive }) else {
                refused += group
                continue
            }
            receive(group)
        }
        return refused
    }
}
