import Ledger
import Postgres
import Synchronization
import Vocabulary

/// Reads the queue's figures for /metrics. No page waits longer for them than a scrape may take: a page shows what was
/// read before instead, because counting a long queue takes longer. A database that hangs holds one reading, not one
/// for each scrape.
final class FiguresReader: Sendable {
    /// Well below Prometheus' scrape_timeout, which is 10 s by default.
    private static let timeout: Duration = .seconds(2)
    /// How long what was read is shown without a newer reading: as long as Prometheus itself shows a sample (its
    /// look-back).
    private static let ageMax: Duration = .seconds(300)

    private struct State {
        var latest: [QueueFigures]?
        var readAt: ContinuousClock.Instant?
        var underWay: Task<Void, Never>?
        /// No reading begins before it.
        var restsUntil: ContinuousClock.Instant?
    }

    private let pool: Pool
    private let state = Mutex(State())

    init(pool: Pool) { self.pool = pool }

    /// What was read last; nil: nothing was for five minutes.
    var figures: [QueueFigures]? {
        get async {
            if let reading = reading(at: .now) { _ = await TimeLimit.value(of: reading, within: Self.timeout) }
            let now = ContinuousClock.Instant.now
            return state.withLock { state in
                guard let readAt = state.readAt, now < readAt + Self.ageMax else { return nil }
                return state.latest
            }
        }
    }

    /// The reading that is under way, or a new one; nil: the last one took long, and none begins yet.
    private func reading(at now: ContinuousClock.Instant) -> Task<Void, Never>? {
        state.withLock { state in
            if let underWay = state.underWay { return underWay }
            if let restsUntil = state.restsUntil, now < restsUntil { return nil }
            let reading = Task { [pool] in
                let figures = try? await QueueFigures.read(from: pool)
                let end = ContinuousClock.Instant.now
                self.state.withLock { state in
                    if let figures {
                        state.latest = figures
                        state.readAt = end
                    }
                    state.underWay = nil
                    // A long reading rests for as long as it took: others need the connection, too.
                    state.restsUntil = end - now > Self.timeout ? end + (end - now) : nil
                }
            }
            state.underWay = reading
            return reading
        }
    }
}
