import ArgumentParser
import Configuration
import Ledger

struct PauseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause", abstract: "Send nothing more to an integration; its deliveries wait.")

    @OptionGroup var file: ConfigurationOption
    @Argument(help: "The name of the integration.") var name: String

    func run() async throws { try await setPause(file, name, isPaused: true) }
}

struct ResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume", abstract: "Go on with an integration that was paused, by hand or by its 410.")

    @OptionGroup var file: ConfigurationOption
    @Argument(help: "The name of the integration.") var name: String

    func run() async throws { try await setPause(file, name, isPaused: false) }
}

private func setPause(_ file: ConfigurationOption, _ name: String, isPaused: Bool) async throws {
    let configuration = try file.load(.check)
    try await Terminal.reporting {
        let settings = try DatabaseAccess.forCommand(configuration)
        let change = try await DatabaseAccess.withPool(settings) { pool in
            try await Pauses.set(name, isPaused: isPaused, in: pool)
        }
        let word = isPaused ? "paused" : "running"
        switch change {
        case .changed: Terminal.say("\(name) is \(word) now")
        case .unchanged: Terminal.say("\(name) was \(word) already")
        case .unknown(let known):
            throw Complaint("the database knows no integration \(name); it knows: \(known.joined(separator: ", "))")
        }
    }
}
