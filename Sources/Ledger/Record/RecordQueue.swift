import Synchronization
package import Vocabulary

/// What waits to be recorded, and how each answer finds its way back. Bounded in number and bytes; a lock, no clock.
package final class RecordQueue: Sendable {
    /// Something authentic that must be stored before it is acknowledged.
    package enum Item: Sendable {
        case event(Event)
        case quarantine(QuarantinedBody)

        var bytes: Int {
            switch self {
            case .event(let event): event.body.count
            case .quarantine(let quarantined): quarantined.body.count
            }
        }
    }

    /// What the source is to be told.
    package enum Answer: Sendable {
        /// Committed, now or before: 200.
        case stored
        /// Nothing is known to be stored: 503, the source tries again.
        case unavailable
    }

    package typealias Completion = @Sendable (Answer) -> Void

    struct Pending: Sendable {
        var item: Item
        var enqueued: ContinuousClock.Instant
        /// When the first byte of its request came.
        var startedAt: ContinuousClock.Instant
        var completion: Completion
    }

    private struct State {
        var pending: [Pending] = []
        var bytes = 0
        var isClosed = false
        var sleepers: [CheckedContinuation<Bool, Never>] = []
    }

    private let state = Mutex(State())
    private let eventsMax: Int
    private let bytesMax: Int

    package init(eventsMax: Int = Limits.recordQueueEventsMax, bytesMax: Int = Limits.recordQueueBytesMax) {
        self.eventsMax = eventsMax
        self.bytesMax = bytesMax
    }

    /// Hands something in; `completion` is called once, from any thread. Full or closed answers at once.
    /// - Parameter startedAt: when the first byte of the request came; nil: now.
    package func submit(
        _ item: Item, startedAt: ContinuousClock.Instant? = nil, completion: @escaping Completion
    ) {
        let now = ContinuousClock.Instant.now
        let sleeper: CheckedContinuation<Bool, Never>?
        let isTaken: Bool
        (isTaken, sleeper) = state.withLock { state in
            guard !state.isClosed, state.pending.count < eventsMax, state.bytes + item.bytes <= bytesMax else {
                return (false, nil)
            }
            state.pending.append(
                Pending(item: item, enqueued: now, startedAt: startedAt ?? now, completion: completion))
            state.bytes += item.bytes
            return (true, state.sleepers.popLast())
        }
        guard isTaken else { return completion(.unavailable) }
        sleeper?.resume(returning: true)
    }

    /// The next batch, in order of arrival: everything that waits, up to `limit`. Waits for the first; nil once the
    /// queue is closed and empty. No timer: an idle relay commits at once, a busy one finds its batch waiting.
    func next(upTo limit: Int) async -> [Pending]? {
        while true {
            let taken: [Pending]? = state.withLock { state in
                if state.pending.isEmpty { return state.isClosed ? [] : nil }
                let batch = Array(state.pending.prefix(limit))
                state.pending.removeFirst(batch.count)
                for pending in batch { state.bytes -= pending.item.bytes }
                return batch
            }
            if let taken { return taken.isEmpty ? nil : taken }
            _ = await withCheckedContinuation { (continuation: CheckedContinuation<Bool, Never>) in
                let isReady = state.withLock { state in
                    if !state.pending.isEmpty || state.isClosed { return true }
                    state.sleepers.append(continuation)
                    return false
                }
                if isReady { continuation.resume(returning: true) }
            }
        }
    }

    /// Nothing more is taken; what waits is still recorded.
    package func close() {
        let sleepers = state.withLock { state in
            state.isClosed = true
            defer { state.sleepers = [] }
            return state.sleepers
        }
        for sleeper in sleepers { sleeper.resume(returning: true) }
    }

    package var depth: Int { state.withLock { $0.pending.count } }
}
