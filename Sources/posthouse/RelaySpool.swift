import Configuration
import Inbound
import Ledger
import Linux
import Postgres
import Spool
import Vocabulary

/// The spool of a relay that has reached its database once.
struct RelaySpool: Sendable {
    let opening: SpoolOpening
    /// Decides which webhooks go there.
    let fallback: SpoolFallback
    /// Records what waits.
    let drain: SpoolDrain

    init(_ opening: SpoolOpening, beside pool: Pool) {
        self.opening = opening
        fallback = SpoolFallback(opening, isReachable: { pool.isReachable })
        drain = SpoolDrain(mayRecord: { pool.isReachable })
    }

    /// Records what waits as soon as the spool is open, until this is cancelled or the spool is closed.
    func runDrain(into ledger: LedgerMark, _ observe: Observer) async {
        guard let spool = await opening.opened() else { return }
        do {
            // One that was there at the start is the ledger's already.
            try SpoolLedger.claim(spool.directory, for: ledger)
        } catch {
            observe(.warning("what waits in the spool is not recorded: \(error)"))
            return await spool.keepLooking()
        }
        await drain.run(spool)
    }
}

extension SpoolOpening {
    /// Opens the spool where a source spools, or something waits from a time when one did, or may wait.
    /// - Returns: nil: none is needed. While it is away, webhooks are answered 503 if the database does not take them.
    static func open(_ configuration: Configuration, _ observe: @escaping Observer) async throws -> SpoolOpening? {
        let (directory, sources) = (configuration.spool.directory, configuration.sources.filter(\.spools))
        if sources.isEmpty, (try? SpoolFile.all(in: directory))?.isNothing == true { return nil }
        let bytesMax = configuration.spool.bytesMax
        @Sendable func attempt() async throws -> Spool {
            try await Spool.open(directory: directory, bytesMax: bytesMax, now: ThisProcess.now, observe: observe)
        }
        do {
            return SpoolOpening(try await attempt())
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
            observe(
                .warning(
                    "there is no spool, so that \(whose) may be lost; it is tried again every "
                        + "\(Limits.spoolAdoptionInterval.components.seconds) s: \(error)\(remedy)"))
            return SpoolOpening(away: "\(error)", open: attempt, observe: observe)
        }
    }

    private static func readOnly(_ directory: String) -> String {
        "; the unit may write to its state directory alone: ReadWritePaths=\(directory) below [Service] adds this one, once "
            + "it is there and the daemon's user's own (systemctl edit posthouse)"
    }
}
