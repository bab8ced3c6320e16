package import Postgres
package import Vocabulary

/// Integrations as the commands see them: the configured ones with their rows, and all that the database knows.
package struct NamedIntegrations: Sendable {
    /// Configured, in the order of the file.
    package let routes: [RoutedIntegration]
    /// Every name that was ever configured.
    package let rows: [String: Int32]

    /// Inserts the configured names into the database, as a daemon does when it starts.
    package static func read(
        _ configured: [Integration], in pool: Pool
    ) async throws(DatabaseError) -> NamedIntegrations {
        try await pool.withSession { session throws(DatabaseError) in
            _ = try session.execute(QueueStatements.nameIntegrations, configured.map(\.name).sorted())
            let known = try session.run(Pauses.names, ())
            let rows = Dictionary(firstOf: known.map { row, name in (name, row) })
            let routes = configured.compactMap { integration in
                rows[integration.name].map { RoutedIntegration(row: $0, integration: integration) }
            }
            return NamedIntegrations(routes: routes, rows: rows)
        }
    }

    package func name(of row: Int32) -> String { rows.first { $0.value == row }?.key ?? "" }
}
