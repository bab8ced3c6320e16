import HTTPServer
import Inbound
import Ledger
import Observing
import Postgres
import Spool
import Vocabulary

/// What answers where neither a webhook nor the API is asked for.
protocol OperationalPaths: Sendable {
    /// - Parameter servesAPI: whether the listener serves the API and the metrics, too.
    func admit(_ head: IncomingHead, servesAPI: Bool) -> Admission
    func respond(to request: IncomingRequest, with responder: Responder)
}

/// `/healthz` (the process works, `ProcessHealth`), `/readyz` (webhooks can be stored), `/metrics` (Prometheus).
struct Operations: OperationalPaths {
    let pool: Pool
    let reading: SlowReader<[QueueFigures]>
    let overdue: SlowReader<[OverdueFigures]>
    let registration: Registration
    let observatory: Observatory
    let recording: RecordFigures
    let health: RecordingHealth
    let recordQueue: RecordQueue
    let disk: DiskWatcher
    let spool: SpoolOpening
    /// Whether a configured source spools.
    let spools: Bool
    /// Names of the configured integrations.
    let integrations: Set<String>
    let sources: [String]

    func admit(_ head: IncomingHead, servesAPI: Bool) -> Admission {
        Self.admit(head, servesAPI: servesAPI, timeoutText: "the database did not answer in time")
    }

    /// - Parameter timeoutText: of the 503 where the answer takes too long.
    static func admit(_ head: IncomingHead, servesAPI: Bool, timeoutText: String) -> Admission {
        switch head.path {
        case "/healthz", "/readyz": break
        case "/metrics" where servesAPI: break
        default: return .refuse(.nothingHere)
        }
        guard head.method == "GET" || head.method == "HEAD" else { return .refuse(.wrongMethod("GET")) }
        return .accept(
            bodyBytesMax: 0, answerTimeout: Limits.acknowledgementTimeout,
            timeoutAnswer: .text(503, timeoutText + "\n"))
    }

    func respond(to request: IncomingRequest, with responder: Responder) {
        switch request.head.path {
        case "/healthz": responder.respond(ProcessHealth.ofThisProcess.answer)
        case "/readyz": responder.respond(readiness)
        default: Task { responder.respond(await metrics()) }
        }
    }

    /// Ready means that a connection is open, that a renewal of the lease was committed lately, and that the database
    /// did not refuse the last webhooks. Otherwise it is ready as long as the spool of a source has room.
    private var readiness: HTTPAnswer {
        guard let problem else { return .text(200, "ready\n") }
        return spools && spool.current?.hasRoom == true ? .spooling(problem) : .text(503, problem + "\n")
    }

    private var problem: String? {
        guard pool.isReachable else { return "the database is out of reach" }
        guard registration.mayStart else { return "the database has not committed lately" }
        // Without the cause: this page needs no token, and the journal has it.
        return health.refusal == nil ? nil : "the database refuses to store webhooks"
    }

    /// What is overdue, and 0 for every other configured source: an alert sees only what changes.
    private func all(_ overdue: [OverdueFigures]) -> [OverdueFigures] {
        let production = Source.usualEnvironment
        let known = Set(overdue.filter { $0.environment == production }.map(\.source))
        return overdue
            + sources.filter { !known.contains($0) }
            .map { OverdueFigures(source: $0, environment: production, active: 0, lapsed: 0) }
    }

    private func metrics() async -> HTTPAnswer {
        let figures = await reading.value
        // Not by the figures: of a long queue they take longer than a page waits.
        let databaseIsUp = pool.isReachable && registration.mayStart
        var counted: [OverdueFigures] = []
        if databaseIsUp, let overdue = await overdue.value { counted = all(overdue) }
        let recorded = recording.snapshot
        let gauges = Gauges(
            databaseIsUp: databaseIsUp,
            queues: (figures ?? []).map {
                Gauges.Queue(
                    integration: $0.integration, waiting: $0.waiting, oldestWaitingSeconds: $0.oldestSeconds,
                    deadLetters: $0.deadLetters, isPaused: $0.isPaused,
                    breakerIsOpen: $0.hasOpenBreaker(among: integrations))
            }, overdue: counted.map { Gauges.Overdue($0) },
            recording: Gauges.Recording(commits: recorded.commits, batches: recorded.batches),
            beingStored: recordQueue.depth, disk: disk.latest, spool: spool.current.map { Gauges.Spool($0.figures) })
        return .metrics(observatory.metricsPage(gauges: gauges))
    }
}

extension HTTPAnswer {
    static func metrics(_ page: String) -> HTTPAnswer {
        HTTPAnswer(
            status: 200, headers: [("content-type", "text/plain; version=0.0.4; charset=utf-8")],
            body: Array(page.utf8))
    }

    static let nothingHere = text(404, "there is nothing here; webhooks go to POST /ingest/NAME\n")

    /// Of `/readyz` while the spool takes what the database does not.
    static func spooling(_ problem: String) -> HTTPAnswer {
        .text(200, "\(problem); webhooks of sources that spool are kept\n")
    }
}

extension Gauges.Spool {
    /// By this machine's clock.
    init(_ figures: SpoolFigures) {
        let age = figures.oldestAt.map { ThisProcess.now().milliseconds - $0.milliseconds } ?? 0
        self.init(webhooks: figures.webhooks, bytes: figures.bytes, oldestSeconds: Double(max(0, age)) / 1_000)
    }
}

extension Gauges.Overdue {
    fileprivate init(_ figures: OverdueFigures) {
        self.init(
            source: figures.source, environment: figures.environment, active: figures.active, lapsed: figures.lapsed)
    }
}
