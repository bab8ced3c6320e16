import Foundation
import Testing
import Vocabulary

/// The examples of posthouse-operate(7) and posthouse-journal(7) that need events before them. Oracle: the program
/// itself.
@Suite struct ManualStoryTests {
    /// posthouse-operate(7)
    private let page: ManualPage

    init() throws { page = try ManualPage.operate }

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
        #expect(try eventually { try ManualPage.answer(of: relay, ["status"]).contains("(unknown)") })
        let status = try ManualPage.answer(of: relay, ["status"])
        let titles = status.split(separator: "\n").map { ManualPage.shape(String($0)) }
        for start in ["SOURCE ", "INTEGRATION  STATE ", "(unknown) ", "(unknown): ", "analytics: last"] {
            let line = try #require(page.lines.first { $0.hasPrefix(start) }, "\(start)")
            #expect(titles.contains(ManualPage.shape(line)), "\(line), not \(status)")
        }
        try page.expect(relay, ["test", "backend"])
        try page.expect(relay, ["test", "analytics"])
        try page.expect(relay, ["retry", "analytics"])
        #expect(try eventually { try relay.database.count("attempts") == 5 })
        try page.expect(relay, ["discard", "analytics"])
        try page.expect(relay, ["replay", "--outcome", "dead"])
        try page.expect(relay, ["pause", "backend"])
        try page.expect(relay, ["resume", "backend"])
        try page.expect(relay, ["erase", "--user", "ann"])
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
        try page.expect(relay, ["repair", "subs_1"])
        try page.expect(relay, ["quarantine", "retry", "1"], as: "quarantine retry 1", 1)
        try page.expect(relay, ["repair", "--all"])
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
            #expect(sent.waitForEnd(180) == .exited(0), "\(sent.errors)")
            #expect(try sent.output == page.shown(([manual] + rest).joined(separator: " ")))
        }
        #expect(try eventually { try relay.database.count("dead_letters") == 3 })
        try page.expect(relay, ["replay", "--outcome", "dead", "--integration", "backend", "--dry-run"])
        try page.expect(relay, ["discard", "--dead", "backend"])
        let crm = try Receiver()
        try relay.configure([.init("backend", backend, ["permanent": "[400]"]), .init("crm", crm)])
        _ = try relay.reload()
        try page.expect(relay, ["backfill", "crm", "--since", "7d"])
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
        try page.expect(relay, ["test", "backend"])
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("ann"), purchase: "subs_1")) == 200)
        #expect(listener.child.waitForOutput(180) { $0.hasPrefix("verified ACTIVATE") } != nil)
        func placeless(_ line: String) -> String {
            ManualPage.shape(line.replacing(#/secret = \{.*\}/#, with: "SECRET"))
        }
        let said = (listener.child.errors + listener.child.output).map(placeless)
        let expected = try page.shown("posthouse listen --secret-file /etc/posthouse/credentials/backend-secret")
        #expect(expected.count == 10)
        for line in expected { #expect(said.contains(placeless(line)), "\(line), not \(said)") }
    }

    /// What a line of the daemon says, without time and fields.
    private static func message(of line: String) -> String {
        line.firstMatch(of: #/ msg="([^"]*)"/#).map { String($0.1) } ?? line
    }

    @Test("The log and the trace of a transfer read as posthouse-journal(7) shows")
    func transfer() throws {
        let journal = try ManualPage("posthouse-journal.7")
        let backend = try Receiver()
        let relay = try Relay.running([.init("backend", backend)])
        defer { relay.end() }
        let holders: [(Holder, Int64)] = [(.anonymous("a1"), 0), (.user("jeff"), 62_000)]
        for (holder, offset) in holders {
            let webhook = Webhook(
                "ACTIVATE", holder, purchase: "subs_1", transaction: "T1", at: Webhook.epoch + offset,
                eventID: UUID().uuidString.lowercased(), paidDays: 36_500)
            #expect(try relay.source().post(webhook) == 200)
        }
        let log = try journal.block("recorded ACTIVATE")
        #expect(log.count == 5)
        for line in log {
            let shape = ManualPage.shape(line)
            let said = relay.child?.waitForError(180) { ManualPage.shape(Self.message(of: $0)) == shape }
            #expect(said != nil, "\(line), not \(relay.lines)")
        }
        // Shapes have no numbers, and the first webhook is recorded in the same words.
        let counts = String(log[0].drop { $0 != "(" })
        #expect(relay.waitForLine("recorded ACTIVATE", counts) != nil, "\(counts), not \(relay.lines)")
        #expect(try relay.database.drained())
        let trace = try ManualPage.answer(of: relay, ["trace", "T1"])
        let steps = trace.split(separator: "\n").map { ManualPage.shape(String($0)) }
        #expect(try steps == journal.block("transaction T1").map(ManualPage.shape), "\(trace)")
        #expect(backend.count == 4)
    }
}
