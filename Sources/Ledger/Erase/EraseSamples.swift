import Postgres

/// What PostgreSQL itself keeps of values: its planner samples each column, and `pg_stats` shows the samples until the
/// table is analyzed again, which in a quiet ledger may be never.
///
/// Analyzes each table again in whose samples an id occurs, each in a transaction of its own; only they are read, some
/// thousands of pages of each. It waits for whatever else maintains the table, and nothing that reads or writes waits
/// for it. A table that is empty by now keeps its samples, and so does one that the role does not own
/// (posthouse-operate(7), "Retention and erasure").
extension Erasure {
    private static let patience: Duration = .seconds(600)

    func sampleAnew(in pool: Pool) async throws(DatabaseError) {
        let needles = ids.reduce(into: Set<String>()) { $0.formUnion($1.sampleNeedles) }.sorted()
        let tables = try await pool.withSession { session throws(DatabaseError) in
            try session.run(EraseSampleStatements.tables, needles)
        }
        for table in tables {
            // A partitioned table is analyzed with all its partitions, as upkeep does it.
            let target =
                table.isPartitioned ? "SET LOCAL default_statistics_target = \(Upkeep.statisticsTarget);" : ""
            try await pool.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    try session.script(
                        "SET LOCAL statement_timeout = 0; \(target) ANALYZE \(table.name)", upTo: Self.patience)
                }
            }
        }
    }
}

enum EraseSampleStatements {
    struct Sampled: Sendable {
        /// As SQL names it.
        let name: String
        let isPartitioned: Bool
    }

    /// The tables that this role may analyze and in whose samples a needle occurs. The text of a sample is made once,
    /// and not once for each needle.
    static let tables = Statement<[String], Sampled>(
        "erase_sampled_tables",
        """
        SELECT DISTINCT c.oid::regclass::text AS name, c.relkind = 'p'
        FROM (SELECT schemaname, tablename, concat(most_common_vals::text, histogram_bounds::text) AS texts
              FROM pg_stats WHERE schemaname = current_schema() OFFSET 0) AS s
        JOIN pg_namespace n ON n.nspname = s.schemaname
        JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = s.tablename AND c.relkind IN ('r', 'p')
        WHERE pg_has_role(c.relowner, 'USAGE')
          AND EXISTS (SELECT FROM unnest($1) AS w (needle) WHERE position(w.needle IN s.texts) > 0)
        ORDER BY name
        """, row: Sampled.init)
}
