import Foundation
import TestSupport
import Testing
import Vocabulary

/// The commands as a person at a terminal meets them: exit codes and what they print.
@Suite struct CommandTests {
    @Test("check: 0 for a good file, 78 with line and column for a bad one; serve refuses the bad one alike")
    func check() throws {
        let relay = try Relay([.init("backend", Receiver())])
        defer { relay.end() }
        let good = try relay.command("check", "--config", relay.configuration)
        #expect(good.end == .exited(0), "\(good.errors)")
        #expect(good.output.contains("(1 source, 1 integration)"))
        let bad = try relay.directory.write(
            "bad.toml",
            "[server]\nlisten = \"127.0.0.1:0\"\napi_listn = 5\n[[integration]]\nname = \"x\"\nurl = \"no\"\n")
        for command in ["check", "serve"] {
            let refused = try relay.command(command, "--config", bad)
            #expect(refused.end == .exited(78), "\(command)")
            #expect(refused.errors.contains("bad.toml:3:1"), "\(command): \(refused.errors)")
            #expect(refused.errors.contains("api_listen"), "\(command)")
            #expect(refused.errors.contains("bad.toml:6:"), "\(command)")
        }
        #expect(try relay.command("check", "--config", "/nowhere/posthouse.toml").end == .exited(78))
        let unusable = try Relay([], storage: .given("notaurl foo"))
        defer { unusable.end() }
        let status = try unusable.command("status", "--config", unusable.configuration)
        #expect(status.end == .exited(78) && status.errors.contains("posthouse check names its line"), "\(status)")
        // Of a database that does not answer nothing is said.
        let away = try Relay(
            [.init("backend", url: "http://example.com/hook", secrets: Receiver().secrets)],
            storage: .given("host=127.0.0.1 port=1 dbname=d"))
        defer { away.end() }
        let checked = try away.command("check", "--config", away.configuration)
        #expect(checked.end == .exited(0) && !checked.errors.contains("could not be counted"), "\(checked)")
        let lines = checked.errors.split(separator: "\n")
        let warnings = lines.count(where: { $0.contains("warning: ") })
        #expect(warnings > 0 && lines.last?.hasPrefix("\(warnings) warning") == true, "\(checked)")
        #expect(try relay.command("sreve").end == .exited(64))
        #expect(try relay.command("--version").output == "0.1.0")
    }

    @Test("check and serve refuse what no daemon could start by: a url, another's key, a broken ca_file")
    func unusable() throws {
        let relay = try Relay([.init("backend", Receiver())])
        defer { relay.end() }
        let folder = relay.directory
        for name in ["one", "two"] { _ = try CertificateAuthority(name, in: folder) }
        try folder.write("broken.pem", "-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n")
        let listen = "[server]\nlisten = \"127.0.0.1:0\"\n"
        let files = [
            ("url", listen + "[database]\nurl = \"host=db port=54x2 password=hunter2\"\n", "4:7"),
            ("tls", listen + "tls = { certificate = \"one.pem\", key = \"two.key\" }\n", "3:7"),
            (
                "ca",
                listen + "[[integration]]\nname = \"x\"\nurl = \"https://example.com/\"\nevents = [\"*\"]\n"
                    + "secret = { file = \"backend-0.secret\" }\nca_file = \"broken.pem\"\n", "8:11"
            ),
        ]
        for (name, text, place) in files {
            let file = try folder.write("\(name).toml", text)
            for command in ["check", "serve"] {
                let refused = try relay.command(command, "--config", file)
                #expect(refused.end == .exited(78), "\(command) \(name): \(refused)")
                #expect(refused.errors.contains("\(name).toml:\(place): error: "), "\(command): \(refused.errors)")
                #expect(!refused.errors.contains("hunter2"))
            }
        }
    }

