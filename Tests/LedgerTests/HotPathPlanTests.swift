import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// What a webhook and a delivery cost must not depend on how many periods stand. Oracle: EXPLAIN ANALYZE over as many
/// as may stand.
@Suite("Plans of the hot path over sixty periods", .serialized, .timeLimit(.minutes(30)))
struct HotPathPlanTests {
    /// Deliveries that wait, so that reading their table whole is not the cheapest plan.
    private static let waiting = 20_000

    /// SQL of what was recorded.
    private struct Recorded {
        let integration: String
        let lease: String
        let events: [String]
        let messages: [String]
        let purchases: [String]
        let deliveries: [String]
    }

    private static func array(_ values: [String], of type: String) -> String {
        "ARRAY[\(values.joined(separator: ", "))]::\(type)[]"
    }

    private static func bounded(_ ids: [String]) -> [String] { [array(ids, of: "bigint"), ids[0], ids[ids.count - 1]] }

    @Test("Statements by row ids read the periods that have them, and no other")
    func byRow() async throws {
        try await Self.overPeriods { ledger, recorded in
            let (events, messages) = (recorded.events, recorded.messages)
            let statements: [(statement: PlannedStatement, values: [String], planning: Planning, tables: [String])] = [
                (
                    PlannedStatement(MessageReading.messages), Self.bounded(messages) + ["9999"], .onceByIndex,
                    ["messages"]
                ),
                (PlannedStatement(MessageReading.messageBytes), Self.bounded(messages), .onceByIndex, ["messages"]),
                (PlannedStatement(MessageReading.events), Self.bounded(events) + ["9999"], .onceByIndex, ["events"]),
                (PlannedStatement(MessageReading.eventBytes), Self.bounded(events), .onceByIndex, ["events"]),
                (PlannedStatement(TraceStatements.events), [Self.array(events, of: "bigint")], .eachTime, ["events"]),
                (PlannedStatement(TraceStatements.body), [events[0]], .eachTime, ["events"]),
                // Of the messages of an event each period is asked, by its index.
                (
                    PlannedStatement(TraceStatements.messages), [Self.array(events, of: "bigint"), "9"], .eachTime,
                    ["events"]
                ),
                (
                    PlannedStatement(TraceStatements.waiting), [Self.array(messages, of: "bigint")], .eachTime,
                    ["events", "messages"]
                ),
                (
                    PlannedStatement(TraceStatements.holdings), [Self.array(events, of: "bigint"), "9", "'user:1'"],
                    .eachTime, ["events"]
                ),
            ]
            for (statement, values, planning, tables) in statements {
                let plan = try statement.plan(with: values, planning: planning, isRun: true, in: ledger)
                for table in tables {
                    let read = Self.partitionsRead(of: table, by: plan)
                    #expect(read.count <= 1, "\(statement.name): \(read)\n\(plan.joined(separator: "\n"))")
                }
            }
        }
    }

    @Test("Statements by event, message, key, purchase or holder read each period by an index")
    func byIndex() async throws {
        try await Self.overPeriods { ledger, recorded in
            let (events, messages) = (recorded.events, recorded.messages)
            let ones = messages.map { _ in "1" }
            let statements: [(PlannedStatement, [String])] = [
                (PlannedStatement(RecordStatements.messagesKept), [Self.array(recorded.purchases, of: "uuid")]),
                (PlannedStatement(TraceStatements.messages), [Self.array(events, of: "bigint"), "9"]),
                (PlannedStatement(TraceStatements.attempts), [Self.array(messages, of: "bigint"), "9"]),
                (
                    PlannedStatement(QueueStatements.attemptsThere),
                    [
                        Self.array(messages, of: "bigint"), Self.array(ones, of: "bigint"),
                        Self.array(ones, of: "smallint"), Self.array(ones.map { _ in "'accepted'" }, of: "text"),
                        Self.array(ones, of: "smallint"), Self.array(ones, of: "integer"),
                    ]
                ),
                (PlannedStatement(TraceStatements.dead), [Self.array(messages, of: "bigint")]),
                (PlannedStatement(TraceStatements.waiting), [Self.array(messages, of: "bigint")]),
                (PlannedStatement(TraceStatements.holdings), [Self.array(events, of: "bigint"), "9", "'user:1'"]),
                (PlannedStatement(EventHandleStatements.byTransaction), ["'t1'", "9"]),
                (PlannedStatement(EventHandleStatements.byHolder), ["'user:1'", "9"]),
                (PlannedStatement(EventHandleStatements.byMessage), [recorded.purchases[0]]),
                (PlannedStatement(EventHandleStatements.byEventKey), [Self.array(recorded.purchases, of: "uuid")]),
            ]
            for (statement, values) in statements {
                // Without scans of tables that have a page or two: an index that is not there shows.
                let plan = try statement.plan(with: values, planning: .onceByIndex, in: ledger)
                let scans = plan.filter { $0.contains("Seq Scan on") && !$0.contains(" integrations ") }
                #expect(scans == [], "\(statement.name)\n\(plan.joined(separator: "\n"))")
            }
        }
    }

