import ArgumentParser
import Configuration
import JSONText
import Ledger
import Postgres
import Vocabulary

struct DeliveriesCommand: AsyncParsableCommand {
    /// How far back accepted deliveries are searched without `--since`. There may be very many, so a longer period is
    /// read only if a shorter one holds too few.
    private static let deliveredMilliseconds: [Int64] = [60_000, 600_000, 3_600_000]

    static let configuration = CommandConfiguration(
        commandName: "deliveries", abstract: "List deliveries that wait, were given up, or were accepted.",
        discussion: """
            The newest first: by when they were made (waiting), given up (dead) or accepted (delivered). Without \
            --since, those accepted are shown of the last hour. WHY of what waits says when it is tried next and how \
            the last attempt ended; "blocked by its purchase": another message of the same purchase goes first; \
            "paused": nothing goes to its integration until posthouse resume.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Option(help: "Only to this integration.", completion: NameCompletion.integrations) var integration: String?
    @Option(help: "waiting, dead or delivered.") var state: ListedDelivery.State?
    @Option(help: .init("Since: \(TimeArgument.help)", valueName: "time")) var since: TimeArgument?
    @Option(help: "At most so many, up to 10000.") var limit: Int32 = 50

    func validate() throws { try ListLimit.validate(limit) }

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            var found: [ListedDelivery] = []
            for state in state.map({ [$0] }) ?? ListedDelivery.State.allCases {
                guard let some = try await list(state, from: pool) else {
                    throw LedgerCommand.unknownIntegration(
                        integration ?? "", known: configuration.integrations.map(\.name))
                }
                found += some
            }
            found = Array(found.sorted { ($0.at, $0.id) > ($1.at, $1.id) }.prefix(Int(limit)))
            if output.json { return Terminal.print { write(found, into: &$0) } }
            guard !found.isEmpty else { return Terminal.printToStandardError("no delivery matches") }
            Terminal.print(table(found))
            if found.count == Int(limit) { Terminal.printToStandardError(ListLimit.hint(limit)) }
        }
    }

    private func list(_ state: ListedDelivery.State, from pool: Pool) async throws -> [ListedDelivery]? {
        func read(since: Timestamp?) async throws -> [ListedDelivery]? {
            try await ListedDelivery.read(state, of: integration, since: since, limit: limit, from: pool)
        }
        guard state == .delivered, since == nil else { return try await read(since: since?.time) }
        let now = ThisProcess.now()
        var found: [ListedDelivery]? = []
        for milliseconds in Self.deliveredMilliseconds {
            found = try await read(since: now.advanced(byMilliseconds: -milliseconds))
            if found == nil || found?.count == Int(limit) { break }
        }
        return found
    }

    private func table(_ deliveries: [ListedDelivery]) -> Table {
        var table = Table([
            .init(title: "SINCE"), .init(title: "INTEGRATION", shrinksTo: 11), .init(title: "STATE"),
            .init(title: "TYPE", shrinksTo: 12), .init(title: "ATTEMPTS", isNumber: true, dropsFirst: 2),
            .init(title: "TRANSACTION", shrinksTo: 11, dropsFirst: 3),
            .init(title: "WHY", shrinksTo: 20), .init(title: "MESSAGE", dropsFirst: 4),
        ])
        for delivery in deliveries {
            let tone: Table.Tone =
                switch delivery.state {
                case .delivered: .good
                case .waiting: .careful
                case .dead: .bad
                }
            table.rows.append([
                .init(delivery.at.toTheSecond), .init(delivery.integration), .init(delivery.state.rawValue, tone),
                .init(delivery.type), .init("\(delivery.attempts)"), .init(delivery.transaction ?? "-"),
                .init(why(delivery)), .init(delivery.message),
            ])
        }
        return table
    }

    private func why(_ delivery: ListedDelivery) -> String {
        let status = delivery.httpStatus.map { "answered \($0)" }
        switch delivery.state {
        case .delivered: return status ?? "-"
        case .dead: return delivery.failure?.withoutEnd ?? status ?? "-"
        case .waiting:
            if delivery.isPaused { return "paused until posthouse resume \(delivery.integration)" }
            if delivery.isBlocked { return "blocked by its purchase" }
            let seconds = delivery.dueAt.map { ($0.milliseconds - ThisProcess.now().milliseconds) / 1_000 } ?? 0
            let due = seconds > 0 ? "in \(Age.text(seconds: Double(seconds)))" : "due"
            // A failed probe, for one, uses up no attempt.
            let isTried = delivery.attempts > 0 || delivery.failure != nil || delivery.httpStatus != nil
            // Put off all the same: its message cannot be read, or the database's clock was ahead.
            guard isTried else { return seconds > 0 ? "\(due): not tried yet" : "not tried yet" }
            return (delivery.failure?.withoutEnd ?? status).map { "\(due): \($0)" } ?? due
        }
    }

    private func write(_ deliveries: [ListedDelivery], into json: inout JSONWriter) {
        json.member("deliveries", objects: deliveries) { delivery, json in
            json.member("delivery", delivery.id)
            json.member("message", delivery.message)
            json.member("type", delivery.type)
            json.member("integration", delivery.integration)
            json.member("state", delivery.state.rawValue)
            json.member("at", delivery.at)
            json.member("attempts", delivery.attempts)
            json.member("due_at", delivery.dueAt)
            json.member("blocked", delivery.isBlocked)
            json.member("paused", delivery.isPaused)
            json.member("http_status", delivery.httpStatus)
            json.member("failure", delivery.failure)
            json.member("store_transaction_id", delivery.transaction)
        }
    }
}

extension ListedDelivery.State: ExpressibleByArgument {}
