import JSONText
import Postgres
import Vocabulary

/// A message from the relay itself about an integration, for the integrations that select it by a glob that begins
/// with `posthouse.`. It is written in the transaction that makes the change, so however many daemons there are, it is
/// sent once. It travels like any other message: signed, retried, kept, replayed.
struct RelayMessage: Sendable {
    enum Kind: String, Sendable, CaseIterable {
        /// The circuit breaker opened.
        case failing = "posthouse.integration.failing"
        /// The circuit breaker closed.
        case recovered = "posthouse.integration.recovered"
        /// Paused by hand, or by the receiver's 410.
        case paused = "posthouse.integration.paused"
        /// Deliveries were given up; those given up together are one message.
        case dead = "posthouse.integration.dead"
    }

    /// The source named in such a message.
    static let source = "posthouse"
    /// Message ids named in one such message, at most.
    private static let messagesNamedMax = 100
    /// Without the relay's own messages: two receivers that both give up would otherwise notify each other without end.
    /// Those about a purchase are none of these.
    static let keys = Statement<[Int64], Identifier>(
        "relay_keys",
        """
        SELECT coalesce(m.key, e.key)
        FROM unnest($1) AS w (id) \(RowByID.message("w.id", as: "m")) \(RowByID.event("m.event", as: "e"))
        WHERE m.type NOT LIKE 'posthouse.%' OR m.type LIKE 'posthouse.access.%' ORDER BY w.id
        """)

    let kind: Kind
    /// Row and name of the integration that it is about. It is sent to the other integrations only.
    let integration: Int32
    let name: String
    let reason: String?
    /// Rows of messages whose deliveries were given up.
    let messages: [Int64]

    init(_ kind: Kind, of route: RoutedIntegration, reason: String?, messages: [Int64] = []) {
        self.kind = kind
        integration = route.row
        name = route.integration.name
        self.reason = reason
        self.messages = messages
    }

    /// - Parameter named: message keys, which receivers know as `webhook-id`.
    private func body(naming named: [Identifier]) -> [UInt8] {
        JSONWriter.object { json in
            json.member("event_name", kind.rawValue)
            json.member("integration", name)
            json.member("reason", reason)
            guard kind == .dead else { return }
            json.member("deliveries", named.count)
            json.member("messages", strings: named.prefix(Self.messagesNamedMax).map(\.messageID))
        }
    }

    /// What the body of a message about an integration contains, and no other body of a relay message: within a string
    /// quotation marks are escaped.
    static func mark(of integration: String) -> [UInt8] {
        Array(JSONWriter.object { $0.member("integration", integration) }.dropFirst().dropLast())
    }

    /// Writes `messages` for the integrations among `routes` that ask for them; if none does, writes nothing.
    static func publish(
        _ messages: [RelayMessage], routes: [RoutedIntegration], on session: borrowing Session
    ) throws(DatabaseError) {
        for message in messages {
            let receivers = routes.filter {
                $0.row != message.integration
                    && $0.integration.selects(type: message.kind.rawValue, source: source, environment: environment)
            }
            if !receivers.isEmpty { try message.publish(receivers.map(\.row), on: session) }
        }
    }

    static let environment = "PRODUCTION"

    private func publish(_ receivers: [Int32], on session: borrowing Session) throws(DatabaseError) {
        let named = try session.run(Self.keys, messages)
        if kind == .dead, named.isEmpty { return }
        guard let event = try session.run(RecordStatements.eventIDs, 1).first,
            let ids = try session.run(RecordStatements.rowIDs, (1, Int32(receivers.count))).first,
            let message = ids.messages.first
        else { throw .protocolViolation(reason: "drawing row ids came to nothing") }
        let scope = Scope(source: Self.source, app: "", environment: Self.environment)
        // By its time, too: after a restore to an earlier time rows have numbers again that receivers know.
        let id = "pst_\(event.row)_\(event.now)"
        let key = KeyHash.eventHash(vendorEventID: id, in: scope)
        let type = kind.rawValue
        let now = Timestamp(milliseconds: event.now)
        _ = try session.execute(
            RecordTables.events.insert,
            [
                RecordTables.EventRow(
                    id: event.row, key: key, scope: scope, vendorEventID: id, name: type, type: type, holder: "",
                    occurredAt: now, purchase: nil, storeTransactionID: nil, body: body(naming: named), isStray: false,
                    answer: nil)
            ])
        let envelope = MessageEnvelope.write(
            .init(type: type, eventID: id, eventName: type), of: .init(), in: scope, at: now)
        _ = try session.execute(
            RecordTables.messages.insert,
            [
                RecordTables.MessageRow(
                    id: message, key: KeyHash.message(passingOn: key), event: event.row, type: type, transfer: nil,
                    envelope: envelope, derivedBody: nil, integrations: MessageReceivers.text(receivers),
                    access: nil)
            ])
        let deliveries = zip(ids.deliveries, receivers).map { id, receiver in
            RecordTables.DeliveryRow(
                id: id, message: message, integration: receiver, purchase: nil, isBlocked: false, leasedBy: nil)
        }
        _ = try session.execute(RecordTables.deliveries.insert, deliveries)
        _ = try session.execute(RecordStatements.notify, "")
    }
}
