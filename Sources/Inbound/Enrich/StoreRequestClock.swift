package import Vocabulary

/// The clocks of those who ask a store's servers.
package struct StoreRequestClock: Sendable {
    /// Time since any moment, such as the daemon's start. Never goes back.
    let elapsed: @Sendable () -> Duration
    /// This machine's wall clock.
    let now: @Sendable () -> Timestamp
    /// Waits until `elapsed` has reached a time; ends early where the task is cancelled.
    let sleep: @Sendable (_ until: Duration) async -> Void

    package init(
        elapsed: @escaping @Sendable () -> Duration, now: @escaping @Sendable () -> Timestamp,
        sleep: @escaping @Sendable (_ until: Duration) async -> Void
    ) {
        self.elapsed = elapsed
        self.now = now
        self.sleep = sleep
    }

    /// This machine's.
    package static func system(now: @escaping @Sendable () -> Timestamp) -> StoreRequestClock {
        let start = ContinuousClock.now
        return StoreRequestClock(
            elapsed: { ContinuousClock.now - start }, now: now,
            sleep: { until in try? await Task.sleep(until: start + until, clock: .continuous) })
    }
}
