import Postgres
import Vocabulary

/// An id by which events can be found. Support gets any of these from a customer or a log.
package struct EventHandle: Sendable {
    package enum Kind: String, Sendable, CaseIterable {
        case transaction, event, message, transfer, user, anonymous
    }

    /// Nil: any kind.
    package let kind: Kind?
    package let id: String

    package init(_ kind: Kind?, _ id: String) {
        self.kind = kind
        self.id = id
    }
}

/// What kind a handle turned out to be, and the rows of its events, the newest first.
struct FoundEvents {
    let kind: EventHandle.Kind
    let rows: [Int64]
}

extension EventHandle {
    /// Newest events from which the scopes for a platform's event id are taken, before all events are read.
    private static let scopesFromEvents: Int32 = 10_000

    /// Finds at most `limit` events, the newest. A handle without a kind is of the first kind that has any.
    func find(limit: Int32, on session: borrowing Session) throws(DatabaseError) -> FoundEvents? {
        for kind in kind.map({ [$0] }) ?? likelyKinds {
            let rows = try find(kind, limit: limit, on: session)
            if !rows.isEmpty { return FoundEvents(kind: kind, rows: rows) }
        }
        guard kind == nil || kind == .event else { return nil }
        let hashes = try eventHashes(on: session)
        let timed = try session.run(EventHandleStatements.byEventHash, hashes)
        if !timed.isEmpty { return FoundEvents(kind: .event, rows: timed) }
        // The slow way, last: no index leads to this event id.
        let rows = try session.run(EventHandleStatements.scan, (id, Identifier(written: id)))
        return rows.isEmpty ? nil : FoundEvents(kind: .event, rows: rows)
    }

    /// The prefix of the relay's own ids says what kind they are.
    private var likelyKinds: [Kind] {
        if id.hasPrefix("msg_") { return [.message] }
        if id.hasPrefix("trf_") { return [.transfer] }
        if id.hasPrefix("evt_") { return [.event] }
        return [.transaction, .event, .user, .anonymous]
    }

    /// The holder that a handle of this kind names; nil: it names something else.
    func holder(as kind: Kind) -> Holder? {
        switch kind {
        case .user: .user(id)
        case .anonymous: .anonymous(id)
        case .transaction, .event, .message, .transfer: nil
        }
    }

    private func find(
        _ kind: Kind, limit: Int32, on session: borrowing Session
    ) throws(DatabaseError) -> [Int64] {
        switch kind {
        case .transaction: return try session.run(EventHandleStatements.byTransaction, (id, limit))
        case .user: return try session.run(EventHandleStatements.byHolder, (Holder.user(id).storageKey, limit))
        case .anonymous:
            return try session.run(EventHandleStatements.byHolder, (Holder.anonymous(id).storageKey, limit))
        case .message:
            return try Identifier(written: id).map { key throws(DatabaseError) in
                try session.run(EventHandleStatements.byMessage, key)
            } ?? []
        case .transfer:
            return try Identifier(written: id).map { key throws(DatabaseError) in
                try session.run(EventHandleStatements.byTransfer, key)
            } ?? []
        case .event: return try findEvent(on: session)
        }
    }

    /// The relay's id is the event's key, or the key of the message that states it; a platform's is part of the event's
    /// hash, which is the key where that has no time.
    private func findEvent(on session: borrowing Session) throws(DatabaseError) -> [Int64] {
        if id.hasPrefix("evt_"), let key = Identifier(written: id) {
            let rows = try session.run(EventHandleStatements.byEventKey, [key])
            return try rows.isEmpty ? session.run(EventHandleStatements.byMessage, key) : rows
        }
        let hashes = try eventHashes(on: session)
        return try session.run(EventHandleStatements.byEventKey, hashes)
    }

    /// The hashes that an event with this id of a platform can have.
    private func eventHashes(on session: borrowing Session) throws(DatabaseError) -> [Identifier] {
        let scopes = try session.run(EventHandleStatements.scopes, Self.scopesFromEvents)
        return Set(scopes + scopes.map(\.ofSourceAlone)).map { KeyHash.eventHash(vendorEventID: id, in: $0) }
    }
}

