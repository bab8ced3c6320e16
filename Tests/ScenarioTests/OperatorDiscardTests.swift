import Foundation
import TestSupport
import Testing
import Vocabulary

/// Throwing away what is kept until a person has decided. Oracle: SQL, the receivers.
@Suite struct OperatorDiscardTests {
    @Test("quarantine discard: by id, all of it, a dry run; what comes again is kept again")
    func quarantine() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        let c = relay.configuration
        for text in ["{}", "[]", "[1]", "[2]"] { #expect(try relay.source().post(Array(text.utf8)) == 200) }
        let kept = try #require(try relay.json("quarantine")["quarantine"] as? [[String: Any]])
        let ids = kept.compactMap { ($0["id"] as? Int).map(String.init) }
        try #require(ids.count == 4)
        #expect(try relay.command("quarantine", "discard", "--config", c).end == .exited(64))
        #expect(try relay.command("quarantine", "discard", ids[0], "--all", "--config", c).end == .exited(64))
        let dry = try relay.command("quarantine", "discard", ids[0], "--dry-run", "--config", c)
        #expect(dry.output == "1 would be discarded: \(ids[0])")
        #expect(try relay.database.count("quarantine") == 4)
        let one = try relay.command("quarantine", "discard", ids[0], "--config", c)
        #expect(one.end == .exited(0) && one.output == "1 discarded: \(ids[0])", "\(one)")
        #expect(
            try relay.database.value("SELECT string_agg(id::text, ' ' ORDER BY id) FROM quarantine")
                == ids.dropFirst().joined(separator: " "))
        // One that is there and one that is not: the first goes, the second is said.
        let mixed = try relay.command("quarantine", "discard", ids[1], ids[0], "--config", c)
        #expect(mixed.end == .exited(1) && mixed.output == "1 discarded: \(ids[1])")
        #expect(mixed.errors.contains("\(ids[0]) is not in quarantine"), "\(mixed)")
        for command in ["retry", "discard"] {
            let none = try relay.command("quarantine", command, ids[0], ids[1], "--config", c)
            #expect(none.end == .exited(1), "\(none)")
            #expect(none.errors.contains("\(ids[0]), \(ids[1]) are not in quarantine"), "\(none)")
        }
        let rest = try relay.json("quarantine", "discard", "--all")
        #expect(rest["discarded"] as? [Int] == ids.suffix(2).compactMap { Int($0) })
        #expect(rest["dry_run"] as? Bool == false)
        #expect(try relay.database.count("quarantine") == 0)
        #expect(try relay.json("quarantine", "discard", "--all")["discarded"] as? [Int] == [])
        #expect(try relay.source().post(Array("{}".utf8)) == 200)
        #expect(try relay.database.count("quarantine") == 1)
    }

    /// The daemon is gone: nobody gives the delivery back while the command looks.
    @Test("discard leaves what a daemon has leased, says so, and exits 1; a dry run exits 0")
    func leased() throws {
        let receiver = try Receiver { _ in .hang }
        let relay = try Relay.running([.init("backend", receiver, ["timeout": #""120s""#])])
        defer {
            relay.end()
            receiver.stop()
        }
        let c = relay.configuration
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(try eventually { try relay.database.count("deliveries", where: "leased_by IS NOT NULL") == 1 })
        relay.kill()
        let hint = "1 is leased by a daemon (posthouse pause backend releases it)"
        let dry = try relay.command("discard", "backend", "--dry-run", "--config", c)
        #expect(dry.end == .exited(0) && dry.output == "0 would be given up for backend; \(hint)", "\(dry)")
        let real = try relay.command("discard", "backend", "--config", c)
        #expect(real.end == .exited(1), "\(real)")
        #expect(real.output == "0 given up for backend, now dead letters; \(hint)", "\(real)")
        let object = try relay.json("discard", "backend", ended: 1)
        #expect(object["leased"] as? Int == 1 && object["discarded"] as? Int == 0, "\(object)")
        #expect(try relay.database.count("deliveries") == 1 && relay.database.count("dead_letters") == 0)
    }

    @Test("discard --dead: one integration's, by age, a dry run; what waits and what is another's stays")
    func dead() throws {
        let isMended = Monitor(false)
        let (bad, worse) = (try Receiver { _ in .status(400) }, try Receiver { _ in .status(400) })
        let late = try Receiver { _ in isMended.read { $0 } ? .ok : .status(500) }
        let relay = try Relay.running([
            .init("backend", bad, ["permanent": "[400]"]), .init("crm", worse, ["permanent": "[400]"]),
            .init("late", late, ["schedule": #"["1h"]"#]),
        ])
        defer { relay.end() }
        let c = relay.configuration
        for number in 0..<3 {
            #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)")) == 200)
        }
        #expect(try eventually { try relay.database.count("dead_letters") == 6 })
        // One of them died two hours ago.
        try relay.database.rows(
            """
            UPDATE dead_letters SET died_at = died_at - interval '2 hours' WHERE delivery =
                (SELECT min(d.delivery) FROM dead_letters d JOIN integrations i ON i.id = d.integration
                 WHERE i.name = 'backend')
            """)
        #expect(try relay.command("discard", "backend", "--before", "1h", "--config", c).end == .exited(64))
        #expect(try relay.command("discard", "--dead", "none", "--config", c).end == .exited(1))
        let dry = try relay.command("discard", "--dead", "backend", "--dry-run", "--config", c)
        #expect(dry.output == "3 would be discarded, dead letters of backend", "\(dry)")
        let old = try relay.command("discard", "--dead", "backend", "--before", "1h", "--config", c)
        #expect(old.output == "1 discarded, dead letters of backend", "\(old)")
        let rest = try relay.json("discard", "--dead", "backend")
        #expect(rest["dead_letters"] as? Int == 2 && rest["discarded"] as? Int == 2, "\(rest)")
        #expect(try relay.database.count("dead_letters") == 3)
        #expect(try relay.database.count("deliveries") == 3)
        let replayed = try relay.command("replay", "--integration", "backend", "--outcome", "dead", "--config", c)
        #expect(replayed.output == "nothing matches: nothing is replayed", "\(replayed)")
        // Of one that was removed from the configuration, too.
        try relay.configure([.init("backend", bad), .init("late", late)])
        _ = try relay.reload()
        #expect(try relay.json("discard", "--dead", "crm")["discarded"] as? Int == 3)
        #expect(try relay.database.count("dead_letters") == 0)
    }
}
