import Postgres
import Vocabulary

/// Prunes what is past its retention, in steps small enough to disturb nobody and without reading what is not.
/// Attempts: by dropping the day's partition. Events and messages: by dropping their period (`dropPeriods`), and below
/// the periods by walking their ids up to the first that is young enough. Event keys: by one pass over the table's
/// pages a day, since an index by time would cost every event.
extension Upkeep {
    /// Rows read by one step.
    static let pruneStep: Int32 = 5_000
    /// Pages of 8 KiB read by one step: about 10,000 event keys.
    static let pruneStepPages: Int64 = 100
    /// A breaker is removed this long after a probe was due for which no daemon has asked.
    static let breakerIdleMax: Duration = .seconds(86_400)

    /// Drops and prunes what is past its retention; runs every hour. A failure waits for the next run and stops nothing
    /// else.
    /// - Throws: the first failure, once everything was tried.
    package func prune() async throws {
        var failure: (any Error)?
        let steps: [() async throws -> Void] = [
            dropDays, pruneErased, dropPeriods, pruneEvents, pruneBreakers, { _ = try await pruneChanges() },
            addMissingEnds, pruneEnds,
        ]
        for step in steps {
            do { try await step() } catch { failure = failure ?? error }
        }
        if let failure { throw failure }
    }

    private func dropDays() async throws {
        let days = Int32(clamping: retention.attempts.wholeMilliseconds / 86_400_000)
        let (today, ahead) = try await pool.withSession { session throws(DatabaseError) -> (Int32, [String]) in
            let today = try session.run(Self.today, ()).first ?? 0
            // The oldest first, stopping at the first that cannot be dropped, so that the kept attempts have no gap
            // (`Backfill.knownFrom`).
            let known = try session.run(Self.partitions, ()).sorted { $0.day < $1.day }
            for (name, day) in known where day < today - days { try Self.drop(name, on: session) }
            let ahead = Self.daysAhead(of: today, known.map(\.day))
            for (name, day) in known where day > today + Int32(Self.partitionsAhead) && !ahead.contains(day) {
                try Self.drop(name, ifEmpty: true, on: session)
            }
            let isBehind = try session.run(PruneStatements.isBehind, ()).first != false
            return (today, isBehind ? [] : known.filter { ahead.contains($0.day) }.map(\.name))
        }
        for name in ahead { try await dropAhead(name) }
        try await pruneByPages(PruneStatements.strayPages, PruneStatements.strays, today - days)
        try await pruneByPages(PruneStatements.discardPages, PruneStatements.discards, today - days)
    }

    /// The days that only a clock ahead can have made: those behind a gap that `followsGap` would find. Where the clock
    /// is some days behind, true days follow today, and a daemon that rested leaves short gaps in them.
    static func daysAhead(of today: Int32, _ days: [Int32]) -> Set<Int32> {
        var last = today
        for day in days.sorted() where day > last && day - last <= gapMax { last = day }
        return Set(days.filter { $0 > last })
    }

    /// Drops a day that a clock ahead has made. Its attempts become today's: were it left, there would be no gap if the
    /// same clock came again (`followsGap`).
    /// - Parameter name: matched attempts_ and eight digits, so it is safe in statements.
    private func dropAhead(_ name: String) async throws {
        let limit = Self.lockTimeout(Self.lockWaitMax)
        // One daemon at a time: a day may be another's to drop by now.
        let lock = "LOCK TABLE ONLY attempts IN SHARE UPDATE EXCLUSIVE MODE"
        try await pool.withSession { session throws(DatabaseError) in
            var moved = Int(Self.pruneStep)
            while moved == Self.pruneStep {
                moved = try session.transaction { session throws(DatabaseError) in
                    try session.script("\(limit); \(lock)")
                    guard try session.number("SELECT 1 WHERE to_regclass('\(name)') IS NOT NULL") != nil else {
                        return 0
                    }
                    return try session.number(
                        """
                        WITH moved AS (
                            DELETE FROM \(name) WHERE ctid = ANY (ARRAY(SELECT ctid FROM \(name) LIMIT \(Self.pruneStep)))
                            RETURNING *),
                        kept AS (
                            INSERT INTO attempts (\(Self.attemptColumns), at) SELECT \(Self.attemptColumns), now() FROM moved
                            RETURNING 1)
                        SELECT count(*) FROM kept
                        """) ?? 0
                }
            }
            try Self.drop(name, ifEmpty: true, on: session)
        }
    }

