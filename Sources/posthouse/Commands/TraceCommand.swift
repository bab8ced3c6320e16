import ArgumentParser
import Configuration
import Ledger
import Vocabulary

struct TraceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trace", abstract: "Show the whole way of a transaction.",
        discussion: "Its webhooks, what they caused, every attempt at each receiver, and who has access now.")

    @OptionGroup var file: ConfigurationOption
    @Argument(help: "The store_transaction_id.") var transaction: String

    func run() async throws {
        let configuration = try file.load(.check)
        try await Terminal.reporting {
            let settings = try DatabaseAccess.forCommand(configuration)
            let trace = try await DatabaseAccess.withPool(settings) { pool in
                try await Trace.read(transaction: transaction, from: pool)
            }
            guard !trace.webhooks.isEmpty else {
                throw Complaint("no webhook of transaction \(transaction) is stored")
            }
            Terminal.say(TraceText.render(trace, transaction: transaction))
        }
    }
}

/// A trace for a terminal: a line each, indented by what caused what.
enum TraceText {
    static func render(_ trace: Trace, transaction: String) -> String {
        var lines = ["transaction \(transaction)"]
        for webhook in trace.webhooks { lines += render(webhook) }
        lines.append("access")
        for holding in trace.holdings {
            let word = holding.isActive ? "active  " : "inactive"
            lines.append("  \(word) \(holding.holder)  purchase \(holding.purchase), as of \(holding.asOf.iso8601)")
        }
        if trace.holdings.isEmpty { lines.append("  nothing is known of holders") }
        return lines.joined(separator: "\n")
    }

    private static func render(_ webhook: Trace.Webhook) -> [String] {
        var lines = [
            "\(webhook.receivedAt.iso8601) webhook \(webhook.name) of \(webhook.source) (\(webhook.environment))",
            "  event \(webhook.eventID), \(webhook.holder), event time \(webhook.occurredAt.iso8601)"
                + (webhook.purchase.map { ", purchase \($0)" } ?? ""),
        ]
        if webhook.messages.isEmpty { lines.append("  told nothing new: not passed on") }
        for message in webhook.messages {
            lines.append(
                "  message \(message.type) \(message.id)" + (message.transfer.map { ", transfer \($0)" } ?? ""))
            if message.deliveries.isEmpty { lines.append("    no integration asks for it, or its attempts are pruned") }
            for delivery in message.deliveries { lines += render(delivery) }
        }
        return lines
    }

    private static func render(_ delivery: Trace.Delivery) -> [String] {
        let state =
            switch delivery.state {
            case .delivered: "delivered"
            case .waiting(_, true): "waits for the message before it"
            case .waiting(let dueAt, false): "waits, due \(dueAt.iso8601)"
            case .dead(let reason): "dead: \(reason)"
            }
        return ["    → \(delivery.integration): \(state)"]
            + delivery.attempts.map { attempt in
                let status = attempt.httpStatus.map { "\($0) " } ?? ""
                return "      \(attempt.at.iso8601) attempt \(attempt.number) \(attempt.outcome) "
                    + "(\(status)in \(attempt.latencyMilliseconds) ms)" + (attempt.failure.map { ": \($0)" } ?? "")
            }
    }
}
