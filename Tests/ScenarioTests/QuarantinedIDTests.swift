import Crypto
import Foundation
import TestSupport
import Testing

/// Webhooks whose id is in a header alone, by way of quarantine and of the spool. Oracle: SQL.
@Suite(.timeLimit(.minutes(30))) struct QuarantinedIDTests {
    private static let key = Data(repeating: 7, count: 32)
    private static let body = """
        {"type":"ACTIVATE","timestamp":"2026-01-15T08:00:00.000Z","data":{"user_id":"u1","purchase_id":"p-1",\
        "product":"premium","store_transaction_id":"T-1"}}
        """

    private static func source(_ settings: [String: String] = [:]) -> Relay.SourceTable {
        Relay.SourceTable(
            name: "app", kind: "sessions", secrets: ["whsec_" + key.base64EncodedString()], settings: settings)
    }

    /// Sends the webhook, each time with the same id.
    private func post(to relay: Relay) throws -> Int {
        let now = "\(Int(Date().timeIntervalSince1970))"
        let code = HMAC<SHA256>.authenticationCode(
            for: Data("msg-1.\(now).\(Self.body)".utf8), using: SymmetricKey(data: Self.key))
        let headers = [
            ("webhook-id", "msg-1"), ("webhook-timestamp", now),
            ("webhook-signature", "v1,\(Data(code).base64EncodedString())"),
        ]
        return try relay.post("app", headers, Self.body)
    }

    /// Lets the database refuse every event.
    private func refuse(by database: Database, with code: String) throws {
        try database.rows(
            """
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE 'not now' USING ERRCODE = '\(code)'; END $$;
            CREATE TRIGGER refuse BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION refuse()
            """)
    }

    private func results(_ answer: [String: Any], _ key: String) -> [String] {
        (answer[key] as? [[String: Any]] ?? []).compactMap { $0["result"] as? String }
    }

    private func expectOnce(_ relay: Relay, sourceLocation: SourceLocation = #_sourceLocation) throws {
        let ids = try relay.database.rows("SELECT coalesce(vendor_event_id, 'none') FROM events")
        #expect(ids == [["msg-1"]], sourceLocation: sourceLocation)
        #expect(try relay.database.count("quarantine") == 0, sourceLocation: sourceLocation)
    }

    @Test("Recorded from quarantine and then sent again, it is one event")
    func sentAgain() throws {
        let relay = try Relay.running([.init("backend", try Receiver())], sources: [Self.source()])
        defer { relay.end() }
        try refuse(by: relay.database, with: "22023")
        #expect(try post(to: relay) == 200)
        #expect(try relay.database.count("quarantine") == 1)
        try relay.database.rows("DROP TRIGGER refuse ON events")
        #expect(results(try relay.json("quarantine", "retry", "--all"), "retried") == ["recorded"])
        #expect(try post(to: relay) == 200)
        try expectOnce(relay)
    }

    @Test("In quarantine and in the spool, because spool record was cut off, it is one event")
    func cutOff() throws {
        let cluster = try TestCluster(durable: true)
        let backend = Relay.Integration("backend", try Receiver())
        let relay = try Relay([backend], storage: .given(try cluster.createDatabase()))
        defer { relay.end() }
        try relay.configure(
            [backend], sources: [Self.source(["spool": "true"])],
            settings: "[spool]\ndirectory = \"\(relay.directory.path)/spool\"")
        try SpoolTests.start(relay)
        try cluster.stop()
        #expect(try post(to: relay) == 200)
        relay.kill()
        try cluster.start()
        // An error that is not about the data ends the command, as if it were killed there.
        try refuse(by: relay.database, with: "P0001")
        let cut = try relay.command("spool", "record", "--config", relay.configuration)
        #expect(cut.end != .exited(0) && cut.errors.contains("not now"), "\(cut)")
        func waiting() throws -> Int? { (try relay.json("spool", "list")["spool"] as? [Any])?.count }
        #expect(try relay.database.count("quarantine") == 1 && waiting() == 1)

        try relay.database.rows("DROP TRIGGER refuse ON events")
        #expect(results(try relay.json("quarantine", "retry", "--all"), "retried") == ["recorded"])
        #expect(results(try relay.json("spool", "record"), "recorded") == ["duplicate"])
        #expect(try waiting() == 0)
        try expectOnce(relay)
    }
}
