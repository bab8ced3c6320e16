internal import CLinux
internal import Glibc

/// Wakes one thread from others (eventfd(2)).
///
/// Its descriptor can be polled beside a socket. It is used instead of a condition variable because a descriptor is a
/// plain number, which Swift can prove sendable, and because poll(2) has a time-out on the monotonic clock.
package final class WakeUp: Sendable {
    package let descriptor: Int32

    package struct Failure: Error, CustomStringConvertible {
        package let errorNumber: Int32
        package var description: String { "cannot create an eventfd: " + String(cString: strerror(errorNumber)) }
    }

    package init() throws(Failure) {
        descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        if descriptor < 0 { throw Failure(errorNumber: errno) }
    }

    deinit { close(descriptor) }

    /// Any thread may raise it.
    package func raise() {
        var one: UInt64 = 1
        // EAGAIN means that the counter is full, so it is raised already.
        _ = write(descriptor, &one, 8)
    }

    /// Clears it; returns whether it was raised.
    package func lower() -> Bool {
        var count: UInt64 = 0
        return read(descriptor, &count, 8) == 8
    }

    /// Blocks the calling thread until it is raised, and clears it.
    package func wait() {
        repeat { _ = poll(upTo: -1) } while !lower()
    }

    /// Blocks the calling thread until it is raised, and clears it. False: it was not raised in time.
    package func wait(atMost limit: Duration) -> Bool {
        let deadline = ContinuousClock.now + limit
        while true {
            let left = (deadline - .now).pollMilliseconds
            let ready = poll(upTo: left)
            if ready > 0 { return lower() }
            if ready == 0 && left < Int32.max { return false }
            if ready < 0 && errno != EINTR { return false }
        }
    }

    /// As poll(2); -1: without limit.
    private func poll(upTo milliseconds: Int32) -> Int32 {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return Glibc.poll(&waiting, 1, milliseconds)
    }
}

extension Duration {
    /// Whole milliseconds for poll(2): rounded up, never negative, clamped to Int32.
    fileprivate var pollMilliseconds: Int32 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        guard seconds < 2_000_000 else { return .max }
        return Int32(seconds) * 1_000 + Int32((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}
