import HTTPServer
import Synchronization
import Systemd

/// What this process's check of itself (`SelfCheck`) found last, for whoever restarts a daemon that hangs: systemd by
/// its watchdog, a container's liveness probe by `/healthz`.
final class LifeSign: Sendable {
    static let ofThisProcess = LifeSign()

    /// A check that has not come back for so long hangs itself.
    private static let patience: Duration = .seconds(30)

    private struct State {
        var trouble: String?
        var checkedAt = ContinuousClock.now
    }

    private let state = Mutex(State())

    /// Feeds the watchdog if all is well.
    /// - Parameter trouble: nil: all is well.
    func report(_ trouble: String?) {
        if trouble == nil { _ = Notify.watchdog() }
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
