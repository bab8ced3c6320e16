import Foundation
import Testing
import Vocabulary

/// `v1a` as a receiver meets it. The keys are made by the manual's own commands, and the oracle is not ours: the
/// openssl command verifies every signature by the public key alone.
@Suite struct DeliveryAsymmetricTests {
    /// Runs the lines of posthouse-messages(7) that make secrets, in `directory`.
    static func makeKeys(in directory: ScratchDirectory) throws -> (whsec: String, whsk: String, whpk: String) {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = root.appending(path: "deploy/manual/posthouse-messages.7.md")
        let lines = try String(contentsOf: page, encoding: .utf8).split(separator: "\n")
            .filter { $0.hasPrefix("printf 'wh") || $0.hasPrefix("openssl ") }
        try #require(lines.count == 4)
        func text(_ name: String) throws -> String {
            let text = try String(contentsOfFile: directory.path + "/" + name, encoding: .utf8)
            return text.trimmingCharacters(in: .newlines)
        }
        try run("sh", "-c", "cd \(directory.path) && \(lines[0])")
        let shared = try text("backend-secret")
        try run("sh", "-c", "cd \(directory.path) && " + lines[1...].joined(separator: " && "))
        return (shared, try text("backend-secret"), try text("for-the-receiver"))
    }

    @discardableResult
    static func run(_ command: String..., expect: ChildProcess.End = .exited(0)) throws -> [String] {
        let child = try ChildProcess(command)
        #expect(child.waitForEnd(180) == expect, "\(command): \(child.errors)")
        return child.output
    }

    /// Whether openssl verifies the `v1a` signature number `index` of this request.
    private func isSigned(
        _ request: Received, _ index: Int, _ body: [UInt8], in directory: ScratchDirectory
    ) throws -> Bool {
        let parts = (request.request["webhook-signature"] ?? "").split(separator: " ").filter { $0.hasPrefix("v1a,") }
        let part = try #require(parts.dropFirst(index).first)
        let signature = try #require(Data(base64Encoded: String(part.dropFirst(4))))
        let content = Array("\(request.id).\(request.request["webhook-timestamp"] ?? "").".utf8) + body
        let path = directory.path
        try signature.write(to: URL(filePath: path + "/signature"))
        try Data(content).write(to: URL(filePath: path + "/content"))
        let child = try ChildProcess([
            "openssl", "pkeyutl", "-verify", "-pubin", "-inkey", path + "/public.pem", "-rawin", "-in",
            path + "/content", "-sigfile", path + "/signature",
        ])
        return child.waitForEnd(180) == .exited(0)
    }

