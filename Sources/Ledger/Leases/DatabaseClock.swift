import Synchronization
package import Vocabulary

/// The database's time, advanced between two readings by this machine's monotonic clock, so that setting the wall clock
/// moves no retry. Stored times use database time only.
package final class DatabaseClock: Sendable {
    private struct Reading {
        var database: Timestamp
        var taken: ContinuousClock.Instant
    }

    private let reading = Mutex<Reading?>(nil)

    package init() {}

    /// Takes a fresh reading.
    func note(_ database: Timestamp) {
        reading.withLock { $0 = Reading(database: database, taken: .now) }
    }

    /// nil before the first reading.
    package var now: Timestamp? {
        reading.withLock { reading in
            reading.map { reading in
                let elapsed = ContinuousClock.Instant.now - reading.taken
                return reading.database.advanced(byMilliseconds: elapsed.wholeMilliseconds)
            }
        }
    }
}

extension Duration {
    /// Rounded down.
    package var wholeMilliseconds: Int64 {
        components.seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000
    }
}
