import ArgumentParser
import Configuration
import JSONText
import Ledger
import Observing
import Postgres
import Vocabulary

struct EraseCommand: AsyncParsableCommand {
    /// How long to wait for deliveries that a daemon has in hand, and for webhooks of the person that come meanwhile:
    /// one attempt may last as long as its time-out.
    private static let timeout: Duration = .seconds(60)
    private static let pause: Duration = .milliseconds(500)

    static let configuration = CommandConfiguration(
        commandName: "erase", abstract: "Erase one person's data from the database, and prove it.",
        discussion: """
            Webhooks, messages, deliveries, purchases, transfers, links and mentions elsewhere, of a user and of the \
            anonymous ids known to be that user. What waits of the person is given up and sent to nobody. A late \
            duplicate of an erased webhook is still recognised, by a salted hash. Erase the person at the platform \
            first: an event that it sends afterwards is stored as a new one. It ends by looking through the whole \
            database again, and exits 1 if anything is left, or if webhooks wait in this machine's spool. The journal, \
            backups, other machines' spools and what was delivered are not in the database.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Option(help: "The user, with the anonymous ids that are known to be it.") var user: String?
    @Option(help: "One anonymous user.") var anonymous: String?
    @Option(help: "Only of this source.", completion: NameCompletion.sources) var source: String?
    @Flag(help: "Print only what would be erased; change nothing.") var dryRun = false

    func validate() throws {
        guard (user == nil) != (anonymous == nil) else {
            throw ValidationError("say whose data: exactly one of --user ID and --anonymous ID (try it with --dry-run)")
        }
        guard user != "", anonymous != "" else { throw ValidationError("an id has at least one character") }
    }

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            try await LedgerCommand.requireSource(source, configuration, in: pool)
            let holder = user.map { Holder.user($0) } ?? .anonymous(anonymous ?? "")
            let erasure = try await Erasure.start(holder, source: source, isDry: dryRun, in: pool)
            for install in erasure.sharedInstalls {
                let text = """
                    anonymous id \(install.id) is known to be somebody else, too: what is stored under it stays, without \
                    the user's name; posthouse erase --anonymous \(install.id) erases it
                    """
                Terminal.printToStandardError(PlainText.harmless(text))
            }
            let end = ContinuousClock.now + Self.timeout
            if !dryRun, erasure.holders.count > 1 {
                // What leads to the others is erased before the last stage, and nobody would find them again.
                let names = erasure.holders.map(\.storageKey).joined(separator: ", ")
                Terminal.printToStandardError(
                    PlainText.harmless("erasing \(names): if it is cut off, run it again for each of them"))
            }
            var done = try await erase(erasure, in: pool)
            var left: Erasure.Tally?
            while !dryRun, done.isComplete {
                left = try await erasure.proof.run(in: pool) { Self.show("proof", $0) }
                // Something came meanwhile. Here its anonymous ids are still known: what linked them is erased.
                if left?.total == 0 || ContinuousClock.now >= end { break }
                done.add(try await erase(erasure, in: pool))
            }
            // After the proof, so that no webhook that comes during these minutes keeps anything from being erased.
            let warning = left?.total == 0 ? await Self.reanalyze(erasure, in: pool) : nil
            Self.show("", nil)
            report(erasure, done, left: left)
            if let warning { Terminal.printToStandardError(PlainText.harmless(warning)) }
            // What led to its other ids may be erased by now.
            let again =
                (["run it again"]
                + erasure.holders.dropFirst().filter(\.isAnonymous).map {
                    "--anonymous \($0.id)"
                }).joined(separator: ", also with ")
            if done.inHand > 0, !dryRun {
                throw OperatorError(
                    "\(done.inHand) deliveries are still leased by a daemon: pause their integration if they stay; "
                        + again)
            }
            if done.isMoving {
                throw OperatorError(
                    "a webhook moves purchases from or to this person, and not all are moved yet: the daemon goes on with "
                        + "it while its source is configured (posthouse status); \(again)")
            }
            if done.isOvertaken { throw OperatorError("webhooks of this person keep coming: \(again)") }
            if let left, left.total > 0 {
                throw OperatorError("the id was stored again in \(left.total) places since; \(again)")
            }
            if !dryRun { try Self.requireEmptySpool(configuration, of: file.path, again) }
        }
    }

    /// What waits on this machine's disk is not in the database yet, and may be the person's.
    private static func requireEmptySpool(
        _ configuration: Configuration, of file: String, _ again: String
    ) throws {
        let spool = SpoolState(configuration, of: file)
        guard spool.isVisible else { throw SpoolState.unreadable(configuration) }
        let count = spool.files.count + spool.damaged.count
        guard count > 0 || !spool.unreadable.isEmpty || !spool.former.isEmpty else { return }
        throw OperatorError(
            """
            this machine's spool (\(configuration.spool.directory)), or that of an earlier start, is not empty, or not \
            all of it can be read, and webhooks in it may be of this person; once posthouse spool shows none, \(again)
            """)
    }

    private func erase(_ erasure: Erasure, in pool: Pool) async throws -> Erasure.Tally {
        let end = ContinuousClock.now + Self.timeout
        var sum = Erasure.Tally()
        while true {
            let tally = try await erasure.run(in: pool) { Self.show("erasing", $0) }
            sum.add(tally)
            if dryRun || tally.isComplete || ContinuousClock.now >= end { return sum }
            try await Task.sleep(for: Self.pause)
        }
    }

    /// Replaces PostgreSQL's samples of values. All else is erased by then, so no failure of it ends the command.
    /// - Returns: what to say of those that are left; nil: there are none.
    private static func reanalyze(_ erasure: Erasure, in pool: Pool) async -> String? {
        show("erasing", "statistics")
        let left: [Erasure.Unsampled]
        do throws(DatabaseError) {
            left = try await erasure.reanalyze(in: pool)
        } catch {
            return """
                PostgreSQL's samples of values (pg_stats) could not be searched for the person: \(error); run ANALYZE \
                as the owner of the tables
                """
        }
        if left.isEmpty { return nil }
        let tables = left.map { $0.table + ($0.failure.map { " (\($0))" } ?? "") }.joined(separator: ", ")
        return """
            PostgreSQL's samples of values (pg_stats) may still name the person in \(tables): run ANALYZE of these \
            tables as their owner; if one, or a partition of it, is empty, wait until it has rows
            """
    }

    private static func show(_ what: String, _ stage: String?) {
        Terminal.showStage(stage.map { "\(what): \($0)" })
    }

    private func report(_ erasure: Erasure, _ done: Erasure.Tally, left: Erasure.Tally?) {
        if output.json {
            return Terminal.print { json in
                json.member("holders", strings: erasure.holders.map(\.storageKey))
                json.member("source", source)
                json.member("dry_run", dryRun)
                for (name, count) in done.parts { json.member(name, count) }
                json.member("in_hand", done.inHand)
                json.member("moving", done.isMoving)
                json.member("overtaken", done.isOvertaken)
                json.member("shared", strings: erasure.sharedInstalls.map(\.storageKey))
                json.member("left", left?.total)
            }
        }
        let names = erasure.holders.map(\.storageKey).joined(separator: ", ")
        let stored = done.parts.filter { _, count in count > 0 }
        let parts = stored.map { name, count in "\(name) \(count)" }.joined(separator: ", ")
        guard !parts.isEmpty else {
            return Terminal.print(
                PlainText.harmless("nothing is \(done.isComplete ? "stored" : "erased yet") of \(names)"))
        }
        Terminal.print(PlainText.harmless("\(dryRun ? "would be erased" : "erased") of \(names): \(parts)"))
        if let left, left.total == 0 { Terminal.print("searched again: nothing is left") }
    }
}

extension Erasure.Tally {
    fileprivate var parts: [(String, Int)] {
        [
            ("events", events), ("messages", messages), ("deliveries", deliveries), ("purchases", purchases),
            ("records", records), ("mentions", mentions), ("quarantined", quarantined),
        ]
    }

    /// Whether no stage was skipped.
    fileprivate var isComplete: Bool { inHand == 0 && !isOvertaken && !isMoving }

    /// Adds a later round. What was skipped is that of the last round.
    fileprivate mutating func add(_ other: Erasure.Tally) {
        events += other.events
        messages += other.messages
        deliveries += other.deliveries
        purchases += other.purchases
        records += other.records
        mentions += other.mentions
        quarantined += other.quarantined
        inHand = other.inHand
        isOvertaken = other.isOvertaken
        isMoving = other.isMoving
    }
}
