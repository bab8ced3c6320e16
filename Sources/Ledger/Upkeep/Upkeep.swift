package import Postgres
import Vocabulary

/// How long things are kept: `[retention]`.
package struct Retention: Sendable {
    package let attempts: Duration
    package let events: Duration
    package let duplicates: Duration

    package init(attempts: Duration, events: Duration, duplicates: Duration) {
        self.attempts = attempts
        self.events = events
        self.duplicates = duplicates
    }
}

/// What keeps the tables bounded: partitions of attempts made ahead and dropped by the day, the rest pruned in steps
/// small enough to disturb nobody.
package struct Upkeep: Sendable {
    /// Days of attempts that have a partition in advance.
    static let partitionsAhead = 3
    /// Rows that one step prunes.
    static let pruneStep: Int32 = 5_000
    /// Steps of one call, so that it ends; the next goes on.
    static let pruneStepsMax = 2_000

    /// The key of the advisory lock: "partitio" as bytes.
    private static let lock: Int64 = 0x7061_7274_6974_696F

    let pool: Pool
    let retention: Retention

    package init(pool: Pool, retention: Retention) {
        self.pool = pool
        self.retention = retention
    }

    /// `day` is a count of days since 1970-01-01 in UTC.
    static let today = Statement<(), Int32>(
        "upkeep_today", "SELECT ((now() AT TIME ZONE 'UTC')::date - date '1970-01-01')")
    static let partitions = Statement<(), (String, Int32)>(
        "upkeep_partitions",
        """
        SELECT c.relname::text, (to_date(right(c.relname, 8), 'YYYYMMDD') - date '1970-01-01')
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'attempts'::regclass AND c.relname ~ '^attempts_[0-9]{8}$'
        """)
    static let lockStatement = Statement<Int64, ()>("upkeep_lock", "SELECT FROM pg_advisory_xact_lock($1)")
    /// What came while its day had no partition.
    static let pruneStrays = Statement<Int32, ()>(
        "upkeep_prune_strays",
        "DELETE FROM attempts_default WHERE at < (date '1970-01-01' + $1)::timestamp AT TIME ZONE 'UTC'")
    static let pruneIdentities = Statement<(Int64, Int32), Int64>(
        "upkeep_prune_identities",
        """
        DELETE FROM identities WHERE key IN (
            SELECT key FROM identities WHERE received_at < now() - $1 * interval '1 millisecond' LIMIT $2)
        RETURNING event
        """)
    /// Events whose messages are all settled and old; their messages go with them.
    static let pruneEvents = Statement<(Int64, Int32), Int64>(
        "upkeep_prune_events",
        """
        WITH old AS (
            SELECT id FROM events e
            WHERE received_at < now() - $1 * interval '1 millisecond'
              AND NOT EXISTS (SELECT FROM messages m JOIN deliveries d ON d.message = m.id WHERE m.event = e.id)
              AND NOT EXISTS (SELECT FROM messages m JOIN dead_letters l ON l.message = m.id WHERE m.event = e.id)
            ORDER BY id LIMIT $2),
        messages_gone AS (DELETE FROM messages m USING old WHERE m.event = old.id)
        DELETE FROM events e USING old WHERE e.id = old.id RETURNING e.id
        """)

    /// Makes the partitions of the coming days; runs at start and then by the hour. Daemons that start together take
    /// turns.
    package func preparePartitions() async throws {
        try await pool.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                _ = try session.run(Self.lockStatement, Self.lock)
                guard let today = try session.run(Self.today, ()).first else { return }
                let existing = Set(try session.run(Self.partitions, ()).map(\.1))
                for day in today...(today + Int32(Self.partitionsAhead)) where !existing.contains(day) {
                    try session.script(Self.createPartition(day))
                }
            }
        }
    }

    /// Drops and prunes what is past its time.
    package func prune() async throws {
        let attemptsDays = Int32(clamping: retention.attempts.wholeMilliseconds / 86_400_000)
        try await pool.withSession { session throws(DatabaseError) in
            guard let today = try session.run(Self.today, ()).first else { return }
            for (name, day) in try session.run(Self.partitions, ()) where day < today - attemptsDays {
                // The name matched attempts_ and eight digits: it can be written into the statement as it is.
                try session.script("DROP TABLE IF EXISTS \(name)")
            }
            _ = try session.execute(Self.pruneStrays, today - attemptsDays)
        }
        try await pruneInSteps(Self.pruneIdentities, olderThan: retention.duplicates)
        try await pruneInSteps(Self.pruneEvents, olderThan: retention.events)
    }

    private func pruneInSteps(_ statement: Statement<(Int64, Int32), Int64>, olderThan age: Duration) async throws {
        for _ in 0..<Self.pruneStepsMax {
            let pruned = try await pool.withSession { session throws(DatabaseError) in
                try session.run(statement, (age.wholeMilliseconds, Self.pruneStep)).count
            }
            if pruned < Int(Self.pruneStep) { return }
        }
    }

    /// Attached with the day's rows in it: PostgreSQL refuses a partition while the default one holds rows of it.
    private static func createPartition(_ day: Int32) -> String {
        func date(_ day: Int32) -> Substring {
            Timestamp(milliseconds: Int64(day) * 86_400_000).iso8601.prefix(10)
        }
        let name = "attempts_" + date(day).filter { $0 != "-" }
        let (from, to) = ("'\(date(day)) 00:00:00+00'", "'\(date(day + 1)) 00:00:00+00'")
        return """
            CREATE TABLE \(name) (LIKE attempts INCLUDING DEFAULTS);
            WITH moved AS (DELETE FROM attempts_default WHERE at >= \(from) AND at < \(to) RETURNING *)
            INSERT INTO \(name) SELECT * FROM moved;
            ALTER TABLE attempts ATTACH PARTITION \(name) FOR VALUES FROM (\(from)) TO (\(to))
            """
    }
}
