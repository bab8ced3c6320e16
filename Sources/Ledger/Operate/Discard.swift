package import Postgres
import Vocabulary

/// Gives up what waits for an integration: each delivery becomes a dead letter that says so and can be replayed.
package enum Discard {
    /// Deliveries of one transaction.
    private static let stepMax: Int32 = 1_000
    /// Of such a dead letter. `Audit` knows it by this.
    static let reason = "discarded by hand"

    package struct Waiting: Sendable {
        package let all: Int
        /// Those that a daemon is delivering just now.
        package let leased: Int
        /// Row of the newest; later ones are not discarded.
        package let last: Int64
    }

    /// - Parameter last: later rows do not count.
    package static func look(
        _ integration: Int32, upTo last: Int64 = .max, in pool: Pool
    ) async throws(DatabaseError) -> Waiting {
        try await pool.withSession { session throws(DatabaseError) in
            guard let waiting = try session.run(DiscardStatements.look, (integration, last)).first else {
                throw .protocolViolation(reason: "counting deliveries came to nothing")
            }
            return waiting
        }
    }

    /// Gives up one step of deliveries from `cursor` to `last`, except leased ones, and unblocks their successors.
    /// - Returns: how many were given up, and whether that was the last step.
    package static func step(
        _ integration: Int32, from cursor: inout Int64, upTo last: Int64, in pool: Pool
    ) async throws(DatabaseError) -> (discarded: Int, isDone: Bool) {
        let from = cursor
        let (ids, count, heads) = try await pool.retriedTransaction { session throws(DatabaseError) in
            let page = try session.run(DiscardStatements.page, (integration, from, last, stepMax))
            // So that no webhook is recorded meanwhile whose delivery one of these would block.
            let purchases = Set(page.compactMap { _, purchase in purchase }).sorted()
            _ = try session.execute(RequeueStatements.lockPurchases, purchases)
            let ids = page.map { id, _ in id }
            let gone = try session.run(DiscardStatements.step, (ids, reason))
            let heads = gone.compactMap { $0.map { FanOut.OrderingKey(purchase: $0, integration: integration) } }
            return (ids, gone.count, Set(heads))
        }
        // After the commit: what is settled meanwhile passes over a row that this has locked (`Successors`).
        await Queue.unblock(successorsOf: heads, in: pool)
        cursor = ids.last ?? cursor
        return (count, ids.count < Int(stepMax))
    }
}

enum DiscardStatements {
    static let look = Statement<(Int32, Int64), Discard.Waiting>(
        "discard_look",
        """
        SELECT count(*), count(*) FILTER (WHERE leased_by IS NOT NULL), coalesce(max(id), 0)
        FROM deliveries WHERE integration = $1 AND id <= $2
        """, row: Discard.Waiting.init)

    static let page = Statement<(Int32, Int64, Int64, Int32), (Int64, Identifier?)>(
        "discard_page",
        """
        SELECT id, purchase FROM deliveries WHERE integration = $1 AND id > $2 AND id <= $3 AND leased_by IS NULL
        ORDER BY id LIMIT $4
        """)

    /// Leaves what is locked or leased meanwhile to the next run.
    static let step = Statement<([Int64], String), Identifier?>(
        "discard_step",
        """
        WITH given_up AS MATERIALIZED (
            SELECT id FROM deliveries WHERE id = ANY ($1) AND leased_by IS NULL ORDER BY id FOR UPDATE SKIP LOCKED),
        gone AS (
            DELETE FROM deliveries d USING given_up g WHERE d.id = g.id
            RETURNING d.id, d.message, d.integration, d.purchase, d.attempts, d.created_at)
        INSERT INTO dead_letters (delivery, message, integration, purchase, attempts, reason, created_at)
        SELECT id, message, integration, purchase, attempts, $2, created_at FROM gone RETURNING purchase
        """)
}
