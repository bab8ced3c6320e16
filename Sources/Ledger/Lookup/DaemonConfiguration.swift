package import Postgres
import Vocabulary

/// How a daemon is configured, as it writes it itself, for `doctor`: messages are made by the configuration of the
/// daemon that records their event.
package struct DaemonConfiguration: Sendable, Hashable {
    /// Of Posthouse.
    package let version: String
    /// By section of the configuration (`Configuration.digests`).
    package let digests: [String: String]

    /// In place of what the daemon wrote before, unless that is the same. Returns its row: one that is not registered
    /// has none.
    static let update = Statement<(Int64, Identifier?, [String], [String]), Int64>(
        "daemon_configuration_update",
        """
        WITH own AS MATERIALIZED (
            SELECT id, configuration, (SELECT coalesce(jsonb_object_agg(section, digest), '{}')
                                       FROM unnest($3, $4) AS u (section, digest)) AS wanted
            FROM daemons WHERE id = $1 AND key IS NOT DISTINCT FROM $2),
        written AS (
            UPDATE daemons d SET configuration = own.wanted FROM own
            WHERE d.id = own.id AND own.configuration IS DISTINCT FROM own.wanted)
        SELECT id FROM own
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

    /// - Parameter digests: of all sections.
    /// - Returns: the lease under which they are there; nil: they are not, because the daemon has none.
    package static func write(
        _ digests: [String: String], by registration: Registration, in pool: Pool
    ) async throws(DatabaseError) -> Int64? {
        guard let lease = registration.id else { return nil }
        let rows = digests.sorted { $0.key < $1.key }
        let columns = (lease, registration.key, rows.map(\.key), rows.map(\.value))
        return try await pool.withSession { session throws(DatabaseError) in
            try session.run(update, columns).first
        }
    }

    package static func read(from pool: Pool) async throws(DatabaseError) -> [DaemonConfiguration] {
        try await pool.withSession { session throws(DatabaseError) in try session.run(living, ()) }
    }
}
