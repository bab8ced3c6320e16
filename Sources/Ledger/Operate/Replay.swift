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
    private static let dayMilliseconds: Int64 = 86_400_000

    /// The last message that was looked at, with the last integration that it went to. What matches may be far apart: a
    /// page ends where it has looked at `rowsMax` rows of a table, whether they match or not.
    private struct Cursor {
        var message: Int64
        var integration: Int32
        /// The last message of the page; nil: it is still to be found.
        var end: Int64?
    }

    let filter: Filter
    let requeue: Requeue
    private let rowsMax: Int32
    /// Rows of messages.
    private let messages: ClosedRange<Int64>
    /// The database's time when this began: what is settled from then on is not replayed again.
    private let startedAt: Int64
    private var cursor: Cursor
    package private(set) var isDone = false

    /// Returns nil if there is no such message.
    package static func start(
        _ filter: Filter, routes: [RoutedIntegration], rowsMax: Int32 = Limits.replayRowsMax, in pool: Pool
    ) async throws(DatabaseError) -> Replay? {
        try await pool.withSession { session throws(DatabaseError) in
            guard let (now, newest) = try session.run(ReplayStatements.start, ()).first else {
                throw .protocolViolation(reason: "the database does not say its time")
            }
            guard let key = filter.message else {
                return Replay(filter, routes, messages: 0...newest, startedAt: now, rowsMax: rowsMax)
            }
            let row = try session.run(ReplayStatements.message, key).first
            return row.map { Replay(filter, routes, messages: $0...$0, startedAt: now, rowsMax: rowsMax) }
        }
    }

    private init(
        _ filter: Filter, _ routes: [RoutedIntegration], messages: ClosedRange<Int64>, startedAt: Int64, rowsMax: Int32
    ) {
        self.filter = filter
        self.rowsMax = rowsMax
        self.messages = messages
        self.startedAt = startedAt
        cursor = Cursor(message: messages.lowerBound, integration: 0)
        requeue = Requeue(ordered: Set(routes.filter { $0.integration.order == .purchase }.map(\.row)))
    }

    private var since: Int64 { max(filter.since?.milliseconds ?? 0, 0) }
    private var until: Int64 { min(filter.until?.milliseconds ?? .max, Timestamp.writable.upperBound.milliseconds) }

    /// What matches, of one integration.
    package struct Count: Sendable, Equatable {
        package var found = 0
        /// Of these, those that wait to be delivered already.
        package var waiting = 0
    }

    /// Counts the messages to replay by integration.
    package func count(in pool: Pool) async throws(DatabaseError) -> [Int32: Count] {
        var counts: [Int32: Count] = [:]
        var next: Cursor? = cursor
        while let from = next {
            let (found, following) = try await pool.withSession { session throws(DatabaseError) in
                try page(from: from, limit: Self.countedMax, on: session)
            }
            for row in found {
                counts[row.requeued.integration, default: Count()].found += 1
                if row.isWaiting { counts[row.requeued.integration, default: Count()].waiting += 1 }
            }
            next = following
        }
        return counts
    }

    /// - Returns: what matches, and where to go on; nil: there is no more.
    private func page(
        from cursor: Cursor, limit: Int32, on session: borrowing Session
    ) throws(DatabaseError) -> (rows: [ReplayStatements.Settled], next: Cursor?) {
        let last: Int64
        if let end = cursor.end { last = end } else { last = try end(after: cursor.message, on: session) }
        let wanted = (
            last, filter.integrations, since, until, filter.event.map(\.likePattern), filter.isDead != false,
            filter.isDead != true, cursor.message, cursor.integration, limit, startedAt
        )
        let rows = try session.run(ReplayStatements.page, wanted)
        if rows.count == Int(limit), let row = rows.last?.requeued {
            return (rows, Cursor(message: row.message, integration: row.integration, end: last))
        }
        return (rows, last < messages.upperBound ? Cursor(message: last, integration: .max) : nil)
    }

    private func end(after message: Int64, on session: borrowing Session) throws(DatabaseError) -> Int64 {
        // By whole days, as attempts are partitioned: more precisely, rows that do not match would not count.
        let day = Self.dayMilliseconds
        let wanted = (
            message, filter.isDead != false, filter.isDead != true, since / day * day, (until / day + 1) * day, rowsMax
        )
        return min(try session.run(ReplayStatements.end, wanted).first ?? .max, messages.upperBound)
    }

    /// Does the next step.
    /// - Returns: how many messages were looked at, and how many of them were put into the queue.
    package mutating func step(in pool: Pool) async throws(DatabaseError) -> (seen: Int, queued: Int) {
        let replay = self
        let (found, next, queued) = try await pool.retriedTransaction { session throws(DatabaseError) in
            try Requeue.lock(on: session)
            let (found, next) = try replay.page(from: replay.cursor, limit: Requeue.stepMax, on: session)
            let queued = found.filter { !$0.isWaiting }.map(\.requeued)
            try replay.requeue.write(queued, on: session)
            _ = try session.execute(
                RequeueStatements.removeDeadLetters, (queued.map(\.message), queued.map(\.integration)))
            return (found.count, next, queued.count)
        }
        if let next { cursor = next }
        isDone = next == nil
        return (found, queued)
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
    /// limit, when the replay began (ms).
    typealias Wanted = (Int64, [Int32], Int64, Int64, String?, Bool, Bool, Int64, Int32, Int32, Int64)

    /// The database's time, and the row of the newest message.
    static let start = Statement<(), (Int64, Int64)>(
        "replay_start",
        "SELECT (extract(epoch FROM now()) * 1000)::bigint, coalesce((SELECT id FROM messages ORDER BY id DESC LIMIT 1), 0)"
    )

    static let message = Statement<Identifier, Int64>(
        "replay_message",
        """
        SELECT id FROM messages WHERE key = $1
        UNION ALL
        SELECT m.id FROM identities i JOIN messages m ON m.event = i.event AND m.key IS NULL WHERE i.key = $1
        """)

    /// The message behind `$1` before which `$6` rows of one of the tables lie (dead letters `$2`, attempts `$3`, of a
    /// time from `$4` until `$5` in ms), whether they match or not; no row: there are no more in either.
    static let end = Statement<(Int64, Bool, Bool, Int64, Int64, Int32), Int64>(
        "replay_end",
        """
        SELECT message FROM (
            (SELECT message FROM dead_letters WHERE $2 AND message > $1 ORDER BY message OFFSET $6 LIMIT 1)
            UNION ALL
            (SELECT message FROM attempts
             WHERE $3 AND message > $1 AND at >= timestamptz 'epoch' + $4 * interval '1 millisecond'
               AND at < timestamptz 'epoch' + $5 * interval '1 millisecond'
             ORDER BY message OFFSET $6 LIMIT 1)) AS ends
        ORDER BY message LIMIT 1
        """)

    struct Settled: Sendable {
        let requeued: Requeued
        /// It waits to be delivered already.
        let isWaiting: Bool
    }

    private static func settled(
        message: Int64, integration: Int32, purchase: Identifier?, isWaiting: Bool
    ) -> Settled {
        Settled(
            requeued: Requeued(message: message, integration: integration, purchase: purchase), isWaiting: isWaiting)
    }

    /// Attempts from `$11` on are those of the replay itself. Dead letters may be of a later time: the database's clock
    /// was ahead when they were given up.
    ///
    /// Each list is limited in the order of its index before they are combined; by GROUP BY, because before PostgreSQL
    /// 16 a DISTINCT sorts all that is left. Whether a row waits to be delivered already is looked up by its purchase,
    /// which is indexed, or else in one list of those without.
    static let page = Statement<Wanted, Settled>(
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
                   AND a.at < timestamptz 'epoch' + least($4, $11) * interval '1 millisecond'
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
