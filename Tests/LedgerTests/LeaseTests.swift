import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL.
@Suite("The queue: leases, the dead and the leaked", .serialized, .timeLimit(.minutes(30)))
struct LeaseTests {
    private static let leases = "SELECT count(*) FILTER (WHERE leased_by IS NOT NULL), count(*) FROM deliveries"

    @Test("Settled under a lost lease: nothing changes, the attempt is history")
    func lostLease() async throws {
        try await TestLedger.run { ledger in
            let (frozen, other) = (try await ledger.daemon([.named("all")]), try await ledger.daemon([.named("all")]))
            frozen.open("all")
            await frozen.record([
                .sample("A", purchase: "subs_1"), .sample("B", purchase: "subs_2"), .sample("C", purchase: "subs_2"),
            ])
            let held = frozen.inbox.take()
            try ledger.expire(frozen)
            try await other.endExpiredLeases()
            #expect(other.log.reclaimed == [2])
            #expect(try ledger.psql(Self.leases) == "0|3")
            let before = try ledger.psql("SELECT * FROM deliveries ORDER BY id")
            let settled = try await frozen.queue.settle([
                held[0].settled(.dead(reason: "x")), held[1].settled(.accepted),
            ])
            #expect(settled.unblocked.isEmpty)
            #expect(try await frozen.queue.settle([held[0].settled(.retry(after: .seconds(60)))]).unblocked.isEmpty)
            #expect(try ledger.psql("SELECT * FROM deliveries ORDER BY id") == before)
            #expect(try ledger.psql("SELECT count(*) FROM dead_letters") == "0")
            #expect(
                try ledger.psql("SELECT string_agg(outcome, ' ' ORDER BY outcome) FROM attempts")
                    == "accepted dead retry")
            // It wakes up, learns it, and works on under another id.
            let old = frozen.lease
            #expect(try await !frozen.queue.keepAlive())
            #expect(frozen.lease > old && frozen.dispatchBuffer.heldCount == 0)
            #expect(frozen.log.all { if case .leaseLost(let id) = $0 { id } else { nil } } == [old])
            #expect(try await frozen.queue.keepAlive())
            #expect(try await frozen.claimAll("all").map(\.message.type) == ["A", "B"])
        }
    }

    @Test("What a daemon has locked that was frozen as it wrote keeps the rest of its deliveries from nobody")
    func frozenAsItWrote() async throws {
        try await TestLedger.run { ledger in
            let (frozen, other) = (try await ledger.daemon([.named("all")]), try await ledger.daemon([.named("all")]))
            frozen.open("all")
            await frozen.record([.sample("A", purchase: "subs_1"), .sample("B", purchase: "subs_2")])
            other.open("all")
            let locked = "(SELECT min(id) FROM deliveries)"
            try await ledger.during("SELECT FROM deliveries WHERE id = \(locked) FOR UPDATE") {
                try ledger.expire(frozen)
                try await other.endExpiredLeases()
                #expect(other.log.reclaimed == [1])
                #expect(try await other.claimAll("all").count == 1)
                #expect(try ledger.psql("SELECT leased_by FROM deliveries WHERE id = \(locked)") == "\(frozen.lease)")
            }
            try await other.sweep()
            #expect(try await other.claimAll("all").count == 1)
        }
    }

    @Test("A daemon ends leases and renews its own while the queue is locked, or takes long to look at")
    func lockedQueue() async throws {
        try await TestLedger.run { ledger in
            let (dead, daemon) = (try await ledger.daemon([.named("all")]), try await ledger.daemon([.named("all")]))
            dead.open("all")
            await dead.record([.sample("A")])
            try await ledger.during("LOCK TABLE deliveries IN EXCLUSIVE MODE") {
                try ledger.expire(dead)
                try await daemon.queue.endExpiredLeases()
                try ledger.psql("DELETE FROM daemons")
                #expect(try await !daemon.queue.keepAlive())
                #expect(try await daemon.queue.keepAlive())
                #expect(try ledger.psql("SELECT id FROM daemons") == "\(daemon.lease)")
            }
            #expect(daemon.dispatchBuffer.takeSweepRequest())
            try await daemon.sweep()
            #expect(daemon.log.reclaimed == [1])
            daemon.open("all")
            #expect(try await daemon.claimAll("all").map(\.message.type) == ["A"])
        }
    }

    @Test("An attempt of a lost lease settles nothing of the next one, in one batch with an attempt of that")
    func twoLeases() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record((1...3).map { .sample("E\($0)", purchase: "subs_\($0)") })
            let before = daemon.inbox.take()
            try ledger.psql("DELETE FROM daemons")
            #expect(try await !daemon.queue.keepAlive())
            try await daemon.sweep()
            let after = try await daemon.claimAll("all")
            #expect(after.map(\.id) == before.map(\.id) && after.map(\.lease) != before.map(\.lease))
            // The first two are under way once more; the third has ended under both.
            _ = try await daemon.queue.settle([
                before[0].settled(.accepted), before[1].settled(.retry(after: .seconds(60))),
                before[2].settled(.accepted), after[2].settled(.retry(after: .seconds(60))),
            ])
            #expect(
                try ledger.psql("SELECT attempts, leased_by FROM deliveries ORDER BY id")
                    == "0|\(daemon.lease)\n0|\(daemon.lease)\n1|")
            #expect(daemon.dispatchBuffer.heldCount == 2, "still to be settled")
            #expect(try await daemon.sweep() == [])
            try await daemon.queue.giveBack([before[0]])
            #expect(try ledger.psql(Self.leases) == "2|3", "given back under the lease that it was taken under")
            _ = try await daemon.queue.settle(after.prefix(2).map { $0.settled(.accepted) })
            #expect(try ledger.psql(Self.leases) == "0|1")
        }
    }

    @Test("A lease ends by the database's time alone, whatever another daemon says of its process scope and process")
    func byTimeAlone() async throws {
        try await TestLedger.run { ledger in
            var daemons: [Daemon] = []
            for _ in 1...3 { daemons.append(try await ledger.daemon([.named("all")])) }
            for (index, daemon) in daemons.enumerated() {
                daemon.open("all")
                await daemon.record([.sample(purchase: "subs_\(index)")])
            }
            #expect(
                try ledger.psql("SELECT count(DISTINCT place) FROM daemons") == "3", "no older daemon's process scope")
            // As a daemon of an older version registers, on this machine or another.
            try ledger.admitOlderDaemons()
            try ledger.psql(
                """
                INSERT INTO daemons (place, process_id, process_started, version, expires_at)
                VALUES ('unknown ', 1, 0, 'older', now() + interval '1 hour')
                """)
            try await daemons[0].endExpiredLeases()
            #expect(try ledger.psql("SELECT count(*) FROM daemons") == "4")
            try ledger.expire(daemons[1])
            try ledger.psql("UPDATE daemons SET expires_at = now() - interval '1 second' WHERE version = 'older'")
            try await daemons[0].endExpiredLeases()
            #expect(try ledger.psql("SELECT count(*) FROM daemons") == "2")
            #expect(daemons[0].log.reclaimed == [1])
            #expect(try ledger.psql(Self.leases) == "2|3")
        }
    }

    @Test("A daemon ends nobody's lease before all had the time to reach a database that was away, and never its own")
    func grace() async throws {
        try await TestLedger.run { ledger in
            let other = try await ledger.daemon()
            let began = ContinuousClock.now
            let one = try await ledger.daemon()
            let mayExpireOthers = one.registration.mayExpireOthers
            // Some seconds later it may, for a while: a machine that stood still for as long shows nothing.
            let isEarly = ContinuousClock.now - began < Limits.leaseExpiryGrace
            #expect(!mayExpireOthers || !isEarly, "it has only just reached the database")
            try ledger.psql("UPDATE daemons SET expires_at = now() - interval '1 minute'")
            try await one.queue.expireLeases()
            #expect(try ledger.psql("SELECT count(*) FROM daemons") == "2")
            try await one.endExpiredLeases()
            #expect(try ledger.psql("SELECT id FROM daemons") == "\(one.lease)", "its own it renews")
            #expect(try await one.queue.keepAlive())
            #expect(try await !other.queue.keepAlive())
        }
    }

    @Test("Contact begins anew after a gap between renewals, however short of a lease it is")
    func unbrokenContact() {
        let start = ContinuousClock.now
        var contact = UnbrokenContact(asked: start)
        #expect(!contact.isLongEnough(at: start + .seconds(5)))
        contact.renewed(asked: start + .seconds(4))
        #expect(contact.isLongEnough(at: start + .seconds(6)) && contact.isLongEnough(at: start + .seconds(10)))
        #expect(!contact.isLongEnough(at: start + .seconds(11)), "the database is away, as far as is known")
        contact.renewed(asked: start + .seconds(10))
        #expect(contact.isLongEnough(at: start + .seconds(10)), "late, and no gap")
        contact.renewed(asked: start + .seconds(22))
        #expect(contact.since == start + .seconds(22), "the outage was shorter than a lease")
        contact.renewed(asked: start + .seconds(26))
        #expect(!contact.isLongEnough(at: start + .milliseconds(27_900)))
        #expect(contact.isLongEnough(at: start + .seconds(28)))
    }

    @Test("A lease that was renewed a moment ago is not ended, whatever the database's clock says; one that stays is")
    func clockSetForward() {
        let start = ContinuousClock.now
        var watch = LeaseWatch()
        func look(after seconds: Int, _ leases: (end: Int64, hasRunOut: Bool)...) -> [Int64] {
            let rows = leases.enumerated().map { index, lease in
                OtherLease(daemon: Int64(index), end: lease.end, hasRunOut: lease.hasRunOut)
            }
            return watch.look(rows, at: start + .seconds(seconds)).map(\.daemon)
        }
        // The first renews every four seconds, the second died at the start.
        #expect(look(after: 0, (15, false), (15, false)) == [])
        #expect(look(after: 4, (19, false), (15, false)) == [])
        // The clock is set forward, then back before and forward after a renewal.
        #expect(look(after: 5, (19, true), (15, true)) == [], "neither was seen for long enough")
        #expect(look(after: 7, (19, true), (15, true)) == [1])
        #expect(look(after: 8, (9, true)) == [])
        #expect(look(after: 12, (43, false)) == [])
        // Dead from here on.
        #expect(look(after: 27, (43, true)) == [0], "it was the same for fifteen seconds")
        #expect(look(after: 28, (43, true)) == [0], "until it is deleted")
        // This daemon was frozen; the other has renewed meanwhile, and its lease seems to have run out.
        #expect(look(after: 90, (80, true)) == [])
        #expect(look(after: 95, (80, true)) == [] && look(after: 96, (80, true)) == [0])
    }

    @Test("A dead daemon's lease ends in time though the database's clock is set back; a living one's does not")
    func clockSetBack() {
        let start = ContinuousClock.now
        var watch = LeaseWatch()
        func look(after seconds: Int, _ ends: Int64...) -> [Int64] {
            let rows = ends.enumerated().map { OtherLease(daemon: Int64($0), end: $1, hasRunOut: false) }
            return watch.look(rows, at: start + .seconds(seconds)).map(\.daemon)
        }
        #expect(look(after: 0, 4_000, 4_000) == [])
        // An hour back: the first renews by the new time, the second is dead.
        for second in stride(from: 4, through: 16, by: 4) { #expect(look(after: second, Int64(second), 4_000) == []) }
        #expect(look(after: 20, 20, 4_000) == [])
        #expect(look(after: 24, 24, 4_000) == [1])
    }

    @Test("A lease that is renewed between being seen and being ended stays")
    func renewedMeanwhile() async throws {
        try await TestLedger.run { ledger in
            let (one, other) = (try await ledger.daemon(), try await ledger.daemon())
            try ledger.psql("UPDATE daemons SET expires_at = now() - interval '1 minute' WHERE id = \(other.lease)")
            let seen = try await one.pool.withSession { session throws(DatabaseError) in
                try session.run(QueueStatements.otherLeases, one.lease)
            }
            #expect(seen.map(\.daemon) == [other.lease] && seen.allSatisfy(\.hasRunOut))
            #expect(try await other.queue.keepAlive())
            let ended = try await one.pool.withSession { session throws(DatabaseError) in
                try session.run(QueueStatements.expire, (seen.map(\.daemon), seen.map(\.end)))
            }
            #expect(ended.isEmpty)
            #expect(try ledger.psql("SELECT count(*) FROM daemons") == "2")
        }
    }

    @Test("What is unblocked is leased under the lease of that moment, not under one that was lost in the wait")
    func successorsOfALostLease() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record([.sample("A"), .sample("B")])
            let held = daemon.inbox.take()
            let old = daemon.lease
            let settled = try await ledger.holding(
                { session throws(DatabaseError) in try session.script("SELECT FROM deliveries FOR UPDATE") },
                { try await daemon.queue.settle([held[0].settled(.accepted)]) },
                meanwhile: {
                    try ledger.psql("DELETE FROM daemons")
                    #expect(try await !daemon.registration.renew())
                    try await daemon.registration.register()
                })
            #expect(daemon.lease > old)
            #expect(settled.unblocked.map(\.lease) == [daemon.lease])
            #expect(try ledger.psql("SELECT leased_by FROM deliveries") == "\(daemon.lease)")
        }
    }

    @Test("What the lease was lost for on its way to the lane leaves its slots and is held no more")
    func slotsOfALostLease() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")], slotsPerLane: 4)
            daemon.open("all")
            let recorder = daemon.recorder(RecordQueue())
            let delivery = Delivery.sample(1, integration: daemon.row("all"), bytes: 100, lease: daemon.lease)
            #expect(daemon.dispatchBuffer.reserve(daemon.row("all"), upTo: 1, bytesEach: 100) == 1)
            daemon.dispatchBuffer.hold([delivery])
            try ledger.psql("DELETE FROM daemons")
            #expect(try await !daemon.registration.renew())
            recorder.dispatch([delivery])
            #expect(daemon.inbox.take().isEmpty && daemon.dispatchBuffer.heldCount == 0)
            #expect(daemon.dispatchBuffer.reserve(daemon.row("all"), upTo: 9) == 4)
            #expect(daemon.dispatchBuffer.room(daemon.row("all")) == Limits.laneBytesMax)
        }
    }

    @Test("A successor takes over at once from the daemon that had its predecessor's key, and from no other")
    func predecessor() async throws {
        try await TestLedger.run { ledger in
            func key(_ token: String) -> Identifier {
                KeyHash.daemon(machine: [UInt8](repeating: 7, count: 16), device: 1, inode: 2, token: token)
            }
            let dead = try await ledger.daemon([.named("all")], key: key("a"))
            let (living, keyless) = (try await ledger.daemon(key: key("b")), try await ledger.daemon())
            dead.open("all")
            await dead.record([.sample("A")])
            let successor = try await ledger.daemon([.named("all")], key: key("c"))
            try await successor.queue.takeOver(fromPredecessor: key("elsewhere"))
            #expect(try ledger.psql("SELECT count(*) FROM daemons") == "4")
            try await successor.queue.takeOver(fromPredecessor: key("a"))
            #expect(
                try ledger.psql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM daemons")
                    == [living, keyless, successor].map { "\($0.lease)" }.joined(separator: " "))
            try await successor.sweep()
            #expect(successor.log.reclaimed == [1])
            successor.open("all")
            #expect(try await successor.claimAll("all").map(\.message.type) == ["A"])
        }
    }

    /// After a restore that it was not stopped for.
    @Test("A daemon does not renew what has its number and is another daemon's, and registers anew")
    func anothersLease() async throws {
        try await TestLedger.run { ledger in
            let key = KeyHash.daemon(machine: [UInt8](repeating: 7, count: 16), device: 1, inode: 2, token: "a")
            for daemon in [try await ledger.daemon(key: key), try await ledger.daemon()] {
                #expect(try await daemon.queue.keepAlive())
                let old = daemon.lease
                let row = "SELECT expires_at FROM daemons WHERE id = \(old)"
                try ledger.psql("UPDATE daemons SET key = gen_random_uuid() WHERE id = \(old)")
                let end = try ledger.psql(row)
                #expect(try await !daemon.queue.keepAlive())
                #expect(daemon.lease > old)
                #expect(try ledger.psql(row) == end)
            }
        }
    }

    @Test("Given back: free for anybody, and not held, even if the lease is lost meanwhile")
    func giveBack() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record((0..<3).map { .sample(purchase: "subs_\($0)") })
            let handed = daemon.inbox.take()
            try await daemon.queue.giveBack(Array(handed.prefix(2)))
            #expect(try ledger.psql(Self.leases) == "1|3")
            #expect(daemon.dispatchBuffer.heldCount == 1)
            try ledger.psql("UPDATE deliveries SET leased_by = 4711 WHERE leased_by IS NOT NULL")
            try await daemon.queue.giveBack(Array(handed.suffix(1)))
            #expect(try ledger.psql(Self.leases) == "1|3", "another's lease is left alone")
            #expect(daemon.dispatchBuffer.heldCount == 0)
        }
    }

    @Test("What the database did not answer for is held no more, so that the sweep can give it back")
    func giveBackUnanswered() async throws {
        let cluster = try TestCluster()
        try await TestLedger.run(on: cluster) { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record((0..<4).map { .sample("E\($0)", purchase: "subs_\($0 / 2)") })
            let handed = daemon.inbox.take()
            #expect(handed.count == 2 && daemon.dispatchBuffer.heldCount == 2)
            try cluster.stop(mode: "immediate")
            await #expect(throws: DatabaseError.self) { try await daemon.queue.giveBack([handed[0]]) }
            #expect(daemon.dispatchBuffer.heldCount == 1)
            await #expect(throws: SettleFailure.self) {
                _ = try await daemon.queue.settle([handed[1].settled(.accepted)])
            }
            #expect(daemon.dispatchBuffer.heldCount == 1, "still to be settled")
            var cursor = ClaimCursor()
            await #expect(throws: DatabaseError.self) {
                _ = try await daemon.queue.claim(daemon.row("all"), upTo: 10, cursor: &cursor)
            }
            try cluster.start()
            var states = daemon.poolStates.makeAsyncIterator()
            while let state = await states.next() { if case .recovered = state { break } }
            let settled = try await daemon.queue.settle([handed[1].settled(.accepted)])
            #expect(settled.unblocked.map(\.message.type) == ["E3"])
            var sweep = Sweep()
            #expect(try await daemon.sweep(&sweep) == [handed[0].id])
            #expect(try await daemon.sweep(&sweep) == [])
            #expect(try await daemon.claimAll("all").map(\.message.type) == ["E0"])
        }
    }

    @Test("Leaving gives everything back and registers nothing anew")
    func leave() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record((0..<3).map { .sample(purchase: "subs_\($0)") })
            #expect(daemon.registration.mayStart)
            try await daemon.queue.leave()
            #expect(try ledger.psql(Self.leases) == "0|3")
            #expect(daemon.dispatchBuffer.heldCount == 0 && !daemon.registration.mayStart)
            #expect(await daemon.recordOnce([.event(.sample("LATE"))]) == [.unavailable])
            await #expect(throws: RegistrationLost.self) { try await daemon.registration.register() }
            #expect(try ledger.psql("SELECT count(*) FROM daemons") == "0")
            #expect(try ledger.psql("SELECT count(*) FROM events") == "3")
        }
    }

    @Test("While a daemon of an older version lives, purchases are written in the form that it reads")
    func olderDaemon() async throws {
        try await TestLedger.run { ledger in
            try ledger.writeWithoutTimedKeys()
            let daemon = try await ledger.daemon([.named("all")])
            let form = "SELECT substr(convert_from(state, 'UTF8'), 1, 1) FROM purchases WHERE key = 'subs_1'"
            try ledger.psql("INSERT INTO daemons (version, expires_at) VALUES ('0.1.0', now() + interval '1 hour')")
            #expect(try await daemon.registration.renew())
            await daemon.record([.sample(purchase: "subs_1")])
            #expect(try ledger.psql(form) == "1")
            // Out of reach for a while: it may come back and read on.
            try ledger.psql("UPDATE daemons SET expires_at = now() - interval '1 s' WHERE version = '0.1.0'")
            #expect(try await daemon.registration.renew())
            await daemon.record([.sample("PAUSE", purchase: "subs_1")])
            #expect(try ledger.psql(form) == "1")
            try ledger.psql("DELETE FROM daemons WHERE version = '0.1.0'")
            #expect(try await daemon.registration.renew())
            await daemon.record([.sample("RENEW", purchase: "subs_1")])
            #expect(try ledger.psql(form) == "2")
        }
    }

    @Test("Where a newer daemon has migrated since it looked, one that starts does not register; one that serves does")
    func newerSchema() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try ledger.psql("INSERT INTO schema_migrations (version, name, checksum) VALUES (9999, 'newer', '')")
            try ledger.psql("DELETE FROM daemons")
            #expect(try await !daemon.queue.keepAlive())
            #expect(try ledger.psql("SELECT count(*) FROM daemons") == "1")
            let starting = Registration(pool: daemon.pool, key: nil, version: "x", clock: DatabaseClock())
            await #expect(throws: MigrationError.self) { try await starting.register(isStart: true) }
            #expect(try ledger.psql("SELECT count(*) FROM daemons") == "1")
        }
    }

    @Test("A daemon that asks twice at once registers once")
    func registersOnce() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try ledger.psql("DELETE FROM daemons")
            #expect(try await !daemon.registration.renew())
            #expect(throws: RegistrationLost.self) { try daemon.registration.current() }
            async let one = daemon.registration.register()
            async let other = daemon.registration.register()
            let ids = try await [one, other]
            #expect(ids[0] == ids[1])
            #expect(try ledger.psql("SELECT count(*) FROM daemons") == "1")
        }
    }

    @Test("A hint reaches who listens")
    func wakeUps() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let (woken, wake) = AsyncStream<Void>.makeStream()
            let settings = try TestLedger.settings(ledger.connectionString)
            let wakeUps = WakeUps(settings: settings)
            let listening = Task { await wakeUps.run { wake.yield() } }
            // Listening begins in its own time: hints until one is heard.
            let hinting = Task {
                while !Task.isCancelled {
                    _ = try await daemon.pool.withSession { session throws(DatabaseError) in
                        try session.execute(RecordStatements.notify, "")
                    }
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
            var wakes = woken.makeAsyncIterator()
            #expect(await wakes.next() != nil)
            hinting.cancel()
            listening.cancel()
            await listening.value
        }
    }

    @Test("Whoever sees that a lease is gone looks for what was leased under it: who ended it may have left before")
    func endedBySomebody() async throws {
        try await TestLedger.run { ledger in
            var daemons: [Daemon] = []
            for _ in 0..<3 { daemons.append(try await ledger.daemon([.named("all")])) }
            let (dead, leaving, third) = (daemons[0], daemons[1], daemons[2])
            dead.open("all")
            await dead.record([.sample("A")])
            try await third.queue.expireLeases()
            #expect(!third.dispatchBuffer.takeSweepRequest())
            try ledger.expire(dead)
            try await leaving.queue.endExpiredLeases()
            try await leaving.queue.leave()
            #expect(try ledger.psql(Self.leases) == "1|1")
            try await third.queue.expireLeases()
            #expect(third.dispatchBuffer.takeSweepRequest())
            try await third.sweep()
            #expect(try ledger.psql(Self.leases) == "0|1")
        }
    }
}
