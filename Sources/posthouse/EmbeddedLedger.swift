import Cluster
import Ledger
import Vocabulary

/// A ledger is in one place: what `serve` looks at before it begins in another.
enum EmbeddedLedger {
    /// To serve on the private cluster again after its ledger has moved would be to go back to an old state of it.
    static func refuseIfMoved(_ directory: String) throws {
        guard let mark = ClusterMove.read(in: directory) else { return }
        if mark.stage == .moving { throw unfinished(mark, directory) }
        throw Complaint(
            """
            the private cluster in \(directory) was moved at \(mark.at) to \(mark.target): let [database] url name that \
            database; to begin anew with an empty ledger remove \(directory)/cluster and \(ClusterMove.path(in: directory))
            """, code: Exit.configuration)
    }

    /// Whoever moves to a database of their own must not leave deliveries behind in the private cluster.
    static func refuseIfUnsettled(_ directory: String, _ observe: @escaping Observer) async throws {
        if let mark = ClusterMove.read(in: directory) {
            if mark.stage == .moving { throw unfinished(mark, directory) }
            return
        }
        guard PrivateCluster.exists(in: directory) else { return }
        let cluster = try await PrivateCluster.start(directory: directory, observe: observe)
        let settings = try DatabaseAccess.settings(cluster.connectionString, statementTimeout: Limits.statementTimeout)
        let waiting: Int64
        do {
            waiting = try await DatabaseAccess.withPool(settings) { try await QueueFigures.unsettled(in: $0) }
        } catch {
            await cluster.stop()
            throw error
        }
        await cluster.stop()
        guard waiting == 0 else {
            throw Complaint(
                """
                [database] url names another database, but the private cluster in \(directory) still holds \(waiting) \
                unsettled \(waiting == 1 ? "delivery" : "deliveries"): posthouse migrate --from-embedded moves them \
                there with all the rest; or take the url out and let them be delivered first, or remove \
                \(directory)/cluster if they are to be lost
                """, code: Exit.configuration)
        }
    }

    private static func unfinished(_ mark: ClusterMove, _ directory: String) -> Complaint {
        Complaint(
            """
            the move of the private cluster in \(directory) to \(mark.target) was cut short at \(mark.at) as it was being \
            committed: with that database as [database] url run posthouse migrate --from-embedded again, it finds out and \
            goes on; if that database is gone, remove \(ClusterMove.path(in: directory))
            """, code: Exit.configuration)
    }
}
