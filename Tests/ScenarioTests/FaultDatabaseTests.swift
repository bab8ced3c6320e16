import Foundation
import TestSupport
import Testing
import Vocabulary

extension FaultTests {
    @Test("PostgreSQL stopped for 20 s under load: 503 meanwhile, recovery without a restart, nothing lost")
    func databaseStopped() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver(script: Self.oneInFive)
        let relay = try Relay.running(
            [.init("backend", receiver, ["schedule": Self.manyGaps])], storage: .given(try cluster.createDatabase()))
        defer { relay.end() }
        let process = relay.processIdentifier
        let load = FaultLoad("p", on: [relay.port])
        #expect(load.waitForProgress(100))

        try cluster.stop(mode: "immediate")
        let stopped = Date()
        #expect(load.waitForRefusals(20))
        #expect(try eventually { try relay.get("/readyz").status == 503 })
        #expect(try relay.get("/healthz").status == 200)
        Thread.sleep(until: stopped.addingTimeInterval(20))
        try cluster.start()
        #expect(try eventually { try relay.get("/readyz").status == 200 })
        #expect(load.waitForProgress(100))

        try expectRecovered(relay, load, receiver, process: process)
    }

    @Test("A server that takes no changes any more is none: journal and doctor name it, and it is found once it does")
    func readOnly() throws {
        let cluster = try TestCluster(durable: true)
        let relay = try Relay.running([], storage: .given(try cluster.createDatabase()))
        defer { relay.end() }
        try cluster.psql("ALTER SYSTEM SET default_transaction_read_only = on")
        try cluster.psql("SELECT pg_reload_conf()")
        let isAway = try eventually {
            _ = try relay.source().postOnce(Webhook("ACTIVATE", .user("u"), purchase: "subs_1"))
            return try relay.get("/readyz").status == 503
        }
        #expect(isAway)
        #expect(relay.waitForLine("database out of reach", "takes no changes") != nil)
        let doctor = try relay.command("doctor", "--config", relay.configuration)
        #expect(doctor.output.contains("takes no changes"), "\(doctor.output)")
        #expect(!relay.lines.contains { $0.contains("database is back") })
        try cluster.psql("ALTER SYSTEM RESET default_transaction_read_only")
        try cluster.psql("SELECT pg_reload_conf()")
        #expect(try eventually { try relay.get("/readyz").status == 200 })
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
    }

    @Test("Connections of PostgreSQL killed again and again: nothing lost, nothing stuck")
    func connectionsKilled() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver(script: Self.oneInFive)
        let relay = try Relay.running(
            [.init("backend", receiver, ["schedule": Self.manyGaps])], storage: .given(try cluster.createDatabase()))
        defer { relay.end() }
        let process = relay.processIdentifier
        let load = FaultLoad("t", on: [relay.port])
        var killed = 0
        for _ in 0..<6 {
            #expect(load.waitForProgress(.random(in: 5...20)))
            let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'posthouse'"
            killed += try relay.database.rows(sql).count
        }
        #expect(killed > 6)
        try expectRecovered(relay, load, receiver, process: process)
    }

    @Test("PostgreSQL frozen under load: every request is answered in time, and it recovers")
    func databaseFrozen() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver()
        let relay = try Relay.running(
            [.init("backend", receiver, ["schedule": Self.manyGaps])], storage: .given(try cluster.createDatabase()))
        defer { relay.end() }
        let process = relay.processIdentifier
        let load = FaultLoad("f", on: [relay.port])
        #expect(load.waitForProgress(100))

        let frozen = try FrozenCluster(cluster)
        let began = Date()
        #expect(load.waitForRefusals(1))
        // The page is there just when somebody looks, while PostgreSQL stands still, and says so once the lease ends.
        #expect(try relay.get("/metrics").status == 200)
        #expect(try eventually { try relay.get("/metrics").text.contains("posthouse_database_up 0\n") })
        Thread.sleep(until: began.addingTimeInterval(20))
        frozen.thaw()
        #expect(load.waitForProgress(100))
        #expect(try eventually { try relay.get("/readyz").status == 200 })
        #expect(try eventually { try relay.get("/metrics").text.contains("posthouse_database_up 1\n") })

        try expectRecovered(relay, load, receiver, process: process)
    }

    @Test("An integration's row that a promotion loses is back under its number: what waited arrives after a restart")
    func integrationLost() throws {
        let receiver = try Receiver { _ in .status(500) }
        let relay = try Relay.running([.init("backend", receiver, ["schedule": #"["1h"]"#])])
        defer { relay.end() }
        let database = try relay.database
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(receiver.wait { $0.count == 1 })
        #expect(try eventually { try database.count("deliveries", where: "leased_by IS NULL") == 1 })
        let row = "SELECT id, name FROM integrations"
        let before = try database.rows(row)
        try database.rows("DELETE FROM integrations")
        #expect(try eventually { try database.rows(row) == before })
        receiver.answer { _ in .ok }
        try relay.restart()
        #expect(try relay.command("retry", "backend", "--config", relay.configuration).end == .exited(0))
        #expect(receiver.waitForAccepted(1))
    }

    @Test("A daemon whose integration has another number in the database ends, and started anew it has that number")
    func integrationRenumbered() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        try relay.database.rows("UPDATE integrations SET name = 'another'")
        #expect(relay.child?.waitForEnd(180) == .exited(1))
        #expect(relay.waitForLine("integration backend has another number") != nil)
        try relay.start()
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(receiver.waitForAccepted(1))
    }

    /// The same process serves on, everything has arrived, the queue is empty by itself, and no request waited until
    /// the database was back, which is away for 20 s: a source has its answer in 8 s, and a busy machine may take its
    /// time to read it.
    private func expectRecovered(
        _ relay: Relay, _ load: FaultLoad, _ receiver: Receiver, process: pid_t?,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let tally = try #require(load.finish(), sourceLocation: sourceLocation)
        let began = Date()
        #expect(try relay.database.drained(), sourceLocation: sourceLocation)
        let drained = Date().timeIntervalSince(began)
        #expect(relay.processIdentifier == process, sourceLocation: sourceLocation)
        #expect(tally.unanswered == 0, sourceLocation: sourceLocation)
        // None where what was under way could be run again in time.
        #expect(Set(tally.refusals.keys).isSubset(of: [503]), sourceLocation: sourceLocation)
        #expect(tally.refusalsWithoutDelay == 0, sourceLocation: sourceLocation)
        #expect(tally.longestAnswerSeconds < 20, sourceLocation: sourceLocation)
        let receipts = Self.expectComplete(receiver, of: tally, sourceLocation: sourceLocation)
        try Self.expectSound(try relay.database, of: tally, sourceLocation: sourceLocation)
        print(
            "recovered: \(tally.acknowledged.count) events, \(tally.refusals) refusals, "
                + "\(receipts.duplicates) duplicates, drained after \(drained) s, "
                + "longest answer \(tally.longestAnswerSeconds) s")
    }
}

/// A cluster whose postmaster and every process of it stand still: connections are there and nobody answers.
final class FrozenCluster {
    private let processes: [pid_t]
    private var isFrozen = true

    init(_ cluster: TestCluster) throws {
        let file = try String(contentsOfFile: cluster.directory + "/data/postmaster.pid", encoding: .utf8)
        guard let postmaster = file.split(separator: "\n").first.flatMap({ pid_t($0) }) else {
            throw HarnessFailure("postmaster.pid holds no process id")
        }
        // The postmaster first, so that it starts no further ones.
        kill(postmaster, SIGSTOP)
        let children = try String(contentsOfFile: "/proc/\(postmaster)/task/\(postmaster)/children", encoding: .utf8)
        processes = [postmaster] + children.split(separator: " ").compactMap { pid_t($0) }
        for process in processes { kill(process, SIGSTOP) }
    }

    deinit { thaw() }

    func thaw() {
        guard isFrozen else { return }
        isFrozen = false
        for process in processes { kill(process, SIGCONT) }
    }
}
