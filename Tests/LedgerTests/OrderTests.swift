import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL, and the order in which events were recorded.
@Suite("The queue: the order of a purchase", .serialized, .timeLimit(.minutes(30)))
struct OrderTests {
    /// Blocked rows with nothing before them, and unblocked rows with something before them: both must never be.
    private static let misplaced = Statement<(), Int64>(
        "test_misplaced",
        """
        SELECT count(*) FROM deliveries d WHERE blocked <> EXISTS (
            SELECT FROM deliveries e WHERE e.purchase = d.purchase AND e.integration = d.integration AND e.id < d.id)
        """)

    @Test("The second waits until the first is settled, and comes leased and in order")
    func oneByOne() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record((0..<4).map { .sample("EVENT_\($0)") } + [.sample("ELSE", purchase: "subs_2")])
            let free = daemon.inbox.take()
            #expect(free.map(\.message.type) == ["EVENT_0", "ELSE"])
            var head = free[0]
            for index in 1..<4 {
                // Waiting for its retry it still holds the purchase back.
                let waiting = try await daemon.queue.settle([head.settled(.retry(after: .zero), status: 500)])
                #expect(waiting.unblocked.isEmpty)
                head = try #require(try await daemon.claimAll("all").first)
                #expect(head.attemptsMade == 1 && head.message.type == "EVENT_\(index - 1)")
                let verdict: Settlement.Verdict = index == 2 ? .dead(reason: "no") : .accepted
                let settled = try await daemon.queue.settle([head.settled(verdict)])
                #expect(settled.unblocked.map(\.message.type) == ["EVENT_\(index)"])
                head = try #require(settled.unblocked.first)
                #expect(head.attemptsMade == 0)
                #expect(try ledger.psql("SELECT leased_by FROM deliveries WHERE id = \(head.id)") == "\(daemon.lease)")
            }
            let last = try await daemon.queue.settle([head.settled(.accepted)])
            #expect(last.unblocked.isEmpty)
            #expect(try ledger.psql("SELECT count(*) FROM deliveries") == "1")
        }
    }

    @Test("Where the lane has no slot, what is unblocked is left in the table for a claim")
    func noSlot() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record([.sample("A"), .sample("B")])
            let head = try #require(daemon.inbox.take().first)
            daemon.dispatchBuffer.close(daemon.row("all"))
            let settled = try await daemon.queue.settle([head.settled(.accepted)])
            #expect(settled.unblocked.isEmpty)
            #expect(try ledger.psql("SELECT blocked, leased_by IS NULL FROM deliveries") == "f|t")
            daemon.open("all")
            #expect(try await daemon.claimAll("all").map(\.message.type) == ["B"])
        }
    }

    @Test("An integration without order: nothing is blocked, nothing is unblocked")
    func unordered() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all", order: .none)])
            daemon.open("all")
            await daemon.record((0..<3).map { .sample("EVENT_\($0)") })
            let handed = daemon.inbox.take()
            #expect(handed.map(\.message.type) == ["EVENT_0", "EVENT_1", "EVENT_2"])
            #expect(try await daemon.queue.settle(handed.map { $0.settled(.accepted) }).unblocked.isEmpty)
            #expect(try ledger.psql("SELECT count(*) FROM deliveries") == "0")
        }
    }

    /// A batch asks in advance for the deliveries before its own only where few integrations can have one.
    @Test("Among a hundred ordered integrations, of which two are sent the event: the second waits for both")
    func amongMany() async throws {
        try await TestLedger.run { ledger in
            let others = (0..<98).map { Integration.named("other_\($0)", events: ["NEVER"]) }
            let daemon = try await ledger.daemon([.named("a")] + others + [.named("b")])
            daemon.open("a", "b")
            await daemon.record([.sample("A")])
            let heads = daemon.inbox.take()
            #expect(heads.map(\.integration).sorted() == [daemon.row("a"), daemon.row("b")].sorted())
            await daemon.record([.sample("B")])
            #expect(daemon.inbox.take().isEmpty)
            let settled = try await daemon.queue.settle(heads.map { $0.settled(.accepted) })
            #expect(settled.unblocked.map(\.message.type) == ["B", "B"])
        }
    }

    @Test("Settled between the look at what is before it and the commit: the commit unblocks it")
    func settledMeanwhile() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record([.sample("A")])
            let head = try #require(daemon.inbox.take().first)
            daemon.dispatchBuffer.release(head.integration, 1)
            // Holds the batch up where it writes its events: it has found A in the table by then.
            let (blocker, gate) = (try await ledger.connect(), Gate())
            async let holding: Void = blocker.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    try session.script("LOCK TABLE events IN SHARE MODE")
                    gate.open()
                    gate.waitForClose()
                }
            }
            await gate.opened()
            async let answers = daemon.record([.sample("B")])
            let waits = """
                SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'events'::regclass
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                """
            while try ledger.psql(waits) != "1" { try await Task.sleep(for: .milliseconds(10)) }
            #expect(try await daemon.queue.settle([head.settled(.accepted)]).unblocked.isEmpty, "B is not there yet")
            gate.close()
            try await holding
            #expect(await answers == [.stored])
            await blocker.close()
            #expect(daemon.inbox.take().map(\.message.type) == ["B"])
            #expect(try ledger.psql("SELECT blocked, leased_by FROM deliveries") == "f|\(daemon.lease)")
        }
    }

    @Test("One that died between settling a head and the look at its successor: whoever ends its lease looks")
    func diedMeanwhile() async throws {
        try await TestLedger.run { ledger in
            let dead = try await ledger.daemon([.named("all")])
            let living = try await ledger.daemon([.named("all")])
            dead.open("all")
            await dead.record([.sample("A"), .sample("B")])
            let head = try #require(dead.inbox.take().first)
            try ledger.psql("DELETE FROM deliveries WHERE id = \(head.id)")
            #expect(try ledger.psql("SELECT blocked FROM deliveries") == "t")
            try ledger.expire(dead)
            try await living.endExpiredLeases()
            living.open("all")
            #expect(try await living.claimAll("all").map(\.message.type) == ["B"])
        }
    }

    /// To wait would be a deadlock wherever the other waits for a row that is settled here.
    @Test("What somebody unblocks and leases at the same moment stays with the one who was first; nobody waits for it")
    func unblockedTwice() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record([.sample("A"), .sample("B")])
            let head = try #require(daemon.inbox.take().first)
            try ledger.psql("DELETE FROM deliveries WHERE id = \(head.id)")
            let orderingKey = FanOut.OrderingKey(
                purchase: try #require(head.message.purchase), integration: head.integration)
            let (first, second, gate) = (try await ledger.connect(), try await ledger.connect(), Gate())
            async let unblocking: Void = first.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    try session.script("UPDATE deliveries SET blocked = false, leased_by = 77")
                    gate.open()
                    gate.waitForClose()
                }
            }
            await gate.opened()
            try await second.withSession { session throws(DatabaseError) in
                try Queue.unblock(successorsOf: [orderingKey], on: session)
            }
            gate.close()
            try await unblocking
            await first.close()
            await second.close()
            #expect(try ledger.psql("SELECT blocked, leased_by FROM deliveries") == "f|77")
        }
    }

    @Test("Settling and recording the same purchases at once: nothing is left behind, nothing overtakes")
    func race() async throws {
        try await TestLedger.run { ledger in
            let settler = try await ledger.daemon([.named("a"), .named("b")])
            let recorder = try await ledger.daemon([.named("a"), .named("b")])
            settler.open("a", "b")
            let purchases = (0..<12).map { "subs_\($0)" }
            func events(_ round: Int) -> [Event] {
                purchases.shuffled().map {
                    .sample("EVENT_\(round)", at: seconds(Int64(round)), purchase: $0, transaction: $0)
                }
            }
            await settler.record(events(0))
            var heads = settler.inbox.take()
            for head in heads { settler.dispatchBuffer.release(head.integration, 1) }
            var delivered: [String: [Int]] = [:]
            for round in 1...60 {
                let batch = heads.shuffled()
                for head in batch {
                    let orderingKey = "\(head.message.purchaseKey ?? "") \(head.integration)"
                    delivered[orderingKey, default: []].append(Int(head.message.type.dropFirst(6)) ?? -1)
                }
                async let settled = settler.queue.settle(batch.map { $0.settled(.accepted) })
                async let answers = recorder.record(events(round))
                heads = try await settled.unblocked
                for head in heads { settler.dispatchBuffer.release(head.integration, 1) }
                #expect(await answers.allSatisfy { $0 == .stored })
                let misplaced = try await settler.pool.withSession { session throws(DatabaseError) in
                    try session.run(Self.misplaced, ())
                }
                #expect(misplaced == [0], "round \(round)")
                // What the recorder found unblocked it left in the table: its own lanes are closed.
                for name in ["a", "b"] { heads += try await settler.claimAll(name) }
            }
            #expect(settler.log.warnings + recorder.log.warnings == [])
            #expect(delivered.count == purchases.count * 2)
            for (orderingKey, rounds) in delivered { #expect(rounds == Array(0..<rounds.count), "\(orderingKey)") }
            let deadlocks = try ledger.psql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
            #expect(deadlocks == "0")
        }
    }
}
