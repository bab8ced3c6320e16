import Postgres
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL, and a second daemon.
@Suite("What daemons share of breakers and rates", .serialized, .timeLimit(.minutes(30)))
struct BreakerTests {
    @Test("Opened once, seen by all, closed once")
    func openAndClosed() async throws {
        try await TestLedger.run { ledger in
            let (one, other) = (try await ledger.daemon([.named("all")]), try await ledger.daemon())
            let row = one.row("all")
            #expect(try await one.queue.readBreakers().isEmpty)
            #expect(try await one.queue.openBreaker(row, reason: "answered 503"))
            #expect(try await !other.queue.openBreaker(row, reason: "answered 500"), "another was first")
            #expect(try ledger.psql("SELECT reason FROM breakers") == "answered 503")
            #expect(try await Array(other.queue.readBreakers().keys) == [row])
            let figures = try await QueueFigures.read(from: other.pool)
            #expect(figures.map { $0.hasOpenBreaker(among: ["all"]) } == [true])
            #expect(figures.map { $0.hasOpenBreaker(among: []) } == [false], "of one that is configured no more")
            try ledger.psql("UPDATE breakers SET opened_at = now() - interval '90 seconds'")
            let after = try #require(try await other.queue.closeBreaker(row))
            #expect(after >= .seconds(90) && after < .seconds(900))
            #expect(try await one.queue.closeBreaker(row) == nil)
            #expect(try await one.queue.readBreakers().isEmpty)
        }
    }

