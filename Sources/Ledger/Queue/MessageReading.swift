import Postgres
import Vocabulary

/// Reads what deliveries send: messages with their events.
///
/// A statement for each of the two tables, and no join: the ids of both are then known, and only the partitions that
/// have them are read. With 60 partitions a join takes ten times as long, more than half of it to plan.
enum MessageReading {
    /// Messages by their row, bodies included. One that is gone, or whose event is, is left out.
    /// - Parameter bytesMax: of what is read of a message, and again of its event; a larger one is left out, too.
    static func messages(
        _ rows: [Int64], bytesMax: Int64 = .max, on session: borrowing Session
    ) throws(DatabaseError) -> [Int64: Message] {
        guard let ids = IDsInPeriods(rows) else { return [:] }
        let found = try session.run(Self.messages, ids.parameters(and: bytesMax))
        guard let eventIDs = IDsInPeriods(found.map(\.event)) else { return [:] }
        let events = Dictionary(
            firstOf: try session.run(Self.events, eventIDs.parameters(and: bytesMax)), by: \.row)
        return Dictionary(
            firstOf: found.compactMap { message in
                events[message.event].map { (message.row, message.joined(with: $0)) }
            })
    }

    /// Bytes that messages take in memory, by their row, without reading their bodies.
    static func bytes(of rows: [Int64], on session: borrowing Session) throws(DatabaseError) -> [Int64: Int] {
        guard let ids = IDsInPeriods(rows) else { return [:] }
        let found = try session.run(messageBytes, ids.parameters)
        guard let eventIDs = IDsInPeriods(found.map { _, event, _ in event }) else { return [:] }
        let events = Dictionary(firstOf: try session.run(eventBytes, eventIDs.parameters))
        return Dictionary(firstOf: found.map { row, event, bytes in (row, Int(bytes) + Int(events[event] ?? 0)) })
    }

    // MARK: SQL. Joined row by row: planned while the tables are empty, a plain join reads the other one whole.

    /// A message without its event; its purchase and transaction only where it announces a transfer.
    struct MessageRow {
        let row: Int64
        let key: Identifier?
        let event: Int64
        let type: String
        let transfer: Identifier?
        let transaction: String?
        let purchase: Identifier?
        let purchaseKey: String?
        let envelope: [UInt8]
        let derivedBody: [UInt8]?
        let access: [UInt8]?
    }

    private static let bytesOfMessage: SQL = """
        octet_length(m.envelope) + coalesce(octet_length(m.derived_body), 0) + coalesce(octet_length(m.access), 0)
        """

    static let messages = Statement<([Int64], Int64, Int64, Int64), MessageRow>(
        "queue_messages",
        """
        SELECT m.id, m.key, m.event, m.type, m.transfer, t.store_transaction_id, t.purchase, p.key, m.envelope,
               m.derived_body, m.access
        FROM messages m
        LEFT JOIN LATERAL (SELECT * FROM transfers WHERE id = m.transfer LIMIT 1) AS t ON true
        LEFT JOIN LATERAL (SELECT * FROM purchases WHERE id = t.purchase LIMIT 1) AS p ON true
        WHERE \(IDsInPeriods.condition("m.id")) AND \(bytesOfMessage) <= $4
        """, row: MessageRow.init)

    struct EventRow {
        let row: Int64
        let key: Identifier
        let source: String
        let vendorEventID: String?
        let transaction: String?
        let purchase: Identifier?
        let purchaseKey: String?
        let body: [UInt8]
    }

    static let events = Statement<([Int64], Int64, Int64, Int64), EventRow>(
        "queue_events",
        """
        SELECT e.id, e.key, e.source, e.vendor_event_id, e.store_transaction_id, e.purchase, p.key, e.body
        FROM events e LEFT JOIN LATERAL (SELECT * FROM purchases WHERE id = e.purchase LIMIT 1) AS p ON true
        WHERE \(IDsInPeriods.condition("e.id")) AND octet_length(e.body) <= $4
        """, row: EventRow.init)

    static let messageBytes = Statement<([Int64], Int64, Int64), (Int64, Int64, Int32)>(
        "queue_message_bytes",
        """
        SELECT m.id, m.event, \(bytesOfMessage) FROM messages m WHERE \(IDsInPeriods.condition("m.id"))
        """)

    static let eventBytes = Statement<([Int64], Int64, Int64), (Int64, Int32)>(
        "queue_event_bytes", "SELECT id, octet_length(body) FROM events WHERE \(IDsInPeriods.condition("id"))")
}

extension MessageReading.MessageRow {
    fileprivate func joined(with event: MessageReading.EventRow) -> Message {
        let key = key ?? event.key
        return Message(
            row: row, id: key.messageID,
            eventID: transfer != nil && derivedBody != nil
                ? key.eventID : event.vendorEventID ?? event.key.eventID,
            type: type, source: event.source, transaction: event.transaction ?? transaction,
            purchase: purchase ?? event.purchase,
            purchaseKey: purchase == nil ? event.purchaseKey : purchaseKey, transferID: transfer?.transferID,
            envelope: envelope, original: event.body, derivedBody: derivedBody, access: access)
    }
}
