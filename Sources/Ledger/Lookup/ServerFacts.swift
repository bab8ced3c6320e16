package import Postgres
package import Vocabulary

/// What a PostgreSQL server says of itself and of the role that asks.
package struct ServerFacts: Sendable, Hashable {
    /// As the server writes it: `15.14 (Debian 15.14-0+deb12u1)`.
    package let version: String
    package let role: String
    package let isSuperuser: Bool
    /// Bytes of the whole database on disk.
    package let databaseBytes: Int

    static let statement = Statement<(), ServerFacts>(
        "server_facts",
        """
        SELECT current_setting('server_version'), current_user::text, rolsuper, pg_database_size(current_database())
        FROM pg_roles WHERE rolname = current_user
        """, row: ServerFacts.init)

    package static func read(from pool: Pool) async throws(DatabaseError) -> ServerFacts {
        try await pool.withSession { session throws(DatabaseError) in
            guard let facts = try session.run(statement, ()).first else {
                throw .protocolViolation(reason: "the database does not say who asks")
            }
            return facts
        }
    }
}

/// The time of the database between two readings of this machine's clock.
package struct ClockReading: Sendable, Hashable {
    package let before: Timestamp
    package let database: Timestamp
    package let after: Timestamp

    static let statement = Statement<(), Timestamp>(
        "server_clock", "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")

    /// - Parameter now: this machine's wall clock.
    package static func take(
        from pool: Pool, now: @escaping @Sendable () -> Timestamp
    ) async throws(DatabaseError) -> ClockReading {
        try await pool.withSession { session throws(DatabaseError) in
            // Prepared in advance, so that what is measured is one round trip.
            _ = try session.run(statement, ())
            let before = now()
            guard let database = try session.run(statement, ()).first else {
                throw .protocolViolation(reason: "the database does not say its time")
            }
            return ClockReading(before: before, database: database, after: now())
        }
    }
}
