import HTTPServer
import Inbound
import Ledger
import Observing
import Postgres
import Vocabulary

/// `/healthz` (the process answers), `/readyz` (a webhook could be acknowledged now), `/metrics` (Prometheus).
struct Operations: Sendable {
    let pool: Pool
    let reading: FiguresReading
    let overdue: OverdueReading
    let registration: Registration
    let observatory: Observatory
    let recording: RecordFigures
    let health: RecordingHealth
    let recordQueue: RecordQueue
    let disk: DiskWatching
    /// Names of the configured integrations.
    let integrations: Set<String>
    let sources: [String]

    func admit(_ head: IncomingHead, showsMetrics: Bool) -> Admission {
        switch head.path {
        case "/healthz", "/readyz": break
        case "/metrics" where showsMetrics: break
        default: return .refuse(.text(404, "there is nothing here; webhooks go to POST /ingest/NAME\n"))
        }
        guard head.method == "GET" || head.method == "HEAD" else { return .refuse(.wrongMethod("GET")) }
        return .accept(
            bodyBytesMax: 0, answerTimeout: Limits.acknowledgementTimeout,
            timeoutAnswer: .text(503, "the database did not answer in time\n"))
    }

    func respond(to request: IncomingRequest, with responder: Responder) {
        switch request.head.path {
        case "/healthz": responder.respond(.text(200, "ok\n"))
        case "/readyz": responder.respond(readiness)
        default: Task { responder.respond(await metrics()) }
        }
    }

    /// Ready means that a connection is open, that a renewal of the lease was committed lately, and that the database
    /// did not refuse the last webhooks.
    private var readiness: HTTPAnswer {
        guard pool.isReachable else { return .text(503, "the database is out of reach\n") }
        guard registration.mayStart else { return .text(503, "the database has not committed lately\n") }
        // Without the cause: this page needs no token, and the journal has it.
        guard health.refusal == nil else { return .text(503, "the database refuses to store webhooks\n") }
        return .text(200, "ready\n")
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
        let figures = await reading.figures
        var counted: [OverdueFigures] = []
        if figures != nil, let overdue = await overdue.figures { counted = all(overdue) }
        let recorded = recording.snapshot
        let gauges = Gauges(
            databaseIsUp: figures != nil && registration.mayStart,
            queues: (figures ?? []).map {
                Gauges.Queue(
                    integration: $0.integration, waiting: $0.waiting, oldestWaitingSeconds: $0.oldestSeconds,
                    deadLetters: $0.deadLetters, isPaused: $0.isPaused,
                    breakerIsOpen: $0.hasOpenBreaker(among: integrations))
            }, overdue: counted.map { Gauges.Overdue($0) },
            recording: Gauges.Recording(commits: recorded.commits, batches: recorded.batches),
            beingStored: recordQueue.depth, disk: disk.latest)
        return HTTPAnswer(
            status: 200, headers: [("content-type", "text/plain; version=0.0.4; charset=utf-8")],
            body: Array(observatory.metricsPage(gauges: gauges).utf8))
    }
}

extension Gauges.Overdue {
    fileprivate init(_ figures: OverdueFigures) {
        self.init(
            source: figures.source, environment: figures.environment, active: figures.active, lapsed: figures.lapsed)
    }
}
