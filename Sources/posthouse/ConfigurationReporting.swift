import Ledger
import Postgres
import Vocabulary

/// Keeps what this daemon's row says of its configuration, by which `doctor` compares the daemons of a ledger: from the
/// start on, after each reload, under each new lease, and every minute, because a promotion that loses commits may
/// leave an older one in the row. Nothing waits for it: what fails is tried again.
actor ConfigurationReporting {
    private let pool: Pool
    private let registration: Registration
    private let live: LiveConfiguration
    private var isWriting = false
    /// What the row has, the lease that it is of, and a time before it was written; nil: nothing is written yet.
    private var written: (digests: [String: String], lease: Int64, at: ContinuousClock.Instant)?

    init(pool: Pool, registration: Registration, live: LiveConfiguration) {
        self.pool = pool
        self.registration = registration
        self.live = live
    }

    /// Until it is cancelled. A row that is as it should be is not written anew.
    func run() async {
        repeat { await write() } while (try? await Task.sleep(for: Limits.sourceReportInterval)) != nil
    }

    /// Writes it, unless it was written within the last minute. Where a write is under way already, that one looks
    /// again before it ends: two side by side could leave the older configuration in the row.
    func write() async {
        guard !isWriting else { return }
        isWriting = true
        defer { isWriting = false }
        while let current = registration.id {
            let (digests, now) = (live.digests, ContinuousClock.now)
            if let written, written.digests == digests, written.lease == current,
                now - written.at < Limits.configurationReportInterval
            {
                return
            }
            do {
                let lease = try await DaemonConfiguration.write(digests, by: registration, in: pool)
                guard let lease else { return }
                written = (digests, lease, now)
            } catch {
                // The pool reports a database that is out of reach.
                return
            }
        }
    }
}
