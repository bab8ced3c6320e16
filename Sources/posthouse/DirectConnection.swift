import Configuration
import Ledger
import Postgres
import Vocabulary

/// How PostgreSQL is reached with a session of one's own, which LISTEN, migrations and building indexes need.
enum DirectConnection: Sendable {
    /// By `[database] url`, as everything else.
    case sameAsOthers
    /// By `[database] direct_url`.
    case by(ConnectionSettings)
    /// Not at all: `url` leads through a pooler that changes sessions, and no `direct_url` is given.
    case none

    /// - Parameters:
    ///   - database: with the `direct_url` to use.
    ///   - started: with what only a start takes over.
    init(
        _ database: Configuration.Database, as started: Configuration.Database
    ) throws(ConnectionStringError) {
        if let text = database.directURL?.text {
            self = .by(
                try DatabaseAccess.settings(
                    text, statementTimeout: started.statementTimeout, schema: started.schema))
        } else {
            self = started.pooling == .session ? .sameAsOthers : .none
        }
    }

    /// For a command that changes the schema.
    static func forCommand(_ configuration: Configuration) throws -> DirectConnection {
        let database = configuration.database
        if database.namesDirectURL, database.directURL == nil {
            throw OperatorError.unreadableSecret(of: "[database] direct_url")
        }
        return try DirectConnection(database, as: database)
    }

    /// - Parameter others: the settings by `[database] url`.
    func settings(_ others: ConnectionSettings) -> ConnectionSettings? {
        switch self {
        case .sameAsOthers: others
        case .by(let settings): settings
        case .none: nil
        }
    }

    /// What the journal says at each start, of a pooler that changes sessions; nil: there is none.
    func report(_ pooling: Configuration.Database.Pooling) -> String? {
        switch (pooling, self) {
        case (.session, _): nil
        case (.transaction, .none):
            """
            [database] pooling = "transaction" without direct_url: what other daemons and commands leave to do is found \
            by a poll every \(Limits.pollInterval.components.seconds) s, and posthouse migrate must be run where \
            direct_url names PostgreSQL itself
            """
        case (.transaction, _):
            """
            [database] pooling = "transaction": no session is relied on; direct_url is used for notifications and for \
            the schema
            """
        }
    }

    /// - Parameter problem: what speaks against the settings, as `LedgerMark.problem` has it for a reload.
    static func refusal(_ settings: ConnectionSettings, _ problem: String) -> String {
        let reason = problem == LedgerMark.otherLedger ? "it leads to another ledger than url" : problem
        return "[database] direct_url (\(settings)): \(reason)"
    }

    static let missing = """
        the schema is not that of this version, and [database] pooling = "transaction" leaves no session to change it in: \
        let [database] direct_url name PostgreSQL itself, without the pooler, and run posthouse migrate
        """
    static let needed = """
        [database] pooling = "transaction" leaves no session to change the schema in: let [database] direct_url name \
        PostgreSQL itself, without the pooler, and run this again
        """
    static let elsewhere = """
        [database] direct_url leads to another database, or another schema, than url: what was migrated there cannot be \
        seen by url
        """
    static let pooled = """
        [database] direct_url leads through a pooler that changes the server session between transactions; let it name \
        PostgreSQL itself, or a pooler with session pooling
        """
}
