import ArgumentParser
import Configuration
import Ledger
import Observing
import Vocabulary

struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Write purchases and their holders, as lines that posthouse import reads.",
        discussion: """
            One JSON object a line, on standard output: who has each purchase and since when, all that the ledger \
            knows of who had it, its transactions and offers, which user each anonymous id is, and what late webhooks \
            may depend on. After posthouse import into an empty ledger the API answers the same about entitlements, \
            eligibility and identities, and webhooks that follow have the same effect; the events stay here. Daemons \
            may run meanwhile: what they record while it is written may be missing.
            """)

    @OptionGroup var file: ConfigurationOption
    @Option(help: "Only of this source.", completion: NameCompletion.sources) var source: String?

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            try await LedgerCommand.requireSource(source, configuration, in: pool)
            var walk = ExportWalk(source: source)
            var count = 0
            while !walk.isDone {
                var text: [UInt8] = []
                for line in try await walk.next(in: pool) {
                    text += line.canonical
                    text.append(UInt8(ascii: "\n"))
                    count += 1
                }
                Terminal.showStage(nil)
                if !text.isEmpty { Terminal.print(text) }
                Terminal.showStage("exporting: \(count) lines")
            }
            Terminal.showStage(nil)
            for (purchase, reason) in walk.unreadable {
                Terminal.printToStandardError(PlainText.harmless("purchase \(purchase.hex) is not written: \(reason)"))
            }
            if walk.incomplete > 0 {
                Terminal.printToStandardError(
                    """
                    of \(walk.incomplete) purchases or changes of holders only the newest word is written: their \
                    stored state cannot be read, or is longer than a line may be; posthouse repair --all names those \
                    that it can rebuild
                    """)
            }
            if walk.incomplete > 0 || !walk.unreadable.isEmpty { throw ExitCode.failure }
        }
    }
}
