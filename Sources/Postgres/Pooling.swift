import CLibpq

/// Whose the server sessions are that a connection leads to.
package enum Pooling: Sendable {
    /// The connection's own, from its opening to its end: what is set or prepared in it stays.
    case session
    /// Those of a pooler that gives a session to another client after each transaction (PgBouncer's `pool_mode =
    /// transaction`). Nothing is left in a session and nothing found there is relied on: every statement runs in a
    /// transaction that begins with the settings which it depends on (SET LOCAL), is sent without a name, because a
    /// prepared one is the session's, and a statement by itself travels with BEGIN and COMMIT in one round trip.
    case transaction
}

/// What each transaction must find as it was when the connection was opened and its server checked. A pooler may lead
/// to another server after a failover, or open a session under other defaults of the role, and says neither.
struct SharedServer: Hashable, Sendable {
    /// PostgreSQL's pg_postmaster_start_time, in binary form: no two servers have the same.
    let startedAt: [UInt8]
    let synchronousCommit: String
    /// nil: the server does not show it.
    let fsync: String?
    /// The same of `synchronous_standby_names`: with one, a `synchronous_commit` that was good is not.
    let standbys: String?
}

private enum SharedSessionStatements {
    /// Read-only would be the session's default, and cannot be set once a query has run.
    static let begin = Statement<(), ()>("begin_shared", "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")

    /// Sets, until the end of the transaction, all that decides what our statements mean, and how long they may take.
    /// Another client may have set any of it for the session, so every name is qualified, and there is no operator:
    /// they would be looked up by that client's search path. NULL resets to the setting of the server, the database or
    /// the role.
    ///
    /// pg_temp comes last in the path: a path that does not name it begins with it, and another client's temporary
    /// table of the name of one of ours would take what is written. `synchronous_commit` is the promise of an
    /// acknowledgement. The rest is explained in `Wire.setSession`; keep-alives of the server's connection are the
    /// pooler's there.
    static let settings = Statement<(String?, String, String, String?), (String, [UInt8], String, String?, String?)>(
        "settings_shared",
        """
        SELECT pg_catalog.concat(
                pg_catalog.set_config('role', NULL, true),
                pg_catalog.set_config('search_path', $1, true),
                pg_catalog.set_config('statement_timeout', $2, true),
                pg_catalog.set_config('idle_in_transaction_session_timeout', $3, true),
                pg_catalog.set_config('lock_timeout', $4, true),
                CASE WHEN pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL
                    THEN pg_catalog.set_config('transaction_timeout', '0', true) END,
                pg_catalog.set_config('synchronous_commit', NULL, true),
                pg_catalog.set_config('client_min_messages', 'warning', true),
                pg_catalog.set_config('plan_cache_mode', 'force_custom_plan', true),
                pg_catalog.set_config('jit', 'off', true)),
            pg_catalog.timestamptz_send(pg_catalog.pg_postmaster_start_time()),
            pg_catalog.current_setting('synchronous_commit'),
            pg_catalog.current_setting('fsync', true),
            pg_catalog.current_setting('synchronous_standby_names', true)
        """)
}

extension Session {
    /// Enqueues BEGIN and the settings of a transaction in a session that other clients use, too. Another server than
    /// the one that was checked ends the connection, so that the next one is checked: before COMMIT was sent the
    /// transaction is lost, with COMMIT its outcome is unknown.
    func beginShared(_ isolation: Isolation, _ planning: Planning = .eachTime) throws(DatabaseError) {
        switch isolation {
        case .readCommitted: try enqueueAnywhere(SharedSessionStatements.begin, ())
        case .snapshot: try enqueueAnywhere(isolation.begin, ())
        }
        let wire = self.wire
        let settings = wire.settings
        let values = (
            settings.schema.map { "\(SchemaName.quoted($0)), pg_temp" },
            "\(settings.statementMilliseconds)", "\(settings.idleTransactionMilliseconds)",
            settings.lockTimeout(planning)
        )
        try enqueueAnywhere(SharedSessionStatements.settings, values, mayFollowCommit: true) { result in
            do throws(DatabaseError) {
                guard let row = try SharedSessionStatements.settings.rows(of: result).first else { return nil }
                let server = SharedServer(
                    startedAt: row.1, synchronousCommit: row.2, fsync: row.3, standbys: row.4)
                if let known = wire.server, known != server {
                    wire.end("the pooler leads to another server, or to one with other settings of durability")
                }
                wire.server = server
                return nil
            } catch {
                return error
            }
        }
    }

    /// Whether a statement that came now would have no transaction, and would find what other clients have set.
    var needsTransaction: Bool {
        wire.settings.pooling == .transaction && wire.pipelined.isEmpty && wire.transactionStatus == PQTRANS_IDLE
    }

    /// Runs a statement by itself as a transaction, in one round trip.
    func runAlone<Parameters, Row>(
        _ statement: Statement<Parameters, Row>, _ parameters: Parameters
    ) throws(DatabaseError) -> PendingRows<Row> {
        do throws(DatabaseError) {
            try beginShared(.readCommitted)
            let pending = try enqueueQuery(statement, parameters, mayFollowCommit: true)
            let tag = try commitWithPipeline()
            guard tag == "COMMIT" else { throw .protocolViolation(reason: "\(statement.name) ended in \(tag)") }
            if let reason = wire.notices.doubtAboutCommit(commitAlone: true) { throw .commitUnknown(reason: reason) }
            return pending
        } catch {
            rollBack()
            throw error
        }
    }
}

extension Wire {
    /// BEGIN … READ WRITE is refused with 0A000 by a server that is a standby by now: a new connection finds the
    /// primary, as with 25006 (`SQLState.isConnectionLevel`).
    func isOfStandby(_ refusal: Refusal) -> Bool {
        refusal.sqlState == "0A000" && refusal.statement == SharedSessionStatements.begin.name
    }
}
