import Configuration
import Inbound
import Linux
import Postgres
import Spool
import Vocabulary

/// The spool of a relay that has reached its database once.
struct RelaySpool: Sendable {
    let spool: Spool
    /// Decides which webhooks go there.
    let fallback: SpoolFallback
    /// Records what waits.
    let drain: SpoolDrain

    init(_ spool: Spool, beside pool: Pool) {
        self.spool = spool
        fallback = SpoolFallback(spool: spool) { pool.isReachable }
        drain = SpoolDrain(spool: spool, mayRecord: { pool.isReachable })
    }
}

extension Spool {
    /// Opens the spool where a source spools, or something waits from a time when one did, or may wait.
    /// - Returns: nil: there is none, and webhooks are answered 503 while the database does not take them.
    static func open(_ configuration: Configuration, _ observe: @escaping Observer) async throws -> Spool? {
        let (directory, sources) = (configuration.spool.directory, configuration.sources.filter(\.spools))
        if sources.isEmpty, (try? SpoolFile.all(in: directory))?.isNothing == true { return nil }
        do {
            return try await Self.open(
                directory: directory, bytesMax: configuration.spool.bytesMax, now: ThisProcess.now, observe: observe)
        } catch {
            let isReadOnly = (error as? DurableFile.Failure)?.isReadOnly == true
            let remedy = isReadOnly ? readOnly(directory) : ""
            if let source = sources.first(where: { $0.spooling == .required }) {
                throw Complaint(
                    "source \(source.name) has spool = true, and the spool cannot be opened: \(error); let [spool] directory "
                        + "name one that the daemon's user may write, on a disk that lasts\(remedy)")
            }
            let names = sources.map(\.name).joined(separator: ", ")
            let whose = names.isEmpty ? "what waits in it" : "webhooks of \(names) while the database is away"
            observe(.warning("there is no spool, so that \(whose) may be lost: \(error)\(remedy)"))
            return nil
        }
    }

    private static func readOnly(_ directory: String) -> String {
        "; the unit may write to its state directory alone: ReadWritePaths=\(directory) below [Service] adds this one, once "
            + "it is there and the daemon's user's own (systemctl edit posthouse)"
    }
}
