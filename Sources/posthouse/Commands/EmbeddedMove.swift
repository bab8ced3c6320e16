import ArgumentParser
import Cluster
import Configuration
import Glibc
import JSONText
import Ledger
import Postgres
import Synchronization
import Vocabulary

/// `migrate --from-embedded`: moves the private cluster's ledger into the database that `[database] url` names.
/// Ledger's LedgerMove makes it all or nothing; this type starts and marks the cluster, and prints the outcome.
struct EmbeddedMove {
    /// A whole table is counted in one statement.
    private static let statementTimeout: Duration = .seconds(3_600)

    let configuration: Configuration
    let isDry: Bool
    let output: OutputOption
    private let target: ConnectionSettings
    /// By `[database] url`, where the target is reached by `direct_url`.
    private let use: ConnectionSettings?
    private var directory: String { configuration.embedded.directory }

    init(_ configuration: Configuration, isDry: Bool, output: OutputOption) throws {
        guard !configuration.database.usesPrivateCluster else {
            throw OperatorError(
                "[database] url is not set: let it name the database that the ledger is to move into",
                code: Exit.configuration)
        }
        self.configuration = configuration
        self.isDry = isDry
        self.output = output
        // Where there is a url, no private cluster is looked for.
        let others = try DatabaseAccess.forCommand(configuration)
        let url: String?
        switch try DirectConnection.forCommand(configuration) {
        case .none: throw OperatorError(DirectConnection.needed)
        case .sameAsOthers: (url, use) = (DatabaseAccess.url(configuration), nil)
        case .by: (url, use) = (configuration.database.directURL?.text, others)
        }
        target = try DatabaseAccess.settings(
            url ?? "", statementTimeout: Self.statementTimeout,
            idleTransactionTimeout: Self.statementTimeout, schema: configuration.database.schema)
    }

    /// Runs the move and ends it in good order on a signal: the server that it started must not stay behind.
    func run() async throws {
        let isStopped = Flag()
        let signals = Signals.stream([SIGINT, SIGTERM, SIGHUP])
        let work = Task { try await run(goesOn: { !isStopped.isRaised }) }
        let watch = Task {
            for await _ in signals {
                isStopped.raise()
                // Copying checks the flag; cancelling ends the start of the cluster.
                work.cancel()
            }
        }
        defer { watch.cancel() }
        try await work.value
    }

    private func run(goesOn: @escaping @Sendable () -> Bool) async throws {
        let mark = ClusterMove.read(in: directory)
        if let mark, mark.stage == .moved { return try reportMoved(mark) }
        if let mark, mark.target != target.description {
            throw OperatorError(
                """
                a move to another database (\(mark.target)) was cut short as it was being committed: let [database] url \
                name that one and run this again, or, if it is gone, remove \(ClusterMove.path(in: directory))
                """)
        }
        guard PrivateCluster.exists(in: directory) else {
            throw OperatorError(
                """
                there is no private cluster in \(directory), or this user may not look into it: run this as root or as \
                its user; [embedded] directory or STATE_DIRECTORY says where it is
                """)
        }
        let cluster = try await startCluster()
        let outcome: LedgerMove.Outcome
        do {
            outcome = try await move(cluster, isMarked: mark != nil, goesOn: goesOn)
        } catch {
            Terminal.showStage(nil)
            await cluster.stop()
            throw error
        }
        await cluster.stop()
        // The last: standard output that cannot be written ends this process.
        report(outcome)
    }

    private func startCluster() async throws -> PrivateCluster {
        Terminal.showStage("starting the private PostgreSQL cluster in \(directory)")
        defer { Terminal.showStage(nil) }
        do {
            return try await PrivateCluster.start(directory: directory) { observation in
                if case .warning(let text) = observation { Terminal.printToStandardError("posthouse: \(text)") }
            }
        } catch .inUse(let directory, let holder) {
            throw OperatorError(
                """
                a daemon keeps the private cluster in \(directory) (\(holder)): stop it first \
                (systemctl stop posthouse.socket posthouse)
                """)
        } catch .cancelled {
            throw OperatorError("given up; nothing was moved")
        }
    }

    private func move(
        _ cluster: PrivateCluster, isMarked: Bool, goesOn: @escaping @Sendable () -> Bool
    ) async throws -> LedgerMove.Outcome {
        let source = try DatabaseAccess.settings(
            cluster.connectionString, statementTimeout: Self.statementTimeout,
            idleTransactionTimeout: Self.statementTimeout)
        let move = LedgerMove(
            from: source, to: target, usedBy: use, isDeclared: configuration.database.durability == .declared)
        let outcome: LedgerMove.Outcome
        var migrated = ""
        do {
            if isDry {
                outcome = try await move.look(isMarked: isMarked)
            } else {
                let (from, to) = try await DatabaseAccess.prepare(source)
                if from != to { migrated = " (the schema of the private cluster was brought from \(from) to \(to))" }
                outcome = try await marked(move, isMarked: isMarked, goesOn: goesOn)
            }
        } catch let failure as MoveFailure {
            throw Self.problem(failure, migrated)
        }
        Failpoint.reach(.moveAfterCommit)
        Terminal.showStage(nil)
        if !isDry {
            // First: once it is marked as moved, nobody comes here again.
            try SpoolLedger.forget(configuration.spool.directory)
            try mark(.moved)
        }
        return outcome
    }