    @Test("A mistyped command: 64, what it was taken for, and nothing else is called one")
    func mistyped() throws {
        func run(_ words: [String]) throws -> (end: ChildProcess.End?, output: [String], errors: [String]) {
            let child = try ChildProcess([try Relay.binary.get()] + words, environment: Relay.environment)
            return (child.waitForEnd(180), child.output, child.errors)
        }
        let mistyped: [([String], String)] = [
            (["statu"], "there is no command `statu`; did you mean `status`?"),
            (["statu", "--json"], "there is no command `statu`; did you mean `status`?"),
            (["Retry", "backend"], "there is no command `Retry`; did you mean `retry`?"),
            (["statu", "--help"], "there is no command `statu`; did you mean `status`?"),
            (["help", "statu"], "there is no command `statu`; did you mean `status`?"),
            (["hlep"], "there is no command `hlep`; did you mean `help`?"),
            (["quarantine", "lst"], "there is no command `quarantine lst`; did you mean `quarantine list`?"),
            (["quarantine", "retyr", "1"], "there is no command `quarantine retyr`; did you mean `quarantine retry`?"),
            (["bake", "a cake"], "there is no command `bake`"),
            (["\u{1B}[31m"], "there is no command `\\u{1b}[31m`"),
        ]
        for (words, problem) in mistyped {
            let (end, output, errors) = try run(words)
            #expect(end == .exited(64) && output == [], "\(words): \(output)")
            #expect(errors.first == "Error: " + problem, "\(words): \(errors)")
            #expect(errors.last?.contains("--help' for more information.") == true, "\(words): \(errors)")
        }
        // What the parser finds by itself, it says.
        let others: [([String], Int32, String)] = [
            (["status", "--jsno"], 64, "--jsno"), (["status", "backend"], 64, "Unexpected argument 'backend'"),
            (["quarantine", "--jsn"], 64, "--jsn"), (["--jsn"], 64, "--jsn"),
            (["quarantine", "show", "x"], 64, "'x' is invalid"),
        ]
        for (words, code, part) in others {
            let (end, _, errors) = try run(words)
            #expect(end == .exited(code), "\(words)")
            #expect(errors.first?.contains(part) == true, "\(words): \(errors)")
        }
        for words in [["help"], ["help", "status"], ["help", "quarantine", "list"], [], ["quarantine", "--help"]] {
            #expect(try run(words).end == .exited(0), "\(words)")
        }
    }

    @Test("A first host of the url that says nothing keeps no command from the next")
    func silentHost() throws {
        let relay = try Relay([.init("backend", Receiver())])
        defer { relay.end() }
        let (listener, port) = try Socket.listen()
        defer { close(listener.descriptor) }
        let url = try relay.database.connectionString.replacing(#/host=(\S+)/#) { match in
            "host=127.0.0.1,\(match.1) port=\(port),5432"
        }
        try relay.directory.write("database-url", url + "\n")
        let status = try relay.command("status", "--config", relay.configuration)
        #expect(status.end == .exited(0), "\(status.errors)")
    }

    @Test("check as root names the credentials that it cannot read in one line; another user has a warning for each")
    func credentials() throws {
        let relay = try Relay([.init("backend", Receiver())], storage: .given("host=127.0.0.1 port=1 dbname=d"))
        defer { relay.end() }
        var text = try String(contentsOfFile: relay.configuration, encoding: .utf8)
        for (file, name) in [("purchasely-0.secret", "a"), ("backend-0.secret", "b"), ("database-url", "c")] {
            text = text.replacingOccurrences(
                of: "{ file = \"\(relay.directory.path)/\(file)\" }", with: "{ credential = \"\(name)\" }")
        }
        try relay.directory.write("posthouse.toml", text)
        let check = try relay.command("check", "--config", relay.configuration)
        #expect(check.end == .exited(0), "\(check.errors)")
        let sum =
            "3 credentials cannot be read here: systemd hands credentials over when the daemon starts or reloads: "
            + "c, a, b; those of a unit that runs by this file are in /run/credentials/UNIT, which "
            + "CREDENTIALS_DIRECTORY may name"
        let findings = try #require(try relay.json("check")["findings"] as? [[String: Any]])
        let messages = findings.compactMap { $0["message"] as? String }
        if getuid() == 0 {
            #expect(check.errors.contains("posthouse.toml: warning: \(sum)"), "\(check.errors)")
            #expect(messages.contains(sum) && !messages.contains { $0.contains("$CREDENTIALS_DIRECTORY") })
        } else {
            #expect(messages.count(where: { $0.contains("$CREDENTIALS_DIRECTORY is not set") }) == 3, "\(messages)")
        }
    }

