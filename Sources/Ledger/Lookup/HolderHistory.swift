import Postgres
package import Vocabulary

/// A transfer of a purchase from one holder to another.
package struct TransferEntry: Sendable {
    package let id: Identifier
    package let scope: Scope
    /// The purchase's key.
    package let purchase: String
    package let product: String?
    package let from: Holder
    package let to: Holder
    /// When it was announced.
    package let announcedAt: Timestamp
    /// Row of the event that it was announced with.
    let event: Int64
    /// Id of that event, the platform's or the relay's; nil: it is not kept any more.
    package let eventID: String?
    package let occurredAt: Timestamp?
}

/// One event of a holder's history.
package struct HistoryEntry: Sendable {
    let row: Int64
    /// The platform's id of the event, otherwise the relay's.
    package let eventID: String
    package let name: String
    package let type: String
    package let scope: Scope
    package let holder: Holder
    package let occurredAt: Timestamp
    package let receivedAt: Timestamp
    /// The purchase's key, where the event names one.
    package let purchase: String?
    package let product: String?
    package let storeTransactionID: String?
    /// Transfers from or to the holder announced with this event, the newest `transfersOfEventMax` of them.
    package fileprivate(set) var transfers: [TransferEntry] = []
}

extension HolderLookup {
    /// Transfers that an event of a history shows at most.
    package static let transfersOfEventMax: Int32 = 100

    /// The events of a subject and those that moved a purchase from or to it, the newest arrival first.
    package func history(
        of subject: LookupSubject, in scope: LookupScope, after cursor: LookupCursor? = nil, limit: Int
    ) async throws(LookupFailure) -> LookupPage<HistoryEntry> {
        let found = try await read(of: subject, in: scope) { meant, session throws(DatabaseError) in
            var events = try session.run(
                HolderHistoryStatements.events,
                (
                    meant.holders, meant.sources, meant.apps, scope.environment, scope.source,
                    (cursor ?? .greatest).number, Int32(limit + 1)
                ))
            let transfers = try session.run(
                HolderHistoryStatements.transfersOf, (events.map(\.row), meant.holders, Self.transfersOfEventMax)
            )
            let byEvent = Dictionary(grouping: transfers, by: \.event)
            for index in events.indices { events[index].transfers = byEvent[events[index].row] ?? [] }
            return events
        }
        return LookupPage(found, limit: limit) { LookupCursor(number: $0.row, identifier: Identifier(high: 0, low: 0)) }
    }

    /// The transfers from or to a subject, the newest first.
    package func transfers(
        of subject: LookupSubject, in scope: LookupScope, after cursor: LookupCursor? = nil, limit: Int
    ) async throws(LookupFailure) -> LookupPage<TransferEntry> {
        let found = try await read(of: subject, in: scope) { meant, session throws(DatabaseError) in
            let place = cursor ?? .greatest
            return try session.run(
                HolderHistoryStatements.transfers,
                (
                    meant.holders, meant.sources, meant.apps, scope.environment, scope.source, place.number,
                    place.identifier, Int32(limit + 1)
                )
            )
        }
        return LookupPage(found, limit: limit) { LookupCursor(number: $0.event, identifier: $0.id) }
    }
}

enum HolderHistoryStatements {
    private static func event(
        row: Int64, vendorEventID: String?, key: Identifier, name: String, type: String, source: String, app: String,
        environment: String, holder: String, occurredAt: Timestamp, receivedAt: Timestamp, purchase: String?,
        product: String?, transaction: String?
    ) -> HistoryEntry {
        HistoryEntry(
            row: row, eventID: vendorEventID ?? key.eventID, name: name, type: type,
            scope: Scope(source: source, app: app, environment: environment), holder: Holder(column: holder),
            occurredAt: occurredAt, receivedAt: receivedAt, purchase: purchase, product: product,
            storeTransactionID: ImportLine.shown(transaction))
    }

    private static func transfer(
        id: Identifier, source: String, app: String, environment: String, purchase: String, product: String?,
        from: String, to: String, announcedAt: Timestamp, event: Int64, vendorEventID: String?, eventKey: Identifier?,
        occurredAt: Timestamp?
    ) -> TransferEntry {
        TransferEntry(
            id: id, scope: Scope(source: source, app: app, environment: environment), purchase: purchase,
            product: product, from: Holder(column: from), to: Holder(column: to), announcedAt: announcedAt,
            event: event, eventID: vendorEventID ?? eventKey?.eventID, occurredAt: occurredAt)
    }

    private static let own = EventsOfHolder.rows(
        "w.holder",
        where: """
            id < $6 AND environment = $4 AND ($5 IS NULL OR source = $5)
            AND (w.source IS NULL OR source = w.source AND app = w.app)
            """, order: "DESC", limit: "$7")

