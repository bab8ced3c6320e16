import Postgres
import Vocabulary

/// Begins periods and drops those whose time is over.
extension Upkeep {
    /// Events of a period that are kept beyond its time. A period of which more are needed stands until fewer are.
    package static let keptMax: Int32 = 1_000
    /// Bytes of their bodies: they are copied while everybody waits.
    private static let keptBytesMax: Int64 = 8 << 20
    /// Rows read of a partition for the planner: enough to see what is unique.
    static let statisticsTarget = 10
    private static let statisticsTimeout: Duration = .seconds(600)

    /// Moves on sequences that are behind their tables, and begins the next period when it is due; runs at the start,
    /// before anything is recorded, and every hour. The partitions of a period come first, and once they are committed
    /// its first id: until then the period before goes on.
    /// - Returns: whether it did.
    @discardableResult
    package func beginPeriod() async throws -> Bool {
        let (pool, retention) = (pool, retention)
        return try await pool.withSession { session throws(DatabaseError) in
            let isBegun = try session.transaction { session throws(DatabaseError) in
                try PeriodTables.lock(on: session)
                try PeriodTables.catchUp(on: session)
                // A clock that was ahead then would let no period end until it is there.
                _ = try session.execute(PeriodTables.correct, ())
                guard let period = try PeriodTables.facts(on: session).due(retention) else { return false }
                // Partitions whose ids never come would soon look as if their time were over.
                guard try session.run(PeriodTables.mayMove, ()).first == true else { throw Self.notAllowed }
                try session.script(Self.lockTimeout(Self.lockWaitMax))
                try session.script(PeriodTables.creation(of: period))
                try PeriodTables.giveToOwner(PeriodTables.names.map { "\($0)_\(period)" }, on: session)
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
    }

    /// Statistics for the planner of the two tables as wholes; after a period has begun. Nobody else makes them:
    /// autovacuum leaves out partitioned tables.
    package func analyzePeriodTables() async throws {
        for table in PeriodTables.names {
            try await pool.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    try session.script(
                        """
                        SET LOCAL statement_timeout = 0; SET LOCAL default_statistics_target = \(Self.statisticsTarget);
                        ANALYZE \(table)
                        """, upTo: Self.statisticsTimeout)
                }
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
            for table in PeriodTables.names { try await boundKept(of: table, below: Period.firstID(period + 1)) }
            let result = try await pool.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in try drop(period, on: session) }
            }
            switch result {
            case .dropped, .notYet: break
            case .isUnfinished:
                observe(
                    .warning(
                        "webhooks are kept beyond [retention] events: one of them moves the purchases of a holder, and "
                            + "not all are moved yet; see the warnings about it, or whether its source is configured"))
            case .tooMuchIsNeeded:
                observe(
                    .warning(
                        "webhooks are kept beyond [retention] events: in one partition, more than \(keptMax) events or "
                            + "\(Self.keptBytesMax >> 20) MiB are still waiting or are dead letters (posthouse "
                            + "status); deliver or discard them: posthouse discard, then discard --dead"))
            }
            // The rows kept of a later one would lie on both sides of it.
            guard result == .dropped else { return }
        }
        for name in [PeriodTables.before, PeriodTables.kept] {
            try await pool.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in try Self.dropEmptied(name, on: session) }
            }
        }
    }

    private static let notAllowed = DatabaseError.refused(
        Refusal(sqlState: "42501", message: "no privilege UPDATE on the sequences event_ids and message_ids"))

    enum DropResult {
        case dropped
        /// It still grows or has young events, whatever `periods` says; or somebody reads it for long.
        case notYet
        /// A change of holders that it states is not applied to all its purchases yet.
        case isUnfinished
        case tooMuchIsNeeded
    }

    func drop(_ period: Int64, on session: borrowing Session) throws(DatabaseError) -> DropResult {
        let (first, end) = (Period.firstID(period), Period.firstID(period + 1))
        // What is needed can only become less from here on: nobody puts an old message into the queue meanwhile.
        try Requeue.lock(on: session)
        try PeriodTables.lock(on: session)
        let facts = try PeriodTables.facts(on: session)
        // Another daemon was faster.
        guard facts.existing.contains(where: { $0.period == period }) else { return .dropped }
        guard try SwitchGate.isFree(PeriodTables.names, on: session) else { return .notYet }
        guard facts.positions.allSatisfy({ $0 >= end - 1 }),
            try session.run(PeriodTables.hasYoung, (first, end, retention.events.wholeMilliseconds)).first == false
        else { return .notYet }
        if try session.run(PeriodTables.isUnfinished, (first, end)).first == true { return .isUnfinished }
        // Whatever the planner knows of the sizes of partitions: what is looked for is little, and has an index.
        try session.script("SET LOCAL enable_seqscan = off")
        let needed = try session.run(PeriodTables.needed, (first, end, keptMax + 1))
        guard needed.count <= Int(keptMax),
            try session.run(PeriodTables.bytes, needed).first ?? 0 <= Self.keptBytesMax
        else { return .tooMuchIsNeeded }
        try session.script(PeriodTables.lockTables)
        // Of an event that goes: its messages may lie in the period after its own.
        var sql = """
            DELETE FROM messages
            WHERE id >= \(end) AND event >= \(first) AND event < \(end) AND event <> ALL (\(Self.array(needed)));

            """
        for table in PeriodTables.names {
            let (own, kept) = ("\(table)_\(period)", "\(table)_\(PeriodTables.kept)")
            let partitions = try session.run(PeriodTables.partitions, table)
            guard partitions.contains(where: { $0.name == own }) else { continue }
            sql += PeriodTables.detaching(own, from: table)
            let earlier = partitions.first { $0.name == kept }
            let bounds = try session.run(PeriodTables.bounds, kept).map(\.name)
            let unbounding = bounds.map { "ALTER TABLE \(kept) DROP CONSTRAINT \($0);\n" }.joined()
            let isBounded = bounds == [PeriodTables.bound(below: end)]
            if let earlier {
                sql += PeriodTables.detaching(earlier.name, from: table) + (isBounded ? "" : unbounding)
            } else {
                sql += PeriodTables.creation(kept, in: table)
            }
            sql += "INSERT INTO \(kept) SELECT * FROM \(own) WHERE \(Self.condition(table, needed, below: first));\n"
            sql += PeriodTables.attaching(kept, to: table, from: earlier?.from ?? first, below: end)
            if isBounded { sql += unbounding }
            sql += "DROP TABLE \(own);\n"
        }
        try session.script(sql)
        try PeriodTables.giveToOwner(PeriodTables.names.map { "\($0)_\(PeriodTables.kept)" }, on: session)
        _ = try session.execute(PeriodTables.end, period)
        return .dropped
    }

    /// Proves, while everybody goes on, that what is kept of a table lies where it will be attached again: `drop` would
    /// read all of it behind its locks.
    func boundKept(of table: String, below end: Int64) async throws {
        let (kept, bound) = ("\(table)_\(PeriodTables.kept)", PeriodTables.bound(below: end))
        try await pool.withSession { session throws(DatabaseError) in
            // nil: there is nothing to prove, or not now.
            let isProven = try session.transaction { session throws(DatabaseError) -> Bool? in
                try PeriodTables.lock(on: session)
                guard let earlier = try session.run(PeriodTables.partitions, table).first(where: { $0.name == kept }),
                    let from = earlier.from, earlier.to < end
                else { return nil }
                // `drop` would come no further, and who reads all periods would wait behind this.
                guard try SwitchGate.isFree([kept], on: session) else { return nil }
                if let known = try session.run(PeriodTables.bounds, kept).first(where: { $0.name == bound }) {
                    return known.isProven
                }
                try session.script(
                    """
                    \(Self.lockTimeout(Self.lockWaitMax));
                    ALTER TABLE \(kept) ADD CONSTRAINT \(bound) CHECK (id >= \(from) AND id < \(end)) NOT VALID
                    """)
                return false
            }
            guard isProven == false else { return }
            do throws(DatabaseError) {
                try session.transaction { session throws(DatabaseError) in
                    try session.script(
                        "SET LOCAL statement_timeout = 0; ALTER TABLE \(kept) VALIDATE CONSTRAINT \(bound)",
                        upTo: Self.statisticsTimeout)
                }
            } catch  where error.isMissingObject {
                // Another daemon was faster and has dropped the period.
            }
        }
    }

    /// Which rows of a table are kept. A message may lie in the period after its event's.
    private static func condition(_ table: String, _ needed: [Int64], below first: Int64) -> String {
        let ids = "ANY (\(array(needed)))"
        guard table == "messages" else { return "id = \(ids)" }
        return "event = \(ids) OR event < \(first) AND EXISTS (SELECT FROM events e WHERE e.id = event)"
    }

    private static func array(_ ids: [Int64]) -> String {
        "'{\(ids.map(String.init).joined(separator: ","))}'::bigint[]"
    }

    /// Drops what lies below the periods once nothing is in it and no id of it is to come.
    private static func dropEmptied(_ name: String, on session: borrowing Session) throws(DatabaseError) {
        try PeriodTables.lock(on: session)
        guard try isEmptied(name, on: session), try SwitchGate.isFree(PeriodTables.names, on: session) else { return }
        try session.script(PeriodTables.lockTables)
        // Who waited for its commit until then may have put something in.
        guard try isEmptied(name, on: session) else { return }
        try session.script("DROP TABLE \(PeriodTables.names.map { "\($0)_\(name)" }.joined(separator: ", "))")
    }

    private static func isEmptied(_ name: String, on session: borrowing Session) throws(DatabaseError) -> Bool {
        let positions = try PeriodTables.facts(on: session).positions
        for table in PeriodTables.names {
            let own = "\(table)_\(name)"
            guard let partition = try session.run(PeriodTables.partitions, table).first(where: { $0.name == own }),
                positions.allSatisfy({ $0 >= partition.to - 1 })
            else { return false }
            // The newest go last, so the index has one at its end if there is any.
            let newest = "SELECT id FROM \(own) ORDER BY id DESC LIMIT 1"
            guard try session.number(newest, stall: LedgerMove.stall) == nil else { return false }
        }
        return true
    }
}
