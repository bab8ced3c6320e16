package import Ledger
import Synchronization
package import Vocabulary

/// Attempts that have ended, on their way into the ledger in wide batches.
///
/// Nobody waits for a settle, so it may be a few milliseconds late; but it must arrive. A settle that the database does
/// not answer is tried again until it does, and shutting down waits for it. A batch that the database refuses is
/// written in parts, until what it refuses stands alone; that is kept aside and tried again beside the others, without
/// end. Until it is written a delivery is leased to this daemon, so the worst that a crash does here is one more
/// attempt under the same `webhook-id`.
package final class SettlementBuffer: Sendable {
    package typealias Settle = @Sendable ([Settlement]) async throws(SettleFailure) -> Settled

    /// What an operator must know of settlements that the database refuses.
    package enum News: Sendable, Equatable {
        /// The first is kept aside. What follows while there is one is no news.
        case refused(reason: String)
        /// None is kept aside any more.
        case allSettled
        /// The daemon stops, and these could not be recorded to the last: their attempts will be made again.
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
        /// Taken out and not yet written.
        var writing = 0
        /// Kept aside, the one that was tried last at the end.
        var refused: [Settlement] = []
        /// Taken out of `refused` to be tried again.
        var retrying = 0
        var isClosed = false
        var sleepers: [CheckedContinuation<Void, Never>] = []

        var refusedCount: Int { refused.count + retrying }
        var depth: Int { pending.count + writing + refusedCount }
    }

    private let state = Mutex(State())

    package init() {}

    /// Whether another attempt may begin: its end must find room here.
    package var hasRoom: Bool {
        state.withLock { $0.depth < Limits.settleBufferMax && $0.refusedCount < Limits.settleRefusedMax }
    }

    package var depth: Int { state.withLock { $0.depth } }

    package func append(_ settlement: Settlement) {
        let sleeper = state.withLock { state in
            state.pending.append(settlement)
            return state.sleepers.popLast()
        }
        sleeper?.resume()
    }

    /// Ends `run` once everything is written, or was refused once more.
    package func close() {
        let sleepers = state.withLock { state in
            state.isClosed = true
            defer { state.sleepers = [] }
            return state.sleepers
        }
        for sleeper in sleepers { sleeper.resume() }
    }

    /// Writes batches until closed and empty; `Limits.settleWriters` at once.
    ///
    /// - Parameter settled: called after each batch that was written.
    package func run(
        settle: @escaping Settle, settled: @escaping @Sendable (Settled) async -> Void,
        news: @escaping @Sendable (News) -> Void = { _ in }
    ) async {
        let retrying = Task { await retryRefused(settle: settle, settled: settled, news: news) }
        await withTaskCancellationHandler {
            await withTaskGroup { group in
                for _ in 0..<Limits.settleWriters {
                    group.addTask { [self] in
                        while let batch = await next() {
                            let writing = SettlingInParts(settle: settle, settled: settled)
                            let (refused, reason) = await writing.write(batch)
                            let isFirst = state.withLock { state in
                                let isFirst = state.refusedCount == 0
                                state.writing -= batch.count
                                state.refused += refused
                                return isFirst
                            }
                            if isFirst, let reason { news(.refused(reason: reason)) }
                        }
                    }
                }
            }
            // The writers have ended: what is kept aside is all that is left.
            retrying.cancel()
            await retrying.value
            await lastTry(settle: settle, settled: settled, news: news)
        } onCancel: {
            retrying.cancel()
        }
    }

    // MARK: What is refused

    /// Tries what is kept aside again and again, with a growing pause for as long as nothing of it is taken.
    private func retryRefused(
        settle: @escaping Settle, settled: @escaping @Sendable (Settled) async -> Void,
        news: @escaping @Sendable (News) -> Void
    ) async {
        var pause = Limits.reconnectBackoff.lowerBound
        var dueAt = ContinuousClock.now
        while (try? await Task.sleep(for: Limits.settleRefusedTick)) != nil {
            guard ContinuousClock.now >= dueAt, let batch = takeRefused() else { continue }
            let (refused, _) = await SettlingInParts(settle: settle, settled: settled).write(batch)
            if giveBack(refused, of: batch) { news(.allSettled) }
            pause =
                refused.count < batch.count
                ? Limits.reconnectBackoff.lowerBound : min(pause * 2, Limits.reconnectBackoff.upperBound)
            dueAt = .now + pause
        }
    }

    /// All of it once more before the daemon ends.
    private func lastTry(
        settle: @escaping Settle, settled: @escaping @Sendable (Settled) async -> Void,
        news: @escaping @Sendable (News) -> Void
    ) async {
        let count = state.withLock { $0.refused.count }
        guard count > 0 else { return }
        for _ in 0...(count / Limits.settleBatchMax) {
            guard !Task.isCancelled, let batch = takeRefused() else { break }
            let (refused, _) = await SettlingInParts(settle: settle, settled: settled).write(batch)
            _ = giveBack(refused, of: batch)
        }
        let left = state.withLock { $0.refused.count }
        news(left == 0 ? .allSettled : .left(left))
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
    private func giveBack(_ refused: [Settlement], of batch: [Settlement]) -> Bool {
        state.withLock { state in
            state.retrying = 0
            state.refused += refused
            return state.refused.isEmpty
        }
    }

    // MARK: What is pending

    private func next() async -> [Settlement]? {
        while true {
            let isReady: Bool? = state.withLock { state in
                if !state.pending.isEmpty { return true }
                return state.isClosed ? false : nil
            }
            switch isReady {
            case false: return nil
            case true:
                // Late and wide: what ends meanwhile goes along. A full batch waits no longer.
                if state.withLock({ $0.pending.count < Limits.settleBatchMax && !$0.isClosed }) {
                    try? await Task.sleep(for: Limits.settleDelay)
                }
                let batch = take()
                if !batch.isEmpty { return batch }
            default: await sleep()
            }
        }
    }

    private func take() -> [Settlement] {
        state.withLock { state in
            let batch = Array(state.pending.prefix(Limits.settleBatchMax))
            state.pending.removeFirst(batch.count)
            state.writing += batch.count
            return batch
        }
    }

    private func sleep() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let isReady = state.withLock { state in
                if !state.pending.isEmpty || state.isClosed { return true }
                state.sleepers.append(continuation)
                return false
            }
            if isReady { continuation.resume() }
        }
    }
}
