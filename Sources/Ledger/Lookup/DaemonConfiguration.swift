package import Postgres
import Vocabulary

/// How a daemon is configured, as it writes it itself, for `doctor`: messages are made by the configuration of the
/// daemon that records their event.
package struct DaemonConfiguration: Sendable, Hashable {
    /// Of Posthouse.
    package let version: String
    /// By section of the configuration (`Configuration.digests`).
    package let digests: [String: String]

    /// In place of what the daemon wrote before, unless that is the same.
    static let update = Statement<(Int64, Identifier?, [String], [String]), ()>(
        "daemon_configuration_update",
        """
        UPDATE daemons SET configuration = wanted
        FROM (SELECT coalesce(jsonb_object_agg(section, digest), '{}') FROM unnest($3, $4) AS u (section, digest))
            AS w (wanted)
        WHERE id = $1 AND key IS NOT DISTINCT FROM $2 AND configuration IS DISTINCT FROM wanted
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

    /// Does nothing for a daemon that has no lease.
    /// - Parameter digests: of all sections.
    package static func write(
        _ digests: [String: String], by registration: Registration, in pool: Pool
    ) async throws(DatabaseError) {
        guard let lease = registration.id else { return }
        let rows = digests.sorted { $0.key < $1.key }
        let columns = (lease, registration.key, rows.map(\.key), rows.map(\.value))
        try await pool.withSession { session throws(DatabaseError) in _ = try session.execute(update, columns) }
    }

    package static func read(from pool: Pool) async throws(DatabaseError) -> [DaemonConfiguration] {
        try await pool.withSession { session throws(DatabaseError) in try session.run(living, ()) }
    }
}
