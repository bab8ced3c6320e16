import Foundation
import TestSupport
import Testing
import Vocabulary

extension FaultTests {
    /// Seconds. Limits.drainTimeout is 20 s, and the machine may stand still besides; the unit has 90 s.
    private static let stopsWithin = 60.0

    @Test("SIGTERM under load with a slow receiver: in time, no lease left behind, nothing sent twice")
    func terminated() throws {
        let receiver = try Receiver { _ in .after(0.3, .ok) }
        let relay = try Relay.running([.init("slow", receiver, ["concurrency": "64", "order": #""none""#])])
        defer { relay.end() }
        let load = FaultLoad("s", on: [relay.port])
        var (slowestStop, stops, wholeStops) = (0.0, 0, 0)
        // Where the machine stands still for half of the time that a stop has, attempts are cut, and the daemon says
        // so: then another stop is one that cuts none.
        while wholeStops < 2, stops < 6 {
            #expect(load.waitForProgress(150))
            let began = Date()
            #expect(relay.stop(within: Self.stopsWithin) == .exited(0))
            slowestStop = max(slowestStop, Date().timeIntervalSince(began))
            stops += 1
            if relay.lines.contains(where: { $0.contains("stopped, nothing was left under way") }),
                !relay.lines.contains(where: { $0.contains("could not be recorded") })
            {
                wholeStops += 1
            }
            #expect(try relay.database.leftBehind() == 0)
            try relay.start()
        }
        let tally = try #require(load.finish())
        #expect(try relay.database.drained())

        let receipts = Self.expectComplete(receiver, of: tally, ordered: false)
        // Nothing was even tried twice, unless a stop says that it has cut attempts.
        #expect(wholeStops == 2)
        let isCut = stops > wholeStops
        #expect(receipts.duplicates == 0 || isCut)
        #expect(receipts.messages.values.allSatisfy { $0.arrivals.count == 1 } || isCut)
        try Self.expectSound(try relay.database, of: tally)
        #expect(Set(tally.refusals.keys).isSubset(of: [503]))
        print(
            "terminated: \(tally.acknowledged.count) events, \(tally.unanswered) unanswered, "
                + "stopped in \(slowestStop) s")
    }

    @Test("SIGTERM while the database stores nothing: what is under way ends, and every lease is given back")
    func terminatedWhileNothingIsStored() throws {
        let receiver = try Receiver { _ in .after(1, .ok) }
        let relay = try Relay.running([.init("slow", receiver, ["concurrency": "1"])])
        defer { relay.end() }
        for number in 1...20 {
            #expect(try relay.source().post(.init("ACTIVATE", .user("u"), purchase: "subs_\(number)")) == 200)
        }
        let database = try relay.database
        let holder = try ChildProcess([
            TestCluster.psql, "-X", "-q", "-d", database.connectionString, "-c",
            "BEGIN; LOCK TABLE events IN SHARE ROW EXCLUSIVE MODE; SELECT pg_sleep(600)",
        ])
        defer {
            _ = try? database.rows(
                """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND query LIKE '%pg_sleep(600)' AND pid <> pg_backend_pid()
                """)
            holder.signal(SIGKILL)
        }
        let locks = "SELECT count(*) FROM pg_locks WHERE relation = 'events'::regclass AND "
        #expect(try eventually { try database.value(locks + "granted AND mode = 'ShareRowExclusiveLock'") != "0" })
        let source = relay.source()
        // Again and again: each is given up after some seconds, in which a busy machine may not have looked.
        Thread.detachNewThread { _ = try? source.post(.init("ACTIVATE", .user("u"), purchase: "subs_99")) }
        #expect(try eventually { try database.value(locks + "NOT granted") != "0" })
        #expect(relay.stop(within: Self.stopsWithin) == .exited(0))
        #expect(!relay.lines.contains { $0.contains("without giving leases back") }, "\(relay.lines)")
        #expect(try database.leftBehind() == 0)
        #expect(try database.count("daemons") == 0)
        #expect(try database.count("attempts") == receiver.accepted.count, "each is settled")
    }

    @Test("SIGTERM while the database does not answer: in time all the same, and nothing lost")
    func terminatedWithoutDatabase() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver { _ in .after(0.1, .ok) }
        let relay = try Relay.running([.init("backend", receiver)], storage: .given(try cluster.createDatabase()))
        defer { relay.end() }
        let load = FaultLoad("z", on: [relay.port])
        #expect(load.waitForProgress(60))
        let frozen = try FrozenCluster(cluster)
        // Something is on its way into the database: it has to be waited for, but not for ever.
        #expect(load.waitForRefusals(1))
        #expect(relay.stop(within: Self.stopsWithin) == .exited(0))
        frozen.thaw()
        try relay.start()
        let tally = try #require(load.finish())
        #expect(try relay.database.drained())
        _ = Self.expectComplete(receiver, of: tally)
        try Self.expectSound(try relay.database, of: tally)
    }
}
