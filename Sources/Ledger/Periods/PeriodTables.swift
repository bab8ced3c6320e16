import Postgres
import Vocabulary

/// The partitions of events and messages.
enum PeriodTables {
    static let names = ["events", "messages"]
    /// Of their ids.
    static let sequences = ["event_ids", "message_ids"]

    /// Rows of periods that are over, kept because a dead letter or a delivery that waits needs them. One for each
    /// table, below the oldest period that stands.
    static let kept = "kept"
    /// Rows from before there were periods.
    static let before = "before"

    /// One partition.
    struct Partition: Equatable, Sendable {
        let name: String
        /// Its first id; nil: all below.
        let from: Int64?
        /// The first id above it.
        let to: Int64
    }

    private static func partition(name: String, from: Int64?, to: Int64) -> Partition {
        Partition(name: name, from: from, to: to)
    }

    static let isPartitioned = Statement<(), Bool>(
        "period_is_partitioned",
        "SELECT bool_and(relkind = 'p') FROM pg_class WHERE oid IN ('events'::regclass, 'messages'::regclass)")

    static let existing = Statement<(), (Int64, Int64)>(
        "period_existing",
        "SELECT id, (extract(epoch FROM now() - began_at) * 1000)::bigint FROM periods ORDER BY id")
    static let positions = Statement<(), (Int64, Int64)>(
        "period_positions",
        """
        SELECT coalesce(pg_sequence_last_value('event_ids'::regclass), 0),
               coalesce(pg_sequence_last_value('message_ids'::regclass), 0)
        """)
    static let begin = Statement<Int64, ()>("period_begin", "INSERT INTO periods (id) VALUES ($1)")
    static let correct = Statement<(), ()>(
        "period_correct", "UPDATE periods SET began_at = now() WHERE began_at > now()")
    static let end = Statement<Int64, ()>("period_end", "DELETE FROM periods WHERE id = $1")
    /// The next id is the one after `$1`, where it is not above that already; of messages first, so that none lies in a
    /// period before its event's. Needs the privilege UPDATE.
    static let moveSequences = Statement<Int64, (Int64?, Int64?)>(
        "period_move_sequences",
        """
        SELECT CASE WHEN coalesce(pg_sequence_last_value('message_ids'::regclass), 0) < $1
                    THEN setval('message_ids', $1) END,
               CASE WHEN coalesce(pg_sequence_last_value('event_ids'::regclass), 0) < $1
                    THEN setval('event_ids', $1) END
        """)

    /// Moves sequences that are behind their tables: logical replication, for one, copies rows and no sequences. Needs
    /// the privilege UPDATE where one is. The rows are those committed before the sequences are read, so none that is
    /// in use counts as behind.
    static let catchUp = Statement<(), (Int64?, Int64?, Int64?)>(
        "period_catch_up",
        """
        SELECT CASE WHEN m > coalesce(pg_sequence_last_value('message_ids'::regclass), 0)
                    THEN setval('message_ids', m) END,
               CASE WHEN e > coalesce(pg_sequence_last_value('event_ids'::regclass), 0)
                    THEN setval('event_ids', e) END,
               CASE WHEN d > coalesce(pg_sequence_last_value('delivery_ids'::regclass), 0)
                    THEN setval('delivery_ids', d) END
        FROM (SELECT (SELECT id FROM messages ORDER BY id DESC LIMIT 1) AS m,
                     (SELECT id FROM events ORDER BY id DESC LIMIT 1) AS e,
                     (SELECT greatest((SELECT id FROM deliveries ORDER BY id DESC LIMIT 1),
                                      (SELECT delivery FROM dead_letters ORDER BY delivery DESC LIMIT 1))) AS d
              OFFSET 0) AS newest
        """)
    /// The same of identity columns, where the role may.
    static let catchUpColumns = Statement<(), Int64?>(
        "period_catch_up_columns",
        """
        SELECT setval(s.sequence, s.newest)
        FROM (SELECT pg_get_serial_sequence(t.name, 'id')::regclass AS sequence, t.newest FROM (
                  SELECT 'daemons', max(id) FROM daemons UNION ALL
                  SELECT 'holder_changes', max(id) FROM holder_changes UNION ALL
                  SELECT 'integrations', max(id) FROM integrations UNION ALL
                  SELECT 'quarantine', max(id) FROM quarantine) AS t (name, newest)
              OFFSET 0) AS s
        WHERE CASE WHEN has_sequence_privilege(s.sequence, 'USAGE') AND has_sequence_privilege(s.sequence, 'UPDATE')
                   THEN s.newest > coalesce(pg_sequence_last_value(s.sequence), 0) END
        """)
    /// Tables with such ids that a webhook adds rows to.
    static let drawn = ["events", "messages", "deliveries", "holder_changes", "quarantine"]

