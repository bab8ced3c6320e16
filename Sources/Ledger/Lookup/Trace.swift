package import Postgres
package import Vocabulary

/// The whole way of a transaction, or of another handle: its webhooks, the transfers and messages that they caused, and
/// every attempt at each receiver.
package struct Trace: Sendable {
    package struct Webhook: Sendable {
        package let source: String
        package let environment: String
        package let eventID: String
        package let name: String
        package let holder: String
        package let occurredAt: Timestamp
        package let receivedAt: Timestamp
        package let purchase: String?
        /// In message order; empty for a native transfer webhook that announces nothing new.
        package let messages: [Message]
    }

    package struct Message: Sendable {
        package let id: String
        package let type: String
        package let transfer: String?
        package let deliveries: [Delivery]
    }

    package struct Delivery: Sendable {
        package let id: Int64
        package let integration: String
        package let state: State
        package let attempts: [Attempt]
    }

    package enum State: Sendable {
        case delivered
        case waiting(dueAt: Timestamp, isBlocked: Bool)
        case dead(reason: String)
    }

    package struct Attempt: Sendable {
        package let number: Int
        package let at: Timestamp
        package let outcome: String
        package let httpStatus: Int?
        package let latencyMilliseconds: Int
        package let failure: String?
    }

    package struct Holding: Sendable {
        package let purchase: String
        package let holder: String
        package let isActive: Bool
        package let asOf: Timestamp
    }

    /// Webhooks shown at most: the newest.
    package static let webhooksMax: Int32 = 200
    /// Messages shown at most, and purchases with their holders: a login can move thousands.
    static let messagesMax: Int32 = 1_000
    /// Attempts shown at most: the newest.
    static let attemptsMax: Int32 = 5_000

    /// The kind of id that it was found by.
    package let kind: EventHandle.Kind
    package let webhooks: [Webhook]
    /// Whether there may be more: older webhooks, or more messages, attempts or holders.
    package let isCut: Bool
    /// Access to the purchases that these webhooks are about, each as of an event time.
    package let holdings: [Holding]

    /// Returns nil if nothing is stored for the handle.
    package static func read(
        _ handle: EventHandle, limit: Int32 = webhooksMax, from pool: Pool
    ) async throws -> Trace? {
        try await pool.withSession { session throws(DatabaseError) in
            guard let found = try handle.find(limit: limit, on: session) else { return nil }
            let events = try session.run(TraceStatements.events, found.rows)
            guard !events.isEmpty else { return nil }
            let messages = try session.run(TraceStatements.messages, (events.map(\.0), messagesMax))
            let rows = messages.map(\.0)
            let waiting = try session.run(TraceStatements.waiting, rows)
            let dead = try session.run(TraceStatements.dead, rows)
            let attempts = try session.run(TraceStatements.attempts, (rows, attemptsMax))
            let holdings = try session.run(TraceStatements.holdings, (found.rows, messagesMax))
            let builder = TraceBuilder(waiting: waiting, dead: dead, attempts: attempts)
            let byEvent = Dictionary(grouping: messages, by: \.1)
            return Trace(
                kind: found.kind,
                webhooks: events.map { event in
                    Webhook(
                        source: event.1, environment: event.2, eventID: event.3 ?? event.4.eventID, name: event.5,
                        holder: event.6, occurredAt: Timestamp(milliseconds: event.7),
                        receivedAt: Timestamp(milliseconds: event.8), purchase: event.9,
                        messages: (byEvent[event.0] ?? []).map { message in
                            Message(
                                id: message.2.messageID, type: message.3, transfer: message.4?.transferID,
                                deliveries: builder.deliveries(of: message.0))
                        })
                },
                isCut: events.count >= Int(limit) || messages.count >= Int(messagesMax)
                    || attempts.count >= Int(attemptsMax) || holdings.count >= Int(messagesMax),
                holdings: holdings.map {
                    Holding(purchase: $0.0, holder: $0.1, isActive: $0.2, asOf: Timestamp(milliseconds: $0.3))
                })
        }
    }
}

enum TraceStatements {
    static let events = Statement<
        [Int64], (Int64, String, String, String?, Identifier, String, String, Int64, Int64, String?)
    >(
        "trace_events",
        """
        SELECT e.id, e.source, e.environment, e.vendor_event_id, e.key, e.name, e.holder, e.occurred_at_ms,
               (extract(epoch FROM e.received_at) * 1000)::bigint, p.key
        FROM events e LEFT JOIN purchases p ON p.id = e.purchase WHERE e.id = ANY ($1) ORDER BY e.id
        """)

