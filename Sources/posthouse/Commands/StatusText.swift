import Configuration
import JSONText
import Ledger
import Linux
import Observing
import Vocabulary

/// What `status` shows: the ledger's state beside the configuration.
struct StatusText {
    enum State: String {
        case delivering, idle, waiting, failing, paused, removed
    }

    let status: LedgerStatus
    /// Names of the configured integrations and sources.
    let integrations: Set<String>
    let sources: [String]
    /// The private cluster's disk; nil: there is none, or this user cannot see it.
    let disk: DiskSpace?
    /// Of this machine.
    let spool: SpoolState

    /// - Parameter file: the path of the configuration file.
    init(_ status: LedgerStatus, _ configuration: Configuration, of file: String) {
        self.status = status
        integrations = Set(configuration.integrations.map(\.name))
        sources = configuration.sources.map(\.name)
        spool = SpoolState(configuration, of: file)
        disk = configuration.clusterDirectory.flatMap(DiskSpace.of(path:))
    }

    func state(_ integration: LedgerStatus.Integration) -> State {
        if !integrations.contains(integration.name) { return .removed }
        if integration.pausedAt != nil { return .paused }
        if integration.breaker != nil { return .failing }
        if integration.delivered > 0 { return .delivering }
        return integration.waiting > 0 ? .waiting : .idle
    }

    /// The integrations to show: removed ones only while they have deliveries waiting or dead letters.
    private var shown: [LedgerStatus.Integration] {
        status.integrations.filter { integrations.contains($0.name) || $0.waiting > 0 || $0.deadLetters > 0 }
    }

    var page: String {
        let tables = [sourceTable, integrationTable].filter { !$0.rows.isEmpty }
            .map { "\n" + $0.render(width: Terminal.width, coloured: Terminal.outputIsColoured) }
        let remarks = remarks
        return ([Terminal.wrapped(summary)] + tables + (remarks.isEmpty ? [] : [""]) + remarks).joined(separator: "\n")
    }

    // MARK: Sources

    private var sourceTable: Table {
        var table = Table([
            .init(title: "SOURCE", shrinksTo: 12), .init(title: "LAST", isNumber: true),
            .init(title: "STORED 1m", isNumber: true), .init(title: "QUARANTINED 1m", isNumber: true),
            .init(title: "REFUSED 1m"), .init(title: "OVERDUE", isNumber: true),
        ])
        for source in SourceFigures.all(status, sources) {
            let refused = source.refused.map { "\($0.count) × \($0.status)" }.joined(separator: ", ")
            table.rows.append([
                source.name.isEmpty ? .init("(unknown)", .bad) : .init(source.name),
                .init(source.heardAt.map { Age.text(from: $0, to: status.at) } ?? "-"),
                .init("\(source.stored)", source.stored > 0 ? .good : .plain),
                .init("\(source.quarantined)", source.quarantined > 0 ? .bad : .plain),
                refused.isEmpty ? .init("-") : .init(refused, .bad),
                .init(
                    source.overdueInProduction.map { "\($0)" } ?? "?",
                    source.overdueInProduction == 0 ? .plain : .careful),
            ])
        }
        return table
    }

    private var sourceRemarks: [String] {
        SourceFigures.all(status, sources).compactMap { source in
            if source.name.isEmpty {
                return "(unknown): requests whose URL ends in the name of no source: "
                    + "journalctl -u posthouse -g 'unknown source' -o cat"
            }
            guard source.isServed else { return notTakenUp(source.name) }
            guard source.heardAt == nil else { return nil }
            guard source.refused.isEmpty else {
                return "\(source.name): its requests are refused: "
                    + "journalctl -u posthouse POSTHOUSE_SOURCE=\(source.name) POSTHOUSE_OUTCOME=refused -o cat"
            }
            return "\(source.name): no daemon has reported a webhook of it yet (that takes some seconds); its platform "
                + "sends to https://YOUR-HOST/ingest/\(source.name), and signs by the configured secret"
        }
    }

    // MARK: Integrations

