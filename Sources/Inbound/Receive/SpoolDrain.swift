package import Spool
internal import Vocabulary

/// Records what waits in the spool as soon as the database answers, in order, and removes each file behind its COMMIT.
///
/// What cannot be recorded now stays, and is tried again with what comes later (`SpoolPass`). Webhooks of a source that
/// is not configured wait until it is.
package struct SpoolDrain: Sendable {
    private let mayRecord: @Sendable () -> Bool
    /// Of the current configuration; a reload replaces it.
    private let ingest = Replaceable<Ingest?>(nil)

    /// - Parameter mayRecord: whether the database is reachable, as far as it is known.
    package init(mayRecord: @escaping @Sendable () -> Bool) { self.mayRecord = mayRecord }

    package func adopt(_ next: Ingest) { ingest.replace(next) }

    /// Runs until it is cancelled, or the spool is closed.
    package func run(_ spool: Spool) async {
        await withTaskGroup { group in
            group.addTask { await spool.keepLooking() }
            var pause = Limits.spoolRetry.lowerBound
            var resumesAfter: [String: SpoolFile] = [:]
            for await _ in spool.arrivals {
                while spool.figures.webhooks > 0, (try? await Task.sleep(for: pause)) != nil {
                    guard mayRecord() else { continue }
                    let isProgress = await pass(over: spool, after: &resumesAfter)
                    pause = isProgress ? Limits.spoolRetry.lowerBound : min(pause * 2, Limits.spoolRetry.upperBound)
                }
                pause = Limits.spoolRetry.lowerBound
            }
            group.cancelAll()
        }
    }

    /// Tries files, each at most once. A pass over a full spool takes long: each batch is recorded by the configuration
    /// of its time.
    /// - Parameter after: of the pass before, and for the next one.
    /// - Returns: whether anything was recorded.
    private func pass(over spool: Spool, after resumesAfter: inout [String: SpoolFile]) async -> Bool {
        var pass = SpoolPass(await spool.files(), after: resumesAfter)
        defer { resumesAfter = pass.resumesAfter }
        var isProgress = false
        while !Task.isCancelled, let ingest = ingest.current {
            let batch = pass.next(serves: ingest.serves)
            if batch.isEmpty { break }
            let webhooks = await spool.read(batch)
            let stored = await record(webhooks.map(\.webhook), by: ingest)
            let committed = zip(webhooks, stored).filter { $0.1 }.map { $0.0.file }
            if !committed.isEmpty, await spool.remove(committed) { isProgress = true }
            pass.tried(batch, committed: committed)
        }
        return isProgress
    }

    /// - Returns: of each, whether it is committed.
    private func record(_ webhooks: [SpooledWebhook], by ingest: Ingest) async -> [Bool] {
        guard !webhooks.isEmpty else { return [] }
        let (outcomes, outcome) = AsyncStream<(index: Int, isCommitted: Bool)>.makeStream()
        // In order: the queue keeps the order of a purchase's webhooks.
        for (index, webhook) in webhooks.enumerated() {
            ingest.record(webhook) { outcome.yield((index, $0)) }
        }
        var stored = [Bool](repeating: false, count: webhooks.count)
        var left = webhooks.count
        for await (index, isCommitted) in outcomes {
            stored[index] = isCommitted
            left -= 1
            if left == 0 { break }
        }
        return stored
    }
}
