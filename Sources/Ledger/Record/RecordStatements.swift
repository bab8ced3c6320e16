import Postgres
import Vocabulary

/// The SQL of recording beside that of its tables (`RecordTables`): a batch in a handful of wide statements, each over
/// `unnest` of arrays. Rows are named in one order everywhere (ascending keys), so that two batches never wait for each
/// other in a circle.
enum RecordStatements {
    struct EventID {
        let row: Int64
        /// The database's time in milliseconds.
        let now: Int64
    }

    /// Row ids for `$1` events that no source sent.
    static let eventIDs = Statement<Int32, EventID>(
        "record_event_ids",
        """
        SELECT nextval('event_ids'), (extract(epoch FROM now()) * 1000)::bigint FROM generate_series(1, $1)
        """, row: EventID.init)

    struct Admitted {
        let key: Identifier
        /// Row of its event.
        let event: Int64
        /// The database's time in milliseconds.
        let now: Int64
    }

    /// Adds event keys, each with its other form and the digest of the body. The keys returned are new; the others were
    /// known before, in either form, or are erased. While nothing was ever erased, no hash is computed. Rows are
    /// numbered in the order of the arrays, which is that of arrival, and inserted in the order of the keys. The time
    /// is in a query of its own, so that it is computed once and not for each row.
    static let admit = Statement<([Identifier], [Identifier], [Identifier]), Admitted>(
        "record_admit", admission("ON CONFLICT DO NOTHING"), row: Admitted.init)

    /// The same before `LedgerForm.timedKeys`. It fails from then on (42P10, `FormSwitch`), because two batches that
    /// took different forms for the current one could each add the same event.
    static let admitBeforeTimedKeys = Statement<([Identifier], [Identifier], [Identifier]), Admitted>(
        "record_admit_before_timed_keys", admission("ON CONFLICT (key) DO NOTHING"), row: Admitted.init)

    private static func admission(_ onConflict: SQL) -> SQL {
        """
        INSERT INTO identities (key, body_digest, event)
        SELECT key, body_digest, event FROM (
            SELECT key, other_key, body_digest, nextval('event_ids')
            FROM unnest($1, $2, $3) AS w (key, other_key, body_digest)
        ) AS w (key, other_key, body_digest, event)
        WHERE (SELECT true FROM identities i WHERE i.key = w.other_key LIMIT 1) IS NULL
            AND NOT (EXISTS (SELECT FROM erased_events) AND (
                EXISTS (SELECT FROM erasure_salt s JOIN erased_events x
                        ON x.digest = sha256(s.salt || uuid_send(w.key)))
                OR EXISTS (SELECT FROM erasure_salt s JOIN erased_events x
                           ON x.digest = sha256(s.salt || uuid_send(w.other_key)))))
        ORDER BY key
        \(onConflict) RETURNING key, event, (SELECT (extract(epoch FROM now()) * 1000)::bigint)
        """
    }

    /// Deletes event keys that were added in the same transaction.
    static let forget = Statement<[Identifier], ()>("record_forget", "DELETE FROM identities WHERE key = ANY ($1)")

    struct Differing {
        let key: Identifier
        let digest: Identifier
    }

    /// Known event keys that came with other bytes, each returned once, with the digest of those bytes. The arrays have
    /// one digest for each key.
    static let differing = Statement<([Identifier], [Identifier]), Differing>(
        "record_differing",
        """
        WITH w AS MATERIALIZED (
            SELECT i.key, d.digest FROM unnest($1, $2) AS d (key, digest)
            CROSS JOIN LATERAL (
                SELECT key FROM identities WHERE key = d.key AND body_digest <> d.digest AND NOT differs LIMIT 1) AS i)
        UPDATE identities i SET differs = true WHERE key = ANY (ARRAY (SELECT key FROM w)) AND NOT differs
        RETURNING key, (SELECT digest FROM w WHERE w.key = i.key LIMIT 1)
        """, row: Differing.init)

    /// Those of the keys that messages have. No unique index covers the keys, so an insert does not detect this.
    static let messagesKept = Statement<[Identifier], Identifier>(
        "record_messages_kept",
        """
        SELECT w.key FROM unnest($1) AS w (key)
        CROSS JOIN LATERAL (SELECT true FROM messages m WHERE m.key = w.key LIMIT 1) AS m
        """)

    /// Locks purchases by their ids.
    static let lockPurchases = Statement<[Identifier], RecordTables.PurchaseRow>(
        "record_lock_purchases",
        """
        SELECT id, hash, source, app, environment, store, key, kind, product, plan, subscription_id, as_of_ms, state,
               access
        FROM purchases WHERE id = ANY ($1) ORDER BY id FOR UPDATE
        """, row: RecordTables.PurchaseRow.init)

