import Ledger
import NIOCore
import NIOPosix
import Postgres
import Systemd
import Vocabulary

/// What the watchdog is fed by: our own threads answer. Never the database's reachability: a stopped PostgreSQL is no
/// reason to restart the relay.
struct SelfCheck: Sendable {
    /// An event loop that takes longer than this to run an empty task hangs.
    private static let loopPatience: Duration = .seconds(5)
    /// A database thread this far past the deadline of its wait hangs.
    private static let threadPatience: Duration = .seconds(10)
    private static let statusInterval: Duration = .seconds(5)

    let relay: Relay

    /// Feeds the watchdog at half its interval and tells STATUS, until cancelled.
    func run() async {
        let interval = min(Watchdog.interval().map { $0 / 2 } ?? Self.statusInterval, Self.statusInterval)
        while !Task.isCancelled {
            if await threadsAnswer() { _ = Notify.watchdog() }
            _ = Notify.status(status)
            guard (try? await Task.sleep(for: interval)) != nil else { return }
        }
    }

    private var status: String {
        let database = relay.pool.isReachable ? "" : "; the database is out of reach: webhooks are answered 503"
        let held = relay.handOver.heldCount
        return "serving \(relay.listens); \(held) deliveries in hand, \(relay.recordQueue.depth) webhooks being stored"
            + database
    }

    private func threadsAnswer() async -> Bool {
        if let deadline = relay.pool.earliestDeadline, deadline + Self.threadPatience < .now { return false }
        return await withTaskGroup(of: Bool.self) { group in
            for loop in relay.group.makeIterator() {
                group.addTask { await Self.answers(loop) }
            }
            return await group.allSatisfy { $0 }
        }
    }

    private static func answers(_ loop: any EventLoop) async -> Bool {
        await withTaskGroup(of: Bool.self) { group in
            group.addTask { (try? await loop.submit {}.get()) != nil }
            group.addTask { (try? await Task.sleep(for: loopPatience)) == nil }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
    }
}
