import CLibpq
import Glibc

/// A descriptor that a connection's thread polls beside its socket, and that any thread may raise.
final class WakeUp: Sendable {
    let descriptor: Int32

    init() throws(DatabaseError) {
        descriptor = posthouse_eventfd()
        guard descriptor >= 0 else {
            throw .connectFailed(reason: "no event descriptor for a connection: \(String(cString: strerror(errno)))")
        }
    }

    deinit { close(descriptor) }

    func raise() {
        var one: UInt64 = 1
        // Fails only when the counter is full, and then it is raised already.
        _ = write(descriptor, &one, MemoryLayout<UInt64>.size)
    }

    /// Clears it; returns whether it was raised.
    func lower() -> Bool {
        var count: UInt64 = 0
        return read(descriptor, &count, MemoryLayout<UInt64>.size) > 0
    }

    /// Blocks the calling thread until it is raised, and clears it.
    func wait() {
        repeat {
            var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            _ = Glibc.poll(&entry, 1, -1)
        } while !lower()
    }
}
