import ArgumentParser
import Configuration
import JSONText

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate", abstract: "Bring the database's schema up to date.",
        discussion: """
            `serve` does the same when it starts; this is for doing it beforehand.

            --from-embedded moves everything of the private cluster into the database that [database] url names: stop \
            the daemon, set the url, run this (with --dry-run first, if you like), start the daemon. It is there whole \
            or not at all, wherever this is cut short, and can be run again. The database must hold no ledger yet. The \
            private cluster stays as it is, marked as moved.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Flag(help: "Move everything of the private cluster into the database.") var fromEmbedded = false
    @Flag(help: "With --from-embedded: only say what it would be.") var dryRun = false

    func validate() throws {
        guard fromEmbedded || !dryRun else { throw ValidationError("--dry-run goes with --from-embedded") }
    }

    func run() async throws {
        let configuration = try file.load(.check)
        try await Terminal.reporting {
            if fromEmbedded {
                return try await EmbeddedMove(configuration, isDry: dryRun, output: output).run()
            }
            let settings = try DatabaseAccess.forCommand(configuration)
            let (from, to) = try await LedgerCommand.reaching(file) { try await DatabaseAccess.prepare(settings) }
            if output.json {
                return Terminal.say { json in
                    json.member("from", from)
                    json.member("to", to)
                }
            }
            Terminal.say(from == to ? "the schema is up to date (\(to))" : "migrated from \(from) to \(to)")
        }
    }
}
