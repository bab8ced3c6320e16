import ArgumentParser
import Configuration
import JSONText
import Ledger
import Linux
import Observing
import Postgres
import Spool
import Vocabulary

struct SpoolCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "spool",
        abstract: "Look at webhooks that wait on this machine's disk for the database, record them by hand.",
        discussion: """
            Of sources with spool = true. They were authentic and were acknowledged. The daemon records them by itself \
            as soon as the database answers.
            """,
        subcommands: [ListSpool.self, ShowSpool.self, RecordSpool.self], defaultSubcommand: ListSpool.self)
}

struct ListSpool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List what waits in the spool of this machine, without the database.",
        discussion: """
            Files in the folder damaged could not be read: they are not recorded, and stay until somebody removes them.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption

    func run() async throws {
        let configuration = try file.load(.check)
        try await Terminal.reporting {
            let waiting = SpoolState(configuration)
            guard waiting.isVisible else { throw SpoolState.unreadable(configuration) }
            if output.json {
                return Terminal.say { json in
                    json.member("directory", configuration.spool.directory)
                    json.member("spool", objects: waiting.files) { file, json in
                        json.member("file", file.relativePath)
                        json.member("source", file.name.source)
                        json.member("written_at", file.writtenAt)
                        json.member("bytes", file.sizeBytes)
                    }
                    json.member("damaged", strings: waiting.damaged)
                }
            }
            for name in waiting.damaged { Terminal.complain("damaged, not recorded: \(name)") }
            guard !waiting.files.isEmpty else { return Terminal.complain("nothing waits in the spool") }
            var table = Table([
                .init(title: "WRITTEN"), .init(title: "SOURCE", shrinksTo: 8),
                .init(title: "BYTES", isNumber: true, dropsFirst: 1), .init(title: "FILE"),
            ])
            table.rows = waiting.files.map { file in
                [
                    .init(file.writtenAt.toTheSecond), .init(file.name.source), .init("\(file.sizeBytes)"),
                    .init(file.relativePath),
                ]
            }
            Terminal.say(table)
        }
    }
}

struct ShowSpool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show one of them with its body, byte for byte.",
        discussion: "Of a damaged file it shows the whole file, as it is.")

    @OptionGroup var file: ConfigurationOption
    @Argument(help: "Its file, as the list has it.") var name: String

    func run() async throws {
        let configuration = try file.load(.check)
        try await Terminal.reporting {
            let directory = configuration.spool.directory
            let parts = name.split(separator: "/", omittingEmptySubsequences: false)
            guard parts.count == 2, !parts.contains(where: { $0.isEmpty || $0 == "." || $0 == ".." }) else {
                throw Complaint("\(name) is no file of the spool; posthouse spool lists them")
            }
            let bytes: [UInt8]
            do throws(DurableFile.Failure) {
                bytes = try DurableFile.read(directory + "/" + name, bytesMax: SpoolFile.bytesMax)
            } catch {
                throw Complaint("\(error)")
            }
            do throws(SpooledWebhook.Damage) {
                let webhook = try SpooledWebhook(file: bytes)
                Terminal.complain("\(name) of \(webhook.source), received \(readableTime(webhook.receivedAt))")
                for header in webhook.headers { Terminal.complain(PlainText.harmless("\(header.name): \(header.value)")) }
                Terminal.say(webhook.body)
            } catch {
                Terminal.complain("\(name) cannot be read: \(error); this is the file as it is")
                Terminal.say(bytes)
            }
        }
    }

    private func readableTime(_ time: Timestamp) -> String {
        Timestamp.writable.contains(time) ? time.iso8601 : "\(time.milliseconds) ms"
    }
}

struct RecordSpool: AsyncParsableCommand {
    /// Files that are read at once.
    private static let pageMax = 64

    static let configuration = CommandConfiguration(
        commandName: "record", abstract: "Record what waits in the spool of a daemon that does not run.",
        discussion: """
            A running daemon records its own spool, and that of one that is gone, by itself. This is for a machine whose \
            daemon does not start any more: run it as the daemon's user, with its configuration. What cannot be read \
            goes to quarantine. Exits 1 if anything is left.
            """)

    @OptionGroup var file: ConfigurationOption

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            let before = SpoolState(configuration)
            guard before.isVisible else { throw SpoolState.unreadable(configuration) }
            guard !before.files.isEmpty else { return Terminal.complain("nothing waits in the spool") }
            let spool = try await Spool.open(
                directory: configuration.spool.directory, bytesMax: configuration.spool.bytesMax, now: ThisProcess.now
            ) { observation in
                if case .spoolDamaged = observation { Terminal.complain(JournalEntry(observation).message) }
            }
            let files = await spool.files()
            let recorded: Int
            do {
                recorded = try await QuarantineRetry.with(configuration, pool) { retry in
                    try await record(files, of: spool, by: retry, in: pool)
                }
            } catch {
                await spool.close()
                throw error
            }
            await spool.close()
            let others = Set(before.files).subtracting(files).count
            if others > 0 {
                Terminal.complain("\(others) wait in folders of running daemons, which record them by themselves")
            }
            Terminal.say("\(recorded) of \(files.count) webhooks recorded or quarantined")
            if recorded < files.count { throw ExitCode.failure }
        }
    }

    /// - Returns: how many left the spool.
    private func record(
        _ files: [SpoolFile], of spool: Spool, by retry: QuarantineRetry, in pool: Pool
    ) async throws -> Int {
        var recorded = 0
        for start in stride(from: 0, to: files.count, by: Self.pageMax) {
            for (file, webhook) in await spool.read(Array(files[start...].prefix(Self.pageMax))) {
                guard retry.configuration.sources.contains(where: { $0.name == webhook.source }) else {
                    Terminal.complain("\(file.relativePath): the configuration has no source \(webhook.source); it stays")
                    continue
                }
                let body = QuarantinedBody(
                    source: webhook.source, reason: "it was in the spool, and is not recorded yet", body: webhook.body,
                    answer: nil)
                // nil: it was erased.
                if let id = try await Quarantine.add(body, in: pool) {
                    let result = try await retry.release(id) { webhook.header($0) }
                    Terminal.say("\(file.relativePath) \(result.word): \(result.explanation)")
                }
                if await spool.remove([file]) { recorded += 1 }
            }
        }
        return recorded
    }
}

/// What of the spool can be seen from a command, by its files alone.
struct SpoolState {
    /// In order.
    let files: [SpoolFile]
    let damaged: [String]
    /// False: this user may not look.
    let isVisible: Bool

    init(_ configuration: Configuration) {
        do throws(DurableFile.Failure) {
            files = try SpoolFile.all(in: configuration.spool.directory)
            isVisible = true
        } catch {
            files = []
            isVisible = false
        }
        damaged = SpoolFile.damaged(in: configuration.spool.directory)
    }

    var oldestAt: Timestamp? { files.lazy.map(\.writtenAt).min() }

    /// How many wait for a source that is not configured, by its name.
    func homeless(_ configured: some Sequence<String>) -> [(source: String, count: Int)] {
        let known = Set(configured)
        let others = Dictionary(grouping: files.lazy.map(\.name.source).filter { !known.contains($0) }) { $0 }
        return others.map { ($0.key, $0.value.count) }.sorted { $0.0 < $1.0 }
    }

    static func unreadable(_ configuration: Configuration) -> Complaint {
        Complaint(
            "the spool in \(configuration.spool.directory) cannot be read by this user; run this as root or as the daemon's "
                + "user")
    }
}
