import Cluster
import Configuration
import Ledger
import Postgres
import Vocabulary

/// Checks before `serve` begins that it does not start a second ledger; commands on another database warn of one.
enum EmbeddedLedger {
    /// Refuses a private cluster whose ledger was moved: its state is out of date.
    static func refuseIfMoved(_ directory: String) throws {
        guard let mark = ClusterMove.read(in: directory) else { return }
        if mark.stage == .moving { throw unfinished(mark, directory) }
        throw OperatorError(
            """
            the private cluster in \(directory) was moved at \(mark.at) to \(mark.target): let [database] url name that \
            database; to begin anew with an empty ledger: \(removing(directory))
            """, code: Exit.configuration)
    }

    /// Refuses to make a private cluster while the state directory has one that was not moved, as after a change of
    /// `[embedded] directory`: it would be an empty ledger.
    static func refuseToBeginBeside(_ state: String, in directory: String) throws {
        guard !PrivateCluster.exists(in: directory), PrivateCluster.exists(in: state), state != directory,
            ClusterMove.read(in: state)?.stage != .moved, !EmptyCluster.isRecorded(in: state)
        else { return }
        throw OperatorError(
            """
            there is no private cluster in \(directory), which [embedded] directory names, but one in \(state): if the first is \
            on a disk of its own, mount it; if the second is another daemon's, give this unit a StateDirectory= of its own; \
            otherwise move it while posthouse.socket and posthouse are stopped (posthouse-operate(7), "Service"); to begin \
            with an empty ledger, and lose who has access to what, \(movingAway(state))
            """, code: Exit.configuration)
    }

    /// Refuses another database while the private cluster holds a ledger that was not moved. Otherwise a daemon would
    /// silently begin an empty ledger: access would be lost, and the two ledgers could not be joined any more.
    static func refuseUnlessMoved(_ directory: String, _ observe: @escaping Observer) async throws {
        if let mark = ClusterMove.read(in: directory) {
            if mark.stage == .moving { throw unfinished(mark, directory) }
            return
        }
        // Looked into once: whatever becomes of its PostgreSQL later, the database in use does not depend on it.
        guard PrivateCluster.exists(in: directory), !EmptyCluster.isRecorded(in: directory) else { return }
        let contents = try await contents(directory, observe)
        guard !contents.isEmpty else { return EmptyCluster.record(in: directory) }
        let (unsettled, quarantined) = (contents.unsettledDeliveries, contents.quarantined)
        throw OperatorError(
            """
            [database] url names another database, but the private cluster in \(directory) holds a ledger that was not \
            moved there (\(unsettled) unsettled \(unsettled == 1 ? "delivery" : "deliveries"), \(quarantined) in \
            quarantine): posthouse migrate --from-embedded moves all of it; to begin with an empty ledger instead, and \
            lose who has access to what, move the private cluster away: \(movingAway(directory))
            """, code: Exit.configuration)
    }

    /// Refuses a database without a ledger after the private cluster's was moved: a daemon that is led to another
    /// database than the move would silently begin an empty ledger there.
    ///
    /// A ledger that was moved on since, or restored from a dump, still has what it stores, or the record of the move.
    static func refuseUnlessLedger(_ moved: Moved, _ settings: ConnectionSettings) async throws {
        let connection = try await Connection.open(settings)
        let isLedger = try await connection.withSession { session throws(DatabaseError) in
            try LedgerContents.isLedger(on: session)
        }
        await connection.close()
        guard !isLedger else { return }
        let (mark, directory) = (moved.mark, moved.directory)
        throw OperatorError(
            """
            the private cluster in \(directory) was moved at \(mark.at) to \(mark.target), but [database] url \
            (\(settings)) leads to a database without a ledger: let it lead to where the ledger is, or restore a backup \
            there; to begin anew with an empty ledger: \(removing(directory))
            """, code: Exit.configuration)
    }

    /// The commands of a new beginning where a private cluster was moved, and where one is left behind.
    private static func removing(_ directory: String) -> String {
        "rm -rf \(directory)/cluster \(ClusterMove.path(in: directory))\(ServingFile.removal)"
    }

    private static func movingAway(_ directory: String) -> String {
        "mv \(directory)/cluster \(directory)/cluster.left\(ServingFile.removal)"
    }

    /// A private cluster whose ledger was moved.
    struct Moved: Sendable {
        let directory: String
        let mark: ClusterMove

        /// nil: it was not.
        init?(in directory: String) {
            guard let mark = ClusterMove.read(in: directory), mark.stage == .moved else { return nil }
            self.directory = directory
            self.mark = mark
        }
    }

    /// Warns, before a command works on another database, of a private cluster that may hold the ledger that is meant:
    /// here nothing would be found, which looks like success. Whether it is empty is looked into by `serve` alone,
    /// because its PostgreSQL must be started for that.
    static func warnUnlessMoved(_ configuration: Configuration) {
        let directory = configuration.embedded.directory
        guard !configuration.database.usesPrivateCluster, PrivateCluster.exists(in: directory),
            !EmptyCluster.isRecorded(in: directory), ClusterMove.read(in: directory)?.stage != .moved
        else { return }
        Terminal.printToStandardError(
            """
            posthouse: warning: [database] url names another database than the private cluster in \(directory), which \
            may hold a ledger that was not moved: nothing of it is seen here; posthouse migrate --from-embedded moves it
            """, .warning)
    }

    /// Starts the private cluster, reads what its ledger holds, and stops it.
    private static func contents(_ directory: String, _ observe: @escaping Observer) async throws -> LedgerContents {
        let cluster = try await PrivateCluster.start(directory: directory, observe: observe)
        do {
            let settings = try DatabaseAccess.settings(
                cluster.connectionString, statementTimeout: Limits.statementTimeout)
            let contents = try await DatabaseAccess.withPool(settings) { try await LedgerContents.read(from: $0) }
            await cluster.stop()
            return contents
        } catch {
            await cluster.stop()
            throw error
        }
    }

    private static func unfinished(_ mark: ClusterMove, _ directory: String) -> OperatorError {
        OperatorError(
            """
            the move of the private cluster in \(directory) to \(mark.target) was cut short at \(mark.at) as it was being \
            committed: with that database as [database] url run posthouse migrate --from-embedded again, it finds out and \
            goes on; if that database is gone, remove \(ClusterMove.path(in: directory))
            """, code: Exit.configuration)
    }
}
