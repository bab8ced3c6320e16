import Postgres

extension Pool {
    /// Runs a transaction, and runs it again after a retryable error, such as a deadlock with a concurrent batch or
    /// with another transaction like it; at most `Recorder.collisionsMax` attempts.
    func retriedTransaction<Value: Sendable>(
        _ body: @Sendable (borrowing Session) throws(DatabaseError) -> Value
    ) async throws(DatabaseError) -> Value {
        try await retriedDecidedTransaction { session throws(DatabaseError) in .commit(try body(session)) }
    }

    /// Like `retriedTransaction`, for a body that may also roll back without an error.
    func retriedDecidedTransaction<Value: Sendable>(
        _ body: @Sendable (borrowing Session) throws(DatabaseError) -> TransactionVerdict<Value>
    ) async throws(DatabaseError) -> Value {
        for attempt in 1... {
            do throws(DatabaseError) {
                return try await withSession { session throws(DatabaseError) in
                    try session.decidedTransaction { session throws(DatabaseError) in try body(session) }
                }
            } catch  where error.isRetryable && attempt < (error.isStatementTimeout ? 2 : Recorder.collisionsMax) {
                continue
            }
        }
        preconditionFailure("the loop ends by returning or throwing")
    }
}
