package import Postgres

/// What PostgreSQL itself keeps of values: its planner samples each column, and `pg_stats` shows the samples until the
/// table is analyzed again, which in a quiet ledger may be never (posthouse-operate(7), "Retention and erasure").
extension Erasure {
    /// A table whose samples may still have an id.
    package struct Unsampled: Sendable {
        /// As SQL names it.
        package let table: String
        /// Why it could not be analyzed; nil: the role does not own it, or it or a partition of it is empty, and so
        /// keeps its samples.
        package let failure: DatabaseError?
    }

    private static let timeout: Duration = .seconds(600)

    /// Analyzes each table again in whose samples an id occurs, each in a transaction of its own. It waits for whatever
    /// else maintains the table. Nothing that reads or writes waits for it; the making of partitions does, and is tried
    /// again later.
    ///
    /// A partitioned table is analyzed with all its partitions, with few samples, as upkeep does it
    /// (`analyzePeriodTables`). Another one is sampled as autovacuum does it, because its plans depend on that.
    ///
    /// - Returns: the tables where that was not possible, or changes nothing. The ids may occur there by chance.
    /// - Throws: if the samples could not be searched; not for a table that could not be analyzed.
    package func reanalyze(in pool: Pool) async throws(DatabaseError) -> [Unsampled] {
        var failures: [String: DatabaseError] = [:]
        for table in try await findSampled(in: pool) where table.isOwned {
            let target =
                table.isPartitioned ? "SET LOCAL default_statistics_target = \(Upkeep.statisticsTarget);" : ""
            do throws(DatabaseError) {
                try await pool.withSession { session throws(DatabaseError) in
                    try session.transaction { session throws(DatabaseError) in
                        try session.script(
                            "SET LOCAL statement_timeout = 0; \(target) ANALYZE \(table.name)", upTo: Self.timeout)
                    }
                }
            } catch {
                failures[table.name] = error
            }
        }
        return try await findSampled(in: pool).compactMap { table in
            let failure = failures[table.name]
            return failure != nil || !table.isOwned || table.isEmpty
                ? Unsampled(table: table.name, failure: failure) : nil
        }
    }

    private func findSampled(in pool: Pool) async throws(DatabaseError) -> [EraseSampleStatements.Sampled] {
        let needles = ids.reduce(into: Set<String>()) { $0.formUnion($1.sampleNeedles) }.sorted()
        return try await pool.withSession { session throws(DatabaseError) in
            try session.run(EraseSampleStatements.tables, needles)
        }
    }
}

enum EraseSampleStatements {
    struct Sampled: Sendable {
        /// As SQL names it.
        let name: String
        let isPartitioned: Bool
        /// Whether this role may analyze it.
        let isOwned: Bool
        /// Whether it, or a partition in whose samples a needle occurs, had no rows when it was analyzed last.
        let isEmpty: Bool
    }

    /// The tables in whose samples a needle occurs, of columns that may have an id; for a partition, which upkeep may
    /// drop, the partitioned table. The text of a sample is made once, and not once for each needle.
    static let tables = Statement<[String], Sampled>(
        "erase_sampled_tables",
        """
        SELECT r.oid::regclass::text AS name, r.relkind = 'p', pg_has_role(r.relowner, 'USAGE'),
               bool_or(c.reltuples = 0)
        FROM (SELECT schemaname, tablename, attname, concat(most_common_vals::text, histogram_bounds::text) AS texts
              FROM pg_stats WHERE schemaname = current_schema() OFFSET 0) AS s
        JOIN pg_namespace n ON n.nspname = s.schemaname
        JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = s.tablename AND c.relkind IN ('r', 'p')
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = s.attname
            AND a.atttypid IN ('text'::regtype, 'bytea'::regtype, 'jsonb'::regtype)
        JOIN pg_class r ON r.oid = coalesce(pg_partition_root(c.oid)::oid, c.oid)
        WHERE EXISTS (SELECT FROM unnest($1) AS w (needle) WHERE position(w.needle IN s.texts) > 0)
        GROUP BY r.oid, r.relkind, r.relowner
        ORDER BY name
        """, row: Sampled.init)
}
