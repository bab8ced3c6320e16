import Foundation
import TestSupport
import Testing
import Vocabulary

/// Keys of the configuration and paths of the API that the daemon itself has to understand. Oracle: what it answers and
/// sends over HTTP.
@Suite struct APIUsageTests {
    /// One that names its events as it likes, keeps one holder at a time, and restores by copying.
    private static let qonversion = Relay.SourceTable(
        name: "renamed", kind: "qonversion", secrets: ["qonversion-token"],
        settings: [
            "event_names": #"{ "neues_abo" = "subscription_started" }"#, "ownership": #""install_and_identity""#,
            "restore": #""copy""#,
        ])

    private static func bought(_ install: String, _ transaction: Int, name: String = "neues_abo") -> String {
        let now = Int(Date().timeIntervalSince1970)
        return """
            {"event_name":"\(name)","user_id":"\(install)","time":\(now),"created_at":\(now),"product_id":"gold",\
            "transaction":{"transaction_id":\(transaction),"original_transaction_id":\(transaction),\
            "expires":\(now + 2_592_000)},"environment":"production","platform":"iOS"}
            """
    }

    private static func json(_ message: HTTPMessage) throws -> [String: Any] {
        try #require(JSONSerialization.jsonObject(with: Data(message.body)) as? [String: Any])
    }

    private static func data(_ message: HTTPMessage) throws -> [[String: Any]] {
        try #require(try json(message)["data"] as? [[String: Any]], "\(message.text)")
    }

