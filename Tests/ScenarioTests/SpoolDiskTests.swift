import Foundation
import TestSupport
import Testing

/// The spool on a disk that is full, and with a clock that was set back, while PostgreSQL is away. Oracle: what the
/// source was answered 200 for, against the ledger.
@Suite(.serialized, .timeLimit(.minutes(20))) struct SpoolDiskTests {
    private static let diskBytes = 4 << 20

    /// A relay whose spool lies on a file system of its own, 4 MiB large.
    private static func relay(_ cluster: TestCluster, _ receiver: Receiver) throws -> Relay {
        let relay = try SpoolTests.relay(cluster, receiver)
        let spool = relay.directory.path + "/spool"
        try FileManager.default.createDirectory(atPath: spool, withIntermediateDirectories: false)
        try #require(run("mount", "-t", "tmpfs", "-o", "size=\(diskBytes),mode=0700", "tmpfs", spool))
        try relay.configure(
            [.init("backend", receiver)], sources: [.init(name: "apphud")],
            settings: "[spool]\ndirectory = \"\(spool)\"")
        return relay
    }

    private static func end(_ relay: Relay) {
        relay.end()
        _ = run("umount", "-l", relay.directory.path + "/spool")
    }

    private static func run(_ words: String...) -> Bool {
        guard let child = try? ChildProcess(words) else { return false }
        return child.waitForEnd(180) == .exited(0)
    }

    /// Tried: a container may not mount, root or not.
    private static let mayMount: Bool = {
        let place = NSTemporaryDirectory() + "phmount-\(UUID().uuidString)"
        try? FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: place) }
        return run("mount", "-t", "tmpfs", "tmpfs", place) && run("umount", "-l", place)
    }()

    /// Sends the webhooks of one purchase.
    /// - Parameter isOnce: what is answered 503 is not sent again.
    /// - Returns: the ids that were answered 200; each other one was answered 503.
    private func send(_ relay: Relay, _ number: Int, isOnce: Bool = false) throws -> Set<String> {
        var taken: Set<String> = []
        for (id, body) in SpoolLoad.webhooks(number) {
            let status =
                try isOnce
                ? relay.postOnce("apphud", SpoolLoad.header, body) : relay.post("apphud", SpoolLoad.header, body)
            #expect([200, 503].contains(status))
            if status == 200 { taken.insert(id) }
        }
        return taken
    }

    @Test(
        "A full disk while PostgreSQL is away: 503 and /readyz 503, over kill -9, until there is room; each 200 is recorded",
        .enabled(if: mayMount, "nothing can be mounted here: 1 test is left out"))
    func diskFull() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver()
        let relay = try Self.relay(cluster, receiver)
        defer { Self.end(relay) }
        try SpoolTests.start(relay)
        try cluster.stop()
        var taken = try send(relay, 1)
        #expect(taken.count == 2)
        let ballast = relay.directory.path + "/spool/ballast"
        // dd(1) ends with an error: the disk is full.
        #expect(!Self.run("dd", "if=/dev/zero", "of=\(ballast)", "bs=4096"))
        for number in 2..<6 { #expect(try send(relay, number, isOnce: true).isEmpty) }
        #expect(try relay.get("/readyz").status == 503)
        #expect(relay.waitForLine("the spool takes no webhooks") != nil)

        relay.kill()
        // It is not ready: there is neither the database nor room.
        try relay.launch()
        #expect(relay.waitForLine("without the database", within: 180) != nil)
        #expect(try send(relay, 6, isOnce: true).isEmpty)
        #expect(try relay.get("/readyz").status == 503)
        try FileManager.default.removeItem(atPath: ballast)
        // It looks every 30 s.
        #expect(try eventually(within: 180) { try relay.get("/readyz").status == 200 }, "\(relay.lines.suffix(5))")
        let after = try send(relay, 7)
        #expect(after.count == 2)
        taken.formUnion(after)

        try cluster.start()
        #expect(eventually(within: 180) { SpoolTests.waiting(relay) == 0 })
        let rows = try relay.database.rows("SELECT vendor_event_id, count(*) FROM events GROUP BY 1")
        #expect(Set(rows.map { $0[0] }).isSuperset(of: taken) && rows.allSatisfy { $0[1] == "1" }, "\(rows) \(taken)")
        #expect(try eventually { try relay.get("/readyz").text == "ready\n" })
    }

    /// The order of recording shows in the ids, which rise.
    @Test("A clock set back between webhooks, and before they are recorded: in order, once, and no age below 0")
    func clockSetBack() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver()
        let relay = try SpoolTests.relay(cluster, receiver)
        defer { relay.end() }
        try SpoolTests.start(relay)
        try cluster.stop()
        #expect(try send(relay, 1).count == 2)
        #expect(try send(relay, 2).count == 2)
        relay.kill()
        // As if all were written by a clock that was ahead, and went back an hour after each.
        let root = relay.directory.path + "/spool"
        let names = FileManager.default.enumerator(atPath: root)?.compactMap { $0 as? String } ?? []
        for (index, name) in names.filter({ $0.hasSuffix(".apphud") }).sorted().enumerated() {
            let time = Date(timeIntervalSinceNow: Double(24 - index) * 3_600)
            try FileManager.default.setAttributes([.modificationDate: time], ofItemAtPath: root + "/" + name)
        }
        try relay.start()
        #expect(relay.waitForLine("4 webhooks of an earlier daemon") != nil)
        #expect(try relay.get("/metrics").text.contains("posthouse_spool_oldest_seconds 0.0\n"))
        #expect(try send(relay, 3).count == 2)
        try cluster.start()
        #expect(eventually(within: 180) { SpoolTests.waiting(relay) == 0 })
        let ids = try relay.database.rows("SELECT vendor_event_id FROM events ORDER BY id").map { $0[0] }
        #expect(Set(ids) == Set((1...3).flatMap { ["\($0)-a", "\($0)-b"] }) && ids.count == 6)
        for number in 1...3 {
            #expect(ids.firstIndex(of: "\(number)-a") ?? .max < ids.firstIndex(of: "\(number)-b") ?? -1, "\(ids)")
        }
        #expect(try relay.database.count("transfers") == 3)
        #expect(try relay.database.drained(within: 180))
    }
}
