import Postgres
import Vocabulary

/// Searches what no index covers for any of the needles, a page of rows at a time.
enum EraseScans {
    /// Rows of one page.
    static let pageRowsMax = 2_000
    /// Searches of one page, each for one needle in one row. An id has 15 needles or more, and a person may have many
    /// ids.
    static let pageSearchesMax = 100_000

    /// Rows of one page, so that reading it stays far below `statement_timeout`.
    static func pageRows(needles: Int) -> Int32 {
        Int32(max(1, min(pageRowsMax, pageSearchesMax / max(1, needles))))
    }

    struct Scanned {
        let id: Int64
        let isHit: Bool
    }

    struct ScannedPurchase {
        let id: Identifier
        let source: String
        let isHit: Bool
    }

    struct StoredBody {
        let body: [UInt8]
        let answer: [UInt8]?
        /// A storage key.
        let holder: String
    }

    struct StoredMessage {
        let envelope: [UInt8]
        let derivedBody: [UInt8]?
        let access: [UInt8]?
        /// The holder of its event, as a storage key; nil: the event is not kept any more.
        let holder: String?
    }

    struct LockedDelivery {
        let id: Int64
        let integration: Int32
        let purchase: Identifier?
        let isBlocked: Bool
        let isLeased: Bool

        /// Nil: it is of no purchase, and nothing blocks it.
        var orderingKey: FanOut.OrderingKey? {
            purchase.map { FanOut.OrderingKey(purchase: $0, integration: integration) }
        }
    }

    struct Quarantined {
        let digest: Identifier
        let body: [UInt8]
        let answer: [UInt8]?
        let eventID: [UInt8]?
        let reason: String
    }

    /// Where any needle ($1) or one for what is sealed ($5) is in a text. Its bytes are read from the table once, and
    /// not once for each needle.
    private static func isFound(in text: SQL) -> SQL {
        """
        EXISTS (SELECT FROM (SELECT \(text) || ''::bytea AS bytes OFFSET 0) AS t, unnest($1 || $5) AS w (needle)
                WHERE position(w.needle IN t.bytes) > 0)
        """
    }

    static let events = Statement<([[UInt8]], Int64, Int32, String?, [[UInt8]]), Scanned>(
        "erase_scan_events",
        """
        SELECT id, (\(isFound(in: "body")) OR answer IS NOT NULL AND \(isFound(in: "answer")))
               AND ($4 IS NULL OR source = $4)
        FROM events WHERE id > $2 ORDER BY id LIMIT $3
        """, row: Scanned.init)

    static let messages = Statement<([[UInt8]], Int64, Int32, String?, [[UInt8]]), Scanned>(
        "erase_scan_messages",
        """
        SELECT id, (EXISTS (SELECT FROM unnest($1) AS w (needle) WHERE position(w.needle IN envelope) > 0)
                    OR derived_body IS NOT NULL AND \(isFound(in: "derived_body"))
                    OR access IS NOT NULL AND \(isFound(in: "access")))
               AND ($4 IS NULL OR EXISTS (SELECT FROM events e WHERE e.id = m.event AND e.source = $4))
        FROM messages m WHERE id > $2 ORDER BY id LIMIT $3
        """, row: Scanned.init)

    static let quarantine = Statement<([[UInt8]], Int64, Int32, String?, [[UInt8]]), Scanned>(
        "erase_scan_quarantine",
        """
        SELECT id, (\(isFound(in: "body")) OR answer IS NOT NULL AND \(isFound(in: "answer"))
                    OR event_id IS NOT NULL AND \(isFound(in: "event_id"))
                    OR EXISTS (SELECT FROM unnest($1) AS w (needle)
                               WHERE position(w.needle IN convert_to(reason, 'UTF8')) > 0))
               AND ($4 IS NULL OR source = $4)
        FROM quarantine WHERE id > $2 ORDER BY id LIMIT $3
        """, row: Scanned.init)

    /// Those of the anonymous ids ($1) that are the keys of purchases that somebody besides the holders ($2) has, too.
    static let sharedKeys = Statement<([String], [String], String?), String>(
        "erase_shared_keys",
        """
        SELECT DISTINCT key FROM purchases p
        WHERE key = ANY ($1) AND ($3 IS NULL OR source = $3)
          AND (EXISTS (SELECT FROM events e WHERE e.purchase = p.id AND e.holder <> ALL ($2))
               OR EXISTS (SELECT FROM entitlements e WHERE e.purchase = p.id AND e.holder <> ALL ($2)))
        """)

    /// Searches the state ($1), the key ($5) and what is known of access ($6, storage keys).
    static let purchases = Statement<([[UInt8]], Identifier, Int32, String?, [String], [String]), ScannedPurchase>(
        "erase_scan_purchases",
        """
        SELECT id, source, (EXISTS (SELECT FROM unnest($1) AS w (needle) WHERE position(w.needle IN state) > 0)
                            OR EXISTS (SELECT FROM unnest($5) AS w (needle) WHERE position(w.needle IN key) > 0)
                            OR coalesce(access -> 'of' ?| $6, false))
               AND ($4 IS NULL OR source = $4)
        FROM purchases WHERE id > $2 ORDER BY id LIMIT $3
        """, row: ScannedPurchase.init)

