import Foundation
import TestSupport
import Testing

/// A spool that cannot be opened at the start, of a source that has it by default. Oracle: what the source is answered,
/// against the ledger and the files on the disk.
@Suite(.timeLimit(.minutes(30))) struct SpoolAwayTests {
    @Test("A file in its place: the daemon serves and says so once, and spools from the time when the file is gone")
    func opened() throws {
        let cluster = try TestCluster(durable: true)
        let relay = try SpoolTests.relay(cluster, try Receiver())
        defer { relay.end() }
        let file = relay.directory.path + "/spool"
        try Data().write(to: URL(fileURLWithPath: file))
        try relay.start()
        let process = relay.processIdentifier
        #expect(relay.waitForLine("there is no spool", file) != nil)
        let before = try relay.get("/metrics").text
        #expect(!before.contains("posthouse_spool_webhooks"))
        try FileManager.default.removeItem(atPath: file)
        // It is tried every 30 s.
        #expect(relay.waitForLine("the spool could be opened now", within: 600) != nil)
        #expect(try relay.get("/metrics").text.contains("posthouse_spool_webhooks 0\n"))

        try cluster.stop()
        for (_, body) in SpoolLoad.webhooks(1) { #expect(try relay.post("apphud", SpoolLoad.header, body) == 200) }
        #expect(SpoolTests.waiting(relay) == 2)
        #expect(try relay.get("/readyz").status == 200)
        try cluster.start()
        #expect(eventually(within: 600) { SpoolTests.waiting(relay) == 0 })
        #expect(try relay.database.count("events") == 2)
        #expect(relay.lines.count { $0.contains("there is no spool") } == 1)
        #expect(relay.processIdentifier == process && process != nil, "the same daemon, without a restart")
    }

    @Test("Added by a reload, a source spools from then on; one that must, without a spool that opens, is refused")
    func reloaded() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver()
        let integrations = [Relay.Integration("backend", receiver, ["schedule": FaultTests.manyGaps])]
        let relay = try Relay(integrations, storage: .given(try cluster.createDatabase()))
        defer { relay.end() }
        try relay.start()
        let file = relay.directory.path + "/spool"
        try Data().write(to: URL(fileURLWithPath: file))
        let sources = [Relay.SourceTable(), Relay.SourceTable(name: "apphud", settings: ["spool": "true"])]
        try relay.configure(integrations, sources: sources)
        let refused = try relay.reload()
        #expect(refused.contains("spool = true, and the spool cannot be opened"), "\(refused)")
        try FileManager.default.removeItem(atPath: file)
        let taken = try relay.reload()
        #expect(taken.contains("added source apphud") && !taken.contains("restart"), "\(taken)")

        try cluster.stop()
        for (_, body) in SpoolLoad.webhooks(1) { #expect(try relay.post("apphud", SpoolLoad.header, body) == 200) }
        #expect(SpoolTests.waiting(relay) == 2)
        try cluster.start()
        #expect(eventually(within: 600) { SpoolTests.waiting(relay) == 0 })
        #expect(try relay.database.count("events") == 2)
    }
}
