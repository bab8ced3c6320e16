package import Postgres
package import Vocabulary

/// The messages that an integration would have got had it been there: everything it asks for that was never meant for
/// it, in the order of telling. Run again, it goes on: what the integration has, got or gave up is left out.
package struct Backfill: Sendable {
    let route: RoutedIntegration
    private let since: Int64
    private let until: Int64
    private let requeue: Requeue
    /// Rows of messages.
    private var after: Int64
    private let last: Int64
    package private(set) var isDone = false

    package static func start(
        _ route: RoutedIntegration, since: Timestamp, until: Timestamp?, in pool: Pool
    ) async throws(DatabaseError) -> Backfill {
        try await pool.withSession { session throws(DatabaseError) in
            let first = try FirstRow.find(since, BackfillStatements.bounds, BackfillStatements.probe, on: session)
            // What is told from now on goes to it anyway, once the daemons know it.
            let last = try session.run(BackfillStatements.bounds, ()).first?.1 ?? 0
            return Backfill(
                route: route, since: since.milliseconds, until: until?.milliseconds ?? .max,
                requeue: Requeue(ordered: route.integration.order == .purchase ? [route.row] : []), after: first - 1,
                last: last)
        }
    }

    private init(
        route: RoutedIntegration, since: Int64, until: Int64, requeue: Requeue, after: Int64, last: Int64
    ) {
        self.route = route
        self.since = since
        self.until = until
        self.requeue = requeue
        self.after = after
        self.last = last
    }

    /// Messages that are still to be looked at, at most: the ids between may have gaps.
    package var left: Int { Int(max(0, last - after)) }

    /// The next step. A dry one writes nothing.
    /// - Returns: how many messages it asks for and does not have.
    package mutating func step(isDry: Bool, in pool: Pool) async throws(DatabaseError) -> Int {
        let wanted = (after, last, since, until, route.row, Requeue.stepMax)
        let (route, requeue) = (route, requeue)
        let (page, queued) = try await pool.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                let page = try session.run(BackfillStatements.page, wanted)
                let asked = page.filter {
                    !$0.5 && route.integration.wants(type: $0.1, source: $0.2, environment: $0.3)
                }.map { Requeued(message: $0.0, integration: route.row, purchase: $0.4) }
                return (
                    page, try isDry ? requeue.new(asked, on: session).count : requeue.write(asked, on: session).count
                )
            }
        }
        if let last = page.last { after = last.0 }
        isDone = page.count < Int(Requeue.stepMax)
        if isDone { after = last }
        return queued
    }
}

enum BackfillStatements {
    static let bounds = Statement<(), (Int64?, Int64?)>("backfill_bounds", "SELECT min(id), max(id) FROM messages")

    static let probe = Statement<Int64, (Int64, Int64)>(
        "backfill_probe",
        """
        SELECT id, (extract(epoch FROM created_at) * 1000)::bigint FROM messages WHERE id >= $1 ORDER BY id LIMIT 1
        """)

    /// Messages in order, and whether the integration ($5) has to do with them already.
    static let page = Statement<
        (Int64, Int64, Int64, Int64, Int32, Int32), (Int64, String, String, String, Identifier?, Bool)
    >(
        "backfill_page",
        """
        SELECT m.id, m.type, e.source, e.environment, coalesce(t.purchase, e.purchase),
               EXISTS (SELECT FROM attempts a WHERE a.message = m.id AND a.integration = $5)
                   OR EXISTS (SELECT FROM dead_letters l WHERE l.message = m.id AND l.integration = $5)
        FROM messages m JOIN events e ON e.id = m.event LEFT JOIN transfers t ON t.id = m.transfer
        WHERE m.id > $1 AND m.id <= $2 AND extract(epoch FROM m.created_at) * 1000 >= $3
          AND extract(epoch FROM m.created_at) * 1000 < $4
        ORDER BY m.id LIMIT $6
        """)
}
