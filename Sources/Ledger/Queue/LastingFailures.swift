import Synchronization

/// Background tasks that fail for a reason that is not logged while it is short: since when they have, and whether that
/// was logged.
final class LastingFailures: Sendable {
    private struct Failure {
        let since: ContinuousClock.Instant
        var isReported = false
    }

    /// By the text that names the task.
    private let tasks = Mutex<[String: Failure]>([:])

    /// The task failed.
    /// - Parameter patience: how long it may fail before that is reported.
    /// - Returns: whether to report it now: once, until it has succeeded.
    func failed(_ task: String, patience: Duration, at time: ContinuousClock.Instant) -> Bool {
        tasks.withLock { tasks in
            var failure = tasks[task] ?? Failure(since: time)
            let isDue = !failure.isReported && time - failure.since >= patience
            if isDue { failure.isReported = true }
            tasks[task] = failure
            return isDue
        }
    }

    /// The task succeeded.
    /// - Returns: whether its failure was reported.
    func succeeded(_ task: String) -> Bool {
        tasks.withLock { tasks in tasks.removeValue(forKey: task)?.isReported ?? false }
    }
}