    @Test("serve refuses a database that could lose what was acknowledged, and says how to put it right")
    func unsafeDatabase() throws {
        let database = try TestCluster.shared.createDatabase()
        let relay = try Relay([.init("backend", Receiver())], storage: .given(database))
        defer { relay.end() }
        let child = try relay.launch()
        #expect(child.waitForEnd(180) == .exited(1))
        #expect(child.errors.contains { $0.contains("fsync") })
    }

    @Test("A database password is in no line of the journal, wherever the start fails")
    func secretsStaySecret() throws {
        let text = "host=127.0.0.1 port=1 user=u password=hunter2-of-the-test dbname=d"
        let relay = try Relay([.init("backend", Receiver())], storage: .given(text))
        defer { relay.end() }
        let child = try relay.launch()
        #expect(child.waitForError(180) { $0.contains("out of reach") } != nil)
        child.signal(SIGKILL)
        _ = child.waitForEnd(180)
        #expect(!(child.errors + child.output).contains { $0.contains("hunter2") })
        let check = try relay.command("check", "--config", relay.configuration)
        #expect(!(check.errors + check.output).contains("hunter2"))
    }

    @Test("trace shows the whole way of a transaction")
    func trace() throws {
        let receiver = try Receiver { $0.type == "SUBSCRIPTION_RECEIVED" ? .status(400, body: "unwanted") : .ok }
        let relay = try Relay.running([.init("backend", receiver, ["permanent": "[400]"])])
        defer { relay.end() }
        let id = "100000099999999"
        for webhook in [
            Webhook("DEACTIVATE", .anonymous("a"), purchase: "subs_1", transaction: id),
            Webhook("ACTIVATE", .user("u"), purchase: "subs_1", transaction: id),
        ] { #expect(try relay.source().post(webhook) == 200) }
        #expect(try relay.database.drained())
        let trace = try relay.command("trace", id, "--config", relay.configuration)
        #expect(trace.end == .exited(0), "\(trace.errors)")
        let transfer = try relay.database.value("SELECT 'trf_' || replace(id::text, '-', '') FROM transfers")
        let lines = trace.output.components(separatedBy: "\n")
        func expectLine(_ parts: String...) {
            #expect(lines.contains { line in parts.allSatisfy { line.contains($0) } }, "\(parts) in \(trace.output)")
        }
        expectLine("transaction", id)
        expectLine("webhook DEACTIVATE of purchasely (PRODUCTION)")
        expectLine("webhook ACTIVATE of purchasely (PRODUCTION)")
        expectLine("event evt_", "anon:a", "2026-01-15T08:00:00.000Z", "purchase subs_1")
        for type in ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"] {
            expectLine("message \(type) msg_", transfer)
        }
        expectLine("→ backend: delivered")
        expectLine("attempt 1 accepted (204 after ")
        expectLine("→ backend: dead", "400")
        expectLine("active", "user:u", "subs_1")
        expectLine("inactive", "anon:a", "subs_1")
        let unknown = try relay.command("trace", "no such", "--config", relay.configuration)
        #expect(unknown.end == .exited(1))
        #expect(unknown.errors.contains("no webhook under no such"))
    }

