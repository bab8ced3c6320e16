import Postgres
import Synchronization
package import Vocabulary

/// The bounded place in memory where deliveries that this daemon has leased wait for their lane.
///
/// Recording and claiming put deliveries in, lanes take them out; both sides see only this, so that inbound and
/// outbound still meet in nothing but the ledger. The truth stays in the table: what is here is leased there, and what
/// finds no slot here is left there, unleased, for a claim.
package final class HandOver: Sendable {
    /// Called from any thread with deliveries whose slots were reserved; must not block.
    package typealias Receive = @Sendable ([Delivery]) -> Void

    private struct Lane {
        let opening: Opening
        var waiting = 0
        /// Of the messages that wait; a message that waits in several lanes counts in each.
        var waitingBytes = 0
        var receive: Receive
    }

    /// One opening of a lane: what was reserved of it is no other's to charge or free.
    struct Opening: Equatable {
        fileprivate var number: UInt64
    }

    private struct State {
        var lanes: [Int32: Lane] = [:]
        var lastOpening = Opening(number: 0)
        /// Every delivery that this process leased and has not settled: what the table calls ours and is not in here
        /// was leaked by a lost answer (see `Queue.sweep`).
        var held: Set<Int64> = []
        var notifiedAt: ContinuousClock.Instant?
        var sweepsWanted = 0

        /// Whether a lane is open, and as it was opened then.
        func holds(_ integration: Int32, _ opening: Opening?) -> Bool {
            lanes[integration].map { opening == nil || $0.opening == opening } ?? false
        }
    }

    /// NOTIFY takes a lock that all commits of the database share, so a daemon whose lanes are full hints no more often
    /// than this; the poll finds the rest.
    private static let hintInterval: Duration = .milliseconds(200)

    package let confirmations = Confirmations()
    private let slotsPerLane: Int
    private let bytesPerLane: Int
    private let state = Mutex(State())

    package init(slotsPerLane: Int = Limits.laneDeliveriesMax, bytesPerLane: Int = Limits.laneBytesMax) {
        self.slotsPerLane = slotsPerLane
        self.bytesPerLane = bytesPerLane
    }

    /// A lane begins to take deliveries.
    package func open(_ integration: Int32, receive: @escaping Receive) {
        state.withLock { state in
            state.lastOpening.number += 1
            state.lanes[integration] = Lane(opening: state.lastOpening, receive: receive)
        }
    }

    /// A lane takes no more (paused, removed, stopping); what has a slot of it already is refused by `hand`.
    package func close(_ integration: Int32) {
        _ = state.withLock { $0.lanes.removeValue(forKey: integration) }
    }

    /// Up to `wanted` slots; 0 when the lane is closed or full.
    /// - Parameter bytesEach: of each message, where it is known; else `charge` tells later. A lane takes a message
    ///   while it has any room left, so that the largest gets through, too.
    func reserve(_ integration: Int32, upTo wanted: Int, bytesEach: Int = 0) -> Int {
        state.withLock { state in
            guard let lane = state.lanes[integration], lane.waitingBytes < bytesOfOne(of: state) else { return 0 }
            let granted = max(0, min(wanted, slotsPerLane - lane.waiting))
            state.lanes[integration]?.waiting += granted
            state.lanes[integration]?.waitingBytes += granted * bytesEach
            return granted
        }
    }

    /// The same for a claim, which takes a while and ends with the lane that asked for it, whichever is open by then.
    /// Claims have room of their own beyond what fresh messages may take up, an eighth of it, so that a stream of these
    /// does not keep retries and the backlog out.
    /// - Returns: nil: none.
    func reserveForClaim(_ integration: Int32, upTo wanted: Int) -> (slots: Int, opening: Opening)? {
        state.withLock { state in
            guard let lane = state.lanes[integration], Self.withClaims(bytesOfOne(of: state)) > lane.waitingBytes
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

    /// Bytes that each lane may hold: a part of its own, so that the lanes of dead receivers take nothing from others.
    private func bytesOfOne(of state: State) -> Int {
        min(bytesPerLane, max(Limits.laneBytesMin, Limits.handOverBytesMax / max(1, state.lanes.count)))
    }

    /// Counts messages whose slots were reserved without their bytes.
    /// - Parameter opening: if it is over, so is what was reserved of it.
    func charge(_ deliveries: [Delivery], of opening: Opening? = nil) {
        state.withLock { state in
            for delivery in deliveries where state.holds(delivery.integration, opening) {
                state.lanes[delivery.integration]?.waitingBytes += delivery.message.bytes
            }
        }
    }

    /// Slots that were reserved and not used, or whose delivery left the lane's queue. A lane that was closed meanwhile
    /// and opened again counts from 0: what was reserved before must not make it count below.
    package func free(_ integration: Int32, _ count: Int, bytes: Int = 0) {
        free(integration, count, bytes: bytes, of: nil)
    }

    func free(_ integration: Int32, _ count: Int, bytes: Int = 0, of opening: Opening?) {
        state.withLock { state in
            guard state.holds(integration, opening), let lane = state.lanes[integration] else { return }
            state.lanes[integration]?.waiting = max(0, lane.waiting - count)
            state.lanes[integration]?.waitingBytes = max(0, lane.waitingBytes - bytes)
        }
    }

    /// Names ids before their lease is committed, so that a sweep in between does not take them for leaked.
    func hold(_ ids: some Sequence<Int64>) { state.withLock { $0.held.formUnion(ids) } }

    /// Settled, released, or never committed.
    func drop(_ ids: some Sequence<Int64>) { state.withLock { $0.held.subtract(ids) } }

    func holds(_ id: Int64) -> Bool { state.withLock { $0.held.contains(id) } }

    /// Everything held is forgotten: the lease it was held under is lost.
    func dropAll() { state.withLock { $0.held.removeAll() } }

    /// A transaction failed that may have leased something. If its commit is in doubt, two sweeps are wanted now: one
    /// finds what is leaked, the next gives it back.
    func failed(_ error: any Error) {
        if case DatabaseError.commitUnknown = error { wantSweeps() }
    }

    /// Two sweeps out of turn: after a doubt, and after one that failed.
    package func wantSweeps() { state.withLock { $0.sweepsWanted = 2 } }

    /// Whether a sweep is wanted out of turn; asked once for each.
    package func takeSweepWanted() -> Bool {
        state.withLock { state in
            guard state.sweepsWanted > 0 else { return false }
            state.sweepsWanted -= 1
            return true
        }
    }

    /// Whether it is time to hint at what was left in the table.
    func mayHint() -> Bool {
        state.withLock { state in
            let now = ContinuousClock.Instant.now
            if let last = state.notifiedAt, now - last < Self.hintInterval { return false }
            state.notifiedAt = now
            return true
        }
    }

    package var heldCount: Int { state.withLock { $0.held.count } }

    /// Gives leased deliveries to their lanes; returns those whose lane has closed meanwhile.
    package func hand(_ deliveries: [Delivery]) -> [Delivery] {
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