    @Test("Claims, settlements and successors read no period at all, and each index from its first column on")
    func ofQueue() async throws {
        try await Self.overPeriods { ledger, recorded in
            let statements: [(PlannedStatement, [String], Planning)] = [
                (
                    PlannedStatement(QueueStatements.claim),
                    [recorded.integration, recorded.lease, "0", "0", "256"], .eachTime
                ),
                (PlannedStatement(QueueStatements.due), ["ARRAY[\(recorded.integration)]"], .eachTime),
            ]
            try Self.expectByIndex(statements + Self.byIDs(recorded) + Self.ofSuccessors(recorded), in: ledger)
            // Of a purchase for which nothing waits no integration is looked at.
            let plan = try PlannedStatement(RecordStatements.occupied).plan(
                with: ["ARRAY[gen_random_uuid()]", "ARRAY[\(recorded.integration)]"], isRun: true, in: ledger)
            let looks = plan.filter { $0.contains("using deliveries_of_purchase") }
            #expect(looks.map { $0.contains("never executed") } == [false, true], "\(plan.joined(separator: "\n"))")
        }
    }

    @Test("What is looked up by id or by purchase is so, too, if the queue was empty when its statistics were made")
    func wasEmpty() async throws {
        try await Self.overPeriods { ledger, recorded in
            // Emptied, but not vacuumed, by autovacuum either: pages without a row.
            try ledger.psql(
                """
                ALTER TABLE deliveries SET (autovacuum_enabled = off);
                CREATE TABLE emptied AS TABLE deliveries; DELETE FROM deliveries; ANALYZE deliveries
                """)
            try #require(
                try ledger.psql(
                    "SELECT relpages > 0 AND reltuples = 0 FROM pg_class WHERE oid = 'deliveries'::regclass") == "t")
            try ledger.psql("INSERT INTO deliveries TABLE emptied")
            try Self.expectByIndex(Self.byIDs(recorded) + Self.ofSuccessors(recorded), in: ledger)
            // What is planned once may be asked first where there is no page at all.
            try ledger.psql("TRUNCATE deliveries; ANALYZE deliveries")
            try Self.expectByIndex(Self.ofSuccessors(recorded).filter { $0.2 == .onceByIndex }, in: ledger)
        }
    }

    private static func byIDs(_ recorded: Recorded) -> [(PlannedStatement, [String], Planning)] {
        let (lease, count) = (recorded.lease, recorded.deliveries.count)
        let ids = array(recorded.deliveries, of: "bigint")
        let created = array(Array(repeating: "1000", count: count), of: "bigint")
        let attempts = array(Array(repeating: "1", count: count), of: "smallint")
        return [
            (PlannedStatement(QueueStatements.unclaim), [ids, lease], .eachTime),
            (PlannedStatement(QueueStatements.giveBack), [ids, lease, created], .eachTime),
            (PlannedStatement(QueueStatements.giveBackUnknown), [ids, lease], .eachTime),
            (PlannedStatement(QueueStatements.unsettled), [ids], .eachTime),
            (PlannedStatement(QueueStatements.settled), [ids, lease, created], .onceByIndex),
            (PlannedStatement(QueueStatements.retry), [ids, attempts, created, lease, created], .onceByIndex),
        ]
    }

    private static func ofSuccessors(_ recorded: Recorded) -> [(PlannedStatement, [String], Planning)] {
        let (lane, count) = (recorded.integration, recorded.deliveries.count)
        let lanes = array(recorded.deliveries.map { _ in lane }, of: "integer")
        let purchases = array(recorded.purchases, of: "uuid")
        let leases = array(Array(repeating: recorded.lease, count: count), of: "bigint")
        let statements: [(PlannedStatement, [String], Planning)] = [
            (PlannedStatement(QueueStatements.leased), ["0", "2", "1"], .eachTime),
            (PlannedStatement(QueueStatements.reclaim), ["0", "2"], .eachTime),
            (PlannedStatement(QueueStatements.unblock), ["0", "2", "ARRAY[\(lane)]"], .eachTime),
            (PlannedStatement(QueueStatements.blockedNext), [lanes, purchases], .onceByIndex),
            (PlannedStatement(QueueStatements.unblockNext), [lanes, purchases, leases], .onceByIndex),
            (PlannedStatement(RecordStatements.lockNamedPurchases), [purchases, purchases], .onceByIndex),
        ]
        return statements + ofHeads(recorded)
    }

    private static func ofHeads(_ recorded: Recorded) -> [(PlannedStatement, [String], Planning)] {
        let values = [array(recorded.purchases, of: "uuid"), "ARRAY[\(recorded.integration)]"]
        return [
            (PlannedStatement(RecordStatements.occupied), values, .onceByIndex),
            (PlannedStatement(RecordStatements.occupiedByNamed), values, .onceByIndex),
        ]
    }

    private static func expectByIndex(
        _ statements: [(PlannedStatement, [String], Planning)], in ledger: TestLedger
    ) throws {
        for (statement, values, planning) in statements {
            let plan = try statement.plan(with: values, planning: planning, isRun: true, in: ledger)
            let text = "\(statement.name)\n\(plan.joined(separator: "\n"))"
            for table in ["events", "messages", "attempts"] {
                #expect(Self.partitionsRead(of: table, by: plan) == [], "\(text)")
            }
            #expect(plan.count { $0.contains("Seq Scan on deliveries") } == 0, "\(text)")
            for (line, next) in zip(plan, plan.dropFirst() + [""]) {
                for (index, column) in Self.firstColumns where line.contains(" \(index) ") {
                    #expect(next.contains("Index Cond") && next.contains("(\(column) "), "\(text)")
                }
            }
        }
    }

    /// Of the queue's indexes.
    private static let firstColumns = [
        "deliveries_pkey": "id", "deliveries_due": "integration", "deliveries_of_purchase": "purchase",
    ]

    /// Partitions of the table that the plan read when it was run.
    private static func partitionsRead(of table: String, by plan: [String]) -> Set<String> {
        var read: Set<String> = []
        for line in plan where line.contains(" Scan ") && !line.contains("never executed") {
            if line.contains("Bitmap Index Scan") { continue }
            let words = line.split(separator: " ").map(String.init)
            guard let on = words.firstIndex(of: "on"), on + 1 < words.count else { continue }
            if words[on + 1].hasPrefix("\(table)_") { read.insert(words[on + 1]) }
        }
        return read
    }

    /// A ledger with as many periods as may stand, and webhooks recorded in one of them, some delivered.
    private static func overPeriods(_ body: (TestLedger, Recorded) throws -> Void) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all", order: .purchase), .named("idle", order: .none)])
            daemon.open("all")
            await daemon.record((0..<20).map { .sample(purchase: "p\($0)", transaction: "t\($0)") })
            for table in ["events", "messages"] {
                let stand = try #require(
                    Int(try ledger.psql("SELECT count(*) FROM pg_inherits WHERE inhparent = '\(table)'::regclass")))
                for period in 1_000..<Int64(1_000 + Period.keptMax - stand) {
                    try ledger.psql(
                        """
                        CREATE TABLE \(table)_\(period) (LIKE \(table) INCLUDING DEFAULTS);
                        ALTER TABLE \(table) ATTACH PARTITION \(table)_\(period)
                            FOR VALUES FROM (\(Period.firstID(period))) TO (\(Period.firstID(period + 1)))
                        """)
                }
            }
            let (lane, idle) = (daemon.row("all"), daemon.row("idle"))
            try ledger.psql(
                """
                INSERT INTO deliveries (id, message, integration, due_at)
                SELECT 1000000 + n, 1, \(idle), now() - n * interval '1 second' FROM generate_series(1, \(waiting)) AS n;
                INSERT INTO deliveries (id, message, integration, purchase, due_at)
                SELECT 2000000 + n, 1, \(lane), gen_random_uuid(), now() FROM generate_series(1, 500) AS n;
                ANALYZE
                """)
            func list(_ query: String) throws -> [String] {
                try ledger.psql(query).split(separator: "\n").map(String.init)
            }
            try body(
                ledger,
                Recorded(
                    integration: "\(lane)", lease: "\(daemon.lease)",
                    events: try list("SELECT id FROM events ORDER BY id"),
                    messages: try list("SELECT id FROM messages ORDER BY id"),
                    purchases: try list("SELECT quote_literal(id) FROM purchases ORDER BY id"),
                    deliveries: try list("SELECT id FROM deliveries WHERE leased_by IS NOT NULL ORDER BY id")))
        }
    }
}
