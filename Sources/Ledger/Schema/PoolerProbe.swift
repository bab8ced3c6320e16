package import Postgres
import Vocabulary

/// Finds a pooler that gives a server session to other clients between transactions (PgBouncer's `pool_mode =
/// transaction` or `statement`): prepared statements and settings of a session would be others' there, and
/// `[database] pooling` has to say so.
package enum PoolerProbe {
    /// Connections that are compared. Several processes of a pooler may take turns behind one address; so many
    /// connections that two of them meet in one process, unless there are more processes.
    private static let connections = 6
    /// How often each connection looks for its mark: where sessions go round, it may get its own again.
    private static let looks = 4

    /// Marks the session of each of several connections, and looks for the marks again. In a session of one's own a
    /// mark stays, always.
    /// - Returns: false also if there is no room for a second connection.
    package static func findsPooler(_ settings: ConnectionSettings) async throws(DatabaseError) -> Bool {
        // Closed with their last references, however this ends.
        var marked = [(try await Connection.open(settings), Identifier.random().hex)]
        await withTaskGroup(of: Connection?.self) { group in
            for _ in 1..<connections { group.addTask { try? await Connection.open(settings) } }
            for await case let connection? in group { marked.append((connection, Identifier.random().hex)) }
        }
        for (connection, mark) in marked {
            try await connection.withSession { session throws(DatabaseError) in
                try session.script("SET posthouse.probe = '\(mark)'")
            }
        }
        for _ in 0..<looks {
            for (connection, mark) in marked where try await !sees(mark, from: connection) { return true }
        }
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
                guard error.sqlState == "22012" else { throw error }
                return true
            }
        }
    }
}
