import CLibpq
import Glibc
import Linux

extension Session {
    /// Waits for a notification on a channel that this session listens on, up to `limit`; returns at once if one has
    /// already arrived. It is a hint: the caller looks for itself.
    /// - Returns: false after the limit or `Connection.interrupt()`.
    package func waitForNotification(upTo limit: Duration) throws(DatabaseError) -> Bool {
        let deadline = wire.begin(limit)
        while true {
            let pointer = try wire.pointer()
            if takeNotifications(from: pointer) { return true }
            if try wire.takeDecrypted(), takeNotifications(from: pointer) { return true }
            var entries = [
                pollfd(fd: PQsocket(pointer), events: Int16(POLLIN), revents: 0),
                pollfd(fd: wire.wakeUp.descriptor, events: Int16(POLLIN), revents: 0),
            ]
            guard poll(&entries, until: deadline) else { return false }
            if entries[0].revents != 0, PQconsumeInput(pointer) != 1 { throw wire.lost() }
            if entries[1].revents != 0, wire.wakeUp.lower() { return takeNotifications(from: pointer) }
        }
    }

    /// Drops those that have arrived; whether there were any.
    private func takeNotifications(from pointer: OpaquePointer) -> Bool {
        var hasArrived = false
        while let notification = PQnotifies(pointer) {
            PQfreemem(notification)
            hasArrived = true
        }
        return hasArrived
    }
}