    /// The newest `$7` kept events that moved a purchase, each once: one login can move thousands, and a transfer stays
    /// when its event is dropped. So each is looked for below the one before, and none below the oldest kept event: the
    /// last search finds nothing, and would read every transfer of a holder who has thousands. (It still does where a
    /// dead letter keeps an event as old as they are.)
    /// - Parameter column: of `transfers`, with the holder from or to which it moved.
    private static func moves(_ column: SQL) -> SQL {
        """
        (WITH RECURSIVE m (event, place) AS (
            SELECT $6, 0
            UNION ALL
            SELECT (SELECT t.event FROM transfers t JOIN purchases p ON p.id = t.purchase
                    \(RowByID.event("t.event", as: "e"))
                    WHERE t.\(column) = w.holder AND t.event < m.event
                      AND t.event >= (SELECT id FROM events ORDER BY id LIMIT 1) AND p.environment = $4
                      AND ($5 IS NULL OR p.source = $5)
                      AND (w.source IS NULL OR p.source = w.source AND p.app = w.app)
                    ORDER BY t.event DESC LIMIT 1), m.place + 1
            FROM m WHERE m.event IS NOT NULL AND m.place < $7)
         SELECT event FROM m WHERE place > 0 AND event IS NOT NULL)
        """
    }

    private static let movesFrom = moves("from_holder")
    private static let movesTo = moves("to_holder")

    /// Each of the lists is limited by its own index before they are combined.
    static let events = Statement<([String], [String?], [String?], String, String?, Int64, Int32), HistoryEntry>(
        "lookup_history_events",
        """
        SELECT e.id, e.vendor_event_id, e.key, e.name, e.type, e.source, e.app, e.environment, e.holder,
               e.occurred_at_ms, (extract(epoch FROM e.received_at) * 1000)::bigint, p.key, p.product,
               e.store_transaction_id
        FROM (
            SELECT DISTINCT x.id FROM unnest($1, $2, $3) AS w (holder, source, app)
            CROSS JOIN LATERAL (
                \(own)
                UNION ALL
                \(movesFrom)
                UNION ALL
                \(movesTo)
            ) AS x
        ) AS found
        \(RowByID.event("found.id", as: "e"))
        LEFT JOIN purchases p ON p.id = e.purchase
        ORDER BY e.id DESC LIMIT $7
        """, row: event)

    /// The newest `$3` of each event: one login can move thousands, and `transfers` lists all of them in pages.
    static let transfersOf = Statement<([Int64], [String], Int32), TransferEntry>(
        "lookup_history_transfers",
        """
        SELECT t.id, p.source, p.app, p.environment, p.key, p.product, t.from_holder, t.to_holder,
               (extract(epoch FROM t.told_at) * 1000)::bigint, t.event, e.vendor_event_id, e.key, e.occurred_at_ms
        FROM unnest($1) AS w (event)
        CROSS JOIN LATERAL (
            SELECT x.id FROM unnest($2) AS h (holder)
            CROSS JOIN LATERAL (
                (SELECT id FROM transfers WHERE from_holder = h.holder AND event = w.event ORDER BY id DESC LIMIT $3)
                UNION
                (SELECT id FROM transfers WHERE to_holder = h.holder AND event = w.event ORDER BY id DESC LIMIT $3)
            ) AS x
            GROUP BY x.id ORDER BY x.id DESC LIMIT $3
        ) AS found
        JOIN transfers t ON t.id = found.id
        JOIN purchases p ON p.id = t.purchase \(RowByID.eventIfKept("t.event", as: "e"))
        ORDER BY t.event DESC, t.id DESC
        """, row: transfer)

    static let transfers = Statement<
        ([String], [String?], [String?], String, String?, Int64, Identifier, Int32), TransferEntry
    >(
        "lookup_transfers",
        """
        SELECT t.id, p.source, p.app, p.environment, p.key, p.product, t.from_holder, t.to_holder,
               (extract(epoch FROM t.told_at) * 1000)::bigint, t.event, e.vendor_event_id, e.key, e.occurred_at_ms
        FROM (
            SELECT DISTINCT x.id FROM unnest($1, $2, $3) AS w (holder, source, app)
            CROSS JOIN LATERAL (
                (SELECT t.id FROM transfers t JOIN purchases p ON p.id = t.purchase
                 WHERE t.from_holder = w.holder AND (t.event, t.id) < ($6, $7) AND p.environment = $4
                   AND ($5 IS NULL OR p.source = $5)
                   AND (w.source IS NULL OR p.source = w.source AND p.app = w.app)
                 ORDER BY t.event DESC, t.id DESC LIMIT $8)
                UNION ALL
                (SELECT t.id FROM transfers t JOIN purchases p ON p.id = t.purchase
                 WHERE t.to_holder = w.holder AND (t.event, t.id) < ($6, $7) AND p.environment = $4
                   AND ($5 IS NULL OR p.source = $5)
                   AND (w.source IS NULL OR p.source = w.source AND p.app = w.app)
                 ORDER BY t.event DESC, t.id DESC LIMIT $8)
            ) AS x
        ) AS found
        JOIN transfers t ON t.id = found.id
        JOIN purchases p ON p.id = t.purchase
        \(RowByID.eventIfKept("t.event", as: "e"))
        ORDER BY t.event DESC, t.id DESC LIMIT $8
        """, row: transfer)
}
