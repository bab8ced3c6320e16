import Postgres
import Vocabulary

/// The status of a purchase, as one of its transactions states it.
struct KnownStatus {
    let purchase: Identifier
    let status: String
    /// The newest event that states it.
    let asOf: Timestamp
    let asOfEvent: Identifier
}

/// Decides whether a gain ends a pause, for vendors who call it a recovery like any other. Like the conversion of a
/// trial, it is the best that is known when the event is recorded.
enum PauseEnd {
    /// `status` of a purchase that is paused.
    private static let paused = "PAUSED"

    /// - Parameter known: statuses of one purchase, in any order.
    static func isPaused(after known: [KnownStatus]) -> Bool {
        known.max { ($0.asOf, $0.asOfEvent) < ($1.asOf, $1.asOfEvent) }?.status == paused
    }
}

extension KnownStatus {
    /// Nil: it says nothing of a status.
    init?(_ row: BatchPlan.TransactionRow) {
        guard let status = row.transaction.status else { return nil }
        self.init(purchase: row.purchase, status: status, asOf: row.asOf, asOfEvent: row.asOfEvent)
    }
}

enum KnownStatusStatements {
    private static func status(
        purchase: Identifier, status: String, asOf: Timestamp, asOfEvent: Identifier
    ) -> KnownStatus {
        KnownStatus(purchase: purchase, status: status, asOf: asOf, asOfEvent: asOfEvent)
    }

    /// The newest status of each of the purchases, by their hashes ($1).
    static let ofNamed = Statement<[Identifier], KnownStatus>(
        "record_status_of_named",
        """
        \(selected) FROM unnest($1) AS w (hash)
        CROSS JOIN LATERAL (SELECT id FROM purchases p WHERE coalesce(p.hash, p.id) = w.hash LIMIT 1) AS p
        \(newest)
        """, row: status)

    /// The same before `LedgerForm.timedKeys`, by their ids.
    static let ofIDs = Statement<[Identifier], KnownStatus>(
        "record_status",
        """
        \(selected) FROM unnest($1) AS w (id) CROSS JOIN LATERAL (SELECT w.id) AS p
        \(newest)
        """, row: status)

    private static let selected: SQL = "SELECT p.id, t.status, t.as_of_ms, t.as_of_event"
    private static let newest: SQL = """
        CROSS JOIN LATERAL (
            SELECT * FROM transactions t WHERE t.purchase = p.id AND t.status IS NOT NULL
            ORDER BY t.as_of_ms DESC, t.as_of_event DESC LIMIT 1) AS t
        """
}
