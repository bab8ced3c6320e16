import Synchronization
import Vocabulary

/// Settlements whose COMMIT was not confirmed, until they are written: their attempts may be in the history already.
final class SettlementsInDoubt: Sendable {
    private struct Key: Hashable {
        let lease: Int64
        let delivery: Int64

        init(_ settlement: Settlement) {
            lease = settlement.delivery.lease
            delivery = settlement.delivery.id
        }
    }

    private let keys = Mutex<Set<Key>>([])

    func insert(_ batch: [Settlement]) { keys.withLock { $0.formUnion(batch.map(Key.init)) } }

    func remove(_ batch: [Settlement]) {
        keys.withLock { keys in
            if !keys.isEmpty { keys.subtract(batch.map(Key.init)) }
        }
    }

    /// Those of a batch that are in doubt, by their places.
    func places(in batch: [Settlement]) -> [Int] {
        keys.withLock { keys in keys.isEmpty ? [] : batch.indices.filter { keys.contains(Key(batch[$0])) } }
    }
}
