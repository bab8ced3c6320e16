import ArgumentParser
import Configuration

struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Check the configuration; print every error at once.",
        discussion: "Exits 0 if the daemon could run by it (warnings allowed), 78 if not.")

    @OptionGroup var file: ConfigurationOption

    func run() async throws {
        let outcome = ConfigurationFile.load(path: file.path, purpose: .check)
        if !outcome.diagnostics.isEmpty { Terminal.complain(outcome.render(coloured: Terminal.errorIsColoured)) }
        guard outcome.errors.isEmpty, let checked = outcome.configuration else { throw Exit.configuration }
        Terminal.say(
            "\(file.path): fine (\(checked.sources.count) sources, \(checked.integrations.count) integrations)")
    }
}
