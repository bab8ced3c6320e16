import Foundation
import Linux
import Testing
import Vocabulary

@testable import Observing

/// The dashboard and the alert rules ask for nothing that /metrics does not have.
@Suite struct MonitoringTests {
    private static let monitoring = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "deploy/monitoring")

    private static func families() -> Set<String> {
        let metrics = Metrics()
        everyObservation.forEach(metrics.count)
        let gauges = Gauges(
            databaseIsUp: true, queues: [], disk: DiskSpace(sizeBytes: 2, availableBytes: 1),
            spool: Gauges.Spool(webhooks: 1, bytes: 4_096, oldestSeconds: 1))
        let text = MetricsPage(
            version: "1", tally: metrics.total(), journalDropped: 0, gauges: gauges, process: .now()
        ).text
        return Set(text.matches(of: #/TYPE ([a-z_]+)/#).map { String($0.1) })
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

    @Test func whatIsWorthAnAlarmIsOnTheDashboard() throws {
        func asked(_ file: String) throws -> Set<String> {
            let text = try String(contentsOf: Self.monitoring.appending(path: file), encoding: .utf8)
            return Set(text.matches(of: /posthouse_[a-z_]+/).map { String($0.0) })
        }
        #expect(try asked("alerts.yml").subtracting(asked("grafana-dashboard.json")) == [])
    }
}
