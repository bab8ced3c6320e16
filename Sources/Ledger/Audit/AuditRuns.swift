/// Ids of messages as ranges that have none but narrow gaps. What is kept of messages in a wide gap, whose messages are
/// pruned, may be more than one statement can read.
enum AuditRuns {
    /// Ids between two adjacent ids of a range, at most.
    static let gapMax: Int64 = 100

    /// - Parameter ids: ascending.
    static func of(_ ids: [Int64]) -> [ClosedRange<Int64>] {
        var runs: [ClosedRange<Int64>] = []
        for id in ids {
            if let last = runs.last, id - last.upperBound <= gapMax {
                runs[runs.count - 1] = last.lowerBound...id
            } else {
                runs.append(id...id)
            }
        }
        return runs
    }
}
