import ArgumentParser
import Cluster
import Configuration
import Glibc
import Linux
import Observing
import Systemd
import Vocabulary

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Run the relay in the foreground.",
        discussion: """
            Ends cleanly on SIGTERM or SIGINT: what is under way is finished, settled and given back; a start is given up.
            """)

    @OptionGroup var file: ConfigurationOption

    func run() async throws {
        signal(SIGPIPE, SIG_IGN)
        let outcome = ConfigurationFile.load(path: file.path, purpose: .serve, libraries: .ofDaemon)
        guard let configuration = outcome.configuration, outcome.errors.isEmpty else {
            if !Terminal.errorIsJournal { Terminal.printToStandardError(outcome) }
            Self.logFailure(outcome.errorLine, .detected(format: nil))
            throw Exit.configuration
        }
        let destination = Observatory.Destination.detected(format: configuration.journal.format)
        func report(_ reason: String) {
            if !Terminal.errorIsJournal { Terminal.printToStandardError("posthouse: \(reason)") }
            Self.logFailure(reason, destination)
        }
        try await Terminal.reporting(by: report) { try await serve(configuration, destination) }
    }

    /// Logs a failed start as an entry of its own kind, with an error's priority and an explanation in the catalogue.
    /// Standard error, which logfmt goes to, has said it already, in a person's words.
    private static func logFailure(_ reason: String, _ destination: Observatory.Destination) {
        if destination == .logfmt { return }
        destination.log(.startFailed(reason: reason), at: ThisProcess.now())
    }

    private func serve(_ configuration: Configuration, _ destination: Observatory.Destination) async throws {
        // Before anything else is opened or started: the variables refer to this process and these descriptor numbers.
        let listeners = try Listeners(configuration.server, inherited: ListenFds.take())
        Descriptors.raiseLimit(to: Limits.descriptorsMax)
        let signals = Signals.stream([SIGTERM, SIGINT, SIGHUP])
        let observatory = try Observatory(
            version: Posthouse.version, destination: destination,
            detailPerSecond: configuration.journal.detailPerSecond,
            queueEntriesMax: Limits.journalQueueEntriesMax)
        defer { observatory.close() }
        let (later, forward) = AsyncStream<Int32>.makeStream()
        guard
            let running = try await start(
                configuration, listeners: listeners, observatory: observatory, signals: signals, later: forward)
        else { return }
        let end = await serve(running, signals: later, observatory.observer)
        if let cluster = running.cluster {
            // Its checkpoint may take longer than TimeoutStopSec=, after which systemd would kill it.
            let extending = Self.extendTimeout()
            defer { extending.cancel() }
            await cluster.stop()
        }
        // The unit starts it anew.
        if case .failure = end { throw ExitCode.failure }
    }

    private func serve(_ running: Running, signals: AsyncStream<Int32>, _ observe: Observer) async -> End {
        let relay = running.relay
        observe(.ready(listen: relay.listens))
        _ = Notify.ready(status: "serving \(relay.listens)")
        let check = Task { await SelfCheck(relay: relay).run() }
        #if DEBUG
            let failpoints = Task { await SignalledFailpoints.run(relay) }
            defer { failpoints.cancel() }
        #endif
        let end = await handle(signals, relay)
        check.cancel()
        switch end {
        case .signal(let signal): observe(.stopping(reason: Self.name(of: signal)))
        case .failure(let reason):
            observe(.warning(reason))
            observe(.stopping(reason: "to be started anew"))
        }
        _ = Notify.stopping(status: "finishing what is under way")
        if let cut = await relay.stop(within: Limits.drainTimeout) {
            observe(.stopped(inFlight: cut))
        } else {
            observe(
                .warning("no answer of the database in \(Limits.drainTimeout): stopped without giving leases back"))
        }
        return end
    }
}
