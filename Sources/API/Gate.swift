internal import Ledger
internal import Synchronization
internal import Vocabulary

/// Limits concurrent look-ups and lets the rest wait in turn, so that many requests do not take the connections that
/// recording needs. A request that finds the queue full, or that waits longer than its answer may take, is answered
/// 503. A daemon has one, over all reloads: look-ups of before a reload still have their connections.
package final class Gate: Sendable {
    private struct Waiter {
        let since: ContinuousClock.Instant
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct State {
        var free: Int
        var waiters: [Waiter] = []
    }

    private let state: Mutex<State>
    private let waitingMax: Int
    private let patience: Duration

    /// - Parameter connections: of the pool that look-ups use.
    package convenience init(ofConnections connections: Int) {
        self.init(lookupsMax: APILimits.lookups(ofConnections: connections), waitingMax: APILimits.waitingMax)
    }

    /// - Parameter patience: how long an answer is awaited.
    init(lookupsMax: Int, waitingMax: Int, patience: Duration = APILimits.answerTimeout) {
        state = Mutex(State(free: max(1, lookupsMax)))
        self.waitingMax = waitingMax
        self.patience = patience
    }

    /// Waits for a turn, then runs `body`.
    func pass<Value: Sendable>(
        _ body: () async throws(LookupFailure) -> Value
    ) async throws(APIFailure) -> Value {
        guard await enter() else { throw .busy }
        defer { leave() }
        do throws(LookupFailure) {
            return try await body()
        } catch {
            var failure = APIFailure.databaseAway
            failure.cause = "\(error)"
            throw failure
        }
    }

    private func enter() async -> Bool {
        await withCheckedContinuation { continuation in
            let answer: Bool? = state.withLock { state in
                if state.free > 0 {
                    state.free -= 1
                    return true
                }
                guard state.waiters.count < waitingMax else { return false }
                state.waiters.append(Waiter(since: .now, continuation: continuation))
                return nil
            }
            if let answer { continuation.resume(returning: answer) }
        }
    }

    /// Passes the turn to the first waiter whose answer is still awaited.
    private func leave() {
        let tooOld = ContinuousClock.Instant.now - patience
        let (late, next) = state.withLock { state -> ([Waiter], Waiter?) in
            let late = Array(state.waiters.prefix { $0.since < tooOld })
            state.waiters.removeFirst(late.count)
            guard !state.waiters.isEmpty else {
                state.free += 1
                return (late, nil)
            }
            return (late, state.waiters.removeFirst())
        }
        for waiter in late { waiter.continuation.resume(returning: false) }
        next?.continuation.resume(returning: true)
    }
}
