import Foundation
import TestSupport
import Vocabulary

/// A relay on a private cluster, and one by a configuration that names another database beside that cluster.
final class Move: Sendable {
    let old: Relay
    let new: Relay

    init(_ integrations: [Relay.Integration]) throws {
        old = try Relay(integrations, storage: .privateCluster)
        new = try Relay(
            integrations, storage: .fresh,
            settings: Self.embedded(in: old) + "\n[spool]\ndirectory = \"\(old.directory.path)/spool\"")
    }

    func end() {
        new.end()
        old.end()
    }

    static func embedded(in relay: Relay) -> String { "[embedded]\ndirectory = \"\(relay.directory.path)/state\"" }

    var mark: String { old.directory.path + "/state/cluster.moved" }
    var isMarked: Bool { FileManager.default.fileExists(atPath: mark) }

    /// Twenty webhooks, delivered; the relay stopped.
    func fill() throws -> Figures {
        try old.start()
        for number in 0..<20 {
            let status = try old.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)"))
            guard status == 200 else { throw HarnessFailure("a webhook was answered \(status)") }
        }
        guard try old.database.drained() else { throw HarnessFailure("not everything was delivered") }
        // SIGKILL: the cluster goes on, for psql.
        old.kill()
        return try Figures(old.database)
    }

    func migrate(_ flags: String...) throws -> (end: ChildProcess.End?, output: String, errors: String) {
        let child = try launch(flags)
        let end = child.waitForEnd(180)
        return (end, child.output.joined(separator: "\n"), child.errors.joined(separator: "\n"))
    }

    func launch(_ flags: [String] = []) throws -> ChildProcess {
        try ChildProcess(
            [try Relay.binary.get(), "migrate", "--from-embedded", "--config", new.configuration] + flags,
            environment: ["SWIFT_BACKTRACE": "enable=no"])
    }
}

/// What a ledger holds: every row of every table that moves, as text, hashed; where each sequence stands.
struct Figures: Equatable {
    let tables: [[String]]
    let sequences: [[String]]

    /// - Parameter columns: those to be compared (`columns`); nil: all that there are.
    init(_ database: Database, columns: [[String]]? = nil) throws {
        let questions = try (columns ?? Self.columns(database)).map { table in
            """
            SELECT '\(table[0])', count(*), md5(coalesce(string_agg(t::text, '' ORDER BY t::text), ''))
            FROM (SELECT \(table[1]) FROM \(table[0])) t
            """
        }
        tables = try database.rows(questions.joined(separator: " UNION ALL "))
        sequences = try database.rows(
            "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'public' ORDER BY 1")
    }

    /// Tables, each with its columns; of partitions the whole. Left out is what changes by itself: leases, which are
    /// given back, and when a source was heard, which a daemon notes some seconds later.
    static func columns(_ database: Database) throws -> [[String]] {
        try database.rows(
            """
            SELECT c.relname, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_class c
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
              AND c.relname NOT IN ('schema_migrations', 'daemons', 'moves')
              AND a.attname NOT IN ('leased_by', 'heard_at')
            GROUP BY 1 ORDER BY 1
            """)
    }
}

/// Holds whoever writes certain rows for as long as a lock is held, by a trigger.
final class Hold: Sendable {
    private static let key = 4_711
    /// Sessions on the database besides the one that asks and the one that holds the lock.
    static let others = """
        SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND query NOT LIKE '%pg_sleep%'
        """
    private let database: Database
    private let holder: ChildProcess

    init(_ database: Database, _ trigger: String) throws {
        self.database = database
        try database.rows(
            """
            CREATE OR REPLACE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN PERFORM pg_advisory_xact_lock_shared(\(Self.key)); RETURN NEW; END $$;
            \(trigger) FOR EACH ROW EXECUTE FUNCTION hold()
            """)
        holder = try ChildProcess([
            TestCluster.psql, "-X", "-q", "-d", database.connectionString, "-c", "SELECT pg_advisory_lock(\(Self.key))",
            "-c",
            "SELECT pg_sleep(600)",
        ])
        guard try eventually({ try database.value(Self.waiting(isGranted: true)) != "0" }) else {
            throw HarnessFailure("the lock was not taken: \(holder.errors)")
        }
    }

    private static func waiting(isGranted: Bool, _ what: String = "count(*)") -> String {
        "SELECT \(what) FROM pg_locks WHERE locktype = 'advisory' AND objid = \(key) AND granted = \(isGranted)"
    }

    func waitUntilMet(by child: ChildProcess) throws {
        let isMet = try eventually(within: 180) {
            try !child.isRunning || database.value(Self.waiting(isGranted: false)) != "0"
        }
        guard isMet, child.isRunning else { throw HarnessFailure("nobody was held: \(child.errors)") }
    }

    /// Ends the session that is held.
    func terminateWaiting() throws {
        try database.rows(Self.waiting(isGranted: false, "pg_terminate_backend(pid)"))
    }

    func release() throws {
        try database.rows(Self.waiting(isGranted: true, "pg_terminate_backend(pid)"))
        _ = holder.waitForEnd(180)
        guard try eventually({ try database.value(Self.others) == "0" }) else {
            throw HarnessFailure("the session that was held does not end")
        }
        try database.rows("DROP FUNCTION hold() CASCADE")
    }
}
