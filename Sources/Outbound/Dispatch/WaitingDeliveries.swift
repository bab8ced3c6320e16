import NIOCore
import Vocabulary

/// Deliveries of one lane that wait for their attempt: those just recorded, and those claimed from the table (retries,
/// the backlog, reclaimed ones), each in order of arrival. While both wait, every `claimedTurn`th start is a claimed
/// one, so that a stream of new messages does not hold up the others indefinitely.
struct WaitingDeliveries {
    /// A claimed delivery costs three times as much as one that never left memory, so claimed ones get a share, not
    /// half.
    private static let claimedTurn = 4

    private var fresh = CircularBuffer<Delivery>()
    private var claimed = CircularBuffer<Delivery>()
    private var starts = 0

    var count: Int { fresh.count + claimed.count }
    var isEmpty: Bool { fresh.isEmpty && claimed.isEmpty }
    var claimedCount: Int { claimed.count }

    mutating func append(_ deliveries: [Delivery], areClaimed: Bool) {
        if areClaimed { claimed.append(contentsOf: deliveries) } else { fresh.append(contentsOf: deliveries) }
    }

    mutating func popFirst() -> Delivery? {
        guard !fresh.isEmpty, !claimed.isEmpty else { return fresh.popFirst() ?? claimed.popFirst() }
        starts = (starts + 1) % Self.claimedTurn
        return starts == 0 ? claimed.popFirst() : fresh.popFirst()
    }

    mutating func removeAll() -> [Delivery] {
        defer {
            fresh.removeAll()
            claimed.removeAll()
        }
        return Array(fresh) + Array(claimed)
    }
}
