import Postgres

/// The events of a holder, in SQL. No index has all of them: most are of a purchase that `entitlements` names for the
/// holder, and are found by that purchase; the others are stray, and indexed by their holder. So a renewal is in one
/// large index instead of two.
enum EventsOfHolder {
    /// A query for the ids of the first `limit` events in an order, and perhaps of later ones; each id once.
    /// - Parameters:
    ///   - holder: an expression without a column of `events` or `entitlements`.
    ///   - condition: about columns of `events`.
    ///   - order: ASC or DESC, of ids.
    static func rows(
        _ holder: SQL, where condition: SQL = "true", order: SQL = "ASC", limit: SQL
    ) -> SQL {
        """
        (SELECT id FROM events WHERE holder = \(holder) AND stray AND \(condition) ORDER BY id \(order) LIMIT \(limit))
        UNION
        (SELECT own.id FROM entitlements n CROSS JOIN LATERAL (
            SELECT id FROM events WHERE purchase = n.purchase AND holder = \(holder) AND \(condition)
            ORDER BY id \(order) LIMIT \(limit)) AS own
         WHERE n.holder = \(holder) ORDER BY own.id \(order) LIMIT \(limit))
        """
    }
}
