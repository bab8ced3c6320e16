import Synchronization
import Vocabulary

/// A delivery under one lease; under the next one it may be another daemon's.
struct LeasedDelivery: Hashable {
    /// Row of `daemons`.
    let lease: Int64
    /// Row of `deliveries`.
    let id: Int64
}

extension Settlement {
    var leased: LeasedDelivery { LeasedDelivery(lease: delivery.lease, id: delivery.id) }
}

/// Settlements whose COMMIT was not confirmed, until they are written: their attempts may be in the history already.
final class SettlementsInDoubt: Sendable {
    private let keys = Mutex<Set<LeasedDelivery>>([])

    func insert(_ batch: [Settlement]) { keys.withLock { $0.formUnion(batch.map(\.leased)) } }

    func remove(_ batch: [Settlement]) {
        keys.withLock { keys in
            if !keys.isEmpty { keys.subtract(batch.map(\.leased)) }
        }
    }

    /// Those of a batch that are in doubt, by their places.
    func places(in batch: [Settlement]) -> [Int] {
        keys.withLock { keys in keys.isEmpty ? [] : batch.indices.filter { keys.contains(batch[$0].leased) } }
    }
}
