import ArgumentParser
import Configuration
import Glibc
import Inbound
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
        let configuration = try file.load()
        try await Terminal.reporting {
            let waiting = SpoolState(configuration, of: file.path)
            guard waiting.isVisible else { throw SpoolState.unreadable(configuration) }
            for former in waiting.former { Terminal.printToStandardError(former.remark) }
            if output.json {
                return Terminal.print { json in
                    json.member("directory", configuration.spool.directory)
                    json.member("spool", objects: waiting.files) { file, json in
                        json.member("file", file.relativePath)
                        json.member("source", file.name.source)
                        json.member("written_at", file.writtenAt)
                        json.member("bytes", file.sizeBytes)
                    }
                    json.member("damaged", strings: waiting.damaged)
                    json.member("unreadable", strings: waiting.unreadable)
                    json.member(waiting.former)
                }
            }
            for folder in waiting.unreadable {
                Terminal.printToStandardError(
                    "folder \(folder) cannot be read by this user: what waits there is not shown; "
                        + "run this as root or as the daemon's user")
            }
            for name in waiting.damaged { Terminal.printToStandardError("damaged, not recorded: \(name)") }
            guard !waiting.files.isEmpty else {
                if waiting.unreadable.isEmpty { Terminal.printToStandardError("nothing waits in the spool") }
                return
            }
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
            Terminal.print(table)
        }
    }
}

