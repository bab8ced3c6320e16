import Configuration
import Ledger
import Postgres
import Vocabulary

/// Runs the commands that read the ledger or change it.
enum LedgerCommand {
    /// Runs `body` with the configuration and a pool. Errors of the database are printed with what to do about them.
    /// - Parameter requiresDurability: whether a server that may forget what it commits is refused, as the daemon
    ///   refuses it: for a command that removes from another place what it has stored.
    static func run(
        _ file: ConfigurationOption, requiresDurability: Bool = false,
        _ body: (Configuration, Pool) async throws -> Void
    ) async throws {
        let configuration = try file.load()
        try await Terminal.reporting {
            EmbeddedLedger.warnUnlessMoved(configuration)
            let settings = try DatabaseAccess.forCommand(configuration)
            let durability = requiresDurability ? configuration.database.durability : nil
            try await reaching(configuration, file) {
                try await DatabaseAccess.withPool(settings, requiring: durability) { pool in
                    try await SharedLocks.require(in: pool)
                    try await body(configuration, pool)
                }
            }
        }
    }

    /// Runs `body` and adds to errors of the database what to do about them.
    static func reaching<Value>(
        _ configuration: Configuration, _ file: ConfigurationOption, _ body: () async throws -> Value
    ) async throws -> Value {
        do {
            return try await body()
        } catch let error as DatabaseError where error.isConnectionLevel {
            throw DatabaseAccess.unreachable(error, configuration, file.path)
        } catch DatabaseError.refused(let refusal) where ["42P01", "42703"].contains(refusal.sqlState.code) {
            throw OperatorError("the database has no schema, or an older one: run posthouse migrate first")
        }
    }

    /// Refuses a source that neither the configuration nor the database knows: nothing is stored under a misspelt name,
    /// which would look like success. A source that left the configuration is one that the database knows.
    static func requireSource(_ name: String?, _ configuration: Configuration, in pool: Pool) async throws {
        guard let name else { return }
        let stored = try await SourceNames.all(in: pool)
        let known = Set(configuration.sources.map(\.name) + stored)
        guard !known.contains(where: { $0.utf8.elementsEqual(name.utf8) }) else { return }
        throw unknown("source", name, known: known)
    }

    static func unknownIntegration(_ name: String, known: some Sequence<String>) -> OperatorError {
        unknown("integration", name, known: known)
    }

    private static func unknown(_ kind: String, _ name: String, known: some Sequence<String>) -> OperatorError {
        let names = known.sorted()
        guard !names.isEmpty else {
            return OperatorError("there is no \(kind) \(name): the database and the configuration know none")
        }
        let meant = NearMiss.find(name, among: names).map { " (did you mean \($0)?)" } ?? ""
        return OperatorError("there is no \(kind) \(name)\(meant); known are: \(names.joined(separator: ", "))")
    }
}
