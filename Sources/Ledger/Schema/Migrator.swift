import Crypto
package import Postgres
import Vocabulary

/// One migration, forward only. Adjacent versions of the relay run side by side on one schema (rolling upgrade), so a
/// migration adds before a later one removes.
struct Migration: Sendable {
    let version: Int32
    let name: String
    let sql: String

    /// SHA-256 of the text, so that a change to an applied migration is noticed.
    var checksum: [UInt8] { Array(SHA256.hash(data: Array(sql.utf8))) }

    static let all: [Migration] = texts.enumerated().map { index, text in
        Migration(version: Int32(index + 1), name: text.name, sql: String(decoding: text.sql, as: UTF8.self))
    }

    /// A migration's place is its version.
    private static let texts: [(name: String, sql: [UInt8])] = [
        ("ledger", PackageResources.M0001_ledger_sql),
        ("holders", PackageResources.M0002_holders_sql),
        ("operator", PackageResources.M0003_operator_sql),
        ("collation", PackageResources.M0004_collation_sql),
        ("leases", PackageResources.M0005_leases_sql),
        ("holder_changes", PackageResources.M0006_holder_changes_sql),
        ("state_form", PackageResources.M0007_state_form_sql),
        ("flat", PackageResources.M0008_flat_sql),
        ("by_time", PackageResources.M0009_by_time_sql),
        ("sources", PackageResources.M0010_sources_sql),
        ("periods", PackageResources.M0011_periods_sql),
        ("answers", PackageResources.M0012_answers_sql),
        ("kept_links", PackageResources.M0013_kept_links_sql),
        ("access", PackageResources.M0014_access_sql),
        ("ends", PackageResources.M0015_ends_sql),
        ("coverage", PackageResources.M0016_coverage_sql),
        ("message_access", PackageResources.M0017_message_access_sql),
        ("lock_salt", PackageResources.M0018_lock_salt_sql),
        ("event_id", PackageResources.M0019_event_id_sql),
        ("replica_identity", PackageResources.M0020_replica_identity_sql),
        ("said_names", PackageResources.M0021_said_names_sql),
        ("daemon_configuration", PackageResources.M0022_daemon_configuration_sql),
    ]
}

package enum MigrationError: Error, CustomStringConvertible {
    case changed(version: Int32, name: String)
    case newer(database: Int32, program: Int32)
    /// The names as SQL has them.
    case noSchema(String, role: String)
    case schemaForbidden(String, role: String)
    /// The role may not make the first table.
    case forbidden(DatabaseError)
    /// `schema_migrations` is another program's.
    case foreign
    /// Others use a table that is to be changed, and webhooks would wait behind a wait for them. To be tried again.
    case inUse(by: [String])
    case failed(version: Int32, name: String, DatabaseError)

    package var description: String {
        switch self {
        case .changed(let version, let name):
            "migration \(version) (\(name)) was applied in another form than this program carries; "
                + "run the version of posthouse that made this database, or restore a backup"
        case .newer(let database, let program):
            "the database is at migration \(database), this program supports only migration \(program); "
                + "install the newer posthouse"
        case .noSchema(let schema, let role):
            "the database has no schema \(schema), and the role \(role) may not make it; run as a role that may: "
                + "CREATE SCHEMA \(schema) AUTHORIZATION \(role)"
        case .schemaForbidden(let schema, let role):
            "the role \(role) may not use the schema \(schema); run as its owner: "
                + "GRANT USAGE, CREATE ON SCHEMA \(schema) TO \(role)"
        case .forbidden(let error):
            "no table can be made: \(error); \(Self.rights)"
        case .foreign:
            "schema_migrations is another program's table; \(Self.ownSchema)"
        case .inUse(let users):
            "the new version's tables are not made yet, because others use a table that they change: "
                + (users.isEmpty ? "it was not free in time" : users.joined(separator: ", "))
                + " (a backup? pg_stat_activity shows it)"
        case .failed(let version, let name, let error):
            "migration \(version) (\(name)) failed: \(error)" + (error.isForbidden ? "; \(Self.rights)" : "")
                + (error.isTaken ? "; \(Self.ownSchema)" : "")
        }
    }
}

