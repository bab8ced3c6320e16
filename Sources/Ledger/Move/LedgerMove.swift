package import Postgres
package import Vocabulary

// Moves a ledger from a private cluster into another database, ALL of it in ONE transaction of the target, so that
// after an interruption it is there whole or not at all.
//
// Rows are copied with COPY in its text form, which is the same for all versions of PostgreSQL, over two libpq
// connections as for everything else. pg_dump and psql are not used: they may be missing, have to fit both servers (a
// newer pg_dump sets parameters that an older server does not know), and need the target's password in a file or in
// their environment. If pg_dump is killed, its psql continues and may commit what nobody waits for any more.
//
// Both schemas are of this version by then, so the catalogue of the source says what to copy: a table that a later
// migration adds is moved without a change here.
//
// A move that is interrupted at COMMIT cannot know how it ended. Therefore the caller marks the source right before it
// (`beforeCommit`), and the target records which clusters were moved into it (`moves`): a marked source whose number is
// recorded there was moved.

/// One move of a whole ledger.
package struct LedgerMove: Sendable {
    /// How long either side of a copy may do nothing: a server takes a while to write a checkpoint to a slow disk.
    static let stall: Duration = .seconds(300)
    /// Rows between two calls of `goesOn`.
    static let step = 5_000
    /// How long to wait for a table that somebody else has locked, in milliseconds.
    static let lockTimeoutMilliseconds = 10_000

    /// Tables that are not moved: applied migrations, running leases, earlier moves.
    static let staying: Set<String> = ["schema_migrations", "daemons", "moves"]
    /// Tables in which a daemon's start alone leaves rows, without any webhook. The target's rows in them are deleted.
    static let registers: Set<String> = [
        "breakers", "daemons", "erasure_salt", "integrations", "periods", "rate_slots", "source_names",
    ]

    package struct Table: Sendable, Equatable {
        package let name: String
        package let rows: Int
    }

    /// Progress, for a person who waits.
    package enum Stage: Sendable {
        case copying(table: String, done: Int, of: Int)
        case comparing(table: String)
        case committing
    }

    package enum Outcome: Sendable {
        case moved([Table])
        /// An earlier call had moved it, and was interrupted before it could report so.
        case found([Table], at: Timestamp)
    }

    let source: ConnectionSettings
    let target: ConnectionSettings
    /// nil: as `target`.
    private let use: ConnectionSettings?
    private let isDeclared: Bool

    /// - Parameters:
    ///   - source: with time-outs long enough to count a whole table, as `target`; nothing else uses its cluster.
    ///   - use: how a daemon will reach the target, where that is another way.
    ///   - isDeclared: as for `Durability.unsafeServer`, of the target.
    package init(
        from source: ConnectionSettings, to target: ConnectionSettings, usedBy use: ConnectionSettings? = nil,
        isDeclared: Bool = false
    ) {
        self.source = source
        self.target = target
        self.use = use
        self.isDeclared = isDeclared
    }

    /// Reports what there is to move, or what prevents it. Both databases stay unchanged: what is done to the target's
    /// schema is rolled back.
    /// - Parameter isMarked: as for `run`.
    package func look(isMarked: Bool) async throws(MoveFailure) -> Outcome {
        let origin = try await origin()
        return try await onTarget { target throws(DatabaseError) in
            try target.decidedTransaction { target throws(DatabaseError) in
                .rollBack(try self.prepare(target, origin, isMarked: isMarked))
            }
        }
    }

    /// Moves everything, or nothing. The source's schema must be up to date; the target's is brought up to date.
    /// - Parameters:
    ///   - isMarked: an earlier call had reached `beforeCommit`, and nobody has used the source since.
    ///   - beforeCommit: marks the source; returns nil, or why it could not.
    ///   - goesOn: gets the progress; false ends the move, with nothing changed.
    package func run(
        isMarked: Bool, beforeCommit: @escaping @Sendable () -> String?, goesOn: @escaping @Sendable (Stage) -> Bool
    ) async throws(MoveFailure) -> Outcome {
        let origin = try await origin()
        return try await onTarget { target throws(DatabaseError) in
            try target.decidedTransaction { target throws(DatabaseError) in
                let prepared = try self.prepare(target, origin, isMarked: isMarked)
                guard case .success(.moved) = prepared else { return .rollBack(prepared) }
                // The rows may be in the newest form, and a target that an older version prepared is not. A daemon of
                // that version that died there reads no form any more.
                try target.script("DELETE FROM daemons WHERE expires_at <= now()")
                try IndexMigration.runOnEmpty(on: target)
                // What a migration of a ledger in use may wait for is less.
                try target.script("SET LOCAL lock_timeout = \(Self.lockTimeoutMilliseconds)")
                let copy = MoveCopy(source: self.source, origin: origin, goesOn: goesOn)
                let result = try copy.fill(target)
                guard case .success(let tables) = result else { return .rollBack(result.map { .moved($0) }) }
                _ = goesOn(.committing)
                if let reason = beforeCommit() { return .rollBack(.failure(.notMarked(reason: reason))) }
                Failpoint.reach(.moveBeforeCommit)
                return .commit(.success(.moved(tables)))
            }
        }
    }

    private func onTarget(
        _ body: @Sendable (borrowing Session) throws(DatabaseError) -> Result<Outcome, MoveFailure>
    ) async throws(MoveFailure) -> Outcome {
        let result: Result<Outcome, MoveFailure>
        do throws(DatabaseError) {
            if try await findsPooler() {
                result = .failure(.unfit(.pooled))
            } else {
                let connection = try await Connection.open(target)
                result = try await connection.withSession {
                    target throws(DatabaseError) -> Result<Outcome, MoveFailure> in
                    if let refusal = try Durability.unsafeServer(on: target, isDeclared: self.isDeclared) {
                        return .failure(.unfit(refusal))
                    }
                    if let use = self.use, try !LedgerMark.isSame(target, as: use) { return .failure(.elsewhere) }
                    return try body(target)
                }
                await connection.close()
            }
        } catch {
            throw error.isLockTimeout ? .locked : .target(error)
        }
        return try result.get()
    }

    /// Whether a pooler is where none may be.
    private func findsPooler() async throws(DatabaseError) -> Bool {
        if try await PoolerProbe.findsPooler(target) { return true }
        guard let use, use.pooling == .session else { return false }
        return try await PoolerProbe.findsPooler(use)
    }

    /// Makes the target ready to take the ledger (`.moved`, with the tables to move), in the current transaction.
    private func prepare(
        _ target: borrowing Session, _ origin: MoveOrigin, isMarked: Bool
    ) throws(DatabaseError) -> Result<Outcome, MoveFailure> {
        try target.script(
            "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = \(Self.lockTimeoutMilliseconds)")
        try Migrator.holdStarts(on: target)
        let examined = try examine(target, origin, isMarked: isMarked)
        guard case .success(.moved) = examined else { return examined }
        if case .failure(let error) = try Migrator.bringUpToDate(on: target) { return .failure(.schema(error)) }
        return examined
    }

    /// Reads the description of the source.
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

    /// Whether the target may take the ledger (`.moved`, with the tables to move), or has it already.
    private func examine(
        _ target: borrowing Session, _ origin: MoveOrigin, isMarked: Bool
    ) throws(DatabaseError) -> Result<Outcome, MoveFailure> {
        let there = Set(try target.run(MoveStatements.tables, ()).map { name, _ in name })
        if there.contains("daemons") {
            // One that started before is just registering: it is waited for, or finds its integrations afterwards.
            try target.script("LOCK TABLE daemons IN SHARE ROW EXCLUSIVE MODE")
            if let count = try target.run(MoveStatements.livingDaemons, ()).first, count > 0 {
                return .failure(.inUse(daemons: Int(count)))
            }
        }
        let time = there.contains("moves") ? try target.run(MoveStatements.movedAt, origin.cluster).first : nil
        if let time {
            // Nobody has used a marked source since, so a target that records its number has all of it.
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
    /// It names a table (42P01, undefined_table) or a constraint (42704, undefined_object) that is not there.
    var isMissingObject: Bool { sqlState == "42P01" || sqlState == "42704" }
}

extension Session {
    /// - Parameter table: quoted as in the catalogue.
    func count(_ table: String) throws(DatabaseError) -> Int {
        try number("SELECT count(*) FROM \(table)") ?? 0
    }
}

/// The ledger to move, as its cluster describes it before the move.
struct MoveOrigin: Sendable {
    let cluster: Int64
    /// Tables to move, with their rows counted.
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
