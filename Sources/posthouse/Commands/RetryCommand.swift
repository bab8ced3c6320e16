import ArgumentParser
import Configuration
import JSONText
import Ledger
import Postgres
import Vocabulary

struct RetryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retry", abstract: "Try now what waits for its next attempt.",
        discussion: """
            For a receiver that was repaired: what waits is due at once, and an open breaker probes. The attempt is the \
            next of [[integration]] schedule. What was given up is not tried: that is posthouse replay. With order = \
            "purchase" what is blocked by another delivery of its purchase stays blocked. A reload that changes an \
            integration's url, secret, headers, ca_file or allow_private does the same by itself.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Argument(help: "The name of the integration.", completion: NameCompletion.integrations) var name: String?
    @Option(help: "Only one message (webhook-id, msg_…).") var message: String?

    func validate() throws {
        guard name != nil || message != nil else {
            throw ValidationError("say what to try: the name of an integration, or --message")
        }
        if let message, Identifier(written: message) == nil {
            throw ValidationError("--message \(message) is not a message id: msg_ and 32 hex digits")
        }
    }

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            let names = try await NamedIntegrations.read(configuration.integrations, in: pool)
            let targets = try names.targets(name)
            let key = message.flatMap { Identifier(written: $0) }
            guard var retry = try await Retry.start(targets, message: key, in: pool) else {
                throw OperatorError(
                    "no message \(message ?? "") is stored; posthouse trace shows the messages of an event")
            }
            let paused = try await Pauses.paused(in: pool)
            let total = retry.waiting.reduce(0) { $0 + $1.later }
            var made = 0
            do {
                defer { Terminal.showStage(nil) }
                while !retry.isDone {
                    made += try await retry.step(in: pool)
                    Terminal.showStage("making due", made, of: total)
                }
            }
            report(retry, paused, names)
        }
    }

    private func report(_ retry: Retry, _ paused: Set<Int32>, _ names: NamedIntegrations) {
        let waiting = retry.waiting
        if output.json {
            return Terminal.print { json in
                json.member("made_due", retry.made.values.reduce(0, +))
                json.key("integrations")
                json.array { json in
                    for one in waiting {
                        json.object { json in
                            json.member("integration", names.name(of: one.integration))
                            json.member("made_due", retry.made[one.integration] ?? 0)
                            json.member("blocked", one.blocked)
                            json.member("due_before", one.due)
                            json.member("paused", paused.contains(one.integration))
                        }
                    }
                }
            }
        }
        guard !waiting.isEmpty else { return Terminal.print("nothing waits\(name.map { " for \($0)" } ?? "")") }
        for one in waiting {
            let name = names.name(of: one.integration)
            var parts = ["\(retry.made[one.integration] ?? 0) due now"]
            if one.due > 0 { parts.append("\(one.due) already") }
            if one.blocked > 0 { parts.append("\(one.blocked) are blocked by others of their purchases") }
            let rest = paused.contains(one.integration) ? "; it is paused until posthouse resume \(name)" : ""
            Terminal.print("\(name): \(parts.joined(separator: ", "))\(rest)")
        }
    }
}
