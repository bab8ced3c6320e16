package import Vocabulary

extension JournalEntry {
    package init(_ observation: Observation) {
        kind = JournalEntryKind(observation)
        priority = Self.priority(of: kind)
        message = PlainText.harmless(Self.message(for: observation))
        fields = Self.fields(for: observation)
    }

    /// Info is normal operation; notice is a change worth seeing; warning heals by itself or can wait; error needs a
    /// person, or says that this daemon could not do its work for a time.
    private static func priority(of kind: JournalEntryKind) -> Priority {
        switch kind {
        case .eventRecorded, .eventDuplicate, .eventsRecorded, .transferResolved, .deliveryAccepted,
            .deliveriesAccepted:
            .info
        case .integrationResumed, .breakerClosed, .databaseRecovered, .recordingRecovered, .storeRecovered,
            .spoolEmptied, .spoolAdopted,
            .clusterStarted, .clusterStopped, .migrated, .ready, .reloaded, .stopping, .stopped:
            .notice
        case .duplicateDiffers, .quarantined, .requestRefused, .requestUnverified, .requestsRefused, .transferVoided,
            .deliveryRetry, .deliveryPaused, .integrationPaused, .breakerOpened, .leasesReclaimed, .spoolingBegan,
            .warning, .journalDropped:
            .warning
        case .acceptFailed, .deliveryDead, .leaseLost, .databaseLost, .recordingRefused, .spoolRefused, .spoolDamaged,
            .storeLost, .startFailed,
            .reloadRefused, .hangs:
            .error
        }
    }

    private static func message(for observation: Observation) -> String {
        switch observation {
        case .eventRecorded(let trail, let duplicate): recorded(trail, duplicate: duplicate)
        case .eventsRecorded(let source, let count, let duplicates):
            "recorded \(counted(count - duplicates, "event")) and \(counted(duplicates, "duplicate")) from \(source)"
                + " within a second, too many for an entry each"
        case .duplicateDiffers(let trail):
            "\(trail.name) \(trail.event) from \(trail.source) arrived again with other bytes; the first is kept"
        case .quarantined(let source, let id, let reason): "quarantined body \(id) from \(source): \(reason)"
        case .refused(let source, let status, let reason):
            "refused a request to \(named(source: source)) with \(status): \(reason)"
        case .unverified(let source, let reason):
            "refused a request to \(source) with \(unverifiedStatus), not verified: \(reason)"
        case .refusals(let source, let status, let count):
            "refused \(counted(count, "more request")) to \(named(source: source)) with \(status) within a second"
        case .acceptFailed(let listen, let isMachine, let count):
            "too few file descriptors are left, \(counted(count, "time")) nothing could be accepted on \(listen): clients wait; "
                + (isMachine ? "raise the machine's fs.file-max" : "raise LimitNOFILE= of the unit")
        case .transferResolved(let trail): moved(trail) + ending(trail.transaction)
        case .transferVoided(let trail, let explanation):
            "\(moved(trail)) was announced and stays so, but the ledger now says otherwise: \(explanation)"
        case .storeLost(let source, .keys, let reason):
            "the keys of \(source) cannot be fetched: \(reason); those that are known stay in use, and while none is "
                + "its webhooks are answered 503"
        case .storeLost(let source, .api, let reason):
            "the API of \(source) is out of reach, its webhooks are answered 503: \(reason)"
        case .storeRecovered(let source, .keys): "the keys of \(source) are there again"
        case .storeRecovered(let source, .api): "the API of \(source) answers again"
        case .attempt(let trail): attempted(trail)
        case .successes(let integration, let count, let p50, let p99):
            "delivered \(counted(count, "message")) to \(integration) within a second, too many for an entry each"
                + " (p50 \(p50) ms, p99 \(p99) ms)"
        case .integrationPaused(let name, let reason):
            "integration \(name) is paused: \(reason); its deliveries wait until: posthouse resume \(name)"
        case .integrationResumed(let name): "integration \(name) is resumed"
        case .breakerOpened(let name, let reason):
            "the breaker of \(name) is open: \(reason); its deliveries wait and lose no attempt, and one is tried every"
                + " \(Limits.breakerProbeInterval.components.seconds) s"
        case .breakerClosed(let name, let seconds):
            "the breaker of \(name) is closed after \(seconds) s: it answers again, and what waits goes out"
        case .leasesReclaimed(let daemon, let count):
            count == 0
                ? "ended the lease of daemon \(daemon), which is gone; its deliveries go on here"
                : "reclaimed \(counted(count, "delivery", "deliveries")) of daemon \(daemon), whose lease has ended"
        case .leaseLost(let daemon):
            "lost the lease as daemon \(daemon): others have its deliveries; starting again under a new lease"
        case .databaseLost(let reason):
            "database out of reach, webhooks are answered 503 or spooled, as their source has it: \(reason)"
        case .databaseRecovered: "database is back"
        case .recordingRefused(let reason):
            "webhooks cannot be stored and are answered 503 or spooled, as their source has it: \(reason)"
        case .recordingRecovered: "webhooks are stored again"
        case .spoolingBegan(let reason):
            "webhooks are kept in the spool, answered 200, and recorded as soon as that is possible: \(reason)"
        case .spoolEmptied(let count): "the spool is empty again: \(counted(count, "webhook")) recorded from it"
        case .spoolRefused(let reason): "the spool takes no webhooks, they are answered 503: \(reason)"
        case .spoolDamaged(let file, let reason):
            "a webhook in the spool cannot be read and is not recorded; its file is kept as \(file): \(reason)"
        case .spoolAdopted(let folder, let count):
            "\(counted(count, "webhook")) of an earlier daemon wait in folder \(folder) of the spool, and are recorded now"
        case .clusterStarted(let directory, let takenOver):
            "\(takenOver ? "took over the running" : "started the") private PostgreSQL cluster in \(directory)"
        case .clusterStopped: "stopped the private PostgreSQL cluster"
        case .migrated(let from, let to): "migrated the schema from version \(from) to \(to)"
        case .ready(let listen): "ready on \(listen)"
        case .startFailed(let reason): "cannot start: \(reason)"
        case .reloaded(let changes): "the new configuration is in effect: \(changes)"
        case .reloadRefused(let reason):
            "the new configuration cannot be used; the previous one stays in effect: \(reason)"
        case .hangs(let what): "\(what); the watchdog is not fed until it answers"
        case .stopping(let reason): "stopping: \(reason)"
        case .stopped(0): "stopped, nothing was left under way"
        case .stopped(let inFlight):
            "stopped with \(counted(inFlight, "attempt")) under way, which will be made again"
        case .warning(let text): text
        case .journalDropped(let count):
            "\(counted(count, "entry", "entries")) lost: the journal did not keep up; nothing else was lost"
        }
    }

