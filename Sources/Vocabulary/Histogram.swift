/// Counts of whole numbers by range, for a Prometheus histogram. They are made cumulative only on output.
package struct Histogram: Sendable, Equatable {
    /// Upper bounds, inclusive, ascending.
    package let bounds: [Int]
    /// One count for each bound, and a last one for values above all bounds.
    package private(set) var counts: [Int]
    package private(set) var sum = 0

    package init(bounds: [Int]) {
        self.bounds = bounds
        counts = [Int](repeating: 0, count: bounds.count + 1)
    }

    package mutating func add(_ value: Int) {
        counts[bounds.firstIndex { value <= $0 } ?? bounds.count] += 1
        sum += max(0, value)
    }

    /// Precondition: the same bounds.
    package mutating func add(_ other: Histogram) {
        precondition(bounds == other.bounds, "histograms of different bounds")
        for index in counts.indices { counts[index] += other.counts[index] }
        sum += other.sum
    }
}
