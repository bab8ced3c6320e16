import Vocabulary

/// A stretch of time whose events lie in one partition, and whose messages lie in another.
///
/// Ids name their period: id = period × 2³² + number. A new period moves the sequences to its first id, so no clock is
/// in an id: a clock that is set back, midnight and a day without a daemon change nothing. Ids stay below 2⁵³, which
/// JSON can carry, for two million periods.
enum Period {
    /// Periods that are kept, at most, beside those that wait to be dropped. A look-up by purchase asks each: over 60
    /// it takes 0.6 ms, over 400 it took 4.8.
    static let keptMax = 60
    /// Where periods that are over cannot be dropped, none begins beyond so many: each locks tables for a look-up.
    static let keptHardMax = 2 * keptMax
    static let shortest: Duration = .seconds(86_400)
    /// An event may have drawn its id before its period ended and be recorded after.
    static let slack: Duration = .seconds(3_600)

    static func firstID(_ period: Int64) -> Int64 { period << 32 }
    static func of(_ id: Int64) -> Int64 { id >> 32 }

    /// How long a period lasts: a day, or a sixtieth of the time for which events are kept, whichever is longer.
    static func length(_ retention: Retention) -> Duration {
        max(shortest, retention.events / keptMax)
    }
}

/// The periods that stand, and how far the ids are.
struct PeriodFacts: Equatable, Sendable {
    struct Existing: Equatable, Sendable {
        let period: Int64
        /// How long ago it began.
        let age: Duration
    }

    /// Ascending; empty: the tables are not partitioned yet.
    let existing: [Existing]
    /// The last ids drawn, of events and of messages.
    let positions: [Int64]

    /// The period that is to begin now; nil: the newest goes on.
    func due(_ retention: Retention) -> Int64? {
        guard let newest = existing.last else { return nil }
        // A dump may have the sequences as they were after its tables.
        let reached = positions.map { Period.of($0 + 1) }.max() ?? 0
        if reached > newest.period { return reached }
        guard newest.age >= Period.length(retention), existing.count < Period.keptHardMax else { return nil }
        return newest.period + 1
    }

    /// The last id before the newest period, where a sequence is below it: the partitions are there, and whoever made
    /// them did not get so far.
    var missedID: Int64? {
        guard let newest = existing.last else { return nil }
        let last = Period.firstID(newest.period) - 1
        return positions.contains { $0 < last } ? last : nil
    }

    /// The first id of the oldest period that is not past its time; nil: none ends that way, because the tables are not
    /// partitioned yet, or because no period begins any more and the newest grows on.
    func firstIDWithinTime(_ retention: Retention) -> Int64? {
        let past = Set(past(retention))
        if existing.count >= Period.keptHardMax, past.count == existing.count - 1 { return nil }
        return existing.first { !past.contains($0.period) }.map { Period.firstID($0.period) }
    }

    /// The periods whose events are all past their time, ascending: the next began before that. Never the newest.
    func past(_ retention: Retention) -> [Int64] {
        zip(existing, existing.dropFirst()).prefix { $1.age > retention.events + Period.slack }.map(\.0.period)
    }
}
