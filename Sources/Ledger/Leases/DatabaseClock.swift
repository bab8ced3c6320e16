import Synchronization
package import Vocabulary

/// The database's time, advanced between two readings by this machine's monotonic clock, so that setting the wall clock
/// moves no retry. Stored times use database time only.
package final class DatabaseClock: Sendable {
    private struct Reading {
        var database: Timestamp
        var taken: ContinuousClock.Instant
    }

    /// A reading that takes longer says too little: the network, or a pooler, may have kept it back.
    private static let readingMax: Duration = .seconds(1)

    private let reading = Mutex<Reading?>(nil)

    package init() {}

    /// Takes a reading, unless it took long or a later one is known. The first one is taken anyhow, and is then rather
    /// late than ahead.
    ///
    /// - Parameters:
    ///   - database: when the transaction began, or a statement outside one.
    ///   - began: just before that was sent.
    ///   - ended: when it was answered.
    func addReading(_ database: Timestamp, began: ContinuousClock.Instant, ended: ContinuousClock.Instant = .now) {
        let isQuick = ended - began <= Self.readingMax
        reading.withLock { reading in
            if let last = reading, !isQuick || began < last.taken { return }
            reading = Reading(database: database, taken: isQuick ? began : ended)
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