    static let body = Statement<Int64, StoredBody>(
        "erase_body", "SELECT body, answer, holder FROM events WHERE id = $1 FOR UPDATE", row: StoredBody.init)

    static let rewriteBody = Statement<(Int64, [UInt8], [UInt8]?), ()>(
        "erase_rewrite_body", "UPDATE events SET body = $2, answer = $3 WHERE id = $1")

    /// Passes an event ($1) on in the standard shape, with what is left of its body ($2, with the end of an envelope),
    /// in either format.
    static let passOnInStandard = Statement<(Int64, [UInt8]), ()>(
        "erase_pass_on_in_standard",
        "UPDATE messages SET derived_body = envelope || $2 WHERE event = $1 AND derived_body IS NULL")

    static let message = Statement<Int64, StoredMessage>(
        "erase_message",
        """
        SELECT m.envelope, m.derived_body, m.access, e.holder FROM messages m LEFT JOIN events e ON e.id = m.event
        WHERE m.id = $1 FOR UPDATE OF m
        """, row: StoredMessage.init)

    static let rewriteMessage = Statement<(Int64, [UInt8], [UInt8]?, [UInt8]?), ()>(
        "erase_rewrite_message", "UPDATE messages SET envelope = $2, derived_body = $3, access = $4 WHERE id = $1")

    static let deliveriesOfEvent = Statement<Int64, LockedDelivery>(
        "erase_deliveries_of_event",
        """
        SELECT d.id, d.integration, d.purchase, d.blocked, d.leased_by IS NOT NULL
        FROM messages m JOIN deliveries d ON d.message = m.id WHERE m.event = $1 ORDER BY d.id FOR NO KEY UPDATE OF d
        """, row: LockedDelivery.init)

    static let deliveriesOfMessage = Statement<Int64, LockedDelivery>(
        "erase_deliveries_of_message",
        """
        SELECT id, integration, purchase, blocked, leased_by IS NOT NULL FROM deliveries
        WHERE message = $1 ORDER BY id FOR NO KEY UPDATE
        """, row: LockedDelivery.init)

    static let quarantined = Statement<Int64, Quarantined>(
        "erase_quarantined",
        "SELECT body_digest, body, answer, event_id, reason FROM quarantine WHERE id = $1 FOR UPDATE",
        row: Quarantined.init)

    /// Whether a receiver's answer in a failure text names a person, $1. The status before it is Posthouse's own word:
    /// "500" may be somebody's id. Without a status no answer came, and all of the text is Posthouse's own.
    private static func quotes(_ text: SQL) -> SQL {
        "http_status IS NOT NULL AND regexp_replace(\(text), '^answered [0-9]+', '') ~ $1"
    }

    /// Erases what receivers answered to any message, because they quote what they were sent; the status stays. Returns
    /// the message; the statements for other texts return 0 where there is none. Nothing is kept of an answer that
    /// accepted, so the index of failed attempts has all that is to be read.
    static let attemptWords = Statement<(String, Int64, Int64), Int64>(
        "erase_attempt_words",
        """
        UPDATE attempts SET failure = NULL
        WHERE at >= to_timestamp($2::double precision) AND at < to_timestamp($3::double precision)
          AND outcome <> 'accepted'
          AND \(quotes("failure"))
        RETURNING message
        """)

    static let foundAttemptWords = Statement<(String, Int64, Int64), Int64>(
        "erase_found_attempt_words",
        """
        SELECT message FROM attempts
        WHERE at >= to_timestamp($2::double precision) AND at < to_timestamp($3::double precision)
          AND outcome <> 'accepted'
          AND \(quotes("failure"))
        """)

    static let lastWords = Statement<String, Int64>(
        "erase_last_words",
        """
        WITH paused AS (UPDATE integrations SET pause_reason = 'erased' WHERE pause_reason ~ $1 RETURNING id),
             broken AS (UPDATE breakers SET reason = 'erased' WHERE reason ~ $1 RETURNING integration),
             dead AS (UPDATE dead_letters SET reason = 'answered ' || http_status WHERE \(quotes("reason"))
                      RETURNING message)
        SELECT message FROM dead UNION ALL SELECT 0 FROM paused UNION ALL SELECT 0 FROM broken
        """)

    static let foundLastWords = Statement<String, Int64>(
        "erase_found_last_words",
        """
        SELECT message FROM dead_letters WHERE \(quotes("reason"))
        UNION ALL SELECT 0 FROM integrations WHERE pause_reason ~ $1
        UNION ALL SELECT 0 FROM breakers WHERE reason ~ $1
        """)
}
