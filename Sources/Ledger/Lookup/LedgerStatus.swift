package import Postgres
package import Vocabulary

/// The state of a ledger for an operator: what each integration has to do, its last minute, and the daemons at work.
package struct LedgerStatus: Sendable {
    package struct Integration: Sendable {
        package let name: String
        package let pausedAt: Timestamp?
        package let pauseReason: String?
        /// Nil: closed.
        package let breaker: Breaker?
        /// Deliveries still to do.
        package let waiting: Int
        /// Age of the oldest of them; nil: none waits.
        package let oldestSeconds: Double?
        /// Accepted deliveries, and attempts that were not accepted, within the last minute.
        package let delivered: Int
        package let failed: Int
        package let lastError: Failure?
        package let deadLetters: Int
    }

    /// An open circuit breaker: since when, and why.
    package struct Breaker: Sendable {
        package let openedAt: Timestamp
        package let reason: String
    }

    /// The newest attempt that was not accepted, as far back as attempts are kept.
    package struct Failure: Sendable {
        package let at: Timestamp
        package let httpStatus: Int?
        package let text: String?
    }

    package struct Daemon: Sendable {
        package let version: String
        package let startedAt: Timestamp
    }

    /// A source that a daemon has run with.
    package struct Source: Sendable {
        package let name: String
        /// When a webhook of it was last kept, to some seconds; nil: not since this is noted.
        package let heardAt: Timestamp?
    }

    /// The database's time.
    package let at: Timestamp
    package let integrations: [Integration]
    package let sources: [Source]
    /// How the running daemons answered within the last minute; those of an older version do not say.
    package let answers: [SourceAnswer: Int]
    /// Daemons whose lease has not run out.
    package let daemons: [Daemon]
    package let quarantined: Int
    /// By source and environment, those with any; nil: not known.
    package let overdue: [OverdueFigures]?

    /// - Parameter overdue: counted by the caller, because many can be overdue.
    package static func read(
        overdue: [OverdueFigures]? = nil, from pool: Pool
    ) async throws(DatabaseError) -> LedgerStatus {
        try await pool.withSession { session throws(DatabaseError) in
            let integrations = try session.run(StatusStatements.integrations, ())
            let daemons = try session.run(StatusStatements.daemons, ())
            let sources = try session.run(StatusStatements.sources, ())
            let answers = try session.run(StatusStatements.answers, ())
            guard let (now, quarantined) = try session.run(StatusStatements.rest, ()).first else {
                throw .protocolViolation(reason: "the database does not say its time")
            }
            return LedgerStatus(
                at: now, integrations: integrations, sources: sources, answers: counted(answers), daemons: daemons,
                quarantined: quarantined, overdue: overdue)
        }
    }

    private static func counted(_ rows: [(String, String, Int)]) -> [SourceAnswer: Int] {
        var counts: [SourceAnswer: Int] = [:]
        for (source, answer, count) in rows {
            guard let kind = SourceAnswer.Kind(text: answer) else { continue }
            counts[SourceAnswer(source: source, kind: kind)] = count
        }
        return counts
    }
}

enum StatusStatements {
    private static func integration(
        name: String, pausedAt: Timestamp?, pauseReason: String?, waiting: Int, oldestSeconds: Double?,
        delivered: Int, failed: Int, deadLetters: Int, failedAt: Timestamp?, httpStatus: Int16?, failure: String?,
        openedAt: Timestamp?, openReason: String?
    ) -> LedgerStatus.Integration {
        LedgerStatus.Integration(
            name: name, pausedAt: pausedAt, pauseReason: pauseReason,
            breaker: openedAt.map { LedgerStatus.Breaker(openedAt: $0, reason: openReason ?? "") }, waiting: waiting,
            oldestSeconds: oldestSeconds, delivered: delivered, failed: failed,
            lastError: failedAt.map {
                LedgerStatus.Failure(at: $0, httpStatus: httpStatus.map { Int($0) }, text: failure)
            }, deadLetters: deadLetters)
    }

    static let integrations = Statement<(), LedgerStatus.Integration>(
        "status_integrations",
        """
        SELECT i.name, (extract(epoch FROM i.paused_at) * 1000)::bigint, i.pause_reason, coalesce(d.waiting, 0),
               d.oldest, coalesce(r.delivered, 0), coalesce(r.failed, 0), coalesce(l.dead, 0),
               (extract(epoch FROM f.at) * 1000)::bigint, f.http_status, f.failure,
               (extract(epoch FROM b.opened_at) * 1000)::bigint, b.reason
        FROM integrations i
        LEFT JOIN breakers b ON b.integration = i.id
        LEFT JOIN (SELECT integration, count(*) AS waiting,
                          extract(epoch FROM now() - min(created_at))::double precision AS oldest
                   FROM deliveries GROUP BY integration) d ON d.integration = i.id
        LEFT JOIN (SELECT integration, count(*) FILTER (WHERE outcome = 'accepted') AS delivered,
                          count(*) FILTER (WHERE outcome <> 'accepted') AS failed
                   FROM attempts WHERE at > now() - interval '1 minute' GROUP BY integration) r ON r.integration = i.id
        LEFT JOIN (SELECT integration, count(*) AS dead FROM dead_letters GROUP BY integration) l
               ON l.integration = i.id
        LEFT JOIN LATERAL (SELECT at, http_status, failure FROM attempts a
                           WHERE a.integration = i.id AND a.outcome <> 'accepted'
                           ORDER BY a.at DESC LIMIT 1) f ON true
        ORDER BY i.name
        """, row: integration)

    static let daemons = Statement<(), LedgerStatus.Daemon>(
        "status_daemons",
        """
        SELECT version, (extract(epoch FROM started_at) * 1000)::bigint FROM daemons WHERE expires_at > now() ORDER BY id
        """, row: LedgerStatus.Daemon.init)

    static let sources = Statement<(), LedgerStatus.Source>(
        "status_sources",
        "SELECT name, (extract(epoch FROM heard_at) * 1000)::bigint FROM source_names ORDER BY name",
        row: LedgerStatus.Source.init)

    static let answers = Statement<(), (String, String, Int)>(
        "status_answers",
        """
        SELECT a.source, a.answer, sum(a.count)::bigint
        FROM daemons d, jsonb_to_recordset(d.answers) AS a (source text, answer text, count bigint)
        WHERE d.expires_at > now() GROUP BY 1, 2
        """)

    static let rest = Statement<(), (Timestamp, Int)>(
        "status_rest",
        "SELECT (extract(epoch FROM now()) * 1000)::bigint, (SELECT count(*) FROM quarantine)")
}
