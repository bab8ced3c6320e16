package import Postgres
import Vocabulary

/// Finds a pooler that gives a server session to other clients between transactions (PgBouncer's `pool_mode =
/// transaction` or `statement`): prepared statements and settings of a session would be others' there.
package enum PoolerProbe {
    /// How often the first connection looks for its mark: where sessions go round, it may get its own again.
    private static let looks = 4

    /// Marks the session of one connection, and looks for the mark from another connection and from the first again. Of
    /// a session of one's own, the first alone sees it, always.
    /// - Returns: false also if there is no room for a second connection.
    package static func findsPooler(_ settings: ConnectionSettings) async throws(DatabaseError) -> Bool {
        let mark = Identifier.random().hex
        // Closed with their last references, however this ends.
        let first = try await Connection.open(settings)
        try await first.withSession { session throws(DatabaseError) in
            try session.script("SET posthouse.probe = '\(mark)'")
        }
        guard let second = try? await Connection.open(settings) else { return false }
        if try await sees(mark, from: second) { return true }
        for _ in 0..<looks where try await !sees(mark, from: first) { return true }
        return false
    }

    /// Nothing is prepared for it, because that would meet what other clients have prepared.
    private static func sees(_ mark: String, from connection: Connection) async throws(DatabaseError) -> Bool {
        try await connection.withSession { session throws(DatabaseError) in
            do throws(DatabaseError) {
                try session.script(
                    "SELECT 1 / (coalesce(current_setting('posthouse.probe', true), '') <> '\(mark)')::integer")
                return false
            } catch {
                guard case .refused(let refusal) = error, refusal.sqlState == "22012" else { throw error }
                return true
            }
        }
    }
}
