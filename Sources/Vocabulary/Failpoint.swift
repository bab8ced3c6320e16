#if DEBUG
    import Glibc
    import Synchronization

    /// A step of the way at which a debug build ends or hangs on demand, so that tests see what a crash there leaves
    /// behind. A release build has none of this, and no call of it: they stand in `#if DEBUG`, too (TidyTests).
    ///
    /// POSTHOUSE_FAILPOINT says which step, on which passage since the start of the process and what happens then:
    /// `STEP[:PASSAGE[:kill|hang]]`, as in `settle-before-commit:3:kill`. Left out: the first, kill.
    package enum Failpoint: String, CaseIterable, Sendable {
        /// A webhook's body is there, and nobody has looked at it.
        case webhookRead = "webhook-read"
        case recordBeforeCommit = "record-before-commit"
        /// Committed; no lane and no source knows of it yet.
        case recordAfterCommit = "record-after-commit"
        /// The answer was given to its connection; it may be on the wire or not.
        case webhookAnswered = "webhook-answered"
        /// Signed, not yet sent.
        case deliveryBeforeRequest = "delivery-before-request"
        /// The receiver's answer was read, or that there will be none; nothing was noted of it.
        case deliveryAfterAnswer = "delivery-after-answer"
        case settleBeforeCommit = "settle-before-commit"
        /// Settled; what waited behind is still blocked.
        case settleAfterCommit = "settle-after-commit"
        case claimBeforeCommit = "claim-before-commit"
        /// Leased to this daemon, and no lane of it knows.
        case claimAfterCommit = "claim-after-commit"
        /// The lease is renewed; the dead are not buried yet.
        case leaseRenewal = "lease-renewal"
        /// New messages go by the new configuration; the lanes are still those of the old one.
        case reloadAdopting = "reload-adopting"
        /// `migrate --from-embedded`: the cluster is marked as being moved.
        case moveBeforeCommit = "move-before-commit"
        /// The same: the ledger is in the new database, and the mark does not say so yet.
        case moveAfterCommit = "move-after-commit"
        /// SIGUSR2, on an event loop.
        case eventLoopSignalled = "event-loop-signalled"
        /// SIGUSR2, on a database thread.
        case databaseThreadSignalled = "database-thread-signalled"

        private enum Action: String, CaseIterable {
            /// By SIGKILL: nothing of the process runs after it.
            case kill
            /// The thread never comes back.
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

        /// What is wrong with the variable, for whoever set it; nil: nothing.
        package static var complaint: String? {
            guard let setting, armed == nil else { return nil }
            let steps = allCases.map(\.rawValue).joined(separator: ", ")
            return "\(variable)=\(setting) is not STEP[:PASSAGE[:kill|hang]]; the steps are \(steps)"
        }

        package static func isArmed(_ steps: Failpoint...) -> Bool { armed.map { steps.contains($0.step) } ?? false }

        /// Does what the variable says where it names this step and this passage of it.
        package static func reach(_ step: Failpoint) {
            guard let armed, armed.step == step,
                passages.wrappingAdd(1, ordering: .relaxed).newValue == armed.passage
            else { return }
            if armed.action == .kill { kill(getpid(), SIGKILL) }
            while true { sleep(.max) }
        }

        private static func parse(_ text: String) -> Armed? {
            let parts = text.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
            guard (1...3).contains(parts.count), let step = Failpoint(rawValue: parts[0]) else { return nil }
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
    }
#endif
