import ArgumentParser
import Configuration
import Glibc
import Inbound
import JSONText
import Ledger
import Observing
import Postgres
import Systemd
import Vocabulary

struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Check the configuration; print every error at once.",
        discussion: """
            Where the database answers, it also warns of sources that have events there under a name that the file
            does not have any more, of a changed account_token, account_id or user_key, by which the newest webhooks
            would name others, and of settings of a PostgreSQL of your own that cost much. Before an upgrade from a
            version that did not end access by the clock, it counts the holders who are answered differently from then
            on. As root it also warns of credentials that the unit does not hand over and of files that the daemon's
            user cannot read. Exits 0 if the daemon could run by it (warnings allowed), 78 if not.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption

    func run() async throws {
        let outcome = ConfigurationFile.load(path: file.path, purpose: .check, libraries: .ofDaemon)
        var warnings = await DaemonsView.warnings(outcome, path: file.path)
        if outcome.errors.isEmpty, let checked = outcome.configuration {
            warnings += eventNameWarnings(checked.sources) + StoreClients.problems(in: checked)
            warnings += moveWarnings(checked)
            warnings += await databaseWarnings(checked)
        }
        if Self.isOfReload, !outcome.outside.credentials.isEmpty, let systemd = await UnitExamination.version(),
            !Systemctl.reloadHandsOver(systemd)
        {
            warnings.append(Self.handsOverAtStart(systemd))
        }
        if output.json {
            Terminal.print { write(outcome, warnings, into: &$0) }
        } else {
            Terminal.printToStandardError(
                outcome, and: warnings.map { PlainText.harmless("\(file.path): warning: \($0)") })
        }
        if !outcome.errors.isEmpty, Self.isOfReload {
            // The daemon is not notified of this reload, so the entry that explains it is written here.
            Observatory.Destination.journal.log(.reloadRefused(reason: outcome.errorLine), at: ThisProcess.now())
        }
        guard outcome.errors.isEmpty, let checked = outcome.configuration else { throw Exit.configuration }
        guard !output.json else { return }
        let counts = [(checked.sources.count, "source"), (checked.integrations.count, "integration")]
            .map { "\($0.0) \($0.1)\($0.0 == 1 ? "" : "s")" }
        Terminal.print("\(file.path): fine (\(counts.joined(separator: ", ")))")
    }

    /// Whether this is the unit's ExecReload=: systemd sets MAINPID for such commands alone (systemd.exec(5)).
    private static var isOfReload: Bool { Terminal.errorIsJournal && getenv("MAINPID") != nil }

    /// Without it such a reload would succeed, and the secret before stay in use, without a word.
    private static func handsOverAtStart(_ systemd: String) -> String {
        "\(systemd) hands credentials over when the daemon starts, not with a reload: a secret that was stored or "
            + "replaced since then needs systemctl restart posthouse, which refuses no webhook"
    }

    /// Warns of misspelled default names, which would leave the platform's renamed event without its meaning.
    private func eventNameWarnings(_ sources: [Source]) -> [String] {
        sources.flatMap { source in
            let known = Set(SourceAdapters.adapter(for: source.kind).knownEventNames)
            return source.renamedEvents.sorted(by: { $0.key < $1.key }).filter { !known.contains($0.value) }.map {
                "event_names of source \(source.name): \"\($0.key)\" means \"\($0.value)\", which is none of the "
                    + "platform's default names"
            }
        }
    }

    /// Warns of a private cluster whose ledger was moved: `serve` refuses it.
    private func moveWarnings(_ configuration: Configuration) -> [String] {
        guard configuration.database.usesPrivateCluster else { return [] }
        do {
            try EmbeddedLedger.refuseIfMoved(configuration.embedded.directory)
            return []
        } catch {
            return ["\(error)"]
        }
    }

    /// What only the database knows; nothing where it does not answer.
    private func databaseWarnings(_ configuration: Configuration) async -> [String] {
        guard let settings = try? DatabaseAccess.forCommand(configuration) else { return [] }
        let names = configuration.sources.map(\.name)
        let isOwn = !configuration.database.usesPrivateCluster
        let naming = configuration.sources.filter { $0.settings.naming != nil }
        let found = try? await DatabaseAccess.withPool(settings) { pool in
            // Each by itself: one may fail because before an upgrade the database lacks what this version reads, or
            // because it takes too long.
            (
                vanished: (try? await SourceNames.vanished(besides: names, in: pool)) ?? [],
                changes: await endsUpgrade(configuration, in: pool),
                advice: isOwn ? (try? await ServerAdvice.lines(in: pool)) ?? [] : [],
                recorded: (try? await RecordedHolders.newest(of: naming.map(\.name), in: pool)) ?? []
            )
        }
        return (found?.vanished ?? []).map(vanishedSourceWarning)
            + NamingWarning.lines(of: naming, recorded: found?.recorded ?? [])
            + (found?.changes ?? []) + (found?.advice ?? []).map { "the database has \($0)" }
    }

    /// How many holders an upgrade answers differently; nothing once it is done.
    private func endsUpgrade(_ configuration: Configuration, in pool: Pool) async -> [String] {
        do {
            return try await TimedAccessUpgrade.changes(leeways: Leeways(configuration.sources), in: pool).map {
                change in
                "source \(change.source): after the upgrade \(change.holders) holders in \(change.environment) are "
                    + "answered as without access, because the end of their purchase and the `leeway` have passed and "
                    + "no webhook says what became of it; `leeway = \"off\"` keeps the answers"
            }
        } catch {
            // Only a ledger of a version before has any. A database that does not answer says nothing of that.
            guard let schema = try? await SchemaVersion.read(from: pool), let version = schema.database,
                version < schema.program
            else { return [] }
            return ["it could not be counted how many holders the upgrade answers as without access: \(error)"]
        }
    }

    /// A renamed source counts as another one: its purchases begin anew, and a webhook that comes twice is delivered
    /// twice.
    private func vanishedSourceWarning(_ name: String) -> String {
        "the database has webhooks of a source \"\(name)\", which the file does not name; "
            + "if it was renamed, give it its old name: a name is part of every key"
    }

    private func write(_ outcome: LoadOutcome, _ warnings: [String], into json: inout JSONWriter) {
        json.member("file", file.path)
        json.member("usable", outcome.errors.isEmpty && outcome.configuration != nil)
        json.member("sources", outcome.configuration?.sources.count)
        json.member("integrations", outcome.configuration?.integrations.count)
        let findings: [(Diagnostic.Severity, span: Span?, message: String)] =
            outcome.diagnostics.map { ($0.severity, $0.span, $0.message) } + warnings.map { (.warning, nil, $0) }
        json.member("findings", objects: findings) { finding, json in
            json.member("severity", finding.0.rawValue)
            json.member("line", finding.span?.line)
            json.member("column", finding.span?.column)
            json.member("message", finding.message)
        }
    }
}
