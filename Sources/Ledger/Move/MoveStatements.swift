import Postgres
import Vocabulary

/// Queries of a move on the two catalogues; the tables' rows are copied by COPY.
enum MoveStatements {
    /// Name and columns of each table, quoted for SQL; a partitioned table includes its partitions.
    static let tables = Statement<(), (String, [String])>(
        "move_tables",
        """
        SELECT quote_ident(c.relname), array_agg(quote_ident(a.attname) ORDER BY a.attnum)
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND c.relnamespace = current_schema()::regnamespace
        GROUP BY c.relname ORDER BY c.relname
        """)

    /// Sequences, those of identity columns included; without a position: never used.
    static let sequences = Statement<(), (String, Int64?)>(
        "move_sequences",
        "SELECT sequencename::text, last_value FROM pg_sequences WHERE schemaname = current_schema() ORDER BY 1")

    static let setSequence = Statement<(String, Int64), Int64>(
        "move_set_sequence", "SELECT setval(format('%I.%I', current_schema(), $1)::regclass, $2)")

    /// PostgreSQL's own number of the cluster, made by initdb.
    static let cluster = Statement<(), Int64>(
        "move_cluster", "SELECT system_identifier FROM pg_control_system()")

    static let movedAt = Statement<Int64, Timestamp>(
        "move_moved_at", "SELECT (extract(epoch FROM moved_at) * 1000)::bigint FROM moves WHERE cluster = $1")

    static let record = Statement<Int64, ()>("move_record", "INSERT INTO moves (cluster) VALUES ($1)")

    /// Daemons that use this database: their leases have not run out.
    static let livingDaemons = Statement<(), Int64>(
        "move_living_daemons", "SELECT count(*) FROM daemons WHERE expires_at > now()")
}
