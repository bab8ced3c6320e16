import Synchronization

/// Waits for what cannot be cancelled, such as an answer of the database.
enum TimeLimit {
    /// The value of a task that ends within `limit`; nil: it runs on. A caller that is cancelled waits all the same.
    static func value<Value: Sendable>(of task: Task<Value, Never>, within limit: Duration) async -> Value? {
        await answer(within: limit) { give in Task { give(await task.value) } }
    }

    /// What `ask` gives within `limit`; nil: nothing. Only the first counts.
    static func answer<Value: Sendable>(
        within limit: Duration, _ ask: (_ give: @escaping @Sendable (Value) -> Void) -> Void
    ) async -> Value? {
        await withCheckedContinuation { continuation in
            let answer = Answer(continuation)
            let timeout = Task {
                try await Task.sleep(for: limit)
                answer.give(nil)
            }
            ask { value in
                answer.give(value)
                timeout.cancel()
            }
        }
    }

    /// Given once; what comes after it is dropped.
    private final class Answer<Value: Sendable>: Sendable {
        private let waiting: Mutex<CheckedContinuation<Value?, Never>?>

        init(_ continuation: CheckedContinuation<Value?, Never>) { waiting = Mutex(continuation) }

        func give(_ value: Value?) {
            let continuation = waiting.withLock { waiting in
                defer { waiting = nil }
                return waiting
            }
            continuation?.resume(returning: value)
        }
    }
}
