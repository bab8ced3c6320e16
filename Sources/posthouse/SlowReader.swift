import Ledger
import Postgres
import Synchronization

/// Reads what may take long, for a page that waits a short time only: until a reading is done, the page shows what was
/// read before. A database that hangs holds one reading, not one for each page.
final class SlowReader<Value: Sendable>: Sendable {
    private struct State {
        var read: @Sendable () async -> Value?
        var latest: Value?
        var readAt: ContinuousClock.Instant?
        var underWay: Task<Void, Never>?
        /// No reading begins before it.
        var restsUntil: ContinuousClock.Instant?
    }

    private let timeout: Duration
    private let interval: Duration
    private let ageMax: Duration?
    private let state: Mutex<State>

    /// - Parameters:
    ///   - timeout: how long a page waits for a reading.
    ///   - interval: from the begin of a reading to that of the next one, at least.
    ///   - ageMax: how long a value is shown while no reading succeeds; nil: until one fails.
    ///   - read: nil where it fails.
    init(
        timeout: Duration, interval: Duration = .zero, ageMax: Duration? = nil,
        read: @escaping @Sendable () async -> Value?
    ) {
        self.timeout = timeout
        self.interval = interval
        self.ageMax = ageMax
        state = Mutex(State(read: read))
    }

    /// Replaces how it reads. The next reading begins without a pause.
    func adopt(_ read: @escaping @Sendable () async -> Value?) {
        state.withLock { state in
            state.read = read
            state.restsUntil = nil
        }
    }

    /// What was read last; nil: nothing, or too long ago, or the last reading failed.
    var value: Value? {
        get async {
            if let reading = reading(at: .now) { _ = await TimeLimit.value(of: reading, within: timeout) }
            let now = ContinuousClock.Instant.now
            return state.withLock { state in
                if let ageMax, let readAt = state.readAt, now >= readAt + ageMax { return nil }
                return state.latest
            }
        }
    }

    /// The reading that is under way, or a new one; nil: none begins yet.
    private func reading(at now: ContinuousClock.Instant) -> Task<Void, Never>? {
        state.withLock { state in
            if let underWay = state.underWay { return underWay }
            if let restsUntil = state.restsUntil, now < restsUntil { return nil }
            state.restsUntil = now + interval
            let reading = Task { [read = state.read] in
                let value = await read()
                self.finish(value, begunAt: now)
            }
            state.underWay = reading
            return reading
        }
    }

    private func finish(_ value: Value?, begunAt begin: ContinuousClock.Instant) {
        let end = ContinuousClock.Instant.now
        state.withLock { state in
            state.underWay = nil
            if let value {
                state.latest = value
                state.readAt = end
            } else if ageMax == nil {
                state.latest = nil
            }
            // A long reading rests for as long as it took: others need the connection, too.
            if end - begin > timeout, let restsUntil = state.restsUntil {
                state.restsUntil = max(restsUntil, end + (end - begin))
            }
        }
    }
}

extension SlowReader<[QueueFigures]> {
    /// Reads the queue's figures for /metrics, because counting a long queue takes longer than a scrape may.
    static func figures(of pool: Pool) -> SlowReader<[QueueFigures]> {
        // Well below Prometheus' scrape_timeout, which is 10 s by default; shown for as long as Prometheus itself shows
        // a sample (its look-back).
        SlowReader(timeout: .seconds(2), ageMax: .seconds(300)) { try? await QueueFigures.read(from: pool) }
    }
}

extension SlowReader<[OverdueFigures]> {
    /// Counts the overdue purchases for /metrics and `status`, at most once a minute, because many can be overdue.
    static func overdue() -> SlowReader<[OverdueFigures]> {
        SlowReader(timeout: .seconds(1), interval: .seconds(60)) { nil }
    }

    /// Replaces the leeways and the pool by which it counts.
    /// - Parameters:
    ///   - pool: not the page's, where that has one connection: the count may take long.
    ///   - limit: of a count; nil: none.
    func adopt(_ leeways: Leeways, in pool: Pool, within limit: Duration? = nil) {
        adopt { try? await OverdueFigures.read(leeways: leeways, from: pool, within: limit) }
    }
}