    @Test("openssl verifies every delivery of mixed secrets, in both formats, first attempts and retries")
    func mixed() throws {
        let scratch = try ScratchDirectory()
        let keys = try Self.makeKeys(in: scratch)
        try Self.run(
            "openssl", "pkey", "-in", scratch.path + "/key.pem", "-pubout", "-out", scratch.path + "/public.pem")
        let seed = try #require(Data(base64Encoded: String(keys.whsk.dropFirst(5))))
        let publicKey = try #require(Data(base64Encoded: String(keys.whpk.dropFirst(5))))
        let pair = "whsk_" + (seed + publicKey).base64EncodedString()
        let standard = try Receiver(secrets: [keys.whsec]) { $0.number.isMultiple(of: 3) ? .status(500) : .ok }
        let asSource = try Receiver(secrets: [keys.whsec])
        let relay = try Relay.running([
            .init(
                "standard", url: standard.url, secrets: [keys.whsk, keys.whsec, pair],
                ["schedule": #"["20ms", "20ms", "20ms", "20ms"]"#]),
            .init("source", url: asSource.url, secrets: [keys.whsec, keys.whsk], ["format": "\"source\""]),
        ])
        defer { relay.end() }
        for number in 0..<4 {
            let holder = Holder.user("u" + String(repeating: "é漢😀", count: number * 30))
            let webhook = Webhook("ACTIVATE", holder, purchase: "subs_\(number)")
            #expect(try relay.source().post(webhook) == 200)
        }
        #expect(try relay.database.drained())
        #expect(standard.accepted.count == 4 && standard.count > 4)
        #expect(asSource.count == 4)
        for (receiver, versions) in [(standard, ["v1a", "v1", "v1a"]), (asSource, ["v1", "v1a"])] {
            for request in receiver.received {
                // The harness verifies `v1` by itself.
                #expect(request.isVerified)
                let parts = (request.request["webhook-signature"] ?? "").split(separator: " ")
                #expect(parts.map { String($0.prefix { $0 != "," }) } == versions)
                for index in 0..<versions.filter({ $0 == "v1a" }).count {
                    #expect(try isSigned(request, index, request.body, in: scratch))
                    #expect(try !isSigned(request, index, request.body + [0x20], in: scratch))
                }
            }
        }
        // The seed alone and the seed with its public key are one key, and ed25519 signs without chance.
        for request in standard.received {
            let parts = (request.request["webhook-signature"] ?? "").split(separator: " ")
            #expect(parts.first == parts.last)
        }
        #expect(
            !relay.lines.contains { line in [keys.whsk, keys.whsec, pair].contains { line.contains($0.dropFirst(6)) } })
    }

    @Test("listen verifies v1a by the secret and by the public key, and refuses what another key signed")
    func listen() throws {
        let (scratch, otherScratch) = (try ScratchDirectory(), try ScratchDirectory())
        let keys = try Self.makeKeys(in: scratch)
        let others = try Self.makeKeys(in: otherScratch)
        #expect(others.whpk != keys.whpk)
        let listeners = try [keys.whsk, keys.whpk, others.whpk].enumerated().map { number, key in
            try Listener(secretFile: try scratch.write("listener-\(number)", key + "\n"))
        }
        let relay = try Relay.running(
            listeners.enumerated().map { number, listener in
                .init(
                    "listener\(number)", url: listener.url, secrets: [keys.whsk],
                    ["schedule": "[]", "events": #"["ACTIVATE"]"#])
            })
        defer { relay.end() }
        let webhook = Webhook("ACTIVATE", .user("u"), purchase: "subs_1")
        #expect(try relay.source().post(webhook) == 200)
        #expect(try relay.database.drained())
        for listener in listeners.prefix(2) {
            #expect(listener.child.waitForOutput(180) { $0.hasPrefix("verified ACTIVATE msg_") } != nil)
        }
        #expect(listeners[2].child.waitForOutput(180) { $0.hasPrefix("REFUSED msg_") } != nil)
        for listener in listeners { #expect(listener.child.output.count == 1) }
        // An integration cannot sign by the public key.
        #expect(listeners[0].child.waitForError(180) { $0.hasPrefix("secret = { file = ") } != nil)
        #expect(listeners[1].child.waitForError(180) { $0.hasPrefix("# secret: ") } != nil)
    }

    @Test("What is no key is refused with the reason, by check and by listen, and is not shown")
    func refused() throws {
        let scratch = try ScratchDirectory()
        let short = Data(repeating: 0x5A, count: 31).base64EncodedString()
        let strange = Data(repeating: 0x5A, count: 64).base64EncodedString()
        for (text, reason) in [
            ("whsk_" + short, "32-byte ed25519 seed"), ("whsk_" + strange, "not its seed's"),
            ("whsk_*" + short, "not base64"), ("whpk_" + short, "public key"), (short, "must begin with"),
        ] {
            let file = try scratch.write("key", text + "\n")
            let listener = try ChildProcess([try Relay.binary.get(), "listen", "--secret-file", file])
            #expect(listener.waitForEnd(180) == .exited(1))
            #expect(listener.errors.contains { $0.contains(reason) && $0.contains(file) }, "\(listener.errors)")
            let relay = try Relay([.init("backend", url: "http://127.0.0.1:9/", secrets: [text])])
            defer { relay.end() }
            let check = try relay.command("check", "--config", relay.configuration)
            #expect(check.end == .exited(78))
            #expect(check.errors.contains("`secret`") && check.errors.contains(reason), "\(check.errors)")
            for said in listener.errors + [check.errors] { #expect(!said.contains(short.prefix(20))) }
        }
    }
}

/// `posthouse listen` on a port of its own.
struct Listener {
    let port: UInt16
    let child: ChildProcess

    var url: String { "http://127.0.0.1:\(port)/hook" }

    init(secretFile: String, options: [String] = []) throws {
        port = try Socket.freePort()
        child = try ChildProcess(
            [
                try Relay.binary.get(), "listen", "--listen", "127.0.0.1:\(port)", "--secret-file", secretFile,
            ] + options)
        let place = "listening on 127.0.0.1:\(port)"
        guard child.waitForError(180, { $0.contains(place) }) != nil else {
            child.signal(SIGKILL)
            throw HarnessFailure("posthouse listen did not start: \(child.errors)")
        }
    }

    func end() { child.signal(SIGKILL) }
}
