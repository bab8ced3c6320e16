#if DEBUG
    import Glibc
    import NIOCore
    import NIOPosix
    import Postgres
    import Vocabulary

    /// A debug build hangs on demand, so that a system test sees the watchdog bite: POSTHOUSE_FAILPOINT says what is to
    /// hang, SIGUSR2 says when. A release build has none of this.
    enum Failpoint: String, CaseIterable {
        case eventLoop = "hang-event-loop"
        case databaseThread = "hang-database-thread"

        /// Hangs at each SIGUSR2, until cancelled. Without the variable the signal keeps its own meaning.
        static func run(_ relay: Relay) async {
            guard let name = getenv("POSTHOUSE_FAILPOINT").map({ String(cString: $0) }) else { return }
            guard let failpoint = Failpoint(rawValue: name) else {
                let known = allCases.map(\.rawValue).joined(separator: ", ")
                return relay.observe(.warning("POSTHOUSE_FAILPOINT=\(name) is not known; there are: \(known)"))
            }
            for await _ in Signals.stream([SIGUSR2]) { failpoint.hit(relay) }
        }

        private func hit(_ relay: Relay) {
            switch self {
            case .eventLoop: relay.group.next().execute { Self.hang() }
            // Not awaited: it never ends.
            case .databaseThread: Task { try await relay.pool.withSession { _ in Self.hang() } }
            }
        }

        private static func hang() {
            while true { sleep(.max) }
        }
    }
#endif
