import Foundation
import TestSupport
import Testing
import Vocabulary

/// posthouse repair with the real binary. Oracle: SQL, before and after.
@Suite struct RepairTests {
    /// All that is stored of purchases and of access to them.
    static let picture = """
        SELECT p.id, p.kind, encode(p.state, 'hex'), e.holder, e.active,
               coalesce((p.access -> 'of' -> e.holder ->> 1)::bigint, e.as_of_ms)
        FROM purchases p LEFT JOIN entitlements e ON e.purchase = p.id ORDER BY p.id, e.holder
        """

    private static func damage(_ database: Database) throws {
        try database.rows(#"UPDATE purchases SET state = '\xff'"#)
    }

    @Test("A webhook of a damaged purchase is answered 200 and waits; repair and quarantine retry bring it back")
    func wholeWay() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        let c = relay.configuration
        let device = Holder.anonymous("device")
        #expect(try relay.source().post(Webhook("ACTIVATE", device, purchase: "subs_1")) == 200)
        let sound = try relay.database.rows(Self.picture)
        try Self.damage(relay.database)
        let login = Webhook("ACTIVATE", .user("ann"), purchase: "subs_1", at: Webhook.epoch + 60_000)
        #expect(try relay.source().post(login) == 200)
        #expect(try relay.database.count("events") == 1)
        let id = try relay.database.value("SELECT id FROM quarantine")
        #expect(try relay.command("quarantine", "--config", c).output.contains("posthouse repair"))
        #expect(try relay.command("quarantine", "retry", id, "--config", c).end == .exited(1))

        let dry = try relay.command("repair", "subs_1", "--dry-run", "--config", c)
        #expect(dry.end == .exited(0) && dry.output.contains("would be rebuilt from one stored webhook"), "\(dry)")
        #expect(try relay.database.value("SELECT encode(state, 'hex') FROM purchases") == "ff")
        let repaired = try relay.command("repair", "subs_1", "--source", "purchasely", "--config", c)
        #expect(repaired.output.contains("rebuilt from one stored webhook: its state could not be read"), "\(repaired)")
        #expect(repaired.output.contains("1 in quarantine: posthouse quarantine retry \(id)"), "\(repaired)")
        #expect(try relay.database.rows(Self.picture) == sound)

        #expect(try relay.command("quarantine", "retry", id, "--config", c).end == .exited(0))
        #expect(receiver.waitForAccepted(4))
        #expect(
            Set(receiver.accepted.map(\.type)) == ["ACTIVATE", "SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"])
        #expect(try relay.database.access() == ["subs_1": ["anon:device": false, "user:ann": true]])
        let all = try relay.json("repair", "--all")
        #expect(all["checked"] as? Int == 1 && all["repaired"] as? Int == 0 && all["kept"] as? Int == 0, "\(all)")
        #expect(try relay.command("repair", "nothing", "--config", c).end == .exited(1))
        #expect(try relay.command("repair", "--config", c).end == .exited(64))
        #expect(try relay.command("repair", "subs_1", "--all", "--config", c).end == .exited(64))
    }

    /// A relay with three damaged purchases, of which the database does something to the first that is updated.
    private static func damaged(_ action: String) throws -> Relay {
        let relay = try Relay.running([.init("backend", try Receiver())])
        for number in 1...3 {
            #expect(try relay.source().post(Webhook("ACTIVATE", .user("ann"), purchase: "subs_\(number)")) == 200)
        }
        try damage(relay.database)
        let first = try relay.database.value("SELECT id FROM purchases ORDER BY id LIMIT 1")
        try relay.database.rows(
            """
            CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF OLD.id = '\(first)' THEN \(action); END IF; RETURN NEW; END $$;
            CREATE TRIGGER act BEFORE UPDATE ON purchases FOR EACH ROW EXECUTE FUNCTION act()
            """)
        return relay
    }

    @Test("A purchase that the database refuses is listed with the reason; repair --all goes on and ends with 1")
    func oneRefused() throws {
        let relay = try Self.damaged("RAISE 'not this one'")
        defer { relay.end() }
        let first = try relay.database.value("SELECT replace(id::text, '-', '') FROM purchases ORDER BY id LIMIT 1")
        let text = try relay.command("repair", "--all", "--dry-run", "--config", relay.configuration)
        #expect(text.end == .exited(0), "a dry run writes nothing that could be refused: \(text)")
        let all = try relay.json("repair", "--all", ended: 1)
        #expect(all["checked"] as? Int == 3 && all["repaired"] as? Int == 2, "\(all)")
        let failed = try #require(all["failed"] as? [[String: Any]])
        #expect(failed.map { $0["id"] as? String } == [first])
        #expect((failed.first?["explanation"] as? String)?.contains("not this one") == true, "\(all)")
        let again = try relay.command("repair", "--all", "--config", relay.configuration)
        #expect(again.end == .exited(1) && again.output.contains("\(first): could not be checked: "), "\(again)")
        #expect(again.output.contains("1 could not be checked"), "\(again)")
        #expect(try relay.database.count("purchases", where: #"state = '\xff'"#) == 1)
        try relay.database.rows("DROP TRIGGER act ON purchases")
        #expect(try relay.json("repair", "--all")["repaired"] as? Int == 1)
    }

    @Test("A lost connection ends repair --all: nothing is tried without it")
    func connectionLost() throws {
        let relay = try Self.damaged("PERFORM pg_terminate_backend(pg_backend_pid())")
        defer { relay.end() }
        let all = try relay.command("repair", "--all", "--config", relay.configuration)
        #expect(all.end == .exited(69), "\(all)")
        #expect(try relay.database.count("purchases", where: #"state = '\xff'"#) == 3)
    }

    @Test(
        "What the app's backend said is read back from its bodies: logins, logouts, restores, grants",
        arguments: ["exclusive", "install_and_identity"])
    func statements(ownership: String) throws {
        let source = Relay.SourceTable(
            name: "sdk", kind: "qonversion", secrets: ["the-token"], settings: ["ownership": "\"\(ownership)\""])
        let relay = try Relay.running([.init("backend", try Receiver())], sources: [source])
        defer { relay.end() }
        let now = Int(Date().timeIntervalSince1970) - 60
        for (install, transaction) in [("A", 1), ("B", 2)] {
            let body = """
                {"event_name":"subscription_started","user_id":"\(install)","time":\(now),"created_at":\(now),\
                "product_id":"gold","transaction":{"transaction_id":\(transaction),\
                "original_transaction_id":\(transaction),"expires":\(now + 2_592_000)},"environment":"production",\
                "platform":"iOS"}
                """
            #expect(try relay.post("sdk", [("authorization", "Basic the-token")], body) == 200)
        }
        let said: [(method: String, path: String, body: String)] = [
            ("POST", "/v3/users/C", "{}"),
            ("POST", "/v1/users/A/identify", #"{"identity":"u1"}"#),
            ("POST", "/v3/users/A/entitlements", #"{"id":"plus","expires":4102444800}"#),
            ("POST", "/v1/users/B/identify", #"{"identity":"u2"}"#),
            ("POST", "/v1/users/A/logout", ""),
            ("POST", "/v1/users/B/restore", #"{"transactions":["1"]}"#),
            ("DELETE", "/v3/users/A/entitlements/plus", ""),
            ("POST", "/v3/users/A/entitlements", #"{"id":"plus","expires":4102444800}"#),
            (
                "POST", "/v1/users/C/restore",
                ownership == "exclusive" ? #"{"transactions":["2"]}"# : #"{"transactions":["2"],"strategy":"copy"}"#
            ),
            ("POST", "/v1/users/C/identify", #"{"identity":"u1"}"#),
        ]
        for (method, path, body) in said {
            let answer = try relay.ask(method, path + "?source=sdk", body)
            #expect(answer.status == 200, "\(path): \(answer.text)")
        }
        let before = try relay.database.rows(Self.picture)
        #expect(try relay.database.count("purchases") == 3)
        let checked = try relay.json("repair", "--all")
        #expect(checked["repaired"] as? Int == 0 && checked["kept"] as? Int == 0, "\(checked) \(before)")
        // As if the retry horizon had passed: the statements are in no other table any more. A login of today whose
        // row is not there shared nothing, so this tells nothing of shared ownership.
        for isPruned in ownership == "exclusive" ? [false, true] : [false] {
            if isPruned {
                try relay.database.rows("UPDATE events SET received_at = now() - interval '30 days'")
                try relay.database.rows("DELETE FROM holder_changes")
            }
            try Self.damage(relay.database)
            let repaired = try relay.json("repair", "--all")
            #expect(repaired["repaired"] as? Int == 3, "\(repaired)")
            #expect(try relay.database.rows(Self.picture) == before, "\(isPruned): \(repaired)")
        }
    }
}
