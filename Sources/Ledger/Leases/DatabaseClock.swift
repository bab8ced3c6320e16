import Postgres
import Synchronization
package import Vocabulary

/// The database's time, advanced between two readings by this machine's monotonic clock, so that setting the wall clock
/// moves no retry. Stored times use database time only.
package final class DatabaseClock: Sendable {
    private struct Reading {
        var database: Timestamp
        var began: ContinuousClock.Instant
        var taken: ContinuousClock.Instant
    }

    private let reading = Mutex<Reading?>(nil)

    package init() {}

    /// Takes a reading, unless a later one is known: a transaction may take long to commit.
    ///
    /// - Parameters:
    ///   - database: when the transaction began, or a statement outside one.
    ///   - began: just before that was sent.
    func note(_ database: Timestamp, began: ContinuousClock.Instant, on session: borrowing Session) {
        // Behind a pooler it may have waited before it was run: rather late than ahead.
        note(database, began: began, taken: session.isBehindPooler ? .now : began)
    }

    func note(_ database: Timestamp, began: ContinuousClock.Instant, taken: ContinuousClock.Instant) {
        reading.withLock { reading in
            if let last = reading, began < last.began { return }
            reading = Reading(database: database, began: began, taken: taken)
        }
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
