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
    static let isFree = Statement<[String], Bool>(
        "switch_is_free",
        """
        SELECT NOT EXISTS (SELECT FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
                           WHERE l.relation IN (
                                   SELECT p.relid FROM unnest($1) AS t (name)
                                   CROSS JOIN LATERAL pg_partition_tree(to_regclass(t.name)) AS p) AND l.granted
                               AND l.pid IS DISTINCT FROM pg_backend_pid()
                               AND coalesce(a.xact_start < now() - interval '1 second', true))
        """)

    /// Whether the migration is older than `delay`, and the tables are free.
    static func isOpen(
        after migration: Int32, tables: [String], on session: borrowing Session
    ) throws(DatabaseError) -> Bool {
        guard try session.run(isSettled, (migration, delay.wholeMilliseconds)).first == true else { return false }
        return try isFree(tables, on: session)
    }

    /// Whether nobody keeps the lock from being had soon: a backup holds one for as long as it runs, and webhooks would
    /// wait behind each attempt. Since when others hold theirs, PostgreSQL does not tell an ordinary role.
    static func isFree(_ tables: [String], on session: borrowing Session) throws(DatabaseError) -> Bool {
        try session.run(isFree, tables).first == true
    }
}
