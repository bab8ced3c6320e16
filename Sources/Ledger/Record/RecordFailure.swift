import Postgres

/// What recording makes of a failure.
extension DatabaseError {
    /// What one event of many can be the cause of; all else is the database's trouble and passes.
    var mayBeOneEvent: Bool {
        switch self {
        case .refused, .protocolViolation: !isConnectionLevel && !isRetryable
        case .connectFailed, .connectionLost, .timedOut, .commitUnknown: false
        }
    }

    /// `statement_timeout` ended it (query_canceled): the database is slow, or one event makes it so.
    var isStatementTimeout: Bool {
        guard case .refused(let refusal) = self else { return false }
        return refusal.sqlState.code == "57014"
    }

    /// Another transaction was in the way.
    var isCollision: Bool { isRetryable && !isStatementTimeout }

    /// What the event's own content causes whenever it is tried: its data, or a size that exceeds the server's limits
    /// (class 54, as of an index row).
    var isOfTheEvent: Bool {
        guard case .refused(let refusal) = self else { return false }
        return refusal.sqlState.isDataError || refusal.sqlState.conditionClass == "54"
    }

    /// A row that was taken for new was not (unique_violation).
    var isThereAlready: Bool {
        guard case .refused(let refusal) = self else { return false }
        return refusal.sqlState.code == "23505"
    }

    /// After a collision, and once after a connection was lost under a batch: a buyer waits for each answer, and what
    /// was committed after all is known as a duplicate the second time. After a time-out once, and not where events are
    /// tried apart because of one.
    func mayRunAgain(after attempt: Int, isApart: Bool) -> Bool {
        if isStatementTimeout { return attempt == 1 && !isApart }
        if isCollision { return attempt < Recorder.collisionsMax }
        return switch self {
        case .connectionLost, .commitUnknown: attempt == 1
        case .refused: isConnectionLevel && attempt == 1
        case .connectFailed, .timedOut, .protocolViolation: false
        }
    }
}