    private static let attemptColumns =
        "delivery, message, integration, attempt, outcome, http_status, latency_ms, failure"

    /// - Parameter name: as of `dropAhead`.
    private static func drop(
        _ name: String, ifEmpty: Bool = false, on session: borrowing Session
    ) throws(DatabaseError) {
        let drop = "DROP TABLE IF EXISTS \(name)"
        // The table's lock first, as DROP takes it. A second IF, because the first may not name what is gone.
        let guarded = """
            LOCK TABLE ONLY attempts IN SHARE UPDATE EXCLUSIVE MODE;
            IF to_regclass('\(name)') IS NOT NULL THEN
                IF NOT EXISTS (SELECT FROM \(name)) THEN \(drop); END IF;
            END IF
            """
        try session.transaction { session throws(DatabaseError) in
            try session.script(
                "\(lockTimeout(lockWaitMax)); " + (ifEmpty ? "DO $$ BEGIN \(guarded); END $$" : drop))
        }
    }

    /// Prunes old events whose messages are all settled and no dead letters, with their messages: those that lie below
    /// the periods which are dropped as a whole. One that moves purchases is kept until it has moved them all.
    private func pruneEvents() async throws {
        let age = retention.events.wholeMilliseconds
        let first = try await pool.withSession { session throws(DatabaseError) in
            guard let now = try session.run(PruneStatements.now, ()).first else { return 0 as Int64 }
            let young = try FirstRow.find(
                Timestamp(milliseconds: now - age), EventListStatements.bounds, EventListStatements.probe, on: session)
            let facts = try PeriodTables.facts(on: session)
            return min(young, facts.firstIDWithinTime(retention) ?? young)
        }
        var after: Int64 = -1
        while true {
            let from = after
            let step = try await pool.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    // Otherwise a replay could be about to put one of them into the queue again.
                    try Requeue.lock(on: session)
                    return try session.run(PruneStatements.events, (from, first, Self.pruneStep)).first
                }
            }
            guard let (last, count) = step, let last else { return }
            after = last
            if count < Int64(Self.pruneStep) { return }
        }
    }

    /// Prunes event keys; runs once a day.
    package func pruneEventKeys() async throws {
        try await pruneByPages(
            PruneStatements.eventKeyPages, PruneStatements.eventKeys, retention.duplicates.wholeMilliseconds)
    }

    /// Prunes a table some pages at a time, so that none of its statements takes long.
    /// - Parameters:
    ///   - pages: how many the table has.
    ///   - statement: of a range of pages (a TID range scan), with `limit` as its third parameter.
    private func pruneByPages<Limit: Sendable>(
        _ pages: Statement<(), Int64>, _ statement: Statement<(String, String, Limit), ()>, _ limit: Limit
    ) async throws {
        let count = try await pool.withSession { session throws(DatabaseError) in
            try session.run(pages, ()).first ?? 0
        }
        for page in stride(from: 0, to: count, by: Int64.Stride(Self.pruneStepPages)) {
            try await pool.withSession { session throws(DatabaseError) in
                _ = try session.execute(statement, ("(\(page),0)", "(\(page + Self.pruneStepPages),0)", limit))
            }
        }
    }

    /// Prunes breakers with nothing left to try: the integration was removed and its deliveries discarded. That of one
    /// that is configured stays open until something is delivered: whoever was notified that it fails is notified when
    /// it recovers.
    private func pruneBreakers() async throws {
        try await pool.withSession { session throws(DatabaseError) in
            _ = try session.execute(PruneStatements.breakers, (Self.breakerIdleMax.wholeMilliseconds, integrations))
        }
    }

    /// Prunes the hashes of erased events at the age at which event keys are pruned.
    private func pruneErased() async throws {
        let age = retention.duplicates.wholeMilliseconds
        try await pool.withSession { session throws(DatabaseError) in
            _ = try session.execute(PruneStatements.erased, age)
        }
    }
}

