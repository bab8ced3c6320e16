import Synchronization

/// Limits concurrent look-ups, so that many webhooks and requests to the API do not take the connections that
/// recording, the lease and deliveries need. The rest waits in turn. A daemon has one, over all reloads: look-ups of
/// before a reload still have their connections.
package final class LookupGate: Sendable {
    /// Each kind has limits of its own, so that slow look-ups of one do not hold up the other in a pool of four or
    /// more.
    package enum Caller: Sendable {
        case webhook
        /// To the API.
        case request
    }

    /// Why nothing was looked up.
    package enum Refusal: Error, Hashable, CustomStringConvertible {
        case tooManyWait
        case tooLate

        package var description: String {
            switch self {
            case .tooManyWait: "too many wait for that already"
            case .tooLate: "it waited too long for its turn"
            }
        }
    }

    /// Look-ups of each kind in progress at once, one connection each.
    private static let ofEachMax = 2
    /// Callers of each kind that wait for their turn; further ones are refused.
    private static let waitingMax = 256

    private struct Waiter {
        let caller: Caller
        let isLate: @Sendable () -> Bool
        let continuation: CheckedContinuation<Refusal?, Never>
    }

    private struct State {
        var free: Int
        var inside: [Caller: Int] = [:]
        var waiters: [Waiter] = []

        func hasRoom(for caller: Caller) -> Bool { free > 0 && inside[caller, default: 0] < LookupGate.ofEachMax }

        mutating func begin(_ caller: Caller) {
            free -= 1
            inside[caller, default: 0] += 1
        }

        mutating func end(_ caller: Caller) {
            free += 1
            inside[caller, default: 0] -= 1
        }

        /// Removes those that are too late.
        mutating func takeLate() -> [Waiter] {
            var (late, others): ([Waiter], [Waiter]) = ([], [])
            for waiter in waiters { if waiter.isLate() { late.append(waiter) } else { others.append(waiter) } }
            waiters = others
            return late
        }

        /// Removes the first that may begin, which begins.
        mutating func beginNext() -> Waiter? {
            guard let index = waiters.firstIndex(where: { hasRoom(for: $0.caller) }) else { return nil }
            let next = waiters.remove(at: index)
            begin(next.caller)
            return next
        }
    }

    private let state: Mutex<State>

    /// Leaves at least one connection to others, except in a pool of one.
    /// - Parameter connections: of the pool that all look-ups share with all else.
    package init(ofConnections connections: Int = .max) {
        state = Mutex(State(free: max(1, min(2 * Self.ofEachMax, connections - 1))))
    }

    /// Callers that wait for their turn. Read by tests.
    var waiting: Int { state.withLock { $0.waiters.count } }

    /// Waits for a turn.
    /// - Parameters:
    ///   - alwaysWaits: it waits however many others do.
    ///   - isLate: a turn is not taken any more. Called from any thread; must not block.
    /// - Returns: nil: it is its turn, and `leave` must follow, once.
    package func enter(
        _ caller: Caller, alwaysWaits: Bool = false, isLate: @escaping @Sendable () -> Bool
    ) async -> Refusal? {
        await withCheckedContinuation { continuation in
            let (isAnswered, refusal) = state.withLock { state -> (Bool, Refusal?) in
                if state.hasRoom(for: caller) {
                    state.begin(caller)
                    return (true, nil)
                }
                if !alwaysWaits, state.waiters.count(where: { $0.caller == caller }) >= Self.waitingMax {
                    return (true, .tooManyWait)
                }
                state.waiters.append(Waiter(caller: caller, isLate: isLate, continuation: continuation))
                return (false, nil)
            }
            if isAnswered { continuation.resume(returning: refusal) }
        }
    }

    /// Passes the turn to the first waiter that may have it.
    package func leave(_ caller: Caller) {
        let (late, next) = state.withLock { state -> ([Waiter], Waiter?) in
            state.end(caller)
            return (state.takeLate(), state.beginNext())
        }
        for waiter in late { waiter.continuation.resume(returning: .tooLate) }
        next?.continuation.resume(returning: nil)
    }
}
