import NIOCore
import Vocabulary

/// Converts a time of the database to this machine's clock. Each query narrows the offset: the database read its time
/// between the query and the answer, so a slow answer adds little but undoes nothing that quick ones showed.
struct DatabaseOffset {
    /// The most by which the clocks drift apart, in parts per million.
    private static let driftMax: Int64 = 200

    /// Bounds of local time minus database time, in nanoseconds.
    private var bounds: ClosedRange<Int64>?
    private var learntAt = NIODeadline.uptimeNanoseconds(0)
    /// Of the last query.
    private(set) var roundTrip = TimeAmount.zero

    mutating func learn(_ microseconds: Int64, askedAt: NIODeadline, answeredAt: NIODeadline) {
        let (asked, answered) = (Self.nanoseconds(askedAt), Self.nanoseconds(max(askedAt, answeredAt)))
        let new = asked - microseconds * 1_000...answered - microseconds * 1_000
        // Bounds that no longer overlap mean that a clock was set: the new ones are believed at once.
        let drift = max(0, answered - Self.nanoseconds(learntAt)) * Self.driftMax / 1_000_000
        let old = bounds.map { $0.lowerBound - drift...$0.upperBound + drift } ?? new
        bounds = old.overlaps(new) ? new.clamped(to: old) : new
        learntAt = answeredAt
        roundTrip = answeredAt - askedAt
    }

    func local(_ microseconds: Int64) -> NIODeadline {
        guard let bounds else { preconditionFailure("a time of a database that was never queried") }
        // A late answer spent its time on the way back or in the commit: the database read its time near the beginning.
        let late = TimeAmount(Limits.rateLateness).nanoseconds / 2
        let offset = bounds.lowerBound + min((bounds.upperBound - bounds.lowerBound) / 2, late)
        return .uptimeNanoseconds(UInt64(max(0, microseconds * 1_000 + offset)))
    }

    private static func nanoseconds(_ time: NIODeadline) -> Int64 { Int64(time.uptimeNanoseconds) }
}
