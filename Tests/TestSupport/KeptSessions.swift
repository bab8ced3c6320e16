import CLibpq
import Glibc
import Synchronization

/// Idle sessions that wait for the next statements of tests: the server needs more time to begin one than for most
/// questions.
enum KeptSessions {
    private struct Session {
        let connectionString: String
        /// The connection's, as a number: the next caller is on another thread, and no pointer may go there.
        let address: UInt

        func end() { PQfinish(OpaquePointer(bitPattern: address)) }
    }

    private static let countMax = 50
    private static let idle = Mutex<[Session]>([])

    /// A session that was kept and is still there; nil: none is.
    static func take(_ connectionString: String) -> OpaquePointer? {
        while let session = pop(connectionString) {
            let connection = OpaquePointer(bitPattern: session.address)
            // Nobody asked for anything: what can be read is that the server has ended it.
            var descriptor = pollfd(fd: PQsocket(connection), events: Int16(POLLIN), revents: 0)
            if poll(&descriptor, 1, 0) == 0 { return connection }
            session.end()
        }
        return nil
    }

    private static func pop(_ connectionString: String) -> Session? {
        idle.withLock { idle -> Session? in
            guard let index = idle.lastIndex(where: { $0.connectionString == connectionString }) else { return nil }
            return idle.remove(at: index)
        }
    }

    /// Keeps a session that is as new, and ends the one that has waited longest where there are too many.
    static func keep(_ connection: OpaquePointer, _ connectionString: String) {
        let session = Session(connectionString: connectionString, address: UInt(bitPattern: connection))
        let oldest = idle.withLock { idle -> Session? in
            idle.append(session)
            return idle.count > countMax ? idle.removeFirst() : nil
        }
        oldest?.end()
    }

    /// Ends all of them, or those of one connection string.
    static func end(of connectionString: String? = nil) {
        let ended = idle.withLock { idle -> [Session] in
            let ended = idle.filter { connectionString == nil || $0.connectionString == connectionString }
            idle.removeAll { connectionString == nil || $0.connectionString == connectionString }
            return ended
        }
        for session in ended { session.end() }
    }
}
