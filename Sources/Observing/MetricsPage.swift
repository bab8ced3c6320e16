internal import Vocabulary

/// The whole page that /metrics answers with: a pure function of what was counted and what is true now.
struct MetricsPage {
    var version: String
    var tally: MetricsTally
    var journalDropped: Int
    var gauges: Gauges
    var process: ProcessFigures

    var text: String {
        var out = PrometheusText()
        out.family("posthouse_build_info", .gauge, "Always 1; the version is the label.")
        out.sample("posthouse_build_info", [("version", version)], 1)
        writeInbound(to: &out)
        writeAttempts(to: &out)
        writeService(to: &out)
        writeQueues(to: &out)
        process.write(to: &out)
        return out.text
    }

    private func writeInbound(to out: inout PrometheusText) {
        out.family("posthouse_events_total", .counter, "Webhooks by source and how they came out.")
        for (source, outcomes) in tally.events.sorted(by: { $0.key < $1.key }) {
            for (outcome, count) in outcomes.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                out.sample("posthouse_events_total", [("source", source), ("outcome", outcome.rawValue)], count)
            }
        }
        out.family("posthouse_refused_total", .counter, "Requests refused before anything was stored, by HTTP status.")
        for (source, statuses) in tally.refusals.sorted(by: { $0.key < $1.key }) {
            for (status, count) in statuses.sorted(by: { $0.key < $1.key }) {
                out.sample("posthouse_refused_total", [("source", source), ("status", String(status))], count)
            }
        }
        let perSource = [
            ("posthouse_quarantined_total", "Authentic bodies that could not be read, kept aside.", tally.quarantined),
            ("posthouse_transfers_total", "Transfers told, each counted once.", tally.transfers),
            ("posthouse_transfers_voided_total", "Told transfers that a late event belied.", tally.transfersVoided),
            (
                "posthouse_duplicates_differing_total", "Known events that arrived again with other bytes.",
                tally.duplicatesDiffering
            ),
        ]
        for (name, help, counts) in perSource {
            out.family(name, .counter, help)
            for (source, count) in counts.sorted(by: { $0.key < $1.key }) {
                out.sample(name, [("source", source)], count)
            }
        }
    }

    private func writeAttempts(to out: inout PrometheusText) {
        let attempts = tally.attempts.sorted { $0.key < $1.key }
        out.family("posthouse_attempts_total", .counter, "HTTP requests to integrations by how they came out.")
        for (integration, figures) in attempts {
            for (outcome, count) in figures.outcomes.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                let labels = [("integration", integration), ("outcome", outcome.rawValue)]
                out.sample("posthouse_attempts_total", labels, count)
            }
        }
        let name = "posthouse_attempt_duration_seconds"
        out.family(name, .histogram, "Time of one attempt: connect, head and body.")
        for (integration, figures) in attempts { write(figures.durations, name, integration, to: &out) }
    }

    private func write(
        _ histogram: DurationHistogram, _ name: String, _ integration: String, to out: inout PrometheusText
    ) {
        var seen = 0
        for (bound, count) in zip(DurationHistogram.boundsMilliseconds, histogram.counts) {
            seen += count
            out.sample(
                name + "_bucket", [("integration", integration), ("le", "\(Double(bound) / 1_000)")], seen)
        }
        let all = histogram.counts.reduce(0, +)
        out.sample(name + "_bucket", [("integration", integration), ("le", "+Inf")], all)
        out.sample(name + "_sum", [("integration", integration)], Double(histogram.sumMilliseconds) / 1_000)
        out.sample(name + "_count", [("integration", integration)], all)
    }

    private func writeService(to out: inout PrometheusText) {
        let counters = [
            ("posthouse_leases_rescued_total", "Deliveries taken over from dead daemons.", tally.leasesRescued),
            ("posthouse_leases_lost_total", "Times this daemon was taken for dead.", tally.leasesLost),
            ("posthouse_database_losses_total", "Times the database went out of reach.", tally.databaseLosses),
            ("posthouse_journal_dropped_total", "Journal entries lost because the journal was slow.", journalDropped),
        ]
        for (name, help, count) in counters {
            out.family(name, .counter, help)
            out.sample(name, [], count)
        }
    }

    private func writeQueues(to out: inout PrometheusText) {
        out.family("posthouse_database_up", .gauge, "1 while the database answers and can commit.")
        out.sample("posthouse_database_up", [], gauges.databaseIsUp ? 1 : 0)
        let queues = gauges.queues.sorted { $0.integration < $1.integration }
        out.family("posthouse_deliveries_waiting", .gauge, "Deliveries neither accepted nor dead.")
        for queue in queues {
            out.sample("posthouse_deliveries_waiting", [("integration", queue.integration)], queue.waiting)
        }
        out.family("posthouse_oldest_waiting_seconds", .gauge, "Age of the oldest waiting delivery; 0: none waits.")
        for queue in queues {
            let age = queue.oldestWaitingSeconds.flatMap { $0.isFinite ? $0 : nil } ?? 0
            out.sample("posthouse_oldest_waiting_seconds", [("integration", queue.integration)], age)
        }
        out.family("posthouse_dead_letters", .gauge, "Deliveries given up; posthouse replay sends them again.")
        for queue in queues {
            out.sample("posthouse_dead_letters", [("integration", queue.integration)], queue.deadLetters)
        }
    }
}
