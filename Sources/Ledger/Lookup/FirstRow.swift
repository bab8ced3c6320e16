import Postgres
import Vocabulary

/// Finds a row by time where only its id is indexed. Ids are drawn in order of time, except among concurrent batches.
/// Halving keeps it to some thirty look-ups of the primary key, whatever the size of the table.
enum FirstRow {
    /// How far apart in time two concurrent batches may be whose ids are in the reverse order.
    static let disorderMilliseconds: Int64 = 60_000

    /// Returns an id below which no row is as new as `since`; if no row is, one past the last id.
    static func find(
        _ since: Timestamp, _ bounds: Statement<(), (Int64?, Int64?)>, _ probe: Statement<Int64, (Int64, Timestamp)>,
        on session: borrowing Session
    ) throws(DatabaseError) -> Int64 {
        guard let (first, last) = try session.run(bounds, ()).first, var low = first, let last else { return 0 }
        var high = last + 1
        let target = since.advanced(byMilliseconds: -disorderMilliseconds)
        while low < high {
            let middle = low + (high - low) / 2
            if let (id, time) = try session.run(probe, middle).first, time < target {
                low = max(id, middle) + 1
            } else {
                high = middle
            }
        }
        return low
    }
}
