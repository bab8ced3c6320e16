package import Postgres
package import Vocabulary

/// Keeps the tables bounded: partitions of attempts are made ahead and dropped by the day, the rest is pruned in steps
/// small enough to disturb nobody.
package struct Upkeep: Sendable {
    /// Days for which partitions of attempts are made ahead.
    static let partitionsAhead = 3

    /// How long to wait for a partition's lock. A long reader of attempts (a dump) delays it, and settling waits
    /// meanwhile.
    static let lockWaitMax: Duration = .seconds(1)

    /// Key of the advisory lock: "partitio" as bytes.
    private static let lock: Int64 = 0x7061_7274_6974_696F

    let pool: Pool
    let retention: Retention
    let integrations: [String]
    let alwaysNaming: [String]
    let mayLackName: [String]
    let keptMax: Int32
    let observe: Observer

    /// - Parameters:
    ///   - integrations: the names of those that are configured.
    ///   - alwaysNaming: the names of the sources whose events always name somebody.
    ///   - mayLackName: those of the other configured sources. The newest link of a holder of theirs is kept: a
    ///     purchase that begins years later has no other name.
    ///   - keptMax: events of a period that are kept beyond its time.
    package init(
        pool: Pool, retention: Retention, integrations: [String] = [], alwaysNaming: [String] = [],
        mayLackName: [String] = [], keptMax: Int32 = Upkeep.keptMax, observe: @escaping Observer = { _ in }
    ) {
        self.pool = pool
        self.retention = retention
        self.integrations = integrations
        self.alwaysNaming = alwaysNaming
        self.mayLackName = mayLackName
        self.keptMax = keptMax
        self.observe = observe
    }

    /// `day` is a count of days since 1970-01-01 in UTC.
    static let today = Statement<(), Int32>(
        "upkeep_today", "SELECT ((now() AT TIME ZONE 'UTC')::date - date '1970-01-01')")
    static let partitions = Statement<(), (name: String, day: Int32)>(
        "upkeep_partitions",
        """
        SELECT c.relname::text, (to_date(right(c.relname, 8), 'YYYYMMDD') - date '1970-01-01')
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'attempts'::regclass AND c.relname ~ '^attempts_[0-9]{8}$'
        """, row: { (name: String, day: Int32) in (name, day) })
    /// Days that logical replication does not know the rows of (M0020_replica_identity.sql).
    static let unidentified = Statement<(), String>(
        "upkeep_unidentified",
        """
        SELECT quote_ident(c.relname) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'attempts'::regclass AND c.relreplident <> 'f' AND pg_has_role(c.relowner, 'USAGE')
        ORDER BY c.relname
        """)
    static let lockStatement = Statement<Int64, ()>("upkeep_lock", "SELECT FROM pg_advisory_xact_lock($1)")

    /// Makes the partitions of the coming days; runs at start and then every hour. Daemons that start together take
    /// turns. Fails with `isRetryable` while somebody reads attempts for long: the default partition serves until then.
    package func preparePartitions() async throws {
        try await pool.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                guard let today = try session.run(Self.today, ()).first else { return }
                try Self.makePartitions(
                    today...(today + Int32(Self.partitionsAhead)), waiting: Self.lockWaitMax, on: session)
            }
        }
    }

    /// Whether the partitions of attempts have a gap of more than `gapMax` days, and at most two days follow it: no
    /// daemon ran for so long, or the database's clock is ahead. What is deleted by a clock that is wrong does not come
    /// back, so deleting waits, and somebody can set it. Two days, because by such a clock a day may begin a moment
    /// later.
    package func followsGap() async throws(DatabaseError) -> Bool {
        try await pool.withSession { session throws(DatabaseError) in
            guard let today = try session.run(Self.today, ()).first else { return false }
            return Self.followsGap(today, Set(try session.run(Self.partitions, ()).map(\.day)))
        }
    }

    /// A daemon that runs now and then leaves gaps, too.
    static let gapMax: Int32 = 14

    /// - Parameter days: those that have a partition.
    static func followsGap(_ today: Int32, _ days: Set<Int32>) -> Bool {
        var first = today
        while days.contains(first - 1) { first -= 1 }
        guard today - first < 2, let former = days.filter({ $0 < first }).max() else { return false }
        return first - former > gapMax
    }

    /// Makes the missing partitions, in the current transaction.
    /// - Parameter limit: for each lock; nil: the transaction's own limit.
    static func makePartitions(
        _ days: some Sequence<Int32>, waiting limit: Duration? = nil, on session: borrowing Session
    ) throws(DatabaseError) {
        _ = try session.run(lockStatement, session.lockKey(lock))
        let existing = Set(try session.run(partitions, ()).map(\.day))
        if let limit { try session.script(lockTimeout(limit)) }
        // Made by an older daemon beside this one. Before the default one is locked, and in order: who reads all of
        // them locks them so. Another daemon may be dropping one.
        let older = try session.run(unidentified, ())
        if !older.isEmpty { try session.script("LOCK TABLE ONLY attempts IN SHARE UPDATE EXCLUSIVE MODE") }
        for name in older { try session.script("ALTER TABLE IF EXISTS \(name) REPLICA IDENTITY FULL") }
        let missing = days.filter { !existing.contains($0) }
        for day in missing { try session.script(createPartition(day)) }
        try PeriodTables.giveToOwner(missing.map(partition), on: session)
    }

    /// Sets the limit for the current transaction.
    static func lockTimeout(_ limit: Duration) -> String { "SET LOCAL lock_timeout = \(limit.wholeMilliseconds)" }

    private static func date(_ day: Int32) -> Substring {
        Timestamp(milliseconds: Int64(day) * 86_400_000).iso8601.prefix(10)
    }

    private static func partition(_ day: Int32) -> String { "attempts_" + date(day).filter { $0 != "-" } }

    /// Moves the day's rows first: PostgreSQL refuses a partition while the default one holds rows of it. Behind its
    /// locks, so that nobody settles into the default one in between. Who reads waits before it looks for partitions
    /// then, or could find the rows in neither (but for the first that somebody settles at this very moment). Without a
    /// primary key logical replication knows rows by all of them (M0020_replica_identity.sql).
    private static func createPartition(_ day: Int32) -> String {
        let name = partition(day)
        let (from, to) = ("'\(date(day)) 00:00:00+00'", "'\(date(day + 1)) 00:00:00+00'")
        return """
            LOCK TABLE ONLY attempts IN SHARE UPDATE EXCLUSIVE MODE;
            DO $$ BEGIN
                IF EXISTS (SELECT FROM attempts_default WHERE at >= \(from) AND at < \(to)) THEN
                    LOCK TABLE ONLY attempts IN ACCESS EXCLUSIVE MODE;
                END IF;
            END $$;
            LOCK TABLE attempts_default IN ACCESS EXCLUSIVE MODE;
            CREATE TABLE \(name) (LIKE attempts INCLUDING DEFAULTS);
            ALTER TABLE \(name) REPLICA IDENTITY FULL;
            WITH moved AS (DELETE FROM attempts_default WHERE at >= \(from) AND at < \(to) RETURNING *)
            INSERT INTO \(name) SELECT * FROM moved;
            ALTER TABLE attempts ATTACH PARTITION \(name) FOR VALUES FROM (\(from)) TO (\(to))
            """
    }
}
