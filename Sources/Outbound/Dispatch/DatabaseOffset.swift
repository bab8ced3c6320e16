import NIOCore
import Vocabulary

/// What this machine's clock says at a time of the database. Each question narrows it: its answer was made between
/// asking and hearing it, so a slow one says little and takes nothing away from what quick ones said.
struct DatabaseOffset {
    /// Clocks drift apart by no more than this, in parts per million.
    private static let driftMax: Int64 = 200

    /// Bounds of local time less database time, in nanoseconds.
    private var bounds: ClosedRange<Int64>?
    private var learntAt = NIODeadline.uptimeNanoseconds(0)
    /// Of the last question.
    private(set) var roundTrip = TimeAmount.zero

    mutating func learn(_ microseconds: Int64, askedAt: NIODeadline, answeredAt: NIODeadline) {
        let (asked, answered) = (Self.nanoseconds(askedAt), Self.nanoseconds(max(askedAt, answeredAt)))
        let new = asked - microseconds * 1_000...answered - microseconds * 1_000
        // One that was set is believed at once.
        let drift = max(0, answered - Self.nanoseconds(learntAt)) * Self.driftMax / 1_000_000
        let old = bounds.map { $0.lowerBound - drift...$0.upperBound + drift } ?? new
        bounds = old.overlaps(new) ? new.clamped(to: old) : new
        learntAt = answeredAt
        roundTrip = answeredAt - askedAt
    }

    func local(_ microseconds: Int64) -> NIODeadline {
        guard let bounds else { preconditionFailure("a time of a database that nobody has asked") }
        // Of an answer that came late, the way back was long, or the commit: the time was read near its beginning.
        let late = TimeAmount(Limits.rateLateness).nanoseconds / 2
        let offset = bounds.lowerBound + min((bounds.upperBound - bounds.lowerBound) / 2, late)
        return .uptimeNanoseconds(UInt64(max(0, microseconds * 1_000 + offset)))
    }

    private static func nanoseconds(_ time: NIODeadline) -> Int64 { Int64(time.uptimeNanoseconds) }
}
