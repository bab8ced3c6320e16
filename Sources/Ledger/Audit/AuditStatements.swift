import Postgres
import Vocabulary

/// The SQL of an audit. It only reads. Messages are read by ranges of ids, and so is what other tables have of them:
/// one look into the index of each partition, however many messages. Other tables may keep what they have of messages
/// that are pruned, so ranges have no wide gaps (`AuditRuns`).
enum AuditStatements {
    /// The first day of which attempts are kept; no row: the ledger is not older. Days are dropped the oldest first. A
    /// ledger that was moved has migrations of its own, and the integrations of the one before.
    static let knownFrom = Statement<(), Timestamp>(
        "audit_known_from",
        """
        SELECT (extract(epoch FROM k.day) * 1000)::bigint
        FROM (SELECT min(to_date(right(c.relname, 8), 'YYYYMMDD'))::timestamp AT TIME ZONE 'UTC' AS day
              FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid
              WHERE h.inhparent = 'attempts'::regclass AND c.relname ~ '^attempts_[0-9]{8}$') AS k
        WHERE k.day > least((SELECT min(applied_at) FROM schema_migrations),
                            (SELECT min(created_at) FROM integrations))
        """)

    /// The last rows as an audit begins.
    struct Ends {
        let message: Int64
        let delivery: Int64
        let deadLetter: Int64
    }

    static let ends = Statement<(), Ends>(
        "audit_ends",
        """
        SELECT coalesce((SELECT max(id) FROM messages), 0), coalesce((SELECT max(id) FROM deliveries), 0),
               coalesce((SELECT max(delivery) FROM dead_letters), 0)
        """, row: Ends.init)

    /// How many deliveries wait without a purchase, `$1` at most.
    static let countAlone = Statement<Int32, Int>(
        "audit_count_alone",
        "SELECT count(*) FROM (SELECT FROM deliveries WHERE purchase IS NULL LIMIT $1) AS alone")

    /// Tables that the periods should have, and that are not there.
    static let missingTables = Statement<(), String>(
        "audit_missing_tables",
        """
        SELECT format('%s_%s', t.name, p.id) FROM periods p CROSS JOIN (VALUES ('events'), ('messages')) AS t (name)
        WHERE NOT EXISTS (
            SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = to_regclass(t.name) AND c.relname::text = format('%s_%s', t.name, p.id))
        ORDER BY 1
        """)

    /// Counts messages after `$1` and before `$2`, `$3` at most; returns the last one's id and the count.
    static let older = Statement<(Int64, Int64, Int32), (Int64?, Int)>(
        "audit_older",
        """
        SELECT max(id), count(*)
        FROM (SELECT id FROM messages WHERE id > $1 AND id < $2 ORDER BY id LIMIT $3) AS page
        """)

    struct Message {
        let id: Int64
        let createdAt: Timestamp
        let integrations: String?
        /// Its event is not there, and no period that is over took it along.
        let lacksEvent: Bool
        let handle: AuditHandle
        let purchase: Identifier?
    }

    private static func message(
        id: Int64, createdAt: Timestamp, integrations: String?, lacksEvent: Bool, source: String?, key: Identifier?,
        vendorEventID: String?, eventKey: Identifier?, purchase: Identifier?
    ) -> Message {
        Message(
            id: id, createdAt: createdAt, integrations: integrations, lacksEvent: lacksEvent,
            handle: AuditHandle(source: source, message: key, vendorEventID: vendorEventID, event: eventKey),
            purchase: purchase)
    }

    /// Messages after `$1`, to `$2`, `$3` at most. One that lies in the period after its event's may outlast it.
    static let messages = Statement<(Int64, Int64, Int32), Message>(
        "audit_messages",
        """
        SELECT m.id, floor(extract(epoch FROM m.created_at) * 1000)::bigint, m.integrations,
               e.id IS NULL AND m.event >= coalesce((SELECT min(p.id) << 32 FROM periods p), 0),
               e.source, coalesce(m.key, e.key), e.vendor_event_id, e.key, coalesce(t.purchase, e.purchase)
        FROM (SELECT * FROM messages WHERE id > $1 AND id <= $2 ORDER BY id LIMIT $3) AS m
        \(RowByID.eventIfKept("m.event", as: "e")) LEFT JOIN transfers t ON t.id = m.transfer
        ORDER BY m.id
        """, row: message)

