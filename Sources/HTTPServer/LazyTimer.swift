import NIOCore

/// One timer for a deadline that moves often, mostly to a later time. It may fire early, and is then set again, but
/// never late. So a busy connection sets a timer every few seconds and not several per request.
struct LazyTimer {
    private var scheduled: Scheduled<Void>?
    private var at = NIODeadline.distantFuture

    /// `fire` runs on `loop`, which is the caller's own, and must call `fired` first.
    mutating func set(noLaterThan deadline: NIODeadline, on loop: any EventLoop, fire: @escaping () -> Void) {
        guard deadline < at else { return }
        scheduled?.cancel()
        at = deadline
        scheduled = loop.assumeIsolated().scheduleTask(deadline: deadline, fire)
    }

    mutating func fired() {
        scheduled = nil
        at = .distantFuture
    }

    mutating func cancel() {
        scheduled?.cancel()
        fired()
    }
}
