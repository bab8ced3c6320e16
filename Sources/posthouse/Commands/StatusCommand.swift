import ArgumentParser
import Configuration
import JSONText
import Ledger
import Observing
import Postgres
import Vocabulary

struct StatusCommand: AsyncParsableCommand {
    private static let watchInterval: Duration = .seconds(2)

    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show how each integration is doing.",
        discussion: """
            delivering: accepted something within the last minute; idle: nothing waits; waiting: something does, and \
            nothing was accepted within the last minute; failing: its circuit breaker is open, a probe looks whether \
            it answers again; paused: by hand or by a 410; removed: not in the configuration any more. DELIVERED and \
            FAILED count the attempts of the last minute.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Flag(help: "Show it again every two seconds, until Ctrl-C.") var watch = false

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            let configured = Set(configuration.integrations.map(\.name))
            show(try await LedgerStatus.read(from: pool), configured)
            while watch {
                try await Task.sleep(for: Self.watchInterval)
                do {
                    show(try await LedgerStatus.read(from: pool), configured)
                } catch let error as DatabaseError where error.isConnectionLevel {
                    // Tries again, because an operator who watches a restart wants to see its end.
                    Terminal.complain("the database does not answer, trying again: \(error)")
                }
            }
        }
    }

    private func show(_ status: LedgerStatus, _ configured: Set<String>) {
        if output.json { return Terminal.say { StatusText.write(status, configured, into: &$0) } }
        if watch, Terminal.isOutput { Terminal.say("\u{1B}[H\u{1B}[2J\(status.at.iso8601)") }
        Terminal.say(StatusText.render(status, configured))
    }
}

enum StatusText {
    enum State: String {
        case delivering, idle, waiting, failing, paused, removed
    }

    static func state(_ integration: LedgerStatus.Integration, _ configured: Set<String>) -> State {
        if !configured.contains(integration.name) { return .removed }
        if integration.pausedAt != nil { return .paused }
        if integration.breaker != nil { return .failing }
        if integration.delivered > 0 { return .delivering }
        return integration.waiting > 0 ? .waiting : .idle
    }

    /// The integrations to show: removed ones only while they have deliveries waiting or dead letters.
    private static func shown(_ status: LedgerStatus, _ configured: Set<String>) -> [LedgerStatus.Integration] {
        status.integrations.filter { configured.contains($0.name) || $0.waiting > 0 || $0.deadLetters > 0 }
    }

    static func render(_ status: LedgerStatus, _ configured: Set<String>) -> String {
        var table = Table([
            .init(title: "INTEGRATION", shrinksTo: 12), .init(title: "STATE"), .init(title: "WAITING", isNumber: true),
            .init(title: "OLDEST", isNumber: true), .init(title: "DELIVERED", isNumber: true),
            .init(title: "FAILED", isNumber: true), .init(title: "DEAD", isNumber: true),
        ])
        for integration in shown(status, configured) {
            let state = state(integration, configured)
            let tone: Table.Tone =
                switch state {
                case .delivering: .good
                case .idle: .plain
                case .failing: .bad
                case .waiting, .paused, .removed: .careful
                }
            table.rows.append([
                .init(integration.name), .init(state.rawValue, tone), .init("\(integration.waiting)"),
                .init(integration.oldestSeconds.map(Age.text) ?? "-"), .init("\(integration.delivered)"),
                .init("\(integration.failed)", integration.failed > 0 ? .bad : .plain),
                .init("\(integration.deadLetters)", integration.deadLetters > 0 ? .bad : .plain),
            ])
        }
        var lines = [Terminal.wrapped(summary(status))]
        if !table.rows.isEmpty {
            lines += ["", table.render(width: Terminal.width, coloured: Terminal.outputIsColoured)]
        }
        let remarks = remarks(status, configured)
        return (lines + (remarks.isEmpty ? [] : [""]) + remarks).joined(separator: "\n")
    }

    private static func summary(_ status: LedgerStatus) -> String {
        let daemons =
            switch status.daemons.count {
            case 0: "no daemon is running: nothing is taken in or delivered (systemctl start posthouse)"
            case 1: "1 daemon is running, since \(status.daemons[0].startedAt.toTheSecond)"
            default: "\(status.daemons.count) daemons are running"
            }
        let kept = status.quarantined == 0 ? "" : "; \(status.quarantined) in quarantine (posthouse quarantine)"
        return daemons + kept
    }

    /// What a table has no room for, one line each.
    private static func remarks(_ status: LedgerStatus, _ configured: Set<String>) -> [String] {
        let lines = shown(status, configured).flatMap { integration in
            [advice(integration, state(integration, configured)), lastError(integration, at: status.at)]
                .compactMap { line in line.map { "\(integration.name): \($0)" } }
        }
        let unserved = unserved(status, configured).map {
            "\($0): in the configuration, but no daemon has taken it up (systemctl reload posthouse)"
        }
        return (lines + unserved).map { Terminal.wrapped(PlainText.harmless($0)) }
    }

    /// Integrations that are configured and that no daemon has ever run with.
    private static func unserved(_ status: LedgerStatus, _ configured: Set<String>) -> [String] {
        configured.subtracting(status.integrations.map(\.name)).sorted()
    }

    private static func advice(_ integration: LedgerStatus.Integration, _ state: State) -> String? {
        switch state {
        case .paused:
            let since = integration.pausedAt.map { ", since \($0.toTheSecond)" } ?? ""
            return "\(integration.pauseReason ?? "paused")\(since) (posthouse resume \(integration.name))"
        case .failing:
            return integration.breaker.map {
                "its circuit breaker is open since \($0.openedAt.toTheSecond) (\($0.reason)); its deliveries wait and "
                    + "lose no attempt, a probe goes out every few seconds"
            }
        case .removed where integration.waiting > 0:
            return "not in the configuration; its deliveries wait until it is back (or posthouse discard "
                + "\(integration.name))"
        case .delivering, .idle, .waiting, .removed: return nil
        }
    }

    private static func lastError(_ integration: LedgerStatus.Integration, at now: Timestamp) -> String? {
        integration.lastError.map { failure in
            let age = Age.text(seconds: Double(now.milliseconds - failure.at.milliseconds) / 1_000)
            return "last error \(age) ago: "
                + (failure.text?.withoutEnd ?? failure.httpStatus.map { "answered \($0)" } ?? "no answer")
        }
    }

    static func write(_ status: LedgerStatus, _ configured: Set<String>, into json: inout JSONWriter) {
        json.member("at", status.at)
        json.member("daemons", status.daemons.count)
        json.member("quarantined", status.quarantined)
        json.member("unserved", strings: unserved(status, configured))
        json.member("integrations", objects: shown(status, configured)) { integration, json in
            json.member("name", integration.name)
            json.member("state", state(integration, configured).rawValue)
            json.member("paused_at", integration.pausedAt)
            json.member("pause_reason", integration.pauseReason)
            json.member("breaker", object: integration.breaker) { breaker, json in
                json.member("opened_at", breaker.openedAt)
                json.member("reason", breaker.reason)
            }
            json.member("waiting", integration.waiting)
            json.member("oldest_seconds", integration.oldestSeconds.map { Int($0) })
            json.member("delivered_last_minute", integration.delivered)
            json.member("failed_last_minute", integration.failed)
            json.member("dead_letters", integration.deadLetters)
            json.member("last_error", object: integration.lastError) { error, json in
                json.member("at", error.at)
                json.member("http_status", error.httpStatus)
                json.member("failure", error.text)
            }
        }
    }
}
