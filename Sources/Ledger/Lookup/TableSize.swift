package import Postgres

/// The space of one table with its indexes; a partitioned one includes its partitions.
package struct TableSize: Sendable, Hashable {
    package let table: String
    package let bytes: Int

    /// The largest first. A partition that is dropped meanwhile has no size.
    static let largest = Statement<Int, TableSize>(
        "table_sizes",
        """
        SELECT r.relname::text, coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
        FROM pg_class c JOIN pg_class r ON r.oid = coalesce(pg_partition_root(c.oid)::oid, c.oid)
        WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace
        GROUP BY r.relname ORDER BY 2 DESC, 1 LIMIT $1
        """, row: TableSize.init)

    package static func largest(_ count: Int, in pool: Pool) async throws(DatabaseError) -> [TableSize] {
        try await pool.withSession { session throws(DatabaseError) in try session.run(largest, count) }
    }
}