    struct Tried {
        let message: Int64
        let integration: Int32
        let isAccepted: Bool
        let isDead: Bool
    }

    /// What was tried of messages from `$1` to `$2`, for integration `$3`; null: for all.
    static let tried = Statement<(Int64, Int64, Int32?), Tried>(
        "audit_tried",
        """
        SELECT message, integration, bool_or(outcome = 'accepted'), bool_or(outcome = 'dead')
        FROM attempts WHERE message >= $1 AND message <= $2 AND ($3 IS NULL OR integration = $3) GROUP BY 1, 2
        """, row: Tried.init)

    /// What of a message was given up: by a dead letter, or for good.
    struct GivenUp {
        let message: Int64
        let integration: Int32
        /// Of a dead letter: by hand. Of what was given up for good: its person was erased.
        let isMarked: Bool
    }

    static let dead = Statement<(Int64, Int64, Int32?, String), GivenUp>(
        "audit_dead",
        """
        SELECT message, integration, bool_or(reason = $4)
        FROM dead_letters WHERE message >= $1 AND message <= $2 AND ($3 IS NULL OR integration = $3) GROUP BY 1, 2
        """, row: GivenUp.init)

    static let discarded = Statement<(Int64, Int64, Int32?), GivenUp>(
        "audit_discarded",
        """
        SELECT message, integration, is_erased
        FROM discards WHERE message >= $1 AND message <= $2 AND ($3 IS NULL OR integration = $3)
        """, row: GivenUp.init)

    struct Waiting {
        let message: Int64
        let integration: Int32
    }

    /// What waits of messages, found by their purchases, because deliveries have no index by message.
    static let waitingOf = Statement<([Int64], [Identifier]), Waiting>(
        "audit_waiting_of",
        """
        SELECT d.message, d.integration
        FROM unnest($1, $2) AS w (message, purchase)
        JOIN deliveries d ON d.purchase = w.purchase AND d.message = w.message
        """, row: Waiting.init)

    /// What waits of messages without a purchase.
    static let waitingAlone = Statement<[Int64], Waiting>(
        "audit_waiting_alone",
        "SELECT message, integration FROM deliveries WHERE purchase IS NULL AND message = ANY ($1)", row: Waiting.init)

    /// The same whatever their purchases are: reads all that waits.
    static let waitingAnywhere = Statement<(Int64, Int64), Waiting>(
        "audit_waiting_anywhere",
        "SELECT message, integration FROM deliveries WHERE message >= $1 AND message <= $2", row: Waiting.init)

    /// A delivery that waits, or a dead letter.
    struct QueuedRow {
        let delivery: Int64
        let message: Int64
        let integration: Int32
        let createdAt: Timestamp
        let hasMessage: Bool
        let lacksEvent: Bool
        let handle: AuditHandle
        let problems: Problems
    }

    struct Problems {
        /// Fewer attempts are recorded than it says were made.
        let lacksAttempts: Bool
        /// It was given up by an attempt, and none says so.
        let lacksLastAttempt: Bool
        let isNeverDue: Bool
        let isLeaseWithoutEnd: Bool
        /// Another delivery of its message to the same integration waits, or is a dead letter.
        let isTwice: Bool
    }

