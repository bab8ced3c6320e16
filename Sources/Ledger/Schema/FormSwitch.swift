import Postgres

/// The switch to `LedgerForm.four`: from then on event keys and purchase ids begin with a time.
///
/// A version before does not know such keys. If it came back after the switch (it was cut off, and its lease had
/// ended), it would record anew what is stored. So the switch takes from it what its INSERT into `identities` names, ON
/// CONFLICT (key): no unique index is over the key alone any more, because the new one is partial. The statement fails
/// (42P10), and the source repeats the webhook. Nothing else of that version is kept out.
enum FormSwitch {
    /// Form four is in force once it is gone, and the unique indexes of `IndexMigration` are there.
    static let constraint = "identities_pkey"
    /// Logical replication knows a row by its primary key, or by all of it.
    static let statement = "ALTER TABLE identities DROP CONSTRAINT \(constraint), REPLICA IDENTITY FULL"

    /// How long ago the schema must have been migrated: by then other hosts have the new version, too.
    static let delay: Duration = .seconds(3_600)
    /// The longest wait for the lock behind which webhooks wait, in milliseconds.
    private static let lockTimeoutMilliseconds = 500

    /// Whether the migration to form four is so many milliseconds old, and nobody keeps the lock from being had soon: a
    /// backup holds one for as long as it runs, and webhooks would wait behind each attempt. Since when others hold
    /// theirs, PostgreSQL does not tell an ordinary role.
    static let mayBegin = Statement<Int64, Bool>(
        "form_may_begin",
        """
        SELECT NOT EXISTS (SELECT FROM schema_migrations
                           WHERE version = 9 AND applied_at > now() - $1 * interval '1 millisecond')
           AND NOT EXISTS (SELECT FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
                           WHERE l.relation = 'identities'::regclass AND l.granted
                               AND l.pid IS DISTINCT FROM pg_backend_pid()
                               AND coalesce(a.xact_start < now() - interval '1 second', true))
        """)

    /// Once the new indexes are there. On a connection of its own: it changes the session's time-outs.
    /// - Returns: whether it was done; if not, a later run tries again.
    static func run(on session: borrowing Session) throws(DatabaseError) -> Bool {
        guard try LedgerForm.oldest(on: session) >= .four,
            try session.run(mayBegin, delay.wholeMilliseconds).first == true
        else { return false }
        try session.script("SET lock_timeout = \(lockTimeoutMilliseconds)")
        do throws(DatabaseError) {
            try session.script(statement)
            return true
        } catch {
            if error.isLocked { return false }
            throw error
        }
    }
}
