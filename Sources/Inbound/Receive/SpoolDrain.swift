package import Spool
package import Vocabulary

/// Records what waits in the spool as soon as the database answers, in order, and removes each file behind its COMMIT.
///
/// What cannot be recorded now stays, and is tried again with what comes later; of a source that none of its webhooks
/// could be recorded of, no more is tried in the same pass. Webhooks of a source that is not configured wait until it
/// is.
package struct SpoolDrain: Sendable {
    private let spool: Spool
    private let mayRecord: @Sendable () -> Bool
    private let now: @Sendable () -> Timestamp
    /// Of the current configuration; a reload replaces it.
    private let ingest = Replaceable<Ingest?>(nil)

    /// - Parameters:
    ///   - mayRecord: whether the database is reachable, as far as it is known.
    ///   - now: this machine's wall clock.
    package init(spool: Spool, mayRecord: @escaping @Sendable () -> Bool, now: @escaping @Sendable () -> Timestamp) {
        self.spool = spool
        self.mayRecord = mayRecord
        self.now = now
    }

    package func adopt(_ next: Ingest) { ingest.replace(next) }

    /// Runs until it is cancelled, or the spool is closed.
    package func run() async {
        await withTaskGroup { group in
            group.addTask {
                while (try? await Task.sleep(for: Limits.spoolAdoptionInterval)) != nil { await spool.look() }
            }
            var pause = Limits.spoolRetry.lowerBound
            for await _ in spool.arrivals {
                while spool.figures.webhooks > 0, (try? await Task.sleep(for: pause)) != nil {
                    guard mayRecord(), let ingest = ingest.current else { continue }
                    let isProgress = await pass(by: ingest)
                    pause = isProgress ? Limits.spoolRetry.lowerBound : min(pause * 2, Limits.spoolRetry.upperBound)
                }
                pause = Limits.spoolRetry.lowerBound
            }
            group.cancelAll()
        }
    }

    /// Tries each file once.
    /// - Returns: whether anything was recorded.
    private func pass(by ingest: Ingest) async -> Bool {
        let began = now()
        var rest = await spool.files()[...]
        var (oldest, isProgress) = (Timestamp?.none, false)
        /// Sources that nothing can be recorded of now.
        var resting: Set<String> = []
        while let (batch, passed) = Self.batch(of: &rest, where: { ingest.serves($0) && !resting.contains($0) }),
            !Task.isCancelled
        {
            oldest = oldest ?? passed.first?.writtenAt
            let webhooks = await spool.read(batch)
            let stored = await record(webhooks.map(\.webhook), by: ingest)
            let committed = zip(webhooks, stored).filter { $0.1 }.map { $0.0.file }
            if !committed.isEmpty, await spool.remove(committed) { isProgress = true }
            let left = zip(webhooks, stored).filter { !$0.1 }.map { $0.0.file }
            oldest = oldest ?? left.first?.writtenAt
            resting.formUnion(Set(left.map(\.name.source)).subtracting(committed.map(\.name.source)))
        }
        spool.oldest(is: oldest ?? rest.first?.writtenAt ?? began)
        return isProgress
    }

    /// The next files to try, bounded by number and bytes, and those before and between them that are not tried.
    /// - Returns: nil: there are none.
    static func batch(
        of rest: inout ArraySlice<SpoolFile>, where isTried: (_ source: String) -> Bool
    ) -> (batch: [SpoolFile], passed: [SpoolFile])? {
        guard !rest.isEmpty else { return nil }
        var (batch, passed, bytes) = ([SpoolFile](), [SpoolFile](), 0)
        while let file = rest.first, batch.count < Limits.spoolDrainWebhooksMax {
            if isTried(file.name.source) {
                if !batch.isEmpty, bytes + file.sizeBytes > Limits.spoolDrainBytesMax { break }
                batch.append(file)
                bytes += file.sizeBytes
            } else {
                passed.append(file)
            }
            rest.removeFirst()
        }
        return (batch, passed)
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
