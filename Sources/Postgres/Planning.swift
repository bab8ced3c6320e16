import CLibpq

/// When the statements of a transaction are planned.
package enum Planning: Sendable {
    /// Each time, for the given parameters: some 50 µs per statement, and never a plan made for a smaller table.
    case eachTime
    /// Once per connection. Such a plan may be made while its tables are empty and stay while they grow, so it may only
    /// use indexes: for statements whose tables are each reached by an index, only written to, or hold a row or two.
    ///
    /// Those are the transactions that every webhook and delivery needs, so they wait for a lock only as long as the
    /// connection's settings say (`lock_timeout`): whoever holds one for longer holds up what needs it, and no more.
    case onceByIndex
}

extension ConnectionSettings {
    /// For `lock_timeout`; nil: the setting of the server, the database or the role.
    func lockTimeout(_ planning: Planning) -> String? {
        switch planning {
        case .eachTime: nil
        case .onceByIndex: lockWait.map { "\(Self.milliseconds($0))" }
        }
    }
}

/// The planning settings that the server has for a session. They belong to the session, not to the transaction, and are
/// sent when they change, not with each transaction.
struct SessionPlanning {
    /// In force outside a transaction; nil: unknown, because a transaction that changed it did not end in a clear
    /// commit.
    private var settled: Planning? = .eachTime
    /// Sent in the running transaction.
    private var sent: Planning?

    func isInForce(_ planning: Planning) -> Bool { (sent ?? settled) == planning }

    /// Records that the settings were sent in a transaction; they become the session's if it commits.
    mutating func sends(_ planning: Planning) {
        settled = nil
        sent = planning
    }

    mutating func ended(committed: Bool) {
        if committed, let sent { settled = sent }
        sent = nil
    }
}

private enum PlanningStatements {
    /// NULL resets to the setting of the server, the database or the role.
    static let eachTime = Statement<(), ()>(
        "plan_each_time",
        """
        SELECT FROM set_config('plan_cache_mode', 'force_custom_plan', false) AS plans,
            set_config('enable_seqscan', NULL, false) AS scans, set_config('enable_hashjoin', NULL, false) AS hashes,
            set_config('enable_mergejoin', NULL, false) AS merges,
            set_config('lock_timeout', NULL, false) AS waits
        """)
    static let onceByIndex = Statement<String?, ()>(
        "plan_once_by_index",
        """
        SELECT FROM set_config('plan_cache_mode', 'force_generic_plan', false) AS plans,
            set_config('enable_seqscan', 'off', false) AS scans, set_config('enable_hashjoin', 'off', false) AS hashes,
            set_config('enable_mergejoin', 'off', false) AS merges,
            set_config('lock_timeout', $1, false) AS waits
        """)
}

extension Session {
    /// Enqueues the settings in a transaction that begins, if the session has others.
    func plan(_ planning: Planning) throws(DatabaseError) {
        if wire.planning.isInForce(planning) { return }
        wire.planning.sends(planning)
        switch planning {
        case .eachTime: try enqueue(PlanningStatements.eachTime, ())
        case .onceByIndex: try enqueue(PlanningStatements.onceByIndex, wire.settings.lockTimeout(planning))
        }
    }

    /// Restores planning each time for a statement outside a transaction.
    func planOutsideTransaction() throws(DatabaseError) {
        guard wire.transactionStatus == PQTRANS_IDLE, !wire.planning.isInForce(.eachTime) else { return }
        try transaction { session throws(DatabaseError) in }
    }
}
