import Postgres
import Synchronization
import Vocabulary

/// Acknowledgements that wait until integrations with `confirm` have accepted what the webhook caused for them.
///
/// Recording opens an entry with the commit, before anything is given to the lanes, and adds the answer that waits. The
/// lanes strike out each delivery as soon as it is accepted or dead. What another daemon delivers, or settles after a
/// restart, is found by reading `deliveries`. The time limit strikes out the rest. None of this delays a batch, and
/// nothing can be lost by it: an early answer says only that the event is stored, and it is.
///
/// A repeated webhook waits along with its first arrival if that still waits in this daemon: its sender lets the app
/// continue once it is answered. Otherwise it is answered at once, because the first has had its time.
package final class Confirmations: Sendable {
    package typealias Answer = @Sendable () -> Void

    private struct Entry {
        /// Deliveries that are not settled, each with the end of its wait.
        var deliveries: [Int64: ContinuousClock.Instant] = [:]
        var answers: [(by: ContinuousClock.Instant, answer: Answer)] = []
    }

    private struct State {
        /// By event key.
        var entries: [Identifier: Entry] = [:]
        var events: [Int64: Identifier] = [:]
    }

    private let state = Mutex(State())
    private let entriesMax: Int
    private let (entered, enter) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
    private let (enteredToo, enterToo) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    init(entriesMax: Int = Limits.confirmationsMax) { self.entriesMax = entriesMax }

    package var count: Int { state.withLock { $0.entries.count } }

    /// Opens the entry of a webhook that was just committed: its deliveries with their integration's `confirm_timeout`.
    /// Beyond `entriesMax` nothing waits.
    func expect(_ deliveries: [Int64: Duration], of event: Identifier, now: ContinuousClock.Instant = .now) {
        let isEntered = state.withLock { state in
            guard !deliveries.isEmpty, state.entries.count < entriesMax else { return false }
            state.entries[event] = Entry(deliveries: deliveries.mapValues { now + $0 })
            for delivery in deliveries.keys { state.events[delivery] = event }
            return true
        }
        guard isEntered else { return }
        enter.yield()
        enterToo.yield()
    }

    /// Answers when no delivery of the event is waited for any more, at `by` at the latest; at once if none is.
    func answer(_ event: Identifier, by: ContinuousClock.Instant, _ answer: @escaping Answer) {
        let waits = state.withLock { state in
            state.entries[event]?.answers.append((by, answer)) != nil
        }
        if !waits { answer() }
    }

    /// Strikes out a delivery that was accepted or is dead.
    package func settled(_ delivery: Int64) {
        let answers = state.withLock { state in Self.strike(out: delivery, in: &state) }
        for answer in answers { answer() }
    }

    private func settled(_ deliveries: [Int64]) {
        let answers = state.withLock { state in
            deliveries.flatMap { Self.strike(out: $0, in: &state) }
        }
        for answer in answers { answer() }
    }

    /// Answers whatever has reached its time limit.
    func expire(at now: ContinuousClock.Instant) {
        let answers = state.withLock { state in
            var answers: [Answer] = []
            for (event, entry) in state.entries {
                for (delivery, until) in entry.deliveries where until <= now {
                    answers += Self.strike(out: delivery, in: &state)
                }
                answers += entry.answers.filter { $0.by <= now && state.entries[event] != nil }.map(\.answer)
                state.entries[event]?.answers.removeAll { $0.by <= now }
            }
            return answers
        }
        for answer in answers { answer() }
    }

    private static func strike(out delivery: Int64, in state: inout State) -> [Answer] {
        guard let event = state.events.removeValue(forKey: delivery) else { return [] }
        state.entries[event]?.deliveries[delivery] = nil
        guard state.entries[event]?.deliveries.isEmpty == true else { return [] }
        return state.entries.removeValue(forKey: event)?.answers.map(\.answer) ?? []
    }

    private var awaited: [Int64] { state.withLock { Array($0.events.keys) } }

    /// Watches the time limits, and looks for what other daemons have settled, while anything waits.
    /// - Parameter unsettled: returns those of the given deliveries that are still to do; nil: unknown.
    package func run(unsettled: @escaping @Sendable ([Int64]) async -> Set<Int64>?) async {
        await withTaskGroup { group in
            group.addTask { [self] in
                await whileAnyWaits(entered, every: Limits.confirmTick) { expire(at: .now) }
            }
            group.addTask { [self] in
                await whileAnyWaits(enteredToo, every: Limits.confirmPoll) {
                    let asked = awaited
                    guard !asked.isEmpty, let left = await unsettled(asked) else { return }
                    settled(asked.filter { !left.contains($0) })
                }
            }
        }
    }

    private func whileAnyWaits(_ signal: AsyncStream<Void>, every interval: Duration, _ body: () async -> Void) async {
        for await _ in signal {
            // Sleep throws only when cancelled; the signal ends then, too.
            while count > 0, (try? await Task.sleep(for: interval)) != nil { await body() }
        }
    }
}

extension Queue {
    /// Returns those of the deliveries that are neither accepted nor dead.
    package func unsettled(_ deliveries: [Int64]) async throws -> Set<Int64> {
        Set(
            try await pool.withSession { session throws(DatabaseError) in
                try session.run(QueueStatements.unsettled, deliveries.sorted())
            })
    }
}
