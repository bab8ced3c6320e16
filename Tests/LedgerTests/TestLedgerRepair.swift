import Synchronization
import Testing
import Vocabulary

@testable import Ledger

/// Reads stored webhooks back as the events that a test recorded, as an adapter does from their bodies.
final class Readings: Sendable {
    private let events = Mutex<[Identifier: Event]>([:])

    func remember(_ new: [Event]) {
        events.withLock { events in for event in new { events[KeyHash.event(event)] = event } }
    }

    var repair: Repair {
        Repair(rules: Daemon.rules, eventsKept: .seconds(400 * 86_400)) { stored in
            self.events.withLock { $0[stored.key] }.map { ReadWebhook($0) }
        }
    }
}

extension TestLedger {
    /// Records events one by one and remembers them for repairs.
    func record(_ events: [Event], by daemon: Daemon, _ readings: Readings) async {
        readings.remember(events)
        for event in events { await daemon.record([event]) }
    }

    func damage(_ condition: String = "true") throws {
        try psql(#"UPDATE purchases SET state = '\xff' WHERE \#(condition)"#)
    }

    /// State, kind and access of every purchase, and the transfers announced.
    func picture() throws -> String {
        try psql("SELECT id, kind, convert_from(state, 'UTF8') FROM purchases ORDER BY id")
            + knownAccess()
            + psql("SELECT id FROM transfers ORDER BY id")
    }

    /// The same, with all moves made part of the facts: a restore that moved nothing cannot be found once its row of
    /// `holder_changes` is pruned, and says nothing any more.
    func settledPicture() throws -> String {
        let states = try psql("SELECT kind || ' ' || encode(state, 'hex') FROM purchases ORDER BY id")
            .split(separator: "\n").map { line in
                let parts = line.split(separator: " ")
                let bytes = stride(from: 0, to: parts[1].count, by: 2).compactMap { offset in
                    UInt8(parts[1].dropFirst(offset).prefix(2), radix: 16)
                }
                let state = try PurchaseState(bytes: bytes)
                return "\(parts[0]) " + String(decoding: state.bytes(.plain), as: UTF8.self)
            }
        return try states.joined()
            + knownAccess()
            + psql("SELECT id FROM transfers ORDER BY id")
    }

    /// Who has which purchase, and since when.
    func knownAccess() throws -> String {
        try psql("SELECT purchase, holder, active, as_of_ms FROM \(Self.access) AS a ORDER BY purchase, holder")
    }

    /// The rows of all tables that say something of purchases and messages.
    func tables() throws -> String {
        let tables = [
            "purchases", "entitlements", "transfers", "transactions", "holder_changes", "events", "messages",
            "deliveries", "quarantine",
        ]
        return try tables.map { try psql("SELECT t::text FROM \($0) AS t ORDER BY 1") }
            .joined(separator: "\n")
    }

    /// Of each purchase, the oldest webhooks go first, as retention prunes them.
    func loseWebhooks(percent: Int) throws {
        try psql(
            """
            DELETE FROM events e USING (
                SELECT id, percent_rank() OVER (PARTITION BY purchase ORDER BY id) * 100 AS rank FROM events
                WHERE purchase IS NOT NULL) AS r
            WHERE r.id = e.id AND r.rank <= \(percent)
            """)
    }

    func repair(
        _ name: String, _ readings: Readings, isDry: Bool = false, by daemon: Daemon
    ) async throws -> RepairReport {
        let ids = try await Repair.named(name, source: nil, in: daemon.pool)
        #expect(ids.count == 1)
        let report = try await readings.repair.run(ids[0], isDry: isDry, in: daemon.pool)
        return try #require(report)
    }

    func repairAll(_ readings: Readings, isDry: Bool = false, by daemon: Daemon) async throws -> [RepairReport] {
        var reports: [RepairReport] = []
        for id in try await Repair.page(after: nil, source: nil, in: daemon.pool) {
            if let report = try await readings.repair.run(id, isDry: isDry, in: daemon.pool) { reports.append(report) }
        }
        return reports
    }

    /// As if the retry horizon had passed since everything was recorded, and upkeep had run.
    func forgetChanges() throws {
        try psql("UPDATE events SET received_at = now() - interval '30 days'; DELETE FROM holder_changes")
    }
}

extension Event {
    static func change(
        _ change: HolderChange, by holder: Holder, at: Int64, source: String, environment: String = "PRODUCTION",
        links: [HolderLink] = []
    ) -> Event {
        Event(
            scope: Scope(source: source, app: "app.one", environment: environment), vendorEventID: nil,
            name: "\(change)", type: "CHANGE", holder: holder, occurredAt: seconds(at), purchase: nil,
            transaction: nil, change: change, links: links, body: Array("{}".utf8))
    }
}
