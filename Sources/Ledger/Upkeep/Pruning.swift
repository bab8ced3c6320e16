import Postgres
import Vocabulary

/// What is past its time goes, in steps small enough to disturb nobody and without a look at what is not: attempts by
/// dropping the day's partition, events by walking their ids up to the first that is young enough, identities, which
/// have no index by time because each event would pay for it, by one reading of the table's pages a day.
extension Upkeep {
    /// Rows that one step looks at.
    static let pruneStep: Int32 = 5_000
    /// Pages of 8 KiB that one step looks at: about 10,000 identities.
    static let pruneStepPages: Int64 = 100
    /// A breaker whose next probe nobody has asked for this long after it was due is forgotten.
    static let breakerIdleMax: Duration = .seconds(86_400)

    /// Drops and prunes what is past its time; by the hour. What fails waits for the next and holds up nothing else.
    /// - Throws: the first failure, once everything was tried.
    package func prune() async throws {
        var failure: (any Error)?
        for step in [dropDays, pruneErased, pruneEvents, pruneBreakers, pruneChanges] {
            do { try await step() } catch { failure = failure ?? error }
        }
        if let failure { throw failure }
    }

    private func dropDays() async throws {
        let days = Int32(clamping: retention.attempts.wholeMilliseconds / 86_400_000)
        try await pool.withSession { session throws(DatabaseError) in
            guard let today = try session.run(Self.today, ()).first else { return }
            // The oldest first, and none past one that could not be dropped: what there is of attempts has no gap
            // (`Backfill.knownFrom`).
            let past = try session.run(Self.partitions, ()).filter { $0.1 < today - days }.sorted { $0.1 < $1.1 }
            for (name, _) in past {
                try session.transaction { session throws(DatabaseError) in
                    // The name matched attempts_ and eight digits: it can be written into the statement as it is.
                    try session.script("\(Self.lockTimeout(Self.lockWaitMax)); DROP TABLE IF EXISTS \(name)")
                }
            }
            _ = try session.execute(PruneStatements.strays, today - days)
        }
    }

    /// Events whose messages are all settled and old; their messages go with them.
    private func pruneEvents() async throws {
        let age = retention.events.wholeMilliseconds
        let first = try await pool.withSession { session throws(DatabaseError) in
            guard let now = try session.run(PruneStatements.now, ()).first else { return 0 as Int64 }
            return try FirstRow.find(
                Timestamp(milliseconds: now - age), EventListStatements.bounds, EventListStatements.probe, on: session)
        }
        var after: Int64 = -1
        while true {
            let from = after
            let step = try await pool.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    // No replay is about to put one of them into the queue again.
                    try Requeue.lock(on: session)
                    return try session.run(PruneStatements.events, (from, first, Self.pruneStep)).first
                }
            }
            guard let (last, count) = step, let last else { return }
            after = last
            if count < Int64(Self.pruneStep) { return }
        }
    }

    /// The memory of what was accepted; by the day.
    package func pruneIdentities() async throws {
        let pages = try await pool.withSession { session throws(DatabaseError) in
            try session.run(PruneStatements.identityPages, ()).first ?? 0
        }
        for page in stride(from: 0, to: pages, by: Int64.Stride(Self.pruneStepPages)) {
            let range = ("(\(page),0)", "(\(page + Self.pruneStepPages),0)", retention.duplicates.wholeMilliseconds)
            try await pool.withSession { session throws(DatabaseError) in
                _ = try session.execute(PruneStatements.identities, range)
            }
        }
    }

    /// Changes of holders that no webhook can come late enough for, by event time and by arrival.
    private func pruneChanges() async throws {
        var after: Int64 = -1
        while true {
            let from = after
            let step = try await pool.withSession { session throws(DatabaseError) in
                try session.run(
                    PruneStatements.changes, (from, Limits.retryHorizonMilliseconds, Self.pruneStep)
                ).first
            }
            guard let (last, count) = step, let last else { return }
            after = last
            if count < Int64(Self.pruneStep) { return }
        }
    }

    /// Breakers that nobody has anything to try for: of integrations that were removed, and discarded.
    private func pruneBreakers() async throws {
        try await pool.withSession { session throws(DatabaseError) in
            _ = try session.execute(PruneStatements.breakers, Self.breakerIdleMax.wholeMilliseconds)
        }
    }

    /// What was erased is forgotten when its duplicates would be.
    private func pruneErased() async throws {
        let age = retention.duplicates.wholeMilliseconds
        try await pool.withSession { session throws(DatabaseError) in
            _ = try session.execute(PruneStatements.erased, age)
        }
    }
}

