import Ledger
import Postgres
import Synchronization
import Vocabulary

/// Counts the overdue purchases for /metrics and `status`, at most once a minute, because many can be overdue. A page
/// does not wait long for it: until it is done, the page shows what was counted before.
final class OverdueReader: Sendable {
    private static let timeout: Duration = .seconds(1)
    private static let interval: Duration = .seconds(60)

    private struct State {
        var leeways = Leeways([])
        var latest: [OverdueFigures]?
        var countedAt: ContinuousClock.Instant?
        var underWay: Task<Void, Never>?
    }

    private let pool: Pool
    private let limit: Duration?
    private let state = Mutex(State())

    /// - Parameters:
    ///   - pool: not the page's, where that has one connection: the count may take long.
    ///   - limit: of a count; nil: none.
    init(pool: Pool, limit: Duration? = nil) {
        self.pool = pool
        self.limit = limit
    }

    /// From now on it counts by these.
    func adopt(_ leeways: Leeways) {
        state.withLock { state in
            state.leeways = leeways
            state.countedAt = nil
        }
    }

    /// Nil: nothing was counted yet, or the last count failed.
    var figures: [OverdueFigures]? {
        get async {
            if let counting = counting(at: .now) { _ = await TimeLimit.value(of: counting, within: Self.timeout) }
            return state.withLock { $0.latest }
        }
    }

    /// The count that is under way, or a new one; nil: the last is young enough.
    private func counting(at now: ContinuousClock.Instant) -> Task<Void, Never>? {
        state.withLock { state in
            if let underWay = state.underWay { return underWay }
            if let countedAt = state.countedAt, now < countedAt + Self.interval { return nil }
            state.countedAt = now
            let counting = Task { [pool, limit, leeways = state.leeways] in
                let figures = (try? await OverdueFigures.read(leeways: leeways, from: pool, within: limit)) ?? nil
                self.state.withLock { state in
                    state.latest = figures
                    state.underWay = nil
                }
            }
            state.underWay = counting
            return counting
        }
    }
}
