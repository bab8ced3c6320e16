import Configuration
import Ledger
import NIOCore
import NIOPosix
import Postgres
import Spool
import Systemd
import Vocabulary

/// Feeds systemd's watchdog, and says so in `/healthz`, while the process's own threads answer and its listeners are
/// open. The database's reachability does not count: a stopped PostgreSQL is no reason to restart the relay.
struct SelfCheck: Sendable {
    /// An event loop that takes longer than this to run an empty task hangs.
    private static let loopTimeout: Duration = .seconds(5)
    /// A database thread this far past the deadline of its wait hangs.
    private static let threadTimeout: Duration = .seconds(10)
    private static let statusInterval: Duration = .seconds(5)

    static let loopHangs = "an event loop has not answered for \(loopTimeout.components.seconds) s"
    private static let socketFailed = "a socket has failed"
    private static let standstill =
        "the database has not committed lately: nothing is delivered, and webhooks may be answered 503"

    let relay: Relay

    private static var interval: Duration {
        min(Watchdog.interval().map { $0 / 2 } ?? statusInterval, statusInterval)
    }

    func run() async {
        await Self.run(
            hang: { await hang() }, isListening: { relay.isListening }, status: { status }, observe: relay.observe)
    }

    /// Feeds the watchdog and sets STATUS every 5 s, or at half the watchdog's interval if that is shorter, until
    /// cancelled. A hang is logged once, when it begins.
    /// - Parameter hang: what does not answer; nil: all does.
    static func run(
        hang: () async -> String?, isListening: () -> Bool, status: () -> String, observe: Observer
    ) async {
        var isLogged = false
        repeat {
            let hang = await hang()
            // A cancelled check proves nothing.
            guard !Task.isCancelled else { return }
            let problem = hang ?? (isListening() ? nil : socketFailed)
            ProcessHealth.ofThisProcess.report(problem)
            if let hang, !isLogged { observe(.hangs(what: hang)) }
            _ = Notify.status((problem.map { $0 + "; " } ?? "") + status())
            isLogged = hang != nil
        } while (try? await Task.sleep(for: interval)) != nil
    }

    /// The text for `systemctl status`. A refused reload stays in it until one succeeds.
    var status: String {
        let orSpooled = isSpooling ? ", or spooled" : ""
        let database =
            if relay.pool.isReachable {
                (relay.isReady ? "" : "; \(Self.standstill)\(orSpooled)")
                    + (relay.recordingHealth.refusal.map { "; webhooks cannot be stored and are answered 503: \($0)" }
                        ?? "")
            } else {
                "; the database is out of reach: webhooks are answered 503\(orSpooled)"
            }
        let spooled = relay.spool.current?.figures.webhooks ?? 0
        let waiting =
            (spooled == 0 ? "" : "; \(spooled) webhooks wait in the spool")
            + (relay.spool.problem.map { "; there is no spool: \($0)" } ?? "")
        let held = relay.dispatchBuffer.heldCount
        return "serving \(relay.listens); \(held) deliveries in hand, \(relay.recordQueue.depth) webhooks being stored"
            + database + waiting + (relay.reloader.live.refusal.map { "; the last reload was refused: \($0)" } ?? "")
    }

    /// A spool that was opened stays open, also when the last source has given it up.
    private var isSpooling: Bool {
        relay.spool.current != nil && relay.reloader.live.current.sources.contains(where: \.spools)
    }

    /// Which thread does not answer, as a text; nil if all do.
    private func hang() async -> String? {
        if let deadline = relay.pool.earliestDeadline, deadline + Self.threadTimeout < .now {
            let late = (ContinuousClock.Instant.now - deadline).components.seconds
            return "a database thread has not come back, \(late) s after the end of its wait"
        }
        if await Self.answer(relay.group) { return nil }
        return Self.loopHangs
    }

    /// Whether all loops of a group do.
    static func answer(_ group: any EventLoopGroup) async -> Bool {
        await withTaskGroup(of: Bool.self) { tasks in
            for loop in group.makeIterator() { tasks.addTask { await answers(loop) } }
            return await tasks.allSatisfy { $0 }
        }
    }

    /// Whether the loop runs an empty task in time; one that hangs never does.
    private static func answers(_ loop: any EventLoop) async -> Bool {
        await TimeLimit.answer(within: loopTimeout) { give in loop.execute { give(true) } } ?? false
    }
}