    /// Runs the move and marks the cluster. The mark stays while it is not known whether the move was committed.
    private func marked(
        _ move: LedgerMove, isMarked: Bool, goesOn: @escaping @Sendable () -> Bool
    ) async throws -> LedgerMove.Outcome {
        let isWritten = Flag()
        do {
            return try await move.run(
                isMarked: isMarked,
                beforeCommit: {
                    do {
                        try mark(.moving)
                        isWritten.raise()
                        return nil
                    } catch {
                        return "\(error)"
                    }
                },
                goesOn: { stage in
                    Self.show(stage)
                    return goesOn()
                })
        } catch {
            if case .target(.commitUnknown) = error { throw error }
            guard error.provesAbsence || isWritten.isRaised else { throw error }
            do {
                try ClusterMove.remove(in: directory)
            } catch let second {
                // Why the move failed matters more; a mark that stays is found by the next call.
                Terminal.printToStandardError("posthouse: \(second)", .error)
            }
            throw error
        }
    }

    private func mark(_ stage: ClusterMove.Stage) throws(ClusterError) {
        try ClusterMove(stage, at: ThisProcess.now().iso8601, to: target.description).write(in: directory)
    }

    private static func show(_ stage: LedgerMove.Stage) {
        switch stage {
        case .copying(let table, let done, let total):
            Terminal.showStage("copying \(table): \(done) of \(total) rows")
        case .comparing(let table): Terminal.showStage("counting \(table)")
        case .committing: Terminal.showStage("committing")
        }
    }

    /// - Parameter migrated: a text that says what was changed nevertheless.
    private static func problem(_ failure: MoveFailure, _ migrated: String) -> OperatorError {
        switch failure {
        case .target(.commitUnknown): return OperatorError("\(failure)", code: Exit.unavailable)
        case .target(let error) where error.isConnectionLevel:
            let hint = DatabaseAccess.peerHint(ThisProcess.transientUnit())
            return OperatorError(
                """
                \(failure); nothing was moved\(migrated); see that PostgreSQL runs and that [database] url is \
                right\(hint)
                """, code: Exit.unavailable)
        default: return OperatorError("\(failure); nothing was moved\(migrated)")
        }
    }
}

// MARK: What is said of it

extension EmbeddedMove {
    private func reportMoved(_ mark: ClusterMove) throws {
        guard mark.target == target.description else {
            throw OperatorError(
                """
                the private cluster in \(directory) was moved at \(mark.at), but to \(mark.target), not to \
                \(target.description), which [database] url names: from there on it is PostgreSQL's to move (pg_dump)
                """)
        }
        if output.json { return Terminal.print { members(&$0, "already", at: mark.at, []) } }
        Terminal.print("the private cluster in \(directory) was moved already, at \(mark.at), to \(mark.target)")
    }

    private func report(_ outcome: LedgerMove.Outcome) {
        switch outcome {
        case .moved(let tables):
            if output.json { return Terminal.print { members(&$0, isDry ? "no" : "now", at: nil, tables) } }
            Terminal.print(Self.table(of: tables))
            let rows = tables.reduce(0) { $0 + $1.rows }
            Terminal.print(
                isDry
                    ? "\nwould move \(rows) rows from \(directory) to \(target); nothing prevents it"
                    : "\nmoved \(rows) rows from \(directory) to \(target), and counted them again there")
        case .found(let tables, let time):
            if output.json { return Terminal.print { members(&$0, "already", at: time.iso8601, tables) } }
            Terminal.print(
                "an earlier call moved it at \(time.iso8601) to \(target) and was cut short after its commit")
        }
        guard !isDry else { return }
        Terminal.print(
            "the private cluster stays as it was, marked as moved; start the daemon: systemctl start posthouse")
    }

    /// - Parameter moved: `now`, `already`, or `no` (a dry run).
    private func members(
        _ json: inout JSONWriter, _ moved: String, at time: String?, _ tables: [LedgerMove.Table]
    ) {
        json.member("from", directory)
        json.member("to", target.description)
        json.member("dry_run", isDry)
        json.member("moved", moved)
        json.member("moved_at", time)
        json.key("tables")
        json.object { json in for table in tables { json.member(table.name, table.rows) } }
    }

    private static func table(of tables: [LedgerMove.Table]) -> Table {
        var out = Table([.init(title: "TABLE"), .init(title: "ROWS", isNumber: true)])
        for table in tables where table.rows > 0 { out.rows.append([.init(table.name), .init("\(table.rows)")]) }
        return out
    }
}

/// A flag that stays raised.
private final class Flag: Sendable {
    private let value = Atomic(false)

    var isRaised: Bool { value.load(ordering: .relaxed) }

    func raise() { value.store(true, ordering: .relaxed) }
}
