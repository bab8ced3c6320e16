package import Vocabulary

/// What the last minute added to counters that only rise. It has no clock: each look brings its time.
package struct LastMinute: Sendable {
    package typealias Counts = [SourceAnswer: Int]

    private static let span: Duration = .seconds(60)

    /// Oldest first; the first one is the newest that is at least a minute old, if there is one.
    private var looks: [(at: ContinuousClock.Instant, counts: Counts)]

    /// - Parameter start: when all counters were 0.
    package init(start: ContinuousClock.Instant) { looks = [(start, [:])] }

    /// - Parameter counts: the counters at `time`, which is not before that of the look before.
    /// - Returns: what they rose by within the last minute, and by how much since the look before; nothing that did not
    ///   rise. Of counters that fell, which no daemon's do, nothing.
    package mutating func look(
        _ counts: Counts, at time: ContinuousClock.Instant
    ) -> (minute: Counts, sinceLast: Counts) {
        let sinceLast = Self.rise(from: looks[looks.count - 1].counts, to: counts)
        looks.append((time, counts))
        let old = looks.lastIndex { $0.at <= time - Self.span } ?? 0
        looks.removeFirst(old)
        return (Self.rise(from: looks[0].counts, to: counts), sinceLast)
    }

    private static func rise(from old: Counts, to new: Counts) -> Counts {
        var rise: Counts = [:]
        for (answer, count) in new where count > old[answer, default: 0] {
            rise[answer] = count - old[answer, default: 0]
        }
        return rise
    }
}
