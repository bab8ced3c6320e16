import Foundation
import TestSupport
import Testing
import Vocabulary

/// The operator's commands on a relay that runs, as a person and as a program read them. Oracle: the receivers, psql.
@Suite struct OperatorTests {
    @Test("status: state, what waits, the last minute, the last error; 80 columns; paused and why")
    func status() throws {
        let good = try Receiver()
        let bad = try Receiver { _ in .status(500, body: "out of order") }
        let relay = try Relay.running([
            .init("backend", good), .init("analytics", bad, ["schedule": #"["1h"]"#]),
        ])
        defer { relay.end() }
        for number in 0..<3 {
            #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)")) == 200)
        }
        #expect(try eventually { try relay.database.count("attempts") == 6 })
        #expect(good.count == 3 && bad.count == 3)
        let figures = try #require(try relay.json("status")["integrations"] as? [[String: Any]])
        #expect(figures.map { $0["name"] as? String } == ["analytics", "backend"])
        #expect(figures.map { $0["state"] as? String } == ["waiting", "delivering"])
        #expect(figures.map { $0["waiting"] as? Int } == [3, 0])
        #expect(figures.map { $0["delivered_last_minute"] as? Int } == [0, 3])
        #expect(figures.map { $0["failed_last_minute"] as? Int } == [3, 0])
        #expect((figures[0]["last_error"] as? [String: Any])?["http_status"] as? Int == 500)
        #expect(try relay.command("pause", "backend", "--config", relay.configuration).end == .exited(0))
        let lines = try relay.onTerminal(columns: 80, "status", environment: ["NO_COLOR": "1"])
        #expect(lines.first?.hasPrefix("1 daemon is running") == true)
        let table = lines.filter {
            $0.contains("INTEGRATION") || $0.hasPrefix("backend  ") || $0.hasPrefix("analytics  ")
        }
        #expect(table.count == 3 && table.allSatisfy { $0.count <= 80 && !$0.contains("\u{1B}") }, "\(lines)")
        #expect(table.contains { $0.hasPrefix("backend") && $0.contains("paused") }, "\(lines)")
        #expect(lines.contains { $0.hasPrefix("backend: paused by hand, since ") && $0.contains("posthouse resume") })
        // Off a terminal nothing is cut, whatever COLUMNS the shell has passed on.
        let (piped, end) = try Relay.run(
            ["status", "--config", relay.configuration], environment: ["COLUMNS": "20"])
        #expect(end == .exited(0))
        #expect(piped.output.contains { $0.contains("analytics") && $0.contains("out of order") }, "\(piped.output)")
        let watched = try ChildProcess([try Relay.binary.get(), "status", "--watch", "--config", relay.configuration])
        #expect(watched.waitForOutput(180) { $0.contains("analytics") } != nil)
        watched.signal(SIGINT)
        #expect(watched.waitForEnd(180) != nil)
    }

    @Test("What takes too long is left out of status, and trace says what to ask instead")
    func tooLong() throws {
        let relay = try Relay([.init("backend", Receiver())], databaseSettings: ["statement_timeout": #""60s""#])
        defer { relay.end() }
        try relay.start()
        // For the commands alone: a busy machine may not start the daemon by it.
        let text = try String(contentsOfFile: relay.configuration, encoding: .utf8)
        try relay.directory.write(
            "posthouse.toml", text.replacing(#"statement_timeout = "60s""#, with: #"statement_timeout = "8s""#))
        let database = try relay.database
        let holder = try ChildProcess([
            TestCluster.psql, "-X", "-q", "-d", database.connectionString, "-c",
            "BEGIN; LOCK TABLE purchase_ends, transactions IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)",
        ])
        defer { holder.signal(SIGKILL) }
        let held = "SELECT count(*) FROM pg_locks WHERE relation = 'transactions'::regclass AND granted"
        #expect(try eventually { try database.value(held) != "0" })
        let sources = try #require(try relay.json("status")["sources"] as? [[String: Any]])
        #expect(sources.count == 1 && sources[0]["overdue"] is NSNull, "\(sources)")
        let (end, _, errors) = try relay.command("trace", "x", "--config", relay.configuration)
        #expect(end == .exited(1) && errors.contains("--transaction, --user") && !errors.contains("57014"), "\(errors)")
        #expect(try database.value(held) != "0")
    }

    @Test("overdue --environment: in any case of letters, as the API reads it; an unknown one is wrong usage")
    func overdueEnvironment() throws {
        let relay = try Relay.running([.init("backend", Receiver())])
        defer { relay.end() }
        var sandbox = Webhook("ACTIVATE", .user("u"), purchase: "subs_1", paidDays: 1)
        sandbox.environment = "SANDBOX"
        #expect(try relay.source().post(sandbox) == 200)
        for (environment, count) in [("SANDBOX", 1), ("sandbox", 1), ("prod", 0), ("Production", 0)] {
            let overdue = try relay.json("overdue", "--environment", environment)["overdue"] as? [Any]
            #expect(overdue?.count == count, "\(environment)")
        }
        let refused = try relay.command("overdue", "--environment", "sandbx", "--config", relay.configuration)
        #expect(refused.end == .exited(64) && refused.errors.contains("PRODUCTION, SANDBOX"), "\(refused)")
    }

    @Test("audit: 0 and the sums of a sound ledger; 1, what is missing and what to do; backfill then delivers it")
    func audit() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        for number in 0..<3 {
            #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)")) == 200)
        }
        #expect(try eventually { try relay.database.count("attempts") == 3 })
        let sound = try relay.json("audit")
        #expect(sound["delivered"] as? Int == 3 && sound["found"] as? Int == 0)
        _ = try relay.database.rows("DELETE FROM attempts WHERE message = (SELECT min(message) FROM attempts)")
        let findings = try #require(try relay.json("audit", ended: 1)["findings"] as? [[String: Any]])
        #expect(findings.map { $0["kind"] as? String } == ["unanswered"])
        let text = try relay.command("audit", "--config", relay.configuration)
        #expect(text.end == .exited(1))
        #expect(text.output.contains("to backend: no outcome is recorded; do: posthouse backfill backend"))
        #expect(try relay.json("audit", "--integration", "backend", "--since", "1h", ended: 1)["found"] as? Int == 1)
        let unknown = try relay.command("audit", "--integration", "nobody", "--config", relay.configuration)
        #expect(unknown.end == .exited(1) && unknown.errors.contains("known are: backend"), "\(unknown)")
        #expect(try relay.json("backfill", "backend", "--since", "1h")["queued"] as? Int == 1)
        #expect(receiver.waitForAccepted(4))
        #expect(try eventually { try relay.database.count("attempts") == 3 })
        #expect(try relay.json("audit")["delivered"] as? Int == 3)
    }

    @Test("events and trace find by whatever support was given")
    func find() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        let transaction = "100000099999999"
        for webhook in [
            Webhook("ACTIVATE", .anonymous("a-1"), purchase: "subs_1", transaction: transaction, eventID: "vendor-1"),
            Webhook(
                "DEACTIVATE", .anonymous("a-1"), purchase: "subs_1", transaction: transaction, at: Webhook.epoch + 1),
            Webhook("ACTIVATE", .user("u-1"), purchase: "subs_1", transaction: transaction, at: Webhook.epoch + 1),
            Webhook("ACTIVATE", .user("u-2"), purchase: "subs_2"),
        ] { #expect(try relay.source().post(webhook) == 200) }
        #expect(receiver.waitForAccepted(6))
        #expect(try relay.database.drained())
        let reported = try #require(receiver.received.first { $0.type == "SUBSCRIPTION_RECEIVED" })
        let transfer = try #require((reported.data["transfer"] as? [String: Any])?["id"] as? String)
        for (option, id, count) in [
            ("--transaction", transaction, 3), ("--event", "vendor-1", 1), ("--message", reported.id, 1),
            ("--transfer", transfer, 1), ("--user", "u-1", 1), ("--anonymous", "a-1", 3),
        ] {
            let events = try #require(try relay.json("events", option, id)["events"] as? [[String: Any]])
            #expect(events.count == count, "\(option)")
            let webhooks = try #require(try relay.json("trace", option, id)["webhooks"] as? [[String: Any]])
            #expect(webhooks.count == count, "\(option)")
            let guessed = try relay.command("trace", id, "--config", relay.configuration)
            #expect(guessed.output.hasPrefix("\(option.dropFirst(2)) \(id)\n"), "\(guessed)")
            #expect(guessed.output.contains("→ backend: delivered"), "\(guessed)")
        }
        #expect(try (relay.json("events", "--limit", "2")["events"] as? [Any])?.count == 2)
        #expect(try (relay.json("events", "--source", "posthouse")["events"] as? [Any])?.count == 0)
        #expect(try (relay.json("events", "--since", "1h")["events"] as? [Any])?.count == 4)
        let plain = try relay.command("events", "--config", relay.configuration)
        #expect(plain.output.hasPrefix("RECEIVED ") && plain.output.contains("anon:a-1"))
        let c = relay.configuration
        #expect(try relay.command("trace", "--config", c).end == .exited(64))
        #expect(try relay.command("events", "--user", "a", "--event", "b", "--config", c).end == .exited(64))
        #expect(try relay.command("events", "--since", "soon", "--config", c).end == .exited(64))
        #expect(try relay.command("trace", "--user", "nobody", "--config", c).end == .exited(1))
    }

    @Test("deliveries lists what died; replay delivers it under the same id, dead letters leave")
    func replay() throws {
        let isMended = Monitor(false)
        let receiver = try Receiver { _ in isMended.read { $0 } ? .ok : .status(400, body: "unwanted") }
        let relay = try Relay.running([.init("backend", receiver, ["permanent": "[400]"])])
        defer { relay.end() }
        let c = relay.configuration
        for number in 0..<2 {
            #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)")) == 200)
        }
        #expect(try eventually { try relay.database.count("dead_letters") == 2 })
        let dead = try #require(try relay.json("deliveries", "--state", "dead")["deliveries"] as? [[String: Any]])
        #expect(dead.count == 2 && dead.allSatisfy { $0["http_status"] as? Int == 400 })
        #expect(try relay.command("deliveries", "--config", c).output.contains("unwanted"))
        #expect(try relay.command("deliveries", "--integration", "bakend", "--config", c).errors.contains("backend"))
        isMended.change { $0 = true }
        #expect(try relay.command("replay", "--config", c).end == .exited(64))
        #expect(try relay.command("replay", "--message", "no", "--config", c).end == .exited(64))
        for ended in [
            try relay.command("replay", "--since", "1h", "--until", "2h", "--config", c),
            try relay.command("backfill", "backend", "--since", "1h", "--until", "2h", "--config", c),
        ] {
            #expect(ended.end == .exited(64) && ended.errors.contains("is before --since"), "\(ended)")
        }
        let dry = try relay.command("replay", "--outcome", "dead", "--dry-run", "--config", c)
        #expect(dry.output == "2 would be replayed: backend 2")
        #expect(try relay.database.count("dead_letters") == 2)
        let first = try #require(dead[0]["message"] as? String)
        let one = try relay.command("replay", "--message", first, "--config", c)
        #expect(one.output == "1 put into the queue of 1 found: backend 1", "\(one)")
        #expect(receiver.waitForAccepted(1))
        #expect(receiver.accepted.map(\.id) == [first])
        let rest = try relay.json("replay", "--integration", "backend", "--event", "ACT*", "--outcome", "dead")
        #expect(rest["queued"] as? Int == 1 && rest["found"] as? Int == 1)
        #expect(receiver.waitForAccepted(2))
        #expect(Set(receiver.accepted.map(\.id)) == Set(dead.compactMap { $0["message"] as? String }))
        #expect(try relay.database.count("dead_letters") == 0 && relay.database.drained())
        // What was delivered can be had again, as often as one likes.
        let words = ["delivered", "accepted"]
        for round in 1...2 {
            #expect(try relay.json("replay", "--since", "1h", "--outcome", words[round - 1])["queued"] as? Int == 2)
            #expect(receiver.waitForAccepted(2 + 2 * round))
            #expect(try relay.database.drained())
        }
        #expect(Set(receiver.accepted.map(\.id)).count == 2)
    }

    @Test("quarantine: list, show, retry; what is read is delivered, what is not stays with its reason")
    func quarantine() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        let c = relay.configuration
        for text in ["{}", "[]"] { #expect(try relay.source().post(Array(text.utf8)) == 200) }
        let kept = try #require(try relay.json("quarantine")["quarantine"] as? [[String: Any]])
        #expect(kept.count == 2)
        let ids = kept.compactMap { ($0["id"] as? Int).map(String.init) }
        let shown = try relay.command("quarantine", "show", ids[0], "--config", c)
        #expect(shown.output == "{}" && shown.errors.contains("of purchasely"))
        #expect(try relay.command("quarantine", "show", "999", "--config", c).end == .exited(1))
        let still = try relay.command("quarantine", "retry", ids[0], "--config", c)
        #expect(still.end == .exited(1) && still.output.hasPrefix("\(ids[0]) kept: "))
        // As if this version could read it.
        let good = Webhook("ACTIVATE", .user("u"), purchase: "subs_1")
        let hex = good.body.map { String(format: "%02x", $0) }.joined()
        try relay.database.rows("UPDATE quarantine SET body = '\\x\(hex)' WHERE id = \(ids[0])")
        let retried = try relay.command("quarantine", "retry", "--all", "--config", c)
        #expect(retried.end == .exited(1))
        #expect(retried.output.contains("\(ids[0]) recorded: ACTIVATE evt_"), "\(retried)")
        #expect(retried.output.contains("\(ids[1]) kept: "))
        #expect(receiver.waitForAccepted(1))
        #expect(receiver.accepted[0].type == "ACTIVATE")
        #expect(try relay.database.count("quarantine") == 1)
        // The same event by its source: known.
        #expect(try relay.source().post(good) == 200)
        #expect(try relay.database.count("events") == 1)
    }

    @Test("backfill gives a new integration its past; discard gives up what waits")
    func backfillAndDiscard() throws {
        let isDown = Monitor(false)
        let (old, new) = (try Receiver(), try Receiver { _ in isDown.read { $0 } ? .status(500) : .ok })
        let relay = try Relay.running([.init("backend", old)])
        defer { relay.end() }
        let c = relay.configuration
        for number in 0..<3 {
            #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)")) == 200)
        }
        #expect(old.waitForAccepted(3))
        let secret = try relay.directory.write("late.secret", new.secret)
        let text = try String(contentsOfFile: c, encoding: .utf8)
        try relay.directory.write(
            "posthouse.toml",
            text + """
                [[integration]]
                name = "late"
                url = "\(new.url)"
                events = ["*"]
                allow_private = true
                schedule = ["1h"]
                secret = { file = "\(secret)" }

                """)
        try relay.restart()
        let dry = try relay.command("backfill", "late", "--since", "1h", "--dry-run", "--config", c)
        #expect(dry.output == "3 would go to late", "\(dry)")
        #expect(try relay.json("backfill", "late", "--since", "1h")["queued"] as? Int == 3)
        #expect(new.waitForAccepted(3))
        #expect(Set(new.accepted.map(\.id)) == Set(old.accepted.map(\.id)) && old.accepted.count == 3)
        #expect(try relay.database.drained())
        #expect(try relay.json("backfill", "late", "--since", "1h")["queued"] as? Int == 0)
        #expect(try relay.command("backfill", "none", "--since", "1h", "--config", c).errors.contains("late"))
        // Without the integration its deliveries wait until somebody decides.
        isDown.change { $0 = true }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_9")) == 200)
        #expect(try eventually { try relay.database.count("attempts", where: "http_status = 500") == 1 })
        #expect(old.waitForAccepted(4))
        try relay.directory.write("posthouse.toml", text)
        try relay.restart()
        let status = try relay.command("status", "--config", c).output
        #expect(status.contains("removed") && status.contains("posthouse discard late"), "\(status)")
        #expect(try relay.command("replay", "--integration", "late", "--config", c).end == .exited(1))
        let discarded = try relay.json("discard", "late")
        #expect(discarded["discarded"] as? Int == 1)
        #expect(try relay.database.count("deliveries") == 0)
        #expect(try relay.database.value("SELECT reason FROM dead_letters") == "discarded by hand")
        #expect(try relay.command("discard", "none", "--config", c).end == .exited(1))
    }

    /// Every command that asks the database.
    static let databaseCommands = [
        ["status"], ["events"], ["trace", "x"], ["deliveries"], ["overdue"], ["pause", "backend"],
        ["resume", "backend"],
        ["retry", "backend"], ["replay", "--outcome", "dead"], ["backfill", "backend", "--since", "1h"],
        ["discard", "backend"],
        ["discard", "--dead", "backend"], ["quarantine"], ["quarantine", "show", "1"], ["quarantine", "retry", "1"],
        ["quarantine", "discard", "1"], ["erase", "--user", "u"], ["repair", "subs_1"], ["repair", "--all"],
        ["migrate"], ["audit"], ["export"],
    ]

    @Test("A database that does not answer: 69, and what to do", arguments: databaseCommands)
    func database(command: [String]) throws {
        let relay = try Relay([.init("backend", Receiver())], storage: .given("host=127.0.0.1 port=1 dbname=d"))
        defer { relay.end() }
        let child = try ChildProcess([try Relay.binary.get()] + command + ["--config", relay.configuration])
        #expect(child.waitForEnd(180) == .exited(69), "\(child.errors)")
        let errors = child.errors.joined(separator: "\n")
        #expect(errors.contains("[database] url"), "\(errors)")
        if getuid() == 0 { #expect(errors.contains("runuser -u posthouse -- "), "\(errors)") }
    }

    @Test("A database without a schema: 1, and what to do")
    func noSchema() throws {
        let empty = try Relay([.init("backend", Receiver())], storage: .fresh)
        defer { empty.end() }
        for command in Self.databaseCommands where command[0] != "migrate" {
            let (child, end) = try Relay.run(command + ["--config", empty.configuration])
            #expect(end == .exited(1), "\(command)")
            #expect(child.errors.contains { $0.contains("posthouse migrate") }, "\(command): \(child.errors)")
        }
    }

    @Test("A url that cannot be read here: 78, and how it can")
    func unreadableURL() throws {
        let relay = try Relay([.init("backend", Receiver())], storage: .given("host=127.0.0.1 port=1 dbname=d"))
        defer { relay.end() }
        let text = try String(contentsOfFile: relay.configuration, encoding: .utf8)
        let file = "{ file = \"\(relay.directory.path)/database-url\" }"
        try relay.directory.write(
            "posthouse.toml", text.replacingOccurrences(of: file, with: "{ credential = \"database-url\" }"))
        for command in Self.databaseCommands {
            let child = try ChildProcess([try Relay.binary.get()] + command + ["--config", relay.configuration])
            #expect(child.waitForEnd(180) == .exited(78), "\(command)")
            let saysHow = child.errors.contains { $0.contains("runuser -u posthouse -- posthouse ") }
            #expect(saysHow, "\(command): \(child.errors)")
        }
    }
}
