import Cluster
import Configuration
import Doctor
import Glibc
import Ledger
import Postgres
import Vocabulary

/// Connects the daemon and the commands to the configured database.
enum DatabaseAccess {
    static func settings(
        _ connectionString: String, statementTimeout: Duration,
        idleTransactionTimeout: Duration = Limits.idleTransactionTimeout, schema: String? = nil,
        pooling: Pooling = .session
    ) throws(ConnectionStringError) -> ConnectionSettings {
        try ConnectionSettings(
            connectionString, connectTimeout: Limits.connectTimeout, statementTimeout: statementTimeout,
            deadlineMargin: Limits.statementDeadlineMargin, idleTransactionTimeout: idleTransactionTimeout,
            lockWait: Limits.lockWait, schema: schema, pooling: pooling)
    }

    /// Settings for `connectionString` by the other keys of `[database]`.
    /// - Parameter statementTimeout: in place of the configured one.
    static func settings(
        _ connectionString: String, by database: Configuration.Database, statementTimeout: Duration? = nil
    ) throws(ConnectionStringError) -> ConnectionSettings {
        try settings(
            connectionString, statementTimeout: statementTimeout ?? database.statementTimeout, schema: database.schema,
            pooling: database.pooling == .transaction ? .transaction : .session)
    }

    /// The text of `[database] url`; nil for the private cluster, and except under `.serve` for an unreadable secret.
    static func url(_ configuration: Configuration) -> String? { configuration.database.url?.text }

    /// The settings for a command: the configured database, or the private cluster of the running daemon.
    /// - Parameter statementTimeout: in place of the configured one.
    static func forCommand(
        _ configuration: Configuration, statementTimeout: Duration? = nil
    ) throws -> ConnectionSettings {
        let target: String
        if let url = url(configuration) {
            target = url
        } else if !configuration.database.usesPrivateCluster {
            throw OperatorError.unreadableSecret(of: "[database] url")
        } else if let running = PrivateCluster.connectionString(ofRunning: configuration.embedded.directory) {
            target = running
        } else {
            // One that was moved does not run again.
            try EmbeddedLedger.refuseIfMoved(configuration.embedded.directory)
            throw OperatorError(
                """
                the private cluster in \(configuration.embedded.directory) does not run, or this user may not look \
                into it; start the daemon (systemctl start posthouse), or run this as root or as its user
                """, code: Exit.unavailable)
        }
        return try settings(target, by: configuration.database, statementTimeout: statementTimeout)
    }

    /// The error about an error of the database, with what to do about it.
    /// - Parameter path: the path of the configuration file.
    static func unreachable(_ error: DatabaseError, _ configuration: Configuration, _ path: String) -> OperatorError {
        guard error.isConnectionLevel else {
            return OperatorError(
                "\(error); see what is short, or holds what it waits for (pg_locks, pg_stat_activity)",
                code: Exit.unavailable)
        }
        if configuration.database.usesPrivateCluster {
            return OperatorError(
                "\(error); \(DatabaseFindings.remedy(privateCluster: configuration.embedded.directory))",
                code: Exit.unavailable)
        }
        let hint = peerHint("runuser -u posthouse -- posthouse …")
        return OperatorError(
            "\(error); see that PostgreSQL runs and that [database] url of \(path) is right\(hint)",
            code: Exit.unavailable)
    }

    /// A hint for root, whom peer authentication, Debian's default for PostgreSQL, does not let in. Empty for other
    /// users.
    static func peerHint(_ line: String) -> String {
        guard geteuid() == 0 else { return "" }
        return "; with peer authentication run this as the daemon's own user: "
            + line
    }

    /// Runs `body` with a pool of one connection.
    /// - Parameter durability: refuses a server that may forget what it commits, as the daemon does; nil: any server
    ///   will do.
    static func withPool<Value>(
        _ settings: ConnectionSettings, requiring durability: Configuration.Database.Durability? = nil,
        _ body: (Pool) async throws -> Value
    ) async throws -> Value {
        // The pool would try again, and report at last that the database is out of reach.
        if let durability { try await requireDurability(settings, isDeclared: durability == .declared) }
        let pool = Pool(
            settings, size: 1, waiting: Pool.Waiting(waitersMax: 8, limit: settings.openingTimeout),
            backoff: Limits.reconnectBackoff,
            admission: { connection async throws(DatabaseError) in
                guard let durability else { return nil }
                return try await Durability.problem(with: connection, isDeclared: durability == .declared)
            })
        pool.start()
        do {
            let value = try await body(pool)
            await pool.close()
            return value
        } catch {
            await pool.close()
            throw error
        }
    }

