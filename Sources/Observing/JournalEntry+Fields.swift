internal import Vocabulary

extension JournalEntry {
    /// The POSTHOUSE_ fields: names and values are a contract, for scripts select by them.
    static func fields(for observation: Observation) -> [Field] {
        var list = FieldList()
        switch observation {
        case .eventRecorded(let trail, let duplicate):
            add(trail, to: &list)
            list.add("OUTCOME", (duplicate ? Outcome.duplicate : .accepted).rawValue)
        case .eventsRecorded(let source, let count, let duplicates):
            list.add("SOURCE", source)
            list.add("OUTCOME", Outcome.accepted.rawValue)
            list.add("COUNT", count)
            list.add("DUPLICATES", duplicates)
        case .duplicateDiffers(let trail):
            add(trail, to: &list)
            list.add("OUTCOME", Outcome.duplicate.rawValue)
        case .quarantined(let source, let quarantine, _):
            list.add("SOURCE", source)
            list.add("QUARANTINE", String(quarantine))
            list.add("OUTCOME", Outcome.quarantined.rawValue)
        case .refused(let source, let status, _):
            add(refusedBy: source, status: status, to: &list)
        case .unverified(let source, _):
            add(refusedBy: source, status: unverifiedStatus, to: &list)
        case .refusals(let source, let status, let count):
            add(refusedBy: source, status: status, to: &list)
            list.add("COUNT", count)
        case .storeLost(let source, let what, _), .storeRecovered(let source, let what):
            list.add("SOURCE", source)
            list.add("SERVER", what.rawValue)
        case .transferResolved(let trail), .transferVoided(let trail, _): add(trail, to: &list)
        case .attempt(let trail): add(trail, to: &list)
        case .successes(let integration, let count, let p50, let p99):
            list.add("INTEGRATION", integration)
            list.add("OUTCOME", Outcome.accepted.rawValue)
            list.add("COUNT", count)
            list.add("LATENCY_P50_MS", p50)
            list.add("LATENCY_P99_MS", p99)
        case .integrationPaused(let integration, _):
            list.add("INTEGRATION", integration)
            list.add("OUTCOME", Outcome.paused.rawValue)
        case .integrationResumed(let integration): list.add("INTEGRATION", integration)
        case .breakerOpened(let integration, _): list.add("INTEGRATION", integration)
        case .breakerClosed(let integration, let seconds):
            list.add("INTEGRATION", integration)
            list.add("OPEN_SECONDS", seconds)
        case .leasesReclaimed(let daemon, let count):
            list.add("DAEMON", String(daemon))
            list.add("COUNT", count)
        case .leaseLost(let daemon): list.add("DAEMON", String(daemon))
        case .journalDropped(let count), .acceptFailed(_, _, let count), .spoolEmptied(let count),
            .spoolAdopted(_, let count):
            list.add("COUNT", count)
        case .databaseLost, .databaseRecovered, .recordingRefused, .recordingRecovered, .spoolingBegan, .spoolRefused,
            .spoolDamaged, .clusterStarted, .clusterStopped, .migrated, .ready, .reloaded, .startFailed, .reloadRefused,
            .hangs, .stopping, .stopped,
            .warning:
            break
        }
        return list.fields
    }

    private static func add(_ trail: EventTrail, to list: inout FieldList) {
        list.add("SOURCE", trail.source)
        list.add("EVENT", trail.event)
        list.add("EVENT_NAME", trail.name)
        list.add("TRANSACTION", trail.transaction)
        list.add("PURCHASE", trail.purchase)
    }

    private static func add(_ trail: TransferTrail, to list: inout FieldList) {
        list.add("SOURCE", trail.source)
        list.add("EVENT", trail.event)
        list.add("TRANSACTION", trail.transaction)
        list.add("PURCHASE", trail.purchase)
        list.add("TRANSFER", trail.transfer)
    }

    private static func add(_ trail: AttemptTrail, to list: inout FieldList) {
        list.add("SOURCE", trail.message.source)
        list.add("EVENT", trail.message.eventID)
        list.add("EVENT_NAME", trail.message.type)
        list.add("TRANSACTION", trail.message.transaction)
        list.add("PURCHASE", trail.message.purchaseKey)
        list.add("TRANSFER", trail.message.transferID)
        list.add("MESSAGE", trail.message.id)
        list.add("INTEGRATION", trail.integration)
        list.add("DELIVERY", String(trail.delivery))
        list.add("ATTEMPT", trail.attempt)
        list.add("OUTCOME", trail.outcome.rawValue)
        list.add("HTTP_STATUS", trail.httpStatus)
        list.add("LATENCY_MS", trail.latencyMilliseconds)
        list.add("NEXT_ATTEMPT_AT", trail.nextAttemptAt.map(readable))
    }

    /// The answer to `Observation.unverified`.
    static let unverifiedStatus = 503

    private static func add(refusedBy source: String, status: Int, to list: inout FieldList) {
        list.add("SOURCE", source.isEmpty ? nil : source)
        list.add("OUTCOME", Outcome.refused.rawValue)
        list.add("HTTP_STATUS", status)
    }
}
