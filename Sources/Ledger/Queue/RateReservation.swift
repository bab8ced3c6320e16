import Postgres
import Vocabulary

/// Slots of an integration's `rate`, reserved by all daemons from one row: the time of the first slot not yet reserved
/// (generic cell rate algorithm, ITU-T I.371), by the database's time.
extension Queue {
    /// Daemons whose reservations may come before this one's.
    private static let daemonsAhead: Int64 = 32

    /// Reserves `count` slots that lie `interval` apart.
    ///
    /// - Parameter notBefore: the earliest time that is of use, counted from now.
    package func reserveSlots(
        _ integration: Int32, count: Int, interval: Duration, notBefore: Duration
    ) async throws -> ReservedSlots {
        let apart = interval.wholeMicroseconds
        // After the clock was set back, the lane must not wait for the time by which the row is ahead.
        let farthest = Self.daemonsAhead * max(apart * Int64(count), Limits.rateLookAhead.wholeMicroseconds)
        let reserved = try await pool.withSession { session throws(DatabaseError) in
            try session.run(
                RateStatements.reserve, (integration, notBefore.wholeMicroseconds, apart * Int64(count), farthest))
        }
        guard let slots = reserved.first else { throw DatabaseError.protocolViolation(reason: "no slot was reserved") }
        return slots
    }
}

/// Times of the database, in microseconds since 1970.
package struct ReservedSlots: Sendable {
    /// Time of the first slot.
    package let firstMicroseconds: Int64
    /// Time of the reservation.
    package let nowMicroseconds: Int64
}

enum RateStatements {
    static let reserve = Statement<(Int32, Int64, Int64, Int64), ReservedSlots>(
        "rate_reserve",
        """
        INSERT INTO rate_slots AS r (integration, next_at)
        VALUES ($1, clock_timestamp() + ($2 + $3) * interval '1 microsecond')
        ON CONFLICT (integration) DO UPDATE SET next_at = $3 * interval '1 microsecond'
            + greatest(least(r.next_at, clock_timestamp() + $4 * interval '1 microsecond'),
                       clock_timestamp() + $2 * interval '1 microsecond')
        RETURNING (extract(epoch FROM r.next_at - $3 * interval '1 microsecond') * 1000000)::bigint,
                  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
        """, row: ReservedSlots.init)
}

extension Duration {
    /// Rounded down.
    var wholeMicroseconds: Int64 {
        components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000
    }
}