struct ShowSpool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show one of them with its body, byte for byte.",
        discussion: "Of a damaged file it shows the whole file, as it is.")

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Argument(help: "Its file, as the list has it.") var name: String

    func run() async throws {
        let configuration = try file.load()
        try await Terminal.reporting {
            let directory = configuration.spool.directory
            let parts = name.split(separator: "/", omittingEmptySubsequences: false)
            guard parts.count == 2, !parts.contains(where: { $0.isEmpty || $0 == "." || $0 == ".." }) else {
                throw OperatorError("\(name) is not a file of the spool; posthouse spool lists them")
            }
            let bytes: [UInt8]
            do throws(DurableFile.Failure) {
                bytes = try DurableFile.read(directory + "/" + name, bytesMax: SpoolFile.bytesMax)
            } catch {
                throw OperatorError("\(error)")
            }
            do throws(SpooledWebhook.Damage) {
                let webhook = try SpooledWebhook(file: bytes)
                if output.json { return Terminal.print { write(webhook, into: &$0) } }
                Terminal.printToStandardError(
                    "\(name) of \(webhook.source), received \(readableTime(webhook.receivedAt))")
                for header in webhook.headers {
                    Terminal.printToStandardError(PlainText.harmless("\(header.name): \(header.value)"))
                }
                Terminal.print(webhook.body)
            } catch {
                if output.json {
                    throw OperatorError("\(name) cannot be read: \(error); without --json it is shown as it is")
                }
                Terminal.printToStandardError("\(name) cannot be read: \(error); this is the file as it is")
                Terminal.print(bytes)
            }
        }
    }

    private func write(_ webhook: SpooledWebhook, into json: inout JSONWriter) {
        json.member("file", name)
        json.member("source", webhook.source)
        json.member("received_at", readableTime(webhook.receivedAt))
        json.member("headers", objects: webhook.headers) { header, json in
            json.member("name", header.name)
            json.member("value", header.value)
        }
        json.member("body", String(decoding: webhook.body, as: UTF8.self))
        json.member("body_base64", Base64.encode(webhook.body))
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
            goes to quarantine. A database that may forget what it commits is refused. Exits 1 if anything is left.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption

    /// What became of one.
    private struct Recorded {
        let file: String
        let result: String
        let explanation: String
        /// Whether it left the spool.
        let isGone: Bool
    }

    func run() async throws {
        // What is recorded leaves the disk.
        try await LedgerCommand.run(file, requiresDurability: true) { configuration, pool in
            let before = SpoolState(configuration, of: file.path)
            guard before.isVisible else { throw SpoolState.unreadable(configuration) }
            for former in before.former { Terminal.printToStandardError(former.remark) }
            try Self.refuseIfForeign(configuration.spool.directory)
            if !before.files.isEmpty {
                try SpoolLedger.claim(configuration.spool.directory, for: try await LedgerMark.read(from: pool))
            }
            let (mine, results) = try await record(before.files, configuration, pool)
            // A daemon may have died meanwhile, so that more of them are in `mine`.
            let others = max(0, before.files.count - mine)
            if output.json {
                Terminal.print { json in
                    json.member("recorded", objects: results) { recorded, json in
                        json.member("file", recorded.file)
                        json.member("result", recorded.result)
                        json.member("explanation", recorded.explanation)
                    }
                    json.member("of_running_daemons", others)
                }
            } else {
                report(results, others)
            }
            for folder in before.unreadable {
                Terminal.printToStandardError(
                    "folder \(folder) cannot be read by this user: what waits there is not recorded; "
                        + "run this as root or as the daemon's user")
            }
            let isLeft = results.count < mine || results.contains { !$0.isGone }
            if isLeft || !before.unreadable.isEmpty || !before.former.isEmpty {
                throw ExitCode.failure
            }
        }
    }

    /// What root makes in a spool of another user, that user's daemon cannot use.
    private static func refuseIfForeign(_ directory: String) throws {
        guard geteuid() == 0 else { return }
        for folder in (try? DurableFile.folders(of: directory)) ?? [] {
            guard let owner = (try? FileStatus.of(directory + "/" + folder))?.owner, owner != 0 else { continue }
            let user = SystemUser.named("\(owner)")?.name
            let way = user.map { "runuser -u \($0) --" } ?? "setpriv --reuid=\(owner) --clear-groups --"
            throw OperatorError(
                "the spool in \(directory) is of user \(user ?? "\(owner)"): run this as that user, "
                    + "\(way) posthouse spool record")
        }
    }

    /// Refuses to record without a store's credential: what the store cannot be asked about would go to quarantine.
    private static func requireAccounts(for files: [SpoolFile], _ configuration: Configuration) throws {
        let waiting = Set(files.map(\.name.source))
        let unread = configuration.sources.filter { source in
            guard let api = source.api else { return false }
            return api.account == nil && waiting.contains(source.name)
        }
        guard !unread.isEmpty else { return }
        throw OperatorError.unreadableSecret(of: unread.map { "api of source \($0.name)" }.joined(separator: ", "))
    }

    private func report(_ results: [Recorded], _ others: Int) {
        for result in results {
            Terminal.print(PlainText.harmless("\(result.file) \(result.result): \(result.explanation)"))
        }
        if others > 0 {
            Terminal.printToStandardError(
                "\(others) wait in folders of running daemons, which record them by themselves")
        }
        if results.isEmpty, others == 0 { Terminal.printToStandardError("nothing waits in the spool") }
    }

    /// - Returns: how many wait in folders that no daemon has, and what became of each that could be read.
    private func record(
        _ waiting: [SpoolFile], _ configuration: Configuration, _ pool: Pool
    ) async throws -> (mine: Int, results: [Recorded]) {
        guard !waiting.isEmpty else { return (0, []) }
        let spool = try await Spool.open(
            directory: configuration.spool.directory, bytesMax: configuration.spool.bytesMax, now: ThisProcess.now
        ) { observation in
            switch observation {
            case .spoolDamaged, .warning: Terminal.printToStandardError(JournalEntry(observation).message)
            default: break
            }
        }
        let files = await spool.files()
        do {
            // Not of what running daemons record: it needs no secret here.
            try Self.requireAccounts(for: files, configuration)
            let results = try await QuarantineRetry.with(configuration, pool) { retry in
                try await record(files, of: spool, by: retry, in: pool)
            }
            await spool.close()
            return (files.count, results)
        } catch {
            await spool.close()
            throw error
        }
    }

    private func record(
        _ files: [SpoolFile], of spool: Spool, by retry: QuarantineRetry, in pool: Pool
    ) async throws -> [Recorded] {
        var results: [Recorded] = []
        for start in stride(from: 0, to: files.count, by: Self.pageMax) {
            for (file, webhook) in await spool.read(Array(files[start...].prefix(Self.pageMax))) {
                results.append(try await record(file, webhook, of: spool, by: retry, in: pool))
            }
        }
        return results
    }

    private func record(
        _ file: SpoolFile, _ webhook: SpooledWebhook, of spool: Spool, by retry: QuarantineRetry, in pool: Pool
    ) async throws -> Recorded {
        let sources = retry.configuration.sources
        guard let source = sources.first(where: { $0.name.utf8.elementsEqual(webhook.source.utf8) }) else {
            let reason = "the configuration has no source \(webhook.source); restore that name, then try again"
            return Recorded(file: file.relativePath, result: "kept", explanation: reason, isGone: false)
        }
        // With the id: cut off behind this, it is in quarantine and in the spool, and must be one event all the same.
        let body = QuarantinedBody(
            source: webhook.source, reason: "it waited in the spool, and is not recorded yet", body: webhook.body,
            eventID: SourceAdapters.adapter(for: source.kind).eventID { webhook.header($0) })
        let outcome: (word: String, explanation: String)
        if let id = try await Quarantine.add([body], in: pool)[0] {
            switch try await retry.readAgain(id) {
            case .stillQuarantined(let reason): outcome = ("quarantined", reason)
            case let result: outcome = (result.word, result.explanation)
            }
        } else {
            outcome = ("erased", "its event was erased before")
        }
        let isGone = await spool.remove([file])
        return Recorded(
            file: file.relativePath, result: outcome.word, explanation: outcome.explanation, isGone: isGone)
    }
}
