import ArgumentParser
import Configuration
import Inbound
import JSONText
import Ledger
import Observing
import Vocabulary

struct TraceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trace",
        abstract: "Show everything stored about a transaction, an event, a message, a transfer or a holder.",
        discussion: """
            The webhooks, what they caused, every attempt at each receiver, and who has access now. ID may be any of \
            these; an option says which it is, where that is not clear. Of more than \(Trace.webhooksMax) webhooks \
            the newest \(Trace.webhooksMax) are shown, and so of very many messages and attempts.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @OptionGroup var handles: HandleOptions
    @Argument(help: "A store_transaction_id, an event, message or transfer id, a user id, an anonymous user id.")
    var id: String?

    func validate() throws {
        guard (id == nil) != (handles.handle == nil) else {
            throw ValidationError("say what to trace: an ID, or one option such as --user ID")
        }
    }

    func run() async throws {
        let handle = handles.handle ?? EventHandle(nil, id ?? "")
        try await LedgerCommand.run(file) { configuration, pool in
            let leeways = Leeways(configuration.sources)
            let found = try await HandleOptions.inTime(handle) {
                try await Trace.read(handle, opening: configuration.openings, leeways: leeways, from: pool)
            }
            guard let trace = found else {
                let what =
                    handle.kind.map { "of \($0.rawValue) \(handle.id)" }
                    ?? "under \(handle.id), as transaction, event, message, transfer or holder,"
                throw OperatorError("no webhook \(what) is stored; posthouse events shows those that are")
            }
            if output.json {
                Terminal.print { TraceJSON.write(trace, handle.id, into: &$0) }
            } else {
                Terminal.print(TraceText.render(trace, id: handle.id))
                if trace.isCut {
                    Terminal.printToStandardError(
                        "not all is shown, the newest is; posthouse events and deliveries list the rest")
                }
            }
        }
    }
}

extension Configuration {
    /// How the bodies of its sources are opened; only those of sealed ones are.
    var openings: Trace.Openings {
        var openings: Trace.Openings = [:]
        for source in sources {
            let adapter = SourceAdapters.adapter(for: source.kind)
            if adapter.isSealed { openings[source.name] = { adapter.decoded($0, answer: $1) } }
        }
        return openings
    }
}

extension JSONWriter {
    /// A member with one JSON value, unchanged; nil: null.
    mutating func member(_ name: String, raw value: [UInt8]?) {
        key(name)
        if let value { raw(value) } else { null() }
    }
}

/// Writes a trace for a terminal: one step a line, indented below its cause.
enum TraceText {
    static func render(_ trace: Trace, id: String) -> String {
        var lines = ["\(trace.kind.rawValue) \(id)"]
        for webhook in trace.webhooks { lines += render(webhook) }
        lines.append("access")
        for holding in trace.holdings {
            let word = holding.isActive ? "active  " : "inactive"
            lines.append(
                "  \(word) \(holding.holder)  purchase \(holding.purchase), as of \(holding.asOf.iso8601)"
                    + end(of: holding))
        }
        if trace.holdings.isEmpty { lines.append("  nothing is known of holders") }
        return lines.map(PlainText.harmless).joined(separator: "\n")
    }

    private static func end(of holding: Trace.Holding) -> String {
        guard let until = holding.until else { return "" }
        return ", until \(until.iso8601)"
            + (holding.isOverdue ? ", overdue: no webhook says what became of it" : "")
    }

    private static func render(_ webhook: Trace.Webhook) -> [String] {
        let holder = webhook.holder.isEmpty ? "about nobody" : webhook.holder
        var lines = [
            "\(webhook.receivedAt.iso8601) webhook \(webhook.name) of \(webhook.source) (\(webhook.environment))",
            "  event \(webhook.eventID), \(holder), event time \(webhook.occurredAt.iso8601)"
                + (webhook.purchase.map { ", purchase \($0)" } ?? ""),
        ]
        if let sealed = webhook.sealed {
            let said = sealed.decoded.map { String(decoding: $0, as: UTF8.self) } ?? "cannot be opened"
            let size = sealed.bytes.map { "\($0) bytes: \(said)" } ?? "bytes that the database cannot read"
            lines.append("  sealed in \(size)")
        }
        if webhook.messages.isEmpty { lines.append("  announced nothing new: not passed on") }
        for message in webhook.messages {
            lines.append(
                "  message \(message.type) \(message.id)" + (message.transfer.map { ", transfer \($0)" } ?? ""))
            if message.deliveries.isEmpty { lines.append("    no integration selects it, or its attempts are pruned") }
            for delivery in message.deliveries { lines += render(delivery) }
        }
        return lines
    }

    private static func render(_ delivery: Trace.Delivery) -> [String] {
        let state =
            switch delivery.state {
            case .delivered: "delivered"
            case .discardedOrReplayed: "discarded or replayed"
            case .waiting(_, _, true): "waits, paused until posthouse resume \(delivery.integration)"
            case .waiting(_, true, false): "waits for the message before it"
            case .waiting(let dueAt, false, false): "waits, due \(dueAt.iso8601)"
            case .dead(let reason): "dead: \(reason)"
            }
        return ["    → \(delivery.integration): \(state)"]
            + delivery.attempts.map { attempt in
                let status = attempt.httpStatus.map { "\($0) " } ?? ""
                return "      \(attempt.at.iso8601) attempt \(attempt.number) \(attempt.outcome) "
                    + "(\(status)after \(attempt.latencyMilliseconds) ms)"
                    + (attempt.failure.map { ": \($0.withoutEnd)" } ?? "")
            }
    }
}

/// Writes a trace as JSON.
enum TraceJSON {
    static func write(_ trace: Trace, _ id: String, into json: inout JSONWriter) {
        json.member(trace.kind.rawValue, id)
        json.member("cut", trace.isCut)
        json.member("webhooks", objects: trace.webhooks) { write($0, into: &$1) }
        json.member("access", objects: trace.holdings) { holding, json in
            json.member("holder", holding.holder)
            json.member("purchase", holding.purchase)
            json.member("active", holding.isActive)
            json.member("as_of", holding.asOf)
            json.member("until", holding.until)
            json.member("overdue", holding.isOverdue)
        }
    }

    private static func write(_ webhook: Trace.Webhook, into json: inout JSONWriter) {
        json.member("event_id", webhook.eventID)
        json.member("source", webhook.source)
        json.member("environment", webhook.environment)
        json.member("event_name", webhook.name)
        json.member("holder", webhook.holder.isEmpty ? nil : webhook.holder)
        json.member("occurred_at", webhook.occurredAt)
        json.member("received_at", webhook.receivedAt)
        json.member("purchase", webhook.purchase)
        if let sealed = webhook.sealed {
            json.member("original_bytes", sealed.bytes)
            json.member("decoded", raw: sealed.decoded)
        }
        json.member("messages", objects: webhook.messages) { message, json in
            json.member("message", message.id)
            json.member("type", message.type)
            json.member("transfer", message.transfer)
            json.member("deliveries", objects: message.deliveries) { write($0, into: &$1) }
        }
    }

    private static func write(_ delivery: Trace.Delivery, into json: inout JSONWriter) {
        json.member("delivery", delivery.id)
        json.member("integration", delivery.integration)
        switch delivery.state {
        case .delivered: json.member("state", "delivered")
        // The word that scripts know.
        case .discardedOrReplayed: json.member("state", "given_up")
        case .waiting(let dueAt, let isBlocked, let isPaused):
            json.member("state", "waiting")
            json.member("due_at", dueAt)
            json.member("blocked", isBlocked)
            json.member("paused", isPaused)
        case .dead(let reason):
            json.member("state", "dead")
            json.member("reason", reason)
        }
        json.member("attempts", objects: delivery.attempts) { attempt, json in
            json.member("attempt", attempt.number)
            json.member("at", attempt.at)
            json.member("outcome", attempt.outcome)
            json.member("http_status", attempt.httpStatus)
            json.member("latency_ms", attempt.latencyMilliseconds)
            json.member("failure", attempt.failure)
        }
    }
}
