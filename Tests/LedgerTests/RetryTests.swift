import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// What waits becomes due. Oracle: SQL.
@Suite("Retry by hand", .serialized, .timeLimit(.minutes(30)))
struct RetryTests {
    /// Integration "one" waits for `count` deliveries and has as many behind them; "two" waits for all of them.
    private func waiting(_ count: Int, in ledger: TestLedger) async throws -> Daemon {
        let daemon = try await ledger.daemon([.named("one", order: .purchase), .named("two", order: .none)])
        daemon.open("one", "two")
        await daemon.record(
            (0..<count).flatMap { number in
                ["FIRST", "SECOND"].map { .sample($0, purchase: "p\(number)", transaction: "t\(number)") }
            })
        _ = try await daemon.queue.settle(
            daemon.inbox.take().map { $0.settled(.retry(after: .seconds(3_600)), status: 500) })
        return daemon
    }

    private func run(
        _ names: [String], message: String? = nil, of daemon: Daemon
    ) async throws -> (waiting: [Retry.Waiting], steps: [Int]) {
        let key = message.flatMap { Identifier(written: $0) }
        var retry = try #require(try await Retry.start(names.map(daemon.row), message: key, in: daemon.pool))
        var steps: [Int] = []
        while !retry.isDone { steps.append(try await retry.step(in: daemon.pool)) }
        return (retry.waiting, steps)
    }

    private static let due = """
        SELECT name, count(*) FILTER (WHERE due_at <= now() AND NOT blocked), count(*) FILTER (WHERE due_at > now()),
            count(*) FILTER (WHERE blocked)
        FROM deliveries d JOIN integrations i ON i.id = d.integration GROUP BY 1 ORDER BY 1
        """

    @Test("One integration's, in steps; attempts stay counted; others wait on; what it is, is said")
    func one() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await waiting(1_200, in: ledger)
            #expect(try ledger.psql(Self.due) == "one|0|1200|1200\ntwo|0|2400|0")
            let (waiting, steps) = try await run(["one"], of: daemon)
            #expect(waiting.map(\.later) == [1_200] && waiting.map(\.blocked) == [1_200] && waiting.map(\.due) == [0])
            #expect(steps == [1_000, 200])
            #expect(try ledger.psql(Self.due) == "one|1200|0|1200\ntwo|0|2400|0")
            #expect(try ledger.psql("SELECT DISTINCT attempts FROM deliveries WHERE NOT blocked") == "1")
            let again = try await run(["one"], of: daemon)
            #expect(again.waiting.map(\.due) == [1_200] && again.steps == [0])
            let both = try await run(["one", "two"], of: daemon)
            #expect(both.waiting.map(\.later) == [0, 2_400] && both.steps == [0, 1_000, 1_000, 400])
            #expect(try await daemon.claimAll("two").count == 2_400)
            #expect(try await run(["two"], of: daemon).waiting.map(\.due) == [2_400])
        }
    }

    @Test("One message's, of all integrations; a message that is not stored")
    func message() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await waiting(3, in: ledger)
            let key = try ledger.psql(
                """
                SELECT 'msg_' || replace(coalesce(m.key, e.key)::text, '-', '')
                FROM messages m JOIN events e ON e.id = m.event WHERE e.name = 'FIRST' ORDER BY m.id LIMIT 1
                """)
            let (waiting, _) = try await run(["one", "two"], message: key, of: daemon)
            #expect(waiting.map(\.later) == [1, 1])
            #expect(try ledger.psql(Self.due) == "one|1|2|3\ntwo|1|5|0")
            let unknown = try await Retry.start([1], message: Identifier(high: 1, low: 2), in: daemon.pool)
            #expect(unknown == nil)
        }
    }

    @Test("What fails meanwhile and waits anew is not tried again: there is an end")
    func ends() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await waiting(10, in: ledger)
            var retry = try #require(try await Retry.start([daemon.row("two")], message: nil, in: daemon.pool))
            var made = 0
            while !retry.isDone {
                made += try await retry.step(in: daemon.pool)
                try ledger.psql("UPDATE deliveries SET due_at = now() + interval '1 hour' WHERE leased_by IS NULL")
            }
            #expect(made == 20)
        }
    }

    @Test(
        "After a reload, counting or making due goes on with the next session if the server ends the one at hand",
        arguments: ["ACCESS EXCLUSIVE", "SHARE"])
    func sessionEnded(lock: String) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await waiting(3, in: ledger)
            let route = try #require(daemon.routes.current.all.first { $0.integration.name == "one" })
            // Whoever only reads is let in by the second.
            try await ledger.holding(
                { session throws(DatabaseError) in try session.script("LOCK TABLE deliveries IN \(lock) MODE") },
                { await daemon.queue.tryNow([route]) },
                meanwhile: {
                    try ledger.psql(
                        """
                        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                        WHERE datname = current_database() AND wait_event_type = 'Lock'
                        """)
                })
            #expect(try ledger.psql(Self.due) == "one|3|0|3\ntwo|0|6|0")
            #expect(daemon.log.warnings == [])
        }
    }

    @Test("An open breaker probes at once, once; one that is probing is left alone")
    func breaker() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await waiting(1_200, in: ledger)
            #expect(try await daemon.queue.openBreaker(daemon.row("one"), reason: "down"))
            let due = "SELECT next_probe_at <= now() FROM breakers"
            // Of itself a probe is due after some seconds, which may pass on a busy machine.
            let later = "UPDATE breakers SET next_probe_at = now() + interval '1 hour'"
            try ledger.psql(later)
            #expect(try ledger.psql(due) == "f")
            var retry = try #require(try await Retry.start([daemon.row("one")], message: nil, in: daemon.pool))
            _ = try await retry.step(in: daemon.pool)
            #expect(try ledger.psql(due) == "t")
            #expect(try await daemon.queue.claimProbe(daemon.row("one"), lasting: .seconds(3_600)))
            _ = try await run(["one"], of: daemon)
            #expect(try ledger.psql(due) == "f")
            // After a reload, too: by now it may be a probe of the lane that followed.
            let route = try #require(daemon.routes.current.all.first { $0.integration.name == "one" })
            await daemon.queue.tryNow([route])
            #expect(try ledger.psql("SELECT next_probe_at <= now() OR probed_by IS NULL FROM breakers") == "f")
            try await daemon.queue.endProbe(daemon.row("one"))
            try ledger.psql(later)
            _ = try await retry.step(in: daemon.pool)
            #expect(retry.isDone)
            #expect(try ledger.psql(due) == "f", "the second step tells it nothing")
        }
    }
}
