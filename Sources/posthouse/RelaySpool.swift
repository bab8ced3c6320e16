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
    func runDrain() async {
        if let spool = await opening.opened() { await drain.run(spool) }
    }
}

extension SpoolOpening {
    /// Opens the spool where a source spools, or something waits from a time when one did, or may wait.
    static func open(_ configuration: Configuration, _ observe: @escaping Observer) async throws -> SpoolOpening {
        let (directory, bytesMax) = (configuration.spool.directory, configuration.spool.bytesMax)
        let opening = SpoolOpening(
            in: directory,
            open: {
                try await Spool.open(directory: directory, bytesMax: bytesMax, now: ThisProcess.now, observe: observe)
            }, observe: observe)
        let sources = configuration.sources.filter(\.spools)
        if sources.isEmpty, (try? SpoolFile.all(in: directory))?.isNothing == true { return opening }
        try await opening.need(by: sources, observe)
        return opening
    }

    /// Opens it, if it was unneeded so far. While it is away, webhooks are answered 503 if the database does not take
    /// them; refused where a source requires it.
    func need(by sources: [Source], _ observe: Observer) async throws {
        // Away already, it is tried again by itself.
        let isKnown = problem != nil
        var (failure, remedy) = (problem, "")
        do {
            try await open()
        } catch {
            failure = "\(error)"
            if (error as? DurableFile.Failure)?.isReadOnly == true { remedy = Self.readOnly(directory) }
        }
        guard let failure else { return }
        if let source = sources.first(where: { $0.spooling == .required }) {
            throw OperatorError(
                "source \(source.name) has spool = true, and the spool cannot be opened: \(failure); let [spool] directory "
                    + "name one that the daemon's user may write, on a disk that lasts\(remedy)")
        }
        if isKnown { return }
        let names = sources.map(\.name).joined(separator: ", ")
        let whose = names.isEmpty ? "what waits in it" : "webhooks of \(names) while the database is away"
        observe(
            .warning(
                "there is no spool, so that \(whose) may be lost; it is tried again every "
                    + "\(Limits.spoolAdoptionInterval.components.seconds) s: \(failure)\(remedy)"))
        tryAgain(after: failure)
    }

    private static func readOnly(_ directory: String) -> String {
        "; the unit may write to its state directory alone: ReadWritePaths=\(directory) below [Service] adds this one, once "
            + "it is there and the daemon's user's own (systemctl edit posthouse)"
    }
}
