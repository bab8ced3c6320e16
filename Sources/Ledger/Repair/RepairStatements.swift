import Postgres
import Vocabulary

/// The SQL of repairing. Webhooks come in their order of arrival, which is that of their rows.
enum RepairStatements {
    struct Age {
        /// The database's time.
        let now: Timestamp
        /// Since when the ledger exists.
        let since: Timestamp?
    }

    struct WebhookRow {
        let id: Int64
        let key: Identifier
        let vendorEventID: String?
        let name: String
        let holder: String
        let occurredAt: Timestamp
        let receivedAt: Timestamp
        let storeTransactionID: String?
        let body: [UInt8]
        let answer: [UInt8]?
    }

    struct ChangeRow {
        let event: Int64
        let subject: String
        let kind: String
        let target: String
        let secondTarget: String?
        let at: Int64
    }

    struct FirstIdentify {
        let event: Int64
        let identity: String
        let install: String
        /// Something stored before names the identity: it was somebody's before, and nothing was shared.
        let wasKnown: Bool
    }

    struct LinkRow {
        let event: Int64
        let at: Timestamp
        let from: String
        let to: String
    }

    struct EntitlementRow {
        let holder: String
        let isActive: Bool
        let asOf: Timestamp
        let event: Int64?
    }

    struct TransferRow {
        let id: Identifier
        let from: String
        let to: String
        let ordinal: Int32
        let event: Int64
    }

    static let named = Statement<(String, Identifier?, String?, Int32), Identifier>(
        "repair_named",
        """
        SELECT id FROM purchases WHERE (key = $1 OR id = $2) AND ($3 IS NULL OR source = $3)
        UNION
        SELECT p.id FROM transactions t JOIN purchases p ON p.id = t.purchase
        WHERE t.store_transaction_id = $1 AND ($3 IS NULL OR p.source = $3)
        ORDER BY id LIMIT $4
        """)

    /// Purchases of any source: no index leads to those of one, so a statement that looked for them would read what
    /// lies between.
    static let page = Statement<(Identifier, Int32), (Identifier, String)>(
        "repair_page", "SELECT id, source FROM purchases WHERE id > $1 ORDER BY id LIMIT $2")

    static let source = Statement<Identifier, String>("repair_source", "SELECT source FROM purchases WHERE id = $1")

    /// A ledger that was moved has migrations of its own, and the integrations of the one before. Of an integration
    /// that an early version has added it is not known when.
    static let horizon = Statement<(), Age>(
        "repair_horizon",
        """
        SELECT (extract(epoch FROM now()) * 1000)::bigint,
               (extract(epoch FROM least((SELECT min(applied_at) FROM schema_migrations),
                                         (SELECT min(created_at) FROM integrations WHERE isfinite(created_at))))
                * 1000)::bigint
        """, row: Age.init)

    /// Without Posthouse's own messages about the purchase (`Lapses`), which state nothing.
    static let webhooks = Statement<(Identifier, Int64, Int32), WebhookRow>(
        "repair_webhooks",
        """
        SELECT id, key, vendor_event_id, name, holder, occurred_at_ms,
               (extract(epoch FROM received_at) * 1000)::bigint, store_transaction_id, body, answer
        FROM events
        WHERE purchase = $1 AND id > $2 AND (type NOT LIKE 'posthouse.%' OR type = 'posthouse.import')
        ORDER BY id LIMIT $3
        """, row: WebhookRow.init)

    /// Events of holders that name no purchase.
    static let statements = Statement<([String], String, String, String, Int64, Int32), WebhookRow>(
        "repair_statements",
        """
        SELECT id, key, vendor_event_id, name, holder, occurred_at_ms,
               (extract(epoch FROM received_at) * 1000)::bigint, store_transaction_id, body, answer
        FROM events
        WHERE holder = ANY ($1) AND stray AND source = $2 AND app = $3 AND environment = $4 AND purchase IS NULL
            AND id > $5
        ORDER BY id LIMIT $6
        """, row: WebhookRow.init)

    private static let other = EventsOfHolder.rows(
        "w.holder", where: "source = $2 AND app = $3 AND environment = $4 AND purchase <> $5 AND id > $6", limit: "$7")

