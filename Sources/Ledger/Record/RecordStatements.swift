import Postgres
import Vocabulary

/// The SQL of recording: a batch in a handful of wide statements, each over `unnest` of arrays. Rows are named in one
/// order everywhere (ascending keys), so that two batches never wait for each other in a circle.
enum RecordStatements {
    typealias PurchaseColumns = (
        [Identifier], [String], [String], [String], [String], [String], [String], [String?], [String?], [String?],
        [Int64], [[UInt8]]
    )
    typealias MessageColumns = (
        [Int64], [Identifier], [Int64], [String], [Identifier?], [[UInt8]], [[UInt8]?]
    )
    typealias PurchaseRow = (
        Identifier, String, String, String, String, String, String, String?, String?, String?, Int64, [UInt8]
    )

    /// Row ids for `$1` events that no source sent, and the database's time in milliseconds.
    static let eventIDs = Statement<Int32, (Int64, Int64)>(
        "record_event_ids",
        """
        SELECT nextval('event_ids'), (extract(epoch FROM now()) * 1000)::bigint FROM generate_series(1, $1)
        """)

    /// Adds event keys. The keys returned are new, each with the row of its event and the database's time in
    /// milliseconds; the others were known before or are erased. While nothing was ever erased, no hash is computed.
    /// Rows are numbered in the order of the arrays, which is that of arrival, and inserted in the order of the keys.
    static let admit = Statement<([Identifier], [Identifier]), (Identifier, Int64, Int64)>(
        "record_admit",
        """
        INSERT INTO identities (key, body_digest, event)
        SELECT * FROM (
            SELECT key, body_digest, nextval('event_ids') FROM unnest($1, $2) AS w (key, body_digest)
        ) AS w (key, body_digest, event)
        WHERE NOT (EXISTS (SELECT FROM erased_events) AND EXISTS (
            SELECT FROM erasure_salt s JOIN erased_events x ON x.digest = sha256(s.salt || uuid_send(w.key))))
        ORDER BY key
        ON CONFLICT (key) DO NOTHING RETURNING key, event, (extract(epoch FROM now()) * 1000)::bigint
        """)

    /// Deletes event keys that were added in the same transaction.
    static let forget = Statement<[Identifier], ()>("record_forget", "DELETE FROM identities WHERE key = ANY ($1)")

    /// Known event keys that came with other bytes, each returned once, with the digest of those bytes.
    static let differing = Statement<([Identifier], [Identifier]), (Identifier, Identifier)>(
        "record_differing",
        """
        UPDATE identities i SET differs = true FROM unnest($1, $2) AS d (key, digest)
        WHERE i.key = d.key AND i.body_digest <> d.digest AND NOT i.differs RETURNING i.key, d.digest
        """)

    /// Locks the purchases of the batch that exist already.
    static let lockPurchases = Statement<[Identifier], PurchaseRow>(
        "record_lock_purchases",
        """
        SELECT id, source, app, environment, store, key, kind, product, plan, subscription_id, as_of_ms, state
        FROM purchases WHERE id = ANY ($1) ORDER BY id FOR UPDATE
        """)

    /// Row ids, ascending in the order of announcement: the order of a purchase's deliveries depends on it. They are
    /// drawn while the purchase is locked; of two batches that both create it, one starts again.
    static let rowIDs = Statement<(Int32, Int32), ([Int64], [Int64])>(
        "record_row_ids",
        """
        SELECT ARRAY (SELECT nextval('message_ids') FROM generate_series(1, $1)),
               ARRAY (SELECT nextval('delivery_ids') FROM generate_series(1, $2))
        """)

    /// The last unsettled delivery of each ordering key, as far as it is visible without waiting: what settles
    /// meanwhile is checked once more after the commit (`Recorder.unblockSuccessors`).
    static let occupied = Statement<([Identifier], [Int32]), (Identifier, Int32, Int64)>(
        "record_occupied",
        """
        SELECT p.id, i.id, last.id
        FROM unnest($1) AS p (id) CROSS JOIN unnest($2) AS i (id)
        CROSS JOIN LATERAL (
            SELECT d.id FROM deliveries d WHERE d.purchase = p.id AND d.integration = i.id ORDER BY d.id DESC LIMIT 1
        ) AS last
        """)

    static let events = Statement<
        (
            [Int64], [Identifier], [String], [String], [String], [String?], [String], [String], [String], [Int64],
            [Identifier?], [String?], [[UInt8]]
        ), ()
    >(
        "record_events",
        """
        INSERT INTO events (id, key, source, app, environment, vendor_event_id, name, type, holder, occurred_at_ms,
                            purchase, store_transaction_id, body)
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
        """)

    /// Inserts purchases that are new; if another batch created one first, the statement fails (unique_violation).
    static let insertPurchases = Statement<PurchaseColumns, ()>(
        "record_insert_purchases",
        """
        INSERT INTO purchases (id, source, app, environment, store, key, kind, product, plan, subscription_id,
                               as_of_ms, state)
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
        """)

