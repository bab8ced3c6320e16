import Foundation
import TestSupport
import Testing

/// A command that an entry of the journal or an alert advises is one that the program understands. Oracle: its parser.
@Suite struct AdviceTests {
    private static let deploy = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "deploy")

    /// Exit code 64 says that it is not. The database does not answer, so none of them does anything.
    private func understood(_ advice: Set<String>) throws {
        #expect(advice.count > 3)
        let relay = try Relay([.init("backend", Receiver())], storage: .given("host=127.0.0.1 port=1 dbname=d"))
        defer { relay.end() }
        try relay.configure(
            [.init("backend", Receiver())], settings: "[embedded]\ndirectory = \"\(relay.directory.path)/state\"")
        for line in advice.sorted() {
            let words = line.split(separator: " ").dropFirst().map(String.init)
            let child = try ChildProcess([try Relay.binary.get()] + words + ["--config", relay.configuration])
            let end = try #require(child.waitForEnd(180), "\(line)")
            #expect(end != .exited(64), "\(line): \(child.errors)")
        }
    }

    @Test("The catalogue's commands")
    func catalogue() throws {
        let text = try String(contentsOf: Self.deploy.appending(path: "posthouse.catalog"), encoding: .utf8)
            .replacing("@POSTHOUSE_QUARANTINE@", with: "1").replacing(/@POSTHOUSE_[A-Z_]+@/, with: "x")
        let advice = text.matches(of: /"(posthouse\s[^"]+)"/).map { match in
            match.1.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        }
        try understood(Set(advice))
    }

    @Test("The alerts' commands: each alert names one")
    func alerts() throws {
        let text = try String(contentsOf: Self.deploy.appending(path: "monitoring/alerts.yml"), encoding: .utf8)
        let summaries = text.matches(of: /summary: "(.*)"/).map { String($0.1) }
        #expect(summaries.count == text.components(separatedBy: "- alert: ").count - 1)
        var advice: Set<String> = []
        for summary in summaries {
            let last = try #require(summary.components(separatedBy: ": ").last)
            for command in last.components(separatedBy: ", then ") {
                let program = command.prefix { $0 != " " }
                #expect(["posthouse", "journalctl", "systemctl", "cat"].contains(program), "\(summary)")
                if program == "posthouse" { advice.insert(command.replacing(/\{\{.*?\}\}/, with: "x")) }
            }
        }
        try understood(advice)
    }
}
