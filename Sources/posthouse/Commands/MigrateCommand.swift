import ArgumentParser
import Configuration

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate", abstract: "Bring the database's schema up to date.",
        discussion: "`serve` does the same when it starts; this is for doing it beforehand.")

    @OptionGroup var file: ConfigurationOption

    func run() async throws {
        let configuration = try file.load(.check)
        try await Terminal.reporting {
            let settings = try DatabaseAccess.forCommand(configuration)
            let (from, to) = try await DatabaseAccess.prepare(settings)
            Terminal.say(from == to ? "the schema is up to date (\(to))" : "migrated from \(from) to \(to)")
        }
    }
}