enum PruneStatements {
    static let now = Statement<(), Int64>("prune_now", "SELECT (extract(epoch FROM now()) * 1000)::bigint")

    /// Whether the clock is behind for certain: it is before the newest migration.
    static let isBehind = Statement<(), Bool>(
        "prune_is_behind", "SELECT \(clockIsBehind)")
    static let clockIsBehind: SQL = "now() < (SELECT max(applied_at) FROM schema_migrations)"

    private static func pages(of table: SQL) -> SQL {
        "SELECT pg_relation_size('\(table)') / current_setting('block_size')::bigint"
    }
    private static let isInRange: SQL = "ctid >= $1::text::tid AND ctid < $2::text::tid"
    private static let isBeforeDay: SQL = "at < (date '1970-01-01' + $3)::timestamp AT TIME ZONE 'UTC'"

    /// Attempts that came while their day had no partition, from before day `$3`.
    static let strays = Statement<(String, String, Int32), ()>(
        "prune_strays", "DELETE FROM attempts_default WHERE \(isInRange) AND \(isBeforeDay)")
    static let strayPages = Statement<(), Int64>("prune_stray_pages", pages(of: "attempts_default"))

    /// Nothing is known of the attempts of that time any more, either.
    static let discards = Statement<(String, String, Int32), ()>(
        "prune_discards", "DELETE FROM discards WHERE \(isInRange) AND \(isBeforeDay)")
    static let discardPages = Statement<(), Int64>("prune_discard_pages", pages(of: "discards"))

    /// Takes an id to start after, an id to stop before and a limit; returns the last id and the number of events read.
    /// Dead letters are looked up one by one: a join would read all of them for each page.
    static let events = Statement<(Int64, Int64, Int32), (Int64?, Int64)>(
        "prune_events",
        """
        WITH page AS (SELECT id FROM events WHERE id > $1 AND id < $2 ORDER BY id LIMIT $3),
        own AS MATERIALIZED (
            SELECT p.id AS event, m.id FROM page p
            CROSS JOIN LATERAL (SELECT id FROM messages WHERE event = p.id OFFSET 0) AS m),
        old AS MATERIALIZED (
            SELECT id FROM page p
            WHERE NOT EXISTS (SELECT FROM own JOIN deliveries d ON d.message = own.id WHERE own.event = p.id)
              AND NOT EXISTS (
                SELECT FROM own
                CROSS JOIN LATERAL (SELECT FROM dead_letters l WHERE l.message = own.id LIMIT 1) AS dead
                WHERE own.event = p.id)
              AND NOT EXISTS (SELECT FROM holder_changes c WHERE c.applied_through IS NOT NULL AND c.event = p.id)),
        messages_gone AS (
            DELETE FROM messages WHERE id = ANY (ARRAY (SELECT own.id FROM own JOIN old ON old.id = own.event))),
        events_gone AS (DELETE FROM events WHERE id = ANY (ARRAY (SELECT id FROM old)))
        SELECT max(id), count(*) FROM page
        """)

    static let eventKeyPages = Statement<(), Int64>("prune_event_key_pages", pages(of: "identities"))
    /// Event keys that are older than so many milliseconds and whose events are gone: while an event is kept, nothing
    /// but its key says that it came again.
    static let eventKeys = Statement<(String, String, Int64), ()>(
        "prune_event_keys",
        """
        DELETE FROM identities i
        WHERE \(isInRange) AND received_at < now() - $3 * interval '1 millisecond'
            AND (SELECT true FROM events e WHERE e.id = i.event LIMIT 1) IS NULL
        """)

    /// Spares those of the integrations `$2`.
    static let breakers = Statement<(Int64, [String]), ()>(
        "prune_breakers",
        """
        DELETE FROM breakers b WHERE next_probe_at < now() - $1 * interval '1 millisecond'
            AND NOT EXISTS (SELECT FROM deliveries d WHERE d.integration = b.integration)
            AND NOT EXISTS (SELECT FROM integrations i WHERE i.id = b.integration AND i.name = ANY ($2))
        """)

    static let erased = Statement<Int64, ()>(
        "prune_erased", "DELETE FROM erased_events WHERE erased_at < now() - $1 * interval '1 millisecond'")
}