    /// Events of holders that name other purchases than one.
    static let others = Statement<([String], String, String, String, Identifier, Int64, Int32), WebhookRow>(
        "repair_others",
        """
        SELECT e.id, e.key, e.vendor_event_id, e.name, e.holder, e.occurred_at_ms,
               (extract(epoch FROM e.received_at) * 1000)::bigint, e.store_transaction_id, e.body, e.answer
        FROM (SELECT DISTINCT o.id FROM unnest($1) AS w (holder) CROSS JOIN LATERAL (\(other)) AS o
              ORDER BY o.id LIMIT $7) AS found
        \(RowByID.event("found.id", as: "e"))
        ORDER BY e.id
        """, row: WebhookRow.init)

    static let byRow = Statement<[Int64], WebhookRow>(
        "repair_by_row",
        """
        SELECT id, key, vendor_event_id, name, holder, occurred_at_ms,
               (extract(epoch FROM received_at) * 1000)::bigint, store_transaction_id, body, answer
        FROM events WHERE id = ANY ($1) ORDER BY id
        """, row: WebhookRow.init)

    /// The changes of subjects, with the event that stated each.
    static let changes = Statement<([String], String, String, String, Int32), ChangeRow>(
        "repair_changes",
        """
        SELECT event, subject, kind, target, second_target, at_ms FROM holder_changes
        WHERE subject = ANY ($1) AND source = $2 AND app = $3 AND environment = $4 ORDER BY event, id LIMIT $5
        """, row: ChangeRow.init)

    private static let before = EventsOfHolder.rows(
        "'user:' || i.identity", where: "source = $2 AND app = $3 AND environment = $4 AND id < i.event", limit: "1")

    private static let eventOfAccess = KnownAccessStatements.event("e", of: "p")

    /// Each first identify of installs.
    static let firstIdentifies = Statement<([String], String, String, String), FirstIdentify>(
        "repair_first_identifies",
        """
        SELECT i.event, i.identity, i.install,
               EXISTS (\(before))
                   OR EXISTS (SELECT FROM entitlements e JOIN purchases p ON p.id = e.purchase
                              WHERE e.holder = 'user:' || i.identity AND \(eventOfAccess) < i.event AND p.source = $2
                                AND p.app = $3 AND p.environment = $4)
        FROM install_identities i
        WHERE i.install = ANY ($1) AND i.source = $2 AND i.app = $3 AND i.environment = $4
        """, row: FirstIdentify.init)

    /// Transfers of other purchases from installs to users: each says who the install was from then on, but for those
    /// that a restore by the app's backend announced. Those are not quite the ones that a restore made: one that came
    /// before the purchase's first webhook is announced by that webhook, and counts; what a restore announced and a
    /// webhook showed later does not count.
    static let links = Statement<([String], Identifier, String, String, String, Int32), LinkRow>(
        "repair_links",
        """
        SELECT t.event, e.occurred_at_ms, t.from_holder, t.to_holder
        FROM transfers t \(RowByID.event("t.event", as: "e"))
        WHERE t.from_holder = ANY ($1) AND t.purchase <> $2 AND t.to_holder LIKE 'user:%' AND e.source = $3
          AND e.app = $4 AND e.environment = $5 AND NOT (e.type = 'RESTORED' AND e.purchase IS NULL)
        ORDER BY t.event LIMIT $6
        """, row: LinkRow.init)

    static let entitlements = Statement<Identifier, EntitlementRow>(
        "repair_entitlements",
        """
        SELECT e.holder, e.active, \(KnownAccessStatements.asOf("e", of: "p")), \(eventOfAccess)
        FROM entitlements e LEFT JOIN purchases p ON p.id = e.purchase WHERE e.purchase = $1
        """, row: EntitlementRow.init)

    static let transfers = Statement<Identifier, TransferRow>(
        "repair_transfers",
        "SELECT id, from_holder, to_holder, ordinal, event FROM transfers WHERE purchase = $1 ORDER BY event, id",
        row: TransferRow.init)

    static let transactions = Statement<Identifier, PurchaseHistory.StoreTransaction>(
        "repair_transactions",
        """
        SELECT store_transaction_id, as_of_event, as_of_ms, purchased_at_ms, effective_next_renewal_at_ms
        FROM transactions WHERE purchase = $1
        """, row: PurchaseHistory.StoreTransaction.init)

    static let write = Statement<(Identifier, [UInt8], String), ()>(
        "repair_write", "UPDATE purchases SET state = $2, kind = $3 WHERE id = $1")

    /// Quarantined webhooks of a source whose reason begins so.
    static let waiting = Statement<(String, String), Int64>(
        "repair_waiting", "SELECT id FROM quarantine WHERE source = $1 AND starts_with(reason, $2) ORDER BY id")
}
