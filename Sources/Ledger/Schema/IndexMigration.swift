package import Postgres
import Vocabulary

/// The changes of the schema that take as long as the ledger is large: indexes, built and dropped while the relay
/// serves. The migrations leave them out, so that no start waits for them. No statement needs one of them to be right,
/// only to be fast; so each step may fail, be cut short and be done again.
package enum IndexMigration {
    package enum Outcome: Sendable, Equatable {
        case done
        /// Another process is at it.
        case taken
        /// The new ones are there. These are dropped by a later run, once no daemon of an older version lives.
        case left([String])
    }

    private struct Index {
        let name: String
        /// What follows its name.
        let definition: String
    }

    private static let new = [
        Index(name: "events_stray", definition: "ON events (holder, id) WHERE stray"),
        // The others are found by the purchases of the transaction.
        Index(
            name: "events_without_purchase",
            definition: """
                ON events (store_transaction_id, id) WHERE store_transaction_id IS NOT NULL AND purchase IS NULL
                """),
    ]
    private static let old = ["events_holder", "events_transaction"]

    /// Key of the advisory lock: "indexing" as bytes.
    private static let lockKey: Int64 = 0x696E_6465_7869_6E67
    /// The longest time for one index.
    private static let patience: Duration = .seconds(6 * 3_600)

    static let lock = Statement<Int64, Bool>("index_lock", "SELECT pg_try_advisory_lock($1)")
    static let unlock = Statement<Int64, Bool>("index_unlock", "SELECT pg_advisory_unlock($1)")

    /// Those of the indexes that exist, each with whether it was built to its end.
    static let existing = Statement<[String], (String, Bool)>(
        "index_existing",
        """
        SELECT c.relname::text, i.indisvalid FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
        WHERE c.relname = ANY ($1) AND i.indrelid = 'events'::regclass
        """)

    /// Builds what is missing, then drops what is not needed any more. On a connection of its own: it changes the
    /// session's time-outs, and a large index takes minutes.
    package static func run(on session: borrowing Session) throws(DatabaseError) -> Outcome {
        guard try session.run(lock, lockKey) == [true] else { return .taken }
        let outcome = try runLocked(on: session)
        _ = try session.run(unlock, lockKey)
        return outcome
    }

    private static func runLocked(on session: borrowing Session) throws(DatabaseError) -> Outcome {
        let existing = Dictionary(firstOf: try session.run(existing, new.map(\.name) + old))
        let missing = new.filter { existing[$0.name] != true }
        let left = old.filter { existing[$0] != nil }
        if missing.isEmpty, left.isEmpty { return .done }
        try session.script("SET statement_timeout = 0")
        try session.script("SET lock_timeout = 0")
        // It goes on for nobody once this process is gone, and would keep the advisory lock.
        try session.script("SET client_connection_check_interval = '10s'")
        for index in missing {
            // The rest of a build that was cut short.
            if existing[index.name] == false { try run("DROP INDEX CONCURRENTLY \(index.name)", on: session) }
            try run("CREATE INDEX CONCURRENTLY \(index.name) \(index.definition)", on: session)
        }
        if left.isEmpty { return .done }
        let form = try LedgerForm.readByAll(on: session)
        // By a later run than the one that builds: a daemon of an older version may just be starting.
        guard missing.isEmpty, form == .current else { return .left(left) }
        for name in left { try run("DROP INDEX CONCURRENTLY \(name)", on: session) }
        return .done
    }

    /// The same at once, in the transaction that makes an empty ledger.
    static func runOnEmpty(on session: borrowing Session) throws(DatabaseError) {
        for index in new { try session.script("CREATE INDEX \(index.name) \(index.definition)") }
        for name in old { try session.script("DROP INDEX \(name)") }
    }

    /// Alone: PostgreSQL refuses CONCURRENTLY beside other statements.
    private static func run(_ sql: String, on session: borrowing Session) throws(DatabaseError) {
        try session.script(sql, upTo: patience)
    }
}
