import ArgumentParser
import Configuration
import JSONText
import Ledger
import Observing
import Vocabulary

struct BackfillCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backfill", abstract: "Queue older messages for an integration that was added later.",
        discussion: """
            Everything of that time that it selects (events, sources, environments, where) and that was never meant \
            for it, and what was meant for it and is missing (posthouse audit). Run the daemon with the integration \
            first: what comes from then on goes to it by itself. It can be repeated, and goes on where it was cut \
            short. What it sends comes after newer messages of the same purchase that were sent or wait already: \
            receivers compare timestamp, or ask the API. What an integration has had is known for as long as attempts \
            are kept ([retention] attempts): one that is older is given nothing from before that, so that nothing goes \
            to it twice.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Argument(help: "The name of the integration.", completion: NameCompletion.integrations) var name: String
    @Option(help: .init("Start time: \(TimeArgument.help)", valueName: "time")) var since: TimeArgument
    @Option(help: .init("End time, in the same forms as --since.", valueName: "time")) var until: TimeArgument?
    @Flag(help: "Print only how many messages would be affected; change nothing.") var dryRun = false

    func validate() throws { try TimeArgument.validate(since: since, until: until) }

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            let names = try await NamedIntegrations.read(configuration.integrations, in: pool)
            let route = try names.route(name)
            var backfill = try await Backfill.start(route, since: since.time, until: until?.time, in: pool)
            let total = backfill.left
            defer { Terminal.showStage(nil) }
            var queued = 0
            while !backfill.isDone {
                queued += try await backfill.step(isDry: dryRun, in: pool)
                Terminal.showStage(dryRun ? "counting" : "backfilling", total - backfill.left, of: total)
            }
            Terminal.showStage(nil)
            for (message, reason) in backfill.damaged {
                Terminal.printToStandardError(PlainText.harmless("message row \(message) cannot be read: \(reason)"))
            }
            if output.json {
                return Terminal.print { json in
                    json.member("integration", name)
                    json.member("dry_run", dryRun)
                    json.member(dryRun ? "found" : "queued", queued)
                    json.member("unreadable", backfill.unreadable)
                    json.member("known_from", backfill.knownFrom?.iso8601)
                }
            }
            if backfill.unreadable > 0 {
                Terminal.printToStandardError("left out, because `where` cannot read them: \(backfill.unreadable)")
            }
            if let knownFrom = backfill.knownFrom, knownFrom > since.time {
                Terminal.printToStandardError(
                    "only from \(knownFrom.iso8601): what \(name) received earlier is no longer known, "
                        + "and nothing may go to it twice")
            }
            Terminal.print(dryRun ? "\(queued) would go to \(name)" : "\(queued) put into the queue of \(name)")
        }
    }
}
