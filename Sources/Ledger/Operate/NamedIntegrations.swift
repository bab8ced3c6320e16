package import Postgres
package import Vocabulary

/// Integrations as the commands see them: the configured ones with their rows, and all that the database knows. Only a
/// daemon takes a name up: from then on messages are put into the queue for it, and `posthouse status` shows it.
package struct NamedIntegrations: Sendable {
    /// Configured, in the order of the file, and taken up by a daemon.
    package let routes: [RoutedIntegration]
    /// Configured, and taken up by none yet.
    package let untaken: [String]
    /// Every name that a daemon has taken up.
    package let rows: [String: Int32]

    package static func read(
        _ configured: [Integration], in pool: Pool
    ) async throws(DatabaseError) -> NamedIntegrations {
        try await pool.withSession { session throws(DatabaseError) in
            let known = try session.run(Pauses.names, ())
            let rows = Dictionary(firstOf: known.map { row, name in (name, row) })
            let routes = configured.compactMap { integration in
                rows[integration.name].map { RoutedIntegration(row: $0, integration: integration) }
            }
            let untaken = configured.map(\.name).filter { rows[$0] == nil }
            return NamedIntegrations(routes: routes, untaken: untaken, rows: rows)
        }
    }

    package func name(of row: Int32) -> String { rows.first { $0.value == row }?.key ?? "" }
}
