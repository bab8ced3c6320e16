package import Postgres

/// Distinguishes one ledger from another: the time of its first migration, in microseconds. A copy made by pg_dump has
/// the same.
package struct LedgerMark: Sendable, Hashable {
    let madeAt: Int64?

    /// For a file.
    package var text: String { madeAt.map { "\($0)" } ?? "none" }

    static let statement = Statement<(), Int64>(
        "ledger_mark",
        """
        SELECT (extract(epoch FROM applied_at) * 1000000)::bigint FROM schema_migrations ORDER BY version LIMIT 1
        """)
    static let lock = Statement<Int64, Bool>("ledger_mark_lock", "SELECT pg_try_advisory_xact_lock($1)")

    package static func read(from pool: Pool) async throws(DatabaseError) -> LedgerMark {
        try await pool.withSession { session throws(DatabaseError) in try read(on: session) }
    }

    /// Whether a database has the tables of a ledger, be they empty; true, too, where the role may not look into the
    /// schema that the configuration names: the migrator says so.
    package static func isThere(_ settings: ConnectionSettings) async throws(DatabaseError) -> Bool {
        let connection = try await Connection.open(settings)
        let isThere = try await connection.withSession { session throws(DatabaseError) -> Bool in
            if let name = session.schema,
                let (exists, isUsable, _, _) = try session.run(Migrator.schema, name).first, exists, !isUsable
            {
                return true
            }
            return try session.run(Migrator.exists, ()).first == true
        }
        await connection.close()
        return isThere
    }

    private static func read(on session: borrowing Session) throws(DatabaseError) -> LedgerMark {
        LedgerMark(madeAt: try session.run(statement, ()).first)
    }

    /// Tries other settings, which must lead to the ledger that the pool is connected to: half of a daemon in another
    /// ledger would be none in either.
    ///
    /// While the pool has connections, one of them holds a lock that a connection by the other settings must find
    /// taken, for advisory locks are of one database of one running server. Otherwise the mark alone says it.
    ///
    /// Another role must have every privilege that a daemon needs (`MissingPrivilege`). The same role is what it was.
    /// - Parameter isDeclared: as for `Durability.unsafeServer`.
    /// - Returns: why they must not be used; nil if they may.
    package func problem(
        with settings: ConnectionSettings, insteadOf pool: Pool, isDeclared: Bool
    ) async throws(DatabaseError) -> String? {
        if settings.pooling == .session, try await PoolerProbe.findsPooler(settings) {
            return "\(Durability.Refusal.pooled)"
        }
        let former = pool.settings.user
        let connection = try await Connection.open(settings)
        let (refusal, mark) = try await connection.withSession {
            session throws(DatabaseError) -> (String?, LedgerMark?) in
            if let refusal = try Durability.unsafeServer(on: session, isDeclared: isDeclared) {
                return ("\(refusal)", nil)
            }
            // A database without a ledger has no table to read.
            guard try session.run(Migrator.exists, ()).first == true else { return (nil, nil) }
            if settings.user != former, let missing = try session.run(MissingPrivilege.statement, ()).first {
                return (Self.lacking(missing), nil)
            }
            return (nil, try Self.read(on: session))
        }
        await connection.close()
        if let refusal { return refusal }
        guard mark == self else { return Self.otherLedger }
        guard pool.isReachable else { return nil }
        do throws(DatabaseError) {
            let isSame = try await pool.withSession { session throws(DatabaseError) in
                try Self.isSame(session, as: settings)
            }
            return isSame ? nil : Self.otherLedger
        } catch {
            // The pool's connections had ended, which it has only now found out.
            if !pool.isReachable { return nil }
            throw error
        }
    }

    /// Whether other settings lead to the database of a session: advisory locks are of one database of one running
    /// server.
    static func isSame(_ session: borrowing Session, as settings: ConnectionSettings) throws(DatabaseError) -> Bool {
        let key = Int64.random(in: .min ... .max)
        return try session.transaction { session throws(DatabaseError) -> Bool in
            _ = try session.run(lock, key)
            return try session.beside(settings) { other throws(DatabaseError) -> Bool in
                try other.run(lock, key).first == false
            }
        }
    }

    private static func lacking(_ missing: MissingPrivilege) -> String {
        "its role lacks the privilege \(missing.privilege) of \(missing.object); posthouse doctor with that url names "
            + "all that it lacks"
    }
    package static let otherLedger = "it leads to another ledger, which takes a restart"
}
