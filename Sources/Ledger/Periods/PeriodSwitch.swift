import Postgres
import Vocabulary

/// Turns the plain tables of events and messages into partitioned ones, without copying or reading a row: each becomes
/// the oldest partition of a new table of its name.
///
/// Beside the service comes what takes as long as the tables are large: a constraint that no id reaches the first
/// period, and its proof, without which ATTACH would read the table under its lock. The switch itself is one
/// transaction of milliseconds. A unique index over the keys of messages cannot stay, because it would have to have the
/// id in it: versions before name it in ON CONFLICT, so the switch waits until none of their daemons lives.
enum PeriodSwitch {
    /// What is left of the plain tables until then.
    static let constraint = "messages_key_key"
    static let check = "below_periods"
    /// The migration that the versions which need no such index bring.
    private static let migration: Int32 = 11

    /// The indexes of the two tables; the names of the partitions' own differ.
    private static let indexes: [IndexMigration.Index] =
        IndexMigration.new.filter { PeriodTables.names.contains($0.table) } + [
            IndexMigration.Index(
                name: "events_purchase", table: "events", definition: "(purchase, id) WHERE purchase IS NOT NULL"),
            IndexMigration.Index(name: "messages_event", table: "messages", definition: "(event)"),
        ]

    /// The first id that the first period can have: ids below it may have been given out.
    static let firstFreeID = Statement<(), Int64>(
        "period_first_free_id",
        """
        SELECT ((coalesce(greatest(pg_sequence_last_value('event_ids'::regclass),
                                   pg_sequence_last_value('message_ids'::regclass)), 0) >> 32) + 1) << 32
        """)
    /// The first id above the plain table's, where the constraint says one, and whether that is proven.
    static let bound = Statement<String, (Int64, Bool)>(
        "period_bound",
        """
        SELECT (regexp_match(pg_get_constraintdef(oid), '< ''?([0-9]+)'))[1]::bigint, convalidated FROM pg_constraint
        WHERE conrelid = to_regclass($1) AND conname = 'below_periods'
        """)
    static let owner = Statement<String, String>(
        "period_owner", "SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_class WHERE oid = to_regclass($1)")
    /// The privileges that others were given on a table.
    static let grants = Statement<String, (String, String)>(
        "period_grants",
        """
        SELECT a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
        FROM pg_class c CROSS JOIN aclexplode(c.relacl) AS a
        WHERE c.oid = to_regclass($1) AND a.grantee <> c.relowner ORDER BY 2, 1
        """)

    /// Once the indexes of `IndexMigration` are there, and those that only versions before need are not. On a
    /// connection of its own: it changes the session's time-outs.
    /// - Returns: whether the tables are partitioned; if not, a later run tries again.
    static func run(on session: borrowing Session) throws(DatabaseError) -> Bool {
        guard try LedgerForm.oldest(on: session) >= .periods,
            try SwitchGate.isOpen(after: migration, tables: PeriodTables.names, on: session)
        else { return false }
        try session.script(SwitchGate.lockTimeout)
        do throws(DatabaseError) {
            let end = try prepare(on: session)
            // The proof takes as long as the tables are large: others may hold a lock by now.
            guard try SwitchGate.isOpen(after: migration, tables: PeriodTables.names, on: session) else { return false }
            try session.transaction { session throws(DatabaseError) in
                try PeriodTables.lock(on: session)
                try session.script(PeriodTables.lockTables)
                try switchTables(at: end, on: session)
            }
            return true
        } catch {
            if error.isLockTimeout { return false }
            throw error
        }
    }

    /// The same at once, in the current transaction, for tables without rows: the partitions of before are dropped.
    static func runOnEmpty(on session: borrowing Session) throws(DatabaseError) {
        if try session.run(PeriodTables.isPartitioned, ()).first == true { return }
        guard let end = try session.run(firstFreeID, ()).first else { return }
        try session.script(PeriodTables.lockUnused)
        try switchTables(at: end, on: session)
        try session.script(PeriodTables.names.map { "DROP TABLE \($0)_\(PeriodTables.before);\n" }.joined())
        _ = try session.run(PeriodTables.moveSequences, end - 1)
    }

    /// Proves that no id reaches the first period.
    /// - Returns: the first id of that period.
    private static func prepare(on session: borrowing Session) throws(DatabaseError) -> Int64 {
        guard var end = try session.run(firstFreeID, ()).first else { return 0 }
        for table in PeriodTables.names {
            if let (known, _) = try session.run(bound, table).first {
                end = known
            } else {
                try session.script("ALTER TABLE \(table) ADD CONSTRAINT \(check) CHECK (id < \(end)) NOT VALID")
            }
        }
        for table in PeriodTables.names where try session.run(bound, table).first?.1 != true {
            try session.script("ALTER TABLE \(table) VALIDATE CONSTRAINT \(check)", upTo: .seconds(6 * 3_600))
        }
        return end
    }

    /// Behind a lock of both tables.
    private static func switchTables(at end: Int64, on session: borrowing Session) throws(DatabaseError) {
        var owners: [String] = []
        for table in PeriodTables.names {
            let before = "\(table)_\(PeriodTables.before)"
            guard let owner = try session.run(owner, table).first else { continue }
            owners.append(owner)
            let grants = try session.run(grants, table)
            var sql = """
                ALTER TABLE \(table) DROP CONSTRAINT IF EXISTS \(constraint);
                ALTER TABLE \(table) RENAME TO \(before);
                ALTER INDEX \(table)_pkey RENAME TO \(before)_pkey;
                CREATE TABLE \(table) (
                    LIKE \(before) INCLUDING DEFAULTS INCLUDING STORAGE, CONSTRAINT \(table)_pkey PRIMARY KEY (id)
                ) PARTITION BY RANGE (id);

                """
            for index in indexes where index.table == table {
                sql += """
                    ALTER INDEX \(index.name) RENAME TO \(index.name)_\(PeriodTables.before);
                    \(index.creation());

                    """
            }
            // ATTACH takes the indexes that are there for those of the new table.
            sql += PeriodTables.attaching(before, to: table, from: nil, below: end)
            sql += "ALTER TABLE \(before) DROP CONSTRAINT IF EXISTS \(check);\n"
            sql += "ALTER TABLE \(table) OWNER TO \(owner);\n"
            sql += grants.map { "GRANT \($0) ON \(table) TO \($1);\n" }.joined()
            try session.script(sql)
        }
        try session.script(PeriodTables.creation(of: Period.of(end)))
        for (table, owner) in zip(PeriodTables.names, owners) {
            try session.script("ALTER TABLE \(table)_\(Period.of(end)) OWNER TO \(owner)")
        }
        _ = try session.execute(PeriodTables.begin, Period.of(end))
        // None that names the index registers meanwhile, or ever: it would fail at each message of the relay's own.
        try session.script("ALTER TABLE daemons ADD CONSTRAINT reads_periods CHECK (state_form >= 5)")
    }
}
