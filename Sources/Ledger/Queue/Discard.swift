package import Postgres
import Vocabulary

/// Giving up what waits for an integration: each delivery becomes a dead letter that says so, and can be replayed.
package enum Discard {
    /// Deliveries of one transaction.
    private static let stepMax: Int32 = 1_000

    /// What waits, and how much of it a daemon is delivering just now.
    package static func count(
        _ integration: Int32, in pool: Pool
    ) async throws(DatabaseError) -> (all: Int, leased: Int) {
        try await pool.withSession { session throws(DatabaseError) in
            let row = try session.run(DiscardStatements.count, integration).first ?? (0, 0)
            return (Int(row.0), Int(row.1))
        }
    }

    /// One step from `cursor` on, past what a daemon has.
    /// - Returns: how many were given up; 0 at the end.
    package static func step(
        _ integration: Int32, from cursor: inout Int64, in pool: Pool
    ) async throws(DatabaseError) -> Int {
        let from = cursor
        let gone = try await pool.withSession { session throws(DatabaseError) in
            try session.run(DiscardStatements.step, (integration, from, stepMax, "discarded by hand"))
        }
        cursor = gone.max() ?? cursor
        return gone.count
    }
}

enum DiscardStatements {
    static let count = Statement<Int32, (Int64, Int64)>(
        "discard_count",
        "SELECT count(*), count(*) FILTER (WHERE leased_by IS NOT NULL) FROM deliveries WHERE integration = $1")

    /// What a webhook is being recorded behind is locked, and left to the next run.
    static let step = Statement<(Int32, Int64, Int32, String), Int64>(
        "discard_step",
        """
        WITH given_up AS MATERIALIZED (
            SELECT id FROM deliveries WHERE integration = $1 AND id > $2 AND leased_by IS NULL
            ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED),
        gone AS (
            DELETE FROM deliveries d USING given_up g WHERE d.id = g.id
            RETURNING d.id, d.message, d.integration, d.purchase, d.attempts, d.created_at)
        INSERT INTO dead_letters (delivery, message, integration, purchase, attempts, reason, created_at)
        SELECT id, message, integration, purchase, attempts, $4, created_at FROM gone RETURNING delivery
        """)
}
