import Foundation
import TestSupport
import Testing
import Vocabulary

/// The inbound half of status. Oracle: what the requests were answered.
@Suite struct SourceStatusTests {
    private func sources(_ relay: Relay) throws -> [[String: Any]] {
        try #require(try relay.json("status")["sources"] as? [[String: Any]])
    }

    private func refused(_ source: [String: Any]) -> [Int: Int] {
        let rows = source["refused_last_minute"] as? [[String: Int]] ?? []
        return Dictionary(
            uniqueKeysWithValues: rows.compactMap { row in
                row["http_status"].flatMap { status in row["count"].map { (status, $0) } }
            })
    }

    @Test("A source that was never heard from, then what it was answered within the minute; a mistyped URL")
    func answers() throws {
        let relay = try Relay.running([.init("backend", Receiver())])
        defer { relay.end() }
        let name = "purchasely"
        let first = try #require(try sources(relay).first)
        #expect(first["name"] as? String == name && first["last_webhook_at"] is NSNull)
        let early = try relay.command("status", "--config", relay.configuration).output
        // No more than is known: a webhook that was kept just now may not be reported yet.
        #expect(early.contains("no daemon has reported a webhook of it yet"), "\(early)")
        #expect(early.contains("its platform sends to https://YOUR-HOST/ingest/\(name)"), "\(early)")

        let webhook = Webhook("ACTIVATE", .user("u"), purchase: "subs_1")
        #expect(try relay.source().post(webhook) == 200)
        #expect(try relay.source().post(webhook) == 200)
        #expect(try relay.source().post(Array("{}".utf8)) == 200)
        #expect(try relay.post(name, [], "{}") == 401)
        for _ in 0..<2 { #expect(try relay.post("purchasly", [], "{}") == 404) }

        let isShown = try eventually {
            let all = try sources(relay)
            return all.count == 2 && all[0]["stored_last_minute"] as? Int == 2
                && all[0]["quarantined_last_minute"] as? Int == 1 && refused(all[0]) == [401: 1]
                && all[1]["name"] is NSNull && refused(all[1]) == [404: 2] && all[0]["last_webhook_at"] is String
        }
        let shown = try sources(relay)
        #expect(isShown, "\(shown)")
        let lines = try relay.onTerminal(columns: 80, "status", environment: ["NO_COLOR": "1"])
        #expect(lines.allSatisfy { $0.count <= 80 }, "\(lines)")
        #expect(lines.contains { $0.hasPrefix(name) && $0.contains("1 × 401") }, "\(lines)")
        #expect(lines.contains { $0.hasPrefix("(unknown)") && $0.contains("2 × 404") }, "\(lines)")
        #expect(!lines.contains { $0.contains("no daemon has reported") }, "\(lines)")
    }

    /// PostgreSQL itself refuses, by the state that it reports of a full disk; Tests/Torture fills a real one.
    @Test("A database that answers and stores nothing: 503, /readyz says so, one error in the journal, one end")
    func refuses() throws {
        let relay = try Relay.running([.init("backend", Receiver())])
        defer { relay.end() }
        let database = try relay.database
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_0")) == 200)
        try database.rows(
            """
            CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
            END $$;
            CREATE TRIGGER full_disk BEFORE INSERT ON events EXECUTE FUNCTION full_disk();
            """)
        for number in 1...2 {
            let webhook = Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)")
            #expect(try relay.source().postOnce(webhook) == 503)
            #expect(try relay.get("/readyz").status == 503)
        }
        #expect(try relay.get("/healthz").status == 200)
        #expect(try relay.get("/readyz").text.contains("refuses to store") == true)

        try database.rows("DROP TRIGGER full_disk ON events")
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(try eventually { try relay.get("/readyz").status == 200 })
        #expect(relay.waitForLine("webhooks are stored again") != nil)
        #expect(relay.lines.filter { $0.contains("webhooks are stored again") }.count == 1)
        let errors = relay.lines.filter { $0.contains("level=error") }
        #expect(errors.count == 1 && errors.allSatisfy { $0.contains("No space left on device") }, "\(errors)")
    }
}
