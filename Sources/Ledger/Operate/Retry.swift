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
    /// Deliveries of each that were made due.
    package private(set) var made: [Int32: Int] = [:]
    /// How far the walk through the one at hand is; nil: it has not begun.
    private var cursor: RetryStatements.Made?

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

    /// All of some integrations, for a daemon that reports nothing of it: what `look` counts besides takes long where
    /// much waits.
    fileprivate static func ofAll(_ integrations: [Int32], in pool: Pool) async throws(DatabaseError) -> Retry {
        let later = try await pool.withSession { session throws(DatabaseError) in
            try session.run(RetryStatements.later, integrations.sorted())
        }
        let counts = Dictionary(firstOf: later.map { integration, count in (integration, count) })
        // Also those without any: what is due waits for the probe of an open breaker.
        let left = Dictionary(firstOf: integrations.map { ($0, counts[$0] ?? 0) })
        return Retry(message: nil, waiting: [], left: left)
    }

    package var isDone: Bool { left.isEmpty }

    /// Makes one step of deliveries due. The first of an integration lets its breaker probe at once, if it is open.
    /// - Returns: how many.
    package mutating func step(in pool: Pool) async throws(DatabaseError) -> Int {
        guard let (integration, count) = left.min(by: { $0.key < $1.key }) else { return 0 }
        let (limit, message, cursor) = (min(Int32(clamping: count), Self.stepMax), message, cursor)
        let rows = try await pool.retriedTransaction { session throws(DatabaseError) in
            let from = cursor ?? RetryStatements.Made(id: 0, dueMicroseconds: 0)
            let rows = try session.run(
                RetryStatements.step, (integration, message, from.dueMicroseconds, from.id, limit))
            if cursor == nil { _ = try session.execute(RetryStatements.probe, integration) }
            _ = try session.execute(RecordStatements.notify, "")
            return rows
        }
        made[integration, default: 0] += rows.count
        let isLast = rows.count < Int(limit) || rows.count >= count
        left[integration] = isLast ? nil : count - rows.count
        self.cursor = isLast ? nil : rows.max { ($0.dueMicroseconds, $0.id) < ($1.dueMicroseconds, $1.id) }
        return rows.count
    }
}

extension Queue {
    /// Tries now what waits for integrations whose lanes were replaced by a reload. What the old lanes have under way
    /// waits for its gap if it fails. While the database is away or slow this goes on, until it is cancelled: the
    /// reload has said that all of it is due.
    package func tryNow(_ integrations: [RoutedIntegration]) async {
        if integrations.isEmpty { return }
        let names = integrations.map(\.integration.name).sorted().joined(separator: ", ")
        var retry: Retry?
        var pause = Limits.reconnectBackoff.lowerBound
        let what = "making due what waits for \(names)"
        while !Task.isCancelled {
            do throws(DatabaseError) {
                if retry == nil { retry = try await Retry.ofAll(integrations.map(\.row), in: pool) }
                while retry?.isDone == false {
                    _ = try await retry?.step(in: pool)
                    pause = Limits.reconnectBackoff.lowerBound
                }
                succeeded(what)
                return
            } catch {
                guard error.isTemporary else {
                    return observe(
                        .warning(
                            "the reload reported deliveries to \(names) as due, but they could not be made due; they "
                                + "keep their next attempt time (posthouse retry makes them due): \(error)"))
                }
                // The pool logs that the database is out of reach.
                if error.isRetryable { report(error, doing: what) }
            }
            try? await Task.sleep(for: pause)
            pause = min(pause * 2, Limits.reconnectBackoff.upperBound)
        }
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

    /// What `look` calls `later`, by the index `deliveries_due` alone.
    static let later = Statement<[Int32], (Int32, Int)>(
        "retry_later",
        """
        SELECT integration, count(*) FROM deliveries
        WHERE integration = ANY ($1) AND leased_by IS NULL AND NOT blocked AND due_at > now()
        GROUP BY integration
        """)

    struct Made {
        let id: Int64
        /// When it would have been due.
        let dueMicroseconds: Int64
    }

    /// The deliveries that would have been due first, after a cursor ($3 microseconds, $4 id): behind it are those that
    /// were made due already. Leaves what is locked to whoever has it.
    static let step = Statement<(Int32, Int64?, Int64, Int64, Int32), Made>(
        "retry_step",
        """
        WITH later AS MATERIALIZED (
            SELECT id, due_at FROM deliveries
            WHERE integration = $1 AND ($2 IS NULL OR message = $2) AND leased_by IS NULL AND NOT blocked
                AND due_at > now() AND (due_at, id) > (timestamptz 'epoch' + $3 * interval '1 microsecond', $4)
            ORDER BY due_at, id LIMIT $5 FOR NO KEY UPDATE SKIP LOCKED)
        UPDATE deliveries d SET due_at = now() FROM later WHERE d.id = later.id
        RETURNING d.id, (extract(epoch FROM later.due_at) * 1000000)::bigint
        """, row: Made.init)

    /// Lets an open breaker probe now, unless a probe is under way.
    static let probe = Statement<Int32, ()>(
        "retry_probe",
        """
        UPDATE breakers SET next_probe_at = now()
        WHERE integration = $1 AND probed_by IS NULL AND next_probe_at > now()
        """)
}
