package import Postgres
import Vocabulary

/// The changes of the schema that take as long as the ledger is large: indexes, built and dropped while the relay
/// serves. The migrations leave them out, so that no start waits for them. Nothing that is written before `FormSwitch`
/// needs one of them to be right, only to be fast; so each step may fail, be cut short and be done again.
///
/// The steps of an upgrade, in their order. Each waits for those before it, and all but the first for a run that finds
/// nothing left to build. They wait for a form until every living daemon reads it (`LedgerForm`), and the switches for
/// an hour after a migration and for tables that nobody holds (`SwitchGate`).
///
/// | step | takes away | waits for | of an older version then fails |
/// |--|--|--|--|
/// | build `new` | | M0008, M0009, M0013: its columns | |
/// | drop `old` | the indexes | `keylessMessages` | nothing: it only becomes slow |
/// | `FormSwitch` | `identities_pkey` | `timedKeys`; M0009 | INSERT with ON CONFLICT (key) into `identities` |
/// | `PeriodSwitch` | `messages_key_key` | `periods`; M0011 | the same into `messages`; a daemon's registration |
package enum IndexMigration {
    package enum Outcome: Sendable, Equatable {
        case done
        /// Another process is at it.
        case taken
        /// The new ones are there. These are dropped by a later run, once no daemon of an older version lives.
        case left([String])
    }

    struct Index {
        let name: String
        var isUnique = false
        let table: String
        /// What follows the table.
        let definition: String

        /// - Parameters:
        ///   - option: CONCURRENTLY, or none.
        ///   - partition: with the name of its own index; nil: the table itself.
        func creation(_ option: String = "", on partition: String? = nil, as own: String? = nil) -> String {
            """
            CREATE \(isUnique ? "UNIQUE " : "")INDEX \(option) \(own ?? name) ON \(partition ?? table) \(definition)
            """
        }
    }

    static let new = [
        Index(name: "events_stray", table: "events", definition: "(holder, id) WHERE stray"),
        // The others are found by the purchases of the transaction.
        Index(
            name: "events_without_purchase", table: "events",
            definition: "(store_transaction_id, id) WHERE store_transaction_id IS NOT NULL AND purchase IS NULL"),
        Index(
            name: "purchases_hash", isUnique: true, table: "purchases", definition: "(coalesce(hash, id))"),
        // Partial, so that ON CONFLICT (key) does not find it (`FormSwitch`).
        Index(
            name: "identities_key", isUnique: true, table: "identities", definition: "(key) WHERE key IS NOT NULL"),
        Index(name: "messages_own_key", table: "messages", definition: "(key) WHERE key IS NOT NULL"),
        // Whether a source has changes of holders at all, and which of them are to be looked at, by their arrival.
        Index(name: "holder_changes_aged", table: "holder_changes", definition: "(source, is_kept, received_at)"),
        // Partial, so that no statement that has only ids can read one whole instead of looking them up: while
        // statistics say that the queue is empty, one costs as much as the other.
        Index(
            name: "deliveries_of_purchase", table: "deliveries",
            definition: "(purchase, integration, id) WHERE purchase IS NOT NULL"),
        Index(
            name: "deliveries_without_purchase", table: "deliveries",
            definition: "(message) WHERE purchase IS NULL"),
    ]

    /// Not needed from `LedgerForm.keylessMessages` on, or since `holder_changes_aged` and those of `deliveries` are
    /// there.
    private static let old = ["events_holder", "events_transaction", "holder_changes_source", "deliveries_order"]
    /// What the two switches take away.
    private static let switched = [FormSwitch.constraint, PeriodSwitch.constraint]

    /// Key of the advisory lock: "indexing" as bytes.
    private static let lockKey: Int64 = 0x696E_6465_7869_6E67
    /// The longest time for one index.
    private static let timeout: Duration = .seconds(6 * 3_600)

    static let lock = Statement<Int64, Bool>("index_lock", "SELECT pg_try_advisory_lock($1)")
    static let unlock = Statement<Int64, Bool>("index_unlock", "SELECT pg_advisory_unlock($1)")

    /// Whether a partition (p.inhrelid) has no part of the index x of its table.
    private static let lacksPart: SQL = """
        NOT EXISTS (SELECT FROM pg_index own JOIN pg_inherits of ON of.inhrelid = own.indexrelid
                    WHERE own.indrelid = p.inhrelid AND of.inhparent = x.indexrelid)
        """

    /// Those of the indexes that exist, each with whether it was built to its end. One of a partitioned table serves
    /// once every partition has its part; PostgreSQL calls it valid only where the last of them got it, not where the
    /// last without one was dropped.
    static let existing = Statement<[String], (String, Bool)>(
        "index_existing",
        """
        SELECT c.relname::text, x.indisvalid OR c.relkind = 'I' AND NOT EXISTS (
                   SELECT FROM pg_inherits p WHERE p.inhparent = x.indrelid AND \(lacksPart))
        FROM pg_class c JOIN pg_index x ON x.indexrelid = c.oid
        WHERE c.relname = ANY ($1)
            AND x.indrelid IN (
                'events'::regclass, 'messages'::regclass, 'purchases'::regclass, 'identities'::regclass,
                'holder_changes'::regclass, 'deliveries'::regclass)
        """)
    /// The partitions of the table with the index of this name; those that have their part of it already are left out.
    static let withoutPart = Statement<String, String>(
        "index_without_part",
        """
        SELECT c.relname::text FROM pg_index x JOIN pg_inherits p ON p.inhparent = x.indrelid
        JOIN pg_class c ON c.oid = p.inhrelid
        WHERE x.indexrelid = to_regclass($1) AND \(lacksPart)
        """)

    /// Builds what is missing, then drops what is not needed any more. On a connection of its own: it changes the
    /// session's time-outs, and a large index takes minutes.
    package static func run(on session: borrowing Session) throws(DatabaseError) -> Outcome {
        guard try session.run(lock, session.lockKey(lockKey)) == [true] else { return .taken }
        let outcome = try runLocked(on: session)
        _ = try session.run(unlock, session.lockKey(lockKey))
        return outcome
    }

    /// The indexes and constraints that are still to be built, finished or dropped; empty: all is done.
    package static func unfinished(in pool: Pool) async throws(DatabaseError) -> [String] {
        try await pool.withSession { session throws(DatabaseError) in
            let (wanted, unwanted) = (new.map(\.name), old + switched)
            let found = Dictionary(firstOf: try session.run(existing, wanted + unwanted))
            return wanted.filter { found[$0] != true } + unwanted.filter { found[$0] != nil }
        }
    }

    private static func runLocked(on session: borrowing Session) throws(DatabaseError) -> Outcome {
        let existing = Dictionary(firstOf: try session.run(existing, new.map(\.name) + old + switched))
        let missing = new.filter { existing[$0.name] != true }
        var left = (old + switched).filter { existing[$0] != nil }
        if missing.isEmpty, left.isEmpty { return .done }
        try session.script("SET statement_timeout = 0")
        try session.script("SET lock_timeout = 0")
        // By one process: with helpers it would leave no processor of a small machine to those who record.
        try session.script("SET max_parallel_maintenance_workers = 0")
        // It goes on for nobody once this process is gone, and would keep the advisory lock.
        try session.script("SET client_connection_check_interval = '10s'")
        let isPartitioned = try session.run(PeriodTables.isPartitioned, ()).first == true
        for index in missing {
            if isPartitioned, PeriodTables.names.contains(index.table) {
                do throws(DatabaseError) {
                    try build(index, isBegun: existing[index.name] != nil, on: session)
                } catch  where error.isLockTimeout {
                    return .left([index.name])
                }
                continue
            }
            // The rest of a build that was cut short.
            if existing[index.name] == false { try run("DROP INDEX CONCURRENTLY \(index.name)", on: session) }
            try run(index.creation("CONCURRENTLY"), on: session)
        }
        // By a later run than the one that builds: a daemon of an older version may just be starting.
        guard missing.isEmpty else { return left.isEmpty ? .done : .left(left) }
        do throws(DatabaseError) {
            if try LedgerForm.oldest(on: session) >= .keylessMessages {
                for name in left where old.contains(name) { try run("DROP INDEX CONCURRENTLY \(name)", on: session) }
                left.removeAll(where: old.contains)
            }
            if left.contains(FormSwitch.constraint), try FormSwitch.run(on: session) {
                left.removeAll { $0 == FormSwitch.constraint }
            }
            if left == [PeriodSwitch.constraint], try PeriodSwitch.run(on: session) { left = [] }
        } catch {
            // A role that does not own the tables: `posthouse migrate` does it as one that does.
            if error.isForbidden { return .left(left) }
            throw error
        }
        return left.isEmpty ? .done : .left(left)
    }

    /// Builds an index of a partitioned table, for which PostgreSQL knows no CONCURRENTLY: first as one that is whole
    /// once each partition has its part, then the parts, one after the other. A partition made meanwhile has its own.
    private static func build(
        _ index: Index, isBegun: Bool, on session: borrowing Session
    ) throws(DatabaseError) {
        if !isBegun {
            // Who records waits behind this one, too.
            try session.script(SwitchGate.lockTimeout)
            try run(index.creation(on: "ONLY \(index.table)"), on: session)
            try session.script("SET lock_timeout = 0")
        }
        // Looked for anew each time: what is kept of dropped periods may have been attached again, with its part.
        var tried: Set<String> = []
        while let partition = try session.run(withoutPart, index.name).first(where: { !tried.contains($0) }) {
            tried.insert(partition)
            let part = "\(index.name)_\(partition.split(separator: "_").last ?? "")"
            do throws(DatabaseError) {
                // The rest of a build that was cut short.
                try run("DROP INDEX CONCURRENTLY IF EXISTS \(part)", on: session)
                try run(index.creation("CONCURRENTLY", on: partition, as: part), on: session)
                try run("ALTER INDEX \(index.name) ATTACH PARTITION \(part)", on: session)
            } catch  where error.isMissingObject {
                // A daemon that prunes has dropped the partition meanwhile.
            }
        }
    }

    /// The same at once, in the current transaction, in a ledger without rows.
    static func runOnEmpty(on session: borrowing Session) throws(DatabaseError) {
        let existing = Dictionary(firstOf: try session.run(existing, new.map(\.name) + old + switched))
        for index in new where existing[index.name] != true {
            if existing[index.name] == false { try session.script("DROP INDEX \(index.name)") }
            try session.script(index.creation())
        }
        for name in old where existing[name] != nil { try session.script("DROP INDEX \(name)") }
        if existing[FormSwitch.constraint] != nil { try session.script(FormSwitch.statement) }
        try PeriodSwitch.runOnEmpty(on: session)
    }

    /// Alone: PostgreSQL refuses CONCURRENTLY beside other statements.
    private static func run(_ sql: String, on session: borrowing Session) throws(DatabaseError) {
        try session.script(sql, upTo: timeout)
    }
}
