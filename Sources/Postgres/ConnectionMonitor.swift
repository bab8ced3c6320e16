import Synchronization

/// What may be asked of a connection from outside its thread, even while that thread is stuck.
final class ConnectionMonitor: Sendable {
    private struct State {
        var endReason: String?
        var activity: ConnectionActivity?
    }

    private let state = Mutex(State())

    /// Why the connection is dead; nil while it lives.
    var endReason: String? { state.withLock { $0.endReason } }

    var activity: ConnectionActivity? { state.withLock { $0.activity } }

    func end(_ reason: String) { state.withLock { $0.endReason = $0.endReason ?? reason } }

    func starts(deadline: ContinuousClock.Instant) {
        state.withLock { $0.activity = ConnectionActivity(since: .now, deadline: deadline) }
    }

    func waits(until deadline: ContinuousClock.Instant) { state.withLock { $0.activity?.deadline = deadline } }

    func rests() { state.withLock { $0.activity = nil } }
}

/// What a connection's thread is at, for the watchdog.
package struct ConnectionActivity: Hashable, Sendable {
    /// When the call began.
    package let since: ContinuousClock.Instant
    /// When its present wait for the server ends by itself: a thread that is still in it much later is stuck.
    package internal(set) var deadline: ContinuousClock.Instant
}
