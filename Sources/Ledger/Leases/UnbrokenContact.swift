import Vocabulary

/// Since when this daemon has renewed its lease without a gap, on its monotonic clock. A gap shorter than a lease
/// counts, too: another daemon may have missed more renewals in the same outage, and may still wait to reconnect. So
/// does a database clock that was set forward, or a failover to a server whose clock is ahead: until the others have
/// renewed, their leases seem to have run out.
struct UnbrokenContact {
    /// The time between two renewals beyond which contact was broken.
    static let gapMax: Duration = Limits.leaseRenewal + Limits.leaseRenewalLateness

    /// When the first renewal after the last gap was sent.
    private(set) var since: ContinuousClock.Instant
    /// When the last renewal that succeeded was sent.
    private var askedAt: ContinuousClock.Instant
    /// The database's time at that renewal.
    private var databaseTime: Timestamp

    init(asked: ContinuousClock.Instant, at time: Timestamp) {
        since = asked
        askedAt = asked
        databaseTime = time
    }

    /// A renewal succeeded, at `time` by the database's clock.
    mutating func renewed(asked: ContinuousClock.Instant, at time: Timestamp) {
        let expected = databaseTime.advanced(byMilliseconds: (asked - askedAt).wholeMilliseconds)
        let isAhead = time > expected.advanced(byMilliseconds: Limits.leaseRenewalLateness.wholeMilliseconds)
        if asked - askedAt > Self.gapMax || isAhead { since = asked }
        askedAt = asked
        databaseTime = time
    }

    /// Whether all daemons have had the time to reconnect and renew; false within a gap.
    func isLongEnough(at now: ContinuousClock.Instant) -> Bool {
        now - askedAt <= Self.gapMax && now - since >= Limits.leaseExpiryGrace
    }
}
