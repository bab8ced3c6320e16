import ArgumentParser

/// The only binary: the daemon and its operator's commands.
@main
struct Posthouse: AsyncParsableCommand {
    static let version = "0.1.0"

    static let configuration = CommandConfiguration(
        commandName: "posthouse",
        abstract: "A store-and-forward relay for subscription and purchase webhooks.",
        discussion: """
            Takes in webhooks of subscription platforms, stores them in PostgreSQL before it acknowledges them (on \
            disk while the database is away, if their source spools), resolves transfers of purchases between holders, \
            and delivers signed messages to the configured integrations.

            Exit codes: 0 done; 1 it did not work, the message says what to do; 64 wrong usage; 69 the database cannot \
            be reached; 78 the configuration has errors.
            """,
        version: version,
        subcommands: [
            ServeCommand.self, CheckCommand.self, DoctorCommand.self, SecretCommand.self, TestCommand.self,
            MigrateCommand.self, SendCommand.self,
            ListenCommand.self, StatusCommand.self, EventsCommand.self, TraceCommand.self, OverdueCommand.self,
            DeliveriesCommand.self,
            PauseCommand.self, ResumeCommand.self, RetryCommand.self, ReplayCommand.self, BackfillCommand.self,
            DiscardCommand.self, QuarantineCommand.self, SpoolCommand.self, RepairCommand.self, AuditCommand.self,
            EraseCommand.self,
            ImportCommand.self, ExportCommand.self,
        ])

    static func main() async {
        Terminal.checkOutputAtExit()
        Signals.endFirstProcess()
        let words = Array(CommandLine.arguments.dropFirst())
        if let problem = UnknownCommand.problem(words, of: Self.self)
            ?? UnknownCommand.secretProblem(words, of: Self.self)
        {
            Terminal.printToStandardError(problem)
            exit(withError: Exit.usage)
        }
        await main(nil)
    }
}

/// Exit codes beyond 0 and 1, from sysexits(3).
enum Exit {
    static let usage = ExitCode(64)
    static let unavailable = ExitCode(69)
    static let configuration = ExitCode(78)
}
