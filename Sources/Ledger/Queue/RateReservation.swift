import Postgres
import Vocabulary

/// Slots of an integration's `rate`, reserved by all daemons from one row: the time of the first slot not yet reserved
/// (generic cell rate algorithm, ITU-T I.371), by the database's time. The database answers how long to wait: no daemon
/// has to know its clock.
extension Queue {
    /// Daemons whose reservations may come before this one's.
    private static let daemonsAhead: Int64 = 32

    /// Reserves `count` slots that lie `interval` apart.
    ///
    /// - Parameter notBefore: the earliest time that is of use, counted from now.
    /// - Returns: the time of the first one.
    package func reserveSlots(
        _ integration: Int32, count: Int, interval: Duration, notBefore: Duration
    ) async throws -> ContinuousClock.Instant {
        let apart = interval.wholeMicroseconds
        // After the clock was set back, the lane must not wait for the time by which the row is ahead.
        let farthest = Self.daemonsAhead * max(apart * Int64(count), Limits.rateLookAhead.wholeMicroseconds)
        return try await pool.withSession { session throws(DatabaseError) in
            // Behind the wait for a connection and the round trips before the query, which its time does not contain.
            let (queriedAt, waits) = try session.runTimed(
                RateStatements.reserve, (integration, notBefore.wholeMicroseconds, apart * Int64(count), farthest))
            guard let wait = waits.first else {
                throw DatabaseError.protocolViolation(reason: "no slot was reserved")
            }
            // A clock that was set meanwhile must not make the lane sleep.
            return queriedAt + .microseconds(min(wait, notBefore.wholeMicroseconds + farthest))
        }
    }
}

enum RateStatements {
    /// Microseconds from the query's arrival to the first slot: waiting for the row's lock is part of them.
    static let reserve = Statement<(Int32, Int64, Int64, Int64), Int64>(
        "rate_reserve",
        """
        INSERT INTO rate_slots AS r (integration, next_at)
        VALUES ($1, clock_timestamp() + ($2 + $3) * interval '1 microsecond')
        ON CONFLICT (integration) DO UPDATE SET next_at = $3 * interval '1 microsecond'
            + greatest(least(r.next_at, clock_timestamp() + $4 * interval '1 microsecond'),
                       clock_timestamp() + $2 * interval '1 microsecond')
        RETURNING (extract(epoch FROM r.next_at - statement_timestamp()) * 1000000)::bigint - $3
        """)
}

extension Duration {
    /// Rounded down.
    var wholeMicroseconds: Int64 {
        components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000
    }
}
