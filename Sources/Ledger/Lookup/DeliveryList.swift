package import Postgres
package import Vocabulary

/// Deliveries as an operator lists them: what waits, what was given up, what was accepted.
package struct ListedDelivery: Sendable {
    package enum State: String, Sendable, CaseIterable {
        case waiting, dead, delivered
    }

    /// Row of the delivery; a replay gives the message a new one.
    package let id: Int64
    package let message: String
    package let type: String
    package let integration: String
    package let state: State
    package let attempts: Int
    /// When it was made (waiting), given up (dead) or accepted (delivered).
    package let at: Timestamp
    /// When the next attempt is due; only while it waits.
    package let dueAt: Timestamp?
    /// Blocked by another message of its purchase; only while it waits.
    package let isBlocked: Bool
    /// Its integration is paused; only while it waits.
    package let isPaused: Bool
    package let httpStatus: Int?
    /// Why it was given up, or why the last attempt failed.
    package let failure: String?
    package let transaction: String?

    /// Returns nil if the database knows no such integration.
    package static func read(
        _ state: State, of integration: String? = nil, since: Timestamp? = nil, limit: Int32 = 50, from pool: Pool
    ) async throws(DatabaseError) -> [ListedDelivery]? {
        try await pool.withSession { session throws(DatabaseError) in
            let names = Dictionary(firstOf: try session.run(Pauses.names, ()))
            let row = names.first { $0.value == integration }?.key
            if integration != nil, row == nil { return nil }
            let paused = try state == .waiting ? Pauses.paused(on: session) : []
            let statement =
                switch state {
                case .waiting: DeliveryListStatements.waiting
                case .dead: DeliveryListStatements.dead
                case .delivered: DeliveryListStatements.delivered
                }
            return try session.run(statement, (row, since?.milliseconds ?? .min, limit)).map { row in
                ListedDelivery(
                    row, state: state, integration: names[row.integration] ?? "",
                    isPaused: paused.contains(row.integration))
            }
        }
    }

    private init(_ row: DeliveryListStatements.Row, state: State, integration: String, isPaused: Bool) {
        id = row.delivery
        message = row.message.messageID
        type = row.type
        self.integration = integration
        self.state = state
        attempts = Int(row.attempts)
        at = row.at
        dueAt = row.dueAt
        isBlocked = row.isBlocked
        self.isPaused = isPaused
        httpStatus = row.httpStatus.map { Int($0) }
        failure = row.failure
        transaction = ImportLine.shown(row.transaction)
    }
}

enum DeliveryListStatements {
    struct Row {
        let delivery: Int64
        let message: Identifier
        let type: String
        let integration: Int32
        let attempts: Int16
        let at: Timestamp
        let dueAt: Timestamp?
        let isBlocked: Bool
        let httpStatus: Int16?
        let failure: String?
        let transaction: String?
    }

    typealias Wanted = (Int32?, Int64, Int32)

    static let waiting = Statement<Wanted, Row>(
        "list_waiting",
        """
        SELECT d.id, coalesce(m.key, e.key), m.type, d.integration, d.attempts, (extract(epoch FROM d.created_at) * 1000)::bigint,
               (extract(epoch FROM d.due_at) * 1000)::bigint, d.blocked, a.http_status, a.failure,
               coalesce(e.store_transaction_id, t.store_transaction_id)
        FROM (SELECT * FROM deliveries
              WHERE ($1 IS NULL OR integration = $1)
                AND created_at >= timestamptz 'epoch' + greatest($2, 0) * interval '1 millisecond'
              ORDER BY id DESC LIMIT $3) d
        \(RowByID.message("d.message", as: "m")) \(RowByID.event("m.event", as: "e"))
        LEFT JOIN transfers t ON t.id = m.transfer
        LEFT JOIN LATERAL (SELECT http_status, failure FROM attempts a
                           WHERE a.message = d.message AND a.delivery = d.id ORDER BY a.at DESC LIMIT 1) a ON true
        """, row: Row.init)

    static let dead = Statement<Wanted, Row>(
        "list_dead",
        """
        SELECT l.delivery, coalesce(m.key, e.key), m.type, l.integration, l.attempts, (extract(epoch FROM l.died_at) * 1000)::bigint,
               NULL::bigint, false, l.http_status, l.reason, coalesce(e.store_transaction_id, t.store_transaction_id)
        FROM (SELECT * FROM dead_letters
              WHERE ($1 IS NULL OR integration = $1)
                AND died_at >= timestamptz 'epoch' + greatest($2, 0) * interval '1 millisecond'
              ORDER BY died_at DESC LIMIT $3) l
        \(RowByID.message("l.message", as: "m")) \(RowByID.event("m.event", as: "e"))
        LEFT JOIN transfers t ON t.id = m.transfer
        """, row: Row.init)

    /// Reads only as far back as asked: attempts are found by time through ranges of pages, not row by row.
    static let delivered = Statement<Wanted, Row>(
        "list_delivered",
        """
        SELECT a.delivery, coalesce(m.key, e.key), m.type, a.integration, a.attempt, (extract(epoch FROM a.at) * 1000)::bigint,
               NULL::bigint, false, a.http_status, NULL::text,
               coalesce(e.store_transaction_id, t.store_transaction_id)
        FROM (SELECT * FROM attempts
              WHERE ($1 IS NULL OR integration = $1) AND outcome = 'accepted'
                AND at >= timestamptz 'epoch' + greatest($2, 0) * interval '1 millisecond'
              ORDER BY at DESC LIMIT $3) a
        \(RowByID.message("a.message", as: "m")) \(RowByID.event("m.event", as: "e"))
        LEFT JOIN transfers t ON t.id = m.transfer
        """, row: Row.init)
}
