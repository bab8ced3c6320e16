import Postgres
import Vocabulary

/// Circuit breakers as the daemons of one database share them: a row for each that is open, none for the others.
/// `Breaker` decides what opens and closes them; the daemons learn of it by the poll and by NOTIFY.
extension Queue {
    /// The integrations whose breaker is open; true: the next probe is due.
    package func readBreakers() async throws -> [Int32: Bool] {
        let rows = try await pool.withSession { session throws(DatabaseError) in
            try session.run(BreakerStatements.open, ())
        }
        return Dictionary(firstOf: rows)
    }

    /// - Returns: false if another daemon was first.
    package func openBreaker(_ integration: Int32, reason: String) async throws -> Bool {
        let probe = Limits.breakerProbeInterval.wholeMilliseconds
        return try await publishing(.failing, integration, reason) { session throws(DatabaseError) in
            try session.run(BreakerStatements.insert, (integration, reason, probe)).first
        } != nil
    }

    /// - Returns: how long it was open; nil if another daemon was first.
    package func closeBreaker(_ integration: Int32) async throws -> Duration? {
        let milliseconds = try await publishing(.recovered, integration, nil) { session throws(DatabaseError) in
            try session.run(BreakerStatements.remove, integration).first
        }
        return milliseconds.map { .milliseconds($0) }
    }

    /// Claims the next probe for this daemon. No other daemon may send one until this one has ended or `lasting`, the
    /// longest time that it can take, is over.
    package func claimProbe(_ integration: Int32, lasting: Duration) async throws -> Bool {
        let lease = try registration.current()
        let wait = max(Limits.breakerProbeInterval, lasting).wholeMilliseconds
        return try await pool.withSession { session throws(DatabaseError) in
            try !session.run(BreakerStatements.claimProbe, (integration, lease, wait)).isEmpty
        }
    }

    /// Ends a probe of this daemon that failed or was not sent. Any daemon may send the next, one interval after it.
    package func endProbe(_ integration: Int32) async throws {
        guard let lease = registration.id else { return }
        let interval = Limits.breakerProbeInterval.wholeMilliseconds
        try await pool.withSession { session throws(DatabaseError) in
            _ = try session.execute(BreakerStatements.endProbe, (integration, lease, interval))
        }
    }

    /// Wakes the other daemons and writes the relay message, if `change` changed anything.
    private func publishing<Changed: Sendable>(
        _ kind: RelayMessage.Kind, _ integration: Int32, _ reason: String?,
        _ change: @escaping @Sendable (borrowing Session) throws(DatabaseError) -> Changed?
    ) async throws -> Changed? {
        let routes = routes.current
        return try await pool.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                let changed = try change(session)
                guard changed != nil else { return nil }
                if let route = routes[integration] {
                    let message = RelayMessage(kind, of: route, reason: reason)
                    try RelayMessage.publish([message], routes: routes.all, on: session)
                }
                _ = try session.execute(RecordStatements.notify, "")
                return changed
            }
        }
    }
}

enum BreakerStatements {
    /// A probe of a daemon that died ends with its lease. A row that was written in the future says that the database's
    /// clock was set back: a probe is due then, too, or there would be none for as long. `now()` is no measure for
    /// that: the row may be of a transaction that began a moment later.
    private static let isDue: SQL = """
        (next_probe_at <= now() OR coalesce(probed_at, opened_at) > clock_timestamp()
            OR probed_by IS NOT NULL AND NOT EXISTS (SELECT FROM daemons WHERE id = probed_by))
        """

    static let open = Statement<(), (Int32, Bool)>("breaker_open", "SELECT integration, \(isDue) FROM breakers")

    static let insert = Statement<(Int32, String, Int64), Int32>(
        "breaker_insert",
        """
        INSERT INTO breakers (integration, reason, next_probe_at)
        VALUES ($1, $2, now() + $3 * interval '1 millisecond') ON CONFLICT DO NOTHING RETURNING integration
        """)

    static let remove = Statement<Int32, Int64>(
        "breaker_remove",
        """
        DELETE FROM breakers WHERE integration = $1
        RETURNING (extract(epoch FROM now() - opened_at) * 1000)::bigint
        """)

    static let claimProbe = Statement<(Int32, Int64, Int64), Int32>(
        "breaker_claim_probe",
        """
        UPDATE breakers SET probed_by = $2, probed_at = now(), next_probe_at = now() + $3 * interval '1 millisecond'
        WHERE integration = $1 AND \(isDue)
        RETURNING integration
        """)

    static let endProbe = Statement<(Int32, Int64, Int64), ()>(
        "breaker_end_probe",
        """
        UPDATE breakers
        SET probed_by = NULL, next_probe_at = greatest(now(), probed_at + $3 * interval '1 millisecond')
        WHERE integration = $1 AND probed_by = $2
        """)
}
