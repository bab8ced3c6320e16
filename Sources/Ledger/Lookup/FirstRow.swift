import Postgres
import Vocabulary

/// Finds a row by time where only its id is indexed: ids are drawn in the order of time, but for batches under way at
/// once. By halving, so that a table of any size costs some thirty look-ups of its primary key.
enum FirstRow {
    /// How far two batches that are under way at once may have their ids and times the other way round.
    static let disorderMilliseconds: Int64 = 60_000

    /// An id below which nothing is as young as `since`: one past the last where nothing is.
    static func find(
        _ since: Timestamp, _ bounds: Statement<(), (Int64?, Int64?)>, _ probe: Statement<Int64, (Int64, Int64)>,
        on session: borrowing Session
    ) throws(DatabaseError) -> Int64 {
        guard let (first, last) = try session.run(bounds, ()).first, var low = first, let last else { return 0 }
        var high = last + 1
        let target = since.advanced(byMilliseconds: -disorderMilliseconds).milliseconds
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
