import ArgumentParser
import Configuration
import JSONText
import Ledger

struct PauseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause", abstract: "Send nothing more to an integration; its deliveries wait.")

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Argument(help: "The name of the integration.", completion: NameCompletion.integrations) var name: String

    func run() async throws { try await setPause(file, output, name, isPaused: true) }
}

struct ResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume", abstract: "Continue an integration that was paused by hand or by an answer 410.")

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Argument(help: "The name of the integration.", completion: NameCompletion.integrations) var name: String

    func run() async throws { try await setPause(file, output, name, isPaused: false) }
}

private func setPause(
    _ file: ConfigurationOption, _ output: OutputOption, _ name: String, isPaused: Bool
) async throws {
    try await LedgerCommand.run(file) { configuration, pool in
        let isChanged: Bool
        let names = try await NamedIntegrations.read(configuration.integrations, in: pool)
        switch try await Pauses.set(name, isPaused: isPaused, routes: names.routes, in: pool) {
        case .changed: isChanged = true
        case .unchanged: isChanged = false
        case .unknown: throw names.unknown(name)
        }
        if output.json {
            return Terminal.print { json in
                json.member("integration", name)
                json.member("paused", isPaused)
                json.member("changed", isChanged)
            }
        }
        let word = isPaused ? "paused" : "running"
        Terminal.print(isChanged ? "\(name) is \(word) now" : "\(name) was \(word) already")
    }
}
