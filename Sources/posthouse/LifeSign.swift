import HTTPServer
import Synchronization

/// What `/healthz` says of this process: what its own check found last (`SelfCheck`). Without systemd nothing else
/// restarts a daemon that hangs; a container's liveness probe asks for this page.
final class LifeSign: Sendable {
    static let ofThisProcess = LifeSign()

    /// A check that has not come back for so long hangs itself.
    private static let patience: Duration = .seconds(30)

    private struct State {
        var trouble: String?
        var checkedAt = ContinuousClock.now
    }

    private let state = Mutex(State())

    /// - Parameter trouble: nil: all is well.
    func note(_ trouble: String?) {
        state.withLock { $0 = State(trouble: trouble, checkedAt: .now) }
    }

    /// Of `/healthz`.
    var answer: HTTPAnswer { trouble.map { .text(503, $0 + "\n") } ?? .text(200, "ok\n") }

    /// What keeps this process from its work; nil: nothing is known of.
    private var trouble: String? {
        state.withLock { state in
            let isLate = ContinuousClock.now > state.checkedAt + Self.patience
            return state.trouble ?? (isLate ? "the daemon has not checked itself for \(Self.patience)" : nil)
        }
    }
}