    private static func requireDurability(_ settings: ConnectionSettings, isDeclared: Bool) async throws {
        let connection = try await Connection.open(settings)
        let refusal = try await connection.withSession { session throws(DatabaseError) in
            try serverProblem(on: session, isDeclared)
        }
        await connection.close()
        if let refusal { throw refusal }
    }

    /// Checks what is before the database and its durability settings, and migrates its schema. `serve` and `migrate`
    /// do this first.
    /// - Parameters:
    ///   - direct: where a session of one's own can be had; the schema is migrated there.
    ///   - isDeclared: as for `Durability.unsafeServer`.
    ///   - admit: called before anything is changed; what it throws refuses the database.
    ///   - onWait: as for `Migrator.migrate`.
    static func prepare(
        _ settings: ConnectionSettings, direct: DirectConnection = .sameAsOthers, isDeclared: Bool = false,
        admit: @Sendable (ConnectionSettings) async throws -> Void = { _ in },
        onWait: @Sendable (MigrationError) -> Void = { _ in }
    ) async throws -> (from: Int, to: Int) {
        if settings.pooling == .session, try await PoolerProbe.findsPooler(settings) {
            throw OperatorError("\(Durability.Refusal.pooled)")
        }
        try await admit(settings)
        switch direct {
        case .sameAsOthers: return try await migrate(settings, isDeclared, onWait)
        case .none:
            let newest = try await requireSchema(settings, isDeclared, otherwise: DirectConnection.missing)
            return (newest, newest)
        case .by(let own):
            if try await PoolerProbe.findsPooler(own) { throw OperatorError(DirectConnection.pooled) }
            let migrated = try await migrate(own, isDeclared, onWait)
            _ = try await requireSchema(settings, isDeclared, otherwise: DirectConnection.elsewhere)
            return migrated
        }
    }

    /// Requires an up-to-date schema, without changing it.
    /// - Parameter problem: where it is not.
    /// - Returns: its version.
    private static func requireSchema(
        _ settings: ConnectionSettings, _ isDeclared: Bool, otherwise problem: String
    ) async throws -> Int {
        let connection = try await Connection.open(settings)
        let outcome = try await connection.withSession { session throws(DatabaseError) in
            if let problem = try Self.serverProblem(on: session, isDeclared) {
                return Result<Bool, OperatorError>.failure(problem)
            }
            return try Migrator.isUpToDate(on: session).mapError { OperatorError("\($0)") }
        }
        await connection.close()
        guard try outcome.get() else { throw OperatorError(problem) }
        return Migrator.newest
    }

    /// Why a server must not be used. One that takes no changes is as good as none: later there may be another.
    private static func serverProblem(
        on session: borrowing Session, _ isDeclared: Bool
    ) throws(DatabaseError) -> OperatorError? {
        let refusal = try Durability.unsafeServer(on: session, isDeclared: isDeclared)
        if case .readOnly = refusal { throw .connectFailed(reason: "\(Durability.Refusal.readOnly)") }
        return refusal.map { OperatorError("\($0)") }
    }

    private static func migrate(
        _ settings: ConnectionSettings, _ isDeclared: Bool, _ onWait: @Sendable (MigrationError) -> Void
    ) async throws -> (from: Int, to: Int) {
        let connection = try await Connection.open(settings)
        let refusal = try await connection.withSession { session throws(DatabaseError) in
            try serverProblem(on: session, isDeclared)
        }
        if let refusal { throw refusal }
        let outcome = try await Migrator.migrate(on: connection, onWait: onWait)
        await connection.close()
        // No fault of the migration, which may succeed with the next connection.
        if case .failure(.failed(_, _, let error)) = outcome, error.isTemporary { throw error }
        return try outcome.mapError { OperatorError("\($0)") }.get()
    }

    /// Builds and drops the indexes that migrations leave for later; on a large ledger it takes minutes.
    static func migrateIndexes(_ settings: ConnectionSettings) async throws -> IndexMigration.Outcome {
        // Closed with its last reference, however this ends.
        let connection = try await Connection.open(settings, thread: "indexes")
        return try await connection.withSession { session throws(DatabaseError) in
            try IndexMigration.run(on: session)
        }
    }
}
