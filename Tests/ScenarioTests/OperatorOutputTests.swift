import Foundation
import TestSupport
import Testing
import Vocabulary

/// What the commands print for programs and for terminals. Oracle: JSONSerialization; what a terminal would act on.
@Suite struct OperatorOutputTests {
    @Test("--json on check, migrate, pause and resume")
    func objects() throws {
        let receiver = try Receiver()
        let relay = try Relay([.init("backend", receiver)], storage: .fresh)
        defer { relay.end() }
        let first = try relay.json("migrate")
        #expect(first["from"] as? Int == 0 && first["to"] as? Int ?? 0 > 0)
        let again = try relay.json("migrate")
        #expect(again["from"] as? Int == first["to"] as? Int)
        #expect(try relay.json("check")["usable"] as? Bool == true)
        // Known to the file, and to no daemon yet.
        #expect(try relay.json("status")["unserved"] as? [String] == ["backend"])
        let early = try relay.command("status", "--config", relay.configuration).output
        #expect(early.contains("no daemon is running") && early.contains("backend: in the configuration"), "\(early)")
        try relay.start()
        #expect(try relay.json("status")["unserved"] as? [String] == [])
        for (command, isPaused) in [("pause", true), ("resume", false)] {
            for isChanged in [true, false] {
                let reported = try relay.json(command, "backend")
                #expect(
                    reported["paused"] as? Bool == isPaused && reported["changed"] as? Bool == isChanged, "\(command)")
            }
        }
        let text = try String(contentsOfFile: relay.configuration, encoding: .utf8)
        try relay.directory.write("posthouse.toml", text + "\nnonsense = 1\n")
        let bad = try relay.json("check", ended: 78)
        let finding = try #require(
            (bad["findings"] as? [[String: Any]])?.first { $0["severity"] as? String == "error" })
        #expect(bad["usable"] as? Bool == false && finding["line"] as? Int ?? 0 > 1)
        #expect((finding["message"] as? String)?.contains("nonsense") == true)
    }

    @Test("erase: a dry run says what, the erasure proves itself, a late duplicate is acknowledged and not stored")
    func erase() throws {
        let good = try Receiver()
        let bad = try Receiver { _ in .status(500, body: "no jeff-9f3c") }
        let relay = try Relay.running([.init("backend", good), .init("late", bad, ["schedule": #"["1h"]"#])])
        defer { relay.end() }
        let c = relay.configuration
        let own = Webhook("ACTIVATE", .user("jeff-9f3c"), purchase: "subs_1", eventID: "vendor-1")
        #expect(try relay.source().post(own) == 200)
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("ann"), purchase: "subs_2")) == 200)
        #expect(try eventually { try relay.database.count("attempts") == 4 })
        #expect(try relay.command("erase", "--config", c).end == .exited(64))
        #expect(try relay.command("erase", "--user", "a", "--anonymous", "b", "--config", c).end == .exited(64))
        let dry = try relay.json("erase", "--user", "jeff-9f3c", "--dry-run")
        #expect(dry["events"] as? Int == 1 && dry["deliveries"] as? Int == 1 && dry["left"] is NSNull)
        #expect(try relay.database.count("events") == 2)
        let reported = try relay.command("erase", "--user", "jeff-9f3c", "--config", c)
        #expect(
            reported.end == .exited(0) && reported.output.contains("searched again: nothing is left"), "\(reported)")
        #expect(try relay.database.count("events") == 1 && relay.database.count("deliveries") == 1)
        #expect(try relay.source().post(own) == 200)
        #expect(relay.waitForLine("duplicate ACTIVATE vendor-1") != nil)
        #expect(try relay.database.count("events") == 1)
        #expect(try relay.json("events", "--user", "jeff-9f3c")["events"] as? [String] == [])
        #expect(
            try relay.command("erase", "--user", "jeff-9f3c", "--config", c).output.hasPrefix("nothing is stored of"))
        // The other's delivery waits as before.
        #expect(try relay.json("deliveries", "--state", "waiting")["deliveries"].map { ($0 as? [Any])?.count } == 1)
    }

    @Test("Commands refuse a source that nobody knows; one that left the configuration is known")
    func unknownSource() throws {
        let relay = try Relay.running([.init("backend", Receiver())])
        defer { relay.end() }
        let c = relay.configuration
        try relay.database.rows("INSERT INTO source_names (name) VALUES ('former')")
        let misspelt = [
            try relay.command("erase", "--user", "ann", "--source", "purchasley", "--config", c),
            try relay.command("export", "--source", "purchasley", "--config", c),
            try relay.command("events", "--source", "purchasley", "--limit", "1", "--config", c),
            try relay.command("overdue", "--source", "purchasley", "--config", c),
            try relay.command("repair", "--all", "--source", "purchasley", "--config", c),
            try relay.command("repair", "subs_1", "--source", "purchasley", "--config", c),
        ]
        for refused in misspelt {
            #expect(refused.end == .exited(1) && refused.output.isEmpty, "\(refused)")
            #expect(
                refused.errors.contains(
                    "there is no source purchasley (did you mean purchasely?); known are: former, purchasely"),
                "\(refused)")
        }
        for source in ["former", "purchasely"] {
            let erased = try relay.command("erase", "--user", "ann", "--source", source, "--config", c)
            #expect(erased.end == .exited(0) && erased.output.hasPrefix("nothing is stored of"), "\(erased)")
            #expect(try relay.command("export", "--source", source, "--config", c).end == .exited(0))
            #expect(try relay.command("overdue", "--source", source, "--config", c).end == .exited(0))
            #expect(try relay.command("repair", "--all", "--source", source, "--config", c).end == .exited(0))
        }
    }

    @Test("deliveries: what was put off and never tried says when it is tried")
    func putOff() throws {
        let receiver = try Receiver { _ in .status(500) }
        let relay = try Relay.running([.init("backend", receiver, ["schedule": #"["1h"]"#])])
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("ann"), purchase: "subs_1")) == 200)
        let database = try relay.database
        #expect(try eventually { try database.count("deliveries", where: "attempts = 1 AND leased_by IS NULL") == 1 })
        // As a delivery whose message cannot be read, or that was given back by a clock that was ahead.
        try database.rows("UPDATE deliveries SET attempts = 0")
        try database.rows("DELETE FROM attempts")
        let listed = try relay.command("deliveries", "--state", "waiting", "--config", relay.configuration)
        #expect(listed.output.contains("m: not tried yet"), "\(listed)")
    }

    @Test("What came from outside moves no cursor")
    func harmless() throws {
        let receiver = try Receiver { _ in .status(500, body: "bad\u{1B}[2Jnews\u{202E}\r\n") }
        let relay = try Relay.running([.init("backend", receiver, ["schedule": #"["1h"]"#])])
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("j\u{202E}x"), purchase: "subs_1")) == 200)
        #expect(try eventually { try relay.database.count("attempts") == 1 })
        for command in [
            ["status"], ["events"], ["deliveries"], ["overdue"], ["trace", "subs_none"],
            ["trace", "--user", "j\u{202E}x"],
        ] {
            let (child, end) = try Relay.run(command + ["--config", relay.configuration])
            _ = try #require(end)
            let unsafe = child.output.joined(separator: "\n").unicodeScalars.contains {
                $0 != "\n" && ($0.properties.generalCategory == .control || $0.properties.generalCategory == .format)
            }
            #expect(!unsafe, "\(command): \(child.output)")
        }
        let status = try relay.command("status", "--config", relay.configuration).output
        #expect(status.contains(#"bad\u{1b}[2Jnews"#), "\(status)")
    }
}
