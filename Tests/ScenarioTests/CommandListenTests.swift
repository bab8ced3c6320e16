import Crypto
import Foundation
import Testing
import Vocabulary

/// `posthouse listen` that fails on purpose. What it is sent is signed here, by Crypto's HMAC and the text of Standard
/// Webhooks 1.0 alone.
@Suite struct CommandListenTests {
    private static let secret = "whsec_" + Data(repeating: 9, count: 32).base64EncodedString()

    /// Sends one signed request; the status and the seconds that it took.
    private func send(
        _ body: String = #"{"type": "T", "data": {}}"#, to listener: Listener, secret: String = secret
    ) throws -> (status: Int, seconds: Double) {
        let seconds = String(Int(Date().timeIntervalSince1970))
        let body = Array(body.utf8)
        let key = SymmetricKey(data: try #require(Data(base64Encoded: String(secret.dropFirst(6)))))
        let code = HMAC<SHA256>.authenticationCode(for: Array("m.\(seconds).".utf8) + body, using: key)
        let clock = ContinuousClock()
        let startedAt = clock.now
        let answer = try HTTPClient(port: listener.port).request(
            "POST", "/",
            headers: [
                ("webhook-id", "m"), ("webhook-timestamp", seconds),
                ("webhook-signature", "v1," + Data(code).base64EncodedString()),
            ], body: body)
        let took = clock.now - startedAt
        return (answer.status, Double(took.components.seconds) + Double(took.components.attoseconds) / 1e18)
    }

    private func listener(_ directory: ScratchDirectory, _ options: [String]) throws -> Listener {
        try Listener(secretFile: try directory.write("secret", Self.secret + "\n"), options: options)
    }

    @Test("--fail answers all with that status, and says so; a wrong signature is still a 401")
    func all() throws {
        let directory = try ScratchDirectory()
        let listener = try listener(directory, ["--fail", "503"])
        defer { listener.end() }
        for _ in 0..<3 { #expect(try send(to: listener).status == 503) }
        #expect(try send(to: listener, secret: Receiver.newSecret()).status == 401)
        #expect(listener.child.waitForOutput(180) { $0.hasPrefix("REFUSED m: ") } != nil)
        let reported = listener.child.output.filter { $0.hasPrefix("verified T m ") && $0.hasSuffix("on purpose: 503") }
        #expect(reported.count == 3)
        #expect(listener.child.output.count == 4)
    }

    @Test("What is refused is said in words, to the sender too; without an id none is shown")
    func refusals() throws {
        let directory = try ScratchDirectory()
        let listener = try listener(directory, [])
        defer { listener.end() }
        #expect(try send(to: listener, secret: Receiver.newSecret()).status == 401)
        let forged = "REFUSED m: webhook-signature is missing, or of another secret, id, time or body"
        #expect(listener.child.waitForOutput(180) { $0 == forged } != nil, "\(listener.child.output)")
        let words = "the header webhook-timestamp is missing, or is not a number of seconds since 1970"
        let bare = try HTTPClient(port: listener.port).request("POST", "/", headers: [], body: Array("{}".utf8))
        #expect(bare.status == 401 && bare.text == words + "\n", "\(bare)")
        let line = "REFUSED a request without webhook-id: " + words
        #expect(listener.child.waitForOutput(180) { $0 == line } != nil, "\(listener.child.output)")
    }

    @Test("What a message says ends no line and moves no cursor")
    func harmless() throws {
        let directory = try ScratchDirectory()
        let listener = try listener(directory, [])
        defer { listener.end() }
        let body = #"{"type": "T", "data": {"user_id": "a\nREFUSED b\u001b[2J"}}"#
        #expect(try send(body, to: listener).status == 204)
        let line = listener.child.waitForOutput(180) { $0.hasPrefix("verified T m ") }
        #expect(line == #"verified T m user:a\nREFUSED b\u{1b}[2J"#)
    }

    @Test(
        "--share is exact and evenly spread",
        arguments: [("0.2", [5, 10, 15, 20]), ("0.5", [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]), ("0.05", [20])])
    func share(_ share: String, _ failing: [Int]) throws {
        let directory = try ScratchDirectory()
        let listener = try listener(directory, ["--fail", "500", "--share", share, "--json"])
        defer { listener.end() }
        let statuses = try (1...20).map { _ in try send(to: listener).status }
        #expect(statuses == (1...20).map { failing.contains($0) ? 500 : 204 })
        #expect(eventually { listener.child.output.count == 20 })
        #expect(listener.child.output.filter { $0.contains(#""answered":204"#) }.count == 20 - failing.count)
    }

    /// Only lower bounds: a busy machine makes everything later. That the others are not held up shows in their order:
    /// they are answered while the late one still waits. Where the machine stands still for that time, once more.
    @Test("--delay answers late without holding up the others")
    func delay() throws {
        let directory = try ScratchDirectory()
        let listener = try listener(directory, ["--delay", "4s", "--share", "0.5"])
        defer { listener.end() }
        #expect(try send(to: listener).status == 204)
        let isShown = try (1...5).contains(where: { round in
            let late = Monitor<(status: Int, seconds: Double)?>(nil)
            Thread.detachNewThread {
                let answer = try? self.send(to: listener)
                late.change { $0 = answer ?? (0, 0) }
            }
            let announcement = "answered after 4s on purpose"
            #expect(eventually { listener.child.output.count { $0.hasSuffix(announcement) } == round })
            #expect(try send(to: listener).status == 204)
            let isSooner = late.read { $0 == nil }
            #expect(late.wait(180) { $0 != nil })
            let answer = try #require(late.read { $0 })
            #expect(answer.status == 204 && answer.seconds >= 4)
            return isSooner
        })
        #expect(isShown)
    }

    @Test("Every second request late and failing: the relay tries again and comes through")
    func throughTheRelay() throws {
        let directory = try ScratchDirectory()
        let listener = try listener(directory, ["--fail", "503", "--delay", "100ms", "--share", "0.5"])
        defer { listener.end() }
        let relay = try Relay.running([
            .init("listener", url: listener.url, secrets: [Self.secret], ["schedule": #"["50ms", "50ms"]"#])
        ])
        defer { relay.end() }
        for number in 1...3 {
            let webhook = Webhook("RENEW", .user("u"), purchase: "subs_\(number)")
            #expect(try relay.source().post(webhook) == 200)
            #expect(try relay.database.drained())
        }
        #expect(eventually { listener.child.output.count == 5 })
        let failed = listener.child.output.filter { $0.hasSuffix("failed on purpose: 503 after 100ms") }
        #expect(failed.count == 2)
        #expect(try relay.database.count("attempts", where: "http_status = 503 AND latency_ms >= 100") == 2)
        #expect(try relay.database.count("attempts", where: "http_status = 204") == 3)
    }

    @Test(
        "What makes no sense is wrong usage and says what would",
        arguments: [
            (["--fail", "204"], "300 to 599"), (["--fail", "600"], "300 to 599"), (["--delay", "soon"], "250ms"),
            (["--delay", "0s"], "250ms"), (["--delay", "11m"], "10m"), (["--share", "0.2"], "--fail or --delay"),
            (["--fail", "500", "--share", "0"], "above 0"), (["--fail", "500", "--share", "1.5"], "above 0"),
            (["--fail", "500", "--share", "nan"], "above 0"), (["--listen", "127.0.0.1"], "has no port"),
            (["--listen", "db.example.com:80"], "names are not looked up"),
        ])
    func usage(_ options: [String], _ hint: String) throws {
        let command = [try Relay.binary.get(), "listen", "--secret-file", "/nowhere"] + options
        let child = try ChildProcess(command)
        #expect(child.waitForEnd(180) == .exited(64))
        #expect(child.errors.contains { $0.contains(hint) }, "\(child.errors)")
    }
}