    @Test("send and listen: a signed sample goes through the relay and arrives verified")
    func sendAndListen() throws {
        let secret = Receiver.newSecret()
        let port = try Socket.freePort()
        let relay = try Relay.running([
            .init("listener", url: "http://127.0.0.1:\(port)/hook", secrets: [secret], ["schedule": #"["200ms"]"#])
        ])
        defer { relay.end() }
        // As a text editor of another system ends a line; the daemon, too, leaves that away.
        let secretFile = try relay.directory.write("listener.secret", secret + "\r\n")
        let listener = try ChildProcess([
            try Relay.binary.get(), "listen", "--listen", "127.0.0.1:\(port)", "--secret-file", secretFile, "--json",
        ])
        defer { listener.signal(SIGKILL) }
        #expect(listener.waitForError(180) { $0.contains("listening on 127.0.0.1:\(port)") } != nil)
        let url = "http://127.0.0.1:\(relay.port)/ingest/purchasely"
        let sourceSecret = try relay.directory.write("source.secret", "source-secret\r\n")
        let base = ["send", "--url", url, "--transaction", "7001", "--purchase", "subs_1"]
        func send(_ arguments: [String], secretFile: String?) throws -> ChildProcess.End? {
            let signing = secretFile.map { ["--secret-file", $0] } ?? []
            return try ChildProcess([try Relay.binary.get()] + base + arguments + signing).waitForEnd(180)
        }
        #expect(try send(["--event", "ACTIVATE", "--anonymous", "a1"], secretFile: sourceSecret) == .exited(0))
        #expect(try send(["--event", "ACTIVATE", "--user", "u1"], secretFile: sourceSecret) == .exited(0))
        #expect(try send(["--event", "ACTIVATE", "--user", "u1"], secretFile: nil) == .exited(1))
        let unsigned = try relay.command("send", "--url", url, "--event", "ACTIVATE", "--user", "u1").errors
        #expect(unsigned.contains("was answered 401") && unsigned.contains("--secret-file"), "\(unsigned)")
        #expect(try send(["--event", "ACTIVATE", "--user", "u1"], secretFile: secretFile) == .exited(1))
        #expect(try send(["--event", "ACTIVATE"], secretFile: sourceSecret) == .exited(64))
        let last = listener.waitForOutput(180) { $0.contains("\"type\":\"SUBSCRIPTION_RECEIVED\"") }
        let line = try #require(last)
        let object = try #require(JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        #expect(object["verified"] as? Bool == true)
        #expect((object["webhook_id"] as? String)?.hasPrefix("msg_") == true)
        let data = (object["body"] as? [String: Any])?["data"] as? [String: Any]
        let transfer = data?["transfer"] as? [String: Any]
        #expect(transfer?["from"] as? [String: String] == ["anonymous_user_id": "a1"])
        #expect(transfer?["to"] as? [String: String] == ["user_id": "u1"])
        #expect(listener.output.count == 4)
        // What is not signed by the integration's secret is shown as such and not accepted.
        let forged = try HTTPClient(port: port).request(
            "POST", "/hook",
            headers: [("webhook-id", "msg_x"), ("webhook-timestamp", "1"), ("webhook-signature", "v1,AAAA")],
            body: Array("{}".utf8))
        #expect(forged.status == 401)
        #expect(listener.waitForOutput(180) { $0.contains("\"verified\":false") } != nil)
        listener.signal(SIGTERM)
        #expect(listener.waitForEnd(180) == .exited(0))
    }

    @Test(
        "send says who gives and who gets, and nothing of it where an event names one holder",
        arguments: [
            (
                "purchasely", "SUBSCRIPTION_TRANSFERRED --user ann --counterpart-user bob",
                " (user:ann gives, user:bob gets)"
            ),
            (
                "purchasely", "SUBSCRIPTION_RECEIVED --user bob --counterpart-anonymous a",
                " (anon:a gives, user:bob gets)"
            ),
            ("purchasely", "SUBSCRIPTION_TRANSFERRED --user ann", " (user:ann gives)"),
            ("revenuecat", "TRANSFER --user bob --counterpart-user ann", " (user:ann gives, user:bob gets)"),
            (
                "sessions", "SESSION_LOGIN --anonymous a --counterpart-user ann",
                " (anon:a gives, user:ann gets, where the source has merge = true)"
            ),
            ("purchasely", "ACTIVATE --user ann", ""), ("apphud", "subscription_started --user ann", ""),
        ])
    func sides(_ kind: String, _ words: String, _ remark: String) throws {
        let receiver = try Receiver { _ in .status(200) }
        let arguments = words.components(separatedBy: " ")
        let child = try ChildProcess(
            [try Relay.binary.get(), "send", "--url", receiver.url, "--kind", kind, "--event"] + arguments)
        #expect(child.waitForEnd(180) == .exited(0), "\(child.errors)")
        #expect(child.output == ["\(arguments[0]) was answered 200\(remark)"])
        #expect(receiver.count == 1)
    }

    @Test("The help of send says for each kind which option gives and which gets")
    func sidesHelp() throws {
        let child = try ChildProcess([try Relay.binary.get(), "send", "--help"], environment: ["COLUMNS": "80"])
        #expect(child.waitForEnd(180) == .exited(0))
        for kind in SourceKind.allCases { #expect(child.output.contains("  \(kind.rawValue)"), "\(child.output)") }
        for line in [
            "    SUBSCRIPTION_TRANSFERRED: --user gives, --counterpart-user gets",
            "    SUBSCRIPTION_RECEIVED: --user gets, --counterpart-user gives",
            "    TRANSFER: --user gets, --counterpart-user gives",
            "    SESSION_LOGIN: the anonymous one gives, the user gets (with merge = true)",
        ] { #expect(child.output.contains(line), "\(line) in \(child.output)") }
    }

    @Test("send by a url that is none is wrong usage: nothing is begun, not even certificates")
    func wrongURL() throws {
        let directory = try ScratchDirectory()
        defer { directory.remove() }
        let chain = directory.path + "/chain"
        for more in [["--kind", "apple", "--chain", chain], []] {
            let words = ["send", "--url", "ftp://127.0.0.1/ingest/x", "--event", "ACTIVATE", "--user", "u"]
            let child = try ChildProcess([try Relay.binary.get()] + words + more)
            #expect(child.waitForEnd(180) == .exited(64), "\(more): \(child.errors)")
            #expect(child.errors.contains { $0.contains("must begin with https:// or http://") }, "\(child.errors)")
        }
        #expect(!FileManager.default.fileExists(atPath: chain))
    }

    @Test("send shows no password that a url holds, whatever else is wrong with it")
    func passwordInURL() throws {
        for url in ["https://user:hunter2@127.0.0.1/ingest/x", "htps://user:hunter2@127.0.0.1/ingest/x"] {
            let words = ["send", "--url", url, "--event", "ACTIVATE", "--user", "u"]
            let child = try ChildProcess([try Relay.binary.get()] + words)
            #expect(child.waitForEnd(180) == .exited(64), "\(child.errors)")
            let said = (child.output + child.errors).joined(separator: "\n")
            #expect(said.contains("--url must ") && !said.contains("hunter2") && !said.contains("headers"), "\(said)")
        }
    }

    @Test("send does not send what only the platform can prove, and prints it with a word about that")
    func withoutProof() throws {
        let receiver = try Receiver { _ in .status(200) }
        func send(_ more: [String]) throws -> ChildProcess {
            let words = ["send", "--url", receiver.url, "--kind", "google-play", "--user", "u", "--event"]
            let child = try ChildProcess([try Relay.binary.get()] + words + ["SUBSCRIPTION_RENEWED"] + more)
            #expect(child.waitForEnd(180) == .exited(more == ["--print"] ? 0 : 64), "\(more): \(child.errors)")
            return child
        }
        for more in [[], ["--secret-file", "/nowhere/secret", "--print"], ["--chain", "/nowhere/chain", "--print"]] {
            let refused = try send(more)
            #expect(refused.output == [] && !refused.errors.contains { $0.contains("give --chain") }, "\(more)")
        }
        #expect(try send([]).errors.contains { $0.contains("--print prints the body alone") })
        let printed = try send(["--print"])
        #expect(printed.output.count == 1 && printed.output[0].hasPrefix(#"{"message":{"#), "\(printed.output)")
        #expect(printed.errors.contains { $0.contains("without a proof") }, "\(printed.errors)")
        #expect(receiver.count == 0)
    }

    @Test("migrate prepares a database once")
    func migrate() throws {
        let relay = try Relay([.init("backend", Receiver())], storage: .fresh)
        defer { relay.end() }
        let first = try relay.command("migrate", "--config", relay.configuration)
        #expect(first.end == .exited(0), "\(first.errors)")
        #expect(first.output.contains("migrated from 0 to "))
        let second = try relay.command("migrate", "--config", relay.configuration)
        #expect(second.end == .exited(0))
        #expect(second.output.contains("up to date"))
    }
}
