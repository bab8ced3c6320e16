import CLibpq
import Glibc
import Linux

/// A NOTIFY on a channel that this session listens on.
package struct Notification: Hashable, Sendable {
    package let channel: String
    package let payload: String

    package init(channel: String, payload: String) {
        self.channel = channel
        self.payload = payload
    }
}

extension Session {
    /// Waits for notifications, up to `limit`; returns those that have already arrived at once. Empty after the limit
    /// or `Connection.interrupt()`: a notification is a hint, and the caller looks for itself then.
    package func waitForNotification(upTo limit: Duration) throws(DatabaseError) -> [Notification] {
        let deadline = wire.begin(limit)
        while true {
            let pointer = try wire.pointer()
            let arrived = takeNotifications(from: pointer)
            if !arrived.isEmpty { return arrived }
            if try wire.takeDecrypted() {
                let decrypted = takeNotifications(from: pointer)
                if !decrypted.isEmpty { return decrypted }
            }
            var entries = [
                pollfd(fd: PQsocket(pointer), events: Int16(POLLIN), revents: 0),
                pollfd(fd: wire.wakeUp.descriptor, events: Int16(POLLIN), revents: 0),
            ]
            guard poll(&entries, until: deadline) else { return [] }
            if entries[0].revents != 0, PQconsumeInput(pointer) != 1 { throw wire.lost() }
            if entries[1].revents != 0, wire.wakeUp.lower() { return takeNotifications(from: pointer) }
        }
    }

    private func takeNotifications(from pointer: OpaquePointer) -> [Notification] {
        var notifications: [Notification] = []
        while let notify = PQnotifies(pointer) {
            defer { PQfreemem(notify) }
            notifications.append(
                Notification(
                    channel: String(cString: notify.pointee.relname), payload: String(cString: notify.pointee.extra)))
        }
        return notifications
    }
}
