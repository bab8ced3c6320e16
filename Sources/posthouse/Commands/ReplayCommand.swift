import ArgumentParser
import Configuration
import JSONText
import Ledger
import Postgres
import Vocabulary

struct ReplayCommand: AsyncParsableCommand {
    enum Outcome: String, CaseIterable, ExpressibleByArgument {
        case dead, delivered

        /// Takes `accepted` too, the journal's word for a delivery that arrived.
        init?(argument: String) { self.init(rawValue: argument == "accepted" ? "delivered" : argument) }
    }

    static let configuration = CommandConfiguration(
        commandName: "replay", abstract: "Deliver again what was given up or delivered.",
        discussion: """
            The messages keep their ids, so that a receiver can see what it has had. What waits to be delivered already is \
            left out; a replayed dead letter is no longer a dead letter. What is replayed comes after what waits already, \
            also of the same purchase, and in its own order. Of two messages about one holder and purchase, the one \
            with the later timestamp counts, at one time the one that ends access; or go by version of data.access. \
            --since and --until say when it was given up or delivered; what was delivered is known for as long as \
            [retention] attempts. If a replay is cut short, start it again: dead letters continue where it stopped, \
            delivered messages are all sent again.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Option(help: "One message (webhook-id, msg_…).") var message: String?
    @Option(help: "Only to this integration.", completion: NameCompletion.integrations) var integration: String?
    @Option(help: .init("Settled since: \(TimeArgument.help)", valueName: "time")) var since: TimeArgument?
    @Option(help: .init("Settled before, as --since.", valueName: "time")) var until: TimeArgument?
    @Option(
        help: "Only types that match, as * and ? in [[integration]] events.", completion: NameCompletion.types)
    var event: String?
    @Option(help: "Only what is dead, or what was delivered (accepted, in the journal).") var outcome: Outcome?
    @Flag(help: "Print only how many messages would be affected; change nothing.") var dryRun = false

    func validate() throws {
        guard message != nil || integration != nil || since != nil || event != nil || outcome != nil else {
            throw ValidationError(
                "say what to replay: --message, --integration, --since, --event or --outcome (try it with --dry-run)")
        }
        if let message, Identifier(written: message) == nil {
            throw ValidationError("--message \(message) is not a message id: msg_ and 32 hex digits")
        }
        try TimeArgument.validate(since: since, until: until)
    }

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            let names = try await NamedIntegrations.read(configuration.integrations, in: pool)
            let targets = try names.targets(integration)
            let filter = Replay.Filter(
                message: message.flatMap { Identifier(written: $0) }, integrations: targets, since: since?.time,
                until: until?.time, event: event.map { Glob($0) }, isDead: outcome.map { $0 == .dead })
            guard var replay = try await Replay.start(filter, routes: names.routes, in: pool) else {
                throw OperatorError(
                    "no message \(message ?? "") is stored; posthouse trace shows the messages of an event")
            }
            let counts = try await replay.count(in: pool)
            var queued = 0
            if !dryRun {
                let total = counts.values.reduce(0) { $0 + $1.found }
                var seen = 0
                defer { Terminal.showStage(nil) }
                while !replay.isDone {
                    let step = try await replay.step(in: pool)
                    queued += step.queued
                    seen += step.seen
                    Terminal.showStage("replaying", seen, of: total)
                }
            }
            report(counts, queued, names)
        }
    }

    private func report(_ counts: [Int32: Replay.Count], _ queued: Int, _ names: NamedIntegrations) {
        func byName(_ count: (Replay.Count) -> Int) -> [(name: String, count: Int)] {
            counts.map { (names.name(of: $0.key), count($0.value)) }.sorted { $0.name < $1.name }
        }
        let found = byName(\.found)
        let total = found.reduce(0) { $0 + $1.count }
        let waiting = counts.values.reduce(0) { $0 + $1.waiting }
        if output.json {
            return Terminal.print { json in
                json.member("dry_run", dryRun)
                json.member("found", total)
                json.member("waiting", waiting)
                json.member("queued", queued)
                json.key("integrations")
                json.object { json in for (name, count) in found { json.member(name, count) } }
            }
        }
        guard total > 0 else { return Terminal.print("nothing matches: nothing is replayed") }
        func text(_ parts: [(name: String, count: Int)]) -> String {
            parts.map { "\($0.name) \($0.count)" }.joined(separator: ", ")
        }
        let already = waiting > 0 ? "; \(waiting) wait to be delivered already" : ""
        if dryRun {
            return Terminal.print(
                "\(total - waiting) would be replayed: \(text(byName { $0.found - $0.waiting }))\(already)")
        }
        Terminal.print("\(queued) put into the queue of \(total) found: \(text(found))\(already)")
    }
}

extension NamedIntegrations {
    /// The row of the named integration, or of all that are configured: no lane would send to another.
    func targets(_ name: String?) throws -> [Int32] {
        guard let name else { return routes.map(\.row) }
        return [try route(name).row]
    }

    func route(_ name: String) throws -> RoutedIntegration {
        if let route = routes.first(where: { $0.integration.name == name }) { return route }
        guard rows[name] != nil else { throw unknown(name) }
        throw OperatorError("integration \(name) is not in the configuration any more: put it back first")
    }

    /// The error about a name that has no row.
    func unknown(_ name: String) -> OperatorError {
        guard untaken.contains(name) else { return LedgerCommand.unknownIntegration(name, known: rows.keys) }
        return OperatorError(
            "no daemon has taken up the integration \(name) yet: systemctl reload posthouse, or start one, and run this "
                + "again")
    }
}
