import ArgumentParser
import Configuration
import JSONText
import Ledger
import Postgres
import Vocabulary

struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Record purchases and their holders from another platform or an export.",
        discussion: """
            One JSON object a line; posthouse-operate(7), "Moving from another platform", has its members. Lines are \
            recorded like webhooks, in batches, while daemons run: the newest statement counts, whichever came first, \
            and lines that were recorded before are passed over. So begin it again where it was cut short. Lines of \
            other sources are passed over, too. Lines of an export are recorded under their app, and it is said where \
            that is not the source's. Receivers are sent nothing, but by --announce.

            Lines that cannot be read or stored are listed with their number and left out; it then exits 1. It ends \
            before the last line only where the database is lost, or does not store \(Limits.importFailedMax) lines.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Argument(help: "The source whose lines are recorded.", completion: NameCompletion.sources) var source: String
    @Argument(help: .init("The file; - is standard input.", valueName: "file"), completion: .file()) var path: String
    @Flag(help: "Print only what is new, the same, and different; record nothing.") var dryRun = false
    @Option(
        help: .init("With --dry-run: write the different ones there, each with what is known.", valueName: "file"),
        completion: .file())
    var diff: String?
    @Option(
        help: "Announce transfers that only these lines show to this integration; they are not announced later.",
        completion: NameCompletion.integrations)
    var announce: String?

    func validate() throws {
        if diff != nil, !dryRun { throw ValidationError("--diff goes with --dry-run") }
        if announce != nil, dryRun { throw ValidationError("--announce goes without --dry-run") }
    }

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            guard let source = configuration.sources.first(where: { $0.name.utf8.elementsEqual(self.source.utf8) })
            else { throw Self.unknownSource(self.source, known: configuration.sources.map(\.name)) }
            var route: RoutedIntegration?
            if let announce {
                route = try await NamedIntegrations.read(configuration.integrations, in: pool).route(announce)
            }
            let importer = Importer(
                rules: SourceRules.byName(configuration), announcingTo: route, in: pool)
            // No daemon may have served this source yet: export and erase must know it once there is data of it.
            if !dryRun { try await SourceNames.remember([source.name], in: pool) }
            var tally = ImportTally(source: source, path: path, isDry: dryRun)
            try await read(into: &tally, importer, pool)
            if output.json {
                Terminal.print { tally.write(into: &$0) }
            } else {
                tally.printFaults()
                Terminal.print(tally.text)
            }
            if let problem = tally.problem { throw OperatorError(problem) }
            if tally.left > 0 { throw ExitCode.failure }
        }
    }

    private func read(into tally: inout ImportTally, _ importer: Importer, _ pool: Pool) async throws {
        let lines = try LineFile(path)
        let different = try diff.map { try DiffFile($0, besides: lines) }
        defer { Terminal.showStage(nil) }
        while case let batch = try lines.next(Limits.importBatchLinesMax), !batch.isEmpty {
            let numbered = tally.read(batch, at: ThisProcess.now())
            if !numbered.isEmpty {
                let batch = numbered.map(\.line)
                if dryRun {
                    let comparisons = try await ImportComparison.read(batch, in: pool)
                    try different?.write(numbered, comparisons)
                    tally.add(comparisons)
                } else {
                    let began = ContinuousClock.now
                    tally.add(try await importer.record(batch), of: numbered)
                    if tally.problem != nil { return }
                    try await Task.sleep(for: (ContinuousClock.now - began) * Limits.importRestShare)
                }
            }
            Terminal.showStage(
                dryRun ? "comparing, KiB" : "importing, KiB", lines.bytesRead >> 10, of: lines.bytesTotal >> 10)
        }
    }

    private static func unknownSource(_ name: String, known: [String]) -> OperatorError {
        let meant = NearMiss.find(name, among: known).map { " (did you mean \($0)?)" } ?? ""
        return OperatorError("there is no source \(name)\(meant); configured are: \(known.joined(separator: ", "))")
    }
}

/// The file of `--diff`: what differs, one JSON object a line.
private final class DiffFile {
    private let file: PrivateFile

    init(_ path: String, besides input: LineFile) throws { file = try PrivateFile(path, besides: input) }

    func write(_ lines: [ImportTally.Numbered], _ comparisons: [ImportComparison]) throws {
        var text: [UInt8] = []
        for (numbered, comparison) in zip(lines, comparisons) {
            guard case .different(let known) = comparison else { continue }
            text += JSONWriter.object { json in
                json.member("number", numbered.number)
                json.key("line")
                json.raw(numbered.line.canonical)
                json.member("ledger", object: known) { known, json in
                    json.member("active", known.isActive)
                    json.member("until", known.until.flatMap { Timestamp.writable.contains($0) ? $0.iso8601 : nil })
                    json.member("product", known.product)
                    json.member("plan", known.plan)
                    json.member("user_id", known.user)
                }
            }
            text.append(UInt8(ascii: "\n"))
        }
        try file.write(text)
    }
}
