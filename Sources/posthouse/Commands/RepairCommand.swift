import API
import ArgumentParser
import Configuration
import Inbound
import JSONText
import Ledger
import Observing
import Postgres
import Vocabulary

struct RepairCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "repair", abstract: "Rebuild the stored state of a purchase from its webhooks.",
        discussion: """
            For a purchase whose stored state cannot be read: its webhooks wait in quarantine. The stored webhooks of \
            the purchase, and the logins and restores of its holders, are judged again in their order of arrival. \
            State and access are replaced if they differ; nothing is announced. Transfers that the webhooks show and \
            that were never announced are listed. It can be run again: a second run finds nothing to do.

            Where webhooks are missing (they were pruned, or erased), a state that can be read is left as it is. One \
            that cannot is rebuilt from the rest, with access as it was last stored and with as many transfers as were \
            announced: the answer says partial, and names what is missing. Afterwards posthouse quarantine retry \
            records what waits.

            A purchase that the database refuses is listed with the reason, and --all goes on; a lost connection ends \
            it. Exits 1 if a purchase could not be checked.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Argument(help: "A purchase's key, one of its store_transaction_ids, or Posthouse's own id of it (32 hex digits).")
    var purchase: String?
    @Flag(help: "Check every purchase, repair those that need it.") var all = false
    @Option(help: "Only of this source.", completion: NameCompletion.sources) var source: String?
    @Flag(help: "Print only what would change; change nothing.") var dryRun = false

    func validate() throws {
        guard (purchase == nil) == all else { throw ValidationError("say which: a PURCHASE, or --all") }
        guard purchase != "" else { throw ValidationError("an id has at least one character") }
    }

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            try await LedgerCommand.requireSource(source, configuration, in: pool)
            let repair = Repair(
                rules: SourceRules.byName(configuration), eventsKept: configuration.retention.events,
                read: Self.reader(configuration))
            if let purchase {
                try await run(purchase, repair, pool)
            } else {
                try await runAll(repair, pool)
            }
        }
    }

    private func run(_ name: String, _ repair: Repair, _ pool: Pool) async throws {
        var reports: [RepairReport] = []
        for id in try await Repair.named(name, source: source, in: pool) {
            if let report = try await repair.run(id, isDry: dryRun, in: pool) { reports.append(report) }
        }
        guard !reports.isEmpty else {
            throw OperatorError("no purchase \(name) is known; posthouse trace shows those of a transaction or a user")
        }
        if output.json {
            Terminal.print { json in
                json.member("dry_run", dryRun)
                json.member("purchases", objects: reports) { RepairText.write($0, into: &$1) }
            }
        } else {
            for report in reports { Terminal.print(RepairText.render(report, isDry: dryRun)) }
        }
        if reports.contains(where: \.isImpossible) { throw ExitCode.failure }
    }

    private func runAll(_ repair: Repair, _ pool: Pool) async throws {
        var summary = RepairSummary()
        var last: Identifier?
        while case let page = try await Repair.page(after: last, source: source, in: pool), !page.isEmpty {
            for id in page {
                let outcome = try await repair.check(id, isDry: dryRun, in: pool)
                summary.add(outcome, of: id)
                if let text = RepairText.render(outcome, of: id, isDry: dryRun), !output.json {
                    Terminal.showStage(nil)
                    Terminal.print(text)
                }
            }
            last = page.last
            Terminal.showStage("checking: \(summary.checked) purchases")
        }
        Terminal.showStage(nil)
        if output.json {
            Terminal.print { summary.write(isDry: dryRun, into: &$0) }
        } else {
            Terminal.print(summary.text(isDry: dryRun))
        }
        if summary.impossible > 0 || summary.failed > 0 { throw ExitCode.failure }
    }

    /// Reads stored bodies by the rules of their source; what no vendor could have sent is the app's backend's.
    private static func reader(_ configuration: Configuration) -> Repair.Reader {
        let sources = Dictionary(firstOf: configuration.sources) { Array($0.name.utf8) }
        return { stored in
            guard let source = sources[Array(stored.scope.source.utf8)] else { return nil }
            if let line = ImportLine.stored(stored.body) { return ReadWebhook(line.event) }
            // Headers are not kept: an id that came in one is in the event's row.
            let adapter = SourceAdapters.adapter(for: source.kind)
            let event = try? adapter.normalise(
                stored.body, answer: stored.answer, header: { _ in nil }, from: source)
            if let event { return ReadWebhook(event) }
            return StoredStatement.read(stored, of: source)
        }
    }
}

extension RepairReport {
    fileprivate var isImpossible: Bool {
        if case .impossible = verdict { true } else { false }
    }
}

/// Counts of all purchases, and what was found.
private struct RepairSummary {
    /// Purchases listed in the JSON document; more are counted only.
    private static let listedMax = 1_000

    var checked = 0
    var rebuilt = 0
    var partial = 0
    var kept = 0
    var impossible = 0
    var transfers = 0
    var failed = 0
    private var listed: [RepairReport] = []
    private var failures: [(purchase: Identifier, reason: String)] = []

    mutating func add(_ outcome: Repair.Outcome, of purchase: Identifier) {
        switch outcome {
        case .unknown: break
        case .checked(let report): add(report)
        case .failed(let reason):
            checked += 1
            failed += 1
            if failures.count < Self.listedMax { failures.append((purchase, reason)) }
        }
    }

    private mutating func add(_ report: RepairReport) {
        checked += 1
        transfers += report.transfers.count
        switch report.verdict {
        case .sound: break
        case .leftUnchanged: kept += 1
        case .rebuilt:
            rebuilt += 1
            if report.isPartial { partial += 1 }
        case .impossible: impossible += 1
        }
        if report.isWorthListing, listed.count < Self.listedMax { listed.append(report) }
    }

    func text(isDry: Bool) -> String {
        var parts = ["\(checked) purchases checked", "\(rebuilt) \(isDry ? "would be repaired" : "repaired")"]
        if partial > 0 { parts[1] += " (\(partial) partial)" }
        if kept > 0 { parts.append("\(kept) left as they are, because webhooks are missing") }
        if transfers > 0 { parts.append("\(transfers) transfers were never announced") }
        if impossible + failed > 0 { parts.append("\(impossible + failed) could not be checked") }
        return parts.joined(separator: ", ")
    }

    func write(isDry: Bool, into json: inout JSONWriter) {
        json.member("dry_run", isDry)
        json.member("checked", checked)
        json.member("repaired", rebuilt)
        json.member("partial", partial)
        json.member("kept", kept)
        json.member("impossible", impossible)
        json.member("transfers", transfers)
        json.member("purchases", objects: listed) { RepairText.write($0, into: &$1) }
        json.member("failed", objects: failures) { failure, json in
            json.member("id", failure.purchase.hex)
            json.member("explanation", failure.reason)
        }
    }
}

/// Writes what was found of a purchase.
enum RepairText {
    /// - Returns: nil if there is nothing to say.
    static func render(_ outcome: Repair.Outcome, of purchase: Identifier, isDry: Bool) -> String? {
        switch outcome {
        case .checked(let report) where report.isWorthListing: render(report, isDry: isDry)
        case .failed(let reason): "\(purchase.hex): could not be checked: \(reason)"
        case .checked, .unknown: nil
        }
    }

    static func render(_ report: RepairReport, isDry: Bool) -> String {
        let place = [report.source, report.app, report.environment].filter { !$0.isEmpty }.joined(separator: ", ")
        var lines = ["\(report.key) (\(place)): \(outcome(report, isDry))"]
        if report.verdict == .rebuilt || report.verdict == .leftUnchanged {
            lines += report.missing.map { "  missing: \($0.rawValue)" }
        }
        for change in report.access {
            let word = change.after ? "has access" : "has no access"
            lines.append("  \(change.holder.storageKey) \(isDry ? "\(word) then" : "\(word) now")")
        }
        for transfer in report.transfers {
            lines.append(
                "  never announced: \(transfer.id), \(transfer.from.storageKey) to \(transfer.to.storageKey), "
                    + "ordinal \(transfer.ordinal)")
        }
        if !report.waiting.isEmpty, report.wasReadable || report.verdict == .rebuilt {
            let ids = report.waiting.map(String.init).joined(separator: " ")
            lines.append("  \(report.waiting.count) in quarantine: posthouse quarantine retry \(ids)")
        }
        return lines.map(PlainText.harmless).joined(separator: "\n")
    }

    private static func outcome(_ report: RepairReport, _ isDry: Bool) -> String {
        let isOne = report.webhooks == 1
        let webhooks = isOne ? "one stored webhook" : "\(report.webhooks) stored webhooks"
        switch report.verdict {
        case .sound: return "nothing to repair, by \(webhooks)"
        case .leftUnchanged: return "differs from what \(webhooks) \(isOne ? "gives" : "give"), and stays as it is"
        case .impossible(let reason): return reason
        case .rebuilt:
            let what = report.wasReadable ? "differed" : "could not be read"
            let word = isDry ? "would be rebuilt" : "rebuilt"
            return "\(word) from \(webhooks)\(report.isPartial ? ", partial" : ""): its state \(what)"
        }
    }

    static func write(_ report: RepairReport, into json: inout JSONWriter) {
        json.member("purchase", report.key)
        json.member("id", report.purchase.hex)
        json.member("source", report.source)
        json.member("app", report.app)
        json.member("environment", report.environment)
        json.member("store", report.store)
        json.member("result", word(report.verdict))
        if case .impossible(let reason) = report.verdict { json.member("explanation", reason) }
        json.member("readable", report.wasReadable)
        json.member("partial", report.isPartial)
        json.member("missing", strings: report.missing.map(\.rawValue))
        json.member("webhooks", report.webhooks)
        json.member("access", objects: report.access) { change, json in
            json.member("holder", change.holder.storageKey)
            json.member("before", change.before)
            json.member("after", change.after)
        }
        json.member("never_announced", objects: report.transfers) { transfer, json in
            json.member("transfer", transfer.id)
            json.member("from", transfer.from.storageKey)
            json.member("to", transfer.to.storageKey)
            json.member("ordinal", transfer.ordinal)
        }
        json.key("quarantine")
        json.array { json in for id in report.waiting { json.integer(id) } }
    }

    private static func word(_ verdict: RepairReport.Verdict) -> String {
        switch verdict {
        case .sound: "sound"
        case .leftUnchanged: "kept"
        case .rebuilt: "repaired"
        case .impossible: "impossible"
        }
    }
}
