import Foundation
import TestSupport
import Testing
import Vocabulary

/// What a terminal gets. Oracle: a pseudo-terminal of a known width (script(1)), and the length of its lines.
@Suite struct OperatorTerminalTests {
    /// Without the sequences that only colour.
    private static func plain(_ line: String) -> String { line.replacing(/\u{1B}\[[0-9;]*m/, with: "") }

    /// A relay with long names, long ids, an error that tells a story, a dead letter and something in quarantine.
    private func busyRelay() throws -> Relay {
        let story = String(repeating: "the receiver is out of order and says so at length; ", count: 8)
        let (good, bad) = (try Receiver(), try Receiver { _ in .status(500, body: story) })
        let refusing = try Receiver { _ in .status(400, body: story) }
        let relay = try Relay.running([
            .init("backend", good), .init("analytics-of-the-marketing-department", bad, ["schedule": #"["1h"]"#]),
            .init("crm", refusing, ["permanent": "[400]"]),
        ])
        let user = "a-user-with-a-rather-long-id-\(String(repeating: "0123456789", count: 6))"
        for number in 0..<3 {
            let webhook = Webhook(
                "SUBSCRIPTION_WITHOUT_END", .user(user), purchase: "subs_\(number)",
                transaction: "\(String(repeating: "9", count: 40))\(number)")
            #expect(try relay.source().post(webhook) == 200)
        }
        #expect(try relay.source().post(Array(#"{"event_name": 7, "why": "because"}"#.utf8)) == 200)
        #expect(try eventually { try relay.database.count("attempts") == 9 })
        return relay
    }

    @Test("No line is longer than the terminal; a wide one shows more")
    func width() throws {
        let relay = try busyRelay()
        defer { relay.end() }
        for command in ["status", "events", "deliveries", "quarantine"] {
            var shown: [Int: [String]] = [:]
            for columns in [80, 200] {
                let lines = try relay.onTerminal(columns: columns, command).map(Self.plain)
                shown[columns] = lines
                #expect(lines.count > 1, "\(command)")
                for line in lines { #expect(line.count <= columns, "\(command) at \(columns): \(line)") }
            }
            #expect(shown[80]?.max { $0.count < $1.count }?.count ?? 0 > 40, "\(command)")
            if command != "quarantine" {
                let longest = shown[200]?.map(\.count).max() ?? 0
                #expect(longest > 80, "\(command) at 200: \(longest)")
            }
        }
        // In a pipe nothing is cut: programs read it.
        #expect(
            try relay.command("status", "--config", relay.configuration).output.contains(
                "analytics-of-the-marketing-department"))
    }

    @Test("Colour on a terminal only, and not where NO_COLOR forbids it")
    func colour() throws {
        let relay = try busyRelay()
        defer { relay.end() }
        func isColoured(_ lines: [String]) -> Bool { lines.contains { $0.contains("\u{1B}[") } }
        for command in ["status", "deliveries"] {
            #expect(isColoured(try relay.onTerminal(columns: 80, command)), "\(command)")
            #expect(
                !isColoured(try relay.onTerminal(columns: 80, command, environment: ["NO_COLOR": "1"])), "\(command)")
            // no-color.org: an empty one says nothing.
            #expect(
                isColoured(try relay.onTerminal(columns: 80, command, environment: ["NO_COLOR": ""])), "\(command)")
            let piped = try relay.command(command, "--config", relay.configuration)
            #expect(!isColoured([piped.output, piped.errors]), "\(command)")
        }
    }

    @Test("replay shows its progress on a terminal, takes it away, and shows none in a pipe")
    func progress() throws {
        let relay = try busyRelay()
        defer { relay.end() }
        let lines = try relay.onTerminal(columns: 80, "replay", "--outcome", "delivered", "--integration", "backend")
        let text = lines.joined(separator: "\n")
        #expect(text.contains("replaying: 3 of 3\r\u{1B}[K"), "\(lines)")
        #expect(text.hasSuffix("3 put into the queue of 3 found: backend 3"), "\(lines)")
        let piped = try relay.command("replay", "--outcome", "dead", "--config", relay.configuration)
        #expect(piped.output == "3 put into the queue of 3 found: crm 3" && piped.errors == "", "\(piped)")
    }
}
