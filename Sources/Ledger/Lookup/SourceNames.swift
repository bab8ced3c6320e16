package import Postgres
import Vocabulary

extension HolderLookup {
    /// Whether the ledger has been served under this name of a source, which may have left the configuration.
    package func hasServed(source: String) async throws(LookupFailure) -> Bool {
        try await read { session throws(DatabaseError) in try session.run(SourceNames.isKnown, source).first ?? false }
    }
}

/// The names of the sources that a database has been served under.
package enum SourceNames {
    static let remember = Statement<[String], ()>(
        "source_names_remember", "INSERT INTO source_names SELECT * FROM unnest($1) ON CONFLICT DO NOTHING")

    static let exists = Statement<(), Bool>(
        "source_names_exist", "SELECT to_regclass('source_names') IS NOT NULL")

    static let all = Statement<(), String>("source_names_all", "SELECT name FROM source_names ORDER BY name")

    static let isKnown = Statement<String, Bool>(
        "source_names_is_known", "SELECT EXISTS (SELECT FROM source_names WHERE name = $1)")

    static let heard = Statement<[String], String>(
        "source_names_heard", "SELECT name FROM source_names WHERE name <> ALL ($1) AND heard_at IS NOT NULL")

    /// Of names that were never heard of since that is noted. For one without purchases all purchases are read.
    static let unheard = Statement<[String], String>(
        "source_names_unheard",
        """
        SELECT name FROM source_names n WHERE name <> ALL ($1) AND heard_at IS NULL
            AND EXISTS (SELECT FROM purchases p WHERE p.source = n.name)
        """)
    /// For them: a reload of the daemon waits for the answer.
    private static let timeout: Duration = .seconds(2)

    package static func remember(_ names: [String], in pool: Pool) async throws {
        _ = try await pool.withSession { session throws(DatabaseError) in
            try session.execute(remember, names.sorted())
        }
    }

    /// All of them, of sources that left the configuration, too.
    package static func all(in pool: Pool) async throws -> [String] {
        try await pool.withSession { session throws(DatabaseError) in try session.run(all, ()) }
    }

    /// Names that webhooks came under and that are not in `configured`; empty if there is no schema yet. Those that
    /// none came under for long may be missing where there are many purchases.
    package static func vanished(besides configured: [String], in pool: Pool) async throws -> [String] {
        try await pool.withSession { session throws(DatabaseError) in
            guard try session.run(exists, ()).first == true else { return [] }
            let known = try session.run(heard, configured)
            do throws(DatabaseError) {
                let others = try session.transaction { session throws(DatabaseError) in
                    try session.script("SET LOCAL statement_timeout = \(timeout.wholeMilliseconds)")
                    return try session.run(unheard, configured)
                }
                return (known + others).sorted()
            } catch  where error.isStatementTimeout {
                return known.sorted()
            }
        }
    }
}
