import Foundation
import Testing
import Vocabulary

/// posthouse quarantine retry with the real binary. Oracle: SQL.
@Suite struct QuarantineTests {
    private static let at: Int64 = 1_768_464_000_000
    private static let day: Int64 = 86_400_000

    /// Puts bodies into quarantine as an older version would have that could not read them.
    private static func keep(
        _ bodies: [[UInt8]], of source: String, by relay: Relay, post: ([UInt8]) throws -> Int
    ) throws -> [String] {
        for number in bodies.indices { #expect(try post(Array("{\"number\":\(number)}".utf8)) == 200) }
        let ids = try relay.database.rows("SELECT id FROM quarantine WHERE source = '\(source)' ORDER BY id").map {
            $0[0]
        }
        for (id, body) in zip(ids, bodies) {
            let hex = body.map { String(format: "%02x", $0) }.joined()
            try relay.database.rows("UPDATE quarantine SET body = '\\x\(hex)' WHERE id = \(id)")
        }
        return ids
    }

    private static func results(_ answer: [String: Any]) throws -> [String: [String: Any]] {
        let rows = try #require(answer["retried"] as? [[String: Any]])
        return Dictionary(rows.map { ("\($0["id"] as? Int ?? 0)", $0) }, uniquingKeysWith: { first, _ in first })
    }

    @Test("A body that the database refuses stays with the reason, and the others of the list are tried")
    func refused() throws {
        let relay = try Relay.running([.init("backend", try Receiver())])
        defer { relay.end() }
        let users = ["invalid", "failing", "good"]
        let webhooks = users.map { Webhook("ACTIVATE", .user($0), purchase: "subs_\($0)") }
        let ids = try Self.keep(webhooks.map(\.body), of: "purchasely", by: relay) { try relay.source().post($0) }
        let reasons = try relay.database.rows("SELECT reason FROM quarantine ORDER BY id").map { $0[0] }
        try relay.database.rows(
            """
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.holder = 'user:invalid' THEN RAISE 'no such thing' USING ERRCODE = '22023'; END IF;
                IF NEW.holder = 'user:failing' THEN RAISE 'not today'; END IF;
                RETURN NEW; END $$;
            CREATE TRIGGER refuse BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION refuse()
            """)
        let results = try Self.results(try relay.json("quarantine", "retry", "--all", ended: 1))
        #expect(ids.map { results[$0]?["result"] as? String } == ["kept", "kept", "recorded"], "\(results)")
        for (id, text) in zip(ids, ["no such thing", "not today"]) {
            #expect((results[id]?["explanation"] as? String)?.contains(text) == true, "\(results)")
        }
        let kept = try relay.database.rows("SELECT id, reason FROM quarantine ORDER BY id")
        #expect(kept.map { $0[0] } == Array(ids.prefix(2)))
        #expect(kept[0][1].contains("the database cannot store it") && kept[0][1].contains("no such thing"), "\(kept)")
        #expect(kept[1][1] == reasons[1], "another day it may succeed")
        // An id that is not there does not hide what became of the others.
        try relay.database.rows("DROP TRIGGER refuse ON events")
        let mixed = try relay.command(
            "quarantine", "retry", ids[0], "999", ids[1], "--config", relay.configuration)
        #expect(mixed.end == .exited(1) && mixed.errors.contains("999 is not in quarantine"), "\(mixed)")
        #expect(mixed.output.contains("\(ids[0]) recorded: ") && mixed.output.contains("\(ids[1]) recorded: "))
        #expect(try relay.database.count("quarantine") == 0 && relay.database.count("events") == 3)
    }

    private static func purchase(_ user: String, _ transaction: String, at offset: Int64) -> String {
        """
        {"event":{"id":"\(user)-\(transaction)-\(offset)","type":"\(offset == 0 ? "INITIAL_PURCHASE" : "RENEWAL")",\
        "app_id":"a","app_user_id":"\(user)","aliases":["\(user)"],"original_app_user_id":"\(user)","product_id":"p",\
        "period_type":"NORMAL","event_timestamp_ms":\(at + offset),"purchased_at_ms":\(at + offset),\
        "expiration_at_ms":\(at + offset + 60 * day),"environment":"PRODUCTION","transaction_id":"\(transaction)",\
        "original_transaction_id":"\(transaction)","store":"APP_STORE"},"api_version":"1.0"}
        """
    }

    private static func transfer(_ from: String) -> String {
        """
        {"event":{"id":"transfer-\(from)","type":"TRANSFER","event_timestamp_ms":\(at + day),\
        "transferred_from":["\(from)"],"transferred_to":["jeff"],"store":"APP_STORE","app_id":"a",\
        "environment":"PRODUCTION"},"api_version":"1.0"}
        """
    }

    @Test("A TRANSFER released so late that newer webhooks have decided its purchase says that it moved nothing of it")
    func tooOld() throws {
        let relay = try Relay.running(
            [.init("backend", try Receiver())], sources: [.init(name: "revenuecat", secrets: ["revenuecat-secret"])])
        defer { relay.end() }
        func post(_ body: [UInt8]) throws -> Int {
            let text = String(decoding: body, as: UTF8.self)
            return try relay.post("revenuecat", [("Authorization", "revenuecat-secret")], text)
        }
        // ann, eve and kim renewed after the retry horizon; of bob nothing came since.
        for body in [
            Self.purchase("ann", "1", at: 0), Self.purchase("ann", "1", at: 40 * Self.day),
            Self.purchase("bob", "2", at: 0),
            Self.purchase("eve", "3", at: 0), Self.purchase("eve", "3", at: 40 * Self.day),
            Self.purchase("kim", "4", at: 0), Self.purchase("kim", "4", at: 40 * Self.day),
        ] { #expect(try post(Array(body.utf8)) == 200) }
        let ids = try Self.keep(
            ["ann", "bob", "kim"].map { Array(Self.transfer($0).utf8) }, of: "revenuecat", by: relay, post: post)
        // kim's as the manual shows it, under the manual's ids.
        let said = try relay.command("quarantine", "retry", ids[2], "--config", relay.configuration)
        let answer = said.output.replacing("\(ids[2]) recorded", with: "2 recorded")
            .replacing("transfer-kim", with: "12345678").replacing(" of 4:", with: " of 100000011112222:")
        #expect(said.end == .exited(0), "\(said)")
        #expect(try [answer] == ManualPage.operate.shown("posthouse quarantine retry 2"), "\(said)")
        let results = try Self.results(try relay.json("quarantine", "retry", "--all"))
        #expect(ids.prefix(2).map { results[$0]?["result"] as? String } == ["recorded", "recorded"], "\(results)")
        #expect(results[ids[0]]?["too_old_for"] as? [String] == ["1"], "\(results)")
        let words = try #require(results[ids[0]]?["explanation"] as? String)
        #expect(words.contains("moved nothing of 1: ") && words.contains("too old"), "\(words)")
        #expect(results[ids[1]]?["too_old_for"] as? [String] == [], "\(results)")
        #expect(
            try relay.database.access() == [
                "1": ["user:ann": true], "2": ["user:bob": false, "user:jeff": true], "3": ["user:eve": true],
                "4": ["user:kim": true],
            ])
        // The same, said by a daemon that gets it as late from the platform.
        #expect(try post(Array(Self.transfer("eve").utf8)) == 200)
        #expect(relay.waitForLine("transfer-eve", "moved nothing of 3", "too old") != nil, "\(relay.lines)")
        #expect(!relay.lines.contains { $0.contains("moved nothing of 2") })
    }

    private static func line(of source: String, _ purchase: String) -> String {
        """
        {"event_name":"posthouse.import","source":"\(source)","app":"com.example.app","environment":"PRODUCTION",\
        "holder":{"user_id":"ann"},"as_of":"2026-01-10T00:00:00.000Z","until":"2099-01-01T00:00:00.000Z",\
        "store":"APPLE_APP_STORE","purchase":"\(purchase)","kind":"subscription"}
        """
    }

    @Test("A body that a source sent is no line of an import, whatever source it names")
    func forgedLine() throws {
        let sources = [Relay.SourceTable(), Relay.SourceTable(name: "other", kind: "purchasely")]
        let relay = try Relay.running([.init("backend", try Receiver())], sources: sources)
        defer { relay.end() }
        for source in ["other", "purchasely"] {
            #expect(try relay.source().post(Array(Self.line(of: source, "subs_1").utf8)) == 200)
        }
        let results = try Self.results(try relay.json("quarantine", "retry", "--all", ended: 1))
        #expect(results.values.map { $0["result"] as? String } == ["kept", "kept"], "\(results)")
        #expect(try relay.database.count("quarantine") == 2 && relay.database.count("events") == 0)
        #expect(try relay.database.count("purchases") == 0)
    }

    @Test("A line of an import that waited for the repair of its purchase is recorded, by the importer's rules")
    func line() throws {
        let relay = try Relay.running([.init("backend", try Receiver())])
        defer { relay.end() }
        let c = relay.configuration
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("ann"), purchase: "subs_1")) == 200)
        try relay.database.rows(#"UPDATE purchases SET state = '\xff'"#)
        let file = try relay.directory.write("lines", Self.line(of: "purchasely", "subs_1") + "\n")
        let imported = try relay.command("import", "purchasely", file, "--config", c)
        #expect(imported.end == .exited(1) && imported.errors.contains("waits in quarantine"), "\(imported)")
        #expect(imported.output == "1 line: 0 recorded, 0 known before, 1 left out", "\(imported)")
        let id = try relay.database.value("SELECT id FROM quarantine")
        #expect(try relay.command("quarantine", "retry", id, "--config", c).end == .exited(1))
        #expect(try relay.command("repair", "subs_1", "--config", c).end == .exited(0))

        let body = try relay.database.value("SELECT encode(body, 'hex') FROM quarantine")
        let late = Self.line(of: "purchasely", "subs_1").replacing("2026-01-10", with: "2999-01-10")
        func put(_ hex: String) throws {
            try relay.database.rows("UPDATE quarantine SET body = '\\x\(hex)' WHERE id = \(id)")
        }
        try put(late.utf8.map { String(format: "%02x", $0) }.joined())
        let kept = try relay.command("quarantine", "retry", id, "--config", c)
        #expect(kept.end == .exited(1) && kept.output.contains("a time to come"), "\(kept)")
        try put(body)
        let retried = try relay.command("quarantine", "retry", id, "--config", c)
        #expect(retried.end == .exited(0), "\(retried)")
        #expect(try relay.database.count("events", where: "name = 'posthouse.import'") == 1)
        #expect(try relay.database.count("quarantine") == 0)
    }
}
