import Foundation
import Linux
import Testing
import Vocabulary

@testable import Observing

@Suite struct MetricsTests {
    private func page(_ metrics: Metrics, gauges: Gauges = Gauges(databaseIsUp: true, queues: [])) -> String {
        MetricsPage(
            version: "1.2.3", tally: metrics.total(), journalDropped: 5, gauges: gauges,
            process: ProcessFigures(nil, ticksPerSecond: 100, pageBytes: 4_096, bootTimeSeconds: 0)
        ).text
    }

    @Test func everyObservationIsCountedUnderItsName() {
        let metrics = Metrics()
        everyObservation.forEach(metrics.count)
        let lines = Set(page(metrics).components(separatedBy: "\n"))
        let expected = [
            #"posthouse_build_info{version="1.2.3"} 1"#,
            #"posthouse_events_total{source="purchasely",outcome="accepted"} 1"#,
            #"posthouse_events_total{source="purchasely",outcome="duplicate"} 1"#,
            #"posthouse_events_total{source="purchasely",outcome="quarantined"} 1"#,
            #"posthouse_events_total{source="purchasely",outcome="refused"} 1"#,
            #"posthouse_refused_total{source="purchasely",status="401"} 1"#,
            #"posthouse_events_total{source="play",outcome="refused"} 1"#,
            #"posthouse_unverified_total{source="play"} 1"#,
            #"posthouse_quarantined_total{source="purchasely"} 1"#,
            #"posthouse_transfers_total{source="purchasely"} 1"#,
            #"posthouse_transfers_voided_total{source="purchasely"} 1"#,
            #"posthouse_duplicates_differing_total{source="purchasely"} 1"#,
            #"posthouse_attempts_total{integration="backend",outcome="accepted"} 1"#,
            #"posthouse_attempts_total{integration="backend",outcome="retry"} 1"#,
            #"posthouse_attempts_total{integration="backend",outcome="dead"} 1"#,
            #"posthouse_attempts_total{integration="backend",outcome="paused"} 1"#,
            #"posthouse_attempt_duration_seconds_count{integration="backend"} 4"#,
            #"posthouse_attempt_duration_seconds_sum{integration="backend"} 0.048"#,
            #"posthouse_breaker_openings_total{integration="backend"} 1"#,
            "posthouse_leases_rescued_total 2", "posthouse_leases_lost_total 1", "posthouse_database_losses_total 1",
            "posthouse_journal_dropped_total 5", "posthouse_database_up 1",
        ]
        for line in expected { #expect(lines.contains(line), "\(line)") }
    }

    /// promtool tests what alerts make of it: Tests/Monitoring/alerts.test.yml.
    @Test func whatIsConfiguredBeginsAtZeroAndLosesNothing() {
        let metrics = Metrics()
        metrics.count(.quarantined(source: "shop", quarantine: 1, reason: "no name"))
        metrics.expect(sources: ["shop", "new"], integrations: ["crm"])
        metrics.expect(sources: ["shop", "new"], integrations: ["crm"])
        let lines = Set(page(metrics).components(separatedBy: "\n"))
        for line in [
            #"posthouse_quarantined_total{source="shop"} 1"#, #"posthouse_quarantined_total{source="new"} 0"#,
            #"posthouse_transfers_voided_total{source="new"} 0"#,
            #"posthouse_refused_total{source="new",status="401"} 0"#,
            #"posthouse_refused_total{source="new",status="413"} 0"#,
            #"posthouse_refused_total{source="new",status="503"} 0"#,
            #"posthouse_events_total{source="shop",outcome="quarantined"} 1"#,
            #"posthouse_events_total{source="new",outcome="refused"} 0"#,
            #"posthouse_attempts_total{integration="crm",outcome="dead"} 0"#,
            #"posthouse_attempt_duration_seconds_count{integration="crm"} 0"#,
            #"posthouse_breaker_openings_total{integration="crm"} 0"#,
        ] { #expect(lines.contains(line), "\(line)") }
    }

    @Test func histogramBucketsAreCumulativeAndTheirBoundsInclusive() {
        let metrics = Metrics()
        for latency in [0, 1, 2, 10, 11, 120_000, 999_999] {
            metrics.count(.attempt(.sample(integration: "b", latency: latency)))
        }
        let buckets = page(metrics).components(separatedBy: "\n").filter { $0.contains("_bucket{integration=") }
        func count(_ bound: String) -> String? {
            buckets.first { $0.contains(#"le="\#(bound)""#) }.flatMap { $0.split(separator: " ").last.map(String.init) }
        }
        #expect(count("0.001") == "2")
        #expect(count("0.002") == "3")
        #expect(count("0.005") == "3")
        #expect(count("0.01") == "4")
        #expect(count("0.025") == "5")
        #expect(count("120.0") == "6")
        #expect(count("+Inf") == "7")
    }

    @Test func recordingIsShownInSecondsAndEvents() {
        var recording = Gauges.Recording(commits: Histogram(bounds: [1, 10]), batches: Histogram(bounds: [1, 100]))
        for (milliseconds, events) in [(1, 1), (7, 100), (2_000, 500)] {
            recording.commits.add(milliseconds)
            recording.batches.add(events)
        }
        let gauges = Gauges(databaseIsUp: true, queues: [], recording: recording, beingStored: 7)
        let lines = page(Metrics(), gauges: gauges).components(separatedBy: "\n")
        for line in [
            #"posthouse_commit_duration_seconds_bucket{le="0.001"} 1"#,
            #"posthouse_commit_duration_seconds_bucket{le="0.01"} 2"#,
            #"posthouse_commit_duration_seconds_bucket{le="+Inf"} 3"#, "posthouse_commit_duration_seconds_sum 2.008",
            "posthouse_commit_duration_seconds_count 3", #"posthouse_batch_events_bucket{le="1"} 1"#,
            #"posthouse_batch_events_bucket{le="100"} 2"#, "posthouse_batch_events_sum 601",
            "posthouse_webhooks_being_stored 7",
        ] { #expect(lines.contains(line), "\(line)") }
    }

    @Test func gaugesAreThoseOfTheScrape() {
        let gauges = Gauges(
            databaseIsUp: false,
            queues: [
                .init(
                    integration: "b", waiting: 3, oldestWaitingSeconds: 1.5, deadLetters: 2, isPaused: false,
                    breakerIsOpen: true),
                .init(
                    integration: "a", waiting: 0, oldestWaitingSeconds: nil, deadLetters: 0, isPaused: true,
                    breakerIsOpen: false),
            ])
        let lines = page(Metrics(), gauges: gauges).components(separatedBy: "\n").filter { !$0.hasPrefix("#") }
        #expect(lines.contains("posthouse_database_up 0"))
        #expect(
            lines.filter { $0.contains("integration=") } == [
                #"posthouse_deliveries_waiting{integration="a"} 0"#,
                #"posthouse_deliveries_waiting{integration="b"} 3"#,
                #"posthouse_oldest_waiting_seconds{integration="a"} 0.0"#,
                #"posthouse_oldest_waiting_seconds{integration="b"} 1.5"#,
                #"posthouse_dead_letters{integration="a"} 0"#, #"posthouse_dead_letters{integration="b"} 2"#,
                #"posthouse_integration_paused{integration="a"} 1"#,
                #"posthouse_integration_paused{integration="b"} 0"#,
                #"posthouse_breaker_open{integration="a"} 0"#, #"posthouse_breaker_open{integration="b"} 1"#,
            ])
    }

    @Test func overdueIsCountedBySourceEnvironmentAndAccess() {
        let gauges = Gauges(
            databaseIsUp: true, queues: [],
            overdue: [
                .init(source: "shop", environment: "PRODUCTION", active: 2, lapsed: 1),
                .init(source: "app", environment: "SANDBOX", active: 0, lapsed: 7),
            ])
        let lines = page(Metrics(), gauges: gauges).components(separatedBy: "\n")
        #expect(
            lines.filter { $0.hasPrefix("posthouse_overdue_purchases{") } == [
                #"posthouse_overdue_purchases{source="app",environment="SANDBOX",access="active"} 0"#,
                #"posthouse_overdue_purchases{source="app",environment="SANDBOX",access="lapsed"} 7"#,
                #"posthouse_overdue_purchases{source="shop",environment="PRODUCTION",access="active"} 2"#,
                #"posthouse_overdue_purchases{source="shop",environment="PRODUCTION",access="lapsed"} 1"#,
            ])
    }

    @Test func labelValuesAreEscaped() {
        let metrics = Metrics()
        metrics.count(.attempt(.sample(integration: "a\"b\\c\nd")))
        #expect(page(metrics).contains(#"{integration="a\"b\\c\nd",outcome="accepted"} 1"#))
    }

    /// The text format's own grammar (prometheus.io, "Exposition formats"), as far as a line can show it.
    @Test func everyLineIsInTheFormatAndEveryFamilyIsDeclaredOnce() throws {
        let metrics = Metrics()
        everyObservation.forEach(metrics.count)
        let gauges = Gauges(
            databaseIsUp: true,
            queues: [
                .init(
                    integration: "b", waiting: 3, oldestWaitingSeconds: 1, deadLetters: 2, isPaused: false,
                    breakerIsOpen: false)
            ])
        let text = MetricsPage(
            version: "1", tally: metrics.total(), journalDropped: 0, gauges: gauges, process: .now()
        ).text
        #expect(text.hasSuffix("\n"))
        var declared: Set<String> = []
        for line in text.dropLast().components(separatedBy: "\n") {
            if line.hasPrefix("# HELP ") { continue }
            if line.hasPrefix("# TYPE ") {
                let name = String(line.split(separator: " ")[2])
                #expect(declared.insert(name).inserted, "\(name) twice")
                continue
            }
            let sample = try #require(
                line.wholeMatch(of: /([a-z_]+)(\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})? -?[0-9.e+]+/), "\(line)")
            let family = String(sample.1).replacing(/_(bucket|sum|count)$/, with: "")
            #expect(declared.contains(String(sample.1)) || declared.contains(family), "\(line)")
        }
    }

    @Test func countsOfAllThreadsAddUp() async {
        let metrics = Metrics()
        await withTaskGroup { group in
            for _ in 0..<8 {
                group.addTask { for _ in 0..<1_000 { metrics.count(.attempt(.sample())) } }
            }
        }
        #expect(metrics.total().attempts["backend"]?.outcomes == [.accepted: 8_000])
        #expect(metrics.total().attempts["backend"]?.durations.counts.reduce(0, +) == 8_000)
    }

    @Test func namesFromOutsideAreBounded() {
        var tally = MetricsTally()
        for number in 0..<5_000 { tally.count(.refused(source: "s\(number)", status: 404, reason: "unknown")) }
        #expect(tally.events.count == ObservingLimits.labelValuesMax + 1)
        #expect(tally.events[ObservingLimits.otherName] == [.refused: 5_000 - ObservingLimits.labelValuesMax])
    }

    /// A line as proc(5) has it, with a name that tries to look like more fields.
    @Test func processFiguresAreReadBehindTheName() {
        let figures = ProcessFigures(
            ProcessStat(
                parsing: "42 (a) S 9 (x) R 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 1000 8192000 300 18446"),
            ticksPerSecond: 100, pageBytes: 4_096, bootTimeSeconds: 5_000)
        #expect(figures.cpuSeconds == 3)
        #expect(figures.startTimeSeconds == 5_010)
        #expect(figures.virtualBytes == 8_192_000)
        #expect(figures.residentBytes == 300 * 4_096)
    }

    @Test func thisProcessHasFigures() throws {
        let figures = ProcessFigures.now()
        #expect(try #require(figures.residentBytes) > 1 << 20)
        #expect(try #require(figures.openDescriptors) >= 3)
        #expect(try #require(figures.maxDescriptors) > 3)
        let started = try #require(figures.startTimeSeconds)
        #expect((Date.now.timeIntervalSince1970 - 3_600...Date.now.timeIntervalSince1970 + 1).contains(started))
    }

    @Test func whatWaitsInTheSpoolIsShownWhereThereIsOne() {
        func page(_ spool: Gauges.Spool?) -> String {
            MetricsPage(
                version: "1", tally: MetricsTally(), journalDropped: 0,
                gauges: Gauges(databaseIsUp: true, queues: [], spool: spool), process: .now()
            ).text
        }
        #expect(!page(nil).contains("posthouse_spool"))
        let text = page(Gauges.Spool(webhooks: 3, bytes: 12_288, oldestSeconds: 1.5))
        for line in ["webhooks 3", "bytes 12288", "oldest_seconds 1.5"] {
            #expect(text.contains("\nposthouse_spool_\(line)\n"), "\(text)")
        }
    }
}
