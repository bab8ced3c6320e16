import Synchronization
package import Vocabulary

/// Figures of recording, for /metrics. One addition for each batch.
package final class RecordFigures: Sendable {
    package struct Snapshot: Sendable {
        /// Milliseconds from the first statement of a batch's transaction to the end of its COMMIT.
        package var commits = Histogram(bounds: [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 8_000])
        /// Events of a batch.
        package var batches = Histogram(bounds: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000])

        package init() {}
    }

    private let state = Mutex(Snapshot())

    package init() {}

    package var snapshot: Snapshot { state.withLock { $0 } }

    func add(events: Int, took duration: Duration) {
        state.withLock { state in
            state.commits.add(Int(duration.wholeMilliseconds))
            state.batches.add(events)
        }
    }
}
