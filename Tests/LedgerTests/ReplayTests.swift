import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL, and what was recorded and settled.
@Suite("Replaying, backfilling, discarding", .serialized, .timeLimit(.minutes(30)))
struct ReplayTests {
    /// Everything that is replayed, step by step.
    private func replay(
        _ daemon: Daemon, _ filter: Replay.Filter, rowsMax: Int32 = Limits.replayRowsMax
    ) async throws -> (found: Int, queued: Int) {
        var replay = try #require(
            await Replay.start(filter, routes: daemon.routes.current.all, rowsMax: rowsMax, in: daemon.pool))
        let found = try await replay.count(in: daemon.pool).values.reduce(0) { $0 + $1.found }
        var queued = 0
        while !replay.isDone { queued += try await replay.step(in: daemon.pool).queued }
        return (found, queued)
    }

    @Test("Dead letters of a clock that was ahead are replayed and counted, too; what waits already is counted apart")
    func diedAhead() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            daemon.open("a")
            await daemon.record(["p1", "p2"].map { .sample("X", purchase: $0, transaction: $0) })
            let taken = daemon.inbox.take()
            _ = try await daemon.queue.settle([taken[0].settled(.dead(reason: "x")), taken[1].settled(.accepted)])
            try ledger.psql("UPDATE dead_letters SET died_at = now() + interval '6 hours'")
            let integration = daemon.row("a")
            #expect(try await DeadLetters.of(integration, before: nil, in: daemon.pool).count == 1)
            #expect(try await replay(daemon, .init(integrations: [integration], isDead: true)) == (1, 1))
            let filter = Replay.Filter(integrations: [integration], isDead: false)
            #expect(try await replay(daemon, filter) == (1, 1))
            let again = try #require(await Replay.start(filter, routes: [], in: daemon.pool))
            #expect(try await again.count(in: daemon.pool) == [integration: Replay.Count(found: 1, waiting: 1)])
        }
    }

    @Test("Dead and delivered messages come again under their own ids, as often as one likes; dead letters leave")
    func again() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a"), .named("b")])
            daemon.open("a", "b")
            await daemon.record([
                .sample("ONE", purchase: "p1", transaction: "t1"), .sample("TWO", purchase: "p2", transaction: "t2"),
            ])
            let first = daemon.inbox.take()
            _ = try await daemon.queue.settle(
                first.map { $0.settled($0.message.type == "ONE" ? .dead(reason: "x") : .accepted) })
            let both = [daemon.row("a"), daemon.row("b")]
            #expect(try await replay(daemon, .init(integrations: both, isDead: true)) == (2, 2))
            #expect(try ledger.psql("SELECT count(*) FROM dead_letters") == "0")
            #expect(try ledger.psql("SELECT count(*) FROM deliveries WHERE leased_by IS NULL AND NOT blocked") == "2")
            // What waits already is left out.
            #expect(try await replay(daemon, .init(integrations: both, event: Glob("ONE"))) == (0, 0))
            #expect(try await replay(daemon, .init(integrations: [daemon.row("a")], isDead: false)) == (1, 1))
            #expect(try await replay(daemon, .init(integrations: [daemon.row("a")], isDead: false)) == (1, 0))
            let claimed = try await daemon.claimAll("a") + daemon.claimAll("b")
            #expect(
                claimed.map { "\($0.integration) \($0.message.id)" }.sorted()
                    == first.filter { $0.message.type == "ONE" || $0.integration == daemon.row("a") }
                    .map { "\($0.integration) \($0.message.id)" }.sorted())
            #expect(claimed.allSatisfy { $0.attemptsMade == 0 })
            _ = try await daemon.queue.settle(claimed.map { $0.settled(.accepted) })
            #expect(try await replay(daemon, .init(integrations: both)) == (4, 4))
            let key = try #require(Identifier(written: first[0].message.id))
            #expect(try await replay(daemon, .init(message: key, integrations: both)).queued == 0)
            let none = Replay.Filter(message: Identifier(high: 1, low: 1), integrations: both)
            #expect(try await Replay.start(none, routes: daemon.routes.current.all, in: daemon.pool) == nil)
        }
    }

    @Test("Type, time and message narrow it down")
    func filters() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a", order: .none)])
            daemon.open("a")
            let types = ["SUB_ONE", "SUB_TWO", "SUBXTHREE", "OTHER%"]
            await daemon.record(types.map { .sample($0, purchase: $0, transaction: $0) })
            let made = daemon.inbox.take()
            _ = try await daemon.queue.settle(made.map { $0.settled(.accepted) })
            try ledger.psql(
                """
                UPDATE attempts SET at = timestamptz '2026-01-01' FROM messages m
                WHERE m.id = message AND m.type = 'SUB_TWO'
                """)
            let all = [daemon.row("a")]
            func count(_ filter: Replay.Filter) async throws -> Int {
                try await Replay.start(filter, routes: [], in: daemon.pool)?.count(in: daemon.pool)[all[0]]?.found ?? 0
            }
            #expect(try await count(.init(integrations: all)) == 4)
            #expect(try await count(.init(integrations: all, event: Glob("SUB_*"))) == 2)
            #expect(try await count(.init(integrations: all, event: Glob("SUB?*"))) == 3)
            #expect(try await count(.init(integrations: all, event: Glob("*%"))) == 1)
            let day = try #require(Timestamp(iso8601: "2026-01-02T00:00:00Z"))
            #expect(try await count(.init(integrations: all, since: day)) == 3)
            #expect(try await count(.init(integrations: all, until: day)) == 1)
            #expect(try await count(.init(message: Identifier(written: made[0].message.id), integrations: all)) == 1)
            #expect(try await count(.init(integrations: [])) == 0)
        }
    }

    @Test("A step ends where it has looked at enough rows; what matches behind them is found by the next ones")
    func farApart() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a", order: .none), .named("b", order: .none)])
            daemon.open("a", "b")
            await daemon.record(
                (0..<12).map { .sample($0 % 6 == 5 ? "RARE" : "OTHER", purchase: "p\($0)", transaction: "t\($0)") })
            let made = daemon.inbox.take()
            _ = try await daemon.queue.settle(
                made.enumerated().map { $1.settled($0 % 3 == 0 ? .dead(reason: "x") : .accepted) })
            let both = [daemon.row("a"), daemon.row("b")]
            let rare = Replay.Filter(integrations: both, event: Glob("RARE"))
            var steps = try #require(
                await Replay.start(rare, routes: daemon.routes.current.all, rowsMax: 2, in: daemon.pool))
            let first = try await steps.step(in: daemon.pool)
            #expect(first == (0, 0) && !steps.isDone)
            let all = Replay.Filter(integrations: both)
            let counted = try #require(
                await Replay.start(all, routes: daemon.routes.current.all, rowsMax: 1, in: daemon.pool))
            #expect(try await counted.count(in: daemon.pool).values.reduce(0) { $0 + $1.found } == 24)
            #expect(try await replay(daemon, rare, rowsMax: 1) == (4, 4))
        }
    }

    @Test("Of one purchase one after the other, also after what waits; in steps of many")
    func order() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a"), .named("free", order: .none)])
            daemon.open("a", "free")
            await daemon.record((0..<3).map { .sample("E\($0)", transaction: "t\($0)") })
            var settled = 0
            while true {
                let made = daemon.inbox.take()
                if made.isEmpty { break }
                settled += made.count
                daemon.inbox.put(try await daemon.queue.settle(made.map { $0.settled(.accepted) }).unblocked)
            }
            #expect(settled == 6)
            // A fourth waits in the lane.
            await daemon.record([.sample("E3", transaction: "t3")])
            let both = [daemon.row("a"), daemon.row("free")]
            #expect(try await replay(daemon, .init(integrations: both)) == (6, 6))
            let blocked = try ledger.psql(
                """
                SELECT string_agg(m.type || d.blocked::int || (d.leased_by IS NOT NULL)::int, ',' ORDER BY d.id)
                FROM deliveries d JOIN messages m ON m.id = d.message WHERE integration = \(daemon.row("a"))
                """)
            #expect(blocked == "E301,E010,E110,E210")
            #expect(
                try ledger.psql("SELECT count(*) FROM deliveries WHERE blocked AND integration = \(daemon.row("free"))")
                    == "0")
            let head = daemon.inbox.take().filter { $0.integration == daemon.row("a") }
            let next = try await daemon.queue.settle(head.map { $0.settled(.accepted) }).unblocked
            #expect(next.map(\.message.type) == ["E0"])
        }
    }

    @Test("More than a step: all of them, each once, in the order of recording")
    func steps() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a", order: .none)])
            let count = Int(Requeue.stepMax) * 2 + 7
            for start in stride(from: 0, to: count, by: 400) {
                await daemon.record(
                    (start..<min(start + 400, count)).map { .sample(purchase: "p\($0)", transaction: "t\($0)") })
            }
            var cursor: Int64 = 0
            var discarded = 0
            while true {
                let step = try await Discard.step(daemon.row("a"), from: &cursor, upTo: .max, in: daemon.pool)
                discarded += step.discarded
                if step.isDone { break }
            }
            #expect(discarded == count)
            #expect(try ledger.psql("SELECT count(*), min(reason) FROM dead_letters") == "\(count)|discarded by hand")
            #expect(try await replay(daemon, .init(integrations: [daemon.row("a")])) == (count, count))
            #expect(try ledger.psql("SELECT count(*) FROM dead_letters") == "0")
            #expect(
                try ledger.psql(
                    """
                    SELECT count(DISTINCT message), bool_and(ok)
                    FROM (SELECT message, message > lag(message, 1, 0::bigint) OVER (ORDER BY id) AS ok
                          FROM deliveries) AS d
                    """) == "\(count)|t")
        }
    }

    @Test("A new integration gets what it asks for of the past, once, in order; others get nothing")
    func backfill() async throws {
        try await TestLedger.run { ledger in
            let old = Integration.named("old")
            let before = try await ledger.daemon([old])
            before.open("old")
            await before.record([
                .sample("WANTED_1", transaction: "t1"), .sample("OTHER", transaction: "t2"),
                .sample("WANTED_2", transaction: "t3"), .sample("WANTED_3", purchase: nil, transaction: nil),
                .sample("WANTED_4", purchase: "sandbox", transaction: "t5", environment: "SANDBOX"),
            ])
            try ledger.psql(
                "UPDATE messages SET created_at = now() - interval '2 days' WHERE type IN ('WANTED_1', 'OTHER')")
            let new = Integration.named("new", events: ["WANTED*"], environments: ["PRODUCTION"])
            let daemon = try await ledger.daemon([old, new])
            let route = try #require(daemon.routes.current.all.first { $0.integration.name == "new" })
            let now = try #require(Timestamp(iso8601: "2026-01-01T00:00:00Z"))
            func run(since: Timestamp, isDry: Bool = false) async throws -> Int {
                var backfill = try await Backfill.start(route, since: since, until: nil, in: daemon.pool)
                var queued = 0
                while !backfill.isDone { queued += try await backfill.step(isDry: isDry, in: daemon.pool) }
                #expect(backfill.left == 0)
                return queued
            }
            let yesterday = try Timestamp(
                milliseconds: #require(
                    Int64(ledger.psql("SELECT (extract(epoch FROM now()) * 1000)::bigint - 86400000"))))
            #expect(try await run(since: yesterday, isDry: true) == 2)
            #expect(try await run(since: now, isDry: true) == 3)
            #expect(try ledger.psql("SELECT count(*) FROM deliveries WHERE integration = \(route.row)") == "0")
            #expect(try await run(since: yesterday) == 2)
            #expect(try await run(since: now) == 1)
            #expect(try await run(since: now) == 0)
            daemon.open("new")
            let claimed = try await daemon.claimAll("new")
            _ = try await daemon.queue.settle(claimed.map { $0.settled(.accepted) })
            #expect(try await run(since: now) == 0)
        }
    }

    @Test("A backfill sends no integration relay messages about itself, and those about others it does")
    func relayMessages() async throws {
        try await TestLedger.run { ledger in
            let events = ["posthouse.integration.*"]
            let names = ["ops", "ops-2", "chat"]
            let daemon = try await ledger.daemon(names.map { .named($0, events: events) })
            #expect(try await daemon.queue.openBreaker(daemon.row("ops"), reason: #"answered "integration":"chat""#))
            #expect(try ledger.psql("SELECT count(*) FROM messages") == "1")
            // As if it had been added since: what a message was for is not known of it.
            try ledger.psql("UPDATE messages SET integrations = ''; DELETE FROM deliveries")
            for (name, found) in [("ops", 0), ("ops-2", 1), ("chat", 1)] {
                let route = try #require(daemon.routes.current.all.first { $0.integration.name == name })
                var backfill = try await Backfill.start(
                    route, since: Timestamp(milliseconds: 0), until: nil, in: daemon.pool)
                #expect(try await backfill.step(isDry: true, in: daemon.pool) == found, "\(name)")
            }
        }
    }
}
