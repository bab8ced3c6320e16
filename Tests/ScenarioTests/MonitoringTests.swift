import Foundation
import Testing
import Vocabulary

/// promtool, Prometheus' own linter, as the oracle of the page, the alert rules and the dashboard's queries.
/// deploy/test names one in POSTHOUSE_TEST_PROMTOOL.
@Suite(.enabled(if: ProcessInfo.processInfo.environment["POSTHOUSE_TEST_PROMTOOL"] != nil))
struct MonitoringTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    private func promtool(_ arguments: String...) throws -> (end: ChildProcess.End?, said: String) {
        let program = try #require(ProcessInfo.processInfo.environment["POSTHOUSE_TEST_PROMTOOL"])
        let child = try ChildProcess([program] + arguments)
        let end = child.waitForEnd(180)
        return (end, (child.output + child.errors).joined(separator: "\n"))
    }

    @Test("/metrics of a relay at work passes promtool check metrics")
    func page() throws {
        let receiver = try Receiver { $0.number == 0 ? .status(500) : .ok }
        let relay = try Relay.running([.init("backend", receiver, ["schedule": #"["50ms"]"#])])
        defer { relay.end() }
        let webhook = Webhook("ACTIVATE", .user("u"), purchase: "subs_1")
        #expect(try relay.source().post(webhook) == 200)
        #expect(try relay.source().post(webhook) == 200)
        #expect(receiver.waitForAccepted(1))
        let page = try relay.directory.write("metrics", relay.get("/metrics").text)
        let program = try #require(ProcessInfo.processInfo.environment["POSTHOUSE_TEST_PROMTOOL"])
        let child = try ChildProcess(["sh", "-c", "\"$0\" check metrics <\"$1\"", program, page])
        #expect(child.waitForEnd(180) == .exited(0))
        #expect(child.output + child.errors == [])
        let text = try relay.get("/metrics").text
        #expect(text.contains("posthouse_commit_duration_seconds_count 2\n"))
        #expect(text.contains("posthouse_batch_events_sum 2\n"))
        #expect(text.contains("posthouse_webhooks_being_stored 0\n"))
        // An alert can only see something increase that was there before.
        #expect(text.contains("posthouse_quarantined_total{source=\"purchasely\"} 0\n"))
        try relay.configure([.init("backend", receiver)], sources: [.init(), .init(name: "apphud")])
        _ = try relay.reload()
        #expect(try relay.get("/metrics").text.contains("posthouse_quarantined_total{source=\"apphud\"} 0\n"))
    }

    @Test("The alert rules are sound, silent on a good day, and each speaks on a bad one")
    func alerts() throws {
        let rules = Self.root.appending(path: "deploy/monitoring/alerts.yml").path
        let checked = try promtool("check", "rules", rules)
        #expect(checked.end == .exited(0), "\(checked.said)")
        let tested = try promtool("test", "rules", Self.root.appending(path: "Tests/Monitoring/alerts.test.yml").path)
        #expect(tested.end == .exited(0), "\(tested.said)")
    }

    @Test("Every query of the dashboard is PromQL")
    func dashboard() throws {
        let file = Self.root.appending(path: "deploy/monitoring/grafana-dashboard.json")
        let json = try #require(try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
        let panels = try #require(json["panels"] as? [[String: Any]])
        let queries = panels.flatMap { ($0["targets"] as? [[String: Any]] ?? []).compactMap { $0["expr"] as? String } }
        #expect(queries.count > 20)
        var rules = "groups:\n- name: dashboard\n  rules:\n"
        for (number, query) in queries.enumerated() {
            let plain = query.replacingOccurrences(of: "$__rate_interval", with: "5m")
                .replacingOccurrences(of: "\\", with: "\\\\").replacingOccurrences(of: "\"", with: "\\\"")
            rules += "  - record: dashboard:query\(number)\n    expr: \"\(plain)\"\n"
        }
        let directory = try ScratchDirectory()
        defer { directory.remove() }
        let checked = try promtool("check", "rules", directory.write("dashboard.yml", rules))
        #expect(checked.end == .exited(0), "\(checked.said)")
    }
}
