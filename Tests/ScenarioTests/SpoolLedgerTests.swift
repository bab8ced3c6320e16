import Foundation
import TestSupport
import Testing

/// A spool whose daemon is led to another database. Oracle: the files on the disk, and both databases.
@Suite(.timeLimit(.minutes(30))) struct SpoolLedgerTests {
    @Test("Spooled webhooks are recorded in their own ledger; a daemon of another one starts once the mark is gone")
    func otherLedger() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver()
        let relay = try SpoolTests.relay(cluster, receiver)
        defer { relay.end() }
        let settings = "[spool]\ndirectory = \"\(relay.directory.path)/spool\""
        try relay.configure([.init("backend", receiver)], sources: [.init(name: "apphud")], settings: settings)
        func lead(to database: String) throws { try relay.directory.write("database-url", database + "\n") }
        let right = try String(contentsOfFile: relay.directory.path + "/database-url", encoding: .utf8)
        try relay.start()
        try cluster.stop()
        for (_, body) in SpoolLoad.webhooks(1) { #expect(try relay.post("apphud", SpoolLoad.header, body) == 200) }
        #expect(SpoolTests.waiting(relay) == 2)
        relay.kill()
        try cluster.start()

        let other = try cluster.createDatabase()
        try lead(to: other)
        // Without a ledger it would be refused for that.
        #expect(try relay.command("migrate", "--config", relay.configuration).end == .exited(0))
        let refused = try relay.launch()
        #expect(refused.waitForEnd(180) == .exited(78))
        #expect(refused.errors.contains { $0.contains("2 webhooks wait") && $0.contains("another ledger") })
        let record = try relay.command("spool", "record", "--config", relay.configuration)
        #expect(record.end == .exited(78) && record.errors.contains("another ledger"), "\(record)")
        #expect(SpoolTests.waiting(relay) == 2)
        #expect(try Database(connectionString: other).count("events") == 0)

        try lead(to: right.trimmingCharacters(in: .whitespacesAndNewlines))
        try relay.start()
        #expect(eventually { SpoolTests.waiting(relay) == 0 })
        #expect(try relay.database.count("events") == 2)

        try cluster.stop()
        for (_, body) in SpoolLoad.webhooks(2) { #expect(try relay.post("apphud", SpoolLoad.header, body) == 200) }
        relay.kill()
        try cluster.start()
        // A mark that says nothing is another's, too.
        try Data("damaged".utf8).write(to: URL(fileURLWithPath: relay.directory.path + "/spool/ledger"))
        #expect(try relay.launch().waitForEnd(180) == .exited(78))
        try FileManager.default.removeItem(atPath: relay.directory.path + "/spool/ledger")
        try lead(to: other)
        try relay.start()
        #expect(eventually { SpoolTests.waiting(relay) == 0 })
        #expect(try Database(connectionString: other).count("events") == 2)
    }

    @Test("A source that a reload adds does not spool among another ledger's webhooks, however often it is reloaded")
    func reloaded() throws {
        let receiver = try Receiver()
        let relay = try Relay([.init("backend", receiver)])
        defer { relay.end() }
        try relay.start()
        let spool = relay.directory.path + "/spool"
        try FileManager.default.createDirectory(atPath: spool + "/0000000000000001", withIntermediateDirectories: true)
        try Data("another's".utf8).write(to: URL(fileURLWithPath: spool + "/ledger"))
        try Data("{}".utf8).write(to: URL(fileURLWithPath: spool + "/0000000000000001/0000000000000001.apphud"))
        let sources = [Relay.SourceTable(), Relay.SourceTable(name: "apphud", settings: ["spool": "true"])]
        try relay.configure([.init("backend", receiver)], sources: sources)
        for _ in 0..<2 {
            let refused = try relay.reload()
            #expect(refused.contains("1 webhooks wait") && refused.contains("another ledger"), "\(refused)")
        }
        #expect(try relay.post("apphud", SpoolLoad.header, SpoolLoad.webhooks(1)[0].body) == 404)
        try FileManager.default.removeItem(atPath: spool + "/0000000000000001/0000000000000001.apphud")
        #expect(try relay.reload().contains("added source apphud"))
    }
}
