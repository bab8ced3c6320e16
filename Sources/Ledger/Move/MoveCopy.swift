import Postgres
import Vocabulary

/// Copies the ledger inside the target's transaction.
struct MoveCopy {
    let source: ConnectionSettings
    let origin: MoveOrigin
    let goesOn: @Sendable (LedgerMove.Stage) -> Bool

    /// Fills a target that was examined.
    /// - Returns: the tables, with their rows as read from the source and counted in the target.
    func fill(_ target: borrowing Session) throws(DatabaseError) -> Result<[LedgerMove.Table], MoveFailure> {
        let names = origin.tables.map(\.name)
        let there = Set(try target.run(MoveStatements.tables, ()).map { name, _ in name })
        if let unknown = names.first(where: { !there.contains($0) }) { return .failure(.unknownTable(unknown)) }
        // Other writers wait until this transaction has ended.
        try target.script(
            """
            LOCK TABLE \((names + ["daemons"]).joined(separator: ", ")) IN SHARE ROW EXCLUSIVE MODE;
            SET LOCAL lock_timeout = 0
            """)
        for register in LedgerMove.registers.sorted() { try target.script("DELETE FROM \(register)") }
        let read: Result<[LedgerMove.Table], MoveFailure>
        do throws(MoveFailure) {
            read = .success(try copyAll(into: target))
        } catch {
            return .failure(error)
        }
        guard case .success(let tables) = read else { return read }
        for table in tables {
            guard goesOn(.comparing(table: table.name)) else { return .failure(.givenUp) }
            let count = try target.count(table.name)
            guard count == table.rows else {
                return .failure(.miscounted(table: table.name, source: table.rows, target: count))
            }
        }
        try target.script(PeriodTables.completion)
        // Without statistics the first query plans on a large ledger would be guesses.
        try target.script("ANALYZE \(names.joined(separator: ", "))")
        _ = try target.execute(MoveStatements.record, origin.cluster)
        return .success(tables)
    }

    /// Copies from one snapshot of the source.
    private func copyAll(into target: borrowing Session) throws(MoveFailure) -> [LedgerMove.Table] {
        // A failure of the target must not count as one of the source, in whose session the closures run.
        var failure: MoveFailure?
        var tables: [LedgerMove.Table] = []
        do throws(DatabaseError) {
            try target.beside(source) { source throws(DatabaseError) in
                try source.transaction(.snapshot) { source throws(DatabaseError) in
                    try source.script("SET LOCAL statement_timeout = 0")
                    do throws(MoveFailure) {
                        tables = try copyAll(from: source, into: target)
                    } catch {
                        failure = error
                    }
                }
            }
        } catch {
            throw failure ?? .source(error)
        }
        if let failure { throw failure }
        return tables
    }

    private func copyAll(
        from source: borrowing Session, into target: borrowing Session
    ) throws(MoveFailure) -> [LedgerMove.Table] {
        let (shapes, days) = try Self.reading { () throws(DatabaseError) in
            (try source.run(MoveStatements.tables, ()), try source.run(Upkeep.partitions, ()).map(\.day))
        }
        try Self.writing { () throws(DatabaseError) in try Upkeep.makePartitions(days, on: target) }
        for table in PeriodTables.names {
            let partitions = try Self.reading { () throws(DatabaseError) in
                try source.run(PeriodTables.partitions, table)
            }
            try Self.writing { () throws(DatabaseError) in
                try PeriodTables.remake(partitions, of: table, on: target)
            }
        }
        let total = origin.tables.reduce(0) { $0 + $1.rows }
        var tables: [LedgerMove.Table] = []
        var done = 0
        for (name, columns) in shapes where !LedgerMove.staying.contains(name) {
            let rows = try copy(name, columns, from: source, to: target) { rows in
                goesOn(.copying(table: name, done: done + rows, of: total))
            }
            done += rows
            tables.append(LedgerMove.Table(name: name, rows: rows))
        }
        let (positions, isPartitioned) = try Self.reading { () throws(DatabaseError) in
            (try source.run(MoveStatements.sequences, ()), try source.run(PeriodTables.isPartitioned, ()).first == true)
        }
        try Self.writing { () throws(DatabaseError) in
            try Self.advance(positions, asInSource: isPartitioned ? PeriodTables.sequences : [], on: target)
        }
        return tables
    }

    /// - Returns: the rows read from the source; every one of them was written.
    private func copy(
        _ name: String, _ columns: [String], from source: borrowing Session, to target: borrowing Session,
        goesOn: (Int) -> Bool
    ) throws(MoveFailure) -> Int {
        guard goesOn(0) else { throw .givenUp }
        // No daemon of the source is alive, so its leases are dropped.
        let values = columns.map { name == "deliveries" && $0 == "leased_by" ? "NULL" : $0 }
        let count: (read: Int, written: Int)
        do throws(CopyFailure) {
            count = try source.copy(
                "COPY (SELECT \(values.joined(separator: ", ")) FROM \(name)) TO STDOUT", to: target,
                "COPY \(name) (\(columns.joined(separator: ", "))) FROM STDIN", stall: LedgerMove.stall,
                step: LedgerMove.step, goesOn: goesOn)
        } catch {
            switch error {
            case .source(let error): throw .source(error)
            case .target(let error): throw .target(error)
            case .givenUp: throw .givenUp
            }
        }
        guard count.read == count.written else {
            throw .miscounted(table: name, source: count.read, target: count.written)
        }
        return count.read
    }

    /// Moves sequences past what the source has given out, and never back: a number once given out is not used again.
    /// - Parameter same: those that stand as in the source, because the tables for their numbers are the source's.
    private static func advance(
        _ positions: [(String, Int64?)], asInSource same: [String], on target: borrowing Session
    ) throws(DatabaseError) {
        let own = Dictionary(firstOf: try target.run(MoveStatements.sequences, ()))
        for case (let name, let position?) in positions where own.keys.contains(name) {
            let further = same.contains(name) ? position : max(position, own[name].flatMap(\.self) ?? 0)
            _ = try target.run(MoveStatements.setSequence, (name, further))
        }
    }

    private static func reading<Value>(
        _ body: () throws(DatabaseError) -> Value
    ) throws(MoveFailure) -> Value {
        do throws(DatabaseError) { return try body() } catch { throw .source(error) }
    }

    private static func writing(_ body: () throws(DatabaseError) -> Void) throws(MoveFailure) {
        do throws(DatabaseError) { try body() } catch { throw .target(error) }
    }
}
