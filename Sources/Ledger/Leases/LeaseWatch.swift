import Vocabulary

/// What this daemon has seen of the leases of others, on its monotonic clock.
///
/// A lease has run out by the database's time, but that clock may be set: then the leases of the living seem to have
/// run out until they renew. So a lease may be ended only if its end was the same for longer than a living daemon takes
/// to renew. A dead daemon's lease was the same all the while that it ran out, which costs no time. One that stays the
/// same for longer than a lease lasts is a dead daemon's, also where the clock was set back and says otherwise.
struct LeaseWatch {
    /// Longer than a living daemon takes to renew.
    static let unchangedMin: Duration = UnbrokenContact.gapMax

    private static let deadAfter = Limits.leaseDuration + unchangedMin

    /// By daemon: the end of its lease, and when it was first seen.
    private var seen: [Int64: (end: Int64, at: ContinuousClock.Instant)] = [:]
    /// Whether the lease of one that was seen before is gone. Whoever ended it may be gone as well, before it had
    /// looked for what was leased under it.
    private(set) var hasLostOne = false

    /// Takes what the table has now.
    /// - Returns: those that have run out, by either clock, and have not been renewed while this daemon looked.
    mutating func look(_ leases: [OtherLease], at now: ContinuousClock.Instant) -> [OtherLease] {
        let before = seen
        seen = [:]
        for lease in leases {
            let known = before[lease.daemon]
            seen[lease.daemon] = known?.end == lease.end ? known : (lease.end, now)
        }
        hasLostOne = before.keys.contains { seen[$0] == nil }
        return leases.filter { lease in
            guard let known = seen[lease.daemon] else { return false }
            return now - known.at >= (lease.hasRunOut ? Self.unchangedMin : Self.deadAfter)
        }
    }
}

/// Another daemon's lease, as the table has it.
struct OtherLease: Equatable {
    let daemon: Int64
    /// Microseconds since 1970, by the database's clock.
    let end: Int64
    /// By the database's clock.
    let hasRunOut: Bool
}
