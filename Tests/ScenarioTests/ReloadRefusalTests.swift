import Foundation
import TestSupport
import Testing
import Vocabulary

/// A reload takes over all of a configuration or nothing, and what it cannot take over it says each time.
@Suite struct ReloadRefusalTests {
    /// Makes a certificate that signs itself; the files' lines for `[server]`.
    private func certificate(_ name: String, in directory: ScratchDirectory) throws -> String {
        let path = directory.path + "/" + name
        let made = try ChildProcess([
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
            "1", "-subj", "/CN=\(name)", "-keyout", path + ".key", "-out", path + ".crt",
        ])
        #expect(made.waitForEnd(180) == .exited(0), "\(made.errors)")
        return "tls = { certificate = \"\(path).crt\", key = \"\(path).key\" }"
    }

    /// The name in the certificate that the listener shows, by OpenSSL's own client.
    private func shownName(_ port: UInt16) throws -> String {
        let asked = try ChildProcess([
            "sh", "-c", "openssl s_client -connect 127.0.0.1:\(port) </dev/null | openssl x509 -noout -subject",
        ])
        _ = asked.waitForEnd(180)
        return asked.output.joined()
    }

    @Test("TLS that is switched on waits for the restart, however often it is reloaded")
    func tlsAdded() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        let process = relay.processIdentifier
        try relay.configure(
            [.init("backend", receiver)], settings: certificate("late", in: relay.directory))
        for round in 1...3 {
            let reported = try relay.reload()
            #expect(reported.contains("due at the next restart: [server] tls"), "\(round): \(reported)")
        }
        #expect(relay.processIdentifier == process)
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(receiver.waitForAccepted(1))
    }

    @Test("A socket that is to be another is named by each reload until the restart")
    func listenChanged() throws {
        let relay = try Relay.running([])
        defer { relay.end() }
        let text = try String(contentsOfFile: relay.configuration, encoding: .utf8)
        let other = text.replacingOccurrences(of: ":\(relay.port)", with: ":\(try Socket.freePort())")
        try relay.directory.write("posthouse.toml", other + "[retention]\nattempts = \"40d\"\n")
        let first = try relay.reload()
        #expect(first.contains("changed [retention]; due at the next restart: [server] listen"), "\(first)")
        let second = try relay.reload()
        #expect(
            second.contains("nothing differs from the one before; due at the next restart: [server] listen"),
            "\(second)")
        try relay.directory.write("posthouse.toml", text)
        #expect(try !relay.reload().contains("due at the next restart"))
    }

    @Test("With PostgreSQL stopped nothing of it holds: no secret, no certificate, no source; with it back, all does")
    func databaseStopped() throws {
        let cluster = try TestCluster(durable: true)
        let receiver = try Receiver()
        let relay = try Relay([.init("backend", receiver)], storage: .given(try cluster.createDatabase()))
        defer { relay.end() }
        let tls = try certificate("first", in: relay.directory)
        try relay.configure([.init("backend", receiver)], settings: tls)
        try relay.launch()
        #expect(relay.waitForLine("ready on ") != nil)
        #expect(try shownName(relay.port).contains("first"))

        try cluster.stop(mode: "immediate")
        _ = try certificate("second", in: relay.directory)
        for kind in ["crt", "key"] {
            let renewed = try String(contentsOfFile: "\(relay.directory.path)/second.\(kind)", encoding: .utf8)
            try relay.directory.write("first.\(kind)", renewed)
        }
        try relay.configure(
            [.init("backend", receiver)], sources: [.init(secrets: ["another-secret"]), .init(name: "apphud")],
            settings: tls)
        let refused = try relay.reload()
        #expect(refused.contains("cannot be used; the previous one stays in effect"), "\(refused)")
        #expect(try shownName(relay.port).contains("first"))
        #expect(try post(relay, secret: "another-secret") == 401)
        #expect(try post(relay, secret: "source-secret") == 503)
        #expect(try status(relay, "/ingest/apphud", ["-d", "{}"]) == 404)

        try cluster.start()
        #expect(try eventually { try post(relay, secret: "source-secret") == 200 })
        let reported = try relay.reload()
        for part in ["added source apphud", "changed source purchasely", "new TLS certificate"] {
            #expect(reported.contains(part), "\(reported)")
        }
        #expect(try shownName(relay.port).contains("second"))
        #expect(try post(relay, secret: "source-secret") == 401)
        #expect(try eventually { try post(relay, secret: "another-secret") == 200 })
        #expect(try relay.reload().contains("nothing differs from the one before"))
    }

    @Test("SIGTERM is heard while a reload waits for a database that hangs")
    func stopWhileWaiting() throws {
        let cluster = try TestCluster(durable: true)
        let relay = try Relay.running([], storage: .given(try cluster.createDatabase()))
        defer { relay.end() }
        let frozen = try FrozenCluster(cluster)
        relay.child?.signal(SIGHUP)
        #expect(relay.child?.waitUntilTaken(SIGHUP) == true)
        // It begins to wait; by itself it would give up after the statement time-out and its margin, 35 s, and say so.
        Thread.sleep(forTimeInterval: 1)
        relay.child?.signal(SIGTERM)
        #expect(relay.waitForLine("stopping: SIGTERM") != nil)
        #expect(!relay.lines.contains { $0.contains("the new configuration ") })
        frozen.thaw()
        #expect(relay.child?.waitForEnd(180) != nil)
    }

    // MARK: A relay with TLS, asked by curl

    /// The status of a signed webhook.
    private func post(_ relay: Relay, secret: String) throws -> Int {
        let body = Webhook("ACTIVATE", .user("u"), purchase: "subs_1").body
        let headers = relay.source(secret: secret).signatureHeaders(body).flatMap { ["-H", "\($0.0): \($0.1)"] }
        let file = try relay.directory.write("body", String(decoding: body, as: UTF8.self))
        return try status(relay, "/ingest/purchasely", headers + ["--data-binary", "@" + file])
    }

    private func status(_ relay: Relay, _ path: String, _ arguments: [String]) throws -> Int {
        let asked = try ChildProcess(
            ["curl", "-k", "-s", "-m", "120", "-o", "/dev/null", "-w", "%{http_code}"] + arguments
                + ["https://127.0.0.1:\(relay.port)\(path)"])
        _ = asked.waitForEnd(180)
        return Int(asked.output.joined()) ?? -1
    }
}
