import ArgumentParser
import JSONText
import Ledger
import Vocabulary

struct EventsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "events", abstract: "List the webhooks that are stored, the newest first.",
        discussion: "A holder's events are its own and those that moved a purchase from or to it.")

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @OptionGroup var handles: HandleOptions
    @Option(help: "Only of this source.", completion: NameCompletion.sources) var source: String?
    @Option(help: .init("Received since: \(TimeArgument.help)", valueName: "time")) var since: TimeArgument?
    @Option(help: "At most so many, up to 10000.") var limit: Int32 = 50

    func validate() throws { try ListLimit.validate(limit) }

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            if source != StoredEvent.relaySource {
                try await LedgerCommand.requireSource(source, configuration, in: pool)
            }
            let events = try await HandleOptions.inTime(handles.handle) {
                try await StoredEvent.read(
                    handles.handle, source: source, since: since?.time, limit: limit, from: pool)
            }
            if output.json { return Terminal.print { write(events, into: &$0) } }
            guard !events.isEmpty else { return Terminal.printToStandardError("no event matches") }
            Terminal.print(table(events))
            if events.count == Int(limit) { Terminal.printToStandardError(ListLimit.hint(limit)) }
        }
    }

    private func table(_ events: [StoredEvent]) -> Table {
        var table = Table([
            .init(title: "RECEIVED"), .init(title: "SOURCE", dropsFirst: 1),
            .init(title: "NAME", shrinksTo: 20), .init(title: "HOLDER", shrinksTo: 14),
            .init(title: "TRANSACTION", shrinksTo: 15),
            .init(title: "MESSAGES", isNumber: true, dropsFirst: 4),
            .init(title: "EVENT", shrinksTo: 36, dropsFirst: 3),
            .init(title: "ENVIRONMENT", dropsFirst: 2),
        ])
        for event in events {
            table.rows.append([
                .init(event.receivedAt.toTheSecond), .init(event.source), .init(event.name),
                .init(event.holder.isEmpty ? "-" : event.holder), .init(event.transaction ?? "-"),
                .init("\(event.messages)"), .init(event.eventID),
                .init(event.environment, event.environment == "PRODUCTION" ? .plain : .faint),
            ])
        }
        return table
    }

    private func write(_ events: [StoredEvent], into json: inout JSONWriter) {
        json.member("events", objects: events) { event, json in
            json.member("event_id", event.eventID)
            json.member("source", event.source)
            json.member("environment", event.environment)
            json.member("event_name", event.name)
            json.member("type", event.type)
            json.member("holder", event.holder.isEmpty ? nil : event.holder)
            json.member("received_at", event.receivedAt)
            json.member("occurred_at", event.occurredAt)
            json.member("store_transaction_id", event.transaction)
            json.member("purchase", event.purchase)
            json.member("messages", event.messages)
        }
    }
}

/// The option `--limit` of the lists.
enum ListLimit {
    private static let range: ClosedRange<Int32> = 1...10_000

    static func validate(_ limit: Int32) throws {
        guard range.contains(limit) else { throw ValidationError("--limit is a number from 1 to \(range.upperBound)") }
    }

    static func hint(_ limit: Int32) -> String { "the newest \(limit); there may be more (--limit, --since)" }
}
