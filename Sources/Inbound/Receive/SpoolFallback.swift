package import Spool
internal import Synchronization
internal import Vocabulary

/// Decides which webhooks of spooling sources go to the spool: those that the ledger refuses, those that it has not
/// committed after `Limits.spoolTimeout`, and at once all that come while it is known to take none.
package final class SpoolFallback: Sendable {
    /// Writes a webhook into the spool, with the reason.
    typealias Keep = @Sendable (_ cause: String) -> Void

    private struct Watched {
        let until: ContinuousClock.Instant
        let keep: Keep
        /// It waits for the ledger; until then it is asked about.
        var isGiven = false
    }

    private struct State {
        var watched: [UInt64: Watched] = [:]
        var newest: UInt64 = 0
        /// The ledger left a webhook without an answer a moment ago, and has committed none since.
        var isSilentUntil: ContinuousClock.Instant?
    }

    private let opening: SpoolOpening
    private let isReachable: @Sendable () -> Bool
    private let state = Mutex(State())
    private let (entered, enter) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    private static let silentReason = "the database does not answer in time"
    private static let askingReason = "it could not be asked about in time"

    /// - Parameters:
    ///   - opening: while its spool is away, webhooks are answered as without one.
    ///   - isReachable: whether the database is, as far as it is known.
    package init(_ opening: SpoolOpening, isReachable: @escaping @Sendable () -> Bool) {
        self.opening = opening
        self.isReachable = isReachable
    }

    package convenience init(spool: Spool, isReachable: @escaping @Sendable () -> Bool) {
        self.init(SpoolOpening(spool), isReachable: isReachable)
    }

    var spool: Spool? { opening.current }

    /// Why the ledger would not take a webhook that came now; nil: it may take it. After a silence one is tried again
    /// now and then, whatever waits in the spool.
    var problem: String? {
        guard isReachable() else { return "the database is out of reach" }
        let isSilent = state.withLock { state in
            guard let until = state.isSilentUntil else { return false }
            if ContinuousClock.Instant.now < until { return true }
            state.isSilentUntil = nil
            return false
        }
        return isSilent ? Self.silentReason : nil
    }

    /// Watches a webhook; unless it is committed or removed before, `keep` is called then.
    /// - Returns: the ticket that stands for it.
    func watch(until: ContinuousClock.Instant, _ keep: @escaping Keep) -> UInt64 {
        let (ticket, isFirst) = state.withLock { state in
            state.newest += 1
            state.watched[state.newest] = Watched(until: until, keep: keep)
            return (state.newest, state.watched.count == 1)
        }
        if isFirst { enter.yield() }
        return ticket
    }

    /// Notes that the ledger has the webhook. If it is late from here on, the database is silent; before that, only its
    /// store's API is slow.
    func given(_ ticket: UInt64) {
        state.withLock { state in
            if let index = state.watched.index(forKey: ticket) { state.watched.values[index].isGiven = true }
        }
    }

    /// The ledger has committed a webhook: this one, or (nil) one from the spool.
    func committed(_ ticket: UInt64?) {
        state.withLock { state in
            if let ticket { state.watched[ticket] = nil }
            state.isSilentUntil = nil
        }
    }

    /// - Returns: false: the webhook is in the spool already, or committed.
    func remove(_ ticket: UInt64) -> Bool { state.withLock { $0.watched.removeValue(forKey: ticket) != nil } }

    /// Keeps those whose time is over.
    func expire(at now: ContinuousClock.Instant) {
        let late = state.withLock { state in
            let late = state.watched.filter { $0.value.until <= now }
            for ticket in late.keys { state.watched[ticket] = nil }
            if late.values.contains(where: \.isGiven) { state.isSilentUntil = now + Limits.spoolTimeout }
            return late
        }
        for (_, entry) in late.sorted(by: { $0.key < $1.key }) {
            entry.keep(entry.isGiven ? Self.silentReason : Self.askingReason)
        }
    }

    /// Watches the time while anything is watched; ends when it is cancelled.
    package func run() async {
        for await _ in entered {
            while state.withLock({ !$0.watched.isEmpty }), (try? await Task.sleep(for: Limits.spoolTick)) != nil {
                expire(at: .now)
            }
        }
    }
}
