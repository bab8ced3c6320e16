import ArgumentParser
import Configuration
import Ledger
import Postgres
import Vocabulary

struct StatusCommand: AsyncParsableCommand {
    private static let watchInterval: Duration = .seconds(2)
    /// Of the count of overdue purchases, and of each of its statements: the command waits for them before it ends.
    private static let countLimit: Duration = .seconds(2)

    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show how each source and each integration is doing.",
        discussion: """
            Of sources: LAST is how long ago a webhook was kept; REFUSED 1m counts what was answered 401, 404, 413, 503 \
            and so on within the last minute. It lags by some seconds. OVERDUE counts the purchases of the environment \
            PRODUCTION whose end has passed, and of which no webhook has said what became of them (posthouse overdue); it \
            is counted at most once a minute, and "?" while that takes long or an upgrade is not done.

            Of integrations: delivering: accepted something within the last minute; idle: nothing waits; waiting: something does, and \
            nothing was accepted within the last minute; failing: its circuit breaker is open, a probe looks whether \
            it answers again; paused: by hand or by a 410; removed: not in the configuration any more. DELIVERED 1m \
            and FAILED 1m count the attempts of the last minute.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Flag(help: "Show it again every two seconds, until Ctrl-C.") var watch = false

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            let counting = try DatabaseAccess.forCommand(configuration, statementTimeout: Self.countLimit)
            try await DatabaseAccess.withPool(counting) { counting in
                let overdue = SlowReader<[OverdueFigures]>.overdue()
                overdue.adopt(Leeways(configuration.sources), in: counting, within: Self.countLimit)
                try await show(configuration, overdue, pool)
            }
        }
    }

    private func show(
        _ configuration: Configuration, _ overdue: SlowReader<[OverdueFigures]>, _ pool: Pool
    ) async throws {
        func read() async throws -> StatusText {
            StatusText(
                try await LedgerStatus.read(overdue: overdue.value, from: pool), configuration, of: file.path)
        }
        show(try await read())
        while watch {
            try await Task.sleep(for: Self.watchInterval)
            do {
                show(try await read())
            } catch let error as DatabaseError where error.isConnectionLevel {
                // Tries again, because an operator who watches a restart wants to see its end.
                Terminal.printToStandardError("the database does not answer, trying again: \(error)")
            }
        }
    }

    private func show(_ text: StatusText) {
        if output.json { return Terminal.print { text.write(into: &$0) } }
        if watch, Terminal.isOutput { Terminal.print("\u{1B}[H\u{1B}[2J\(text.status.at.iso8601)") }
        Terminal.print(text.page)
    }
}
