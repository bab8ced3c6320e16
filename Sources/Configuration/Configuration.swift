package import Vocabulary

/// A checked configuration, which the daemon can run by. Made by `ConfigurationFile` alone.
package struct Configuration: Sendable {
    package struct Server: Sendable, Hashable {
        package let listen: ListenAddress
        /// Nil: the API answers on `listen`.
        package let apiListen: ListenAddress?
        /// Bytes of one webhook's body.
        package let maxBodyBytes: Int
        /// Nil: plain HTTP, as behind a proxy.
        package let tls: TLSFiles?
    }

    package struct Database: Sendable {
        /// Any libpq connection string, a secret because it may hold a password. Nil: the private cluster, or, except
        /// under `.serve`, a secret that could not be read here (`usesPrivateCluster` distinguishes the two).
        package let url: Secret?
        package let usesPrivateCluster: Bool
        package let poolConnections: Int
        package let statementTimeout: Duration
        /// The schema of the ledger's tables; nil: as the `search_path` of the role has it.
        package let schema: String?
        package let durability: Durability
        package let pooling: Pooling
        /// Where PostgreSQL is reached with a session of one's own; nil: as `url`, or, except under `.serve`, a
        /// secret that could not be read here (`namesDirectURL` distinguishes the two).
        package let directURL: Secret?
        package let namesDirectURL: Bool

        /// Who answers for what the database has committed.
        package enum Durability: String, Sendable, CaseIterable {
            /// The server, by its settings.
            case checked
            /// The operator: the server's storage is durable without `fsync`.
            case declared
        }

        /// What is between the daemon and PostgreSQL.
        package enum Pooling: String, Sendable, CaseIterable {
            /// Nothing, or a pooler that keeps a server session for each of its clients.
            case session
            /// A pooler that gives a server session to another client after each transaction.
            case transaction
        }
    }

    package struct Embedded: Sendable, Hashable {
        /// Where the private cluster lies.
        package let directory: String
    }

    package struct Spool: Sendable, Hashable {
        /// Where webhooks wait that the ledger could not take.
        package let directory: String
        /// What one daemon's files may take of the disk.
        package let bytesMax: Int
    }

    package struct Journal: Sendable, Hashable {
        /// Successes a second that each get an entry.
        package let detailPerSecond: Int
        /// Nil: left out, so that the daemon chooses by where standard error leads.
        package let format: LogFormat?
    }

    package let server: Server
    package let database: Database
    package let embedded: Embedded
    package let spool: Spool
    /// In the order of the file; names are unique. Except under `.serve`, a secret that could not be read is missing.
    package let sources: [Source]
    /// In the order of the file; names are unique. Except under `.serve`, a secret that could not be read is missing.
    package let integrations: [Integration]
    /// Names of integrations of which a secret could not be read here; empty under `.serve`.
    package let incompleteIntegrations: Set<String>
    /// In the order of the file; names and products are unique.
    package let subscriptionGroups: [SubscriptionGroup]
    /// In the order of the file; names and tokens are unique. Except under `.serve`, an unreadable one is missing.
    package let apiTokens: [APIToken]
    package let journal: Journal
    package let retention: Retention
}
