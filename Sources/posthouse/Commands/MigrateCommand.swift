import ArgumentParser
import Configuration
import JSONText
import Ledger

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate", abstract: "Bring the database's schema up to date.",
        discussion: """
            `serve` does the same when it starts; this is for doing it beforehand. It also builds the indexes that the \
            new version needs, which takes minutes on a large ledger; `serve` builds them while it serves.

            --from-embedded moves everything of the private cluster into the database that [database] url names: stop \
            the daemon, set the url, run this (with --dry-run first, if you like), start the daemon. It is there whole \
            or not at all, wherever this is cut short, and can be run again. The database must hold no ledger yet. The \
            private cluster stays as it is, marked as moved.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Flag(help: "Move everything of the private cluster into the database.") var fromEmbedded = false
    @Flag(help: "With --from-embedded: print only what would be moved; change nothing.") var dryRun = false

    func validate() throws {
        guard fromEmbedded || !dryRun else { throw ValidationError("--dry-run goes with --from-embedded") }
    }

    func run() async throws {
        let configuration = try file.load()
        try await Terminal.reporting {
            if fromEmbedded {
                return try await EmbeddedMove(configuration, isDry: dryRun, output: output).run()
            }
            EmbeddedLedger.warnUnlessMoved(configuration)
            let settings = try DatabaseAccess.forCommand(configuration)
            let direct = try DirectConnection.forCommand(configuration)
            guard let own = direct.settings(settings) else { throw OperatorError(DirectConnection.needed) }
            let isDeclared = configuration.database.durability == .declared
            let (from, to) = try await LedgerCommand.reaching(configuration, file) {
                try await DatabaseAccess.prepare(
                    settings, direct: direct, isDeclared: isDeclared, onWait: { Self.reportWait($0) })
            }
            let outcome = try await LedgerCommand.reaching(configuration, file) {
                try await DatabaseAccess.migrateIndexes(own)
            }
            if output.json {
                return Terminal.print { json in
                    json.member("from", from)
                    json.member("to", to)
                    json.member("indexes", outcome.name)
                    json.member("indexes_left", strings: outcome.left)
                }
            }
            Terminal.print(from == to ? "the schema is up to date (\(to))" : "migrated from \(from) to \(to)")
            if let rest = outcome.rest { Terminal.print(rest) }
        }
    }

    private static func reportWait(_ wait: MigrationError) {
        Terminal.printToStandardError("posthouse: \(wait); waiting until they have ended")
    }
}

extension IndexMigration.Outcome {
    /// What JSON calls it.
    fileprivate var name: String {
        switch self {
        case .done: "done"
        case .taken: "taken"
        case .left: "left"
        }
    }

    /// Indexes that are still to be dropped.
    fileprivate var left: [String] { if case .left(let names) = self { names } else { [] } }

    /// What is left to do; nil: nothing.
    fileprivate var rest: String? {
        switch self {
        case .done: nil
        case .taken: "another process builds the indexes of this version just now"
        case .left(let names):
            """
            indexes of the version before are left: \(names.joined(separator: ", ")). Once no daemon of that version \
            runs, and the schema is an hour old, a daemon that owns the tables drops them, or posthouse migrate
            """
        }
    }
}
