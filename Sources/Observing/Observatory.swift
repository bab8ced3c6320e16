internal import Glibc
package import Systemd
package import Vocabulary

/// Counts observations at once, and logs them from a thread of its own.
///
///     observe ─▶ Metrics (a striped lock)
///            └─▶ DetailLimiter (a lock) ─▶ JournalWriter (bounded) ─thread─▶ journald, or lines to a standard stream
///
/// Only the thread makes the text of an entry, so the path of an event pays for neither text nor system calls.
package final class Observatory: Sendable {
    package enum Destination: Sendable {
        /// journald's native protocol.
        case journal
        /// logfmt lines on standard error.
        case logfmt
        /// JSON lines on standard output.
        case json

        /// The journal if standard error leads there, else lines. `format`: `[journal] format`.
        package static func detected(format: LogFormat?) -> Destination {
            choice(
                isJournal: JournalStream.isJournal(descriptor: STDERR_FILENO), isTerminal: isatty(STDERR_FILENO) == 1,
                format: format)
        }

        /// The journal has fields of its own, so a format is for lines alone. Left out, a person at a terminal gets
        /// logfmt, a collector JSON.
        static func choice(isJournal: Bool, isTerminal: Bool, format: LogFormat?) -> Destination {
            if isJournal { return .journal }
            return switch format ?? (isTerminal ? .logfmt : .json) {
            case .json: .json
            case .logfmt: .logfmt
            }
        }

        /// Writes one entry and waits for it; for callers that have no Observatory.
        package func log(_ observation: Observation, at time: Timestamp) {
            _ = write([TimedObservation(observation: observation, at: time)])
        }

        /// Writes entries in order and waits for them; returns how many could not be written.
        fileprivate func write(_ batch: [TimedObservation]) -> Int {
            switch self {
            case .journal: batch.count { !Journal.send(JournalEntry($0.observation).record) }
            case .logfmt:
                Self.write(batch.map { JournalEntry($0.observation).logfmt(at: $0.at) }, to: STDERR_FILENO)
            case .json: Self.write(batch.map { JournalEntry($0.observation).json(at: $0.at) }, to: STDOUT_FILENO)
            }
        }

        private static func write(_ lines: [String], to descriptor: Int32) -> Int {
            LineOutput.write(Array(lines.joined().utf8), to: descriptor) ? 0 : lines.count
        }
    }

    /// One observation and its time.
    struct TimedObservation: Sendable {
        let observation: Observation
        let at: Timestamp
    }

    private let version: String
    private let now: @Sendable () -> Timestamp
    private let metrics = Metrics()
    private let limiter: Replaceable<DetailLimiter>
    private let writer: JournalWriter<TimedObservation>

    /// `detailPerSecond`: `[journal] detail_limit`. `queueEntriesMax`: Limits.journalQueueEntriesMax.
    package convenience init(
        version: String, destination: Destination, detailPerSecond: Int, queueEntriesMax: Int
    ) throws(JournalWriterFailure) {
        try self.init(
            version: version, detailPerSecond: detailPerSecond, queueEntriesMax: queueEntriesMax,
            tick: ObservingLimits.journalTick, now: { Self.wallClock() }, sink: { destination.write($0) })
    }

    init(
        version: String, detailPerSecond: Int, queueEntriesMax: Int, tick: Duration,
        now: @escaping @Sendable () -> Timestamp, sink: @escaping JournalWriter<TimedObservation>.Sink
    ) throws(JournalWriterFailure) {
        self.version = version
        self.now = now
        let limiter = Replaceable(DetailLimiter(detailPerSecond: detailPerSecond))
        self.limiter = limiter
        writer = try JournalWriter(
            queueEntriesMax: queueEntriesMax, batchEntriesMax: ObservingLimits.journalBatchEntriesMax,
            tickInterval: tick, sink: sink,
            tick: { dropped, isLast in
                let time = now()
                var due = limiter.change { isLast ? $0.takeSums() : $0.endSecond(at: time) }
                if dropped > 0 { due.append(.journalDropped(count: dropped)) }
                return due.map { TimedObservation(observation: $0, at: time) }
            })
    }

    /// Counts an observation and queues its entry; never waits for the journal.
    package func observe(_ observation: Observation) {
        metrics.count(observation)
        let time = now()
        let (sums, isDetailed) = limiter.change { ($0.endSecond(at: time), $0.admit(observation)) }
        for sum in sums { writer.post(TimedObservation(observation: sum, at: time)) }
        if isDetailed { writer.post(TimedObservation(observation: observation, at: time)) }
    }

    package var observer: Observer {
        { [self] in observe($0) }
    }

    /// A reload may change `[journal] detail_limit`.
    package func setDetail(perSecond: Int) {
        limiter.change { $0.setDetail(perSecond: perSecond) }
    }

    /// Shows the counters of the configured names on /metrics from 0 on. Called at the start and at each reload.
    package func expect(sources: [String], integrations: [String]) {
        metrics.expect(sources: sources, integrations: integrations)
    }

    /// How sources were answered since the start.
    package var answers: [SourceAnswer: Int] { metrics.total().answers }

    /// The page for /metrics, `text/plain; version=0.0.4; charset=utf-8`.
    package func metricsPage(gauges: Gauges) -> String {
        MetricsPage(
            version: version, tally: metrics.total(), journalDropped: writer.droppedTotal, gauges: gauges,
            process: .now()
        ).text
    }

    /// Writes what is queued and ends the thread. False: the journal did not take all of it in time.
    @discardableResult
    package func close(within limit: Duration = ObservingLimits.journalCloseTimeout) -> Bool {
        writer.close(within: limit)
    }

    /// The wall clock, only shown in lines and used to separate seconds; nothing is stored by it.
    private static func wallClock() -> Timestamp {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(milliseconds: Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000)
    }
}
