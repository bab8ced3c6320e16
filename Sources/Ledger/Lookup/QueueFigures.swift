package import Postgres
import Vocabulary

/// How much waits for each integration: for /metrics and STATUS.
package struct QueueFigures: Sendable {
    package let integration: String
    package let waiting: Int
    /// Seconds since the oldest waiting message was made; nil: none waits.
    package let oldestSeconds: Double?
    package let deadLetters: Int
    package let isPaused: Bool
    let breakerIsOpen: Bool

    static let statement = Statement<(), QueueFigures>(
        "lookup_queue_figures",
        """
        SELECT i.name, coalesce(d.waiting, 0), d.oldest, coalesce(l.dead, 0), i.paused_at IS NOT NULL,
               EXISTS (SELECT FROM breakers b WHERE b.integration = i.id)
        FROM integrations i
        LEFT JOIN (SELECT integration, count(*) AS waiting,
                          extract(epoch FROM now() - min(created_at))::double precision AS oldest
                   FROM deliveries GROUP BY integration) d ON d.integration = i.id
        LEFT JOIN (SELECT integration, count(*) AS dead FROM dead_letters GROUP BY integration) l
               ON l.integration = i.id
        ORDER BY i.name
        """, row: QueueFigures.init)

    /// - Parameter served: the configured integrations. The breaker of any other one protects nothing.
    package func hasOpenBreaker(among served: Set<String>) -> Bool { breakerIsOpen && served.contains(integration) }

    package static func read(from pool: Pool) async throws -> [QueueFigures] {
        try await pool.withSession { session throws(DatabaseError) in
            try session.run(statement, ())
        }
    }
}