enum EventHandleStatements {
    /// Webhooks of a transaction, and those that moved its purchases without naming them.
    static let byTransaction = Statement<(String, Int32), Int64>(
        "find_transaction",
        """
        SELECT id FROM (
            (SELECT id FROM events
             WHERE store_transaction_id = $1 AND purchase IS NULL ORDER BY id DESC LIMIT $2)
            UNION
            (SELECT own.id FROM transactions x CROSS JOIN LATERAL (
                SELECT id FROM events WHERE purchase = x.purchase AND store_transaction_id = $1
                ORDER BY id DESC LIMIT $2) AS own
             WHERE x.store_transaction_id = $1 ORDER BY own.id DESC LIMIT $2)
            UNION (SELECT t.event FROM transfers t JOIN transactions x ON x.purchase = t.purchase
                   WHERE x.store_transaction_id = $1 ORDER BY t.event DESC LIMIT $2)) AS found
        ORDER BY id DESC LIMIT $2
        """)

    /// Webhooks of a holder, and those that moved a purchase from or to it.
    static let byHolder = Statement<(String, Int32), Int64>(
        "find_holder",
        """
        SELECT id FROM (
            \(EventsOfHolder.rows("$1", order: "DESC", limit: "$2"))
            UNION (SELECT event FROM transfers WHERE from_holder = $1 ORDER BY event DESC LIMIT $2)
            UNION (SELECT event FROM transfers WHERE to_holder = $1 ORDER BY event DESC LIMIT $2)) AS found
        ORDER BY id DESC LIMIT $2
        """)

    static let byMessage = Statement<Identifier, Int64>(
        "find_message",
        """
        SELECT event FROM messages WHERE key = $1
        UNION ALL
        SELECT m.event FROM identities i JOIN messages m ON m.event = i.event AND m.key IS NULL WHERE i.key = $1
        """)

    static let byTransfer = Statement<Identifier, Int64>("find_transfer", "SELECT event FROM transfers WHERE id = $1")

    static let byEventKey = Statement<[Identifier], Int64>(
        "find_event_key",
        """
        SELECT i.event FROM identities i \(RowByID.event("i.event", as: "e")) WHERE i.key = ANY ($1) ORDER BY i.event DESC
        """)

    /// Events whose keys are one of these hashes, or one behind a time (`Identifier.behind`): asks for each at each
    /// time that is stored, of which there are some 30,000 a year. Of keys without a time one in 1,024 looks like one.
    static let byEventHash = Statement<[Identifier], Int64>(
        "find_event_hash",
        """
        WITH RECURSIVE times (time) AS (
            SELECT (SELECT left(key::text, 8) FROM identities
                    WHERE key < '00400000-0000-0000-0000-000000000000' ORDER BY key LIMIT 1)
            UNION ALL
            SELECT (SELECT left(key::text, 8) FROM identities
                    WHERE key > (time || '-ffff-ffff-ffff-ffffffffffff')::uuid
                        AND key < '00400000-0000-0000-0000-000000000000' ORDER BY key LIMIT 1)
            FROM times WHERE time IS NOT NULL)
        SELECT e.id FROM (
            SELECT hash AS key FROM unnest($1) AS w (hash)
            UNION ALL
            SELECT (time || left(replace(hash::text, '-', ''), 24))::uuid FROM times CROSS JOIN unnest($1) AS w (hash)
        ) AS k JOIN identities i USING (key) \(RowByID.event("i.event", as: "e")) ORDER BY e.id DESC
        """)

    static let scopes = Statement<Int32, Scope>(
        "find_scopes",
        """
        SELECT DISTINCT source, app, environment
        FROM (SELECT source, app, environment FROM events ORDER BY id DESC LIMIT $1) AS newest
        """, row: Scope.init)

    static let scan = Statement<(String, Identifier?), Int64>(
        "find_scan", "SELECT id FROM events WHERE vendor_event_id = $1 OR key = $2 ORDER BY id DESC LIMIT 100")
}
