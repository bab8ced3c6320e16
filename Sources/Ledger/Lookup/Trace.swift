package import Postgres
package import Vocabulary

/// The whole way of a transaction, or of another handle: its webhooks, the transfers and messages that they caused, and
/// every attempt at each receiver.
package struct Trace: Sendable {
    package struct Webhook: Sendable {
        let row: Int64
        package let source: String
        package let environment: String
        package let eventID: String
        package let name: String
        package let holder: String
        package let occurredAt: Timestamp
        package let receivedAt: Timestamp
        package let purchase: String?
        /// Nil: its body says in clear what it says, or its source is not known.
        package fileprivate(set) var sealed: Sealed?
        /// In message order; empty for a native transfer webhook that announces nothing new.
        package fileprivate(set) var messages: [Message] = []
    }

    /// A body that nobody can read as it is.
    package struct Sealed: Sendable {
        /// Of the body as it came; nil: the database cannot read it.
        package let bytes: Int?
        /// What it says, one JSON object; nil: it cannot be opened.
        package let decoded: [UInt8]?
    }

    /// How bodies are opened, together with what a vendor's API answered about them, by the name of their source.
    /// Sources whose bodies are not sealed are not in it.
    package typealias Openings = [String: @Sendable (_ body: [UInt8], _ answer: [UInt8]?) -> [UInt8]?]

    package struct Message: Sendable {
        let row: Int64
        /// Row of its webhook.
        let event: Int64
        package let id: String
        package let type: String
        package let transfer: String?
        package fileprivate(set) var deliveries: [Delivery] = []
    }

    package struct Delivery: Sendable {
        package let id: Int64
        package let integration: String
        package fileprivate(set) var state = State.discardedOrReplayed
        package fileprivate(set) var attempts: [Attempt] = []
    }

    package enum State: Sendable {
        case delivered
        /// It was discarded, or its dead letter was discarded or replayed, which is a delivery of its own.
        case discardedOrReplayed
        /// - Parameter isPaused: nothing goes to its integration now.
        case waiting(dueAt: Timestamp, isBlocked: Bool, isPaused: Bool)
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
        /// By what the ledger says, and by the clock (`TimedAccess`).
        package let isActive: Bool
        /// The stated end has passed, and no webhook has said what became of the purchase.
        package let isOverdue: Bool
        package let asOf: Timestamp
        /// The purchase's end, grace included; nil: none is stated.
        package let until: Timestamp?
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
    /// Access to the purchases that these webhooks are about, or that the holder has who was asked for, each as of an
    /// event time.
    package let holdings: [Holding]

    /// Returns nil if nothing is stored for the handle.
    package static func read(
        _ handle: EventHandle, limit: Int32 = webhooksMax, opening: Openings = [:], leeways: Leeways = .off,
        from pool: Pool
    ) async throws -> Trace? {
        try await pool.withSession { session throws(DatabaseError) in
            guard let found = try handle.find(limit: limit, on: session) else { return nil }
            var webhooks = try session.run(TraceStatements.events, found.rows)
            guard !webhooks.isEmpty else { return nil }
            var messages = try session.run(TraceStatements.messages, (webhooks.map(\.row), messagesMax))
            let rows = messages.map(\.row)
            let waiting = try session.run(TraceStatements.waiting, rows)
            let dead = try session.run(TraceStatements.dead, rows)
            let attempts = try session.run(TraceStatements.attempts, (rows, attemptsMax))
            let holder = handle.holder(as: found.kind)?.storageKey
            let holdings = try session.run(TraceStatements.holdings, (found.rows, messagesMax, holder))
            let findings = Dictionary(grouping: attempts + waiting + dead, by: \.message)
            for index in messages.indices { messages[index].add(findings[messages[index].row] ?? []) }
            let byEvent = Dictionary(grouping: messages, by: \.event)
            for index in webhooks.indices {
                webhooks[index].messages = byEvent[webhooks[index].row] ?? []
                // Posthouse's own messages are in clear.
                guard let open = opening[webhooks[index].source], !webhooks[index].name.hasPrefix("posthouse.")
                else { continue }
                webhooks[index].sealed = try Self.sealed(of: webhooks[index].row, opening: open, on: session)
            }
            return Trace(
                kind: found.kind, webhooks: webhooks,
                isCut: webhooks.count >= Int(limit) || messages.count >= Int(messagesMax)
                    || attempts.count >= Int(attemptsMax) || holdings.count >= Int(messagesMax),
                holdings: holdings.map { Holding($0, leeways) })
        }
    }

    /// The body of one webhook, because it can be large. One that is damaged keeps nothing else from being shown.
    private static func sealed(
        of row: Int64, opening: (_ body: [UInt8], _ answer: [UInt8]?) -> [UInt8]?, on session: borrowing Session
    ) throws(DatabaseError) -> Sealed? {
        do throws(DatabaseError) {
            guard let (body, answer) = try session.run(TraceStatements.body, row).first else { return nil }
            return Sealed(bytes: body.count, decoded: opening(body, answer))
        } catch {
            guard error.isUnreadableData else { throw error }
            return Sealed(bytes: nil, decoded: nil)
        }
    }
}

extension Trace.Holding {
    fileprivate init(_ stored: TraceStatements.StoredHolding, _ leeways: Leeways) {
        let access = TimedAccess(
            isGranted: stored.isGranted, until: stored.until, store: stored.store, leeway: leeways[stored.source])
        self.init(
            purchase: stored.purchase, holder: stored.holder, isActive: access.isActive(at: stored.now),
            isOverdue: access.isOverdue(at: stored.now), asOf: stored.asOf,
            until: stored.until.flatMap { Timestamp.writable.contains($0) ? $0 : nil })
    }
}

/// What one table says of a delivery.
struct TraceFinding {
    enum Content {
        case attempt(Trace.Attempt)
        case state(Trace.State)
    }

    let delivery: Int64
    let message: Int64
    let integration: String
    let content: Content
}

enum TraceStatements {
    private static func webhook(
        row: Int64, source: String, environment: String, vendorEventID: String?, key: Identifier, name: String,
        holder: String, occurredAt: Timestamp, receivedAt: Timestamp, purchase: String?
    ) -> Trace.Webhook {
        Trace.Webhook(
            row: row, source: source, environment: environment, eventID: vendorEventID ?? key.eventID, name: name,
            holder: holder, occurredAt: occurredAt, receivedAt: receivedAt, purchase: purchase)
    }

    private static func message(
        row: Int64, event: Int64, key: Identifier, type: String, transfer: Identifier?
    ) -> Trace.Message {
        Trace.Message(row: row, event: event, id: key.messageID, type: type, transfer: transfer?.transferID)
    }

    private static func waitingDelivery(
        delivery: Int64, message: Int64, integration: String, dueAt: Timestamp, isBlocked: Bool, isPaused: Bool
    ) -> TraceFinding {
        TraceFinding(
            delivery: delivery, message: message, integration: integration,
            content: .state(.waiting(dueAt: dueAt, isBlocked: isBlocked, isPaused: isPaused)))
    }

    private static func deadLetter(
        delivery: Int64, message: Int64, integration: String, reason: String
    ) -> TraceFinding {
        TraceFinding(
            delivery: delivery, message: message, integration: integration, content: .state(.dead(reason: reason)))
    }

    private static func attempt(
        delivery: Int64, message: Int64, integration: String, number: Int16, at: Timestamp, outcome: String,
        httpStatus: Int16?, latencyMilliseconds: Int32, failure: String?
    ) -> TraceFinding {
        let attempt = Trace.Attempt(
            number: Int(number), at: at, outcome: outcome, httpStatus: httpStatus.map { Int($0) },
            latencyMilliseconds: Int(latencyMilliseconds), failure: failure)
        return TraceFinding(
            delivery: delivery, message: message, integration: integration, content: .attempt(attempt))
    }

    static let events = Statement<[Int64], Trace.Webhook>(
        "trace_events",
        """
        SELECT e.id, e.source, e.environment, e.vendor_event_id, e.key, e.name, e.holder, e.occurred_at_ms,
               (extract(epoch FROM e.received_at) * 1000)::bigint, p.key
        FROM events e LEFT JOIN purchases p ON p.id = e.purchase WHERE e.id = ANY ($1) ORDER BY e.id
        """, row: webhook)

    static let body = Statement<Int64, ([UInt8], [UInt8]?)>(
        "trace_body", "SELECT body, answer FROM events WHERE id = $1")

    static let messages = Statement<([Int64], Int32), Trace.Message>(
        "trace_messages",
        """
        SELECT * FROM (
            SELECT m.id, m.event, coalesce(m.key, e.key), m.type, m.transfer
            FROM messages m \(RowByID.event("m.event", as: "e")) WHERE m.event = ANY ($1) ORDER BY m.id DESC LIMIT $2
        ) AS newest ORDER BY id
        """, row: message)

    /// Found by purchase, because deliveries have no index by message.
    static let waiting = Statement<[Int64], TraceFinding>(
        "trace_waiting",
        """
        WITH chosen AS MATERIALIZED (
            SELECT DISTINCT coalesce(t.purchase, e.purchase) AS purchase
            FROM messages m \(RowByID.event("m.event", as: "e")) LEFT JOIN transfers t ON t.id = m.transfer
            WHERE m.id = ANY ($1))
        SELECT d.id, d.message, i.name, (extract(epoch FROM d.due_at) * 1000)::bigint, d.blocked,
               i.paused_at IS NOT NULL
        FROM (
            SELECT w.* FROM chosen JOIN deliveries w ON w.purchase = chosen.purchase WHERE w.message = ANY ($1)
            UNION ALL
            SELECT w.* FROM deliveries w
            WHERE w.purchase IS NULL AND w.message = ANY ($1) AND EXISTS (SELECT FROM chosen WHERE purchase IS NULL)
        ) AS d
        JOIN integrations i ON i.id = d.integration
        ORDER BY d.id
        """, row: waitingDelivery)

    static let dead = Statement<[Int64], TraceFinding>(
        "trace_dead",
        """
        SELECT l.delivery, l.message, i.name, l.reason
        FROM dead_letters l JOIN integrations i ON i.id = l.integration WHERE l.message = ANY ($1) ORDER BY l.delivery
        """, row: deadLetter)

    static let attempts = Statement<([Int64], Int32), TraceFinding>(
        "trace_attempts",
        """
        SELECT a.delivery, a.message, i.name, a.attempt, (extract(epoch FROM a.at) * 1000)::bigint, a.outcome,
               a.http_status, a.latency_ms, a.failure
        FROM (SELECT * FROM attempts WHERE message = ANY ($1) ORDER BY at DESC, attempt DESC LIMIT $2) a
        JOIN integrations i ON i.id = a.integration
        ORDER BY a.at, a.attempt
        """, row: attempt)

    struct StoredHolding: Sendable {
        let purchase: String
        let holder: String
        let isGranted: Bool
        let asOf: Timestamp
        let source: String
        let store: String
        let until: Timestamp?
        let now: Timestamp
    }

    /// Of the purchases of events ($1), and of those that a holder ($3) has or had: the erasure of whoever gave it one
    /// deletes what leads to that from its events.
    static let holdings = Statement<([Int64], Int32, String?), StoredHolding>(
        "trace_holdings",
        """
        SELECT p.key, h.holder, h.active, \(KnownAccessStatements.asOf("h", of: "p")) AS as_of_ms,
               p.source, p.store, t.effective_next_renewal_at_ms, \(AccessEnd.now)
        FROM (SELECT purchase FROM events WHERE id = ANY ($1)
              UNION SELECT t.purchase FROM messages m JOIN transfers t ON t.id = m.transfer WHERE m.event = ANY ($1)
              UNION (SELECT purchase FROM entitlements WHERE holder = $3 ORDER BY purchase LIMIT $2)) AS of
        JOIN purchases p ON p.id = of.purchase JOIN entitlements h ON h.purchase = p.id
        \(AccessEnd.newestTransaction(of: "p.id"))
        ORDER BY p.key, as_of_ms, h.holder LIMIT $2
        """, row: StoredHolding.init)
}

extension Trace.Message {
    /// Adds what the tables say of its deliveries.
    fileprivate mutating func add(_ findings: [TraceFinding]) {
        var found: [Int64: Trace.Delivery] = [:]
        for finding in findings {
            var delivery =
                found[finding.delivery] ?? Trace.Delivery(id: finding.delivery, integration: finding.integration)
            switch finding.content {
            case .attempt(let attempt):
                delivery.attempts.append(attempt)
                if attempt.outcome == Outcome.accepted.rawValue { delivery.state = .delivered }
            case .state(let state): delivery.state = state
            }
            found[finding.delivery] = delivery
        }
        deliveries = found.values.sorted { $0.id < $1.id }
    }
}
