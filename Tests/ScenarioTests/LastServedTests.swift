import Foundation
import TestSupport
import Testing
import Vocabulary

/// A start by a configuration that leads elsewhere than the one before. Oracle: exit codes, the file system, and SQL.
@Suite(.serialized, .timeLimit(.minutes(30))) struct LastServedTests {
    private static func isThere(_ path: String) -> Bool { FileManager.default.fileExists(atPath: path) }

    private static func edit(_ relay: Relay, _ change: (String) -> String) throws {
        try relay.directory.write(
            "posthouse.toml", change(try String(contentsOfFile: relay.configuration, encoding: .utf8)))
    }

    /// Takes a webhook, and ends.
    private static func serve(_ relay: Relay) throws {
        try relay.start()
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(relay.stop() == .exited(0))
    }

    /// Expects that a start is refused because `place` has no ledger, and does what it names for a new beginning.
    private static func expectRefusal(
        _ relay: Relay, of place: String, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let file = relay.directory.path + "/serving"
        let refused = try relay.launch()
        #expect(refused.waitForEnd(180) == .exited(78), "\(refused.errors)", sourceLocation: sourceLocation)
        let line = refused.errors.first { $0.contains("there is no ledger in \(place)") }
        #expect(line?.contains("last served one begun at 2") == true, sourceLocation: sourceLocation)
        #expect(line?.hasSuffix("rm \(file)") == true, "\(refused.errors)", sourceLocation: sourceLocation)
        try FileManager.default.removeItem(atPath: file)
    }

    // MARK: The spool

    @Test(
        "Another [spool] directory while webhooks wait: commands say so, no daemon starts; moved or copied, all are recorded",
        arguments: [["mv", "-T"], ["cp", "-a"]])
    func otherSpool(move: [String]) throws {
        let cluster = try TestCluster(durable: true)
        let relay = try SpoolTests.relay(cluster, try Receiver())
        defer { relay.end() }
        let (old, new) = (relay.directory.path + "/spool", relay.directory.path + "/elsewhere")
        try SpoolTests.start(relay)
        try cluster.stop()
        for (_, body) in SpoolLoad.webhooks(1) { #expect(try relay.post("apphud", SpoolLoad.header, body) == 200) }
        #expect(SpoolTests.waiting(relay) == 2)

        try relay.configure([], sources: [.init(name: "apphud")], settings: "[spool]\ndirectory = \"\(new)\"")
        let words = "2 webhooks wait in \(old), the daemon's spool at an earlier start; [spool] directory names \(new)"
        for command in ["spool", "doctor"] {
            let (child, _) = try Relay.run(
                [command, "--config", relay.configuration], environment: ["STATE_DIRECTORY": relay.directory.path])
            // Of a page lines are broken.
            let said = (child.output + child.errors).joined(separator: " ").split(separator: " ")
            #expect(said.joined(separator: " ").contains(words), "\(command): \(child.output) \(child.errors)")
        }
        // Another daemon's file, which says nothing of a state directory. root's would be that of the package's unit.
        try FileManager.default.createSymbolicLink(
            atPath: relay.directory.path + "/posthouse", withDestinationPath: relay.directory.path)
        let (other, _) = try Relay.run(
            ["spool", "--config", relay.configuration], environment: ["XDG_STATE_HOME": relay.directory.path])
        #expect(!other.errors.contains { $0.contains(old) }, "\(other.errors)")
        relay.kill()
        let refused = try relay.launch()
        #expect(refused.waitForEnd(180) == .exited(78))
        #expect(
            refused.errors.contains { $0.contains(words) && $0.contains("let [spool] directory name \(old) again") },
            "\(refused.errors)")
        #expect(!Self.isThere(new))

        // As where no start has reached the database yet.
        try FileManager.default.removeItem(atPath: old + "/ledger")
        #expect(try ChildProcess(move + [old, new]).waitForEnd(180) == .exited(0))
        if move[0] == "cp" {
            for file in try FileManager.default.subpathsOfDirectory(atPath: new) where file.contains("/") {
                _ = truncate("\(new)/\(file)", 0)
            }
            #expect(try relay.launch().waitForEnd(180) == .exited(78), "copies that were cut short are none")
            #expect(try ChildProcess(["cp", "-a", old + "/.", new]).waitForEnd(180) == .exited(0))
        }
        try cluster.start()
        try relay.start()
        #expect(try eventually(within: 600) { try relay.database.count("events") == 2 })
        // A copy that is left where it was is no reason any more.
        try relay.restart()
        #expect(try relay.database.count("events") == 2)
    }

    @Test("A former spool that is away at a start is not forgotten: once back, it is named, and not left for good")
    func spoolAway() throws {
        let cluster = try TestCluster(durable: true)
        let relay = try SpoolTests.relay(cluster, try Receiver())
        defer { relay.end() }
        let (old, new) = (relay.directory.path + "/spool", relay.directory.path + "/elsewhere")
        func name(_ spool: String) throws {
            try relay.configure([], sources: [.init(name: "apphud")], settings: "[spool]\ndirectory = \"\(spool)\"")
        }
        func take(_ number: Int) throws {
            let (_, body) = SpoolLoad.webhooks(number)[0]
            #expect(try relay.post("apphud", SpoolLoad.header, body) == 200)
        }
        try SpoolTests.start(relay)
        try cluster.stop()
        try take(1)
        relay.kill()
        // Its disk fails; an empty folder is what a mount leaves.
        try FileManager.default.moveItem(atPath: old, toPath: old + ".away")
        try FileManager.default.createDirectory(atPath: old, withIntermediateDirectories: false)
        try name(new)
        try relay.start()
        try take(2)
        relay.kill()
        try FileManager.default.removeItem(atPath: old)
        try FileManager.default.moveItem(atPath: old + ".away", toPath: old)

        let words = "1 webhook waits in \(old), the daemon's spool at an earlier start; [spool] directory names \(new)"
        let (child, _) = try Relay.run(
            ["spool", "--config", relay.configuration], environment: ["STATE_DIRECTORY": relay.directory.path])
        #expect(child.errors.contains { $0.contains(words) }, "\(child.errors)")
        // Webhooks wait in both: either of them may come first, at each start until it is empty.
        for spool in [new, old, old] {
            try name(spool)
            try relay.start()
            #expect(
                relay.waitForLine("1 webhook waits in \(spool == old ? new : old)", "until that is the spool again")
                    != nil)
            relay.kill()
        }
        try cluster.start()
        try relay.start()
        #expect(eventually(within: 600) { SpoolTests.waiting(relay) == 0 })
        #expect(relay.stop() == .exited(0))
        let refused = try relay.launch()
        #expect(refused.waitForEnd(180) == .exited(78))
        #expect(
            refused.errors.contains { $0.contains("1 webhook waits in \(new)") && $0.contains("name \(new) again") },
            "\(refused.errors)")
        try name(new)
        try relay.start()
        #expect(try eventually(within: 600) { try relay.database.count("events") == 2 })
        #expect(relay.stop() == .exited(0))
        let served = try String(contentsOfFile: relay.directory.path + "/serving", encoding: .utf8)
        #expect(!served.contains("former_spool"), "\(served)")
    }

    @Test("A folder of a former spool that cannot be read keeps no daemon down")
    func unreadableSpool() throws {
        let relay = try Relay([])
        defer { relay.end() }
        try Self.serve(relay)
        let old = relay.directory.path + "/former"
        let folder = old + "/00000000000000aa"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        #expect(chmod(folder, 0) == 0)
        defer { chmod(folder, 0o700) }
        let served = try String(contentsOfFile: relay.directory.path + "/serving", encoding: .utf8)
        try relay.directory.write("serving", served.replacing(#/^spool .*/#, with: "spool \(old)"))
        // Root may read everything, unless it gives that up.
        let root = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
        _ = try relay.launch(by: geteuid() == 0 ? root : [])
        #expect(relay.waitForLine("webhooks may wait, but not all can be read, in \(old)") != nil)
        #expect(relay.waitForLine("ready on") != nil)
        #expect(relay.stop() == .exited(0))
        let file = try String(contentsOfFile: relay.directory.path + "/serving", encoding: .utf8)
        #expect(file.contains("former_spool \(old)\n"), "\(file)")
    }

    @Test("A spool that another daemon uses is left without a question, by a daemon that may not write there, too")
    func sharedSpool() throws {
        let relay = try Relay([])
        defer { relay.end() }
        try Self.serve(relay)
        let old = relay.directory.path + "/former"
        // Of a daemon that is gone, and of one that runs.
        for folder in ["00000000000000aa", "00000000000000bb"] {
            try FileManager.default.createDirectory(atPath: "\(old)/\(folder)", withIntermediateDirectories: true)
            try Data("{}".utf8).write(to: URL(fileURLWithPath: "\(old)/\(folder)/0000000000000001.apphud"))
        }
        let lock = open(old + "/00000000000000bb/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o400)
        try #require(lock >= 0)
        defer { close(lock) }
        let isLocked = flock(lock, LOCK_EX | LOCK_NB) == 0
        try #require(isLocked)
        let served = try String(contentsOfFile: relay.directory.path + "/serving", encoding: .utf8)
        try relay.directory.write("serving", served.replacing(#/^spool .*/#, with: "spool \(old)"))
        try relay.start()
        #expect(relay.stop() == .exited(0))
        // Another test's process may have a copy of the descriptor for a moment.
        try FileManager.default.removeItem(atPath: old + "/00000000000000bb/lock")
        let refused = try relay.launch()
        #expect(refused.waitForEnd(180) == .exited(78), "\(refused.errors)")
        #expect(refused.errors.contains { $0.contains("2 webhooks wait in \(old)") }, "\(refused.errors)")
    }

    // MARK: The ledger

    @Test("Another [embedded] directory, without the cluster: no ledger is begun there, unless that is meant")
    func otherDirectory() throws {
        let relay = try Relay([], storage: .privateCluster)
        defer { relay.end() }
        try Self.serve(relay)
        let other = relay.directory.path + "/other"
        try Self.edit(relay) { $0.replacing("/state\"", with: "/other\"") }
        try Self.expectRefusal(relay, of: "the private cluster in \(other)")
        #expect(!Self.isThere(other))
        try relay.start()
        #expect(try Database(privateClusterIn: other + "/cluster").count("events") == 0)
        #expect(relay.stop() == .exited(0))
    }

    @Test("A [database] url that is lost: no private cluster is made, unless that is meant")
    func urlLost() throws {
        let relay = try Relay([])
        defer { relay.end() }
        try Self.serve(relay)
        let state = relay.directory.path + "/state"
        try Self.edit(relay) { text in
            text.replacing(#/\[database\]\nurl = .*/#, with: "[embedded]\ndirectory = \"\(state)\"")
        }
        try Self.expectRefusal(relay, of: "the private cluster in \(state)")
        #expect(!Self.isThere(state))
        try relay.start()
        #expect(relay.stop() == .exited(0))
    }

    @Test("A url of an empty database: it stays empty, until a ledger is begun there with migrate; the journal says so")
    func emptyDatabase() throws {
        let (relay, other) = (try Relay([]), try Relay([], storage: .fresh))
        defer {
            relay.end()
            other.end()
        }
        try Self.serve(relay)
        let right = try relay.database.connectionString
        let empty = try other.database
        try relay.directory.write("database-url", empty.connectionString + "\n")
        let refused = try relay.launch()
        #expect(refused.waitForEnd(180) == .exited(78))
        let line = refused.errors.first { $0.contains("there is no ledger in the database") }
        #expect(line?.hasSuffix(", or posthouse migrate") == true, "\(refused.errors)")
        #expect(try empty.value("SELECT to_regclass('schema_migrations') IS NULL") == "t")

        #expect(try relay.command("migrate", "--config", relay.configuration).end == .exited(0))
        for url in [empty.connectionString, right] {
            try relay.directory.write("database-url", url + "\n")
            try relay.start()
            #expect(relay.waitForLine("another ledger is served from here on") != nil)
            #expect(relay.stop() == .exited(0))
        }
        try relay.start()
        #expect(relay.stop() == .exited(0))
        #expect(!relay.lines.contains { $0.contains("another ledger") }, "\(relay.lines)")
    }

    @Test("A private cluster that never took a webhook is left for a database without a question, and not gone back to")
    func neverUsed() throws {
        let (relay, other) = (try Relay([], storage: .privateCluster), try Relay([], storage: .fresh))
        defer {
            relay.end()
            other.end()
        }
        try relay.start()
        #expect(relay.stop() == .exited(0))
        let file = try String(contentsOfFile: relay.configuration, encoding: .utf8)
        let url = "url = { file = \"\(other.directory.path)/database-url\" }"
        try Self.edit(relay) { $0.replacing("[embedded]", with: "[database]\n\(url)\n[embedded]") }
        try Self.serve(relay)
        #expect(try other.database.count("events") == 1)
        // The url is lost: the cluster is there, and it is known to be empty.
        try relay.directory.write("posthouse.toml", file)
        try Self.expectRefusal(relay, of: "the private cluster in \(relay.directory.path)/state")
    }

    @Test("A file that says nothing keeps no daemon from starting, which says so and writes it anew")
    func damaged() throws {
        let relay = try Relay([])
        defer { relay.end() }
        try Self.serve(relay)
        let file = relay.directory.path + "/serving"
        let written = try String(contentsOfFile: file, encoding: .utf8)
        try relay.directory.write("serving", "damaged")
        try relay.start()
        #expect(relay.waitForLine("what this daemon served last is not known", "\(file) is damaged") != nil)
        #expect(relay.stop() == .exited(0))
        #expect(try String(contentsOfFile: file, encoding: .utf8) == written)
    }
}
