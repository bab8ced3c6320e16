internal import Synchronization

/// Limits concurrent look-ups in the ledger and lets the rest wait in turn, so that many webhooks do not take the
/// connections that recording, the lease and deliveries need.
final class LookupGate: Sendable {
    /// Why nothing was looked up.
    enum Refusal: Error, Hashable, CustomStringConvertible {
        case tooManyWait
        case tooLate

        var description: String {
            switch self {
            case .tooManyWait: "\(AskLimits.lookupsWaitingMax) webhooks wait for that already"
            case .tooLate: "it waited too long for its turn"
            }
        }
    }

    private struct Waiter {
        /// On the clock of `pass`.
        let end: Duration
        let continuation: CheckedContinuation<Refusal?, Never>
    }

    private struct State {
        var free: Int
        var waiters: [Waiter] = []
    }

    private let state: Mutex<State>

    /// - Parameter lookupsMax: in progress at once, one connection each; at least one is.
    init(lookupsMax: Int = AskLimits.lookupsMax) { state = Mutex(State(free: max(1, lookupsMax))) }

    /// Waits for a turn, then runs `body`.
    /// - Parameters:
    ///   - isFirst: it is the first look-up of its webhook, which is refused if too many wait. A further one follows
    ///     an answer of the API and waits in any case; `AskLimits.eventsMax` bounds their number.
    ///   - end: a turn that comes later is not taken.
    ///   - clock: the same for all callers.
    /// - Throws: `Refusal`, or what `body` throws.
    func pass<Value: Sendable>(
        isFirst: Bool, until end: Duration, on clock: AskClock, _ body: () async throws -> Value
    ) async throws -> Value {
        if let refusal = await enter(isFirst, until: end) { throw refusal }
        defer { leave(at: clock.elapsed()) }
        return try await body()
    }

    /// - Returns: nil: it is its turn.
    private func enter(_ isFirst: Bool, until end: Duration) async -> Refusal? {
        await withCheckedContinuation { continuation in
            let (isAnswered, refusal) = state.withLock { state -> (Bool, Refusal?) in
                if state.free > 0 {
                    state.free -= 1
                    return (true, nil)
                }
                if isFirst, state.waiters.count >= AskLimits.lookupsWaitingMax { return (true, .tooManyWait) }
                state.waiters.append(Waiter(end: end, continuation: continuation))
                return (false, nil)
            }
            if isAnswered { continuation.resume(returning: refusal) }
        }
    }

    /// Passes the turn to the first waiter that is not too late.
    private func leave(at now: Duration) {
        let (late, next) = state.withLock { state -> ([Waiter], Waiter?) in
            let late = Array(state.waiters.prefix { $0.end <= now })
            state.waiters.removeFirst(late.count)
            guard !state.waiters.isEmpty else {
                state.free += 1
                return (late, nil)
            }
            return (late, state.waiters.removeFirst())
        }
        for waiter in late { waiter.continuation.resume(returning: .tooLate) }
        next?.continuation.resume(returning: nil)
    }
}
