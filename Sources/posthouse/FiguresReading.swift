import Ledger
import Postgres
import Synchronization
import Vocabulary

/// Reads the queue's figures for /metrics. No page waits longer for them than a scrape may take, because a page without
/// figures is more use to a monitor than no page. A database that hangs holds one reading, not one for each scrape.
final class FiguresReading: Sendable {
    /// Well below Prometheus' scrape_timeout, which is 10 s by default.
    private static let patience: Duration = .seconds(2)

    private let pool: Pool
    private let underWay = Mutex<Task<[QueueFigures]?, Never>?>(nil)

    init(pool: Pool) { self.pool = pool }

    /// nil: the database failed, or did not answer in time.
    var figures: [QueueFigures]? {
        get async { await Patience.value(of: reading(), within: Self.patience) ?? nil }
    }

    /// The reading that is under way, or a new one.
    private func reading() -> Task<[QueueFigures]?, Never> {
        underWay.withLock { underWay in
            if let underWay { return underWay }
            let reading = Task {
                let figures = try? await QueueFigures.read(from: pool)
                self.underWay.withLock { $0 = nil }
                return figures
            }
            underWay = reading
            return reading
        }
    }
}
