import Synchronization

/// Background tasks that fail for a reason that is not logged while it is short: since when they have, and whether that
/// was logged.
final class LastingFailures: Sendable {
    private struct Failure {
        var since: ContinuousClock.Instant
        var last: ContinuousClock.Instant
        var isReported = false
    }

    /// By the text that names the task.
    private let tasks = Mutex<[String: Failure]>([:])

    /// The task failed. A failure that comes long after the one before begins anew: not every task is tried again by
    /// itself. Long is ten times `grace`, because one try may last longer than that, up to `statement_timeout`.
    /// - Parameter grace: how long it may fail before that is reported.
    /// - Returns: whether to report it now: once, until it has succeeded.
    func failed(_ task: String, grace: Duration, at time: ContinuousClock.Instant) -> Bool {
        tasks.withLock { tasks in
            var failure = tasks[task] ?? Failure(since: time, last: time)
            if !failure.isReported, time - failure.last > grace * 10 { failure.since = time }
            failure.last = time
            let isDue = !failure.isReported && time - failure.since >= grace
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
