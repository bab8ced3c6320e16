import Foundation
import Testing
import Vocabulary

/// `posthouse doctor` on the real binary. What it judges is for the tests of Doctor; here is what it gathers. Oracle:
/// what the test has set up.
@Suite struct OperatorDoctorTests {
    private struct Finding {
        let area: String
        let state: String
        let text: String
        let advice: String?
    }

    private func findings(_ relay: Relay, ended: Int32) throws -> [Finding] {
        let page = try relay.json("doctor", ended: ended)
        #expect((page["at"] as? String)?.hasSuffix("Z") == true && page["version"] as? String == "0.1.0")
        return try #require(page["findings"] as? [[String: Any]]).map { one in
            Finding(
                area: one["area"] as? String ?? "", state: one["state"] as? String ?? "",
                text: one["text"] as? String ?? "", advice: one["advice"] as? String)
        }
    }

    @Test("Beside a relay that runs: nothing is wrong, each area has its line, and nothing secret is shown")
    func running() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(receiver.waitForAccepted(1))
        #expect(try relay.database.drained())
        let found = try findings(relay, ended: 0)
        func states(_ area: String) -> Set<String> { Set(found.filter { $0.area == area }.map(\.state)) }
        #expect(states("configuration") == ["fine"] && states("unit") == ["note"])
        #expect(states("database") == ["fine"] && states("clock") == ["fine"] && states("tables") == ["fine"])
        // The role of the tests' own cluster.
        #expect(states("privileges") == ["note"])
        // What becomes of the disk of the operator's own PostgreSQL is not seen from here.
        #expect(states("disk") == ["unknown"] && states("socket") == ["fine"])
        #expect(found.contains { $0.area == "deliveries" && $0.text == "backend (127.0.0.1): nothing waits" })
        #expect(found.contains { $0.area == "versions" && $0.text.contains("posthouse 0.1.0") })
        #expect(found.contains { $0.area == "versions" && $0.text.contains("1 daemon serves this database") })
        #expect(found.contains { $0.area == "database" && $0.text.contains("PostgreSQL 1") })
        #expect(found.allSatisfy { $0.state != "wrong" || $0.advice != nil })
        let page = try relay.command("doctor", "--config", relay.configuration)
        #expect(page.end == .exited(0), "\(page)")
        #expect(page.output.contains("nothing is wrong") && page.output.contains("do: "))
        for secret in receiver.secrets + ["source-secret", Relay.apiToken] {
            #expect(!(page.output + page.errors).contains(secret))
        }
        let lines = try relay.onTerminal(columns: 80, "doctor", environment: ["NO_COLOR": "1"])
        #expect(lines.contains { $0.hasPrefix("database ") && $0.contains(" ok ") }, "\(lines)")
        #expect(!lines.contains { $0.contains("\u{1B}") })
    }

    @Test("An open breaker, a paused integration and dead letters are named with what to do")
    func problems() throws {
        let bad = try Receiver { _ in .status(400) }
        let relay = try Relay.running([.init("backend", bad, ["permanent": "[400]"]), .init("other", Receiver())])
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(try eventually { try relay.database.count("dead_letters") == 1 })
        #expect(try relay.command("pause", "other", "--config", relay.configuration).end == .exited(0))
        let found = try findings(relay, ended: 0).filter { $0.area == "deliveries" && $0.state == "note" }
        #expect(found.contains { $0.text.contains("1 dead letter") && $0.advice?.contains("--state dead") == true })
        #expect(found.contains { $0.text.hasPrefix("other ") && $0.advice == "posthouse resume other" })
    }

    @Test("An integration that an answer 410 has paused while something waits is wrong: the receiver goes first")
    func gone() throws {
        let receiver = try Receiver { _ in .status(410) }
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(try eventually { try relay.database.count("integrations", where: "paused_at IS NOT NULL") == 1 })
        let found = try findings(relay, ended: 1).filter { $0.area == "deliveries" && $0.state == "wrong" }
        #expect(found.map(\.advice) == ["repair the receiver, then posthouse resume backend"], "\(found)")
        #expect(found.allSatisfy { $0.text.contains("410") && $0.text.contains("1 wait") }, "\(found)")
    }

    /// What doctor says of the daemons' configurations, asked with that of `relay`.
    private func ofDaemons(_ relay: Relay, ended: Int32) throws -> [Finding] {
        try findings(relay, ended: ended).filter { $0.area == "configuration" && $0.text.contains("daemons") }
    }

    @Test("Two daemons of one ledger: an integration that one lacks is wrong, and a source that both have differently")
    func daemons() throws {
        let receiver = try Receiver()
        let backend = Relay.Integration("backend", receiver)
        let crm = Relay.Integration("crm", receiver)
        let first = try Relay.running([backend])
        defer { first.end() }
        let database = try first.database
        let second = try Relay.running([backend], storage: .given(database.connectionString))
        defer { second.end() }
        func waitForDaemons(_ count: Int, where condition: String) throws {
            #expect(try eventually { try database.count("daemons", where: condition) == count }, "\(condition)")
        }
        try waitForDaemons(2, where: "configuration ? 'integration backend'")
        let alike = try ofDaemons(first, ended: 0)
        let same = "2 daemons have the same integrations, sources and subscription groups"
        #expect(alike.map(\.state) == ["fine"] && alike[0].text == same, "\(alike)")

        // As after a promotion that lost commits; each daemon says it again within seconds.
        try database.rows("UPDATE daemons SET configuration = '{}'")
        try waitForDaemons(2, where: "configuration ? 'integration backend'")

        try second.configure([backend, crm])
        _ = try second.reload()
        try waitForDaemons(1, where: "configuration ? 'integration crm'")
        let lacking = try ofDaemons(second, ended: 1)
        #expect(lacking.map(\.state) == ["wrong"], "\(lacking)")
        #expect(lacking.first?.text.hasPrefix("1 of 2 daemons has no integration crm: ") == true, "\(lacking)")
        #expect(lacking.first?.advice?.contains("posthouse backfill crm --since") == true, "\(lacking)")
        // Under a new lease each daemon says it again.
        try database.rows("DELETE FROM daemons")
        try waitForDaemons(2, where: "configuration ? 'integration backend'")
        #expect(try ofDaemons(first, ended: 1).map(\.text) == lacking.map(\.text))

        let differing = Relay.SourceTable(settings: ["leeway": "\"2h\""])
        try first.configure([backend, crm], sources: [differing])
        _ = try first.reload()
        try waitForDaemons(2, where: "configuration ? 'integration crm'")
        let differs = try ofDaemons(first, ended: 1)
        #expect(differs.map(\.state) == ["wrong"], "\(differs)")
        #expect(differs.first?.text.hasPrefix("2 of 2 daemons have the source purchasely, ") == true, "\(differs)")

        try second.configure([backend, crm], sources: [differing])
        _ = try second.reload()
        #expect(
            try eventually {
                try database.value("SELECT count(DISTINCT configuration) FROM daemons") == "1"
            })
        #expect(try ofDaemons(second, ended: 0).map(\.state) == ["fine"])
        #expect(receiver.count == 0)
    }

    @Test("A database that is away is one wrong line, without its password; all else is there")
    func databaseAway() throws {
        let text = "host=127.0.0.1 port=1 user=u password=hunter2-of-the-test dbname=d"
        let relay = try Relay([.init("backend", Receiver())], storage: .given(text))
        defer { relay.end() }
        let found = try findings(relay, ended: 1)
        let database = found.filter { $0.area == "database" }
        #expect(database.map(\.state) == ["wrong"] && database[0].text.contains("port=1"))
        #expect(database[0].advice?.contains("[database] url") == true)
        #expect(Set(found.map(\.area)).isSuperset(of: ["configuration", "unit", "socket", "disk", "versions"]))
        let page = try relay.command("doctor", "--config", relay.configuration)
        #expect(page.end == .exited(1) && page.output.contains("WRONG") && page.output.contains("1 wrong"))
        #expect(!(page.output + page.errors + found.map(\.text).joined()).contains("hunter2"))
    }

    @Test("A private cluster that does not run: wrong, and its disk is looked at")
    func clusterAway() throws {
        let relay = try Relay([.init("backend", Receiver())], storage: .privateCluster)
        defer { relay.end() }
        let found = try findings(relay, ended: 1)
        #expect(found.contains { $0.area == "database" && $0.state == "wrong" && $0.text.contains("does not run") })
        let disk = try #require(found.first { $0.area == "disk" })
        #expect(disk.state != "unknown" && disk.text.contains(relay.directory.path))
    }

    @Test("A configuration that is damaged, or not there: wrong, and the machine is looked at all the same")
    func damagedConfiguration() throws {
        let relay = try Relay([.init("backend", Receiver())])
        defer { relay.end() }
        for isThere in [true, false] {
            try relay.directory.write("posthouse.toml", "[server\n")
            if !isThere { try FileManager.default.removeItem(atPath: relay.configuration) }
            let found = try findings(relay, ended: 1)
            #expect(found.filter { $0.area == "configuration" }.map(\.state) == ["wrong"])
            #expect(found.contains { $0.area == "database" && $0.state == "unknown" })
            #expect(Set(found.map(\.area)).isSuperset(of: ["unit", "disk", "versions"]))
        }
        #expect(try relay.command("doctor", "--config", "").end == .exited(78))
    }

    @Test(
        "Certificates of the listener and of receivers: when they end, and what a delivery would say; no request goes")
    func certificates() throws {
        let directory = try ScratchDirectory()
        defer { directory.remove() }
        let authority = try CertificateAuthority("authority", in: directory)
        let receiver = try Receiver()
        var integrations: [Relay.Integration] = []
        var fronts: [TLSFront] = []
        let trusted = #""\#(directory.path)/authority.pem""#
        for (name, days) in [("fresh", 60), ("soon", 2), ("late", -1)] {
            let file = directory.path + "/" + name
            try authority.issue(file, days: days)
            let front = try TLSFront(receiver, certificate: file)
            fronts.append(front)
            integrations.append(
                .init(name, url: front.url, secrets: receiver.secrets, ["ca_file": trusted]))
        }
        // An authority that nobody trusts, and a port where nobody listens.
        integrations.append(.init("foreign", url: fronts[0].url, secrets: receiver.secrets))
        integrations.append(
            .init("nobody", url: "https://127.0.0.1:\(try Socket.freePort())/hook", secrets: receiver.secrets))
        integrations.append(
            .init(
                "inside", url: fronts[0].url, secrets: receiver.secrets,
                ["ca_file": trusted, "allow_private": "false"]))
        let own = "tls = { certificate = \"\(directory.path)/soon.pem\", key = \"\(directory.path)/soon.key\" }"
        let relay = try Relay(integrations, settings: own)
        defer { relay.end() }
        let found = try findings(relay, ended: 1).filter { $0.area == "certificates" }
        #expect(
            found.map(\.state) == ["note", "fine", "note", "wrong", "wrong", "wrong", "wrong"], "\(found)")
        #expect(found[0].text.hasPrefix("[server] tls: its certificate ends on "))
        #expect(found[1].text.hasPrefix("fresh (127.0.0.1): its certificate ends on "))
        for index in [3, 4] {
            #expect(found[index].text.contains("the certificate is expired or not signed by a trusted authority"))
        }
        #expect(found[5].text.contains("cannot connect") && found[6].text.contains("allow_private"))
        #expect(receiver.count == 0)
        try relay.directory.write("other.pem", "-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n")
        let broken =
            "tls = { certificate = \"\(relay.directory.path)/other.pem\", key = \"\(directory.path)/soon.key\" }"
        try relay.configure([], settings: broken)
        let unusable = try findings(relay, ended: 1).filter { $0.area == "certificates" }
        #expect(unusable.map(\.state) == ["wrong"])
    }

    @Test("A role that lacks a privilege: which, on what, and the GRANT that gives it")
    func privileges() throws {
        let relay = try Relay.running([.init("backend", Receiver())])
        defer { relay.end() }
        let database = try relay.database
        let role = "doctor_\(try database.value("SELECT current_database()"))"
        try database.rows("CREATE ROLE \(role) LOGIN")
        try database.rows("GRANT USAGE, CREATE ON SCHEMA public TO \(role)")
        try database.rows("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO \(role)")
        try database.rows("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO \(role)")
        try database.rows("REVOKE INSERT ON events FROM \(role)")
        let url = database.connectionString.replacing(/user=\w+/, with: "user=\(role)")
        try relay.directory.write("database-url", url + "\n")
        let found = try findings(relay, ended: 1).filter { $0.area == "privileges" && $0.state == "wrong" }
        #expect(
            found.map(\.advice) == [
                "GRANT UPDATE ON SEQUENCE delivery_ids TO \(role)", "GRANT UPDATE ON SEQUENCE event_ids TO \(role)",
                "GRANT UPDATE ON SEQUENCE message_ids TO \(role)",
                "ALTER TABLE attempts OWNER TO \(role)", "GRANT INSERT ON TABLE events TO \(role)",
                "ALTER TABLE events OWNER TO \(role)", "ALTER TABLE messages OWNER TO \(role)",
            ])
    }
}
