import Postgres
import Vocabulary

/// When a change that must lock whole tables for a moment may be tried: webhooks wait behind each attempt.
enum SwitchGate {
    /// How long ago the schema must have been migrated: by then other hosts have the new version, too.
    static let delay: Duration = .seconds(3_600)
    /// The longest wait for the lock behind which webhooks wait.
    static let lockTimeout = "SET lock_timeout = 500"

    static let isSettled = Statement<(Int32, Int64), Bool>(
        "switch_is_settled",
        """
        SELECT NOT EXISTS (SELECT FROM schema_migrations
                           WHERE version = $1 AND applied_at > now() - $2 * interval '1 millisecond')
        """)
    /// Looks at this database alone: tables of databases that were made from one template have the same OIDs. A table
    /// without partitions is in no partition tree.
    static let isFree = Statement<[String], Bool>(
        "switch_is_free",
        """
        SELECT NOT EXISTS (SELECT FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
                           WHERE l.relation IN (
                                   SELECT coalesce(p.relid, to_regclass(t.name)) FROM unnest($1) AS t (name)
                                   LEFT JOIN LATERAL pg_partition_tree(to_regclass(t.name)) AS p ON true)
                               AND l.granted
                               AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                               AND l.pid IS DISTINCT FROM pg_backend_pid()
                               AND coalesce(a.xact_start < now() - interval '1 second', true))
        """)

    /// Limits the waits for locks of this transaction, so that webhooks wait behind none of them for long: to half a
    /// second more than PostgreSQL takes to end a VACUUM of its own that is in the way, and to three seconds at most.
    static let limitWaits = Statement<(), String>(
        "switch_limit_waits",
        """
        SELECT set_config('lock_timeout', (least(deadlock, 2500) + 500)::integer::text, true)
        FROM (SELECT 1000 * extract(epoch FROM current_setting('deadlock_timeout')::interval)) AS d (deadlock)
        """)
    /// How long a transaction may have used a table and yet be waited for.
    private static let look = "SELECT pg_sleep(1)"
    /// The transactions of others that use tables which this SQL names.
    static let transactions = Statement<String, String>(
        "switch_transactions",
        """
        SELECT DISTINCT virtualtransaction FROM pg_locks
        WHERE granted AND pid IS DISTINCT FROM pg_backend_pid()
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND relation IN (
                SELECT coalesce(p.relid, c.oid) FROM pg_class c LEFT JOIN LATERAL pg_partition_tree(c.oid) AS p ON true
                WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
                    AND NOT c.relispartition AND c.relname = ANY (regexp_split_to_array($1, '\\W+')))
        """)
    /// Those of the transactions that still use a table. Not a VACUUM of PostgreSQL's own, which has no user and makes
    /// way.
    static let users = Statement<[String], String>(
        "switch_users",
        """
        SELECT DISTINCT CASE WHEN l.pid IS NULL THEN 'a prepared transaction'
                        ELSE format('process %s of the role %s', l.pid, a.usename)
                             || coalesce(' (' || nullif(a.application_name, '') || ')', '') END
        FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
        WHERE l.virtualtransaction = ANY ($1) AND l.relation IS NOT NULL AND l.granted
            AND (l.pid IS NULL OR a.usesysid IS NOT NULL)
        ORDER BY 1 LIMIT 3
        """)

    /// Who has used tables which this SQL names for longer than a second, in one transaction: a backup does for as long
    /// as it runs. Takes that second. A transaction is known again by its number, which every role may see.
    static func lastingUsers(
        ofTablesIn sql: String, on session: borrowing Session
    ) throws(DatabaseError) -> [String] {
        let before = try session.run(transactions, sql)
        if before.isEmpty { return [] }
        try session.script(look)
        return try session.run(users, before)
    }

    /// Whether the migration is older than `delay`, and the tables are free.
    static func isOpen(
        after migration: Int32, tables: [String], on session: borrowing Session
    ) throws(DatabaseError) -> Bool {
        guard try session.run(isSettled, (migration, delay.wholeMilliseconds)).first == true else { return false }
        return try isFree(tables, on: session)
    }

    /// Whether nobody keeps the lock from being had soon: a backup holds one for as long as it runs, and webhooks would
    /// wait behind each attempt. Since when others hold theirs, PostgreSQL does not show an ordinary role.
    static func isFree(_ tables: [String], on session: borrowing Session) throws(DatabaseError) -> Bool {
        try session.run(isFree, tables).first == true
    }
}
