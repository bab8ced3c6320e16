import Synchronization

/// The state of a connection that other threads may read, even while the connection's thread is stuck.
final class ConnectionMonitor: Sendable {
    private struct State {
        var endReason: String?
        var activity: ConnectionActivity?
    }

    private let state = Mutex(State())

    /// Why the connection is dead; nil while it is alive.
    var endReason: String? { state.withLock { $0.endReason } }

    var activity: ConnectionActivity? { state.withLock { $0.activity } }

    func end(_ reason: String) { state.withLock { $0.endReason = $0.endReason ?? reason } }

    func starts(deadline: ContinuousClock.Instant) {
        state.withLock { $0.activity = ConnectionActivity(since: .now, deadline: deadline) }
    }

    func waits(until deadline: ContinuousClock.Instant) { state.withLock { $0.activity?.deadline = deadline } }

    func rests() { state.withLock { $0.activity = nil } }
}

/// The call that a connection's thread is running, for the watchdog.
package struct ConnectionActivity: Hashable, Sendable {
    /// Start of the call.
    package let since: ContinuousClock.Instant
    /// End of the current wait for the server: a thread that is still waiting much later is stuck.
    package internal(set) var deadline: ContinuousClock.Instant
}
