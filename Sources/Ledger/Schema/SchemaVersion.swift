package import Postgres

/// Which migrations a database has, and which this program knows.
package struct SchemaVersion: Sendable, Hashable {
    /// The last one that was applied; nil: there is no schema yet.
    package let database: Int?
    /// The last one that this program carries.
    package let program: Int

    package static func read(from pool: Pool) async throws(DatabaseError) -> SchemaVersion {
        try await pool.withSession { session throws(DatabaseError) in
            let program = Migrator.newest
            guard try session.run(Migrator.exists, ()).first == true else {
                return SchemaVersion(database: nil, program: program)
            }
            let applied = try session.run(Migrator.applied, ()).map { version, _ in Int(version) }
            return SchemaVersion(database: applied.max(), program: program)
        }
    }
}
