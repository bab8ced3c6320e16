import Postgres

extension Pool {
    /// One transaction, which runs again when PostgreSQL ended it to break a circle of locks, with a batch that was
    /// being recorded beside it or with another like it.
    func retriedTransaction<Value: Sendable>(
        _ body: @Sendable (borrowing Session) throws(DatabaseError) -> Value
    ) async throws(DatabaseError) -> Value {
        for attempt in 1... {
            do throws(DatabaseError) {
                return try await withSession { session throws(DatabaseError) in
                    try session.transaction { session throws(DatabaseError) in try body(session) }
                }
            } catch  where error.isRetryable && attempt < Recorder.collisionsMax {
                continue
            }
        }
        preconditionFailure("the loop ends by returning or throwing")
    }
}
