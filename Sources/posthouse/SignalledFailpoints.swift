#if DEBUG
    import Glibc
    import NIOCore
    import NIOPosix
    import Postgres
    import Vocabulary

    /// Threads at a signal: SIGUSR2 brings an event loop or a database thread to its failpoint, so that a system test
    /// sees the watchdog bite.
    enum SignalledFailpoints {
        /// At each SIGUSR2, until cancelled. Where neither is armed the signal keeps its own meaning.
        static func run(_ relay: Relay) async {
            if let complaint = Failpoint.complaint { relay.observe(.warning(complaint)) }
            guard Failpoint.isArmed(.eventLoopSignalled, .databaseThreadSignalled) else { return }
            for await _ in Signals.stream([SIGUSR2]) {
                relay.group.next().execute { Failpoint.reach(.eventLoopSignalled) }
                // Not awaited: it may never end.
                Task { try await relay.pool.withSession { _ in Failpoint.reach(.databaseThreadSignalled) } }
            }
        }
    }
#endif
