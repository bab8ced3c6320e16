package import Postgres

/// Checks PostgreSQL's settings: only the database can keep the promise that an acknowledged event is never lost.
package enum Durability {
    package enum Refusal: Error, Sendable, CustomStringConvertible {
        case unsafe(setting: String, value: String)
        /// The server does not show the setting.
        case hidden(setting: String)
        case tooOld(version: Int32)
        case pooled

        package var description: String {
            switch self {
            case .unsafe(let setting, let value):
                "the database has \(setting) = \(value): an acknowledged webhook could be lost in a crash; "
                    + "set \(setting) = on (ALTER SYSTEM SET \(setting) = on; SELECT pg_reload_conf())"
                    + (setting == "fsync" ? "; \(Self.declaration)" : "")
            case .hidden(let setting):
                "the database does not show \(setting), so it is not known whether an acknowledged webhook outlives a "
                    + "crash; \(Self.declaration)"
            case .tooOld(let version):
                "the database is PostgreSQL \(version / 10_000); posthouse needs 15 or later"
            case .pooled:
                "the connection goes through a proxy that changes the server session between transactions "
                    + "(PgBouncer in transaction mode?); connect to PostgreSQL itself or use session pooling, "
                    + "or let [database] pooling = \"transaction\" say so (posthouse-operate(7), \"Poolers\")"
            }
        }
    }

    static let settings = Statement<(), (String?, String, Int32)>(
        "durability_settings",
        """
        SELECT current_setting('fsync', true), current_setting('synchronous_commit'),
               current_setting('server_version_num')::integer
        """)

    /// Checks the server of each new connection, because a failover leads to another server with its own settings. One
    /// round trip. What is between is looked at once, at start (`PoolerProbe`).
    /// - Parameter isDeclared: the operator answers for a storage that keeps what was written without fsync.
    /// - Returns: why this server must not be used; nil if it may.
    package static func unsafeServer(
        on session: borrowing Session, isDeclared: Bool = false
    ) throws(DatabaseError) -> Refusal? {
        guard let (fsync, synchronousCommit, version) = try session.run(settings, ()).first else { return nil }
        if version < 150_000 { return .tooOld(version: version) }
        if !isDeclared, fsync != "on" {
            return fsync.map { Refusal.unsafe(setting: "fsync", value: $0) } ?? .hidden(setting: "fsync")
        }
        // "local" and above are durable on this server; "off" acknowledges what may still be lost.
        if synchronousCommit == "off" { return .unsafe(setting: "synchronous_commit", value: synchronousCommit) }
        return nil
    }
}

extension Durability.Refusal {
    private static let declaration =
        "where the server's storage keeps what was written by other means, [database] durability = \"declared\" says so"
}
