package import Postgres

/// Settings of the operator's own PostgreSQL that cost Posthouse much where they are as PostgreSQL ships them. The
/// private cluster has its own (`Settings` of the target Cluster); durability is not advice (`Durability`).
package struct ServerAdvice: Sendable {
    let walCompression: String
    /// Whether the server was built with LZ4; without it, it does not start with that setting.
    let hasLZ4: Bool
    /// Bytes.
    let sharedBuffers: Int64
    /// Bytes.
    let maxWAL: Int64
    /// Seconds.
    let checkpointTimeout: Int64
    let maxLocksPerTransaction: Int64
    /// Locks on tables and indexes that all transactions together may hold at least (PostgreSQL manual, "Lock
    /// Management").
    let locks: Int64

    /// Those that the private cluster has room for: 256 for each of 100 connections. A look-up over all periods that
    /// may stand holds some 700.
    private static let locksMin: Int64 = 25_600

    static let settings = Statement<(), ServerAdvice>(
        "server_advice",
        """
        SELECT current_setting('wal_compression'),
               (SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'wal_compression'),
               pg_size_bytes(current_setting('shared_buffers')),
               pg_size_bytes(current_setting('max_wal_size')),
               extract(epoch FROM current_setting('checkpoint_timeout')::interval)::bigint,
               current_setting('max_locks_per_transaction')::bigint,
               current_setting('max_locks_per_transaction')::bigint * (
                   current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint)
        """, row: ServerAdvice.init)

    /// Reads the settings and returns the advice, one line each; empty where there is nothing to gain.
    package static func lines(in pool: Pool) async throws -> [String] {
        try await pool.withSession { session throws(DatabaseError) in
            try session.run(settings, ()).first?.lines ?? []
        }
    }

    /// The advice. Pure.
    var lines: [String] {
        var lines: [String] = []
        if hasLZ4, walCompression == "off" || walCompression == "pglz" {
            lines.append(
                "wal_compression = \(walCompression): set it to lz4; just after a checkpoint an event then writes about "
                    + "a third of the log")
        }
        if sharedBuffers <= 128 << 20 {
            lines.append(
                "shared_buffers = \(sharedBuffers >> 20)MB, as PostgreSQL ships it: set it to a quarter of the memory")
        }
        if maxWAL <= 1 << 30 {
            lines.append(
                "max_wal_size = \(maxWAL >> 20)MB, as PostgreSQL ships it: set it to 4GB where the disk allows it, so that "
                    + "fewer checkpoints make fewer whole pages to log")
        }
        if checkpointTimeout <= 300 {
            lines.append("checkpoint_timeout = \(checkpointTimeout)s, as PostgreSQL ships it: set it to 30min")
        }
        if locks < Self.locksMin {
            lines.append(
                "max_locks_per_transaction = \(maxLocksPerTransaction), which is room for \(locks) locks: set it to 256; "
                    + "a look-up over all periods holds some 700")
        }
        return lines
    }
}
