import Foundation
import Linux
import Testing
import Vocabulary

@testable import Observing

/// The dashboard and the alert rules ask for nothing that /metrics does not have, and the manual describes all of it.
@Suite struct MonitoringTests {
    private static let deploy = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "deploy")
    private static let monitoring = deploy.appending(path: "monitoring")

    /// Each family with a sample.
    private static func page() -> String {
        let metrics = Metrics()
        everyObservation.forEach(metrics.count)
        let queue = Gauges.Queue(
            integration: "backend", waiting: 1, oldestWaitingSeconds: 1, deadLetters: 0, isPaused: false,
            breakerIsOpen: false)
        let gauges = Gauges(
            databaseIsUp: true, queues: [queue],
            overdue: [Gauges.Overdue(source: "shop", environment: "PRODUCTION", active: 1, lapsed: 0)],
            disk: DiskSpace(sizeBytes: 2, availableBytes: 1),
            spool: Gauges.Spool(webhooks: 1, bytes: 4_096, oldestSeconds: 1))
        return MetricsPage(
            version: "1", tally: metrics.total(), journalDropped: 0, gauges: gauges, process: .now()
        ).text
    }

    private static func families() -> Set<String> {
        Set(page().matches(of: #/TYPE ([a-z_]+)/#).map { String($0.1) })
    }

    @Test(arguments: ["alerts.yml", "grafana-dashboard.json"])
    func everySeriesIsThere(file: String) throws {
        let text = try String(contentsOf: Self.monitoring.appending(path: file), encoding: .utf8)
        let asked = Set(text.matches(of: /(?:posthouse|process)_[a-z_]+/).map { String($0.0) })
        let families = Self.families()
        #expect(asked.count > 10)
        for name in asked {
            let family = name.replacing(/_(bucket|sum|count)$/, with: "")
            #expect(families.contains(name) || families.contains(family), "\(name)")
        }
    }

    /// posthouse-operate(7), "Metrics": a row for each family, with its name, its type and its labels.
    @Test func theManualHasEveryMetricAndNoOther() throws {
        let page = Self.page()
        var labels: [String: Set<String>] = [:]
        for line in page.split(separator: "\n") {
            guard let sample = line.prefixMatch(of: /([a-z_]+)\{(.+)\}/) else { continue }
            let family = String(sample.1).replacing(/_(bucket|sum|count)$/, with: "")
            // The bounds of a histogram are the format's own label.
            let names = sample.2.matches(of: /([a-z]+)="/).map { String($0.1) }.filter { $0 != "le" }
            labels[family, default: []].formUnion(names)
        }
        let shown = Set(
            page.matches(of: /TYPE ([a-z_]+) ([a-z]+)/).map { family in
                "\(family.1) \(family.2) \((labels[String(family.1)] ?? []).sorted())"
            })
        let manual = try String(
            contentsOf: Self.deploy.appending(path: "manual/posthouse-operate.7.md"), encoding: .utf8)
        let listed = manual.split(separator: "\n").compactMap { line -> String? in
            let row = line.prefixMatch(of: /\| `([a-z_]+)` \| (counter|gauge|histogram) \|([^|]*)\|/)
            return row.map { row in
                let labels = row.3.matches(of: /[a-z]+/).map { String($0.0) }
                return "\(row.1) \(row.2) \(labels.sorted())"
            }
        }
        #expect(shown.count > 30)
        #expect(shown.subtracting(listed) == [], "not in the manual, or otherwise there")
        #expect(listed.filter { !shown.contains($0) } == [], "in the manual, and not on the page, or otherwise there")
        #expect(listed.count == Set(listed).count)
    }

    @Test func whatIsWorthAnAlarmIsOnTheDashboard() throws {
        func asked(_ file: String) throws -> Set<String> {
            let text = try String(contentsOf: Self.monitoring.appending(path: file), encoding: .utf8)
            return Set(text.matches(of: /posthouse_[a-z_]+/).map { String($0.0) })
        }
        #expect(try asked("alerts.yml").subtracting(asked("grafana-dashboard.json")) == [])
    }
}
