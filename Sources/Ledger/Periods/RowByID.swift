import Postgres

/// Rows of events and messages by their ids, as joins in SQL.
///
/// The planner adds up the cost of all partitions for each row that it joins, because it does not count on leaving out
/// all but one at run time: it would rather read the tables whole. So each row is asked for by itself.
enum RowByID {
    /// - Parameters:
    ///   - id: an expression over what stands before.
    ///   - name: of the joined row.
    static func event(_ id: SQL, as name: SQL) -> SQL { join("events", id, name) }

    /// The row is null where the event is not kept any more.
    static func eventIfKept(_ id: SQL, as name: SQL) -> SQL { joinIfKept("events", id, name) }

    static func message(_ id: SQL, as name: SQL) -> SQL { join("messages", id, name) }

    /// The row is null where the message is not kept any more.
    static func messageIfKept(_ id: SQL, as name: SQL) -> SQL { joinIfKept("messages", id, name) }

    private static func joinIfKept(_ table: SQL, _ id: SQL, _ name: SQL) -> SQL {
        "LEFT JOIN LATERAL (SELECT * FROM \(table) WHERE id = \(id) LIMIT 1) AS \(name) ON true"
    }

    private static func join(_ table: SQL, _ id: SQL, _ name: SQL) -> SQL {
        "CROSS JOIN LATERAL (SELECT * FROM \(table) WHERE id = \(id) LIMIT 1) AS \(name)"
    }
}
