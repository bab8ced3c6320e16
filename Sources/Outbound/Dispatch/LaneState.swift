import NIOCore
import Vocabulary

/// What one integration's lane holds and may do next. Pure: no I/O, no clock; the lane asks and acts.
///
/// A delivery is in exactly one place: `waiting` here, under way at the receiver, or no longer this lane's. The order
/// of a purchase is not kept here but by the ledger, which leases one delivery of a purchase at a time.
struct LaneState {
    private(set) var waiting = CircularBuffer<Delivery>()
    private(set) var underWay = 0
    private(set) var isOpen = true
    /// The table may hold due deliveries of this lane that nobody has leased.
    private(set) var mayHaveBacklog = true
    private(set) var isClaiming = false
    let concurrency: Int

    init(concurrency: Int) { self.concurrency = concurrency }

    /// Leased deliveries arrive; false if the lane takes none and they must be given back.
    mutating func add(_ deliveries: [Delivery]) -> Bool {
        guard isOpen else { return false }
        waiting.append(contentsOf: deliveries)
        return true
    }

    /// The next to send, which counts as under way from here on.
    mutating func start() -> Delivery? {
        guard isOpen, underWay < concurrency, let delivery = waiting.popFirst() else { return nil }
        underWay += 1
        return delivery
    }

    mutating func finished() { underWay -= 1 }

    /// How many to claim now; nil: none, or a claim is under way already. Claims are worth a round trip only when the
    /// lane is about to run dry.
    mutating func beginClaim() -> Int? {
        guard isOpen, mayHaveBacklog, !isClaiming, waiting.count <= Limits.claimDeliveriesMax / 2 else { return nil }
        isClaiming = true
        return Limits.claimDeliveriesMax
    }

    /// - Parameter isDrained: the walk reached the end of what is due.
    mutating func endClaim(isDrained: Bool) {
        isClaiming = false
        if isDrained { mayHaveBacklog = false }
    }

    /// Something may be due: a poll or a notification says so.
    mutating func expectBacklog() { mayHaveBacklog = true }

    /// No more starts. Returns what waited: leased, untried, to be given back.
    mutating func close() -> [Delivery] {
        isOpen = false
        defer { waiting.removeAll() }
        return Array(waiting)
    }

    /// The lease is lost: what waited, and is returned, is somebody else's now.
    mutating func forget() -> [Delivery] {
        defer { waiting.removeAll() }
        return Array(waiting)
    }

    mutating func reopen() {
        isOpen = true
        mayHaveBacklog = true
    }
}
