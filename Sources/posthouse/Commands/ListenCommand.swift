import ArgumentParser
import Front
import Glibc
import JSONText
import NIOCore
import NIOPosix
import Outbound
import Synchronization
import Vocabulary

struct ListenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "listen", abstract: "A receiver to try with: verifies signatures and prints what came.",
        discussion: "One line a delivery. Answers 204 when the signature holds, 401 when it does not.")

    @Option(help: "Where to listen.") var listen = "127.0.0.1:9400"
    @Option(help: "A file with the integration's secret, whsec_….") var secretFile: String
    @Flag(help: "Print each delivery as one JSON object.") var json = false

    func run() async throws {
        signal(SIGPIPE, SIG_IGN)
        try await Terminal.reporting {
            let signals = Signals.stream([SIGTERM, SIGINT])
            let receiver = Receiver(
                verifier: StandardWebhooksVerifier(keys: [try signingKey()], tolerance: .seconds(300)), json: json)
            let server = try await FrontServer.start(
                listener: try Listen(parsing: listen), handler: receiver, group: NIOSingletons.posixEventLoopGroup)
            Terminal.complain("listening on \(server.boundAddress)")
            _ = await signals.first { _ in true }
            await server.drain(upTo: .seconds(2))
        }
    }

    private func signingKey() throws -> Integration.SigningKey {
        let secret = try SecretFile.read(secretFile)
        let key = secret.withBytes { bytes -> [UInt8]? in
            let text = String(decoding: bytes, as: UTF8.self)
            return text.hasPrefix("whsec_") ? Base64.decode(text.dropFirst(6)) : nil
        }
        guard let key, (24...64).contains(key.count) else {
            throw Complaint("\(secretFile) must hold whsec_ and base64 of 24 to 64 bytes")
        }
        return .symmetric(Secret(key))
    }
}

/// Verifies and prints; keeps nothing.
private struct Receiver: FrontHandler {
    let verifier: StandardWebhooksVerifier
    let json: Bool

    func admit(_ head: FrontHead) -> Admission {
        guard head.method == "POST" else { return .refuse(.text(405, "only POST\n", headers: [("allow", "POST")])) }
        return .accept(bodyBytesMax: 8 << 20, answerTimeout: .seconds(30), timeoutAnswer: .text(503, "too slow\n"))
    }

    func respond(to request: FrontRequest, with responder: Responder) {
        let id = request.head.first("webhook-id") ?? ""
        do throws(StandardWebhooksVerifier.Refusal) {
            try verifier.verify(
                id: id, timestamp: request.head.first("webhook-timestamp") ?? "",
                signature: request.head.first("webhook-signature") ?? "", body: [ByteBuffer(bytes: request.body)],
                now: ThisProcess.now())
        } catch {
            Terminal.say(json ? rejected(id, "\(error)") : "REFUSED \(id): \(error)")
            return responder.respond(.text(401, "the signature does not hold: \(error)\n"))
        }
        Terminal.say(json ? verified(id, request.body) : line(id, request.body))
        responder.respond(FrontAnswer(status: 204))
    }

    private func rejected(_ id: String, _ reason: String) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("verified", false)
            writer.member("webhook_id", id)
            writer.member("reason", reason)
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private func verified(_ id: String, _ body: [UInt8]) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("verified", true)
            writer.member("webhook_id", id)
            writer.key("body")
            if (try? JSONScan.topObject(body, depthMax: Limits.jsonDepthMax)) != nil {
                writer.raw(body)
            } else {
                writer.string(String(decoding: body, as: UTF8.self))
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// Type, message id, holder, and for a transfer both sides; in either format.
    private func line(_ id: String, _ body: [UInt8]) -> String {
        guard let top = try? JSONScan.topObject(body, depthMax: Limits.jsonDepthMax) else {
            return "verified \(id) (\(body.count) bytes that are no JSON object)"
        }
        let data = (try? top.object("data")) ?? top
        let type = (try? top.string("type")) ?? (try? top.string("event_name")) ?? "?"
        let holder = (try? data.object("holder")) ?? data
        var text = "verified \(type) \(id) \(Self.holder(holder))"
        if let transfer = try? data.object("transfer"), let from = try? transfer.object("from"),
            let to = try? transfer.object("to")
        {
            text += " transfer \(Self.holder(from)) → \(Self.holder(to))"
        }
        return text
    }

    private static func holder(_ object: JSONObject) -> String {
        if let user = try? object.string("user_id") { return "user:\(user)" }
        if let anonymous = try? object.string("anonymous_user_id") { return "anon:\(anonymous)" }
        return "?"
    }
}