    private static func held(
        delivery: Int64, message: Int64, integration: Int32, createdAt: Timestamp, hasMessage: Bool, lacksEvent: Bool,
        source: String?, key: Identifier?, vendorEventID: String?, eventKey: Identifier?, lacksAttempts: Bool,
        lacksLastAttempt: Bool, isNeverDue: Bool, isLeaseWithoutEnd: Bool, isTwice: Bool
    ) -> QueuedRow {
        QueuedRow(
            delivery: delivery, message: message, integration: integration, createdAt: createdAt,
            hasMessage: hasMessage, lacksEvent: lacksEvent,
            handle: AuditHandle(source: source, message: key, vendorEventID: vendorEventID, event: eventKey),
            problems: Problems(
                lacksAttempts: lacksAttempts, lacksLastAttempt: lacksLastAttempt, isNeverDue: isNeverDue,
                isLeaseWithoutEnd: isLeaseWithoutEnd, isTwice: isTwice))
    }

    /// The first columns of `held`, of a row `d` with `m` and `e`.
    private static let heldColumns: SQL = """
        (extract(epoch FROM d.created_at) * 1000)::bigint, m.id IS NOT NULL, m.id IS NOT NULL AND e.id IS NULL,
        e.source, coalesce(m.key, e.key), e.vendor_event_id, e.key,
        d.attempts > 0 AND d.attempts > (SELECT count(*) FROM attempts a
                                         WHERE a.message = d.message AND a.delivery = d.delivery)
        """
    private static let heldJoins: SQL = """
        \(RowByID.messageIfKept("d.message", as: "m")) \(RowByID.eventIfKept("m.event", as: "e"))
        """

    /// Deliveries after id `$1`, to `$2`, `$3` at most, of integration `$4`; null: of all. One due more than `$5` ms
    /// ahead is reported as never due, one leased for more than `$6` ms as leased without end. Of several for one
    /// message and integration, the last is reported as waiting twice.
    static let deliveries = Statement<(Int64, Int64, Int32, Int32?, Int64, Int64), QueuedRow>(
        "audit_deliveries",
        """
        WITH page AS MATERIALIZED (
            SELECT id AS delivery, message, integration, purchase, attempts, leased_by, due_at, created_at
            FROM deliveries WHERE id > $1 AND id <= $2 AND ($4 IS NULL OR integration = $4) ORDER BY id LIMIT $3),
        twice AS MATERIALIZED (
            SELECT max(o.id) AS id
            FROM (SELECT DISTINCT purchase FROM page) AS p JOIN deliveries o ON o.purchase = p.purchase
            GROUP BY o.message, o.integration HAVING count(*) > 1
            UNION ALL
            SELECT max(id) FROM deliveries
            WHERE purchase IS NULL AND EXISTS (SELECT FROM page WHERE purchase IS NULL)
            GROUP BY message, integration HAVING count(*) > 1)
        SELECT d.delivery, d.message, d.integration, \(heldColumns), false,
               d.due_at > now() + $5 * interval '1 millisecond',
               coalesce(x.expires_at > now() + $6 * interval '1 millisecond', false),
               d.delivery IN (SELECT id FROM twice)
                   OR EXISTS (SELECT FROM dead_letters l
                              WHERE l.message = d.message AND l.integration = d.integration)
        FROM page d
        \(heldJoins) LEFT JOIN daemons x ON x.id = d.leased_by
        ORDER BY d.delivery
        """, row: held)

    /// Dead letters likewise; `$5` is the reason of what was given up by hand.
    static let deadLetters = Statement<(Int64, Int64, Int32, Int32?, String), QueuedRow>(
        "audit_dead_letters",
        """
        SELECT d.delivery, d.message, d.integration, \(heldColumns),
               d.reason <> $5 AND NOT EXISTS (SELECT FROM attempts a
                                              WHERE a.message = d.message AND a.delivery = d.delivery
                                                AND a.outcome = 'dead'),
               false, false, false
        FROM (SELECT * FROM dead_letters
              WHERE delivery > $1 AND delivery <= $2 AND ($4 IS NULL OR integration = $4)
              ORDER BY delivery LIMIT $3) AS d
        \(heldJoins)
        ORDER BY d.delivery
        """, row: held)
}
