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

    /// Feeds the watchdog at half its interval and tells STATUS, until cancelled. A hang is told once, when it begins.
    func run() async {
        let interval = min(Watchdog.interval().map { $0 / 2 } ?? Self.statusInterval, Self.statusInterval)
        var isTold = false
        while true {
            let hang = await hang()
            // A check that was cut short says nothing.
            guard !Task.isCancelled else { return }
            if let hang {
                if !isTold { relay.observe(.hangs(what: hang)) }
                _ = Notify.status("\(hang); \(status)")
            } else {
                _ = Notify.watchdog()
                _ = Notify.status(status)
            }
            isTold = hang != nil
            guard (try? await Task.sleep(for: interval)) != nil else { return }
        }
    }

    /// For `systemctl status`. A reload that was refused stays in it until one holds.
    var status: String {
        let database = relay.pool.isReachable ? "" : "; the database is out of reach: webhooks are answered 503"
        let held = relay.handOver.heldCount
        return "serving \(relay.listens); \(held) deliveries in hand, \(relay.recordQueue.depth) webhooks being stored"
            + database + (relay.reloader.live.refusal.map { "; the last reload was refused: \($0)" } ?? "")
    }

    /// Which thread does not answer, for a person; nil: all do.
    private func hang() async -> String? {
        if let deadline = relay.pool.earliestDeadline, deadline + Self.threadPatience < .now {
            let late = (ContinuousClock.Instant.now - deadline).components.seconds
            return "a database thread has not come back, \(late) s after the end of its wait"
        }
        let loopsAnswer = await withTaskGroup(of: Bool.self) { group in
            for loop in relay.group.makeIterator() {
                group.addTask { await Self.answers(loop) }
            }
            return await group.allSatisfy { $0 }
        }
        return loopsAnswer ? nil : "an event loop has not answered for \(Self.loopPatience.components.seconds) s"
    }

    /// Whoever waits for a loop that hangs waits for ever: the answer is raced against the clock in a stream.
    private static func answers(_ loop: any EventLoop) async -> Bool {
        let (answers, answer) = AsyncStream<Bool>.makeStream()
        loop.execute { answer.yield(true) }
        let impatient = Task {
            try await Task.sleep(for: loopPatience)
            answer.yield(false)
        }
        defer { impatient.cancel() }
        return await answers.first { _ in true } ?? false
    }
}
