import ArgumentParser
import Configuration

/// The option `--config FILE`.
struct ConfigurationOption: ParsableArguments {
    @Option(name: .customLong("config"), help: "The configuration file.", completion: .file())
    var path = ConfigurationFile.standardPath

    /// The configuration for a command, checked; prints what is wrong and ends the program if it cannot be used.
    func load() throws -> Configuration {
        let outcome = ConfigurationFile.load(path: path, purpose: .command)
        if let configuration = outcome.configuration, outcome.errors.isEmpty { return configuration }
        Terminal.printToStandardError(outcome)
        throw Exit.configuration
    }
}
