import ArgumentParser
import Configuration
import JSONText
import Ledger
import Observing
import Postgres
import Vocabulary

struct AuditCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "Check that every stored message has an outcome at each integration it was for.",
        discussion: """
            For each stored message and each integration that it was for when it came: delivered, waiting, dead, \
            discarded or erased. Anything else is listed, with what to do, and it exits 1. Whom a message was for is \
            what was recorded with it, not what the configuration says today.

            What became of a message is known for as long as attempts are kept ([retention] attempts): older ones, and \
            those from before Posthouse recorded whom a message was for, cannot be checked and are only counted. \
            Daemons may run meanwhile: it reads in short steps, rests as long as each took, and writes nothing.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Option(help: .init("Only what came since: \(TimeArgument.help)", valueName: "time")) var since: TimeArgument?
    @Option(help: "Only what was for this integration.", completion: NameCompletion.integrations)
    var integration: String?

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            guard var audit = try await Audit.start(integration: integration, since: since?.time, in: pool) else {
                throw LedgerCommand.unknownIntegration(
                    integration ?? "", known: configuration.integrations.map(\.name))
            }
            defer { Terminal.showStage(nil) }
            while let stage = audit.stage {
                Terminal.showStage("auditing: \(stage.rawValue), \(audit.seen)")
                let began = ContinuousClock.now
                try await audit.step(in: pool)
                // At most half of one connection's time is the audit's.
                if !audit.isDone { try await Task.sleep(for: ContinuousClock.now - began) }
            }
            Terminal.showStage(nil)
            if output.json {
                Terminal.print { AuditText.write(audit, into: &$0) }
            } else {
                Terminal.print(AuditText.render(audit))
            }
            if audit.found > 0 { throw ExitCode.failure }
        }
    }
}

extension Audit {
    fileprivate var found: Int { counts.values.reduce(0, +) }
}

/// Writes what an audit found.
private enum AuditText {
    static func render(_ audit: Audit) -> String {
        let coverage = audit.coverage
        var lines = audit.findings.map { finding in
            PlainText.harmless("\(subject(of: finding)): \(explanation(of: finding)); do: \(action(for: finding))")
        }
        if audit.found > audit.findings.count {
            lines.append("and \(audit.found - audit.findings.count) more, which are not listed")
        }
        let parts = [
            ("delivered", coverage.delivered), ("waiting", coverage.waiting), ("dead", coverage.dead),
            ("discarded", coverage.discarded), ("erased", coverage.erased),
        ]
        let answers = parts.filter { $0.1 > 0 }.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
        lines.append("\(coverage.messages) messages" + (answers.isEmpty ? "" : ": \(answers)"))
        if coverage.older > 0 {
            let end = audit.knownFrom.map { " (\($0.toTheSecond))" } ?? ""
            lines.append("\(coverage.older) cannot be checked: older than the kept attempts\(end)")
        }
        if coverage.unnoted > 0 {
            lines.append("\(coverage.unnoted) cannot be checked: their integrations were not recorded")
        }
        lines.append(audit.found == 0 ? "nothing is missing" : "\(audit.found) findings")
        return lines.joined(separator: "\n")
    }

    private static func subject(of finding: AuditFinding) -> String {
        if let table = finding.table { return "table \(table)" }
        let message = finding.handle.message ?? finding.message.map { "message \($0)" } ?? ""
        let event = [finding.handle.source, finding.handle.event].compactMap { $0 }.joined(separator: " ")
        var names = event.isEmpty ? [message] : [event, message]
        if let integration = finding.integration { names.append("to \(integration)") }
        if let delivery = finding.delivery { names.append("delivery \(delivery)") }
        return names.joined(separator: ", ")
    }

    private static func explanation(of finding: AuditFinding) -> String {
        switch finding.kind {
        case .unanswered: "no outcome is recorded"
        case .lost: "it was attempted, and is not delivered, dead or waiting"
        case .noDeadLetter: "it was given up, and its dead letter is gone"
        case .noMessage: "its message is gone"
        case .noEvent: "its webhook is gone, without which it cannot be sent"
        case .unreadable: "whom it was for cannot be read (messages.integrations)"
        case .noIntegration: "the database does not know the integration"
        case .twice: "it waits twice, or waits and is a dead letter"
        case .neverDue: "it waits for a time that no schedule reaches"
        case .leaseWithoutEnd: "its lease has no end"
        case .noAttempt: "attempts that it counts are gone"
        case .noLastAttempt: "the attempt that gave it up is gone"
        case .noTable: "it is gone, with all that was in it"
        }
    }

    private static func action(for finding: AuditFinding) -> String {
        let name = finding.integration ?? "NAME"
        let trace = "posthouse trace \(finding.handle.message ?? "ID")"
        switch finding.kind {
        case .unanswered, .lost:
            guard let time = finding.createdAt else { return "posthouse backfill \(name) --since TIME" }
            // No more than what was made within that second.
            let end = time.advanced(byMilliseconds: 1_000).toTheSecond
            return "posthouse backfill \(name) --since \(time.toTheSecond) --until \(end)"
        case .noDeadLetter:
            return "\(trace); give it to the receiver by other means, or restore dead_letters from a backup"
        case .noMessage: return "restore messages from a backup"
        case .noEvent: return "restore events from a backup"
        case .unreadable: return "\(trace); find out who writes to the database besides Posthouse"
        case .noIntegration: return "restore integrations from a backup"
        case .twice: return "nothing; the receiver gets the same webhook-id twice"
        case .neverDue, .leaseWithoutEnd: return finding.statement ?? trace
        case .noAttempt, .noLastAttempt: return "find out who deletes from attempts besides Posthouse"
        case .noTable: return "restore it from a backup"
        }
    }

    static func write(_ audit: Audit, into json: inout JSONWriter) {
        let coverage = audit.coverage
        json.member("known_from", audit.knownFrom)
        json.member("messages", coverage.messages)
        json.member("delivered", coverage.delivered)
        json.member("waiting", coverage.waiting)
        json.member("dead", coverage.dead)
        json.member("discarded", coverage.discarded)
        json.member("erased", coverage.erased)
        json.key("unprovable")
        json.object { json in
            json.member("older", coverage.older)
            json.member("unnoted", coverage.unnoted)
        }
        json.member("found", audit.found)
        json.key("kinds")
        json.object { json in
            for (kind, count) in audit.counts.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                json.member(kind.rawValue, count)
            }
        }
        json.member("findings", objects: audit.findings) { finding, json in
            json.member("kind", finding.kind.rawValue)
            json.member("source", finding.handle.source)
            json.member("event", finding.handle.event)
            json.member("message", finding.handle.message)
            json.member("message_row", finding.message)
            json.member("delivery", finding.delivery)
            json.member("integration", finding.integration)
            json.member("created_at", finding.createdAt)
            json.member("table", finding.table)
            json.member("explanation", explanation(of: finding))
            json.member("action", action(for: finding))
        }
    }
}
