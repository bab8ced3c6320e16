import CLibpq
import Glibc

extension Wire {
    /// Connects to the first host that accepts and prepares the session.
    func open() throws(DatabaseError) {
        var reasons: [String] = []
        for candidate in settings.candidates {
            switch connect(candidate) {
            case .connected:
                return try prepareSession()
            case .failed(let reason):
                reasons.append(reason)
            }
        }
        throw .connectFailed(reason: reasons.joined(separator: "; "))
    }

    private enum Attempt {
        case connected
        case failed(reason: String)
    }

    private func connect(_ candidate: ConnectionSettings.Candidate) -> Attempt {
        let deadline = begin(settings.connectTimeout)
        guard let pointer = startConnecting(candidate.keywords) else { return .failed(reason: "out of memory") }
        let handle = ConnectionHandle(pointer: pointer)
        notices.listen(to: pointer)
        // libpq: "the state is as if PQconnectPoll had last returned PGRES_POLLING_WRITING".
        var state = PQstatus(pointer) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING
        while state != PGRES_POLLING_OK {
            guard state != PGRES_POLLING_FAILED else {
                return .failed(reason: oneLine(String(cString: PQerrorMessage(pointer))))
            }
            // The socket may change after each step.
            let events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT
            var entries = [pollfd(fd: PQsocket(pointer), events: Int16(events), revents: 0)]
            guard poll(&entries, until: deadline) else {
                return .failed(reason: "\(candidate.name) did not answer within \(deadline.limit)")
            }
            state = PQconnectPoll(pointer)
        }
        guard PQsetnonblocking(pointer, 1) == 0 else {
            return .failed(reason: "the socket cannot be made non-blocking")
        }
        // libpq's own text is used only for lost connections; in terse form it contains no DETAIL.
        _ = PQsetErrorVerbosity(pointer, PQERRORS_TERSE)
        adopt(handle)
        return .connected
    }

    private func startConnecting(_ keywords: [(key: String, value: String)]) -> OpaquePointer? {
        // Copies of the C strings, each array ended by a null pointer; libpq makes its own copies.
        let keys = keywords.map { strdup($0.key) }
        let values = keywords.map { strdup($0.value) }
        defer { (keys + values).forEach { free($0) } }
        let keyPointers = keys.map { UnsafePointer($0) } + [nil]
        let valuePointers = values.map { UnsafePointer($0) } + [nil]
        return PQconnectStartParams(keyPointers, valuePointers, 0)
    }

    /// Sets what every session relies on, in one round trip.
    private func prepareSession() throws(DatabaseError) {
        do throws(DatabaseError) {
            switch settings.pooling {
            case .session: try setSession()
            // Sets nothing that lasts: it shows that pooler and role allow the settings of each transaction, and which
            // server the connection leads to.
            case .transaction: try Session(wire: self).transaction { _ in }
            }
        } catch {
            end("\(error)")
            throw .connectFailed(reason: "the session could not be prepared: \(error)")
        }
    }

    private func setSession() throws(DatabaseError) {
        // The idle limit keeps a transaction that this process leaves open from holding its locks for long: it may be
        // frozen, or on a host without power. That limit does not count between two parts of one message, such as a
        // COPY, and neither does statement_timeout (PostgreSQL's ProcessClientReadInterrupt): the server's kernel must
        // notice that the host is gone, by default after two hours. Over a unix socket these settings do nothing.
        // A generic plan made while a table was small (a sequential scan) would stay while the table grows; planning
        // anew costs some 50 µs per statement, and our statements are few and wide. A single statement is a
        // transaction, too, and must be READ COMMITTED like those that begin with BEGIN. A warning at COMMIT must
        // arrive whatever client_min_messages the role or database sets. JIT compilation costs more than any of our
        // statements takes and depends on the planner's cost estimate, which is 10^10 for a disabled plan.
        // The server applies a changed `synchronous_commit` to open sessions, too, and only a new connection is checked
        // for it: each keeps what it began with. Without a synchronous standby "local" does as much as "on", which also
        // waits for one that is named later.
        // A role's limit for whole transactions (PostgreSQL 17) would end a migration, or a move, each time anew: those
        // lift the limit of their statements, and every statement has one otherwise.
        // Rows above 2 kB are compressed as they are written, mostly for the bodies of webhooks. LZ4 takes a third of
        // the time of pglz, the default; JSON needs an eighth to a sixth more room. A server may be built without it,
        // and whoever chose a compression may have to: data files with LZ4 need a server that has it.
        // The search path is the configured schema alone: pg_catalog comes before it by itself, and neither the role
        // nor `options` of the connection string has a say.
        let searchPath = settings.schema.map { "SET search_path = \(SchemaName.quoted($0));\n" } ?? ""
        let sql = """
            \(searchPath)SET statement_timeout = \(settings.statementMilliseconds);
            SET idle_in_transaction_session_timeout = \(settings.idleTransactionMilliseconds);
            SET tcp_keepalives_idle = 5;
            SET tcp_keepalives_interval = 2;
            SET tcp_keepalives_count = 3;
            SET tcp_user_timeout = 10000;
            SET plan_cache_mode = force_custom_plan;
            SET default_transaction_isolation = 'read committed';
            SET jit = off;
            SET client_min_messages = warning;
            SELECT set_config('synchronous_commit', CASE
                WHEN current_setting('synchronous_commit') = 'local'
                    AND current_setting('synchronous_standby_names', true) = '' THEN 'on'
                ELSE current_setting('synchronous_commit') END, false),
                CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
                    THEN set_config('transaction_timeout', '0', false) END,
                CASE WHEN (SELECT source = 'default' AND 'lz4' = ANY (enumvals) FROM pg_settings
                           WHERE name = 'default_toast_compression')
                    THEN set_config('default_toast_compression', 'lz4', false) END
            """
        let result = try roundTrip(statement: nil, within: settings.connectTimeout) { PQsendQuery($0, sql) }
        _ = consume result
    }
}

extension ConnectionSettings {
    /// `idle_in_transaction_session_timeout`; zero would switch it off.
    var idleTransactionMilliseconds: Int64 { max(1, Self.milliseconds(idleTransactionTimeout)) }
    var statementMilliseconds: Int64 { Self.milliseconds(statementTimeout) }

    static func milliseconds(_ duration: Duration) -> Int64 {
        duration.components.seconds * 1_000 + duration.components.attoseconds / 1_000_000_000_000_000
    }
}
