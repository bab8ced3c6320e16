package import Postgres
package import Vocabulary

/// Delivers settled messages again, accepted ones and dead letters. A message keeps its id.
///
/// Runs in steps of one transaction each, in message order. Messages that wait already are left out, and dead letters
/// leave with their step: a replay of them that was interrupted continues when it is run again. One of accepted
/// messages begins anew, because those that it had queued may have been accepted once more.
package struct Replay: Sendable {
    package struct Filter: Sendable {
        package var message: Identifier?
        /// Rows of integrations.
        package var integrations: [Int32]
        /// Bounds of the time of settling.
        package var since: Timestamp?
        package var until: Timestamp?
        /// Matches the type.
        package var event: Glob?
        /// `true`: dead letters; `false`: accepted; nil: both.
        package var isDead: Bool?

        package init(
            message: Identifier? = nil, integrations: [Int32], since: Timestamp? = nil, until: Timestamp? = nil,
            event: Glob? = nil, isDead: Bool? = nil
        ) {
            self.message = message
            self.integrations = integrations
            self.since = since
            self.until = until
            self.event = event
            self.isDead = isDead
        }
    }

    /// Messages that one statement counts.
    private static let countedMax: Int32 = 10_000

    let filter: Filter
    let requeue: Requeue
    /// Rows of messages.
    private let messages: ClosedRange<Int64>
    /// The database's time when this began: what is settled from then on is not replayed again.
    private let startedAt: Int64
    private var cursor: (message: Int64, integration: Int32)
    package private(set) var isDone = false

    /// Returns nil if there is no such message.
    package static func start(
        _ filter: Filter, routes: [RoutedIntegration], in pool: Pool
    ) async throws(DatabaseError) -> Replay? {
        try await pool.withSession { session throws(DatabaseError) in
            guard let now = try session.run(PruneStatements.now, ()).first else {
                throw .protocolViolation(reason: "the database does not say its time")
            }
            guard let key = filter.message else { return Replay(filter, routes, messages: 0...(.max), startedAt: now) }
            let row = try session.run(ReplayStatements.message, key).first
            return row.map { Replay(filter, routes, messages: $0...$0, startedAt: now) }
        }
    }

    private init(_ filter: Filter, _ routes: [RoutedIntegration], messages: ClosedRange<Int64>, startedAt: Int64) {
        self.filter = filter
        self.messages = messages
        self.startedAt = startedAt
        cursor = (messages.lowerBound, 0)
        requeue = Requeue(ordered: Set(routes.filter { $0.integration.order == .purchase }.map(\.row)))
    }

    private var since: Int64 { max(filter.since?.milliseconds ?? 0, 0) }
    private var until: Int64 { min(filter.until?.milliseconds ?? .max, startedAt) }

    /// Counts the messages to replay by integration, including those that wait to be delivered already.
    package func count(in pool: Pool) async throws(DatabaseError) -> [Int32: Int] {
        var counts: [Int32: Int] = [:]
        var from = cursor
        while true {
            let wanted = wanted(from: from, limit: Self.countedMax)
            let page = try await pool.withSession { session throws(DatabaseError) in
                try session.run(ReplayStatements.page, wanted)
            }
            for row in page { counts[row.requeued.integration, default: 0] += 1 }
            guard page.count == Int(Self.countedMax), let last = page.last?.requeued else { return counts }
            from = (last.message, last.integration)
        }
    }

    private func wanted(from: (message: Int64, integration: Int32), limit: Int32) -> ReplayStatements.Wanted {
        (
            messages.upperBound, filter.integrations, since, until, filter.event.map(\.likePattern),
            filter.isDead != false, filter.isDead != true, from.message, from.integration, limit
        )
    }

    /// Does the next step.
    /// - Returns: how many messages were looked at, and how many of them were put into the queue.
    package mutating func step(in pool: Pool) async throws(DatabaseError) -> (seen: Int, queued: Int) {
        let wanted = wanted(from: cursor, limit: Requeue.stepMax)
        let requeue = requeue
        let (found, queued) = try await pool.retriedTransaction { session throws(DatabaseError) in
            try Requeue.lock(on: session)
            let found = try session.run(ReplayStatements.page, wanted)
            let queued = found.filter { !$0.isWaiting }.map(\.requeued)
            try requeue.write(queued, on: session)
            _ = try session.execute(
                RequeueStatements.removeDeadLetters, (queued.map(\.message), queued.map(\.integration)))
            return (found, queued.count)
        }
        if let last = found.last?.requeued { cursor = (last.message, last.integration) }
        isDone = found.count < Int(Requeue.stepMax)
        return (found.count, queued)
    }
}

