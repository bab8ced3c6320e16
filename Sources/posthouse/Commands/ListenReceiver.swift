import Configuration
import HTTPServer
import JSONText
import NIOCore
import NIOPosix
import Observing
import Outbound
import Synchronization
import Vocabulary

/// The failures that `posthouse listen` makes on purpose, for a share of the requests whose signature is valid.
final class DeliberateFailures: Sendable {
    static let statuses = 300...599
    static let delays: ClosedRange<Duration> = .milliseconds(1)...(.seconds(600))

    /// Nil: it answers as usual, perhaps late.
    let status: Int?
    let delay: Duration
    private let share: Double
    private let seen = Atomic(0)

    /// `share` is above 0 and at most 1.
    init(status: Int?, delay: Duration?, share: Double) {
        self.status = status
        self.delay = delay ?? .zero
        self.share = share
    }

    /// Counts the next request, and returns whether it belongs to the share.
    func takesNext() -> Bool {
        Self.takes(seen.add(1, ordering: .relaxed).newValue, share: share)
    }

    /// Whether request `number`, counted from 1, belongs to the share. Spread evenly and without chance: of the first n
    /// requests, the whole part of n × share.
    static func takes(_ number: Int, share: Double) -> Bool {
        (Double(number) * share).rounded(.down) > (Double(number - 1) * share).rounded(.down)
    }
}

/// Verifies and prints messages; stores nothing.
struct ListenReceiver: IncomingHandler {
    /// How long an answer may take, without a delay on purpose.
    private static let answerTimeout: Duration = .seconds(30)
    /// Bytes of one delivery: eight times what a webhook has unless the configuration says otherwise.
    private static let bodyBytesMax = 8 * Limits.requestBodyBytesMax

    let verifier: StandardWebhooksVerifier
    let json: Bool
    let deliberateFailures: DeliberateFailures

    func admit(_ head: IncomingHead) -> Admission {
        guard head.method == "POST" else { return .refuse(.text(405, "only POST\n", headers: [("allow", "POST")])) }
        return .accept(
            bodyBytesMax: Self.bodyBytesMax, answerTimeout: Self.answerTimeout + deliberateFailures.delay,
            timeoutAnswer: .text(503, "too slow\n"))
    }

    func respond(to request: IncomingRequest, with responder: Responder) {
        let id = request.head.first("webhook-id") ?? ""
        do throws(StandardWebhooksVerifier.Refusal) {
            try verifier.verify(
                id: id, timestamp: request.head.first("webhook-timestamp") ?? "",
                signature: request.head.first("webhook-signature") ?? "", body: [request.body], now: ThisProcess.now())
        } catch {
            let reason = error.text
            if json {
                reject(id, reason)
            } else {
                let subject = id.isEmpty ? "a request without webhook-id" : id
                Terminal.print(PlainText.harmless("REFUSED \(subject): \(reason)"))
            }
            return responder.respond(.text(401, "\(reason)\n"))
        }
        let isMeant = deliberateFailures.takesNext()
        let delay = isMeant ? deliberateFailures.delay : .zero
        let status = isMeant ? deliberateFailures.status : nil
        if json {
            accept(id, request.body, answered: status ?? 204)
        } else {
            Terminal.print(PlainText.harmless(line(id, request.body) + remark(status, delay)))
        }
        let answer = status.map { HTTPAnswer.text($0, "failed on purpose\n") } ?? HTTPAnswer(status: 204)
        guard delay > .zero else { return responder.respond(answer) }
        _ = NIOSingletons.posixEventLoopGroup.any().scheduleTask(in: TimeAmount(delay)) { responder.respond(answer) }
    }

    /// The text after a request's line that says what was done to it on purpose.
    private func remark(_ status: Int?, _ delay: Duration) -> String {
        let late = delay > .zero ? " after \(DurationText.write(delay))" : ""
        if let status { return ", failed on purpose: \(status)\(late)" }
        return late.isEmpty ? "" : ", answered\(late) on purpose"
    }

    private func reject(_ id: String, _ reason: String) {
        Terminal.print { json in
            json.member("verified", false)
            json.member("webhook_id", id)
            json.member("answered", 401)
            json.member("reason", reason)
        }
    }

    private func accept(_ id: String, _ body: [UInt8], answered status: Int) {
        Terminal.print { json in
            json.member("verified", true)
            json.member("webhook_id", id)
            json.member("answered", status)
            json.key("body")
            if (try? JSONScan.topObject(body, depthMax: Limits.jsonDepthMax)) != nil {
                json.raw(body)
            } else {
                json.string(String(decoding: body, as: UTF8.self))
            }
        }
    }

    /// The line of a message: type, message id, holder, and for a transfer both sides; in either format.
    private func line(_ id: String, _ body: [UInt8]) -> String {
        guard let top = try? JSONScan.topObject(body, depthMax: Limits.jsonDepthMax) else {
            return "verified \(id) (\(body.count) bytes that are not a JSON object)"
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

extension StandardWebhooksVerifier.Refusal {
    fileprivate var text: String {
        switch self {
        case .unreadableTimestamp: "the header webhook-timestamp is missing, or is not a number of seconds since 1970"
        case .tooOld: "the time in webhook-timestamp is too long ago"
        case .tooNew: "the time in webhook-timestamp is too far ahead"
        case .wrongSignature: "webhook-signature is missing, or of another secret, id, time or body"
        }
    }
}
