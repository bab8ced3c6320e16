package import Postgres

/// Whether all who write to a ledger take the same advisory locks. Their keys follow the schema as it is configured
/// (`Session.lockKey`), and one schema can be named by `[database] schema` or found by the role's own search path.
/// Beside a daemon that does the other, neither would wait for the other, and access could be wrong.
package enum SharedLocks {
    /// Living daemons that take other locks.
    static let others = Statement<Int64, Int64>(
        "shared_locks_others", "SELECT count(*) FROM daemons WHERE lock_salt <> $1 AND expires_at > now()")
    /// The same for a command, which may find the ledger of an older version.
    static let othersOfAny = Statement<Int64, Int64>(
        "shared_locks_others_of_any",
        """
        SELECT count(*) FROM daemons d
        WHERE (to_jsonb(d) ->> 'lock_salt')::bigint <> $1 AND expires_at > now()
        """)

    /// Key of the advisory lock by which daemons register in turns: "register" as bytes. The same in all schemas.
    private static let registerKey: Int64 = 0x7265_6769_7374_6572

    /// Makes the registrations of others wait until the current transaction has ended.
    /// - Returns: whether no living daemon takes other locks.
    static func mayRegister(on session: borrowing Session) throws(DatabaseError) -> Bool {
        _ = try session.run(Upkeep.lockStatement, registerKey)
        return try session.run(others, session.lockSalt).first == 0
    }

    /// Throws where a living daemon takes other locks.
    package static func require(in pool: Pool) async throws {
        let others = try await pool.withSession { session throws(DatabaseError) in
            guard try session.run(Migrator.exists, ()).first == true else { return Int64(0) }
            return try session.run(othersOfAny, session.lockSalt).first ?? 0
        }
        if others > 0 { throw Mismatch() }
    }

    package struct Mismatch: Error, CustomStringConvertible {
        package var description: String {
            """
            a daemon that runs on this ledger finds its schema otherwise: one has [database] schema, the other the \
            role's search_path, and neither would wait for the other's locks; let all daemons and commands have the \
            same [database] schema, and stop every daemon before you change it
            """
        }
    }
}
