internal import Vocabulary

/// Decides which observations get an entry of their own. The journal takes about 17,000 entries a second and three
/// quarters of a core for it, so in a busy second successes become one entry for each integration and source.
///
///     detailed ──more than the limit in this second──▶ summing (the rest of this second, and the next)
///     summing  ──a whole second under the limit──────▶ detailed
///
/// A second that begins in `summing` is summed from its first success on. Failures, transfers, dead letters and
/// quarantine always are entries. Refused requests have a small budget of their own and the same kind of sum; the first
/// of each source and status has an entry even when others have used that up, so that no flood hides a reason. Recorded
/// events and accepted attempts have separate budgets, or a fan-out of three would halve what the operator set. It has
/// no clock: the time is passed in, and any change of its second, backwards too, ends the second before.
struct DetailLimiter: Sendable {
    /// One kind of success: how many this second had, and whether they are being summed.
    private struct Budget: Sendable {
        var perSecond: Int
        var used = 0
        var isSumming = false

        /// Whether this one gets its own entry.
        mutating func admit() -> Bool {
            used += 1
            if used > perSecond { isSumming = true }
            return !isSumming
        }

        mutating func endSecond(sumsAgain: Bool) {
            isSumming = sumsAgain && used > perSecond
            used = 0
        }
    }

    private struct EventSum: Sendable {
        var count = 0
        var duplicates = 0
    }

    private struct Refusal: Hashable, Sendable {
        var source: String
        var status: Int
        /// Its reason differs from that of others with this status. Their sum is the same.
        var isUnverified = false
    }

    private var attempts: Budget
    private var events: Budget
    private var refusals = Budget(perSecond: ObservingLimits.refusalEntriesPerSecond)
    /// Kinds of which this second has an entry.
    private var refusalsSeen: Set<Refusal> = []
    /// Of requests that name no source: strangers send them, and must not use up the entries of others.
    private var strangers = Budget(perSecond: ObservingLimits.strangerEntriesPerSecond)
    private var second: Int64 = .min
    private var attemptSums: [String: LatencyDistribution] = [:]
    private var eventSums: [String: EventSum] = [:]
    private var refusalSums: [Refusal: Int] = [:]

    /// `detailPerSecond`: `[journal] detail_limit`.
    init(detailPerSecond: Int) {
        attempts = Budget(perSecond: detailPerSecond)
        events = Budget(perSecond: detailPerSecond)
    }

    mutating func setDetail(perSecond: Int) {
        attempts.perSecond = perSecond
        events.perSecond = perSecond
    }

    /// True: write it as its own entry. False: it went into a sum, which `endSecond(at:)` will return. Call
    /// `endSecond(at:)` with the same time first.
    mutating func admit(_ observation: Observation) -> Bool {
        switch observation {
        case .attempt(let trail) where trail.outcome == .accepted:
            if attempts.admit() { return true }
            attemptSums[bounded(trail.integration, in: attemptSums), default: .init()]
                .add(milliseconds: trail.latencyMilliseconds)
            return false
        case .eventRecorded(let trail, let duplicate):
            if events.admit() { return true }
            let source = bounded(trail.source, in: eventSums)
            eventSums[source, default: .init()].count += 1
            if duplicate { eventSums[source]?.duplicates += 1 }
            return false
        case .refused(let source, let status, _): return admit(Refusal(source: source, status: status))
        case .unverified(let source, _):
            return admit(Refusal(source: source, status: JournalEntry.unverifiedStatus, isUnverified: true))
        default:
            return true
        }
    }

    private mutating func admit(_ refusal: Refusal) -> Bool {
        if refusal.source.isEmpty {
            if strangers.admit() { return true }
        } else {
            let isFirst =
                refusalsSeen.count < ObservingLimits.refusalEntriesPerSecond && refusalsSeen.insert(refusal).inserted
            if refusals.admit() || isFirst { return true }
        }
        let known = refusalSums.count < ObservingLimits.sumsPerSecondMax
        let key = Refusal(source: refusal.source, status: refusal.status)
        refusalSums[
            known || refusalSums[key] != nil ? key : Refusal(source: ObservingLimits.otherName, status: refusal.status),
            default: 0] += 1
        return false
    }

    /// The sums of the second before, in the order of their names, if `time` is in another second.
    mutating func endSecond(at time: Timestamp) -> [Observation] {
        let current = (time.milliseconds / 1_000)
        guard current != second else { return [] }
        second = current
        attempts.endSecond(sumsAgain: true)
        events.endSecond(sumsAgain: true)
        // The first refusals of a second say where they come from, so each second begins with details again.
        refusals.endSecond(sumsAgain: false)
        strangers.endSecond(sumsAgain: false)
        refusalsSeen.removeAll(keepingCapacity: true)
        return takeSums()
    }

    /// All sums so far, at the end of the process.
    mutating func takeSums() -> [Observation] {
        if attemptSums.isEmpty && eventSums.isEmpty && refusalSums.isEmpty { return [] }
        defer {
            attemptSums = [:]
            eventSums = [:]
            refusalSums = [:]
        }
        var sums = eventSums.sorted { $0.key < $1.key }.map { source, sum in
            Observation.eventsRecorded(source: source, count: sum.count, duplicates: sum.duplicates)
        }
        sums += refusalSums.sorted { ($0.key.source, $0.key.status) < ($1.key.source, $1.key.status) }
            .map { .refusals(source: $0.source, status: $0.status, count: $1) }
        sums += attemptSums.sorted { $0.key < $1.key }.map { integration, latencies in
            .successes(
                integration: integration, count: latencies.total, p50Milliseconds: latencies.percentile(0.5),
                p99Milliseconds: latencies.percentile(0.99))
        }
        return sums
    }

    private func bounded<Sum>(_ name: String, in sums: [String: Sum]) -> String {
        sums.count < ObservingLimits.sumsPerSecondMax || sums[name] != nil ? name : ObservingLimits.otherName
    }
}
