package import Ledger
import Synchronization
package import Vocabulary

/// Collects attempts that have ended and writes them to the ledger in large batches.
///
/// Nobody waits for a settlement, so it may be a few milliseconds late, but it must arrive. Writing it is tried again
/// until the database answers, and shutting down waits for that. A batch that the database refuses is written in parts,
/// until each refused settlement is alone. Those are kept aside and tried again without end, while others are written.
/// Until its settlement is written, a delivery is leased to this daemon, so the worst that a crash here causes is one
/// more attempt under the same `webhook-id`.
package final class SettlementBuffer: Sendable {
    package typealias Settle = @Sendable ([Settlement]) async throws(SettleFailure) -> Settled

    /// What an operator must know of settlements that the database refuses.
    package enum Report: Sendable, Equatable {
        /// The first one is kept aside. Further ones are not reported while there is one.
        case refused(reason: String)
        /// None is kept aside any more.
        case allSettled
        /// The daemon stops and could not record these: their attempts will be made again.
        case left(Int)

        var explanation: String {
            switch self {
            case .refused(let reason):
                """
                the database refuses to record how an attempt ended; what is refused is kept and tried again: \
                \(reason)
                """
            case .allSettled: "the database has recorded all attempts that it had refused"
            case .left(let count):
                """
                how \(count) attempt\(count == 1 ? "" : "s") ended could not be recorded; the deliveries will be made again
                """
            }
        }
    }

    private struct State {
        var pending: [Settlement] = []
        /// Taken from `pending` and not yet written.
        var writing = 0
        /// Kept aside; the one that was tried last is at the end.
        var refused: [Settlement] = []
        /// Taken from `refused` to be tried again.
        var retrying = 0
        var isClosed = false
        /// A writer waits for further settlements to write along.
        var isGathering = false
        var sleepers: [CheckedContinuation<Void, Never>] = []

        /// What a writer that has nothing to write does.
        enum Next { case end, take, gather, sleep }

        /// A full batch is written at once. Of several writers one gathers: side by side they would share what comes,
        /// in smaller batches.
        var next: Next {
            if isClosed { return pending.isEmpty ? .end : .take }
            if pending.count >= Limits.settleBatchMax { return .take }
            return pending.isEmpty || isGathering ? .sleep : .gather
        }

        var refusedCount: Int { refused.count + retrying }
        var depth: Int { pending.count + writing + refusedCount }
    }

    private let state = Mutex(State())

    package init() {}

    /// Whether another attempt may begin: there must be room for its result.
    package var hasRoom: Bool {
        state.withLock { $0.depth < Limits.settleBufferMax && $0.refusedCount < Limits.settleRefusedMax }
    }

    package var depth: Int { state.withLock { $0.depth } }

    package func append(_ settlement: Settlement) {
        let sleeper = state.withLock { state in
            state.pending.append(settlement)
            return state.next == .sleep ? nil : state.sleepers.popLast()
        }
        sleeper?.resume()
    }

    /// Ends `run` once everything is written or was refused once more.
    package func close() {
        let sleepers = state.withLock { state in
            state.isClosed = true
            defer { state.sleepers = [] }
            return state.sleepers
        }
        for sleeper in sleepers { sleeper.resume() }
    }

    /// Writes batches until the buffer is closed and empty; `Limits.settleWriters` at once.
    ///
    /// - Parameter settled: called after each write.
    package func run(
        settle: @escaping Settle, settled: @escaping @Sendable (Settled) async -> Void,
        report: @escaping @Sendable (Report) -> Void = { _ in }
    ) async {
        let retrying = Task { await retryRefused(settle: settle, settled: settled, report: report) }
        await withTaskCancellationHandler {
            await withTaskGroup { group in
                for _ in 0..<Limits.settleWriters {
                    group.addTask { [self] in
                        while let batch = await next() {
                            let split = SplitSettlement(settle: settle, settled: settled)
                            let (refused, reason) = await split.write(batch)
                            let isFirst = state.withLock { state in
                                let isFirst = state.refusedCount == 0
                                state.writing -= batch.count
                                state.refused += refused
                                return isFirst
                            }
                            if isFirst, let reason { report(.refused(reason: reason)) }
                        }
                    }
                }
            }
            // The writers have ended, so only what is kept aside is left.
            retrying.cancel()
            await retrying.value
            await lastTry(settle: settle, settled: settled, report: report)
        } onCancel: {
            retrying.cancel()
        }
    }

    // MARK: What is refused

    /// Tries again what is kept aside, with a growing pause while none of it is accepted.
    private func retryRefused(
        settle: @escaping Settle, settled: @escaping @Sendable (Settled) async -> Void,
        report: @escaping @Sendable (Report) -> Void
    ) async {
        var pause = Limits.reconnectBackoff.lowerBound
        var dueAt = ContinuousClock.now
        while (try? await Task.sleep(for: Limits.settleRefusedTick)) != nil {
            guard ContinuousClock.now >= dueAt, let batch = takeRefused() else { continue }
            let (refused, _) = await SplitSettlement(settle: settle, settled: settled).write(batch)
            if giveBack(refused) { report(.allSettled) }
            pause =
                refused.count < batch.count
                ? Limits.reconnectBackoff.lowerBound : min(pause * 2, Limits.reconnectBackoff.upperBound)
            dueAt = .now + pause
        }
    }

    /// Tries all that is kept aside once more before the daemon ends.
    private func lastTry(
        settle: @escaping Settle, settled: @escaping @Sendable (Settled) async -> Void,
        report: @escaping @Sendable (Report) -> Void
    ) async {
        let count = state.withLock { $0.refused.count }
        guard count > 0 else { return }
        for _ in 0...(count / Limits.settleBatchMax) {
            guard !Task.isCancelled, let batch = takeRefused() else { break }
            let (refused, _) = await SplitSettlement(settle: settle, settled: settled).write(batch)
            _ = giveBack(refused)
        }
        let left = state.withLock { $0.refused.count }
        report(left == 0 ? .allSettled : .left(left))
    }

    private func takeRefused() -> [Settlement]? {
        state.withLock { state in
            guard !state.refused.isEmpty else { return nil }
            let batch = Array(state.refused.prefix(Limits.settleBatchMax))
            state.refused.removeFirst(batch.count)
            state.retrying = batch.count
            return batch
        }
    }

    /// - Returns: whether nothing is kept aside any more.
    private func giveBack(_ refused: [Settlement]) -> Bool {
        state.withLock { state in
            state.retrying = 0
            state.refused += refused
            return state.refused.isEmpty
        }
    }

    // MARK: What is pending

    private func next() async -> [Settlement]? {
        while true {
            let next = state.withLock { state in
                let next = state.next
                if next == .gather { state.isGathering = true }
                return next
            }
            switch next {
            case .end: return nil
            case .take: break
            case .gather:
                try? await Task.sleep(for: Limits.settleDelay)
                state.withLock { $0.isGathering = false }
            case .sleep:
                await sleep()
                continue
            }
            let batch = take()
            if !batch.isEmpty { return batch }
        }
    }

    private func take() -> [Settlement] {
        let (batch, sleeper) = state.withLock { state in
            let batch = Array(state.pending.prefix(Limits.settleBatchMax))
            state.pending.removeFirst(batch.count)
            state.writing += batch.count
            // What came meanwhile has woken nobody while this one gathered.
            return (batch, state.next == .sleep ? nil : state.sleepers.popLast())
        }
        sleeper?.resume()
        return batch
    }

    private func sleep() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let isReady = state.withLock { state in
                if state.next != .sleep { return true }
                state.sleepers.append(continuation)
                return false
            }
            if isReady { continuation.resume() }
        }
    }
}
