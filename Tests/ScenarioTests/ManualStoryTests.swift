import Foundation
import Testing
import Vocabulary

/// The examples of posthouse-operate(7) that need a day's events before them. Oracle: the program itself.
@Suite struct ManualStoryTests {
    static let manual = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "deploy/manual/posthouse-operate.7.md")

    /// The lines that the manual shows below a command, of the `number`th time that it stands there.
    private func shown(_ command: String, _ number: Int = 0) throws -> [String] {
        let text = try String(contentsOf: Self.manual, encoding: .utf8).replacing(#/ \\\n +/#, with: " ")
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        let starts = lines.indices.filter { lines[$0] == "$ " + command }
        let start = try #require(starts.indices.contains(number) ? starts[number] : nil, "\(command)")
        return lines[(start + 1)...].prefix { !$0.hasPrefix("$ ") && $0 != "```" && !$0.isEmpty }.map { $0 }
    }

    /// Without what differs from day to day: numbers, ids, addresses, the width of columns.
    private func shape(_ line: String) -> String {
        line.replacing(#/http://[^ ,)]+/#, with: "URL").replacing(#/(?:msg|evt|trf)_[0-9a-f]+/#, with: "ID")
            .replacing(#/[0-9]+[smhd]?/#, with: "0").replacing(#/0 messages?\b/#, with: "0 messages")
            .replacing(#/0 deliver(?:y|ies)\b/#, with: "0 deliveries").split(separator: " ").joined(separator: " ")
    }

    private func run(_ relay: Relay, _ words: [String]) throws -> String {
        let child = try ChildProcess([try Relay.binary.get()] + words + ["--config", relay.configuration])
        #expect(child.waitForEnd(30) != nil, "\(words)")
        return (child.output + child.errors).joined(separator: "\n")
    }

    private func expect(
        _ relay: Relay, _ words: [String], as command: String? = nil, _ number: Int = 0,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let said = try run(relay, words).split(separator: "\n").map { shape(String($0)) }
        let expected = try shown("posthouse " + (command ?? words.joined(separator: " ")), number)
        #expect(!expected.isEmpty, "\(words)", sourceLocation: sourceLocation)
        for line in expected {
            #expect(said.contains(shape(line)), "\(words): \(shape(line)), not \(said)", sourceLocation: sourceLocation)
        }
    }

    @Test("status, retry, discard, replay, test, backfill and erase answer as the manual shows")
    func day() throws {
        let backend = try Receiver()
        let analytics = try Receiver { _ in .status(500, body: "failed on purpose") }
        let relay = try Relay.running([
            .init("backend", backend), .init("analytics", analytics, ["schedule": #"["1h", "1h", "1h"]"#]),
        ])
        defer { relay.end() }
        for (name, offset) in [("ACTIVATE", 0), ("RENEW", 1), ("DEACTIVATE", 2)] {
            let webhook = Webhook(name, .user("ann"), purchase: "subs_1", at: Webhook.epoch + Int64(offset))
            #expect(try relay.source().post(webhook) == 200)
        }
        #expect(try relay.source().post(Array(#"{"hello": "world"}"#.utf8)) == 200)
        #expect(try relay.post("purchasely", [], "{}") == 401)
        #expect(try relay.post("purchasly", [], "{}") == 404)
        #expect(backend.waitForAccepted(3))
        #expect(try eventually { try relay.database.count("attempts") == 4 })
        #expect(try eventually { try run(relay, ["status"]).contains("(unknown)") })
        let status = try run(relay, ["status"])
        let titles = status.split(separator: "\n").map { shape(String($0)) }
        let page = try String(contentsOf: Self.manual, encoding: .utf8).split(separator: "\n").map(String.init)
        for start in ["SOURCE ", "INTEGRATION  STATE ", "(unknown) ", "(unknown): ", "analytics: last"] {
            let line = try #require(page.first { $0.hasPrefix(start) }, "\(start)")
            #expect(titles.contains(shape(line)), "\(line), not \(status)")
        }
        try expect(relay, ["test", "backend"])
        try expect(relay, ["test", "analytics"])
        try expect(relay, ["retry", "analytics"])
        #expect(try eventually { try relay.database.count("attempts") == 5 })
        try expect(relay, ["discard", "analytics"])
        try expect(relay, ["replay", "--outcome", "dead"])
        try expect(relay, ["pause", "backend"])
        try expect(relay, ["resume", "backend"])
        try expect(relay, ["erase", "--user", "ann"])
    }

    @Test("A damaged purchase is repaired, and its webhook read again, as the manual shows")
    func repair() throws {
        let backend = try Receiver()
        let relay = try Relay.running([.init("backend", backend)])
        defer { relay.end() }
        func post(_ name: String, _ purchase: String, at offset: Int64) throws -> Int {
            try relay.source().post(Webhook(name, .user("ann"), purchase: purchase, at: Webhook.epoch + offset))
        }
        #expect(try post("ACTIVATE", "subs_1", at: 0) == 200 && post("ACTIVATE", "subs_2", at: 0) == 200)
        #expect(try post("RENEW", "subs_1", at: 1) == 200)
        #expect(backend.waitForAccepted(3))
        try relay.database.rows("UPDATE purchases SET state = 'damaged' WHERE key = 'subs_1'")
        #expect(try post("ACTIVATE", "subs_1", at: 2) == 200)
        #expect(try eventually { try relay.database.count("quarantine") == 1 })
        try expect(relay, ["repair", "subs_1"])
        try expect(relay, ["quarantine", "retry", "1"], as: "quarantine retry 1", 1)
        try expect(relay, ["repair", "--all"])
    }

    @Test("send, backfill, and what became of a dead letter, as the manual shows")
    func others() throws {
        let backend = try Receiver { _ in .status(400) }
        let relay = try Relay.running([.init("backend", backend, ["permanent": "[400]"])])
        defer { relay.end() }
        let secret = try relay.directory.write("secret", "source-secret\n")
        let target = ["send", "--url", "http://127.0.0.1:\(relay.port)/ingest/purchasely", "--secret-file", secret]
        let manual = "posthouse send --url http://127.0.0.1:8080/ingest/purchasely --secret-file purchasely-secret"
        for rest in [
            ["--event", "ACTIVATE", "--user", "ann"],
            ["--event", "SUBSCRIPTION_TRANSFERRED", "--user", "ann", "--counterpart-user", "bob"],
        ] {
            let sent = try ChildProcess([try Relay.binary.get()] + target + rest)
            #expect(sent.waitForEnd(30) == .exited(0), "\(sent.errors)")
            #expect(try sent.output == shown(([manual] + rest).joined(separator: " ")))
        }
        #expect(try eventually { try relay.database.count("dead_letters") == 3 })
        try expect(relay, ["replay", "--outcome", "dead", "--integration", "backend", "--dry-run"])
        try expect(relay, ["discard", "--dead", "backend"])
        let crm = try Receiver()
        try relay.configure([.init("backend", backend, ["permanent": "[400]"]), .init("crm", crm)])
        _ = try relay.reload()
        try expect(relay, ["backfill", "crm", "--since", "7d"])
        #expect(crm.waitForAccepted(3))
    }

    @Test("listen prints what the manual shows, of a test and of a delivery")
    func listens() throws {
        let directory = try ScratchDirectory()
        let secret = Receiver.newSecret()
        let listener = try Listener(secretFile: try directory.write("secret", secret + "\n"), options: [])
        defer { listener.end() }
        let relay = try Relay.running([
            .init("backend", url: "http://127.0.0.1:\(listener.port)/", secrets: [secret])
        ])
        defer { relay.end() }
        try expect(relay, ["test", "backend"])
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("ann"), purchase: "subs_1")) == 200)
        #expect(listener.child.waitForOutput(30) { $0.hasPrefix("verified ACTIVATE") } != nil)
        func placeless(_ line: String) -> String { shape(line.replacing(#/secret = \{.*\}/#, with: "SECRET")) }
        let said = (listener.child.errors + listener.child.output).map(placeless)
        let expected = try shown("posthouse listen --secret-file /etc/posthouse/credentials/backend-secret")
        #expect(expected.count == 4)
        for line in expected { #expect(said.contains(placeless(line)), "\(line), not \(said)") }
    }
}