extension MigrationError {
    private static let rights =
        "the role that posthouse connects as must own its tables and may create more: ALTER TABLE … OWNER TO, or "
        + "GRANT CREATE ON SCHEMA (public, or that of [database] schema) TO that role"
    private static let ownSchema =
        "beside tables of others let [database] schema name a schema of Posthouse's own"
}

extension DatabaseError {
    /// 42501, insufficient_privilege.
    var isForbidden: Bool { sqlState == "42501" }

    /// 40P01, deadlock_detected: this waited for who waited for it.
    fileprivate var isDeadlock: Bool { sqlState == "40P01" }

    /// 42P07, duplicate_table: also for an index.
    fileprivate var isTaken: Bool { sqlState == "42P07" }

    /// 42703, undefined_column.
    fileprivate var lacksColumn: Bool { sqlState == "42703" }
}

/// Brings the schema up to date under an advisory lock, so that daemons which start together take turns.
package enum Migrator {
    /// Key of the advisory lock: "posthous" as bytes.
    private static let lock: Int64 = 0x706F_7374_686F_7573
    /// The longest time for one migration, and for waiting for another daemon's: on a large ledger one may rewrite a
    /// table or build an index.
    private static let timeout: Duration = .seconds(6 * 3_600)
    /// The pause before it is tried again where others use the tables: each attempt may hold up webhooks.
    private static let pause: Duration = .seconds(5)

    /// The version of an up-to-date schema.
    package static let newest = Migration.all.count

    /// Whether the schema exists, whether the role may use it, and whether the role may make one; and the role's name.
    static let schema = Statement<String, (Bool, Bool, Bool, String)>(
        "migrate_schema",
        """
        SELECT n.oid IS NOT NULL,
               coalesce(has_schema_privilege(n.oid, 'USAGE') AND has_schema_privilege(n.oid, 'CREATE'), false),
               has_database_privilege(current_database(), 'CREATE'), quote_ident(current_user)
        FROM (SELECT) AS one LEFT JOIN pg_namespace n ON n.nspname = $1
        """)
    static let exists = Statement<(), Bool>(
        "migrate_exists", "SELECT to_regclass('schema_migrations') IS NOT NULL")
    static let applied = Statement<(), (Int32, [UInt8])>(
        "migrate_applied", "SELECT version, checksum FROM schema_migrations ORDER BY version")
    static let record = Statement<(Int32, String, [UInt8]), ()>(
        "migrate_record", "INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3)")

    /// Migrates. Where others use a table that is to be changed, it is tried again until they have ended or `timeout`
    /// is over: webhooks go on meanwhile.
    /// - Parameter onWait: called at the first attempt that fails by that.
    /// - Returns: the versions before and after.
    package static func migrate(
        on connection: Connection, onWait: @Sendable (MigrationError) -> Void = { _ in }
    ) async throws -> Result<(from: Int, to: Int), MigrationError> {
        let deadline = ContinuousClock.now + timeout
        var isFirst = true
        while true {
            let outcome = try await connection.withSession { session throws(DatabaseError) in
                try migrate(on: session)
            }
            guard case .failure(let error) = outcome, case .inUse = error, ContinuousClock.now < deadline else {
                return outcome
            }
            if isFirst { onWait(error) }
            isFirst = false
            try await Task.sleep(for: pause)
        }
    }

    /// Tries it once.
    /// - Returns: the versions before and after.
    package static func migrate(
        on session: borrowing Session
    ) throws(DatabaseError) -> Result<(from: Int, to: Int), MigrationError> {
        try session.decidedTransaction { session throws(DatabaseError) in
            // The role's own limit is none for the wait for another daemon's migration.
            try session.script("SET LOCAL lock_timeout = 0")
            let outcome = try bringUpToDate(on: session)
            if case .failure = outcome { return .rollBack(outcome) }
            return .commit(outcome)
        }
    }

    /// Makes every daemon that starts on this database wait until the current transaction has ended.
    static func holdStarts(on session: borrowing Session) throws(DatabaseError) {
        try session.script("SELECT FROM pg_advisory_xact_lock(\(session.lockKey(lock)))", upTo: timeout)
    }

    /// Makes the schema that the configuration names, if it is not there.
    private static func prepareSchema(on session: borrowing Session) throws(DatabaseError) -> MigrationError? {
        guard let name = session.schema, let quoted = session.quotedSchema,
            let (exists, isUsable, mayMake, role) = try session.run(schema, name).first
        else { return nil }
        if exists { return isUsable ? nil : .schemaForbidden(quoted, role: role) }
        guard mayMake else { return .noSchema(quoted, role: role) }
        try session.script("CREATE SCHEMA \(quoted)")
        return nil
    }

    /// The checksums of the migrations that were applied, by version; nil: the table is another program's.
    private static func checksums(on session: borrowing Session) throws(DatabaseError) -> [Int32: [UInt8]]? {
        do throws(DatabaseError) {
            return Dictionary(firstOf: try session.run(applied, ()))
        } catch {
            if error.lacksColumn { return nil }
            throw error
        }
    }

    /// Nil: this program knows every migration that the schema has.
    static func newerSchema(on session: borrowing Session) throws(DatabaseError) -> MigrationError? {
        guard let last = try session.run(applied, ()).last?.0, last > newest else { return nil }
        return .newer(database: last, program: Int32(newest))
    }

    /// What speaks against the migrations that a database has; nil: nothing, though some may be missing.
    private static func problem(with checksums: [Int32: [UInt8]]) -> MigrationError? {
        let last = checksums.keys.max() ?? 0
        if last > newest { return .newer(database: last, program: Int32(newest)) }
        for migration in Migration.all {
            if let checksum = checksums[migration.version], checksum != migration.checksum {
                return .changed(version: migration.version, name: migration.name)
            }
        }
        return nil
    }

    /// Whether the schema has every migration of this program. Changes nothing.
    package static func isUpToDate(
        on session: borrowing Session
    ) throws(DatabaseError) -> Result<Bool, MigrationError> {
        guard try session.run(exists, ()).first == true else { return .success(false) }
        guard let checksums = try checksums(on: session) else { return .failure(.foreign) }
        if let problem = problem(with: checksums) { return .failure(problem) }
        return .success(Migration.all.allSatisfy { checksums[$0.version] != nil })
    }

    /// Brings the schema up to date in the current transaction.
    static func bringUpToDate(
        on session: borrowing Session
    ) throws(DatabaseError) -> Result<(from: Int, to: Int), MigrationError> {
        // The time-out of the daemon's statements does not apply to migrations.
        try session.script("SET LOCAL statement_timeout = 0")
        // It goes on for nobody once this process is gone, and would keep its place in the queue for a lock.
        try session.script("SET LOCAL client_connection_check_interval = '10s'")
        try holdStarts(on: session)
        if let failure = try prepareSchema(on: session) { return .failure(failure) }
        if try session.run(exists, ()).first != true {
            do throws(DatabaseError) {
                try session.script(
                    """
                    CREATE TABLE schema_migrations (
                        version integer PRIMARY KEY, name text NOT NULL, checksum bytea NOT NULL,
                        applied_at timestamptz NOT NULL DEFAULT now())
                    """)
            } catch {
                guard error.isForbidden else { throw error }
                return .failure(.forbidden(error))
            }
        }
        guard let checksums = try checksums(on: session) else { return .failure(.foreign) }
        if let problem = problem(with: checksums) { return .failure(problem) }
        let last = checksums.keys.max() ?? 0
        let missing = Migration.all.filter { checksums[$0.version] == nil }
        if last > 0, !missing.isEmpty {
            let sql = missing.map(\.sql).joined(separator: "\n")
            let users = try SwitchGate.lastingUsers(ofTablesIn: sql, on: session)
            if !users.isEmpty { return .failure(.inUse(by: users)) }
            _ = try session.run(SwitchGate.limitWaits, ())
        }
        for migration in missing {
            if let failure = apply(migration, on: session) { return .failure(failure) }
        }
        if last == 0 { try IndexMigration.runOnEmpty(on: session) }
        return .success((Int(last), newest))
    }

    static func apply(_ migration: Migration, on session: borrowing Session) -> MigrationError? {
        do throws(DatabaseError) {
            try session.script(migration.sql, upTo: timeout)
            _ = try session.execute(record, (migration.version, migration.name, migration.checksum))
            return nil
        } catch {
            if error.isLockTimeout || error.isDeadlock { return .inUse(by: []) }
            return .failed(version: migration.version, name: migration.name, error)
        }
    }
}
