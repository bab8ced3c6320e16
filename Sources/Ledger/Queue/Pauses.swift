package import Postgres
import Vocabulary

/// Pausing by hand; 410 pauses through `Queue.settle`. Daemons follow within a poll.
package enum Pauses {
    package enum Change: Sendable {
        case changed
        case unchanged
        case unknown(known: [String])
    }

    static let names = Statement<(), (Int32, String)>(
        "pauses_names", "SELECT id, name FROM integrations ORDER BY name")

    package static func set(_ name: String, isPaused: Bool, in pool: Pool) async throws -> Change {
        try await pool.withSession { session throws(DatabaseError) in
            let known = try session.run(names, ())
            guard let row = known.first(where: { $0.1 == name })?.0 else { return .unknown(known: known.map(\.1)) }
            let changed =
                isPaused
                ? try session.run(QueueStatements.pause, (row, "paused by hand"))
                : try session.run(QueueStatements.resume, name)
            _ = try session.execute(RecordStatements.notify, "")
            return changed.isEmpty ? .unchanged : .changed
        }
    }
}
