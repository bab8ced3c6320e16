import Ledger
import Postgres
import Vocabulary

/// Keeps what this daemon's row says of its configuration, by which `doctor` compares the daemons of a ledger: from the
/// start on, after each reload, and under each new lease. Nothing waits for it: what fails is tried again.
actor ConfigurationReporting {
    private let pool: Pool
    private let registration: Registration
    private let live: LiveConfiguration
    private var isWriting = false
    /// What the row has, and the lease that it is of; nil: nothing is written yet.
    private var written: [String: String]?
    private var lease: Int64?

    init(pool: Pool, registration: Registration, live: LiveConfiguration) {
        self.pool = pool
        self.registration = registration
        self.live = live
    }

    /// Until it is cancelled. A daemon at rest writes nothing.
    func run() async {
        repeat { await write() } while (try? await Task.sleep(for: Limits.sourceReportInterval)) != nil
    }

    /// Writes it, unless the row has it. Where a write is under way already, that one looks again before it ends: two
    /// side by side could leave the older configuration in the row.
    func write() async {
        guard !isWriting else { return }
        isWriting = true
        defer { isWriting = false }
        while let current = registration.id {
            let digests = live.digests
            if digests == written, current == lease { return }
            do {
                guard try await DaemonConfiguration.write(digests, by: current, in: pool) else { return }
            } catch {
                // The pool reports a database that is out of reach.
                return
            }
            (written, lease) = (digests, current)
        }
    }
}
