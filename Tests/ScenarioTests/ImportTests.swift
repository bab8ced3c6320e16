import Foundation
import TestSupport
import Testing
import Vocabulary

/// posthouse import and posthouse export with the real binary beside a running daemon. Oracle: SQL, and the API.
@Suite struct ImportTests {
    private static let soon = "2099-01-01T00:00:00Z"

    private static func line(
        _ user: String, _ purchase: String, until: String = "\"\(soon)\"", source: String = "purchasely",
        more: String = ""
    ) -> String {
        """
        {"source":"\(source)","app":"com.example.app","environment":"PRODUCTION","holder":{"user_id":"\(user)"},\
        "as_of":"2026-01-10T00:00:00Z","until":\(until),"store":"APPLE_APP_STORE","purchase":"\(purchase)",\
        "kind":"subscription","product":"gold"\(more)}
        """
    }

    @Test("Lines are recorded once, receivers are told nothing, and bad lines are named with their number")
    func wholeWay() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        let c = relay.configuration
        let text = [
            Self.line("ann", "old_1"), "", Self.line("bob", "old_2", until: "null"), "{", Self.line("c", "old_3"),
            Self.line("c", "old_3", more: #","expires":1"#), Self.line("d", "old_4", source: "elsewhere"),
            // As no webhook is stored, so that no webhook would meet them.
            Self.line("e", "old_5").replacing("PRODUCTION", with: "Production"),
            Self.line("e", "old_5").replacing("APPLE_APP_STORE", with: "APP_STORE"),
        ].joined(separator: "\r\n")
        let file = try relay.directory.write("lines", text)

        let dry = try relay.json("import", "purchasely", file, "--dry-run", ended: 1)
        #expect(dry["new"] as? Int == 3 && dry["left_out"] as? Int == 4, "\(dry)")
        #expect(try relay.database.count("events") == 0)

        let first = try relay.command("import", "purchasely", file, "--config", c)
        #expect(first.end == .exited(1), "\(first)")
        #expect(
            first.output == "8 lines: 3 recorded, 0 known before, 1 of other sources, 4 left out", "\(first.output)")
        #expect(first.errors.contains("\(file):4: ") && first.errors.contains("\(file):6: "), "\(first.errors)")
        #expect(first.errors.contains("expires"), "\(first.errors)")
        let spelled = [#"is written "PRODUCTION""#, #"is written "APPLE_APP_STORE""#]
        #expect(spelled.allSatisfy(first.errors.contains), "\(first.errors)")
        let again = try relay.json("import", "purchasely", file, ended: 1)
        #expect(again["known"] as? Int == 3 && again["recorded"] as? Int == 0, "\(again)")
        #expect(
            try relay.database.access() == [
                "old_1": ["user:ann": true], "old_2": ["user:bob": true], "old_3": ["user:c": true],
            ])
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("ann"), purchase: "subs_9")) == 200)
        #expect(receiver.waitForAccepted(1))
        #expect(try relay.database.drained())
        #expect(receiver.accepted.map(\.type) == ["ACTIVATE"])
        let audit = try relay.command("audit", "--config", c)
        #expect(audit.end == .exited(0), "\(audit)")
        let repaired = try relay.json("repair", "--all")
        #expect(repaired["repaired"] as? Int == 0 && repaired["kept"] as? Int == 0, "\(repaired)")
        let trace = try relay.command("trace", "--user", "bob", "--config", c)
        #expect(trace.end == .exited(0) && trace.output.contains("posthouse.import"), "\(trace)")
    }

    @Test("An export is an import: compared with where it came from, all is the same; a change is shown")
    func roundTrip() throws {
        let relay = try Relay.running([.init("backend", try Receiver())])
        defer { relay.end() }
        let c = relay.configuration
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("ann"), purchase: "subs_1")) == 200)
        #expect(try relay.source().post(Webhook("ACTIVATE", .anonymous("d"), purchase: "subs_2")) == 200)
        let exported = try relay.command("export", "--config", c)
        #expect(exported.end == .exited(0) && exported.output.contains("\"subs_2\""), "\(exported)")
        let file = try relay.directory.write("exported", exported.output + "\n")
        let same = try relay.json("import", "purchasely", file, "--dry-run")
        #expect(same["different"] as? Int == 0 && same["new"] as? Int == 0, "\(same)")
        #expect((same["same"] as? Int ?? 0) > 0, "\(same)")

        let changed = exported.output.replacingOccurrences(of: "\"ann\"", with: "\"bob\"")
        try relay.directory.write("exported", changed)
        let difference = relay.directory.path + "/difference"
        let other = try relay.json("import", "purchasely", file, "--dry-run", "--diff", difference)
        #expect((other["different"] as? Int ?? 0) > 0, "\(other)")
        let text = try String(contentsOfFile: difference, encoding: .utf8)
        #expect(text.contains("\"bob\"") && text.contains("\"ledger\":{\"active\":null"), "\(text)")
        func mode() throws -> Int? {
            try FileManager.default.attributesOfItem(atPath: difference)[.posixPermissions] as? Int
        }
        #expect(try mode() == 0o600)
        // One that is there is closed to others, too; the input is never the one.
        #expect(chmod(difference, 0o644) == 0)
        _ = try relay.json("import", "purchasely", file, "--dry-run", "--diff", difference)
        #expect(try mode() == 0o600)
        #expect(try String(contentsOfFile: difference, encoding: .utf8) == text)
        let itself = try relay.command("import", "purchasely", file, "--dry-run", "--diff", file, "--config", c)
        #expect(itself.end == .exited(1) && itself.errors.contains("is the file that is read"), "\(itself)")
        #expect(try String(contentsOfFile: file, encoding: .utf8) == changed)
    }

    @Test("Lines of an export may have an app that the source had before, which is said; other lines have that of now")
    func otherApp() throws {
        let relay = try Relay.running([])
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("ann"), purchase: "subs_1")) == 200)
        let exported = try relay.command("export", "--config", relay.configuration)
        #expect(exported.end == .exited(0) && exported.output.contains("\"subs_1\""), "\(exported)")
        let text = exported.output + "\n" + Self.line("bob", "old_1")
        let file = try relay.directory.write("lines", text)
        try relay.configure([], sources: [Relay.SourceTable(settings: ["app": "\"com.example.renamed\""])])
        let dry = try relay.json("import", "purchasely", file, "--dry-run", ended: 1)
        #expect(dry["left_out"] as? Int == 1 && dry["new"] as? Int == 0 && dry["different"] as? Int == 0, "\(dry)")
        let lines = exported.output.split(separator: "\n").count
        #expect(dry["other_app"] as? Int == lines, "\(dry)")
        let done = try relay.command("import", "purchasely", file, "--config", relay.configuration)
        #expect(done.end == .exited(1) && done.errors.contains("com.example.renamed"), "\(done)")
        let said = #"\#(lines) \#(lines == 1 ? "line is" : "lines are") of the app "com.example.app": "#
        #expect(done.errors.contains(said), "\(done)")
        #expect(try relay.database.access() == ["subs_1": ["user:ann": true]])
    }

    @Test("Wrong words are refused before anything is read")
    func words() throws {
        let relay = try Relay.running([.init("backend", try Receiver())])
        defer { relay.end() }
        let c = relay.configuration
        let unknown = try relay.command("import", "purchasly", "/dev/null", "--config", c)
        #expect(unknown.end == .exited(1) && unknown.errors.contains("did you mean purchasely"), "\(unknown)")
        let missing = try relay.command("import", "purchasely", "/nowhere/lines", "--config", c)
        #expect(missing.end == .exited(1) && missing.errors.contains("/nowhere/lines cannot be read"), "\(missing)")
        #expect(try relay.command("import", "purchasely", "-", "--diff", "x", "--config", c).end == .exited(64))
        let nobody = try relay.command("import", "purchasely", "/dev/null", "--announce", "none", "--config", c)
        #expect(nobody.end == .exited(1), "\(nobody)")
    }
}
