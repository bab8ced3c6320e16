package import Postgres
import Vocabulary

/// The names of the sources that a database has been served under.
package enum SourceNames {
    static let remember = Statement<[String], ()>(
        "source_names_remember", "INSERT INTO source_names SELECT * FROM unnest($1) ON CONFLICT DO NOTHING")

    static let exists = Statement<(), Bool>(
        "source_names_exist", "SELECT to_regclass('source_names') IS NOT NULL")

    static let vanished = Statement<[String], String>(
        "source_names_vanished",
        """
        SELECT name FROM source_names n WHERE name <> ALL ($1)
            AND EXISTS (SELECT FROM purchases p WHERE p.source = n.name)
        ORDER BY name
        """)

    package static func remember(_ names: [String], in pool: Pool) async throws {
        _ = try await pool.withSession { session throws(DatabaseError) in
            try session.execute(remember, names.sorted())
        }
    }

    /// Names with purchases in the database that are not in `configured`; empty if there is no schema yet.
    package static func vanished(besides configured: [String], in pool: Pool) async throws -> [String] {
        try await pool.withSession { session throws(DatabaseError) in
            guard try session.run(exists, ()).first == true else { return [] }
            return try session.run(vanished, configured)
        }
    }
}
