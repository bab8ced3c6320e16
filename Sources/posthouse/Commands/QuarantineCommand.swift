import ArgumentParser
import JSONText
import Ledger
import Observing
import Postgres
import Vocabulary

struct QuarantineCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quarantine",
        abstract: "Look at webhooks that could not be read or stored, read them again, discard them.",
        discussion: """
            They were authentic, so they were acknowledged. They are kept byte for byte until they are read or \
            discarded.
            """,
        subcommands: [ListQuarantine.self, ShowQuarantine.self, RetryQuarantine.self, DiscardQuarantine.self],
        defaultSubcommand: ListQuarantine.self)
}

struct ListQuarantine: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List what is in quarantine.")

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption

    func run() async throws {
        try await LedgerCommand.run(file) { _, pool in
            let rows = try await Quarantine.all(in: pool)
            if output.json {
                return Terminal.print { json in
                    json.member("quarantine", objects: rows) { QuarantineText.write($0, into: &$1) }
                }
            }
            guard !rows.isEmpty else { return Terminal.printToStandardError("nothing is in quarantine") }
            var table = Table([
                .init(title: "ID", isNumber: true), .init(title: "RECEIVED"), .init(title: "SOURCE", shrinksTo: 8),
                .init(title: "BYTES", isNumber: true, dropsFirst: 1), .init(title: "REASON", shrinksTo: 20),
            ])
            table.rows = rows.map { row in
                [
                    .init("\(row.id)"), .init(row.receivedAt.toTheSecond), .init(row.source), .init("\(row.bytes)"),
                    .init(row.reason),
                ]
            }
            Terminal.print(table)
        }
    }
}

struct ShowQuarantine: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show one of them with its body, byte for byte.",
        discussion: """
            Of a sealed body (kinds apple and google-play) it shows what it says, if it can be opened: the decoded document. With \
            --original it shows the body itself.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Argument(help: "Its id, as the list has it.") var id: Int64
    @Flag(help: "The body as it came, also if it is sealed.") var original = false

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            guard let kept = try await Quarantine.body(id, in: pool) else { throw QuarantineText.unknown([id]) }
            let (row, body, answer) = (kept.row, kept.body, kept.answer)
            let open = configuration.openings[row.source]
            let decoded = open?(body, answer)
            if output.json {
                return Terminal.print { json in
                    QuarantineText.write(row, into: &json)
                    if open != nil { json.member("decoded", raw: decoded) }
                    json.member("body", String(decoding: body, as: UTF8.self))
                    json.member("body_base64", Base64.encode(body))
                    if let answer { json.member("answer", String(decoding: answer, as: UTF8.self)) }
                }
            }
            Terminal.printToStandardError(
                "\(row.id) of \(row.source), received \(row.receivedAt.iso8601): \(row.reason)")
            if let decoded, !original {
                Terminal.printToStandardError("sealed in \(body.count) bytes, which --original shows")
                Terminal.print(decoded)
            } else {
                Terminal.print(body)
            }
        }
    }
}

struct RetryQuarantine: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retry", abstract: "Read them again and record them as if they had just come.",
        discussion: """
            For after an update that reads them, a changed configuration of their source, or posthouse repair of their \
            purchase. Each is tried by itself: what is recorded leaves the quarantine; what is not stays, and the \
            answer says why. A transfer of everything that comes too late to move a purchase is recorded, and the \
            answer names the purchase. Exits 1 if any stays.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Argument(help: "Their ids, as the list has them.") var ids: [Int64] = []
    @Flag(help: "All that is in quarantine.") var all = false

    func validate() throws {
        guard ids.isEmpty == all else { throw ValidationError("say which: their ids, or --all") }
    }

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            let known = try await Quarantine.all(in: pool).map(\.id)
            let wanted = all ? known : ids.filter(Set(known).contains)
            let (results, lost) = try await QuarantineRetry.with(configuration, pool) { await $0.run(wanted) }
            if !results.isEmpty || output.json { report(results) }
            if let lost { throw lost }
            if wanted.isEmpty, all, !output.json { Terminal.printToStandardError("nothing is in quarantine") }
            let unknown = ids.filter { !known.contains($0) }
            if !unknown.isEmpty { throw QuarantineText.unknown(unknown) }
            if results.contains(where: { !$0.result.isGone }) { throw ExitCode.failure }
        }
    }

    private func report(_ results: [QuarantineRetry.Retried]) {
        if output.json {
            return Terminal.print { json in
                json.member("retried", objects: results) { retried, json in
                    json.member("id", retried.id)
                    json.member("result", retried.result.word)
                    json.member("explanation", retried.result.explanation)
                    json.member("too_old_for", strings: retried.result.unmoved)
                }
            }
        }
        for (id, result) in results {
            Terminal.print(PlainText.harmless("\(id) \(result.word): \(result.explanation)"))
        }
    }
}

struct DiscardQuarantine: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "discard", abstract: "Discard them, for good.",
        discussion: """
            What is discarded cannot be had back. Where its source sends it again, it is kept again. Exits 1 if an id \
            is not in quarantine.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Argument(help: "Their ids, as the list has them.") var ids: [Int64] = []
    @Flag(help: "All that is in quarantine.") var all = false
    @Flag(help: "Print only which would be discarded; change nothing.") var dryRun = false

    func validate() throws {
        guard ids.isEmpty == all else { throw ValidationError("say which: their ids, or --all") }
    }

    func run() async throws {
        try await LedgerCommand.run(file) { _, pool in
            let known = try await Quarantine.all(in: pool).map(\.id)
            let wanted = all ? known : known.filter(Set(ids).contains)
            let gone = dryRun ? wanted : try await Quarantine.discard(wanted, in: pool)
            report(gone)
            let unknown = ids.filter { !gone.contains($0) }
            if !unknown.isEmpty { throw QuarantineText.unknown(unknown) }
        }
    }

    private func report(_ gone: [Int64]) {
        if output.json {
            return Terminal.print { json in
                json.member("dry_run", dryRun)
                json.key("discarded")
                json.array { json in for id in gone { json.integer(id) } }
            }
        }
        guard !gone.isEmpty else { return all ? Terminal.printToStandardError("nothing is in quarantine") : () }
        let list = gone.map(String.init).joined(separator: ", ")
        Terminal.print("\(gone.count) \(dryRun ? "would be discarded" : "discarded"): \(list)")
    }
}

enum QuarantineText {
    /// - Parameter ids: at least one.
    static func unknown(_ ids: [Int64]) -> OperatorError {
        let list = ids.map(String.init).joined(separator: ", ") + (ids.count == 1 ? " is" : " are")
        return OperatorError("\(list) not in quarantine; posthouse quarantine lists what is")
    }

    static func write(_ row: Quarantine.Row, into json: inout JSONWriter) {
        json.member("id", row.id)
        json.member("source", row.source)
        json.member("received_at", row.receivedAt)
        json.member("reason", row.reason)
        json.member("bytes", row.bytes)
    }
}

extension Quarantine {
    fileprivate static func all(in pool: Pool) async throws -> [Row] {
        var rows: [Row] = []
        while true {
            let page = try await list(after: rows.last?.id ?? 0, in: pool)
            if page.isEmpty { return rows }
            rows += page
        }
    }
}