    /// The same, without failing: fewer rows than requested mean that another batch created one first.
    static let tryPurchases = Statement<PurchaseColumns, ()>(
        "record_try_purchases",
        """
        INSERT INTO purchases (id, source, app, environment, store, key, kind, product, plan, subscription_id,
                               as_of_ms, state)
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
        ON CONFLICT (id) DO NOTHING
        """)

    static let updatePurchases = Statement<
        ([Identifier], [String], [String?], [String?], [String?], [Int64], [[UInt8]]), ()
    >(
        "record_update_purchases",
        """
        UPDATE purchases p
        SET kind = n.kind, product = n.product, plan = n.plan, subscription_id = n.subscription_id,
            as_of_ms = n.as_of_ms, state = n.state
        FROM unnest($1, $2, $3, $4, $5, $6, $7) AS n (id, kind, product, plan, subscription_id, as_of_ms, state)
        WHERE p.id = n.id
        """)

    static let transactions = Statement<
        (
            [String], [Identifier], [String?], [Int64?], [Int64?], [String?], [String?], [Int64], [Identifier]
        ), ()
    >(
        "record_transactions",
        """
        INSERT INTO transactions AS t (store_transaction_id, purchase, store_original_transaction_id, purchased_at_ms,
                                       effective_next_renewal_at_ms, offer_type, status, as_of_ms, as_of_event)
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT (store_transaction_id, purchase) DO UPDATE
        SET store_original_transaction_id = excluded.store_original_transaction_id,
            purchased_at_ms = excluded.purchased_at_ms,
            effective_next_renewal_at_ms = excluded.effective_next_renewal_at_ms,
            offer_type = excluded.offer_type, status = excluded.status,
            as_of_ms = excluded.as_of_ms, as_of_event = excluded.as_of_event
        WHERE (t.as_of_ms, t.as_of_event) < (excluded.as_of_ms, excluded.as_of_event)
        """)

    static let entitlements = Statement<([String], [Identifier], [Bool], [Int64], [Int64]), ()>(
        "record_entitlements",
        """
        INSERT INTO entitlements AS e (holder, purchase, active, as_of_ms, event)
        SELECT * FROM unnest($1, $2, $3, $4, $5)
        ON CONFLICT (holder, purchase) DO UPDATE
        SET active = excluded.active, as_of_ms = excluded.as_of_ms, event = excluded.event, changed_at = now()
        WHERE (e.active, e.as_of_ms) IS DISTINCT FROM (excluded.active, excluded.as_of_ms)
        """)

    static let transfers = Statement<
        ([Identifier], [Identifier], [String], [String], [Int32], [Int64], [String?]), ()
    >(
        "record_transfers",
        """
        INSERT INTO transfers (id, purchase, from_holder, to_holder, ordinal, event, store_transaction_id)
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7)
        """)

    /// Inserts messages that are new; otherwise the statement fails (unique_violation).
    static let insertMessages = Statement<MessageColumns, ()>(
        "record_insert_messages",
        """
        INSERT INTO messages (id, key, event, type, transfer, envelope, derived_body)
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7)
        """)

    /// Inserts messages and returns the new ones. A message that exists already (its event key was pruned and the event
    /// came again) is not delivered again.
    static let tryMessages = Statement<MessageColumns, Int64>(
        "record_try_messages",
        """
        INSERT INTO messages (id, key, event, type, transfer, envelope, derived_body)
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7)
        ON CONFLICT (key) DO NOTHING RETURNING id
        """)

    static let deliveries = Statement<([Int64], [Int64], [Int32], [Identifier?], [Bool], [Int64?]), ()>(
        "record_deliveries",
        """
        INSERT INTO deliveries (id, message, integration, purchase, blocked, leased_by)
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6)
        """)

    /// Quarantines a body; returns no row for a body that was erased.
    static let quarantine = Statement<(String, String, Identifier, [UInt8]), Int64>(
        "record_quarantine",
        """
        INSERT INTO quarantine (source, reason, body_digest, body)
        SELECT $1, $2, $3, $4
        WHERE NOT EXISTS (
            SELECT FROM erasure_salt s JOIN erased_events x ON x.digest = sha256(s.salt || uuid_send($3)))
        ON CONFLICT (source, body_digest) DO UPDATE SET reason = excluded.reason RETURNING id
        """)

    /// Writes a record to the write-ahead log only, so that COMMIT waits until it and everything before it are as
    /// durable as configured.
    static let wait = Statement<(), ()>("record_wait", "SELECT FROM pg_logical_emit_message(true, 'posthouse', '')")

    static let notify = Statement<String, ()>("record_notify", "SELECT FROM pg_notify('posthouse_deliveries', $1)")
}
