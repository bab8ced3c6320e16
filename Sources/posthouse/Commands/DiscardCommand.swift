import ArgumentParser
import Configuration
import JSONText
import Ledger
import Postgres
import Vocabulary

struct DiscardCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "discard",
        abstract: "Give up what waits for an integration; with --dead, delete its dead letters.",
        discussion: """
            Without --dead nothing is deleted: each delivery becomes a dead letter that says so, and replay can bring \
            it back. Meant for an integration that was removed from the configuration: what waits for it would wait \
            until it is back. Of one that is still there, what a daemon has leased is left: pause it first. Exits 1 \
            if any is left.

            With --dead what was given up is deleted for good: no replay brings it back, and its events go when \
            [retention] lets them. Until then dead letters are kept. What a daemon gives up later stays; what it \
            is giving up while the command counts may be deleted, though it was not counted.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Argument(help: "The name of the integration.", completion: NameCompletion.integrations) var name: String
    @Flag(help: "Delete its dead letters, for good.") var dead = false
    @Option(help: .init("With --dead: only what was given up before: \(TimeArgument.help)", valueName: "time"))
    var before: TimeArgument?
    @Flag(help: "Print only how many messages would be affected; change nothing.") var dryRun = false

    func validate() throws {
        guard dead || before == nil else { throw ValidationError("--before goes with --dead") }
    }

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            let names = try await NamedIntegrations.read(configuration.integrations, in: pool)
            guard let row = names.rows[name] else { throw names.unknown(name) }
            if dead { return try await dropDead(row, pool) }
            let waiting = try await Discard.look(row, in: pool)
            var discarded = 0
            if !dryRun {
                defer { Terminal.showStage(nil) }
                var cursor: Int64 = 0
                while true {
                    let step = try await Discard.step(row, from: &cursor, upTo: waiting.last, in: pool)
                    discarded += step.discarded
                    Terminal.showStage("discarding", discarded, of: waiting.all)
                    if step.isDone { break }
                }
            }
            // What was delivered meanwhile is not left, and what was recorded meanwhile was not meant.
            let left =
                dryRun ? waiting.leased : try await Discard.look(row, upTo: waiting.last, in: pool).all
            report(all: waiting.all, left: left, discarded)
            if !dryRun, left > 0 { throw ExitCode.failure }
        }
    }

    private func dropDead(_ row: Int32, _ pool: Pool) async throws {
        let letters = try await DeadLetters.of(row, before: before?.time, in: pool)
        var dropped = 0
        if !dryRun {
            defer { Terminal.showStage(nil) }
            while true {
                let step = try await letters.drop(in: pool)
                if step == 0 { break }
                dropped += step
                Terminal.showStage("discarding", dropped, of: letters.count)
            }
        }
        if output.json {
            return Terminal.print { json in
                json.member("integration", name)
                json.member("dry_run", dryRun)
                json.member("dead_letters", letters.count)
                json.member("discarded", dropped)
            }
        }
        Terminal.print(
            dryRun
                ? "\(letters.count) would be discarded, dead letters of \(name)"
                : "\(dropped) discarded, dead letters of \(name)")
    }

    /// - Parameter left: those that a daemon delivers just now.
    private func report(all: Int, left: Int, _ discarded: Int) {
        if output.json {
            return Terminal.print { json in
                json.member("integration", name)
                json.member("dry_run", dryRun)
                json.member("waiting", all)
                json.member("leased", left)
                json.member("discarded", discarded)
            }
        }
        let (verb, pronoun) = left == 1 ? ("is", "it") : ("are", "them")
        let inHand =
            left == 0 ? "" : "; \(left) \(verb) leased by a daemon (posthouse pause \(name) releases \(pronoun))"
        Terminal.print(
            dryRun
                ? "\(all - left) would be given up for \(name)\(inHand)"
                : "\(discarded) given up for \(name), now dead letters\(inHand)")
    }
}
