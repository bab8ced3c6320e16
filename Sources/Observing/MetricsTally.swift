internal import Vocabulary

/// The counters of one stripe, or the sum of all: a value without locks or clocks.
struct MetricsTally: Sendable, Equatable {
    /// Attempts of one integration.
    struct Attempts: Sendable, Equatable {
        var outcomes: [Outcome: Int] = [:]
        /// Milliseconds, from a nearby receiver to the largest `timeout` that can be configured.
        var durations = Histogram(
            bounds: [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000, 30_000, 120_000])
    }

    var events: [String: [Outcome: Int]] = [:]
    /// Refused requests by source, then HTTP status.
    var refusals: [String: [Int: Int]] = [:]
    /// Requests answered 503 that are not among `refusals` (`Observation.unverified`).
    var unverified: [String: Int] = [:]
    var quarantined: [String: Int] = [:]
    var transfers: [String: Int] = [:]
    var transfersVoided: [String: Int] = [:]
    var duplicatesDiffering: [String: Int] = [:]
    /// Times that a server of its store went out of reach.
    var storeLosses: [String: Int] = [:]
    var attempts: [String: Attempts] = [:]
    /// By integration.
    var breakersOpened: [String: Int] = [:]
    var leasesReclaimed = 0
    var leasesLost = 0
    var databaseLosses = 0

    mutating func count(_ observation: Observation) {
        switch observation {
        case .eventRecorded(let trail, let duplicate):
            let outcome: Outcome = duplicate ? .duplicate : .accepted
            events[Self.label(trail.source, in: events), default: [:]][outcome, default: 0] += 1
        case .duplicateDiffers(let trail):
            duplicatesDiffering[Self.label(trail.source, in: duplicatesDiffering), default: 0] += 1
        case .quarantined(let source, _, _):
            events[Self.label(source, in: events), default: [:]][.quarantined, default: 0] += 1
            quarantined[Self.label(source, in: quarantined), default: 0] += 1
        case .refused(let source, let status, _):
            events[Self.label(source, in: events), default: [:]][.refused, default: 0] += 1
            refusals[Self.label(source, in: refusals), default: [:]][status, default: 0] += 1
        case .unverified(let source, _):
            events[Self.label(source, in: events), default: [:]][.refused, default: 0] += 1
            unverified[Self.label(source, in: unverified), default: 0] += 1
        case .storeLost(let source, _, _): storeLosses[Self.label(source, in: storeLosses), default: 0] += 1
        case .transferResolved(let trail): transfers[Self.label(trail.source, in: transfers), default: 0] += 1
        case .transferVoided(let trail, _):
            transfersVoided[Self.label(trail.source, in: transfersVoided), default: 0] += 1
        case .attempt(let trail):
            attempts[Self.label(trail.integration, in: attempts), default: Attempts()].count(trail)
        case .breakerOpened(let integration, _):
            breakersOpened[Self.label(integration, in: breakersOpened), default: 0] += 1
        case .leasesReclaimed(_, let count): leasesReclaimed += count
        case .leaseLost: leasesLost += 1
        case .databaseLost: databaseLosses += 1
        // The parts of a sum were counted here before it was logged; the rest has a gauge or no number.
        case .eventsRecorded, .refusals, .acceptFailed, .successes, .integrationPaused, .integrationResumed,
            .breakerClosed, .recordingRefused, .recordingRecovered, .storeRecovered, .databaseRecovered,
            .spoolingBegan, .spoolEmptied, .spoolRefused, .spoolDamaged, .spoolAdopted, .clusterStarted,
            .clusterStopped, .migrated, .ready, .reloaded, .startFailed, .reloadRefused, .hangs,
            .stopping,
            .stopped, .warning, .journalDropped:
            break
        }
    }

    /// Statuses of refused requests that an alert uses.
    private static let alarmingStatuses = [401, 413, 503]

    /// Begins the series of these names with 0. To Prometheus a series that appears with its first count has not
    /// increased, so an alert would miss that first one.
    mutating func expect(sources: [String], integrations: [String]) {
        for source in sources {
            for outcome in [Outcome.accepted, .duplicate, .quarantined, .refused] {
                events[Self.label(source, in: events), default: [:]][outcome, default: 0] += 0
            }
            for status in Self.alarmingStatuses {
                refusals[Self.label(source, in: refusals), default: [:]][status, default: 0] += 0
            }
            quarantined[Self.label(source, in: quarantined), default: 0] += 0
            transfers[Self.label(source, in: transfers), default: 0] += 0
            transfersVoided[Self.label(source, in: transfersVoided), default: 0] += 0
            duplicatesDiffering[Self.label(source, in: duplicatesDiffering), default: 0] += 0
            storeLosses[Self.label(source, in: storeLosses), default: 0] += 0
        }
        for integration in integrations {
            for outcome in [Outcome.accepted, .retry, .dead] {
                attempts[Self.label(integration, in: attempts), default: Attempts()].outcomes[outcome, default: 0] += 0
            }
            breakersOpened[Self.label(integration, in: breakersOpened), default: 0] += 0
        }
    }

    mutating func add(_ other: MetricsTally) {
        events.merge(other.events) { $0.merging($1, uniquingKeysWith: +) }
        refusals.merge(other.refusals) { $0.merging($1, uniquingKeysWith: +) }
        unverified.merge(other.unverified, uniquingKeysWith: +)
        quarantined.merge(other.quarantined, uniquingKeysWith: +)
        transfers.merge(other.transfers, uniquingKeysWith: +)
        transfersVoided.merge(other.transfersVoided, uniquingKeysWith: +)
        duplicatesDiffering.merge(other.duplicatesDiffering, uniquingKeysWith: +)
        storeLosses.merge(other.storeLosses, uniquingKeysWith: +)
        attempts.merge(other.attempts) { left, right in
            var sum = left
            sum.outcomes.merge(right.outcomes, uniquingKeysWith: +)
            sum.durations.add(right.durations)
            return sum
        }
        breakersOpened.merge(other.breakersOpened, uniquingKeysWith: +)
        leasesReclaimed += other.leasesReclaimed
        leasesLost += other.leasesLost
        databaseLosses += other.databaseLosses
    }

    /// How sources were answered. A duplicate counts as stored: it is answered like one.
    var answers: [SourceAnswer: Int] {
        var answers: [SourceAnswer: Int] = [:]
        for (source, outcomes) in events {
            for (outcome, count) in outcomes where count > 0 {
                switch outcome {
                case .accepted, .duplicate: answers[SourceAnswer(source: source, kind: .stored), default: 0] += count
                case .quarantined: answers[SourceAnswer(source: source, kind: .quarantined)] = count
                case .refused, .retry, .dead, .paused: break
                }
            }
        }
        for (source, statuses) in refusals {
            for (status, count) in statuses where count > 0 {
                answers[SourceAnswer(source: source, kind: .refused(status))] = count
            }
        }
        for (source, count) in unverified {
            let kind = SourceAnswer.Kind.refused(JournalEntry.unverifiedStatus)
            answers[SourceAnswer(source: source, kind: kind), default: 0] += count
        }
        return answers
    }

    /// A name may come from outside (the path of a request), and memory must not grow with it.
    private static func label<Value>(_ name: String, in series: [String: Value]) -> String {
        series.count < ObservingLimits.labelValuesMax || series[name] != nil ? name : ObservingLimits.otherName
    }
}

extension MetricsTally.Attempts {
    fileprivate mutating func count(_ trail: AttemptTrail) {
        outcomes[trail.outcome, default: 0] += 1
        durations.add(trail.latencyMilliseconds)
    }
}