enum PruneStatements {
    static let now = Statement<(), Int64>("prune_now", "SELECT (extract(epoch FROM now()) * 1000)::bigint")

    /// What came while its day had no partition.
    static let strays = Statement<Int32, ()>(
        "prune_strays",
        "DELETE FROM attempts_default WHERE at < (date '1970-01-01' + $1)::timestamp AT TIME ZONE 'UTC'")

    /// After an id, below another, at most so many: the last id of them and how many they were.
    static let events = Statement<(Int64, Int64, Int32), (Int64?, Int64)>(
        "prune_events",
        """
        WITH page AS (SELECT id FROM events WHERE id > $1 AND id < $2 ORDER BY id LIMIT $3),
        old AS (
            SELECT id FROM page p
            WHERE NOT EXISTS (SELECT FROM messages m JOIN deliveries d ON d.message = m.id WHERE m.event = p.id)
              AND NOT EXISTS (SELECT FROM messages m JOIN dead_letters l ON l.message = m.id WHERE m.event = p.id)),
        messages_gone AS (DELETE FROM messages m USING old WHERE m.event = old.id),
        events_gone AS (DELETE FROM events e USING old WHERE e.id = old.id)
        SELECT max(id), count(*) FROM page
        """)

    /// After an id, older than so many milliseconds, at most so many: the last id of those looked at and their number.
    /// Rows come in the order of their ids, so none is looked at behind the first that came lately.
    static let changes = Statement<(Int64, Int64, Int32), (Int64?, Int64)>(
        "prune_changes",
        """
        WITH horizon AS (SELECT now() - $2 * interval '1 millisecond' AS at),
        page AS (SELECT id, received_at, at_ms, applied_through FROM holder_changes WHERE id > $1 ORDER BY id LIMIT $3),
        past AS (SELECT id, at_ms, applied_through FROM page WHERE received_at < (SELECT at FROM horizon)),
        gone AS (
            DELETE FROM holder_changes c USING past
            WHERE c.id = past.id AND past.applied_through IS NULL
                AND past.at_ms < extract(epoch FROM (SELECT at FROM horizon)) * 1000)
        SELECT max(id), count(*) FROM past
        """)

    static let identityPages = Statement<(), Int64>(
        "prune_identity_pages",
        "SELECT pg_relation_size('identities') / current_setting('block_size')::bigint")
    /// Of a range of pages (a TID range scan), those older than so many milliseconds.
    static let identities = Statement<(String, String, Int64), ()>(
        "prune_identities",
        """
        DELETE FROM identities
        WHERE ctid >= $1::text::tid AND ctid < $2::text::tid AND received_at < now() - $3 * interval '1 millisecond'
        """)

    static let breakers = Statement<Int64, ()>(
        "prune_breakers",
        """
        DELETE FROM breakers b WHERE next_probe_at < now() - $1 * interval '1 millisecond'
            AND NOT EXISTS (SELECT FROM deliveries d WHERE d.integration = b.integration)
        """)

    static let erased = Statement<Int64, ()>(
        "prune_erased", "DELETE FROM erased_events WHERE erased_at < now() - $1 * interval '1 millisecond'")
}
