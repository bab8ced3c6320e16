import Vocabulary

/// Since when this daemon has renewed its lease without a gap, on its monotonic clock. A gap shorter than a lease
/// counts, too: another daemon may have missed more renewals in the same outage, and may still wait to reconnect.
struct UnbrokenContact {
    /// The time between two renewals beyond which contact was broken.
    static let gapMax: Duration = Limits.leaseRenewal + Limits.leaseRenewalLateness

    /// When the first renewal after the last gap was sent.
    private(set) var since: ContinuousClock.Instant
    /// When the last renewal that succeeded was sent.
    private var askedAt: ContinuousClock.Instant

    init(asked: ContinuousClock.Instant) {
        since = asked
        askedAt = asked
    }

    /// A renewal succeeded.
    mutating func renewed(asked: ContinuousClock.Instant) {
        if asked - askedAt > Self.gapMax { since = asked }
        askedAt = asked
    }

    /// Whether all daemons have had the time to reconnect; false within a gap.
    func isLongEnough(at now: ContinuousClock.Instant) -> Bool {
        now - askedAt <= Self.gapMax && now - since >= Limits.leaseExpiryGrace
    }
}
