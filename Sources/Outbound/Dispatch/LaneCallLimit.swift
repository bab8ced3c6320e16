import NIOCore
import Synchronization
import Vocabulary

/// Bounds the calls to the database that the lanes of this daemon make at once; the others wait in turn.
///
/// Lanes share the pool of connections with recording and with the renewal of the lease. Without the bound a thousand
/// lanes that all call at once would fill the pool's queue, and webhooks would be refused.
final class LaneCallLimit: Sendable {
    private struct State {
        var free: Int
        var waiters = CircularBuffer<CheckedContinuation<Void, Never>>()
    }

    private let state: Mutex<State>

    /// - Parameter atOnce: at least 1.
    init(atOnce: Int = Limits.laneCallsMax) { state = Mutex(State(free: atOnce)) }

    /// Callers that wait for their turn. Read by tests.
    var waiting: Int { state.withLock { $0.waiters.count } }

    /// Returns when the caller's turn has come; `end` must follow, once.
    func begin() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let isFree = state.withLock { state in
                if state.free > 0 {
                    state.free -= 1
                    return true
                }
                state.waiters.append(continuation)
                return false
            }
            if isFree { continuation.resume() }
        }
    }

    func end() {
        let next = state.withLock { state in
            let next = state.waiters.popFirst()
            if next == nil { state.free += 1 }
            return next
        }
        next?.resume()
    }
}
