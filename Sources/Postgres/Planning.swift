import CLibpq

/// How the statements of a transaction are planned.
package enum Planning: Sendable {
    /// Each time, for its parameters: some 50 µs a statement, and never a plan that was made for a smaller table.
    case eachTime
    /// Once a connection. Such a plan may be made while its tables are empty and stay while they grow, so it may only
    /// walk indexes: for statements each of whose tables is reached by an index, only written to, or a row or two.
    case onceByIndex
}

/// What the server has of a session's planning. The settings are the session's, not the transaction's: they are sent
/// where they change, not with each transaction.
struct SessionPlanning {
    /// In force outside a transaction; nil: unknown, for a transaction that changed it did not end in a clear commit.
    private var settled: Planning? = .eachTime
    /// Sent in the transaction that runs.
    private var sent: Planning?

    func isInForce(_ planning: Planning) -> Bool { (sent ?? settled) == planning }

    /// The settings were sent in a transaction, and are the session's if it is committed.
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
    /// NULL: as the server, the database or the role has it.
    static let eachTime = Statement<(), ()>(
        "plan_each_time",
        """
        SELECT FROM set_config('plan_cache_mode', 'force_custom_plan', false) AS plans,
            set_config('enable_seqscan', NULL, false) AS scans, set_config('enable_hashjoin', NULL, false) AS hashes,
            set_config('enable_mergejoin', NULL, false) AS merges
        """)
    static let onceByIndex = Statement<(), ()>(
        "plan_once_by_index",
        """
        SELECT FROM set_config('plan_cache_mode', 'force_generic_plan', false) AS plans,
            set_config('enable_seqscan', 'off', false) AS scans, set_config('enable_hashjoin', 'off', false) AS hashes,
            set_config('enable_mergejoin', 'off', false) AS merges
        """)
}

extension Session {
    /// Posts the settings in a transaction that begins, where the session has others.
    func plan(_ planning: Planning) throws(DatabaseError) {
        if wire.planning.isInForce(planning) { return }
        wire.planning.sends(planning)
        switch planning {
        case .eachTime: try post(PlanningStatements.eachTime, ())
        case .onceByIndex: try post(PlanningStatements.onceByIndex, ())
        }
    }

    /// What is run outside a transaction is planned each time.
    func planOutsideTransaction() throws(DatabaseError) {
        guard wire.transactionStatus == PQTRANS_IDLE, !wire.planning.isInForce(.eachTime) else { return }
        try transaction { session throws(DatabaseError) in }
    }
}
