package import Postgres
import Vocabulary

/// How a daemon is configured, as it writes it itself, for `doctor`: messages are made by the configuration of the
/// daemon that records their event.
package struct DaemonConfiguration: Sendable, Hashable {
    /// Of Posthouse.
    package let version: String
    /// By section of the configuration (`Configuration.digests`).
    package let digests: [String: String]

    /// In place of what the daemon wrote before. One that is not registered writes nothing.
    static let update = Statement<(Int64, [String], [String]), ()>(
        "daemon_configuration_update",
        """
        UPDATE daemons SET configuration = (
            SELECT coalesce(jsonb_object_agg(section, digest), '{}') FROM unnest($2, $3) AS u (section, digest))
        WHERE id = $1
        """)

    /// Of the daemons whose lease has not run out. Those of an older version do not say how they are configured.
    static let living = Statement<(), DaemonConfiguration>(
        "daemon_configuration_living",
        """
        SELECT version, ARRAY(SELECT section FROM jsonb_each_text(configuration) AS e (section, digest) ORDER BY section),
               ARRAY(SELECT digest FROM jsonb_each_text(configuration) AS e (section, digest) ORDER BY section)
        FROM daemons WHERE expires_at > now() AND configuration IS NOT NULL ORDER BY id
        """, row: daemon)

    private static func daemon(version: String, sections: [String], digests: [String]) -> DaemonConfiguration {
        DaemonConfiguration(version: version, digests: Dictionary(firstOf: zip(sections, digests)))
    }

    /// - Parameters:
    ///   - digests: of all sections.
    ///   - lease: of the daemon.
    /// - Returns: whether it is there; false: the lease is gone.
    package static func write(
        _ digests: [String: String], by lease: Int64, in pool: Pool
    ) async throws(DatabaseError) -> Bool {
        let rows = digests.sorted { $0.key < $1.key }
        let columns = (lease, rows.map(\.key), rows.map(\.value))
        return try await pool.withSession { session throws(DatabaseError) in
            try session.execute(update, columns) > 0
        }
    }

    package static func read(from pool: Pool) async throws(DatabaseError) -> [DaemonConfiguration] {
        try await pool.withSession { session throws(DatabaseError) in try session.run(living, ()) }
    }
}
