import CLibpq

/// How a transaction that went through is to end.
package enum TransactionVerdict<Value> {
    case commit(Value)
    case rollBack(Value)
}

extension TransactionVerdict: Sendable where Value: Sendable {}

/// Posted, the first travels with what comes after it, the second with what was posted before.
private enum Bounds {
    /// A server, a database or a role may have another default: under a stricter one, what waited for another's lock is
    /// refused instead of looking again.
    static let begin = Statement<(), ()>("begin", "BEGIN ISOLATION LEVEL READ COMMITTED")
    static let commit = Statement<(), ()>("commit", "COMMIT")
}

extension Session {
    /// BEGIN, `body`, COMMIT; ROLLBACK and the same error when `body` throws. When this returns, the server has
    /// confirmed the commit without a warning; `.commitUnknown` says that it may or may not be there.
    package func transaction<Value>(
        planning: Planning = .eachTime, _ body: (borrowing Session) throws(DatabaseError) -> Value
    ) throws(DatabaseError) -> Value {
        try decidedTransaction(planning: planning) { session throws(DatabaseError) in .commit(try body(session)) }
    }

    /// The same where the body may want nothing kept without its being an error.
    package func decidedTransaction<Value>(
        planning: Planning = .eachTime, _ body: (borrowing Session) throws(DatabaseError) -> TransactionVerdict<Value>
    ) throws(DatabaseError) -> Value {
        guard wire.transactionStatus == PQTRANS_IDLE || wire.transactionStatus == PQTRANS_UNKNOWN else {
            throw .protocolViolation(reason: "a transaction inside a transaction")
        }
        let verdict: TransactionVerdict<Value>
        do throws(DatabaseError) {
            try prepare(Bounds.commit)
            try postAnywhere(Bounds.begin, ())
            try plan(planning)
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
        // A dead wire was never asked to commit: that is no doubt but a loss.
        _ = try wire.pointer()
        let tag: String
        do throws(DatabaseError) {
            tag = wire.posted.isEmpty ? try command("COMMIT") : try commitWithPosted()
        } catch {
            // Still inside a transaction that failed: a statement before it was refused, and COMMIT was not run.
            if wire.transactionStatus == PQTRANS_INERROR {
                rollBack()
                throw error
            }
            throw doubtfulCommit(error)
        }
        guard tag == "COMMIT" else {
            // A statement had failed and the body went on all the same.
            throw .refused(
                Refusal(sqlState: "25P02", message: "COMMIT ended in \(tag): a statement before it had failed"))
        }
        if let reason = wire.notices.doubtAboutCommit(commitAlone: true) { throw .commitUnknown(reason: reason) }
        isCommitted = true
    }

    private func commitWithPosted() throws(DatabaseError) -> String {
        try postAnywhere(Bounds.commit, ())
        return try wire.collectResults(within: wire.settings.statementDeadline).commandTag
    }

    /// What an error at COMMIT says of the transaction. A refusal by the server rolled it back, save those by which the
    /// server itself says that it does not know (40003, 08007); anything below leaves the outcome open.
    private func doubtfulCommit(_ error: DatabaseError) -> DatabaseError {
        switch error {
        case .refused(let refusal) where refusal.sqlState != "40003" && !refusal.sqlState.isConnectionLevel: error
        default: .commitUnknown(reason: "\(error)")
        }
    }

    /// Ends the transaction without keeping it. Where that fails the connection is closed, and the server does it.
    private func rollBack() {
        wire.planning.ended(committed: false)
        // What it refuses now is no news.
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
    /// COMMIT may travel with what was posted, for the server runs nothing behind a statement that it refuses; but not
    /// with what this side may yet refuse, nor behind more than is sent at once: a connection that is lost before
    /// COMMIT was sent leaves no doubt.
    fileprivate var mayTravelWithCommit: Bool { !holdsEnough && posted.allSatisfy { $0.read == nil } }
}