    /// Locks the purchases with the hashes `$1` and those with the ids `$2`; from `LedgerForm.timedKeys` on.
    static let lockNamedPurchases = Statement<([Identifier], [Identifier]), RecordTables.PurchaseRow>(
        "record_lock_named_purchases",
        """
        SELECT id, hash, source, app, environment, store, key, kind, product, plan, subscription_id, as_of_ms, state,
               access
        FROM purchases WHERE id = ANY (ARRAY (SELECT p.id FROM \(named)) || $2) ORDER BY id FOR UPDATE
        """, row: RecordTables.PurchaseRow.init)

    /// The purchases with the hashes `$1`. The limit keeps a plan from reading the whole index instead, which looks
    /// cheaper while there is next to nothing in it.
    private static let named: SQL = """
        unnest($1) AS w (hash)
        CROSS JOIN LATERAL (SELECT id FROM purchases p WHERE coalesce(p.hash, p.id) = w.hash LIMIT 1) AS p
        """

    struct RowIDs {
        let messages: [Int64]
        let deliveries: [Int64]
    }

    /// Row ids, ascending in the order of announcement: the order of a purchase's deliveries depends on it. They are
    /// drawn while the purchase is locked; of two batches that both create it, one starts again.
    static let rowIDs = Statement<(Int32, Int32), RowIDs>(
        "record_row_ids",
        """
        SELECT ARRAY (SELECT nextval('message_ids') FROM generate_series(1, $1)),
               ARRAY (SELECT nextval('delivery_ids') FROM generate_series(1, $2))
        """, row: RowIDs.init)

    struct Head {
        let purchase: Identifier
        let integration: Int32
        let delivery: Int64
    }

    /// The last unsettled delivery of each ordering key, as far as it is visible without waiting: what settles
    /// meanwhile is checked once more after the commit (`Recorder.unblockSuccessors`).
    static let occupied = Statement<([Identifier], [Int32]), Head>(
        "record_occupied", heads(of: "unnest($1) AS p (id)"), row: Head.init)

    /// The same of purchases by their hashes; from `LedgerForm.timedKeys` on.
    static let occupiedByNamed = Statement<([Identifier], [Int32]), Head>(
        "record_occupied_by_named", heads(of: named), row: Head.init)

    /// Most purchases have nothing unsettled: one look at each, before one for each integration.
    ///
    /// The plan may be made while the queue has no page, as autovacuum leaves it at rest. All indexes then cost the
    /// same, and any that has the order is taken: for the order of ids that of the primary key, which is read whole.
    /// The order of integrations and ids only the right one has; an equality would take the integrations out of it.
    private static func heads(of purchases: SQL) -> SQL {
        """
        SELECT p.id, i.id, last.id
        FROM \(purchases)
        CROSS JOIN LATERAL (SELECT true FROM deliveries d WHERE d.purchase = p.id LIMIT 1) AS waits
        CROSS JOIN unnest($2) AS i (id)
        CROSS JOIN LATERAL (
            SELECT d.id FROM deliveries d WHERE d.purchase = p.id AND d.integration BETWEEN i.id AND i.id
            ORDER BY d.integration DESC, d.id DESC LIMIT 1) AS last
        """
    }

    /// Quarantines a body, with what its API answered and its event's id; returns no row for a body that was erased.
    static let quarantine = Statement<(String, String, Identifier, [UInt8], [UInt8]?, [UInt8]?), Int64>(
        "record_quarantine",
        """
        INSERT INTO quarantine (source, reason, body_digest, body, answer, event_id)
        SELECT $1, $2, $3, $4, $5, $6
        WHERE NOT EXISTS (
            SELECT FROM erasure_salt s JOIN erased_events x ON x.digest = sha256(s.salt || uuid_send($3)))
        ON CONFLICT (source, body_digest) DO UPDATE
        SET reason = excluded.reason, answer = coalesce(quarantine.answer, excluded.answer),
            event_id = coalesce(quarantine.event_id, excluded.event_id)
        RETURNING id
        """)

    /// Writes a record to the write-ahead log only, so that COMMIT waits until it and everything before it are as
    /// durable as configured.
    static let wait = Statement<(), ()>("record_wait", "SELECT FROM pg_logical_emit_message(true, 'posthouse', '')")

    static let notify = Statement<String, ()>("record_notify", "SELECT FROM pg_notify('posthouse_deliveries', $1)")
}
