import Postgres
import Vocabulary

/// The SQL of repairing. Webhooks come in their order of arrival, which is that of their rows.
enum RepairStatements {
    /// Row, key, the platform's id, name, holder, event time, time of receipt, store transaction, body.
    typealias WebhookRow = (Int64, Identifier, String?, String, String, Int64, Int64, String?, [UInt8])

    static let named = Statement<(String, Identifier?, String?, Int32), Identifier>(
        "repair_named",
        """
        SELECT id FROM purchases WHERE (key = $1 OR id = $2) AND ($3 IS NULL OR source = $3)
        UNION
        SELECT p.id FROM transactions t JOIN purchases p ON p.id = t.purchase
        WHERE t.store_transaction_id = $1 AND ($3 IS NULL OR p.source = $3)
        ORDER BY id LIMIT $4
        """)

    static let page = Statement<(Identifier, String?, Int32), Identifier>(
        "repair_page",
        "SELECT id FROM purchases WHERE id > $1 AND ($2 IS NULL OR source = $2) ORDER BY id LIMIT $3")

    static let source = Statement<Identifier, String>("repair_source", "SELECT source FROM purchases WHERE id = $1")

    /// The database's time, and since when the ledger exists.
    static let horizon = Statement<(), (Int64, Int64?)>(
        "repair_horizon",
        """
        SELECT (extract(epoch FROM now()) * 1000)::bigint,
               (SELECT (extract(epoch FROM min(applied_at)) * 1000)::bigint FROM schema_migrations)
        """)

    static let webhooks = Statement<(Identifier, Int64, Int32), WebhookRow>(
        "repair_webhooks",
        """
        SELECT id, key, vendor_event_id, name, holder, occurred_at_ms,
               (extract(epoch FROM received_at) * 1000)::bigint, store_transaction_id, body
        FROM events WHERE purchase = $1 AND id > $2 ORDER BY id LIMIT $3
        """)

    /// Events of holders that name no purchase.
    static let statements = Statement<([String], String, String, String, Int64, Int32), WebhookRow>(
        "repair_statements",
        """
        SELECT id, key, vendor_event_id, name, holder, occurred_at_ms,
               (extract(epoch FROM received_at) * 1000)::bigint, store_transaction_id, body
        FROM events
        WHERE holder = ANY ($1) AND source = $2 AND app = $3 AND environment = $4 AND purchase IS NULL AND id > $5
        ORDER BY id LIMIT $6
        """)

    static let byRow = Statement<[Int64], WebhookRow>(
        "repair_by_row",
        """
        SELECT id, key, vendor_event_id, name, holder, occurred_at_ms,
               (extract(epoch FROM received_at) * 1000)::bigint, store_transaction_id, body
        FROM events WHERE id = ANY ($1) ORDER BY id
        """)

    /// The event that stated each change, and the change.
    static let changes = Statement<
        ([String], String, String, String, Int32), (Int64, String, String, String, String?, Int64)
    >(
        "repair_changes",
        """
        SELECT event, subject, kind, target, second_target, at_ms FROM holder_changes
        WHERE subject = ANY ($1) AND source = $2 AND app = $3 AND environment = $4 ORDER BY event, id LIMIT $5
        """)

    /// The event, the identity and the install of each first identify of installs, and whether something stored before
    /// names the identity: then it was somebody's before, and nothing was shared.
    static let firstIdentifies = Statement<([String], String, String, String), (Int64, String, String, Bool)>(
        "repair_first_identifies",
        """
        SELECT i.event, i.identity, i.install,
               EXISTS (SELECT FROM events e
                       WHERE e.holder = 'user:' || i.identity AND e.source = $2 AND e.app = $3 AND e.environment = $4
                         AND e.id < i.event)
                   OR EXISTS (SELECT FROM entitlements e JOIN purchases p ON p.id = e.purchase
                              WHERE e.holder = 'user:' || i.identity AND e.event < i.event AND p.source = $2
                                AND p.app = $3 AND p.environment = $4)
        FROM install_identities i
        WHERE i.install = ANY ($1) AND i.source = $2 AND i.app = $3 AND i.environment = $4
        """)

    /// Transfers of other purchases from installs to users: each says who the install was from then on. The event, its
    /// time, both holders.
    static let links = Statement<([String], Identifier, String, String, String, Int32), (Int64, Int64, String, String)>(
        "repair_links",
        """
        SELECT t.event, e.occurred_at_ms, t.from_holder, t.to_holder
        FROM transfers t JOIN events e ON e.id = t.event
        WHERE t.from_holder = ANY ($1) AND t.purchase <> $2 AND t.to_holder LIKE 'user:%' AND e.source = $3
          AND e.app = $4 AND e.environment = $5
        ORDER BY t.event LIMIT $6
        """)

    static let entitlements = Statement<Identifier, (String, Bool, Int64, Int64?)>(
        "repair_entitlements", "SELECT holder, active, as_of_ms, event FROM entitlements WHERE purchase = $1")

    static let transfers = Statement<Identifier, (Identifier, String, String, Int32, Int64)>(
        "repair_transfers",
        "SELECT id, from_holder, to_holder, ordinal, event FROM transfers WHERE purchase = $1 ORDER BY event, id")

    static let transactions = Statement<Identifier, (String, Identifier, Int64, Int64?, Int64?)>(
        "repair_transactions",
        """
        SELECT store_transaction_id, as_of_event, as_of_ms, purchased_at_ms, effective_next_renewal_at_ms
        FROM transactions WHERE purchase = $1
        """)

    static let write = Statement<(Identifier, [UInt8], String), ()>(
        "repair_write", "UPDATE purchases SET state = $2, kind = $3 WHERE id = $1")

    /// Quarantined webhooks of a source whose reason begins so.
    static let waiting = Statement<(String, String), Int64>(
        "repair_waiting", "SELECT id FROM quarantine WHERE source = $1 AND starts_with(reason, $2) ORDER BY id")
}
