import Synchronization

/// The state of a connection that other threads may read, even while the connection's thread is stuck.
final class ConnectionMonitor: Sendable {
    private struct State {
        var endReason: String?
        var deadline: ContinuousClock.Instant?
    }

    private let state = Mutex(State())

    /// Why the connection is dead; nil while it is alive.
    var endReason: String? { state.withLock { $0.endReason } }

    /// End of the current wait for the server; nil while no call runs. A thread that still waits much later is stuck.
    var deadline: ContinuousClock.Instant? { state.withLock { $0.deadline } }

    func end(_ reason: String) { state.withLock { $0.endReason = $0.endReason ?? reason } }

    func starts(deadline: ContinuousClock.Instant) { state.withLock { $0.deadline = deadline } }

    /// Another wait of the call that runs.
    func waits(until deadline: ContinuousClock.Instant) {
        state.withLock { if $0.deadline != nil { $0.deadline = deadline } }
    }

    func rests() { state.withLock { $0.deadline = nil } }
}
