internal import CSystemd
internal import Glibc

/// Wakes one thread from another, with a limit on the wait (eventfd(2)).
///
/// Poll is used instead of a condition variable because its descriptor is a plain number, which Swift can prove
/// sendable, and because its waits have a time-out on the monotonic clock.
final class EventDescriptor: Sendable {
    private let descriptor: Int32

    struct Failure: Error, CustomStringConvertible {
        let errorNumber: Int32
        var description: String { "cannot create an eventfd: " + String(cString: strerror(errorNumber)) }
    }

    init() throws(Failure) {
        descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        if descriptor < 0 { throw Failure(errorNumber: errno) }
    }

    deinit { close(descriptor) }

    func signal() {
        var one: UInt64 = 1
        // EAGAIN means that the counter is full, so a wake-up is pending anyway.
        _ = write(descriptor, &one, 8)
    }

    /// Waits for a signal and clears it. False: none came in time.
    func wait(atMost limit: Duration) -> Bool {
        let deadline = ContinuousClock.now + limit
        while true {
            let left = deadline - .now
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let ready = poll(&waiting, 1, left.wholeMilliseconds)
            if ready > 0 {
                var count: UInt64 = 0
                return read(descriptor, &count, 8) == 8
            }
            if ready == 0 && left.wholeMilliseconds < Int32.max { return false }
            if ready < 0 && errno != EINTR { return false }
        }
    }
}

extension Duration {
    /// Whole milliseconds for poll(2): rounded up, never negative, clamped to Int32.
    fileprivate var wholeMilliseconds: Int32 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        guard seconds < 2_000_000 else { return .max }
        return Int32(seconds) * 1_000 + Int32((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}
