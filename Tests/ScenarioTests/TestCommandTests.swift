import Foundation
import Testing
import Vocabulary

/// `posthouse test`. Oracle: the receivers, which verify signatures by Standard Webhooks alone, and the exit code. No
/// database runs where none is named.
@Suite struct TestCommandTests {
    private func relay(_ integrations: Relay.Integration...) throws -> Relay {
        try Relay(integrations, storage: .given("host=127.0.0.1 port=1 dbname=d"))
    }

    private func test(
        _ relay: Relay, _ name: String = "backend"
    ) throws -> (end: ChildProcess.End?, output: String, errors: String) {
        try relay.command("test", name, "--config", relay.configuration)
    }

    @Test("One signed message of the standard format, whatever the events are; answer, time and place are shown")
    func accepted() throws {
        let receiver = try Receiver()
        let relay = try relay(
            .init("backend", receiver, ["events": #"["ACTIVATE"]"#, "headers": #"{ X-Own = "yes" }"#]))
        defer { relay.end() }
        let tested = try test(relay)
        #expect(tested.end == .exited(0), "\(tested)")
        #expect(receiver.count == 1)
        let received = try #require(receiver.received.first)
        #expect(received.isVerified)
        #expect(received.request["user-agent"] == "posthouse/0.1.0" && received.request["x-own"] == "yes")
        #expect(received.id.wholeMatch(of: /msg_[0-9a-f]{32}/) != nil, "\(received.id)")
        #expect(received.type == "posthouse.test")
        let time = try #require(received.json["timestamp"] as? String)
        let sentAt = try #require(Timestamp(iso8601: time))
        #expect(abs(Double(sentAt.milliseconds) / 1_000 - received.at.timeIntervalSince1970) < 60)
        #expect(received.data["source"] as? String == "posthouse" && received.data["holder"] is NSNull)
        let original = received.data["original"] as? [String: String]
        #expect(
            original == ["event_name": "posthouse.test", "integration": "backend", "version": "0.1.0"], "\(received)")
        let found = tested.output.wholeMatch(of: /backend accepted it: answered 204 in \d+ ms \((\S+), (\S+)\)/)
        let line = try #require(found, "\(tested)")
        #expect(String(line.1) == "http://127.0.0.1:\(receiver.port)/…" && String(line.2) == received.id)
        #expect(tested.errors == "sent past queue and breaker: nothing is stored, nothing is retried")
    }

    @Test("As JSON: one document; each test is another message; the url is shown without path and query")
    func json() throws {
        let receiver = try Receiver()
        let relay = try relay(.init("backend", url: receiver.url + "?token=hidden", secrets: receiver.secrets))
        defer { relay.end() }
        let first = try relay.json("test", "backend")
        let second = try relay.json("test", "backend")
        #expect(
            Set(first.keys)
                == ["integration", "url", "message", "http_status", "latency_ms", "outcome", "failure"])
        #expect(first["integration"] as? String == "backend")
        #expect(first["url"] as? String == "http://127.0.0.1:\(receiver.port)/…")
        #expect(first["http_status"] as? Int == 204 && first["outcome"] as? String == "accepted")
        #expect(first["failure"] is NSNull && first["latency_ms"] as? Int != nil)
        #expect([first, second].compactMap { $0["message"] as? String } == receiver.received.map(\.id))
        #expect(Set(receiver.received.map(\.id)).count == 2)
        #expect(receiver.received.allSatisfy { $0.request.start.contains("token=hidden") })
    }

    @Test("With format source the body is the relay's own object, and nothing else")
    func sourceFormat() throws {
        let receiver = try Receiver()
        let relay = try relay(.init("backend", receiver, ["format": #""source""#]))
        defer { relay.end() }
        #expect(try test(relay).end == .exited(0))
        let received = try #require(receiver.received.first)
        #expect(received.isVerified && received.type == "posthouse.test")
        #expect(received.json["integration"] as? String == "backend" && received.json["data"] == nil)
    }

    @Test(
        "A refusal: 1, the answer's first line made harmless, and what a delivery would do",
        arguments: [
            (500, [:], "answered 500", "a delivery would be tried again after 5s", "retry"),
            (500, ["schedule": #"["90m"]"#], "answered 500", "a delivery would be tried again after 90m", "retry"),
            (400, ["permanent": "[400]"], "permanent", "a delivery would be a dead letter", "dead"),
            (410, [:], "answered 410", "until posthouse resume backend", "paused"),
            (302, [:], "redirects are not followed", "a delivery would be tried again", "retry"),
        ] as [(Int, [String: String], String, String, String)])
    func refused(
        _ status: Int, _ settings: [String: String], _ reason: String, _ consequence: String, _ outcome: String
    ) throws {
        let receiver = try Receiver { _ in .status(status, body: "out of \u{1B}[31morder\r\nthe second line") }
        let relay = try relay(.init("backend", receiver, settings))
        defer { relay.end() }
        let tested = try test(relay)
        #expect(tested.end == .exited(1))
        #expect(tested.output.hasPrefix("backend did not accept it: answered \(status)"), "\(tested)")
        #expect(tested.output.contains(reason), "\(tested)")
        #expect(tested.output.contains(consequence), "\(tested)")
        #expect(tested.output.contains(#"out of \u{1b}[31morder; "#), "\(tested)")
        #expect(!tested.output.contains("the second line") && !tested.output.contains("\u{1B}"))
        let document = try relay.json("test", "backend", ended: 1)
        #expect(document["http_status"] as? Int == status && document["outcome"] as? String == outcome)
        #expect((document["failure"] as? String)?.hasSuffix("the second line") == true, "\(document)")
        #expect(receiver.count == 2, "one request for each test")
    }

    @Test("Nobody listens, no answer in time, an address inside: 1, the failure of a delivery")
    func unreachable() throws {
        let silent = try Receiver { _ in .hang }
        let hidden = try Receiver()
        let relay = try relay(
            .init("gone", url: "http://127.0.0.1:\(try Socket.freePort())/", secrets: hidden.secrets),
            .init("silent", silent, ["timeout": #""3s""#]),
            .init("hidden", hidden, ["allow_private": ""]))
        defer { relay.end() }
        for (name, failure) in [
            ("gone", "cannot connect: 127.0.0.1:"), ("silent", "timed out before an answer came"),
            ("hidden", "127.0.0.1 (loopback); `allow_private = true` in its [[integration]]"),
        ] {
            var tested = try test(relay, name)
            // On a machine that stands still the time may be over before the request is written.
            for _ in 0..<3 where tested.output.contains("timed out") && !tested.output.contains(failure) {
                tested = try test(relay, name)
            }
            #expect(tested.end == .exited(1))
            #expect(tested.output.hasPrefix("\(name) did not accept it: "), "\(tested)")
            #expect(tested.output.contains(failure) && tested.output.contains("would be tried again"), "\(tested)")
        }
        #expect(hidden.connectionsMade == 0)
        let document = try relay.json("test", "silent", ended: 1)
        #expect(document["http_status"] is NSNull && (document["latency_ms"] as? Int ?? 0) >= 2_900, "\(document)")
    }

    @Test("HTTPS by ca_file: accepted, and refused without it")
    func trust() throws {
        let receiver = try Receiver()
        let directory = try ScratchDirectory()
        defer { directory.remove() }
        let authority = try CertificateAuthority("authority", in: directory)
        try authority.issue(directory.path + "/leaf", days: 2)
        let front = try TLSFront(receiver, certificate: directory.path + "/leaf")
        let relay = try relay(
            .init(
                "trusting", url: front.url, secrets: receiver.secrets,
                ["ca_file": #""\#(directory.path)/authority.pem""#]),
            .init("careful", url: front.url, secrets: receiver.secrets))
        defer { relay.end() }
        #expect(try test(relay, "trusting").end == .exited(0))
        let refused = try test(relay, "careful")
        #expect(refused.end == .exited(1) && refused.output.contains("TLS failed: "), "\(refused)")
        #expect(receiver.count == 1 && receiver.received.allSatisfy(\.isVerified))
    }

    @Test("--all: one line each in the order of the file, 1 if one failed; as JSON one document")
    func all() throws {
        let (good, bad) = (try Receiver(), try Receiver { _ in .status(503) })
        let relay = try relay(.init("crm", good), .init("backend", bad))
        defer { relay.end() }
        let tested = try test(relay, "--all")
        #expect(tested.end == .exited(1))
        let lines = tested.output.components(separatedBy: "\n")
        #expect(lines.count == 2, "\(tested)")
        #expect(lines.first?.hasPrefix("crm accepted it: ") == true, "\(lines)")
        #expect(lines.last?.hasPrefix("backend did not accept it: answered 503; ") == true, "\(lines)")
        let document = try relay.json("test", "--all", ended: 1)
        let results = try #require(document["integrations"] as? [[String: Any]])
        #expect(results.map { $0["integration"] as? String } == ["crm", "backend"])
        #expect(results.map { $0["outcome"] as? String } == ["accepted", "retry"])
        bad.answer { _ in .ok }
        #expect(try test(relay, "--all").end == .exited(0))
    }

    @Test("A name that is not configured: 1, with the one that was meant; no name or both: 64")
    func names() throws {
        let receiver = try Receiver()
        let relay = try relay(.init("backend", receiver), .init("crm", receiver))
        defer { relay.end() }
        let unknown = try test(relay, "bakend")
        #expect(unknown.end == .exited(1))
        #expect(unknown.errors.contains("(did you mean backend?); known are: backend, crm"), "\(unknown)")
        #expect(try relay.command("test", "--config", relay.configuration).end == .exited(64))
        #expect(try relay.command("test", "crm", "--all", "--config", relay.configuration).end == .exited(64))
        try relay.configure([])
        #expect(try test(relay).end == .exited(78))
        #expect(receiver.count == 0)
    }

    @Test("A secret that only the daemon can read: 78, and how it can; another integration's does not matter")
    func unreadableSecret() throws {
        let receiver = try Receiver()
        let relay = try relay(.init("backend", receiver), .init("crm", receiver))
        defer { relay.end() }
        let directory = relay.directory.path
        let text = try String(contentsOfFile: relay.configuration, encoding: .utf8)
            .replacing("{ file = \"\(directory)/backend-0.secret\" }", with: "{ credential = \"backend-0.secret\" }")
        try relay.directory.write("posthouse.toml", text)
        for arguments in [["backend"], ["--all"], ["backend", "--json"]] {
            let child = try ChildProcess(
                [try Relay.binary.get(), "test"] + arguments + ["--config", relay.configuration],
                environment: Relay.environment)
            #expect(child.waitForEnd(180) == .exited(78), "\(child.errors)")
            let errors = child.errors.joined(separator: "\n")
            #expect(errors.contains("the secret of backend cannot be read here"), "\(errors)")
            #expect(errors.contains("runuser -u posthouse -- posthouse test "), "\(errors)")
        }
        #expect(receiver.count == 0)
        #expect(try test(relay, "crm").end == .exited(0))
        let child = try ChildProcess(
            [try Relay.binary.get(), "test", "backend", "--config", relay.configuration],
            environment: Relay.environment.merging(["CREDENTIALS_DIRECTORY": directory]) { $1 })
        #expect(child.waitForEnd(180) == .exited(0), "\(child.errors)")
        #expect(receiver.count == 2 && receiver.received.allSatisfy(\.isVerified))
        try relay.directory.write(
            "posthouse.toml", text + "headers = { Authorization = { credential = \"missing\" } }\n")
        #expect(try test(relay, "crm").errors.contains("the secret of crm cannot be read here"))
    }

    @Test("A paused integration is tested, and the database hears nothing of it")
    func paused() throws {
        let receiver = try Receiver { $0.type == "posthouse.test" ? .ok : .status(410) }
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(try eventually { try relay.database.count("attempts") == 1 })
        let status = try #require(try relay.json("status")["integrations"] as? [[String: Any]])
        #expect(status.map { $0["state"] as? String } == ["paused"])
        #expect(try test(relay).end == .exited(0))
        #expect(receiver.received.map(\.type) == ["ACTIVATE", "posthouse.test"])
        #expect(try relay.database.count("messages") == 1 && relay.database.count("attempts") == 1)
        #expect(try relay.database.count("deliveries") == 1)
    }

    @Test("listen prints an integration that sends to it: pasted as it is, the test arrives")
    func listenPrintsAnIntegration() throws {
        let directory = try ScratchDirectory()
        defer { directory.remove() }
        let listener = try Listener(secretFile: try directory.write("secret", Receiver.newSecret() + "\n"))
        defer { listener.end() }
        #expect(listener.child.waitForError(180) { $0 == "allow_private = true" } != nil)
        let errors = listener.child.errors
        let start = try #require(errors.firstIndex(of: "[[integration]]"), "\(errors)")
        let table = errors[start...]
        #expect(table.contains("url = \"http://127.0.0.1:\(listener.port)/\""), "\(errors)")
        let relay = try relay()
        defer { relay.end() }
        let text = try String(contentsOfFile: relay.configuration, encoding: .utf8)
        try relay.directory.write("posthouse.toml", text + table.joined(separator: "\n") + "\n")
        let tested = try test(relay)
        #expect(tested.end == .exited(0), "\(tested)")
        #expect(listener.child.waitForOutput(180) { $0.hasPrefix("verified posthouse.test msg_") } != nil)
    }
}
