package import Postgres
import Vocabulary

/// Pauses and resumes by hand; 410 pauses through `Queue.settle`. Daemons apply it within one poll.
package enum Pauses {
    package enum Change: Sendable {
        case changed
        case unchanged
        case unknown
    }

    /// The reason of a pause by hand; every other one is a receiver's answer.
    package static let byHand = "paused by hand"

    static let names = Statement<(), (Int32, String)>(
        "pauses_names", "SELECT id, name FROM integrations ORDER BY name")

    /// Rows of the integrations that are paused.
    package static func paused(in pool: Pool) async throws -> Set<Int32> {
        try await pool.withSession { session throws(DatabaseError) in try paused(on: session) }
    }

    static func paused(on session: borrowing Session) throws(DatabaseError) -> Set<Int32> {
        Set(try session.run(QueueStatements.pauses, ()).map { row, _ in row })
    }

    /// - Parameter routes: integrations that may ask for a message about the pause.
    package static func set(
        _ name: String, isPaused: Bool, routes: [RoutedIntegration], in pool: Pool
    ) async throws -> Change {
        try await pool.withSession { session throws(DatabaseError) in
            let known = try session.run(names, ())
            guard let (row, _) = known.first(where: { _, known in known == name }) else {
                return .unknown
            }
            return try session.transaction { session throws(DatabaseError) in
                let changed =
                    isPaused
                    ? try session.run(QueueStatements.pause, (row, byHand))
                    : try session.run(QueueStatements.resume, name)
                if isPaused, !changed.isEmpty, let route = routes.first(where: { $0.row == row }) {
                    let message = RelayMessage(.paused, of: route, reason: byHand)
                    try RelayMessage.publish([message], routes: routes, on: session)
                }
                _ = try session.execute(RecordStatements.notify, "")
                return changed.isEmpty ? .unchanged : .changed
            }
        }
    }
}