    static let messages = Statement<([Int64], Int32), (Int64, Int64, Identifier, String, Identifier?)>(
        "trace_messages",
        """
        SELECT * FROM (
            SELECT id, event, key, type, transfer FROM messages WHERE event = ANY ($1) ORDER BY id DESC LIMIT $2
        ) AS newest ORDER BY id
        """)

    /// Found by purchase, because deliveries have no index by message.
    static let waiting = Statement<[Int64], (Int64, Int64, String, Int64, Bool)>(
        "trace_waiting",
        """
        WITH chosen AS MATERIALIZED (
            SELECT DISTINCT coalesce(t.purchase, e.purchase) AS purchase
            FROM messages m JOIN events e ON e.id = m.event LEFT JOIN transfers t ON t.id = m.transfer
            WHERE m.id = ANY ($1))
        SELECT d.id, d.message, i.name, (extract(epoch FROM d.due_at) * 1000)::bigint, d.blocked
        FROM (
            SELECT w.* FROM chosen JOIN deliveries w ON w.purchase = chosen.purchase WHERE w.message = ANY ($1)
            UNION ALL
            SELECT w.* FROM deliveries w
            WHERE w.purchase IS NULL AND w.message = ANY ($1) AND EXISTS (SELECT FROM chosen WHERE purchase IS NULL)
        ) AS d
        JOIN integrations i ON i.id = d.integration
        ORDER BY d.id
        """)

    static let dead = Statement<[Int64], (Int64, Int64, String, String)>(
        "trace_dead",
        """
        SELECT l.delivery, l.message, i.name, l.reason
        FROM dead_letters l JOIN integrations i ON i.id = l.integration WHERE l.message = ANY ($1) ORDER BY l.delivery
        """)

    static let attempts = Statement<
        ([Int64], Int32), (Int64, Int64, String, Int16, Int64, String, Int16?, Int32, String?)
    >(
        "trace_attempts",
        """
        SELECT a.delivery, a.message, i.name, a.attempt, (extract(epoch FROM a.at) * 1000)::bigint, a.outcome,
               a.http_status, a.latency_ms, a.failure
        FROM (SELECT * FROM attempts WHERE message = ANY ($1) ORDER BY at DESC, attempt DESC LIMIT $2) a
        JOIN integrations i ON i.id = a.integration
        ORDER BY a.at, a.attempt
        """)

    static let holdings = Statement<([Int64], Int32), (String, String, Bool, Int64)>(
        "trace_holdings",
        """
        SELECT p.key, h.holder, h.active, h.as_of_ms
        FROM (SELECT purchase FROM events WHERE id = ANY ($1)
              UNION SELECT t.purchase FROM messages m JOIN transfers t ON t.id = m.transfer WHERE m.event = ANY ($1)) AS of
        JOIN purchases p ON p.id = of.purchase JOIN entitlements h ON h.purchase = p.id
        ORDER BY p.key, h.as_of_ms, h.holder LIMIT $2
        """)
}

/// Combines what three tables say of a message, by delivery.
private struct TraceBuilder {
    private struct Found {
        var integration: String
        var state = Trace.State.delivered
        var attempts: [Trace.Attempt] = []
    }

    /// By message, then by delivery.
    private var found: [Int64: [Int64: Found]] = [:]

    init(
        waiting: [(Int64, Int64, String, Int64, Bool)], dead: [(Int64, Int64, String, String)],
        attempts: [(Int64, Int64, String, Int16, Int64, String, Int16?, Int32, String?)]
    ) {
        for row in attempts {
            let attempt = Trace.Attempt(
                number: Int(row.3), at: Timestamp(milliseconds: row.4), outcome: row.5,
                httpStatus: row.6.map { Int($0) }, latencyMilliseconds: Int(row.7), failure: row.8)
            found[row.1, default: [:]][row.0, default: Found(integration: row.2)].attempts.append(attempt)
        }
        for row in waiting {
            found[row.1, default: [:]][row.0, default: Found(integration: row.2)].state =
                .waiting(dueAt: Timestamp(milliseconds: row.3), isBlocked: row.4)
        }
        for row in dead {
            found[row.1, default: [:]][row.0, default: Found(integration: row.2)].state = .dead(reason: row.3)
        }
    }

    func deliveries(of message: Int64) -> [Trace.Delivery] {
        (found[message] ?? [:]).sorted { $0.key < $1.key }.map { id, found in
            Trace.Delivery(id: id, integration: found.integration, state: found.state, attempts: found.attempts)
        }
    }
}
