package import Postgres
import Vocabulary

/// Notifications from other daemons and commands that something is due. One may be lost: the poll finds the rest.
package struct WakeUps: Sendable {
    /// The longest wait before the connection is checked again.
    private static let roundLimit: Duration = .seconds(20)

    private let settings: @Sendable () -> ConnectionSettings?

    /// - Parameter settings: of a connection with a session of its own, asked for each connection anew; nil: there is
    ///   none, so that the poll (`Limits.pollInterval`) finds everything.
    package init(settings: @autoclosure @escaping @Sendable () -> ConnectionSettings?) { self.settings = settings }

    /// Listens on a connection of its own until the task is cancelled.
    package func run(wakeUp: @escaping @Sendable () async -> Void) async {
        while !Task.isCancelled {
            do {
                guard let settings = settings() else {
                    // A reload may name one.
                    try await Task.sleep(for: Self.roundLimit)
                    continue
                }
                let connection = try await Connection.open(settings)
                try await withTaskCancellationHandler {
                    try await connection.withSession { session throws(DatabaseError) in
                        try session.script("LISTEN posthouse_deliveries")
                    }
                    while !Task.isCancelled {
                        let hasArrived = try await connection.withSession { session throws(DatabaseError) in
                            try session.waitForNotification(upTo: Self.roundLimit)
                        }
                        if hasArrived { await wakeUp() }
                    }
                } onCancel: {
                    connection.interrupt()
                }
                await connection.close()
            } catch {
                // The pool logs that the database is out of reach; here it is only waited for.
                try? await Task.sleep(for: Limits.reconnectBackoff.upperBound)
            }
        }
    }
}