    private var integrationTable: Table {
        var table = Table([
            .init(title: "INTEGRATION", shrinksTo: 12), .init(title: "STATE"), .init(title: "WAITING", isNumber: true),
            .init(title: "OLDEST", isNumber: true), .init(title: "DELIVERED 1m", isNumber: true),
            .init(title: "FAILED 1m", isNumber: true), .init(title: "DEAD", isNumber: true),
        ])
        for integration in shown {
            let state = state(integration)
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
        return table
    }

    /// Integrations that are configured and that no daemon has ever run with.
    private var unserved: [String] { integrations.subtracting(status.integrations.map(\.name)).sorted() }

    private func advice(_ integration: LedgerStatus.Integration, _ state: State) -> String? {
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

    private func lastError(_ integration: LedgerStatus.Integration) -> String? {
        integration.lastError.map { failure in
            "last error \(Age.text(from: failure.at, to: status.at)) ago: "
                + (failure.text?.withoutEnd ?? failure.httpStatus.map { "answered \($0)" } ?? "no answer")
        }
    }

    // MARK: Lines

    private var summary: String {
        let daemons =
            switch status.daemons.count {
            case 0:
                "no daemon is running: no webhook is accepted and nothing is delivered (systemctl start posthouse)"
            case 1: "1 daemon is running, since \(status.daemons[0].startedAt.toTheSecond)"
            default: "\(status.daemons.count) daemons are running"
            }
        let kept = status.quarantined == 0 ? "" : "; \(status.quarantined) in quarantine (posthouse quarantine)"
        return daemons + kept
    }

    /// What a table has no room for, one line each.
    private var remarks: [String] {
        let lines = shown.flatMap { integration in
            [advice(integration, state(integration)), lastError(integration)]
                .compactMap { line in line.map { "\(integration.name): \($0)" } }
        }
        return (diskRemarks + spoolRemarks + sourceRemarks + lines + unserved.map(notTakenUp))
            .map { Terminal.wrapped(PlainText.harmless($0)) }
    }

    private func notTakenUp(_ name: String) -> String {
        "\(name): in the configuration, but no daemon has taken it up (systemctl reload posthouse)"
    }

    private var diskRemarks: [String] {
        guard let disk, disk.isLow else { return [] }
        return [
            disk.lowText
        ]
    }

    private var spoolRemarks: [String] {
        var lines = spool.former.map(\.remark)
        if let oldest = spool.oldestAt {
            lines.append(
                "\(spool.files.count) webhooks wait in the spool of this machine, since "
                    + "\(Age.text(from: oldest, to: ThisProcess.now())) ago (posthouse spool)")
        }
        for (source, count) in spool.withoutSource(sources) {
            lines.append(
                "\(count) of them are of \(source), which is not in the configuration: they wait until it is back")
        }
        if !spool.unreadable.isEmpty {
            lines.append(
                "\(spool.unreadable.count) folders of the spool cannot be read by this user: "
                    + "what waits there is not known")
        }
        if !spool.damaged.isEmpty {
            lines.append("\(spool.damaged.count) files of the spool are damaged and not recorded (posthouse spool)")
        }
        return lines
    }

    // MARK: JSON

    func write(into json: inout JSONWriter) {
        json.member("at", status.at)
        json.member("daemons", status.daemons.count)
        json.member("quarantined", status.quarantined)
        json.member("unserved", strings: unserved)
        json.member("disk_available_bytes", disk?.availableBytes)
        json.member("disk_size_bytes", disk?.sizeBytes)
        json.member("spool", object: spool.isVisible ? spool : nil) { spool, json in
            json.member("webhooks", spool.files.count)
            json.member("oldest_at", spool.oldestAt)
            json.member("unconfigured", objects: spool.withoutSource(sources)) { other, json in
                json.member("source", other.source)
                json.member("count", other.count)
            }
            json.member("damaged", spool.damaged.count)
            json.member(spool.former)
        }
        json.member("sources", objects: SourceFigures.all(status, sources)) { source, json in
            json.member("name", source.name.isEmpty ? nil : source.name)
            json.member("last_webhook_at", source.heardAt)
            json.member("stored_last_minute", source.stored)
            json.member("quarantined_last_minute", source.quarantined)
            json.member("refused_last_minute", objects: source.refused) { refused, json in
                json.member("http_status", refused.status)
                json.member("count", refused.count)
            }
            guard let overdue = source.overdue else { return json.member("overdue", String?.none) }
            json.member("overdue", objects: overdue) { figures, json in
                json.member("environment", figures.environment)
                json.member("active", figures.active)
                json.member("lapsed", figures.lapsed)
            }
        }
        json.member("integrations", objects: shown) { integration, json in
            json.member("name", integration.name)
            json.member("state", state(integration).rawValue)
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
