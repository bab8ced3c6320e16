package import Postgres
package import Vocabulary

// A ledger moves from a private cluster into another database: ALL of it in ONE transaction of the target, so that it
// is there whole or not at all, whenever this is cut short.
//
// Row by row as COPY writes and reads them in its text form, which is the same for all versions of PostgreSQL, over the
// two connections that libpq makes as for everything else. pg_dump and psql would do it with programs that may be
// missing and have to fit both servers (a newer pg_dump sets parameters that an older server does not know), would want
// the target's password in a file or in their environment, and a killed one leaves its psql behind, which goes on and
// may commit what nobody waits for any more.
//
// Both schemas are of this version by then, so the catalogue of the source says what there is to copy: a table that a
// later migration adds is moved without a word here.
//
// What ends at COMMIT may have ended either way for whoever was cut short there. Therefore the caller marks the source
// right before it (`beforeCommit`), and the target says which clusters were moved into it (`moves`): a marked source
// whose number stands there was moved.

/// One move of a whole ledger.
package struct LedgerMove: Sendable {
    /// How long either side may do nothing: a server that writes a checkpoint to a slow disk takes its time.
    static let stall: Duration = .seconds(300)
    /// Rows between two looks at whether to go on.
    static let step = 5_000
    /// How long a table that somebody else has locked is waited for, in milliseconds.
    static let lockTimeoutMilliseconds = 10_000

    /// Stay where they are: which migrations ran, whose leases run, what was moved in.
    static let staying: Set<String> = ["schema_migrations", "daemons", "moves"]
    /// Of these a database has rows that never saw a webhook, only a daemon that started: they give way.
    static let registers: Set<String> = [
        "breakers", "daemons", "erasure_salt", "integrations", "rate_slots", "source_names",
    ]

    package struct Table: Sendable, Equatable {
        package let name: String
        package let rows: Int
    }

    /// What is under way, for a person who waits.
    package enum Stage: Sendable {
        case copying(table: String, done: Int, of: Int)
        case comparing(table: String)
        case committing
    }

    package enum Outcome: Sendable {
        case moved([Table])
        /// An earlier call had moved it, and was cut short before it could say so.
        case found([Table], at: Timestamp)
    }

    let source: ConnectionSettings
    let target: ConnectionSettings

    /// - Parameters: both with time-outs that fit the counting of a whole table; `source` is a cluster of which nothing
    ///   else makes use now.
    package init(from source: ConnectionSettings, to target: ConnectionSettings) {
        self.source = source
        self.target = target
    }

    /// What there is to move. Both databases stay as they are.
    /// - Parameter isMarked: as of `run`.
    package func look(isMarked: Bool) async throws(MoveFailure) -> Outcome {
        let origin = try await origin()
        return try await onTarget { target throws(DatabaseError) in
            try target.decidedTransaction { target throws(DatabaseError) in
                .rollBack(try self.examine(target, origin, isMarked: isMarked))
            }
        }
    }

    /// Moves everything, or nothing. The source's schema must be up to date; the target's is brought there.
    /// - Parameters:
    ///   - isMarked: an earlier call had come as far as `beforeCommit`, and nobody has used the source since.
    ///   - beforeCommit: marks the source; why it could not, else nil.
    ///   - goesOn: told what is under way; false ends the move, with nothing changed.
    package func run(
        isMarked: Bool, beforeCommit: @escaping @Sendable () -> String?, goesOn: @escaping @Sendable (Stage) -> Bool
    ) async throws(MoveFailure) -> Outcome {
        let origin = try await origin()
        return try await onTarget { target throws(DatabaseError) in
            if let refusal = try Durability.refusal(on: target) { return .failure(.unfit(refusal)) }
            return try target.decidedTransaction { target throws(DatabaseError) in
                try target.script(
                    "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = \(Self.lockTimeoutMilliseconds)")
                try Migrator.holdStarts(on: target)
                let examined = try self.examine(target, origin, isMarked: isMarked)
                guard case .success(.moved) = examined else { return .rollBack(examined) }
                if case .failure(let error) = try Migrator.bringUpToDate(on: target) {
                    return .rollBack(.failure(.schema(error)))
                }
                let passage = MovePassage(source: self.source, origin: origin, goesOn: goesOn)
                let result = try passage.fill(target)
                guard case .success(let tables) = result else { return .rollBack(result.map { .moved($0) }) }
                _ = goesOn(.committing)
                if let reason = beforeCommit() { return .rollBack(.failure(.notMarked(reason: reason))) }
                #if DEBUG
                    Failpoint.reach(.moveBeforeCommit)
                #endif
                return .commit(.success(.moved(tables)))
            }
        }
    }

    private func onTarget(
        _ body: @Sendable (borrowing Session) throws(DatabaseError) -> Result<Outcome, MoveFailure>
    ) async throws(MoveFailure) -> Outcome {
        let result: Result<Outcome, MoveFailure>
        do throws(DatabaseError) {
            let connection = try await Connection.open(target)
            result = try await connection.withSession(body)
            await connection.close()
        } catch {
            throw error.isLocked ? .locked : .target(error)
        }
        return try result.get()
    }

    /// What the source says of itself.
    private func origin() async throws(MoveFailure) -> MoveOrigin {
        do throws(DatabaseError) {
            let connection = try await Connection.open(source)
            let origin = try await connection.withSession { session throws(DatabaseError) in
                try MoveOrigin(read: session)
            }
            await connection.close()
            return origin
        } catch {
            throw .source(error)
        }
    }

    /// Whether the target may take the ledger (`.moved`: what would be), or has it already.
    private func examine(
        _ target: borrowing Session, _ origin: MoveOrigin, isMarked: Bool
    ) throws(DatabaseError) -> Result<Outcome, MoveFailure> {
        let there = Set(try target.run(MoveStatements.tables, ()).map(\.0))
        if there.contains("daemons"), let count = try target.run(MoveStatements.livingDaemons, ()).first, count > 0 {
            return .failure(.inUse(daemons: Int(count)))
        }
        let movedAt = there.contains("moves") ? try target.run(MoveStatements.movedAt, origin.cluster).first : nil
        if let movedAt {
            let time = Timestamp(milliseconds: movedAt)
            // Nobody used a marked source since, and what holds its number holds all of it.
            if isMarked { return .success(.found(origin.tables, at: time)) }
            for table in origin.tables where !Self.registers.contains(table.name) {
                let count = there.contains(table.name) ? try target.count(table.name) : 0
                guard count == table.rows else { return .failure(.diverged(table: table.name, at: time)) }
            }
            return .success(.found(origin.tables, at: time))
        }
        var occupied: [String] = []
        for table in origin.tables where there.contains(table.name) && !Self.registers.contains(table.name) {
            if try target.number("SELECT 1 FROM \(table.name) LIMIT 1", stall: Self.stall) != nil {
                occupied.append(table.name)
            }
        }
        return occupied.isEmpty ? .success(.moved(origin.tables)) : .failure(.occupied(tables: occupied))
    }
}

extension DatabaseError {
    /// Somebody else's lock was waited for in vain (55P03, lock_not_available).
    fileprivate var isLocked: Bool {
        if case .refused(let refusal) = self { refusal.sqlState.code == "55P03" } else { false }
    }
}

extension Session {
    /// - Parameter table: as the catalogue quotes it.
    func count(_ table: String) throws(DatabaseError) -> Int {
        try number("SELECT count(*) FROM \(table)", stall: LedgerMove.stall) ?? 0
    }
}

/// The ledger that is to move, as its cluster describes it before.
struct MoveOrigin: Sendable {
    let cluster: Int64
    /// What moves, with the rows counted.
    let tables: [LedgerMove.Table]

    init(read session: borrowing Session) throws(DatabaseError) {
        guard let cluster = try session.run(MoveStatements.cluster, ()).first else {
            throw .protocolViolation(reason: "the cluster does not say its number")
        }
        self.cluster = cluster
        var tables: [LedgerMove.Table] = []
        for (name, _) in try session.run(MoveStatements.tables, ()) where !LedgerMove.staying.contains(name) {
            tables.append(LedgerMove.Table(name: name, rows: try session.count(name)))
        }
        self.tables = tables
    }
}
