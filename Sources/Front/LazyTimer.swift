import NIOCore

/// One timer for a deadline that moves all the time, mostly into the future: it may fire early (and is set again then)
/// but never late. So a busy connection sets a timer every few seconds and not several a request.
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
