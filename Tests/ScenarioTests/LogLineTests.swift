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

    @Test("logfmt is a choice; with detail_limit = 0 what succeeds within a second shares an entry")
    func logfmt() throws {
        let backend = try Receiver()
        let relay = try Relay(
            [.init("backend", backend)], storage: .fresh,
            journal: "[journal]\nformat = \"logfmt\"\ndetail_limit = 0")
        defer { relay.end() }
        try relay.start()
        #expect(relay.waitForLine("level=notice", "migrated the schema from version 0 to ") != nil)
        #expect(relay.waitForLine("level=notice", "ready on ") != nil)
        let webhook = Webhook("ACTIVATE", .user("u"), purchase: "subs_1")
        for _ in 0..<2 { #expect(try relay.source().post(webhook) == 200) }
        let shared = " within a second, too many for an entry each"
        #expect(relay.waitForLine("level=info", "recorded 1 event and ", " from purchasely" + shared) != nil)
        #expect(relay.waitForLine("level=info", "delivered 1 message to backend" + shared + " (p50 ") != nil)
        #expect(relay.child?.output == [])
    }

    @Test("A log that nobody reads holds up no webhook, no delivery and no stop")
    func unread() throws {
        let backend = try Receiver()
        let relay = try Relay([.init("backend", backend)], journal: "")
        defer { relay.end() }
        let pipe = relay.directory.path + "/log"
        try #require(mkfifo(pipe, 0o600) == 0)
        // Held for both ends, so that the daemon may write and nobody reads.
        let descriptor = open(pipe, O_RDWR | O_NONBLOCK | O_CLOEXEC)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        try relay.launch(by: ["sh", "-c", #"exec "$@" >"$0""#, pipe])
        #expect(eventually { (try? relay.get("/readyz").status) == 200 })
        let source = relay.source()
        // Two entries each, of some hundred bytes: more than the 64 KiB that a pipe holds (pipe(7)).
        onThreads(4) { thread in
            let connection = source.connect()
            for number in 0..<40 {
                #expect(connection.store(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(thread * 40 + number)")))
            }
        }
        #expect(backend.waitForAccepted(160))
        #expect(try relay.database.drained())
        #expect(relay.stop(within: 60) == .exited(0))
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        let count = read(descriptor, &buffer, buffer.count)
        let log = String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
        #expect(log.contains("ready on ") && !log.contains("stopping: SIGTERM"), "all of it, in \(count) bytes")
    }
}