extension Glob {
    /// The same pattern for SQL's LIKE.
    var likePattern: String {
        var out = ""
        for scalar in pattern.unicodeScalars {
            switch scalar {
            case "*": out += "%"
            case "?": out += "_"
            case "%", "_", "\\": out += "\\" + String(scalar)
            default: out.unicodeScalars.append(scalar)
            }
        }
        return out
    }
}

enum ReplayStatements {
    /// Last message, integrations, settled from and before (ms), type, dead, delivered, after (message, integration),
    /// limit.
    typealias Wanted = (Int64, [Int32], Int64, Int64, String?, Bool, Bool, Int64, Int32, Int32)

    static let message = Statement<Identifier, Int64>(
        "replay_message",
        """
        SELECT id FROM messages WHERE key = $1
        UNION ALL
        SELECT m.id FROM identities i JOIN messages m ON m.event = i.event AND m.key IS NULL WHERE i.key = $1
        """)

    /// - Parameter isWaiting: whether it waits to be delivered already.
    private static func settled(
        message: Int64, integration: Int32, purchase: Identifier?, isWaiting: Bool
    ) -> (requeued: Requeued, isWaiting: Bool) {
        (Requeued(message: message, integration: integration, purchase: purchase), isWaiting)
    }

    /// Each list is limited in the order of its index before they are combined; by GROUP BY, because before PostgreSQL
    /// 16 a DISTINCT sorts all that is left. Whether a row waits to be delivered already is looked up by its purchase,
    /// which is indexed, or else in one list of those without.
    static let page = Statement<Wanted, (requeued: Requeued, isWaiting: Bool)>(
        "replay_page",
        """
        WITH settled AS MATERIALIZED (
            SELECT s.message, s.integration, coalesce(t.purchase, e.purchase) AS purchase
            FROM (
                (SELECT l.message, l.integration FROM dead_letters l \(RowByID.message("l.message", as: "m"))
                 WHERE $6 AND l.integration = ANY ($2) AND l.message BETWEEN $8 AND $1
                   AND (l.message, l.integration) > ($8, $9) AND ($5 IS NULL OR m.type LIKE $5)
                   AND l.died_at >= timestamptz 'epoch' + $3 * interval '1 millisecond'
                   AND l.died_at < timestamptz 'epoch' + $4 * interval '1 millisecond'
                 GROUP BY 1, 2 ORDER BY 1, 2 LIMIT $10)
                UNION
                (SELECT a.message, a.integration FROM attempts a \(RowByID.message("a.message", as: "m"))
                 WHERE $7 AND a.integration = ANY ($2) AND a.message BETWEEN $8 AND $1
                   AND (a.message, a.integration) > ($8, $9)
                   AND ($5 IS NULL OR m.type LIKE $5) AND a.outcome = 'accepted'
                   AND a.at >= timestamptz 'epoch' + $3 * interval '1 millisecond'
                   AND a.at < timestamptz 'epoch' + $4 * interval '1 millisecond'
                 GROUP BY 1, 2 ORDER BY 1, 2 LIMIT $10)) AS s
            \(RowByID.message("s.message", as: "m")) \(RowByID.event("m.event", as: "e"))
            LEFT JOIN transfers t ON t.id = m.transfer
            ORDER BY s.message, s.integration LIMIT $10)
        SELECT s.message, s.integration, s.purchase,
               CASE WHEN s.purchase IS NULL
                    THEN (s.message, s.integration) IN (
                        SELECT d.message, d.integration FROM deliveries d
                        WHERE d.purchase IS NULL AND d.integration = ANY ($2))
                    ELSE EXISTS (
                        SELECT FROM deliveries d WHERE d.purchase = s.purchase AND d.integration = s.integration
                            AND d.message = s.message) END
        FROM settled s ORDER BY s.message, s.integration
        """, row: settled)
}
