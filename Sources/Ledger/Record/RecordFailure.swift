import Postgres

/// How recording classifies a database error.
extension DatabaseError {
    /// Whether one event of many can be the cause; everything else is a temporary failure of the database.
    var mayBeOneEvent: Bool {
        switch self {
        case .refused(let refusal) where refusal.isFromCommit: false
        case .refused, .protocolViolation: !isConnectionLevel && !isRetryable && !isOutdatedFormat && !isSequenceBehind
        case .connectFailed, .connectionLost, .timedOut, .commitUnknown: false
        }
    }

    /// Whether the server answered and refused, which does not show in whether it can be reached.
    var isRefusedByServer: Bool {
        switch self {
        case .refused, .protocolViolation: !isConnectionLevel
        case .connectFailed, .connectionLost, .timedOut, .commitUnknown: false
        }
    }

    /// Whether `statement_timeout` ended it (query_canceled): the database is slow, or one event makes it so.
    package var isStatementTimeout: Bool { sqlState == "57014" }

    /// Whether `lock_timeout` ended it (lock_not_available): somebody holds a lock, of one event's purchase or of
    /// more.
    var isLockTimeout: Bool { sqlState == "55P03" }

    /// Whether time ended it, for which one event of many may be the cause.
    var isTimeout: Bool { isStatementTimeout || isLockTimeout }

    /// Whether a limit of the server ended it that a smaller batch may stay below: its memory or its locks (53200), or
    /// a configured limit (53400).
    var isServerLimit: Bool { sqlState == "53200" || sqlState == "53400" }

    /// Whether what is stored can be the cause: a damaged page or value (class XX, 58030), or a value that cannot be
    /// sent (class 22).
    var isUnreadableData: Bool {
        guard let sqlState else { return false }
        return ["XX", "22"].contains(sqlState.conditionClass) || sqlState == "58030"
    }

    /// Whether another transaction or a lack of resources was the cause.
    var isCollision: Bool { isRetryable && !isTimeout }

    /// Whether the event's own content is the cause and every attempt will fail: its data, or a size that exceeds the
    /// server's limits (class 54, as of an index row). Not what COMMIT refuses: that is a limit of the server, as where
    /// its queue of notifications is full, because the ledger has nothing that is checked there.
    var isCausedByEvent: Bool {
        guard case .refused(let refusal) = self, !isSequenceBehind, !refusal.isFromCommit else { return false }
        return refusal.sqlState.isDataError || refusal.sqlState.conditionClass == "54"
    }

    /// Whether no partition takes the ids that were drawn (`PeriodTables`).
    private var isWithoutPartition: Bool {
        guard case .refused(let refusal) = self, refusal.sqlState.code == "23514" else { return false }
        return refusal.constraint == nil || refusal.constraint == PeriodSwitch.check
    }

    /// Whether the ids that were drawn are the cause: no partition takes them, or rows have them already, because a
    /// sequence is behind its table (`PeriodTables.catchUp`).
    package var isSequenceBehind: Bool { isWithoutPartition || isTakenID }

    private var isTakenID: Bool {
        guard case .refused(let refusal) = self, isThereAlready, let key = refusal.constraint else { return false }
        return Self.isDrawnID(key: key)
    }

    /// Whether a key is of `PeriodTables.drawn`: one of a partition is named after that (`events_4`, `events_kept_4`).
    static func isDrawnID(key: String) -> Bool {
        PeriodTables.drawn.contains { table in
            guard key.hasPrefix("\(table)_") else { return false }
            let rest = key.dropFirst(table.count + 1)
            return rest.hasPrefix("pkey")
                || rest.contains("_pkey")
                    && (rest.first?.isNumber == true || ["kept_", "before_"].contains { rest.hasPrefix($0) })
        }
    }

    /// Whether a row that was taken for new exists already (unique_violation).
    var isThereAlready: Bool { sqlState == "23505" }

    /// Whether the ledger is not written in the form any more that this daemon takes for the current one
    /// (`RecordStatements.admitBeforeTimedKeys`): no unique index is over what the statement names.
    var isOutdatedFormat: Bool { sqlState == "42P10" }

    /// Whether the batch may be run again: after a collision, and once after a lost connection, because a buyer waits
    /// for each answer, and what was committed after all is then found to be a duplicate. After a statement's time-out
    /// once, unless events are being tried apart because of one. Not after the wait for a lock: its holder is not done
    /// soon. Where a smaller batch may succeed it is tried once more, and not at all of events that are tried apart.
    func mayRunAgain(after attempt: Int, isApart: Bool) -> Bool {
        if isLockTimeout { return false }
        if isStatementTimeout { return attempt == 1 && !isApart }
        if isServerLimit { return attempt == 1 && !isApart }
        if isCollision { return attempt < Recorder.collisionsMax }
        return switch self {
        case .connectionLost, .commitUnknown: attempt == 1
        case .refused: isConnectionLevel && attempt == 1
        case .connectFailed, .timedOut, .protocolViolation: false
        }
    }
}
