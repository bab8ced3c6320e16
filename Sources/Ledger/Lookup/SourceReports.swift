package import Postgres
package import Vocabulary

/// What daemons write about their sources, for `status`.
package enum SourceReports {
    /// The answers of the daemon's last minute. One that is not registered has none.
    static let answers = Statement<(Int64, Identifier?, [String], [String], [Int64]), ()>(
        "source_reports_answers",
        """
        UPDATE daemons SET answers = (
            SELECT jsonb_agg(jsonb_build_object('source', source, 'answer', answer, 'count', count))
            FROM unnest($3, $4, $5) AS u (source, answer, count))
        WHERE id = $1 AND key IS NOT DISTINCT FROM $2
        """)

    static let heard = Statement<[String], ()>(
        "source_reports_heard", "UPDATE source_names SET heard_at = now() WHERE name = ANY ($1)")

    /// - Parameters:
    ///   - minute: the answers of the last minute, all above 0.
    ///   - heard: the names of the sources that sent something since the last report.
    /// - Returns: the lease under which the answers are there; nil: they are not.
    @discardableResult
    package static func write(
        _ minute: [SourceAnswer: Int], heard: Set<String>, by registration: Registration, in pool: Pool
    ) async throws -> Int64? {
        let rows = minute.sorted { ($0.key.source, $0.key.kind.text) < ($1.key.source, $1.key.kind.text) }
        let daemon = registration.id
        return try await pool.withSession { session throws(DatabaseError) in
            var written: Int64?
            if let daemon {
                let columns = (
                    daemon, registration.key, rows.map(\.key.source), rows.map(\.key.kind.text),
                    rows.map { Int64($0.value) }
                )
                if try session.execute(answers, columns) > 0 { written = daemon }
            }
            if !heard.isEmpty { _ = try session.execute(Self.heard, heard.sorted()) }
            return written
        }
    }
}
