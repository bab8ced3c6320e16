import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL.
@Suite("The queue: what a sweep finds", .serialized)
struct SweepTests {
    private static let leases = "SELECT count(leased_by), count(*) FROM deliveries"

    /// Rows that wait for an hour, and fill blocks between others.
    private static func fill(_ ledger: TestLedger) throws {
        try ledger.psql(
            """
            INSERT INTO deliveries (id, message, integration, due_at)
            SELECT nextval('delivery_ids'), 0, 0, now() + interval '1 hour' FROM generate_series(1, 300)
            """)
    }

    @Test("A leaked lease is given back at the second look, one that is held never, in one step and in many")
    func leaked() async throws {
        for blocks in [1, 2, Limits.sweepStepBlocks] {
            try await TestLedger.run { ledger in
                let daemon = try await ledger.daemon([.named("all")])
                await daemon.record([.sample("LEAKED", purchase: "subs_1")])
                try ledger.psql("UPDATE deliveries SET leased_by = \(daemon.lease)")
                try Self.fill(ledger)
                daemon.open("all")
                await daemon.record([.sample("HELD", purchase: "subs_2"), .sample("HELD", purchase: "subs_3")])
                let leaked = Int64(try ledger.psql("SELECT min(id) FROM deliveries")) ?? 0
                var sweep = Sweep()
                #expect(try await daemon.sweep(&sweep, blocks: blocks) == [leaked])
                #expect(try ledger.psql(Self.leases) == "3|303")
                #expect(try await daemon.sweep(&sweep, blocks: blocks) == [])
                #expect(
                    try ledger.psql("SELECT id FROM deliveries WHERE leased_by IS NULL AND message > 0") == "\(leaked)")
                #expect(daemon.log.reclaimed == [1])
                #expect(try await daemon.sweep(&sweep, blocks: blocks) == [])
                #expect(daemon.log.reclaimed == [1], "nothing left to reclaim")
            }
        }
    }

    @Test("A sweep takes over leases of nobody, and unblocks what is blocked by nothing")
    func mended() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            await daemon.record([.sample("A"), .sample("B"), .sample("C", purchase: "subs_2")])
            try ledger.psql("UPDATE deliveries SET leased_by = 4711 WHERE NOT blocked")
            try ledger.psql("DELETE FROM deliveries WHERE id = (SELECT min(id) FROM deliveries)")
            #expect(try await daemon.sweep() == [])
            #expect(try ledger.psql("SELECT count(*) FROM deliveries WHERE leased_by IS NULL AND NOT blocked") == "2")
            #expect(daemon.log.reclaimed == [1] && daemon.log.warnings.count == 1)
        }
    }

    @Test("A sweep that fails midway goes on from there, and forgets nothing of what it found")
    func failed() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            for number in 0..<4 {
                await daemon.record([.sample(purchase: "subs_\(number)")])
                try Self.fill(ledger)
            }
            try ledger.psql("UPDATE deliveries SET leased_by = \(daemon.lease) WHERE message > 0")
            var sweep = Sweep()
            #expect(try await daemon.sweep(&sweep, blocks: 1).count == 4)
            #expect(try await !daemon.queue.look(&sweep, blocks: 1))
            try ledger.psql("ALTER TABLE deliveries RENAME TO away")
            await #expect(throws: DatabaseError.self) { _ = try await daemon.queue.look(&sweep, blocks: 1) }
            try ledger.psql("ALTER TABLE away RENAME TO deliveries")
            #expect(try await daemon.sweep(&sweep, blocks: 1) == [])
            #expect(try ledger.psql(Self.leases) == "0|1204")
        }
    }

    @Test("What waits for a purchase's order is free once the order is given up, and of that integration alone")
    func orderGivenUp() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("one", order: .purchase), .named("two", order: .purchase)])
            await daemon.record((0..<3).map { .sample("E\($0)") })
            let blocked = "SELECT string_agg(integration::text, ' ') FROM deliveries WHERE blocked"
            let (one, two) = (daemon.row("one"), daemon.row("two"))
            #expect(try ledger.psql(blocked).split(separator: " ").count == 4)
            #expect(!daemon.dispatchBuffer.takeSweepRequest())
            _ = try await daemon.queue.route([.named("one", order: .none), .named("two", order: .purchase)])
            #expect(daemon.dispatchBuffer.takeSweepRequest(), "it is not left to the next sweep in turn")
            try await daemon.sweep()
            #expect(try ledger.psql(blocked) == "\(two) \(two)")
            #expect(try await daemon.queue.lanesWithDue([one]) == [one])
            #expect(daemon.log.warnings.isEmpty, "nothing was wrong")
        }
    }

    @Test("What waits without order is put in order once there is one, and of that integration alone")
    func orderTaken() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("one", order: .none), .named("two", order: .none)])
            await daemon.record((0..<3).map { .sample("E\($0)") } + [.sample("ELSE", purchase: "subs_2")])
            let one = daemon.row("one")
            let blocked = """
                SELECT string_agg(m.type, ' ' ORDER BY d.id) FROM deliveries d JOIN messages m ON m.id = d.message
                WHERE blocked
                """
            try await daemon.sweep()
            #expect(try ledger.psql(blocked) == "")
            // That of the start.
            _ = daemon.dispatchBuffer.takeSweepRequest()
            _ = try await daemon.queue.route([.named("one", order: .purchase), .named("two", order: .none)])
            #expect(daemon.dispatchBuffer.takeSweepRequest(), "it is not left to the next sweep in turn")
            try await daemon.sweep()
            #expect(try ledger.psql(blocked) == "E1 E2")
            #expect(try ledger.psql("SELECT count(*) FROM deliveries WHERE blocked AND integration <> \(one)") == "0")
            daemon.open("one")
            let first = try await daemon.claimAll("one")
            #expect(first.map(\.message.type) == ["E0", "ELSE"])
            let second = try await daemon.queue.settle(first.map { $0.settled(.accepted) }).unblocked
            #expect(second.map(\.message.type) == ["E1"])
            let third = try await daemon.queue.settle(second.map { $0.settled(.accepted) }).unblocked
            #expect(third.map(\.message.type) == ["E2"])
            #expect(daemon.log.warnings.isEmpty, "nothing was wrong")
        }
    }

    @Test("Looks for what has become ordered come to an end, and begin again with the next change")
    func ordering() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("one", order: .purchase)])
            await daemon.record([.sample("A"), .sample("B")])
            var sweep = Sweep()
            func looked() async throws -> Bool {
                try ledger.psql("UPDATE deliveries SET blocked = false")
                try await daemon.sweep(&sweep)
                return try ledger.psql("SELECT count(*) FROM deliveries WHERE blocked") == "1"
            }
            for _ in 0..<Limits.sweepOrderingLooks { #expect(try await looked()) }
            #expect(try await !looked())
            _ = try await daemon.queue.route([.named("one", order: .none)])
            #expect(try await !looked())
            _ = try await daemon.queue.route([.named("one", order: .purchase)])
            #expect(try await looked())
        }
    }

    @Test("What is due only after years, by a clock that was ahead, is due now, and its purchase goes on in order")
    func clockSetBack() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            await daemon.record([.sample("A"), .sample("LATER", purchase: "subs_2")])
            daemon.open("all")
            let heads = try await daemon.claimAll("all")
            #expect(heads.map(\.message.type) == ["A", "LATER"])
            let day = Settlement.Verdict.retry(after: .seconds(86_400))
            _ = try await daemon.queue.settle(heads.map { $0.settled(day, status: 500) })
            try ledger.psql(
                "UPDATE deliveries SET due_at = due_at + interval '2 years' WHERE id = \(heads[0].id)")
            await daemon.record([.sample("B")])
            #expect(try await daemon.claimAll("all").isEmpty)
            try await daemon.sweep()
            #expect(daemon.log.warnings.map { $0.hasPrefix("the next attempt of 1 deliveries") } == [true])
            let first = try await daemon.claimAll("all")
            #expect(first.map(\.message.type) == ["A"])
            let next = try await daemon.queue.settle(first.map { $0.settled(.accepted) }).unblocked
            #expect(next.map(\.message.type) == ["B"])
            try await daemon.sweep()
            #expect(daemon.log.warnings.count == 1)
        }
    }

    /// The database's clock was ahead by two months as it was written.
    @Test("A delivery written by a clock that was ahead is due now if it was never tried, and not if put off since")
    func writtenAhead() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            await daemon.record([.sample("NEW", purchase: "subs_1"), .sample("TRIED", purchase: "subs_2")])
            daemon.open("all")
            let ahead = "due_at = due_at + interval '60 days', created_at = created_at + interval '60 days'"
            try ledger.psql("UPDATE deliveries SET \(ahead)")
            try ledger.psql("UPDATE deliveries SET attempts = 1 WHERE id = (SELECT max(id) FROM deliveries)")
            #expect(try await daemon.claimAll("all").isEmpty)
            try await daemon.sweep()
            #expect(daemon.log.warnings.map { $0.hasPrefix("the next attempt of 1 deliveries") } == [true])
            let new = try await daemon.claimAll("all")
            #expect(new.map(\.message.type) == ["NEW"])
            // Put off since then, as a probe is, it waits.
            _ = try await daemon.queue.settle(new.map { $0.settled(.postponed(after: .seconds(600)), status: 503) })
            try await daemon.sweep()
            #expect(try await daemon.claimAll("all").isEmpty && daemon.log.warnings.count == 1)
        }
    }

    /// The clock was ahead when a lane gave them back, as with a reload, and right when they were recorded.
    @Test("A delivery given back by a clock that was two days ahead is due now, and a wait of a day lasts")
    func givenBackAhead() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            await daemon.record([.sample("GIVEN", purchase: "subs_1"), .sample("ASKED", purchase: "subs_2")])
            daemon.open("all")
            let claimed = try await daemon.claimAll("all")
            try #require(claimed.map(\.message.type) == ["GIVEN", "ASKED"])
            try await daemon.queue.giveBack([claimed[0]])
            let asked = Settlement.Verdict.postponed(after: Limits.retryAfterMax)
            _ = try await daemon.queue.settle([claimed[1].settled(asked, status: 503)])
            try ledger.psql("UPDATE deliveries SET due_at = due_at + interval '2 days' WHERE id = \(claimed[0].id)")
            #expect(try await daemon.claimAll("all").isEmpty)
            try await daemon.sweep()
            #expect(daemon.log.warnings.map { $0.hasPrefix("the next attempt of 1 deliveries") } == [true])
            #expect(try await daemon.claimAll("all").map(\.message.type) == ["GIVEN"])
        }
    }

    @Test("A name that is known uses up no id of an integration")
    func namedTwice() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("one"), .named("two")])
            let rows = try await daemon.queue.insert([.named("one"), .named("two")]).map(\.row)
            for _ in 0..<3 { _ = try await daemon.queue.insert([.named("one"), .named("two")]) }
            let third = try await daemon.queue.insert([.named("one"), .named("two"), .named("three")]).map(\.row)
            #expect(third.prefix(2) == rows[...] && third[2] == (rows.max() ?? 0) + 1)
        }
    }

    /// The database took it and its answer was lost: it will be settled again, under the same lease.
    @Test("A delivery whose settlement is not known to be written is not claimed before it is")
    func settledTwice() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record([.sample("A", purchase: "subs_1"), .sample("B", purchase: "subs_2")])
            let handed = daemon.inbox.take()
            daemon.dispatchBuffer.release(daemon.row("all"), 2, bytes: handed.reduce(0) { $0 + $1.message.bytes })
            let retry = handed.map { $0.settled(.retry(after: .zero)) }
            _ = try await daemon.queue.settle(retry)
            daemon.dispatchBuffer.hold([handed[0]])
            #expect(try await daemon.claimAll("all").map(\.id) == [handed[1].id])
            #expect(try ledger.psql(Self.leases) == "1|2")
            _ = try await daemon.queue.settle([retry[0]])
            #expect(try await daemon.claimAll("all").map(\.id) == [handed[0].id])
            #expect(try ledger.psql(Self.leases) == "2|2")
        }
    }

    /// A promotion lost deliveries, and not the lease.
    @Test("A delivery whose id was drawn again ends by its own settlement, not by that or the return of a lost one")
    func drawnAgain() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record([.sample("LOST", purchase: "subs_1"), .sample("LOST", purchase: "subs_2")])
            let lost = daemon.inbox.take()
            try #require(lost.count == 2)
            try ledger.psql("DELETE FROM deliveries; SELECT setval('delivery_ids', \(lost[0].id), false)")
            await daemon.record([.sample("NEW", purchase: "subs_3"), .sample("NEW", purchase: "subs_4")])
            let new = daemon.inbox.take()
            try #require(new.map(\.id) == lost.map(\.id))
            _ = try await daemon.queue.settle([lost[0].settled(.accepted)])
            try await daemon.queue.giveBack([lost[1]])
            var sweep = Sweep()
            for _ in 0..<3 { #expect(try await daemon.sweep(&sweep) == []) }
            #expect(try ledger.psql(Self.leases) == "2|2")
            _ = try await daemon.queue.settle([
                new[0].settled(.accepted), lost[0].settled(.dead(reason: "lost")),
                new[1].settled(.dead(reason: "new")), lost[1].settled(.accepted),
            ])
            #expect(try ledger.psql(Self.leases) == "0|0" && daemon.dispatchBuffer.heldCount == 0)
            #expect(try ledger.psql("SELECT delivery, reason FROM dead_letters") == "\(new[1].id)|new")
        }
    }

    @Test("Only what was created in a settlement's millisecond ends by it or is put off, wherever its microseconds lie")
    func createdInMillisecond() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            let microseconds = [0, 1, 499, 500, 501, 999]
            await daemon.record(microseconds.map { .sample(purchase: "p\($0)", transaction: "t\($0)") })
            let handed = daemon.inbox.take().sorted { $0.id < $1.id }
            for (delivery, microseconds) in zip(handed, microseconds) {
                try ledger.psql(
                    """
                    UPDATE deliveries SET created_at = date_trunc('second', created_at) + interval '\(microseconds) us'
                    WHERE id = \(delivery.id)
                    """)
            }
            let created = try ledger.psql(
                "SELECT (extract(epoch FROM created_at) * 1000)::bigint FROM deliveries ORDER BY id"
            ).split(separator: "\n").compactMap { Int64($0) }
            try #require(created.count == handed.count)
            for (off, left) in [(-1, "6|6"), (1, "6|6"), (0, "0|3")] {
                _ = try await daemon.queue.settle(
                    handed.indices.map { index in
                        let delivery = handed[index]
                        return Delivery(
                            id: delivery.id, lease: delivery.lease, integration: delivery.integration,
                            message: delivery.message, attemptsMade: 0,
                            createdAt: Timestamp(milliseconds: created[index] + Int64(off))
                        ).settled(index % 2 == 0 ? .accepted : .retry(after: .zero))
                    })
                #expect(try ledger.psql(Self.leases) == left, "\(off)")
            }
        }
    }
}
