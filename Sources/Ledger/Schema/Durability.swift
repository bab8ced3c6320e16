package import Postgres

/// Checks PostgreSQL's settings: only the database can keep the promise that an acknowledged event is never lost.
package enum Durability {
    package enum Refusal: Error, Sendable, CustomStringConvertible {
        case unsafe(setting: String, value: String)
        /// The server does not show the setting.
        case hidden(setting: String)
        case tooOld(version: Int32)
        case pooled
        /// It may be promoted, or the next connection lead to another server.
        case readOnly

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
            case .readOnly:
                "the server takes no changes (a standby, or default_transaction_read_only is on)"
            }
        }
    }

    /// What of a server's settings decides; nil: it does not show the setting.
    struct Server: Sendable {
        var fsync: String?
        var synchronousCommit: String
        /// `synchronous_standby_names`; empty: it waits for no standby.
        var standbys: String?
        /// `server_version_num`
        var version: Int32
        /// It is a standby, or the role, the database or the server has that default.
        var isReadOnly: Bool
    }

    static let settings = Statement<(), Server>(
        "durability_settings",
        """
        SELECT current_setting('fsync', true), current_setting('synchronous_commit'),
               current_setting('synchronous_standby_names', true), current_setting('server_version_num')::integer,
               current_setting('transaction_read_only')::boolean
        """, row: Server.init)

    /// Checks the server of each new connection, because a failover leads to another server with its own settings. One
    /// round trip. What is between is looked at once, at start (`PoolerProbe`).
    /// - Parameter isDeclared: the operator answers for a storage that keeps what was written without fsync.
    /// - Returns: why this server must not be used; nil if it may.
    package static func unsafeServer(
        on session: borrowing Session, isDeclared: Bool = false
    ) throws(DatabaseError) -> Refusal? {
        guard let server = try session.run(settings, ()).first else { return nil }
        return refusal(of: server, isDeclared: isDeclared)
    }

    /// The same in words, as the admission of a pool (`Pool.Admission`).
    package static func problem(
        with connection: Connection, isDeclared: Bool
    ) async throws(DatabaseError) -> String? {
        try await connection.withSession { session throws(DatabaseError) in
            try Durability.unsafeServer(on: session, isDeclared: isDeclared).map { "\($0)" }
        }
    }

    static func refusal(of server: Server, isDeclared: Bool) -> Refusal? {
        if server.version < 150_000 { return .tooOld(version: server.version) }
        if !isDeclared, server.fsync != "on" {
            return server.fsync.map { Refusal.unsafe(setting: "fsync", value: $0) } ?? .hidden(setting: "fsync")
        }
        // "local" is durable on this server, but a server that has synchronous standbys is there to be replaced by one
        // of them, and "local" does not wait for it. "off" acknowledges what may still be lost.
        let hasStandbys = !(server.standbys ?? "").isEmpty
        if server.synchronousCommit == "off" || (server.synchronousCommit == "local" && hasStandbys) {
            return .unsafe(setting: "synchronous_commit", value: server.synchronousCommit)
        }
        return server.isReadOnly ? .readOnly : nil
    }
}

extension Durability.Refusal {
    private static let declaration =
        "where the server's storage keeps what was written by other means, [database] durability = \"declared\" says so"
}