    private static func recorded(_ trail: EventTrail, duplicate: Bool) -> String {
        let subject = "\(trail.name) \(trail.event) from \(trail.source)"
        if duplicate { return "duplicate \(subject), nothing to do\(ending(trail.transaction))" }
        return "recorded \(subject) (\(counted(trail.messages, "message")),"
            + " \(counted(trail.deliveries, "delivery", "deliveries")))\(ending(trail.transaction))"
    }

    private static func attempted(_ trail: AttemptTrail) -> String {
        let subject = "\(trail.message.type) to \(trail.integration)"
        let answer = trail.httpStatus.map { "\($0) in " } ?? "no answer after "
        let measure = "(\(answer)\(trail.latencyMilliseconds) ms, attempt \(trail.attempt))"
        let failure = trail.failure ?? (trail.httpStatus.map { "HTTP \($0)" } ?? "no reason known")
        let end = ending(trail.message.transaction)
        return switch JournalEntryKind(.attempt(trail)) {
        case .deliveryAccepted: "delivered \(subject) \(measure)\(end)"
        case .deliveryDead: "dead letter \(subject) \(measure)\(end): \(failure)"
        case .deliveryPaused: "paused \(subject) \(measure)\(end): \(failure)"
        default:
            "retry \(subject) \(measure)\(end): \(failure)"
                + (trail.nextAttemptAt.map { "; next attempt at \(readable($0))" } ?? "")
        }
    }

    private static func ending(_ transaction: String?) -> String {
        transaction.map { " transaction \($0)" } ?? ""
    }

    private static func moved(_ trail: TransferTrail) -> String {
        "transfer of \(trail.purchase) from \(named(trail.from)) to \(named(trail.to))"
    }

    private static func named(_ holder: Holder) -> String {
        (holder.isAnonymous ? "anonymous " : "user ") + holder.id
    }

    /// Empty: the request named none that is configured.
    private static func named(source: String) -> String { source.isEmpty ? "an unknown source" : source }

    private static func counted(_ count: Int, _ noun: String, _ plural: String? = nil) -> String {
        count == 1 ? "1 \(noun)" : "\(count) \(plural ?? noun + "s")"
    }
}
