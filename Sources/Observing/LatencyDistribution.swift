/// Latencies of one second, for percentiles, in a fixed number of counters.
///
/// Up to 63 ms each millisecond has its own; above, every doubling is cut into 32 steps, so that a percentile is at
/// most 1/32 (3.2 %) too small (the layout of HdrHistogram).
struct LatencyDistribution: Sendable {
    private var counts: [Int] = []
    private(set) var total = 0

    /// Latencies from here on count as this one (about 17 minutes; no attempt lasts two).
    private static let millisecondsMax = 1 << 20

    mutating func add(milliseconds: Int) {
        let index = Self.index(of: min(max(0, milliseconds), Self.millisecondsMax))
        if index >= counts.count { counts.append(contentsOf: repeatElement(0, count: index + 1 - counts.count)) }
        counts[index] += 1
        total += 1
    }

    /// The smallest latency that at least this share (0…1) of all do not exceed; 0 where there are none.
    func percentile(_ share: Double) -> Int {
        let rank = max(1, Int((share * Double(total)).rounded(.up)))
        var seen = 0
        for (index, count) in counts.enumerated() {
            seen += count
            if seen >= rank { return Self.milliseconds(at: index) }
        }
        return 0
    }

    static func index(of milliseconds: Int) -> Int {
        guard milliseconds >= 64 else { return milliseconds }
        let shift = Int.bitWidth - milliseconds.leadingZeroBitCount - 6
        return shift * 32 + (milliseconds >> shift)
    }

    /// The smallest latency that `index(of:)` puts there.
    static func milliseconds(at index: Int) -> Int {
        guard index >= 64 else { return index }
        let shift = index / 32 - 1
        return (index - shift * 32) << shift
    }
}