    /// Moves on all of them, in a transaction that holds `lock`.
    static func catchUp(on session: borrowing Session) throws(DatabaseError) {
        _ = try session.run(catchUp, ())
        _ = try session.run(catchUpColumns, ())
    }

    /// The partitions of a table, ascending. One that somebody drops meanwhile may be seen without its bounds.
    static let partitions = Statement<String, Partition>(
        "period_partitions",
        """
        SELECT c.relname::text, (regexp_match(b.bound, 'FROM \\(''?([0-9]+)'))[1]::bigint,
               (regexp_match(b.bound, 'TO \\(''?([0-9]+)'))[1]::bigint
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS bound) AS b
        WHERE i.inhparent = to_regclass($1) AND b.bound IS NOT NULL ORDER BY 3
        """, row: partition)

    /// The name of the constraint by which rows that are kept lie below an id.
    static func bound(below end: Int64) -> String { "below_\(end)" }

    /// Such constraints of a table, each with whether it is proven.
    static let bounds = Statement<String, (name: String, isProven: Bool)>(
        "period_bounds",
        """
        SELECT conname::text, convalidated FROM pg_constraint
        WHERE conrelid = to_regclass($1) AND contype = 'c' AND conname ~ '^below_[0-9]+$'
        """, row: { (name: String, isProven: Bool) in (name, isProven) })

    /// Events from `$1` on, below `$2`, that a delivery or a dead letter needs: the first `$3` of them. Nearly all of
    /// their messages lie between the same ids.
    static let needed = Statement<(Int64, Int64, Int32), Int64>(
        "period_needed",
        """
        SELECT event FROM (
            SELECT m.event
            FROM (SELECT message FROM deliveries WHERE message >= $1 AND message < $2
                  UNION SELECT message FROM dead_letters WHERE message >= $1 AND message < $2) AS n
            \(RowByID.message("n.message", as: "m"))
            WHERE m.event >= $1
            UNION
            SELECT m.event FROM messages m
            WHERE m.id >= $2 AND m.event >= $1 AND m.event < $2
                AND m.id IN (SELECT message FROM deliveries UNION ALL SELECT message FROM dead_letters)) AS found
        LIMIT $3
        """)
    /// Bytes of the bodies and answers of events.
    static let bytes = Statement<[Int64], Int64>(
        "period_bytes",
        """
        SELECT coalesce(sum(octet_length(e.body) + coalesce(octet_length(e.answer), 0)), 0)::bigint
        FROM unnest($1) AS w (id) \(RowByID.event("w.id", as: "e"))
        """)
    /// Whether the newest event from `$1` on, below `$2`, is younger than so many milliseconds.
    static let hasYoung = Statement<(Int64, Int64, Int64), Bool>(
        "period_has_young",
        """
        SELECT coalesce((SELECT received_at >= now() - $3 * interval '1 millisecond' FROM events
                         WHERE id >= $1 AND id < $2 ORDER BY id DESC LIMIT 1), false)
        """)
    static let mayMove = Statement<(), Bool>(
        "period_may_move",
        """
        SELECT has_sequence_privilege('event_ids', 'UPDATE') AND has_sequence_privilege('message_ids', 'UPDATE')
        """)
    /// Whether a change of holders that one of these events stated is not applied to all its purchases yet: it makes
    /// messages that name the event.
    static let isUnfinished = Statement<(Int64, Int64), Bool>(
        "period_is_unfinished",
        """
        SELECT EXISTS (SELECT FROM holder_changes c WHERE applied_through IS NOT NULL AND event >= $1 AND event < $2
                           AND EXISTS (SELECT FROM events e WHERE e.id = c.event))
        """)

    /// Whether every partition that the transaction's snapshot has is still there. What is kept of one that is dropped
    /// between the snapshot and a later statement is in neither place for that statement.
    static let isWhole = Statement<(), Bool>(
        "period_is_whole",
        """
        SELECT coalesce(bool_and(has_table_privilege(inhrelid, 'SELECT') IS NOT NULL), true) FROM pg_inherits
        WHERE inhparent IN (to_regclass('events'), to_regclass('messages'))
        """)
    private static let snapshotsMax = 3

    /// Reads in one snapshot, and anew in another where a period was dropped meanwhile. That is once a day: where it
    /// was so each time, something else is wrong, and what was read last is as good as it gets.
    static func inOneSnapshot<Value: Sendable>(
        on session: borrowing Session, _ body: (borrowing Session) throws(DatabaseError) -> Value
    ) throws(DatabaseError) -> Value {
        var tries = 1
        while true {
            let (value, hasAll) = try session.transaction(.snapshot) { session throws(DatabaseError) -> (Value, Bool) in
                let value = try body(session)
                return (value, try session.run(isWhole, ()).first == true)
            }
            if hasAll || tries == snapshotsMax { return value }
            tries += 1
        }
    }

