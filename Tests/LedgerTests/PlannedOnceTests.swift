import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// `Planning.onceByIndex` keeps a plan until the statistics of its tables change. Made while the tables are empty, it
/// must still be right when they are not. Oracle: EXPLAIN.
@Suite("Statements about event keys and purchases that are planned once", .serialized, .timeLimit(.minutes(30)))
struct PlannedOnceTests {
    private typealias Planned = PlannedStatement

    private static let recording = [
        Planned(RecordStatements.admit), Planned(RecordStatements.forget),
        Planned(RecordStatements.differing), Planned(RecordStatements.lockPurchases),
        Planned(RecordStatements.lockNamedPurchases), Planned(RecordStatements.occupied),
        Planned(RecordStatements.occupiedByNamed), Planned(RecordStatements.quarantine),
        Planned(RecordTables.purchasesIfAbsent), Planned(RecordTables.messagesIfAbsent),
        Planned(RecordStatements.messagesKept),
        Planned(RelayMessage.keys),
        Planned(RecordTables.transactions.insert),
        Planned(RecordTables.entitlements.insert), Planned(HolderTables.links.insert),
        Planned(HolderTables.identities.insert), Planned(HolderTables.changes.insert),
        Planned(HolderStatements.newestTransactions), Planned(HolderStatements.changes),
        Planned(HolderStatements.changesBeforeTimedKeys),
        Planned(HolderStatements.cause), Planned(HolderStatements.advance),
        Planned(MessageAccessStatements.held),
    ]

    private static let delivering = [
        Planned(MessageReading.messages), Planned(MessageReading.events), Planned(MessageReading.messageBytes),
        Planned(MessageReading.eventBytes),
    ]

    /// One row, or asked only whether it has any.
    private static let small = ["erasure_salt", "erased_events_pkey"]

    @Test("Each reads its tables by conditions, however few rows they had when it was planned", arguments: [0, 60])
    func byConditions(stored: Int) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all", order: .purchase)])
            if stored > 0 {
                await daemon.record((0..<stored).map { .sample(purchase: "p\($0)", transaction: "t\($0)") })
            }
            try ledger.psql("ANALYZE")
            for planned in Self.recording + Self.delivering {
                let plan = try planned.plan(with: planned.types.map { _ in "NULL" }, in: ledger)
                for (line, next) in zip(plan, plan.dropFirst() + [""]) where line.contains(" Scan ") {
                    let isByCondition =
                        line.contains("Function Scan") || line.contains("Subquery Scan") || line.contains("CTE Scan")
                        || line.contains("Values Scan") || line.contains("Bitmap Heap Scan")
                        || next.contains("Index Cond") || Self.small.contains { line.contains(" \($0) ") }
                    #expect(isByCondition, "\(planned.name)\n\(plan.joined(separator: "\n"))")
                }
            }
        }
    }

    @Test("What messages send is read only from the partitions that have it")
    func partitions() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            await daemon.record([.sample(purchase: "p", transaction: "t")])
            for table in ["events", "messages"] {
                try ledger.psql(
                    """
                    CREATE TABLE \(table)_7 (LIKE \(table) INCLUDING DEFAULTS);
                    ALTER TABLE \(table) ATTACH PARTITION \(table)_7
                        FOR VALUES FROM (\(Period.firstID(7))) TO (\(Period.firstID(8)))
                    """)
            }
            let statements: [(table: String, planned: Planned, more: [String])] = [
                ("events", Planned(MessageReading.events), ["9999"]),
                ("events", Planned(MessageReading.eventBytes), []),
                ("messages", Planned(MessageReading.messages), ["9999"]),
                ("messages", Planned(MessageReading.messageBytes), []),
            ]
            for (table, planned, more) in statements {
                let id = try ledger.psql("SELECT id FROM \(table)")
                let plan = try planned.plan(with: ["ARRAY[\(id)]", id, id] + more, in: ledger)
                #expect(plan.contains { $0.contains("Subplans Removed: 1") }, "\(planned.name)\n\(plan)")
            }
        }
    }
}
