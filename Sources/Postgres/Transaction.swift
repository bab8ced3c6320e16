import CLibpq

/// How a transaction without an error ends.
package enum TransactionVerdict<Value> {
    case commit(Value)
    case rollBack(Value)
}

extension TransactionVerdict: Sendable where Value: Sendable {}

/// What a transaction sees of what others commit meanwhile.
package enum Isolation: Sendable {
    /// Each statement sees what was committed before it.
    case readCommitted
    /// All statements see what was committed before the first, and nothing may be written (REPEATABLE READ, READ ONLY).
    case snapshot
}

/// Both are enqueued: BEGIN is sent with the statements after it, COMMIT with those before it.
private enum Bounds {
    /// The isolation level is explicit, because a server, a database or a role may have another default: under a
    /// stricter one a statement that waited for another's lock is refused instead of looking again.
    static let begin = Statement<(), ()>("begin", "BEGIN ISOLATION LEVEL READ COMMITTED")
    static let beginSnapshot = Statement<(), ()>("begin_snapshot", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    static let commit = Statement<(), ()>("commit", "COMMIT")
}

extension Isolation {
    /// For a session of one's own.
    var begin: Statement<(), ()> {
        switch self {
        case .readCommitted: Bounds.begin
        case .snapshot: Bounds.beginSnapshot
        }
    }
}

extension Refusal {
    /// Whether it was COMMIT that was refused, sent by itself or behind other statements.
    package var isFromCommit: Bool { statement == Bounds.commit.name || statement == Bounds.commit.sql }
}

extension Session {
    /// Runs BEGIN, `body` and COMMIT; ROLLBACK and the same error when `body` throws. When it returns, the server has
    /// confirmed the commit without a warning; `.commitUnknown` says that the commit may or may not have happened.
    package func transaction<Value>(
        _ isolation: Isolation = .readCommitted, planning: Planning = .eachTime,
        _ body: (borrowing Session) throws(DatabaseError) -> Value
    ) throws(DatabaseError) -> Value {
        try decidedTransaction(isolation, planning: planning) { session throws(DatabaseError) in
            .commit(try body(session))
        }
    }

    /// Like `transaction`, for a body that may also roll back without an error.
    package func decidedTransaction<Value>(
        _ isolation: Isolation = .readCommitted, planning: Planning = .eachTime,
        _ body: (borrowing Session) throws(DatabaseError) -> TransactionVerdict<Value>
    ) throws(DatabaseError) -> Value {
        guard wire.transactionStatus == PQTRANS_IDLE || wire.transactionStatus == PQTRANS_UNKNOWN else {
            throw .protocolViolation(reason: "a transaction inside a transaction")
        }
        let verdict: TransactionVerdict<Value>
        do throws(DatabaseError) {
            try prepare(Bounds.commit)
            switch wire.settings.pooling {
            case .session:
                try enqueueAnywhere(isolation.begin, ())
                try plan(planning)
            // Planned each time: a plan that is kept is the session's.
            case .transaction: try beginShared(isolation, planning)
            }
            verdict = try body(self)
            if !wire.mayTravelWithCommit { try wire.collect() }
            if case .rollBack = verdict { try wire.collect() }
        } catch {
            rollBack()
            throw error
        }
        switch verdict {
        case .commit(let value):
            try commit()
            return value
        case .rollBack(let value):
            rollBack()
            return value
        }
    }

    private func commit() throws(DatabaseError) {
        var isCommitted = false
        defer { wire.planning.ended(committed: isCommitted) }
        // A wire that was dead before COMMIT was sent is a lost connection, not an unknown commit.
        _ = try wire.pointer()
        let tag: String
        do throws(DatabaseError) {
            tag = wire.pipelined.isEmpty ? try command(Bounds.commit.sql) : try commitWithPipeline()
        } catch {
            // Still inside a failed transaction: an earlier statement was refused, and COMMIT was not run.
            if wire.transactionStatus == PQTRANS_INERROR {
                rollBack()
                throw error
            }
            throw doubtfulCommit(error)
        }
        guard tag == "COMMIT" else {
            // A statement had failed and the body continued.
            throw .refused(
                Refusal(sqlState: "25P02", message: "COMMIT ended in \(tag): a statement before it had failed"))
        }
        if let reason = wire.notices.doubtAboutCommit(commitAlone: true) { throw .commitUnknown(reason: reason) }
        isCommitted = true
    }

    /// - Returns: the command tag of COMMIT.
    func commitWithPipeline() throws(DatabaseError) -> String {
        try enqueueAnywhere(Bounds.commit, ())
        return try wire.collectResults(within: wire.settings.statementDeadline).commandTag
    }

    /// The meaning of an error at COMMIT. A refusal by the server rolled the transaction back, except those that say
    /// that the server does not know (40003, 08007); any lower-level error leaves the outcome unknown.
    private func doubtfulCommit(_ error: DatabaseError) -> DatabaseError {
        switch error {
        case .refused(let refusal) where refusal.sqlState != "40003" && !refusal.sqlState.isConnectionLevel: error
        default: .commitUnknown(reason: "\(error)")
        }
    }

    /// Rolls the transaction back. If that fails, the connection is closed and the server rolls back.
    func rollBack() {
        wire.planning.ended(committed: false)
        // Refusals do not matter any more.
        try? wire.collect()
        do throws(DatabaseError) {
            try command("ROLLBACK")
        } catch {
            wire.end("ROLLBACK failed: \(error)")
        }
    }

    @discardableResult
    private func command(_ sql: String) throws(DatabaseError) -> String {
        try wire.roundTrip(statement: sql, within: wire.settings.statementDeadline) { PQsendQuery($0, sql) }.commandTag
    }
}

extension Wire {
    /// Whether COMMIT may be sent with the enqueued statements. It may, because the server runs nothing after a
    /// statement that it refuses; but not with statements that this side may still reject, nor with more than is sent
    /// at once: a connection lost before COMMIT was sent leaves no doubt.
    fileprivate var mayTravelWithCommit: Bool { !holdsEnough && pipelined.allSatisfy { $0.mayTravelWithCommit } }
}
