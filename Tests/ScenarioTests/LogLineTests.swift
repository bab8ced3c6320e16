import Foundation
import TestSupport
import Testing
import Vocabulary

/// What a daemon logs where there is no journal. Oracle: Foundation's JSONSerialization.
@Suite struct LogLineTests {
    private static func object(_ line: String) -> [String: Any]? {
        try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
    }

    @Test("Without a terminal the log is JSON lines on standard output, from the first to the last")
    func json() throws {
        let backend = try Receiver()
        let relay = try Relay([.init("backend", backend)], journal: "")
        defer { relay.end() }
        try relay.start()
        let child = try #require(relay.child)
        let webhook = Webhook("ACTIVATE", .user("u"), purchase: "subs_1", transaction: "T1")
        #expect(try relay.source().post(webhook) == 200)
        #expect(backend.waitForAccepted(1))
        #expect(relay.stop() == .exited(0))
        #expect(child.errors == [])
        let entries = child.output.compactMap(Self.object)
        #expect(entries.count == child.output.count, "\(child.output)")
        let delivered = entries.filter { $0["posthouse_integration"] as? String == "backend" }
        #expect(delivered.count == 1 && delivered.first?["posthouse_http_status"] as? Int == 204)
        #expect(delivered.first?["posthouse_transaction"] as? String == "T1")
        #expect(entries.last?["message_id"] as? String == "ab35f49724664810a9569038b62d38bf")
    }

    @Test("A start that fails is a JSON line, too, beside the words for a person")
    func failure() throws {
        let relay = try Relay([.init("backend", Receiver())], storage: .given("host=/nowhere"), journal: "")
        defer { relay.end() }
        try relay.directory.write("posthouse.toml", "[server\n")
        let child = try relay.launch()
        #expect(child.waitForEnd(180) == .exited(78))
        #expect(child.errors.contains { $0.contains("posthouse.toml:1") }, "\(child.errors)")
        let entries = child.output.compactMap(Self.object)
        #expect(entries.count == 1 && child.output.count == 1, "\(child.output)")
        #expect(entries.first?["level"] as? String == "error")
        #expect(entries.first?["message_id"] as? String == "a707e30ee0b4463799ff26f51f281d30")
    }

    @Test("logfmt is a choice")
    func logfmt() throws {
        let relay = try Relay.running([.init("backend", Receiver())])
        defer { relay.end() }
        #expect(relay.waitForLine("level=notice", "ready on ") != nil)
        #expect(relay.child?.output == [])
    }
}
