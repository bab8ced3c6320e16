#if DEBUG
    import Glibc
    import NIOCore
    import NIOPosix
    import Postgres
    import Vocabulary

    /// Brings an event loop or a database thread to its failpoint at SIGUSR2, so that a system test can make the
    /// watchdog act.
    enum SignalledFailpoints {
        /// Reaches the failpoints at each SIGUSR2, until cancelled. If neither is armed, the signal keeps its default
        /// action.
        static func run(_ relay: Relay) async {
            if let problem = Failpoint.problem { relay.observe(.warning(problem)) }
            guard Failpoint.isArmed(.eventLoopSignalled, .databaseThreadSignalled) else { return }
            for await _ in Signals.stream([SIGUSR2]) {
                relay.group.next().execute { Failpoint.reach(.eventLoopSignalled) }
                // Not awaited: it may never end.
                Task { try await relay.pool.withSession { _ in Failpoint.reach(.databaseThreadSignalled) } }
            }
        }
    }
#endif
