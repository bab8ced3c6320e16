import ArgumentParser
import Configuration
import Inbound
import Ledger
import Vocabulary

struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Check the configuration; print every error at once.",
        discussion: """
            Where the database can be asked, it also warns of sources that have events there under a name that the file
            does not have any more. Exits 0 if the daemon could run by it (warnings allowed), 78 if not.
            """)

    @OptionGroup var file: ConfigurationOption

    func run() async throws {
        let outcome = ConfigurationFile.load(path: file.path, purpose: .check)
        if !outcome.diagnostics.isEmpty { Terminal.complain(outcome.render(coloured: Terminal.errorIsColoured)) }
        guard outcome.errors.isEmpty, let checked = outcome.configuration else { throw Exit.configuration }
        warnOfEventNames(checked.sources)
        await warnOfVanishedSources(checked)
        Terminal.say(
            "\(file.path): fine (\(checked.sources.count) sources, \(checked.integrations.count) integrations)")
    }

    /// A misspelled default name would leave the vendor's renamed event without its meaning.
    private func warnOfEventNames(_ sources: [Source]) {
        for source in sources {
            let known = Set(SourceAdapters.adapter(for: source.kind).knownEventNames)
            for (renamed, name) in source.renamedEvents.sorted(by: { $0.key < $1.key }) where !known.contains(name) {
                Terminal.complain(
                    "\(file.path): warning: event_names of source \(source.name): \"\(renamed)\" stands for \"\(name)\", "
                        + "which is none of the vendor's default names")
            }
        }
    }

    /// A renamed source is another source: its purchases begin anew, and what comes twice is told twice.
    private func warnOfVanishedSources(_ configuration: Configuration) async {
        guard let settings = try? DatabaseAccess.forCommand(configuration) else { return }
        let names = configuration.sources.map(\.name)
        let vanished = try? await DatabaseAccess.withPool(settings) {
            try await SourceNames.vanished(besides: names, in: $0)
        }
        for name in vanished ?? [] {
            Terminal.complain(
                "\(file.path): warning: the database has purchases of a source \"\(name)\", which the file does not name; "
                    + "if it was renamed, give it its old name: a name is part of every identity")
        }
    }
}
