internal import Linux
internal import Vocabulary

/// The whole page that /metrics answers with: a pure function of the counters and the current state.
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
        writeRecording(to: &out)
        writeAttempts(to: &out)
        writeBreakers(to: &out)
        writeService(to: &out)
        writeQueues(to: &out)
        writeOverdue(to: &out)
        writeDisk(to: &out)
        writeSpool(to: &out)
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
            (
                "posthouse_unverified_total", "Requests answered 503 whose token names a key that is not known.",
                tally.unverified
            ),
            ("posthouse_quarantined_total", "Authentic bodies that could not be read, kept aside.", tally.quarantined),
            ("posthouse_transfers_total", "Transfers announced, each counted once.", tally.transfers),
            (
                "posthouse_transfers_voided_total", "Announced transfers that a late event voided.",
                tally.transfersVoided
            ),
            (
                "posthouse_duplicates_differing_total", "Known events that arrived again with other bytes.",
                tally.duplicatesDiffering
            ),
            (
                "posthouse_store_losses_total", "Times that the keys or the API of a source's store went out of reach.",
                tally.storeLosses
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
        for (integration, figures) in attempts {
            out.histogram(name, [("integration", integration)], figures.durations, scale: 1_000)
        }
    }

    private func writeRecording(to out: inout PrometheusText) {
        var name = "posthouse_commit_duration_seconds"
        out.family(name, .histogram, "Time in the database of one batch of webhooks, its COMMIT included.")
        out.histogram(name, [], gauges.recording.commits, scale: 1_000)
        name = "posthouse_batch_events"
        out.family(name, .histogram, "Webhooks that were committed together.")
        out.histogram(name, [], gauges.recording.batches, scale: 1)
        out.family("posthouse_webhooks_being_stored", .gauge, "Webhooks that wait for their commit right now.")
        out.sample("posthouse_webhooks_being_stored", [], gauges.beingStored)
    }

    private func writeBreakers(to out: inout PrometheusText) {
        out.family("posthouse_breaker_openings_total", .counter, "Times this daemon opened an integration's breaker.")
        for (integration, count) in tally.breakersOpened.sorted(by: { $0.key < $1.key }) {
            out.sample("posthouse_breaker_openings_total", [("integration", integration)], count)
        }
    }

    private func writeService(to out: inout PrometheusText) {
        let counters = [
            ("posthouse_leases_rescued_total", "Deliveries reclaimed from ended leases.", tally.leasesReclaimed),
            ("posthouse_leases_lost_total", "Times this daemon lost its lease.", tally.leasesLost),
            ("posthouse_database_losses_total", "Times the database went out of reach.", tally.databaseLosses),
            ("posthouse_journal_dropped_total", "Journal entries lost because the journal was slow.", journalDropped),
        ]
        for (name, help, count) in counters {
            out.family(name, .counter, help)
            out.sample(name, [], count)
        }
    }

    private func writeDisk(to out: inout PrometheusText) {
        guard let disk = gauges.disk else { return }
        out.family("posthouse_disk_size_bytes", .gauge, "Size of the private cluster's disk.")
        out.sample("posthouse_disk_size_bytes", [], disk.sizeBytes)
        out.family("posthouse_disk_available_bytes", .gauge, "What is left of it.")
        out.sample("posthouse_disk_available_bytes", [], disk.availableBytes)
    }

    private func writeSpool(to out: inout PrometheusText) {
        guard let spool = gauges.spool else { return }
        out.family("posthouse_spool_webhooks", .gauge, "Webhooks in the spool, answered and not recorded.")
        out.sample("posthouse_spool_webhooks", [], spool.webhooks)
        out.family("posthouse_spool_bytes", .gauge, "What they take of the disk.")
        out.sample("posthouse_spool_bytes", [], spool.bytes)
        out.family("posthouse_spool_oldest_seconds", .gauge, "Age of the oldest of them; 0: none waits.")
        out.sample("posthouse_spool_oldest_seconds", [], spool.oldestSeconds)
    }

    private func writeOverdue(to out: inout PrometheusText) {
        let name = "posthouse_overdue_purchases"
        out.family(name, .gauge, "Purchases whose stated end has passed without a word; posthouse overdue lists them.")
        let figures = gauges.overdue.sorted { ($0.source, $0.environment) < ($1.source, $1.environment) }
        for figures in figures {
            let labels = [("source", figures.source), ("environment", figures.environment)]
            out.sample(name, labels + [("access", "active")], figures.active)
            out.sample(name, labels + [("access", "lapsed")], figures.lapsed)
        }
    }

    private func writeQueues(to out: inout PrometheusText) {
        out.family("posthouse_database_up", .gauge, "1 while the database answers and can commit.")
        out.sample("posthouse_database_up", [], gauges.databaseIsUp ? 1 : 0)
        let queues = gauges.queues.sorted { $0.integration < $1.integration }
        func family(_ name: String, _ help: String, _ value: (Gauges.Queue) -> Int) {
            out.family(name, .gauge, help)
            for queue in queues { out.sample(name, [("integration", queue.integration)], value(queue)) }
        }
        family("posthouse_deliveries_waiting", "Deliveries neither accepted nor dead.", \.waiting)
        out.family("posthouse_oldest_waiting_seconds", .gauge, "Age of the oldest waiting delivery; 0: none waits.")
        for queue in queues {
            let age = queue.oldestWaitingSeconds.flatMap { $0.isFinite ? $0 : nil } ?? 0
            out.sample("posthouse_oldest_waiting_seconds", [("integration", queue.integration)], age)
        }
        family(
            "posthouse_dead_letters",
            "Deliveries given up; posthouse replay --outcome dead --integration NAME sends them again.", \.deadLetters)
        family("posthouse_integration_paused", "1 while the integration is paused; posthouse resume NAME.") {
            $0.isPaused ? 1 : 0
        }
        family("posthouse_breaker_open", "1 while the integration's circuit breaker is open.") {
            $0.breakerIsOpen ? 1 : 0
        }
    }
}
