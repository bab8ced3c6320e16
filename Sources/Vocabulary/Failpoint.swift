#if DEBUG
    import Glibc
    import Synchronization
#endif

/// A step at which a debug build ends or hangs on demand, so that tests see what a crash there leaves in the database.
/// In a release build `reach` is empty, and the program contains neither the variable nor the texts that it takes.
///
/// POSTHOUSE_FAILPOINT names the step, the passage through it since the start of the process, and the action:
/// `STEP[:PASSAGE[:kill|hang]]`, as in `settle-before-commit:3:kill`. Defaults: first passage, kill. A step is written
/// as its case, in lower case with hyphens.
package enum Failpoint: Sendable {
    /// A webhook's body was read and is not processed yet.
    case webhookRead
    case recordBeforeCommit
    /// Committed; no lane and no source has been notified.
    case recordAfterCommit
    /// The answer was passed to its connection; it may or may not be on the wire.
    case webhookAnswered
    /// Signed, not yet sent.
    case deliveryBeforeRequest
    /// The receiver's answer was read, or it is known that none will come; nothing was recorded.
    case deliveryAfterAnswer
    case settleBeforeCommit
    /// Settled; deliveries blocked by it are still blocked.
    case settleAfterCommit
    case claimBeforeCommit
    /// Leased to this daemon; none of its lanes has it yet.
    case claimAfterCommit
    /// The lease is renewed; dead daemons are not expired yet.
    case leaseRenewal
    /// New messages follow the new configuration; the lanes are still those of the old one.
    case reloadAdopting
    /// `migrate --from-embedded`: the cluster is marked as being moved.
    case moveBeforeCommit
    /// `migrate --from-embedded`: the ledger is in the new database, but the mark does not say so yet.
    case moveAfterCommit
    /// SIGUSR2, on an event loop.
    case eventLoopSignalled
    /// SIGUSR2, on a database thread.
    case databaseThreadSignalled
}

#if DEBUG
    extension Failpoint: CaseIterable {
        private enum Action: String, CaseIterable {
            /// By SIGKILL: nothing of the process runs after it.
            case kill
            /// The thread never returns.
            case hang
        }

        private struct Armed {
            let step: Failpoint
            var passage = 1
            var action = Action.kill
        }

        private static let variable = "POSTHOUSE_FAILPOINT"
        private static let setting = getenv(variable).map { String(cString: $0) }
        private static let armed = setting.flatMap(parse)
        private static let passages = Atomic(0)

        /// Why the variable is invalid, for the person who set it; nil if it is valid or not set.
        package static var problem: String? {
            guard let setting, armed == nil else { return nil }
            let steps = allCases.map(\.name).joined(separator: ", ")
            return "\(variable)=\(setting) is not STEP[:PASSAGE[:kill|hang]]; the steps are \(steps)"
        }

        package static func isArmed(_ steps: Failpoint...) -> Bool { armed.map { steps.contains($0.step) } ?? false }

        /// Performs the configured action if the variable names this step and this is the configured passage.
        package static func reach(_ step: Failpoint) {
            guard let armed, armed.step == step,
                passages.wrappingAdd(1, ordering: .relaxed).newValue == armed.passage
            else { return }
            if armed.action == .kill { kill(getpid(), SIGKILL) }
            while true { sleep(.max) }
        }

        /// Milliseconds between two runs of upkeep, from POSTHOUSE_UPKEEP_MS, so that a test sees what a daemon does in
        /// days; nil: as in a release.
        package static let upkeepInterval: Duration? = getenv("POSTHOUSE_UPKEEP_MS")
            .flatMap { Int(String(cString: $0)) }.map { .milliseconds($0) }

        private static func parse(_ text: String) -> Armed? {
            let parts = text.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
            guard (1...3).contains(parts.count), let step = allCases.first(where: { $0.name == parts[0] })
            else { return nil }
            var armed = Armed(step: step)
            if parts.count > 1 {
                guard let passage = Int(parts[1]), passage > 0 else { return nil }
                armed.passage = passage
            }
            if parts.count > 2 {
                guard let action = Action(rawValue: parts[2]) else { return nil }
                armed.action = action
            }
            return armed
        }

        private var name: String {
            "\(self)".map { $0.isUppercase ? "-\($0.lowercased())" : String($0) }.joined()
        }
    }
#else
    extension Failpoint {
        @inlinable @inline(__always)
        package static var upkeepInterval: Duration? { nil }

        @inlinable @inline(__always)
        package static func isArmed(_ steps: Failpoint...) -> Bool { false }

        @inlinable @inline(__always)
        package static func reach(_ step: Failpoint) {}
    }
#endif
