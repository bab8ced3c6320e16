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

    /// Adds event keys with the digests of the bodies. The keys returned are new; the others were known before or are
    /// erased. While nothing was ever erased, no hash is computed. Rows are numbered in the order of the arrays, which
    /// is that of arrival, and inserted in the order of the keys.
    static let admit = Statement<([Identifier], [Identifier]), Admitted>(
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
        """, row: Admitted.init)

    /// Deletes event keys that were added in the same transaction.
    static let forget = Statement<[Identifier], ()>("record_forget", "DELETE FROM identities WHERE key = ANY ($1)")

    struct Differing {
        let key: Identifier
        let digest: Identifier
    }

    /// Known event keys that came with other bytes, each returned once, with the digest of those bytes.
    static let differing = Statement<([Identifier], [Identifier]), Differing>(
        "record_differing",
        """
        UPDATE identities i SET differs = true FROM unnest($1, $2) AS d (key, digest)
        WHERE i.key = d.key AND i.body_digest <> d.digest AND NOT i.differs RETURNING i.key, d.digest
        """, row: Differing.init)

    /// Locks the purchases of the batch that exist already.
    static let lockPurchases = Statement<[Identifier], RecordTables.PurchaseRow>(
        "record_lock_purchases",
        """
        SELECT id, source, app, environment, store, key, kind, product, plan, subscription_id, as_of_ms, state
        FROM purchases WHERE id = ANY ($1) ORDER BY id FOR UPDATE
        """, row: RecordTables.PurchaseRow.init)

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
        "record_occupied",
        """
        SELECT p.id, i.id, last.id
        FROM unnest($1) AS p (id) CROSS JOIN unnest($2) AS i (id)
        CROSS JOIN LATERAL (
            SELECT d.id FROM deliveries d WHERE d.purchase = p.id AND d.integration = i.id ORDER BY d.id DESC LIMIT 1
        ) AS last
        """, row: Head.init)

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
