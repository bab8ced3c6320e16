import Postgres

/// Ids of events or of messages as the first three parameters of a statement.
///
/// A plan that is made once leaves out partitions by values, not by the elements of an array: so the smallest and the
/// largest id go with them.
struct IDsInPeriods {
    private let ids: [Int64]
    private let lowest: Int64
    private let highest: Int64

    /// - Returns: nil: there are none.
    init?(_ ids: some Sequence<Int64>) {
        let ids = Set(ids).sorted()
        guard let lowest = ids.first, let highest = ids.last else { return nil }
        (self.ids, self.lowest, self.highest) = (ids, lowest, highest)
    }

    var parameters: ([Int64], Int64, Int64) { (ids, lowest, highest) }

    /// With a fourth one.
    func parameters(and fourth: Int64) -> ([Int64], Int64, Int64, Int64) { (ids, lowest, highest, fourth) }

    static func condition(_ column: SQL) -> SQL { "\(column) = ANY ($1) AND \(column) BETWEEN $2 AND $3" }
}
