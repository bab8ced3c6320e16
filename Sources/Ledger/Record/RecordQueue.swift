import Synchronization
package import Vocabulary

/// Events and bodies that wait to be recorded, with the completion that answers each. Bounded in number and bytes; it
/// has a lock and no timer.
///
/// Each writer has a share of its own: all events of a purchase are in one share, so that two concurrent batches never
/// wait for each other's purchases, and those of one purchase are recorded in order of arrival.
package final class RecordQueue: Sendable {
    /// Something authentic that must be stored before it is acknowledged.
    package enum Item: Sendable {
        case event(Event)
        case quarantine(QuarantinedBody)

        var bytes: Int {
            switch self {
            case .event(let event): event.body.count + (event.decoded?.count ?? 0) + (event.answer?.count ?? 0)
            case .quarantine(let quarantined): quarantined.body.count + (quarantined.answer?.count ?? 0)
            }
        }

        /// The same for all events of a purchase.
        fileprivate func share(of shares: Int) -> Int {
            guard case .event(let event) = self, let purchase = event.purchase else { return 0 }
            var hasher = Hasher()
            hasher.combine(purchase.key)
            return Int(UInt(bitPattern: hasher.finalize()) % UInt(shares))
        }
    }

    /// The answer for the source.
    package enum Answer: Sendable {
        /// Committed, now or before: 200.
        case stored
        /// Not stored: it is conditional (`HolderChange.claim`, `.register`, `Event.presumedAsOf`), and its condition
        /// does not hold; or it does not fit any more what is known of its tokens (`Event.tokens`).
        case conditionFailed
        /// Not known to be stored: 503, the source tries again.
        case unavailable
    }

    package typealias Completion = @Sendable (Answer) -> Void

    /// For a submitter that keeps elsewhere what cannot be stored now, or reports by itself that it refuses it: nothing
    /// is refused to its source then.
    package struct Fallback: Sendable {
        /// Called when the item is committed, before anything that the answer waits for besides.
        package let committed: @Sendable () -> Void
        /// Called instead of the completion's `unavailable`, with the reason; nothing is observed of it.
        package let unavailable: @Sendable (_ reason: String) -> Void

        package init(
            committed: @escaping @Sendable () -> Void, unavailable: @escaping @Sendable (_ reason: String) -> Void
        ) {
            self.committed = committed
            self.unavailable = unavailable
        }
    }

    /// The one who submitted an item, and waits for its answer.
    struct Submitter: Sendable {
        let completion: Completion
        let fallback: Fallback?
        /// From then on the server has answered it 503, and has reported that.
        let answeredAt: ContinuousClock.Instant

        /// Answers an item that was not stored. `observe` reports that its source was refused, if it was by this.
        func answerUnavailable(_ reason: String, at now: ContinuousClock.Instant = .now, observe: () -> Void = {}) {
            if let fallback { return fallback.unavailable(reason) }
            completion(.unavailable)
            if now < answeredAt { observe() }
        }
    }

    struct Pending: Sendable {
        var item: Item
        var enqueued: ContinuousClock.Instant
        /// When the first byte of its request arrived.
        var startedAt: ContinuousClock.Instant
        var submitter: Submitter
    }

    /// Why an item is not taken.
    package static let fullReason = "too many webhooks wait to be stored"
    /// The same, while a daemon that serves stops.
    package static let stoppingReason = "this daemon is stopping"

    /// The entries that wait for one writer, and the writer while it waits.
    private struct Share {
        var pending: [Pending] = []
        var sleeper: CheckedContinuation<Void, Never>?
    }

    private struct State {
        var shares: [Share]
        var count = 0
        var bytes = 0
        /// Why it takes nothing any more; nil: it is open.
        var closed: String?
    }

    private let state: Mutex<State>
    let writers: Int
    private let eventsMax: Int
    private let bytesMax: Int

    package init(
        eventsMax: Int = Limits.recordQueueEventsMax, bytesMax: Int = Limits.recordQueueBytesMax,
        writers: Int = Limits.recordWriters
    ) {
        state = Mutex(State(shares: [Share](repeating: Share(), count: writers)))
        self.writers = writers
        self.eventsMax = eventsMax
        self.bytesMax = bytesMax
    }

    /// Adds an item; `completion` is called once, from any thread. If the queue is full or closed, it is called at
    /// once.
    /// - Parameters:
    ///   - startedAt: when the first byte of the request arrived; nil: now.
    ///   - fallback: nil: what cannot be stored is refused.
    /// - Returns: why it is not taken; nil: it is.
    @discardableResult
    package func submit(
        _ item: Item, startedAt: ContinuousClock.Instant? = nil, fallback: Fallback? = nil,
        completion: @escaping Completion
    ) -> String? {
        let now = ContinuousClock.Instant.now
        let startedAt = startedAt ?? now
        let submitter = Submitter(
            completion: completion, fallback: fallback, answeredAt: startedAt + Limits.acknowledgementTimeout)
        let share = item.share(of: writers)
        let sleeper: CheckedContinuation<Void, Never>?
        let problem: String?
        (problem, sleeper) = state.withLock { state in
            if let reason = state.closed { return (reason, nil) }
            guard state.count < eventsMax, state.bytes + item.bytes <= bytesMax else { return (Self.fullReason, nil) }
            state.shares[share].pending.append(
                Pending(item: item, enqueued: now, startedAt: startedAt, submitter: submitter))
            state.count += 1
            state.bytes += item.bytes
            return (nil, state.shares[share].sleeper.take())
        }
        if let problem { submitter.answerUnavailable(problem) }
        sleeper?.resume()
        return problem
    }

    /// The next batch of one writer, in order of arrival: everything that waits, up to `limit`. Waits for the first
    /// item; nil once the queue is closed and the share is empty. There is no timer: an idle writer commits at once, a
    /// busy one finds its batch waiting. One caller for each writer.
    func next(for writer: Int, upTo limit: Int) async -> [Pending]? {
        while true {
            let taken: [Pending]? = state.withLock { state in
                if state.shares[writer].pending.isEmpty { return state.closed != nil ? [] : nil }
                let batch: [Pending]
                if state.shares[writer].pending.count <= limit {
                    batch = state.shares[writer].pending
                    state.shares[writer].pending = []
                } else {
                    batch = Array(state.shares[writer].pending.prefix(limit))
                    state.shares[writer].pending.removeFirst(limit)
                }
                state.count -= batch.count
                for pending in batch { state.bytes -= pending.item.bytes }
                return batch
            }
            if let taken { return taken.isEmpty ? nil : taken }
            await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
                let isReady = state.withLock { state in
                    if !state.shares[writer].pending.isEmpty || state.closed != nil { return true }
                    state.shares[writer].sleeper = continuation
                    return false
                }
                if isReady { continuation.resume() }
            }
        }
    }

    /// Stops accepting; what waits is still recorded.
    /// - Parameter reason: why nothing is taken any more, for the journal.
    package func close(because reason: String = RecordQueue.stoppingReason) {
        let sleepers = state.withLock { state in
            state.closed = reason
            return state.shares.indices.compactMap { state.shares[$0].sleeper.take() }
        }
        for sleeper in sleepers { sleeper.resume() }
    }

    package var depth: Int { state.withLock { $0.count } }
}
