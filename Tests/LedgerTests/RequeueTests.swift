import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL, which plays the other operator while a lock of that operator's is waited for.
@Suite("Requeueing beside others, and discarding", .serialized, .timeLimit(.minutes(30)))
struct RequeueTests {
    private func milliseconds(_ ledger: TestLedger, _ expression: String) throws -> Timestamp {
        Timestamp(
            milliseconds: try #require(Int64(ledger.psql("SELECT (extract(epoch FROM \(expression)) * 1000)::bigint"))))
    }

    /// All of it.
    private func run(_ backfill: Backfill, in pool: Pool) async throws -> Int {
        var (backfill, queued) = (backfill, 0)
        while !backfill.isDone { queued += try await backfill.step(isDry: false, in: pool) }
        return queued
    }

    @Test("Dead letters that another operator replays, and that are delivered meanwhile, are replayed once")
    func replayedElsewhere() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            daemon.open("a")
            await daemon.record([.sample("ONE", purchase: "p1"), .sample("TWO", purchase: "p2")])
            _ = try await daemon.queue.settle(daemon.inbox.take().map { $0.settled(.dead(reason: "x")) })
            let filter = Replay.Filter(integrations: [daemon.row("a")], isDead: true)
            let replay = try #require(await Replay.start(filter, routes: daemon.routes.current.all, in: daemon.pool))
            let queued = try await ledger.holding { session throws(DatabaseError) in
                try Requeue.lock(on: session)
            } _: { [pool = daemon.pool] in
                var replay = replay
                return try await replay.step(in: pool).queued
            } meanwhile: {
                try ledger.psql("DELETE FROM dead_letters WHERE delivery = (SELECT min(delivery) FROM dead_letters)")
            }
            #expect(queued == 1)
            #expect(
                try ledger.psql("SELECT m.type FROM deliveries d JOIN messages m ON m.id = d.message") == "TWO")
        }
    }

    @Test("What another backfill put into the queue, and what has left it since, is not put there again")
    func backfilledElsewhere() async throws {
        try await TestLedger.run { ledger in
            let before = try await ledger.daemon([])
            await before.record((0..<3).map { .sample("E\($0)", purchase: $0 == 0 ? nil : "p\($0)", transaction: nil) })
            let daemon = try await ledger.daemon([.named("new")])
            let route = try #require(daemon.routes.current.all.first)
            let backfill = try await Backfill.start(
                route, since: Timestamp(milliseconds: 0), until: nil, in: daemon.pool)
            let queued = try await ledger.holding { session throws(DatabaseError) in
                try Requeue.lock(on: session)
            } _: { [pool = daemon.pool] in
                var backfill = backfill
                return try await backfill.step(isDry: false, in: pool)
            } meanwhile: {
                try ledger.psql(
                    """
                    INSERT INTO deliveries (id, message, integration)
                    SELECT nextval('delivery_ids'), id, \(route.row) FROM messages WHERE type = 'E0';
                    INSERT INTO attempts (delivery, message, integration, attempt, outcome, latency_ms)
                    SELECT 1, id, \(route.row), 1, 'accepted', 5 FROM messages WHERE type = 'E1'
                    """)
            }
            #expect(queued == 1)
            #expect(
                try ledger.psql(
                    "SELECT string_agg(m.type, ' ' ORDER BY d.id) FROM deliveries d JOIN messages m ON m.id = d.message"
                )
                    == "E0 E2")
        }
    }

    /// posthouse-messages(7), "Order".
    @Test("What a backfill sends comes after a newer message of its purchase that was accepted before")
    func backfilledAfterNewer() async throws {
        try await TestLedger.run { ledger in
            let before = try await ledger.daemon([])
            await before.record([.sample("ACTIVATE")])
            let daemon = try await ledger.daemon([.named("new")])
            daemon.open("new")
            await daemon.record([.sample("DEACTIVATE")])
            let newer = daemon.inbox.take()
            #expect(newer.map(\.message.type) == ["DEACTIVATE"])
            _ = try await daemon.queue.settle(newer.map { $0.settled(.accepted) })
            let route = try #require(daemon.routes.current.all.first)
            let backfill = try await Backfill.start(
                route, since: Timestamp(milliseconds: 0), until: nil, in: daemon.pool)
            #expect(try await run(backfill, in: daemon.pool) == 1)
            #expect(try await daemon.claimAll("new").map(\.message.type) == ["ACTIVATE"])
        }
    }

    @Test("Messages are not deleted while a replay is about to put them into the queue again")
    func deletions() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            daemon.open("a")
            try ledger.recordBeforePeriods()
            await daemon.record([.sample("OLD", purchase: "p1"), .sample("HERS", holder: .user("ann"), purchase: nil)])
            _ = try await daemon.queue.settle(daemon.inbox.take().map { $0.settled(.accepted) })
            try ledger.psql("UPDATE events SET received_at = now() - interval '31 days' WHERE type = 'OLD'")
            let day = Duration.seconds(86_400)
            let upkeep = Upkeep(
                pool: daemon.pool, retention: Retention(attempts: day * 30, events: day * 30, duplicates: day * 30))
            let erasure = try await Erasure.start(.user("ann"), source: nil, isDry: false, in: daemon.pool)
            let work: [@Sendable () async throws -> Void] = [
                { try await upkeep.prune() }, { [pool = daemon.pool] in _ = try await erasure.run(in: pool) { _ in } },
            ]
            for (number, work) in work.enumerated() {
                try await ledger.holding { session throws(DatabaseError) in
                    try Requeue.lock(on: session)
                } _: {
                    try await work()
                } meanwhile: {
                    let left = try ledger.psql("SELECT count(*) FROM messages")
                    #expect(left == "\(2 - number)")
                }
                #expect(try ledger.psql("SELECT count(*) FROM messages") == "\(1 - number)")
            }
        }
    }

    @Test("Dead letters are not discarded while a replay is about to put them into the queue again")
    func discardBesideReplay() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            daemon.open("a")
            await daemon.record([.sample()])
            _ = try await daemon.queue.settle(daemon.inbox.take().map { $0.settled(.dead(reason: "x")) })
            let letters = try await DeadLetters.of(daemon.row("a"), before: nil, in: daemon.pool)
            let discarded = try await ledger.holding { session throws(DatabaseError) in
                try Requeue.lock(on: session)
            } _: { [pool = daemon.pool] in
                try await letters.drop(in: pool)
            } meanwhile: {
                // As the replay does that holds it.
                try ledger.psql("DELETE FROM dead_letters")
            }
            #expect(discarded == 0)
            #expect(try ledger.psql("SELECT count(*) FROM discards") == "0", "it is sent, and counts as not given up")
        }
    }

    @Test("A backfill reaches back as far as it is known what the integration has had, and no further")
    func knownFrom() async throws {
        try await TestLedger.run { ledger in
            let before = try await ledger.daemon([])
            await before.record([.sample("OLD", purchase: "p1"), .sample("YOUNG", purchase: "p2")])
            try ledger.psql("UPDATE messages SET created_at = now() - interval '60 days' WHERE type = 'OLD'")
            let daemon = try await ledger.daemon([.named("new"), .named("old"), .named("older")])
            let today = Int32(try ledger.psql("SELECT (now() AT TIME ZONE 'UTC')::date - date '1970-01-01'")) ?? 0
            try await daemon.pool.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    try Upkeep.makePartitions([today - 30, today], on: session)
                }
            }
            try ledger.psql(
                """
                UPDATE integrations SET created_at = now() - interval '32 days' WHERE name = 'old';
                UPDATE integrations SET created_at = '-infinity' WHERE name = 'older'
                """)
            let start = Timestamp(milliseconds: Int64(today - 29) * 86_400_000)
            for (name, isKnown) in [("new", true), ("old", false), ("older", false)] {
                let route = try #require(daemon.routes.current.all.first { $0.integration.name == name })
                let backfill = try await Backfill.start(
                    route, since: Timestamp(milliseconds: 0), until: nil, in: daemon.pool)
                #expect(backfill.knownFrom == (isKnown ? nil : start))
                #expect(try await run(backfill, in: daemon.pool) == (isKnown ? 2 : 1), "\(name)")
            }
        }
    }

    @Test("A message that the database cannot read is left out of a backfill with where, and named; the others go")
    func damagedEnvelope() async throws {
        try await TestLedger.run { ledger in
            let before = try await ledger.daemon([])
            await before.record((0..<9).map { .sample("E\($0)", purchase: "p\($0)") })
            let gold = MessageFilter([.product: ["gold"]])
            let daemon = try await ledger.daemon([.named("new", filter: gold)])
            let route = try #require(daemon.routes.current.all.first)
            // As a damaged page would: reading the third is an error.
            let columns = try ledger.psql(
                "SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute WHERE attnum > 0 "
                    + "AND attrelid = 'messages'::regclass AND NOT attisdropped AND attname <> 'envelope'")
            try ledger.psql(
                """
                ALTER TABLE messages RENAME TO undamaged;
                CREATE VIEW messages AS SELECT \(columns),
                    CASE WHEN type = 'E2' THEN convert_to((1 / (length(type) - length(type)))::text, 'UTF8')
                         ELSE envelope END AS envelope
                FROM undamaged
                """)
            for isDry in [true, false] {
                var backfill = try await Backfill.start(
                    route, since: Timestamp(milliseconds: 0), until: nil, in: daemon.pool)
                var queued = 0
                while !backfill.isDone { queued += try await backfill.step(isDry: isDry, in: daemon.pool) }
                #expect(queued == 8 && backfill.unreadable == 1)
                let third = try ledger.psql("SELECT id FROM undamaged WHERE type = 'E2'")
                #expect(backfill.damaged.map { "\($0.message)" } == [third])
            }
            #expect(try ledger.psql("SELECT count(*) FROM deliveries") == "8")
        }
    }

    @Test("A backfill looks at nothing that is younger than it was asked for")
    func until() async throws {
        try await TestLedger.run { ledger in
            let before = try await ledger.daemon([])
            await before.record((0..<9).map { .sample("E\($0)", purchase: "p\($0)") })
            try ledger.psql(
                "UPDATE messages SET created_at = now() - interval '2 days' WHERE type IN ('E0', 'E1', 'E2')")
            let daemon = try await ledger.daemon([.named("new")])
            let route = try #require(daemon.routes.current.all.first)
            let yesterday = try milliseconds(ledger, "now() - interval '1 day'")
            let backfill = try await Backfill.start(
                route, since: Timestamp(milliseconds: 0), until: yesterday, in: daemon.pool)
            #expect((3...4).contains(backfill.left))
            #expect(try await run(backfill, in: daemon.pool) == 3)
        }
    }

    @Test("Discarding leaves what a daemon has in hand and what comes later, which goes on")
    func discard() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            daemon.open("a")
            await daemon.record((0..<3).map { .sample("E\($0)", transaction: "t\($0)") })
            let waiting = try await Discard.look(daemon.row("a"), in: daemon.pool)
            #expect(waiting.all == 3 && waiting.leased == 1)
            await daemon.record([.sample("E3", transaction: "t3")])
            var cursor: Int64 = 0
            func step() async throws -> Int {
                try await Discard.step(daemon.row("a"), from: &cursor, upTo: waiting.last, in: daemon.pool).discarded
            }
            #expect(try await step() == 2)
            #expect(try await step() == 0)
            let held = daemon.inbox.take()
            #expect(held.map(\.message.type) == ["E0"])
            let next = try await daemon.queue.settle(held.map { $0.settled(.accepted) }).unblocked
            #expect(next.map(\.message.type) == ["E3"])
            // Given up with nothing before it: its successor is next.
            try await daemon.queue.giveBack(next)
            let last = try await Discard.look(daemon.row("a"), in: daemon.pool).last
            await daemon.record([.sample("E4", transaction: "t4")])
            cursor = 0
            let gone = try await Discard.step(daemon.row("a"), from: &cursor, upTo: last, in: daemon.pool)
            #expect(gone.discarded == 1 && gone.isDone)
            #expect(try await daemon.claimAll("a").map(\.message.type) == ["E4"])
        }
    }

    @Test("Nothing is discarded that blocks what a webhook is just being recorded for")
    func discardBesideRecording() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            await daemon.record([.sample("E0", transaction: "t0")])
            let row = daemon.row("a")
            let discarded = try await ledger.holding { session throws(DatabaseError) in
                try session.script("SELECT FROM purchases FOR UPDATE")
            } _: { [pool = daemon.pool] in
                var cursor: Int64 = 0
                return try await Discard.step(row, from: &cursor, upTo: .max, in: pool).discarded
            } meanwhile: {
                let left = try ledger.psql("SELECT count(*) FROM deliveries")
                #expect(left == "1")
            }
            #expect(discarded == 1)
        }
    }

    @Test("A delivery whose message is gone leaves the queue, and its successor is delivered")
    func orphans() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")], slotsPerLane: 2)
            await daemon.record((0..<2).map { .sample("E\($0)", transaction: "t\($0)") })
            await daemon.record([.sample("FREE", purchase: nil, transaction: nil)])
            try ledger.psql("DELETE FROM messages WHERE type IN ('E0', 'FREE')")
            daemon.open("a")
            #expect(try await daemon.claimAll("a").isEmpty)
            #expect(daemon.log.warnings.count == 1 && daemon.dispatchBuffer.heldCount == 0)
            let claimed = try await daemon.claimAll("a")
            #expect(claimed.map(\.message.type) == ["E1"])
            #expect(try ledger.psql("SELECT count(*) FROM deliveries") == "1")
            #expect(daemon.dispatchBuffer.reserve(daemon.row("a"), upTo: 9) == 2, "no slot is lost")
        }
    }

    @Test("A step of a command that is ended by a deadlock with a settlement is run again")
    func deadlocks() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            daemon.open("a")
            await daemon.record([.sample()])
            // As if the first attempt of each step met a settlement.
            try ledger.psql(
                """
                CREATE SEQUENCE attempted;
                CREATE FUNCTION collide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF nextval('attempted') % 2 = 1 THEN RAISE SQLSTATE '40P01'; END IF;
                    RETURN coalesce(NEW, OLD);
                END $$
                """)
            func collide(_ table: String, _ events: String) throws {
                try ledger.psql(
                    """
                    DROP TRIGGER IF EXISTS collide ON deliveries;
                    CREATE TRIGGER collide BEFORE \(events) ON \(table) FOR EACH ROW EXECUTE FUNCTION collide()
                    """)
            }
            _ = try await daemon.queue.settle(daemon.inbox.take().map { $0.settled(.dead(reason: "x")) })
            try collide("deliveries", "INSERT")
            let filter = Replay.Filter(integrations: [daemon.row("a")], isDead: true)
            var replay = try #require(await Replay.start(filter, routes: daemon.routes.current.all, in: daemon.pool))
            #expect(try await replay.step(in: daemon.pool).queued == 1)

            try collide("deliveries", "DELETE")
            let waiting = try await Discard.look(daemon.row("a"), in: daemon.pool)
            var cursor: Int64 = 0
            let discarded = try await Discard.step(daemon.row("a"), from: &cursor, upTo: waiting.last, in: daemon.pool)
            #expect(discarded.discarded == 1)

            try ledger.psql("DELETE FROM dead_letters")
            try collide("deliveries", "INSERT")
            let route = try #require(daemon.routes.current.all.first)
            var backfill = try await Backfill.start(
                route, since: Timestamp(milliseconds: 0), until: nil, in: daemon.pool)
            try ledger.psql("DELETE FROM attempts")
            #expect(try await backfill.step(isDry: false, in: daemon.pool) == 1)
            #expect(try ledger.psql("SELECT last_value FROM attempted") == "6")
        }
    }
}
