package import Postgres
package import Vocabulary

/// A stored webhook. Lists have the newest first.
package struct StoredEvent: Sendable {
    /// The source of the relay's own.
    package static let relaySource = RelayMessage.source

    package let receivedAt: Timestamp
    package let occurredAt: Timestamp
    package let source: String
    package let environment: String
    /// The platform's id, otherwise the relay's.
    package let eventID: String
    package let name: String
    package let type: String
    package let holder: String
    package let transaction: String?
    /// The purchase's key.
    package let purchase: String?
    /// Messages that the event caused, whether or not an integration asks for them.
    package let messages: Int

    /// Events found by a handle before the rest of the filter is applied, at most.
    private static let handleEventsMax: Int32 = 10_000

    package static func read(
        _ handle: EventHandle? = nil, source: String? = nil, since: Timestamp? = nil, limit: Int32 = 50, from pool: Pool
    ) async throws(DatabaseError) -> [StoredEvent] {
        try await pool.withSession { session throws(DatabaseError) in
            let from = since?.milliseconds ?? .min
            if let handle {
                guard let found = try handle.find(limit: handleEventsMax, on: session) else { return [] }
                return try session.run(EventListStatements.of, (found.rows, source, from, limit))
            }
            let first = try since.map { since throws(DatabaseError) in
                try FirstRow.find(since, EventListStatements.bounds, EventListStatements.probe, on: session)
            }
            return try session.run(EventListStatements.newest, (first ?? 0, source, from, limit))
        }
    }
}

enum EventListStatements {
    private static func event(
        receivedAt: Timestamp, occurredAt: Timestamp, source: String, environment: String, vendorEventID: String?,
        key: Identifier, name: String, type: String, holder: String, transaction: String?, purchase: String?,
        messages: Int
    ) -> StoredEvent {
        StoredEvent(
            receivedAt: receivedAt, occurredAt: occurredAt, source: source, environment: environment,
            eventID: vendorEventID ?? key.eventID, name: name, type: type, holder: holder,
            transaction: ImportLine.shown(transaction), purchase: purchase, messages: messages)
    }

    private static func events(where condition: SQL) -> SQL {
        """
        SELECT (extract(epoch FROM e.received_at) * 1000)::bigint, e.occurred_at_ms, e.source, e.environment,
               e.vendor_event_id, e.key, e.name, e.type, e.holder, e.store_transaction_id, p.key,
               (SELECT count(*) FROM messages m WHERE m.event = e.id)
        FROM events e LEFT JOIN purchases p ON p.id = e.purchase
        WHERE \(condition) AND ($2 IS NULL OR e.source = $2) AND extract(epoch FROM e.received_at) * 1000 >= $3
        ORDER BY e.id DESC LIMIT $4
        """
    }

    static let of = Statement<([Int64], String?, Int64, Int32), StoredEvent>(
        "list_events_of", events(where: "e.id = ANY ($1)"), row: event)

    static let newest = Statement<(Int64, String?, Int64, Int32), StoredEvent>(
        "list_events_newest", events(where: "e.id >= $1"), row: event)

    static let bounds = Statement<(), (Int64?, Int64?)>("list_events_bounds", "SELECT min(id), max(id) FROM events")

    static let probe = Statement<Int64, (Int64, Timestamp)>(
        "list_events_probe",
        """
        SELECT id, (extract(epoch FROM received_at) * 1000)::bigint FROM events WHERE id >= $1 ORDER BY id LIMIT 1
        """)
}
