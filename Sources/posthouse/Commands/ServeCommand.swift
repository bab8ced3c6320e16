import ArgumentParser
import Cluster
import Configuration
import Front
import Glibc
import Ledger
import Observing
import Postgres
import Systemd
import Vocabulary

struct ServeCommand: AsyncParsableCommand {
    /// How long the start waits for a database that does not answer yet.
    private static let databasePatience: Duration = .seconds(60)

    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Run the relay in the foreground.",
        discussion: "Ends cleanly on SIGTERM or SIGINT: what is under way is finished, settled and given back.")

    @OptionGroup var file: ConfigurationOption

    func run() async throws {
        signal(SIGPIPE, SIG_IGN)
        let outcome = ConfigurationFile.load(path: file.path, purpose: .serve)
        guard let configuration = outcome.configuration, outcome.errors.isEmpty else {
            if Terminal.errorIsJournal { Self.tellFailure(outcome.errorLine) } else { Terminal.complain(outcome) }
            throw Exit.configuration
        }
        try await Terminal.reporting(by: Self.tellFailure) { try await serve(configuration) }
    }

    /// A start that failed is an entry of its own kind, at a priority that is looked for, and explained.
    private static func tellFailure(_ reason: String) {
        guard Terminal.errorIsJournal else { return Terminal.complain("posthouse: \(reason)") }
        Observatory.Destination.journal.tell(.startFailed(reason: reason), at: ThisProcess.now())
    }

    private func serve(_ configuration: Configuration) async throws {
        // Before anything else is opened or started: the variables speak of this process and of these numbers.
        let listeners = try Listeners(configuration.server, inherited: ListenFds.take())
        let signals = Signals.stream([SIGTERM, SIGINT, SIGHUP])
        let observatory = try Observatory(
            version: Posthouse.version, destination: .detected(),
            detailPerSecond: configuration.journal.detailPerSecond,
            queueEntriesMax: Limits.journalQueueEntriesMax)
        defer { observatory.close() }
        let observe = observatory.observer
        let cluster = try await Self.cluster(configuration, observe)
        do {
            try await serve(
                configuration, listeners: listeners, cluster: cluster, signals: signals, observatory: observatory)
        } catch {
            await cluster?.stop()
            throw error
        }
        await cluster?.stop()
    }

    private func serve(
        _ configuration: Configuration, listeners: Listeners, cluster: PrivateCluster?,
        signals: AsyncStream<Int32>, observatory: Observatory
    ) async throws {
        let observe = observatory.observer
        let target = cluster?.connectionString ?? DatabaseAccess.url(configuration) ?? ""
        let settings = try DatabaseAccess.settings(target, statementTimeout: configuration.database.statementTimeout)
        let (from, to) = try await prepare(settings, observe)
        if from != to { observe(.migrated(from: from, to: to)) }
        let relay: Relay
        do {
            relay = try await Relay(
                configuration: configuration, settings: settings, listeners: listeners, observatory: observatory)
        } catch let error as DatabaseError where error.isConnectionLevel || error.isRetryable {
            // Lost, or locked by somebody, since the check. Nothing was begun: the unit starts it again.
            throw DatabaseAccess.unreachable(error, file.path)
        }
        observe(.ready(listen: relay.listens))
        _ = Notify.ready(status: "serving \(relay.listens)")
        let check = Task { await SelfCheck(relay: relay).run() }
        #if DEBUG
            let failpoints = Task { await SignalledFailpoints.run(relay) }
            defer { failpoints.cancel() }
        #endif
        let cause = await obey(signals, relay)
        check.cancel()
        observe(.stopping(reason: cause == SIGINT ? "SIGINT" : "SIGTERM"))
        _ = Notify.stopping(status: "finishing what is under way")
        if let cut = await relay.stop(within: Limits.drainTimeout) {
            observe(.stopped(inFlight: cut))
        } else {
            observe(
                .warning("no answer of the database in \(Limits.drainTimeout): stopped without giving leases back"))
        }
    }

    private static func cluster(
        _ configuration: Configuration, _ observe: @escaping Observer
    ) async throws -> PrivateCluster? {
        guard configuration.database.usesPrivateCluster else {
            try await EmbeddedLedger.refuseIfUnsettled(configuration.embedded.directory, observe)
            return nil
        }
        try EmbeddedLedger.refuseIfMoved(configuration.embedded.directory)
        _ = Notify.status("starting the private PostgreSQL cluster in \(configuration.embedded.directory)")
        return try await PrivateCluster.start(directory: configuration.embedded.directory, observe: observe)
    }

    /// A database that starts beside us may need a moment; one that is set wrongly does not get better.
    private func prepare(
        _ settings: ConnectionSettings, _ observe: @escaping Observer
    ) async throws -> (from: Int, to: Int) {
        let deadline = ContinuousClock.Instant.now + Self.databasePatience
        var pause = Limits.reconnectBackoff.lowerBound
        while true {
            do {
                return try await DatabaseAccess.prepare(settings)
            } catch let error as DatabaseError where error.isConnectionLevel {
                guard ContinuousClock.Instant.now < deadline else {
                    throw DatabaseAccess.unreachable(error, file.path)
                }
                _ = Notify.status("waiting for the database: \(error)")
                if pause == Limits.reconnectBackoff.lowerBound { observe(.databaseLost(reason: "\(error)")) }
                try await Task.sleep(for: pause)
                pause = min(pause * 2, Limits.reconnectBackoff.upperBound)
            }
        }
    }
}
