import CLibpq

/// How a transaction that went through is to end.
package enum TransactionVerdict<Value> {
    case commit(Value)
    case rollBack(Value)
}

extension TransactionVerdict: Sendable where Value: Sendable {}

/// How the statements of a transaction are planned.
package enum Planning: Sendable {
    /// Each time, for its parameters: some 50 µs a statement, and never a plan that was made for a smaller table.
    case eachTime
    /// Once a connection. Such a plan may be made while its tables are empty and stay while they grow, so it may only
    /// walk indexes: for statements each of whose tables is reached by an index, only written to, or a row or two.
    case onceByIndex
}

/// What begins a transaction. Posted, it travels with the first statement.
private enum Begin {
    static let transaction = Statement<(), ()>("begin", "BEGIN")
    static let plansByIndex = Statement<(), ()>(
        "begin_plans_by_index",
        """
        SELECT FROM set_config('plan_cache_mode', 'force_generic_plan', true) AS plans,
            set_config('enable_seqscan', 'off', true) AS scans, set_config('enable_hashjoin', 'off', true) AS hashes,
            set_config('enable_mergejoin', 'off', true) AS merges
        """)
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
            try postAnywhere(Begin.transaction, ())
            if planning == .onceByIndex { try post(Begin.plansByIndex, ()) }
            verdict = try body(self)
            // COMMIT is never sent behind a statement that may yet be refused.
            try wire.collect()
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
        // A dead wire was never asked to commit: that is no doubt but a loss.
        _ = try wire.pointer()
        let tag: String
        do throws(DatabaseError) {
            tag = try command("COMMIT")
        } catch {
            throw doubtfulCommit(error)
        }
        guard tag == "COMMIT" else {
            // A statement had failed and the body went on all the same.
            throw .refused(
                Refusal(sqlState: "25P02", message: "COMMIT ended in \(tag): a statement before it had failed"))
        }
        if let reason = wire.notices.doubtAboutCommit(commitAlone: true) { throw .commitUnknown(reason: reason) }
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
