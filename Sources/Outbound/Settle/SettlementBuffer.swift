package import Ledger
import Synchronization
package import Vocabulary

/// Attempts that have ended, on their way into the ledger in wide batches.
///
/// Nobody waits for a settle, so it may be a few milliseconds late; but it must arrive: a settle that fails is tried
/// again until the database answers, and shutting down waits for it. Until it is written the delivery is leased to this
/// daemon, so the worst that a crash does here is one more attempt under the same `webhook-id`.
package final class SettlementBuffer: Sendable {
    private struct State {
        var pending: [Settlement] = []
        /// Taken out and not yet written.
        var writing = 0
        var isClosed = false
        var sleepers: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    package init() {}

    /// Whether another attempt may begin: its end must find room here.
    package var hasRoom: Bool { state.withLock { $0.pending.count + $0.writing < Limits.settleBufferMax } }

    package var depth: Int { state.withLock { $0.pending.count + $0.writing } }

    package func append(_ settlement: Settlement) {
        let sleeper = state.withLock { state in
            state.pending.append(settlement)
            return state.sleepers.popLast()
        }
        sleeper?.resume()
    }

    /// Ends `run` once everything is written.
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
        settle: @escaping @Sendable ([Settlement]) async throws -> Settled,
        settled: @escaping @Sendable (Settled) async -> Void
    ) async {
        await withTaskGroup { group in
            for _ in 0..<Limits.settleWriters {
                group.addTask { [self] in
                    while let batch = await next() {
                        let outcome = await write(batch, settle: settle)
                        state.withLock { $0.writing -= batch.count }
                        if let outcome { await settled(outcome) }
                    }
                }
            }
        }
    }

    private func write(
        _ batch: [Settlement], settle: @escaping @Sendable ([Settlement]) async throws -> Settled
    ) async -> Settled? {
        var pause = Limits.reconnectBackoff.lowerBound
        while true {
            do {
                return try await settle(batch)
            } catch {
                // Cancelled only when the process is about to end without the database: the lease will run out.
                if Task.isCancelled { return nil }
                try? await Task.sleep(for: pause)
                pause = min(pause * 2, Limits.reconnectBackoff.upperBound)
            }
        }
    }

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
