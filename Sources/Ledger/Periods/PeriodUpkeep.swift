import Postgres
import Vocabulary

/// Begins periods and drops those whose time is over.
extension Upkeep {
    /// Events of a period that are kept beyond its time. A period of which more are needed stands until fewer are.
    static let keptMax: Int32 = 10_000
    /// Rows read of a partition for the planner: enough to see what is unique.
    private static let statisticsTarget = 10
    private static let statisticsPatience: Duration = .seconds(1_800)

    /// Begins the next period when it is due; runs every hour. Its partitions come first, and once they are committed
    /// its first id: until then the period before goes on.
    package func beginPeriod() async throws {
        let (pool, retention) = (pool, retention)
        let isBegun = try await pool.withSession { session throws(DatabaseError) in
            let isBegun = try session.transaction { session throws(DatabaseError) in
                try PeriodTables.lock(on: session)
                guard let period = try PeriodTables.facts(on: session).due(retention) else { return false }
                // Partitions whose ids never come would soon look as if their time were over.
                guard try session.run(PeriodTables.mayMove, ()).first == true else { throw Self.notAllowed }
                try session.script(Self.lockTimeout(Self.lockWaitMax))
                try session.script(PeriodTables.creation(of: period))
                _ = try session.execute(PeriodTables.begin, period)
                return true
            }
            try session.transaction { session throws(DatabaseError) in
                try PeriodTables.lock(on: session)
                guard let id = try PeriodTables.facts(on: session).missedID else { return }
                _ = try session.run(PeriodTables.moveSequences, id)
            }
            return isBegun
        }
        guard isBegun else { return }
        // Nobody else does: autovacuum leaves out partitioned tables.
        try await pool.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                try session.script(
                    """
                    SET LOCAL statement_timeout = 0; SET LOCAL default_statistics_target = \(Self.statisticsTarget);
                    ANALYZE \(PeriodTables.names.joined(separator: ", "))
                    """, upTo: Self.statisticsPatience)
            }
        }
    }

    /// Drops the periods whose events are all past their time, the oldest first; what is still needed of them is kept.
    func dropPeriods() async throws {
        let (pool, retention) = (pool, retention)
        let past = try await pool.withSession { session throws(DatabaseError) in
            try PeriodTables.facts(on: session).past(retention)
        }
        for period in past {
            let isDropped = try await pool.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in try drop(period, on: session) }
            }
            // The rows kept of a later one would lie on both sides of it.
            guard isDropped else { return }
        }
        try await pool.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in try Self.dropEmptied(on: session) }
        }
    }

    private static let notAllowed = DatabaseError.refused(
        Refusal(sqlState: "42501", message: "no privilege UPDATE on the sequences event_ids and message_ids"))

    /// - Returns: false: it still grows or has young events, whatever `periods` says; or too much of it is needed, or
    ///   somebody reads it for long.
    private func drop(_ period: Int64, on session: borrowing Session) throws(DatabaseError) -> Bool {
        let (first, end) = (Period.firstID(period), Period.firstID(period + 1))
        // What is needed can only become less from here on: nobody puts an old message into the queue meanwhile.
        try Requeue.lock(on: session)
        try PeriodTables.lock(on: session)
        guard try SwitchGate.isFree(PeriodTables.names, on: session) else { return false }
        guard try PeriodTables.facts(on: session).positions.allSatisfy({ $0 >= end - 1 }),
            try session.run(PeriodTables.hasYoung, (first, end, retention.events.wholeMilliseconds)).first == false
        else { return false }
        if try session.run(PeriodTables.isUnfinished, (first, end)).first == true { return false }
        let needed = try session.run(PeriodTables.needed, (first, end, keptMax + 1))
        guard needed.count <= Int(keptMax) else { return false }
        try session.script(PeriodTables.lockTables)
        var sql = ""
        for table in PeriodTables.names {
            let (own, kept) = ("\(table)_\(period)", "\(table)_\(PeriodTables.kept)")
            let partitions = try session.run(PeriodTables.partitions, table)
            guard partitions.contains(where: { $0.name == own }) else { continue }
            sql += PeriodTables.detaching(own, from: table)
            let earlier = partitions.first { $0.name == kept }
            if let earlier {
                sql += PeriodTables.detaching(earlier.name, from: table)
            } else {
                sql += PeriodTables.creation(kept, in: table)
            }
            sql += "INSERT INTO \(kept) SELECT * FROM \(own) WHERE \(Self.condition(table, needed, below: first));\n"
            sql += PeriodTables.attaching(kept, to: table, from: earlier?.from ?? first, below: end)
            sql += "DROP TABLE \(own);\n"
        }
        try session.script(sql)
        _ = try session.execute(PeriodTables.end, period)
        return true
    }

    /// Which rows of a table are kept. A message may lie in the period after its event's.
    private static func condition(_ table: String, _ needed: [Int64], below first: Int64) -> String {
        let ids = "ANY ('{\(needed.map(String.init).joined(separator: ","))}'::bigint[])"
        guard table == "messages" else { return "id = \(ids)" }
        return "event = \(ids) OR event < \(first) AND EXISTS (SELECT FROM events e WHERE e.id = event)"
    }

    /// Drops what lies below the periods once nothing is in it.
    private static func dropEmptied(on session: borrowing Session) throws(DatabaseError) {
        try PeriodTables.lock(on: session)
        for name in [PeriodTables.before, PeriodTables.kept] {
            var isEmpty = true
            for table in PeriodTables.names {
                let own = "\(table)_\(name)"
                let isThere = try session.run(PeriodTables.partitions, table).contains { $0.name == own }
                // The newest go last, so the index has one at its end if there is any.
                let newest =
                    isThere
                    ? try session.number("SELECT id FROM \(own) ORDER BY id DESC LIMIT 1", stall: LedgerMove.stall) : 0
                if newest != nil { isEmpty = false }
            }
            guard isEmpty, try SwitchGate.isFree(PeriodTables.names, on: session) else { continue }
            try session.script(PeriodTables.lockTables)
            try session.script("DROP TABLE \(PeriodTables.names.map { "\($0)_\(name)" }.joined(separator: ", "))")
        }
    }
}