    @Test("A clock of the database that is set back leaves no breaker without a probe for as long")
    func clockSetBack() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let row = daemon.row("all")
            func claim() async throws -> Bool { try await daemon.queue.claimProbe(row, lasting: .seconds(3_600)) }
            #expect(try await daemon.queue.openBreaker(row, reason: "answered 503"))
            try ledger.psql("UPDATE breakers SET opened_at = now() + '1 day', next_probe_at = now() + '1 day 5 s'")
            #expect(try await daemon.queue.readBreakers() == [row: true])
            #expect(try await claim())
            #expect(try await !claim(), "by its own time it is under way")
            try ledger.psql("UPDATE breakers SET probed_at = now() + '1 day', next_probe_at = now() + '1 day 1 hour'")
            #expect(try await daemon.queue.readBreakers() == [row: true])
            #expect(try await claim())
        }
    }

    @Test("A probe is one daemon's; the next is due an interval later, or when that one cannot last any longer")
    func probes() async throws {
        try await TestLedger.run { ledger in
            let (one, other) = (try await ledger.daemon([.named("all")]), try await ledger.daemon())
            let row = one.row("all")
            #expect(try await one.queue.openBreaker(row, reason: "answered 503"))
            func claim(_ daemon: Daemon) async throws -> Bool {
                try await daemon.queue.claimProbe(row, lasting: .seconds(3_600))
            }
            // Beside a time of the row, not beside now: a busy machine stands still for longer than five seconds.
            func due(after time: String) throws -> Double {
                let text = try ledger.psql("SELECT extract(epoch FROM next_probe_at - \(time)) FROM breakers")
                return try #require(Double(text))
            }
            #expect(try due(after: "opened_at") == 5)
            try ledger.psql("UPDATE breakers SET next_probe_at = now() + interval '1 hour'")
            #expect(try await !claim(one), "it is not due yet")
            try ledger.psql("UPDATE breakers SET next_probe_at = now()")
            #expect(try await one.queue.readBreakers() == [row: true])
            #expect(try await claim(one))
            #expect(try await !claim(other))
            #expect(try due(after: "probed_at") == 3_600)
            try await other.queue.endProbe(row)
            #expect(try due(after: "probed_at") == 3_600, "it is not the other's to end")
            try await one.queue.endProbe(row)
            #expect((5..<3_600).contains(try due(after: "probed_at")))
            try ledger.psql("UPDATE breakers SET probed_by = \(one.lease), probed_at = now() - interval '1 minute'")
            try await one.queue.endProbe(row)
            #expect(try due(after: "now()") <= 0, "it took longer than the interval")
            #expect(try await claim(other))
        }
    }

    @Test("A daemon that dies while it probes: the next probe is another's as soon as its lease has ended")
    func diedProbing() async throws {
        try await TestLedger.run { ledger in
            let (dead, other) = (try await ledger.daemon([.named("all")]), try await ledger.daemon())
            let row = dead.row("all")
            #expect(try await dead.queue.openBreaker(row, reason: "answered 503"))
            try ledger.psql("UPDATE breakers SET next_probe_at = now()")
            #expect(try await dead.queue.claimProbe(row, lasting: .seconds(3_600)))
            #expect(try await other.queue.readBreakers() == [row: false])
            #expect(try await !other.queue.claimProbe(row, lasting: .seconds(3_600)), "it may still be answered")
            try ledger.expire(dead)
            try await other.queue.endExpiredLeases()
            #expect(try await other.queue.readBreakers() == [row: true])
            #expect(try await other.queue.claimProbe(row, lasting: .seconds(3_600)))
            #expect(try await other.queue.readBreakers() == [row: false], "it has a new owner, who lives")
            // Slots that it had reserved go unused: nobody waits for them.
            _ = try await dead.queue.reserveSlots(row, count: 5, interval: .milliseconds(10), notBefore: .zero)
            let next = try await other.queue.reserveSlots(
                row, count: 1, interval: .milliseconds(10), notBefore: .zero)
            #expect(next <= .now + .milliseconds(50))
        }
    }

    @Test("Two who ask for one probe at once: one gets it")
    func race() async throws {
        try await TestLedger.run { ledger in
            let (one, other) = (try await ledger.daemon([.named("all")]), try await ledger.daemon())
            let row = one.row("all")
            #expect(try await one.queue.openBreaker(row, reason: "answered 503"))
            for _ in 0..<20 {
                try ledger.psql("UPDATE breakers SET next_probe_at = now()")
                async let first = one.queue.claimProbe(row, lasting: .seconds(3_600))
                async let second = other.queue.claimProbe(row, lasting: .seconds(3_600))
                let granted = [try await first, try await second]
                #expect(granted.count(where: \.self) == 1)
            }
        }
    }

    @Test("A failed probe leaves its delivery as it was, behind what is due, and its attempt in the history")
    func keptDelivery() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record([.sample(purchase: "subs_1"), .sample(purchase: "subs_2")])
            let handed = daemon.inbox.take()
            try ledger.psql("UPDATE deliveries SET attempts = 2")
            let probe = Delivery(
                id: handed[0].id, lease: handed[0].lease, integration: handed[0].integration,
                message: handed[0].message, attemptsMade: 2,
                createdAt: handed[0].createdAt)
            try await daemon.queue.giveBack([handed[1]])
            _ = try await daemon.queue.settle([
                Settlement(
                    delivery: probe, verdict: .postponed(after: .zero), httpStatus: 503, latencyMilliseconds: 3,
                    failure: "answered 503")
            ])
            #expect(try ledger.psql("SELECT attempts, leased_by IS NULL FROM deliveries ORDER BY id") == "2|t\n2|t")
            #expect(try ledger.psql("SELECT attempt, outcome, http_status FROM attempts") == "3|retry|503")
            #expect(try await daemon.claimAll("all").map(\.id) == [handed[1].id, handed[0].id])
        }
    }

    @Test("Slots of two daemons never meet, and lie an interval apart")
    func slots() async throws {
        try await TestLedger.run { ledger in
            let (one, other) = (try await ledger.daemon([.named("all")]), try await ledger.daemon())
            let row = one.row("all")
            // Long beside what a busy machine takes between two reservations.
            let interval = Duration.seconds(40)
            func reserve(_ daemon: Daemon, _ count: Int, notBefore: Duration = .zero) async throws -> Duration {
                let began = ContinuousClock.now
                let first = try await daemon.queue.reserveSlots(
                    row, count: count, interval: interval, notBefore: notBefore)
                // One that has come by now could be used at once.
                return first <= .now ? min(.zero, first - began) : first - began
            }
            #expect(try await reserve(one, 10) == .zero)
            #expect((Duration.seconds(200)...(.seconds(400))).contains(try await reserve(other, 5)))
            #expect((Duration.seconds(400)...(.seconds(600))).contains(try await reserve(one, 1)))
            let far = try await reserve(other, 1, notBefore: .seconds(6_000))
            #expect((Duration.seconds(5_500)...(.seconds(9_000))).contains(far), "later, because it asked for it")
            // The clock of the database was a day ahead.
            try ledger.psql("UPDATE rate_slots SET next_at = now() + interval '1 day'")
            #expect(try await reserve(one, 1) <= .seconds(1_300))
            try ledger.psql("UPDATE rate_slots SET next_at = now() - interval '1 day'")
            #expect(try await reserve(one, 1) == .zero, "what nobody used is gone")
        }
    }

    @Test("Slots that many reserve at once are each one's own")
    func slotRace() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let row = daemon.row("all")
            let began = try ledger.psql("SELECT now()")
            try await withThrowingTaskGroup { group in
                for _ in 0..<30 {
                    group.addTask {
                        _ = try await daemon.queue.reserveSlots(
                            row, count: 10, interval: .milliseconds(100), notBefore: .zero)
                    }
                }
                try await group.waitForAll()
            }
            // Two that shared a slot would have moved the row's time less.
            let moved = try ledger.psql("SELECT next_at - '\(began)' >= interval '30 s' FROM rate_slots")
            #expect(moved == "t")
        }
    }
}