    /// The facts, in a transaction that holds `lock`.
    static func facts(on session: borrowing Session) throws(DatabaseError) -> PeriodFacts {
        let existing = try session.run(existing, ()).map { period, age in
            PeriodFacts.Existing(period: period, age: .milliseconds(age))
        }
        let positions = try session.run(positions, ()).first
        return PeriodFacts(existing: existing, positions: positions.map { [$0, $1] } ?? [])
    }

    /// Key of the advisory lock by which those who change the partitions take turns: "periods" as bytes.
    private static let lockKey: Int64 = 0x70_6572_696F_6473

    static func lock(on session: borrowing Session) throws(DatabaseError) {
        _ = try session.run(Upkeep.lockStatement, session.lockKey(lockKey))
    }

    // MARK: SQL without parameters. Names and numbers in it are ours.

    /// Locks both tables from everything, in a ledger that nobody uses.
    static let lockUnused = "LOCK TABLE \(names.joined(separator: ", ")) IN ACCESS EXCLUSIVE MODE"

    /// The same in one that is in use. Who holds the one and waits for the other would wait for this in a circle, and
    /// PostgreSQL ends one of the two after a second: this gives up before. Who is frozen with them loses them after a
    /// second.
    static let lockTables = """
        SET LOCAL lock_timeout = 500; SET LOCAL idle_in_transaction_session_timeout = 1000;
        \(lockUnused)
        """

    /// The partitions of a period. Its indexes come with ATTACH, which holds up neither who reads nor who writes.
    static func creation(of period: Int64) -> String {
        names.map { table in
            let name = "\(table)_\(period)"
            return creation(name, in: table)
                + attaching(name, to: table, from: Period.firstID(period), below: Period.firstID(period + 1))
        }.joined()
    }

    static func creation(_ name: String, in table: String) -> String {
        "CREATE TABLE \(name) (LIKE \(table) INCLUDING DEFAULTS INCLUDING STORAGE);\n"
    }

    static func attaching(_ name: String, to table: String, from: Int64?, below end: Int64) -> String {
        let start = from.map { "\($0)" } ?? "MINVALUE"
        return "ALTER TABLE \(table) ATTACH PARTITION \(name) FOR VALUES FROM (\(start)) TO (\(end));\n"
    }

    static func detaching(_ name: String, from table: String) -> String {
        "ALTER TABLE \(table) DETACH PARTITION \(name);\n"
    }

    // MARK: Owners

    /// Partitions that are not their table's owner's, and that owner, where this role may give them away.
    static let misownedPartitions = Statement<[String], (String, String)>(
        "period_misowned_partitions",
        """
        SELECT c.oid::regclass::text, quote_ident(pg_get_userbyid(p.relowner)) FROM unnest($1) AS t (name)
        JOIN pg_class c ON c.oid = to_regclass(t.name) JOIN pg_inherits i ON i.inhrelid = c.oid
        JOIN pg_class p ON p.oid = i.inhparent
        WHERE c.relowner <> p.relowner AND has_schema_privilege(p.relowner, p.relnamespace, 'CREATE')
            AND pg_has_role(p.relowner, CASE WHEN current_setting('server_version_num')::integer < 160000
                                             THEN 'MEMBER' ELSE 'SET' END)
        """)

    /// Gives new partitions to the owner of their table: a daemon that serves later by another role of that owner's
    /// must be able to drop them.
    static func giveToOwner(_ partitions: [String], on session: borrowing Session) throws(DatabaseError) {
        for (partition, owner) in try session.run(misownedPartitions, partitions) {
            try session.script("ALTER TABLE \(partition) OWNER TO \(owner)")
        }
    }

    // MARK: A move

    /// Makes the partitions of an empty table as those of another ledger. Where that has none yet, all its ids are
    /// below the periods.
    static func remake(
        _ partitions: [Partition], of table: String, on session: borrowing Session
    ) throws(DatabaseError) {
        let own = try session.run(Self.partitions, table)
        guard let first = own.first?.from, let owner = try session.run(PeriodSwitch.owner, table).first else { return }
        let isWhole = !partitions.isEmpty
        var sql = isWhole ? own.map { "DROP TABLE \($0.name);\n" }.joined() : ""
        for one in isWhole ? partitions : [Partition(name: "\(table)_\(before)", from: nil, to: first)] {
            sql += creation(one.name, in: table) + attaching(one.name, to: table, from: one.from, below: one.to)
            sql += "ALTER TABLE \(one.name) OWNER TO \(owner);\n"
        }
        try session.script(sql)
    }

    /// The periods whose partitions are there, where the other ledger had none.
    static let completion = """
        INSERT INTO periods (id)
        SELECT substring(c.relname FROM '[0-9]+$')::bigint FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'events'::regclass AND c.relname ~ '^events_[0-9]+$'
        ON CONFLICT DO NOTHING
        """
}
