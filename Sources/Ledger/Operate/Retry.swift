package import Postgres
package import Vocabulary

/// Makes what waits for its next attempt due now, because the receiver was mended. The attempt that comes counts like
/// any other: the gap that was cut short is used up.
package struct Retry: Sendable {
    /// Deliveries of one transaction.
    private static let stepMax: Int32 = 1_000

    /// What an integration has in the queue.
    package struct Waiting: Sendable {
        package let integration: Int32
        /// Deliveries whose next attempt is later than now.
        package let later: Int
        /// Deliveries behind an earlier one of their purchase.
        package let blocked: Int
        /// Those that are due, or on their way.
        package let due: Int
    }

    let message: Int64?
    /// What is waiting as it begins, by integration; those with nothing in the queue are left out.
    package let waiting: [Waiting]
    /// Deliveries of each that are still to be made due. What fails meanwhile and waits anew is not counted, so that
    /// there is an end.
    private var left: [Int32: Int]
    /// Integrations whose breakers were told to probe.
    private var probed: Set<Int32> = []

    /// - Parameter message: only this one's deliveries; nil: all.
    /// - Returns: nil if the message is not stored.
    package static func start(
        _ integrations: [Int32], message: Identifier?, in pool: Pool
    ) async throws(DatabaseError) -> Retry? {
        try await pool.withSession { session throws(DatabaseError) in
            let row = try message.map { key throws(DatabaseError) in try session.run(ReplayStatements.message, key) }
            if let row, row.isEmpty { return nil }
            let waiting = try session.run(RetryStatements.look, (integrations.sorted(), row?.first))
            let left = Dictionary(firstOf: waiting.map { ($0.integration, $0.later) })
            return Retry(message: row?.first, waiting: waiting, left: left)
        }
    }

    package var isDone: Bool { left.isEmpty }

    /// Makes one step of deliveries due. The first of an integration lets its breaker probe at once, if it is open.
    /// - Returns: how many.
    package mutating func step(in pool: Pool) async throws(DatabaseError) -> Int {
        guard let (integration, count) = left.min(by: { $0.key < $1.key }) else { return 0 }
        let (limit, message) = (min(Int32(clamping: count), Self.stepMax), message)
        let isFirst = probed.insert(integration).inserted
        let made = try await pool.retriedTransaction { session throws(DatabaseError) in
            let made = try session.run(RetryStatements.step, (integration, message, limit)).count
            if isFirst { _ = try session.execute(RetryStatements.probe, integration) }
            _ = try session.execute(RecordStatements.notify, "")
            return made
        }
        left[integration] = made < Int(limit) || made >= count ? nil : count - made
        return made
    }
}

enum RetryStatements {
    static let look = Statement<([Int32], Int64?), Retry.Waiting>(
        "retry_look",
        """
        SELECT integration, count(*) FILTER (WHERE leased_by IS NULL AND NOT blocked AND due_at > now()),
               count(*) FILTER (WHERE blocked),
               count(*) FILTER (WHERE leased_by IS NOT NULL OR NOT blocked AND due_at <= now())
        FROM deliveries WHERE integration = ANY ($1) AND ($2 IS NULL OR message = $2)
        GROUP BY integration ORDER BY integration
        """, row: Retry.Waiting.init)

    /// The deliveries that were due first. Leaves what is locked to whoever has it.
    static let step = Statement<(Int32, Int64?, Int32), Int64>(
        "retry_step",
        """
        WITH later AS MATERIALIZED (
            SELECT id FROM deliveries
            WHERE integration = $1 AND ($2 IS NULL OR message = $2) AND leased_by IS NULL AND NOT blocked
                AND due_at > now()
            ORDER BY due_at, id LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED)
        UPDATE deliveries d SET due_at = now() FROM later WHERE d.id = later.id RETURNING d.id
        """)

    /// Lets an open breaker probe now, unless a probe is under way.
    static let probe = Statement<Int32, ()>(
        "retry_probe",
        """
        UPDATE breakers SET next_probe_at = now()
        WHERE integration = $1 AND probed_by IS NULL AND next_probe_at > now()
        """)
}