    @Test("event_names, ownership, restore and a rate do what they say; check warns of a slip and of a renamed source")
    func keys() throws {
        let receiver = try Receiver()
        let relay = try Relay.running(
            [.init("backend", receiver, ["rate": #""6000/m""#])], sources: [Self.qonversion],
            settings: "")
        defer { relay.end() }
        let headers = [("authorization", "Basic qonversion-token")]
        #expect(try relay.post("renamed", headers, Self.bought("A", 1)) == 200)
        #expect(try relay.database.drained())
        // The configured name means a start: type, access and message.
        #expect(receiver.received.count == 1 && receiver.received[0].type != "neues_abo")
        #expect(try relay.database.count("entitlements", where: "active") == 1)
        #expect(try relay.database.count("events", where: "name = 'neues_abo' AND type <> 'neues_abo'") == 1)
        // The restore copies because the source says so: the request does not.
        let restored = try relay.ask("POST", "/v1/users/B/restore", #"{"transactions":["1"]}"#)
        #expect(restored.status == 200 && restored.text.contains("gold"), "\(restored.text)")
        for install in ["A", "B"] {
            let seen = try Self.data(try relay.ask("GET", "/v1/entitlements?install=\(install)&active=true"))
            #expect(seen.count == 1, "\(install)")
        }
        var other = Self.qonversion
        other.name = "other"
        other.settings["event_names"] = #"{ "neues_abo" = "subscripton_started" }"#
        try relay.configure([.init("backend", receiver)], sources: [other])
        let checked = try relay.command("check", "--config", relay.configuration)
        #expect(checked.end == .exited(0), "\(checked)")
        for warning in [
            #""neues_abo" means "subscripton_started", which is none of the platform's default names"#,
            #"the database has webhooks of a source "renamed", which the file does not name"#,
        ] { #expect(checked.errors.contains(warning), "\(checked)") }
    }

    @Test("With ownership = \"exclusive\" a login moves what the install holds, and /v1 and /v3 say so over HTTP")
    func paths() throws {
        let receiver = try Receiver()
        var source = Self.qonversion
        source.settings["ownership"] = #""exclusive""#
        source.settings["restore"] = nil
        let relay = try Relay.running([.init("backend", receiver)], sources: [source])
        defer { relay.end() }
        let headers = [("authorization", "Basic qonversion-token")]
        #expect(try relay.post("renamed", headers, Self.bought("A", 1)) == 200)
        let login = try relay.ask("POST", "/v1/users/A/identify?source=renamed", #"{"identity":"u1"}"#)
        #expect(login.status == 200, "\(login.text)")
        #expect(try relay.database.drained())
        // IDENTIFIED names no purchase, so nothing says when it comes.
        let ofPurchase = receiver.received.map(\.type).filter { $0 != "IDENTIFIED" }
        #expect(ofPurchase.suffix(2) == ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"])

        let transfers = try Self.data(try relay.ask("GET", "/v1/transfers?user_id=u1"))
        #expect(transfers.map { ($0["from"] as? [String: String])?["anonymous_user_id"] } == ["A"])
        #expect(transfers.map { ($0["to"] as? [String: String])?["user_id"] } == ["u1"])
        let links = try Self.data(try relay.ask("GET", "/v1/identities?anonymous_user_id=A"))
        #expect(links.map { $0["user_id"] as? String } == ["u1"])
        let history = try Self.data(try relay.ask("GET", "/v1/history?anonymous_user_id=A"))
        #expect(history.map { $0["event_name"] as? String } == ["IDENTIFIED", "neues_abo"])

        // The table: method, path, body, status, and a member of the answer.
        let table: [(method: String, path: String, body: String, status: Int, part: String)] = [
            ("GET", "/v3/users/A", "", 200, #""identity_id":"u1""#),
            ("POST", "/v3/users/A", "{}", 422, "user_already_exists"),
            ("POST", "/v3/users/N", #"{"environment":"sandbox"}"#, 200, #""environment":"sandbox""#),
            ("POST", "/v3/users/N", #"{"environment":"sandbox"}"#, 422, "user_already_exists"),
            ("GET", "/v3/users/M", "", 404, "not_found"),
            ("GET", "/v3/identities/u1", "", 200, #""user_id":"A""#),
            ("GET", "/v3/identities/u2", "", 404, "not_found"),
            ("POST", "/v3/identities/u1", #"{"user_id":"N"}"#, 200, #""user_id":"N""#),
            ("POST", "/v3/identities/u2", #"{"user_id":"M"}"#, 400, "user_not_found"),
            ("GET", "/v3/users/A/entitlements?limit=1", "", 200, #""object":"list""#),
            ("POST", "/v3/users/A/entitlements", #"{"id":"plus","expires":4102444800}"#, 200, #""active":true"#),
            ("DELETE", "/v3/users/A/entitlements/plus", "", 200, #""active":false"#),
            ("GET", "/v1/entitlements?user_id=u1&environment=Production", "", 200, #""active":true"#),
            ("GET", "/v1/entitlements?user_id=u1&environment=test", "", 400, "SANDBOX"),
            ("GET", "/v3/users/A?app=none", "", 400, "leave app out"),
        ]
        for row in table {
            let separator = row.path.contains("?") ? "&" : "?"
            let path = row.path + (row.path.hasPrefix("/v3") ? separator + "source=renamed" : "")
            let answer = try relay.ask(row.method, path, row.body)
            #expect(answer.status == row.status, "\(row.method) \(row.path): \(answer.status) \(answer.text)")
            #expect(answer.text.contains(row.part), "\(row.method) \(row.path): \(answer.text)")
        }
    }

    @Test(
        "send speaks as every kind of source with a secret, and the daemon understands it",
        arguments: SourceKind.allCases.filter(\.traits.hasSecrets))
    func send(_ kind: SourceKind) throws {
        let secret =
            kind == .sessions ? "whsec_" + Data(repeating: 7, count: 32).base64EncodedString() : "the-secret-text"
        let relay = try Relay.running([], sources: [.init(name: "s", kind: kind.rawValue, secrets: [secret])])
        defer { relay.end() }
        let file = try relay.directory.write("send-secret", secret + "\n")
        let event: [SourceKind: String] = [
            .purchasely: "ACTIVATE", .qonversion: "subscription_started", .apphud: "subscription_started",
            .revenuecat: "INITIAL_PURCHASE", .adapty: "subscription_started", .sessions: "SUBSCRIPTION_STARTED",
            .stripe: "customer.subscription.created",
        ]
        let sent = try relay.command(
            "send", "--url", "http://127.0.0.1:\(relay.port)/ingest/s", "--kind", kind.rawValue, "--secret-file", file,
            "--event", event[kind] ?? "", "--user", "u", "--purchase", "subs_1", "--transaction", "71")
        #expect(sent.end == .exited(0) && sent.output.contains("was answered 200"), "\(sent)")
        #expect(try relay.database.count("events", where: "holder = 'user:u'") == 1)
        #expect(try relay.database.count("quarantine") == 0)
    }

    @Test("replay --until replays what was settled before, and nothing after")
    func until() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        for number in 1...2 {
            #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)")) == 200)
        }
        #expect(try relay.database.drained())
        #expect(try eventually { try relay.database.count("attempts") == 2 })
        try relay.database.rows(
            "UPDATE attempts SET at = at - interval '2 hours' WHERE message = (SELECT min(message) FROM attempts)")
        let early = try relay.json("replay", "--integration", "backend", "--until", "1h", "--dry-run")
        #expect(early["found"] as? Int == 1, "\(early)")
        let none = try relay.json("replay", "--integration", "backend", "--until", "3h")
        #expect(none["queued"] as? Int == 0, "\(none)")
        let all = try relay.json("replay", "--integration", "backend", "--until", "1h")
        #expect(all["queued"] as? Int == 1, "\(all)")
        #expect(eventually { receiver.count == 3 })
    }

    @Test("A reload with a larger pool, which is due at a restart: look-ups leave webhooks their connection")
    func poolDueAtRestart() throws {
        let relay = try Relay.running([], connections: 2)
        defer { relay.end() }
        let file = try String(contentsOfFile: relay.configuration, encoding: .utf8)
        try relay.directory.write("posthouse.toml", file.replacing("pool = 2", with: "pool = 8"))
        let reloaded = try relay.reload()
        #expect(reloaded.contains("due at the next restart: [database] pool"), "\(reloaded)")

        // What is recorded here does not touch this table.
        let database = try relay.database
        let holder = try ChildProcess([
            TestCluster.psql, "-X", "-q", "-d", database.connectionString, "-c",
            "BEGIN; LOCK TABLE transfers IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)",
        ])
        defer { holder.signal(SIGKILL) }
        let locks = "SELECT count(*) FROM pg_locks WHERE relation = 'transfers'::regclass AND "
        let held = locks + "granted AND mode = 'AccessExclusiveLock'"
        #expect(try eventually { try database.value(held) == "1" })
        let isOver = Monitor(false)
        defer { isOver.change { $0 = true } }
        for _ in 0..<8 {
            Thread.detachNewThread {
                while !isOver.read({ $0 }) { _ = try? relay.askOnce("GET", "/v1/transfers?user_id=u") }
            }
        }
        let waiting = locks + "NOT granted"
        #expect(try eventually { try database.value(waiting) != "0" })
        for number in 0..<10 {
            #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)")) == 200)
            #expect(try database.value(waiting) != "2", "a look-up for each connection")
        }
    }

    @Test("Two connections, twenty readers without a pause: each is answered beside webhooks, each webhook stored")
    func fewConnections() throws {
        let relay = try Relay.running([], settings: "", connections: 2)
        defer { relay.end() }
        let connection = relay.source().connect()
        for number in 0..<50 {
            #expect(connection.store(Webhook("ACTIVATE", .user("u"), purchase: "subs_\(number)")))
        }
        let isOver = Monitor(false)
        // Of each reader, what it was answered how often.
        let answers = Monitor([[Int: Int]](repeating: [:], count: 20))
        for reader in 0..<20 {
            Thread.detachNewThread {
                while !isOver.read({ $0 }) {
                    let status = (try? relay.askOnce("GET", "/v1/entitlements?user_id=u&limit=1000"))?.status ?? 0
                    answers.change { $0[reader][status, default: 0] += 1 }
                    // As Retry-After asks.
                    if status == 503 { Thread.sleep(forTimeInterval: 5) }
                }
            }
        }
        defer { isOver.change { $0 = true } }
        // Webhooks go on until each reader was answered five times beside them.
        var posted = 0
        while posted < 30_000, !answers.read({ $0.allSatisfy { $0[200] ?? 0 >= 5 } }) || posted < 100 {
            posted += 1
            #expect(connection.store(Webhook("ACTIVATE", .user("v"), purchase: "subs_\(100 + posted)")))
        }
        isOver.change { $0 = true }
        let counts = answers.current
        #expect(posted < 30_000, "readers starve: \(counts)")
        // A machine that stands still for 8 s answers each of them 503, once.
        #expect(counts.allSatisfy { Set($0.keys).isSubset(of: [200, 503]) && $0[503] ?? 0 <= 2 }, "\(counts)")
        // The same of the webhooks, which come one after the other.
        #expect(relay.lines.count { $0.contains("to purchasely with 503: the answer's time is up") } <= 2)
        #expect(try relay.database.count("events") == 50 + posted)
    }
}
