package import Postgres
package import Vocabulary

/// Deletes dead letters. Until then they are kept, with their messages and events, because a person decides about what
/// was given up.
package struct DeadLetters: Sendable {
    /// Dead letters of one transaction.
    private static let stepMax: Int32 = 1_000

    package let count: Int
    private let integration: Int32
    /// Those counted have a time before this one: milliseconds by the database's clock.
    private let end: Int64
    /// When they were counted: microseconds by the database's clock. What is given up from then on was not counted, and
    /// stays. What a daemon is giving up meanwhile may be deleted uncounted: `died_at` is the time at which the
    /// transaction that settles it began, and that may commit after the count.
    private let countedAt: Int64

    /// Counts those of an integration that were given up before `time`; nil: before now.
    package static func of(
        _ integration: Int32, before time: Timestamp?, in pool: Pool
    ) async throws(DatabaseError) -> DeadLetters {
        try await pool.withSession { session throws(DatabaseError) in
            let found = try session.run(DeadLetterStatements.count, (integration, time?.milliseconds))
            guard let (count, end, countedAt) = found.first else {
                throw .protocolViolation(reason: "counting dead letters came to nothing")
            }
            return DeadLetters(count: count, integration: integration, end: end, countedAt: countedAt)
        }
    }

    /// Deletes the oldest, one step of them, in turns with replays: of a letter that a replay has read either the
    /// delivery is made or the letter is deleted.
    /// - Returns: how many; 0 at the end.
    package func drop(in pool: Pool) async throws(DatabaseError) -> Int {
        let wanted = (integration, end, Self.stepMax, countedAt)
        return try await pool.retriedTransaction { session throws(DatabaseError) in
            try Requeue.lock(on: session)
            return try session.run(DeadLetterStatements.drop, wanted).count
        }
    }
}

enum DeadLetterStatements {
    /// Returns how many, and `DeadLetters.end` and `countedAt`. A database's clock that was ahead may have dated some
    /// later than now: without a time ($2) they are counted, too.
    static let count = Statement<(Int32, Int64?), (Int, Int64, Int64)>(
        "dead_letters_count",
        """
        WITH wanted AS (
            SELECT clock_timestamp() AS counted_at,
                   coalesce($2, (extract(epoch FROM greatest(
                       clock_timestamp(),
                       (SELECT max(died_at) FROM dead_letters WHERE integration = $1) + interval '1 millisecond'
                   )) * 1000)::bigint) AS until)
        SELECT (SELECT count(*) FROM dead_letters
                WHERE integration = $1 AND died_at < timestamptz 'epoch' + until * interval '1 millisecond'), until,
               (extract(epoch FROM counted_at) * 1000000)::bigint
        FROM wanted
        """)

    /// Leaves what transactions that began between the count ($4) and now gave up; later than now is what a clock that
    /// was ahead dated before the count. The transaction holds `Requeue.lock`. Records what was discarded (`Audit`).
    static let drop = Statement<(Int32, Int64, Int32, Int64), Int64>(
        "dead_letters_drop",
        """
        WITH gone AS (
            DELETE FROM dead_letters WHERE delivery IN (
                SELECT delivery FROM dead_letters
                WHERE integration = $1 AND died_at < timestamptz 'epoch' + $2 * interval '1 millisecond'
                  AND (died_at < timestamptz 'epoch' + $4 * interval '1 microsecond' OR died_at > clock_timestamp())
                ORDER BY died_at LIMIT $3)
            RETURNING delivery, message, integration),
        noted AS (
            INSERT INTO discards (message, integration) SELECT message, integration FROM gone ON CONFLICT DO NOTHING)
        SELECT delivery FROM gone
        """)
}
