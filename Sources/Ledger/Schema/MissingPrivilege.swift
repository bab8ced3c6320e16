package import Postgres

/// Something that a daemon does in its ledger and that the role which asks may not do (posthouse-operate(7),
/// "Security").
package struct MissingPrivilege: Sendable, Hashable {
    /// `TABLE events`, `SEQUENCE event_ids` or `SCHEMA public`, for a GRANT. Outside `public` with its schema: `TABLE
    /// posthouse.events`.
    package let object: String
    /// A word of GRANT; or `OWNER`, which no GRANT gives.
    package let privilege: String

    /// Over the schema that tables are found in, and what is the ledger's there. A sequence of an identity column needs
    /// no privilege of its own.
    static let statement = Statement<(), MissingPrivilege>(
        "missing_privileges",
        """
        WITH s AS (SELECT CASE current_schema() WHEN 'public' THEN '' ELSE quote_ident(current_schema()) || '.' END
                              AS prefix)
        SELECT 'TABLE ' || s.prefix || c.relname::text, p.privilege
        FROM pg_class c CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p (privilege)
        CROSS JOIN s
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND c.relnamespace = current_schema()::regnamespace AND c.relname = ANY (\(LedgerTables.tables))
          AND (c.relname <> 'schema_migrations' OR p.privilege = 'SELECT')
          AND NOT has_table_privilege(c.oid, p.privilege)
        UNION ALL
        SELECT 'TABLE ' || s.prefix || o.relname::text, 'OWNER'
        FROM pg_class c CROSS JOIN LATERAL pg_partition_tree(c.oid) AS t JOIN pg_class o ON o.oid = t.relid
        CROSS JOIN s
        WHERE c.relkind = 'p' AND NOT c.relispartition AND c.relnamespace = current_schema()::regnamespace
          AND c.relname = ANY (\(LedgerTables.tables))
          AND NOT pg_has_role(o.relowner, 'USAGE') AND (t.level = 0 OR pg_has_role(c.relowner, 'USAGE'))
        UNION ALL
        SELECT 'SEQUENCE ' || s.prefix || c.relname::text, 'UPDATE' FROM pg_class c CROSS JOIN s
        WHERE c.relname IN ('event_ids', 'message_ids', 'delivery_ids') AND c.relnamespace = current_schema()::regnamespace
          AND CASE WHEN c.relkind = 'S' THEN NOT has_sequence_privilege(c.oid, 'UPDATE') END
        UNION ALL
        SELECT 'SEQUENCE ' || s.prefix || c.relname::text, 'USAGE' FROM pg_class c CROSS JOIN s
        WHERE c.relname = ANY (\(LedgerTables.sequences)) AND c.relnamespace = current_schema()::regnamespace
          -- CASE, because it fails for what is no sequence, and the server chooses the order of conditions.
          AND CASE WHEN c.relkind = 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE') END
        UNION ALL
        SELECT 'SCHEMA ' || quote_ident(current_schema()), 'CREATE'
        WHERE NOT has_schema_privilege(current_schema()::text, 'CREATE')
        ORDER BY 1, 2
        """, row: MissingPrivilege.init)

    package static func read(from pool: Pool) async throws(DatabaseError) -> [MissingPrivilege] {
        try await pool.withSession { session throws(DatabaseError) in try session.run(statement, ()) }
    }
}
