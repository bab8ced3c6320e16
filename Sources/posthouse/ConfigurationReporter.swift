import Ledger
import Postgres
import Vocabulary

/// Keeps what this daemon's row says of its configuration, by which `doctor` compares the daemons of a ledger. It looks
/// every few seconds, because a reload, a new lease, and a promotion that loses commits leave an old one there, or
/// none. Nothing waits for it: what fails is made up for by the next look.
struct ConfigurationReporter: Sendable {
    let pool: Pool
    let registration: Registration
    let live: LiveConfiguration

    /// Until it is cancelled.
    func run() async {
        repeat {
            // The pool reports a database that is out of reach.
            try? await DaemonConfiguration.write(live.digests, by: registration, in: pool)
        } while (try? await Task.sleep(for: Limits.sourceReportInterval)) != nil
    }
}
