import HTTPServer
import Synchronization
import Systemd

/// What this process's check of itself (`SelfCheck`) found last, for whoever restarts a daemon that hangs: systemd by
/// its watchdog, a container's liveness probe by `/healthz`.
final class ProcessHealth: Sendable {
    static let ofThisProcess = ProcessHealth()

    /// A check that has not come back for so long hangs itself.
    private static let timeout: Duration = .seconds(30)

    private struct State {
        var problem: String?
        var checkedAt = ContinuousClock.now
    }

    private let state = Mutex(State())

    /// Feeds the watchdog if all is well.
    /// - Parameter problem: nil: all is well.
    func report(_ problem: String?) {
        if problem == nil { _ = Notify.watchdog() }
        state.withLock { $0 = State(problem: problem, checkedAt: .now) }
    }

    /// Of `/healthz`.
    var answer: HTTPAnswer { problem.map { .text(503, $0 + "\n") } ?? .text(200, "ok\n") }

    /// What keeps this process from its work; nil: nothing is known of.
    private var problem: String? {
        state.withLock { state in
            let isLate = ContinuousClock.now > state.checkedAt + Self.timeout
            return state.problem ?? (isLate ? "the daemon has not checked itself for \(Self.timeout)" : nil)
        }
    }
}
