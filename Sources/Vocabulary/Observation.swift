/// Outcome of a delivery or an event: the values of POSTHOUSE_OUTCOME.
package enum Outcome: String, Sendable, CaseIterable {
    case accepted, retry, dead, paused, duplicate, quarantined, refused
}

/// Everything that the journal and the metrics report; both read this one enum. No case carries a secret or a body.
package enum Observation: Sendable {
    // MARK: Inbound

    /// An event was committed and acknowledged (`duplicate` false), or its event key was known already.
    case eventRecorded(EventTrail, duplicate: Bool)
    /// Total for one source in one second, above `[journal] detail_limit`; `count` includes the duplicates.
    case eventsRecorded(source: String, count: Int, duplicates: Int)
    /// A known event key arrived with other bytes; reported once per event.
    case duplicateDiffers(EventTrail)
    case quarantined(source: String, quarantine: Int64, reason: String)
    /// Rejected before anything was stored: 401, 408, 413, 503 …
    case refused(source: String, status: Int, reason: String)
    /// Answered 503 because what it names to prove its source is not known yet and may be invented: anybody can send
    /// such a request, so no alert counts it.
    case unverified(source: String, reason: String)
    /// The rejected requests of one second without an entry of their own, so that a flood does not fill the journal.
    case refusals(source: String, status: Int, count: Int)
    /// Connections could not be accepted for want of file descriptors, of this process or of the whole machine; `count`
    /// since the last report.
    case acceptFailed(listen: String, isMachine: Bool, count: Int)
    /// A transfer was announced; reported exactly once for each transfer id.
    case transferResolved(TransferTrail)
    /// A late fact shows that a transfer that was announced did not happen; `explanation` says why.
    case transferVoided(TransferTrail, explanation: String)

    /// A server of a source's store is out of reach: reported once, until it is back. `reason` names no path.
    case storeLost(source: String, what: StoreServer, reason: String)
    case storeRecovered(source: String, what: StoreServer)

    // MARK: Outbound

    case attempt(AttemptTrail)
    /// Successes of one integration in one second, above `[journal] detail_limit`.
    case successes(integration: String, count: Int, p50Milliseconds: Int, p99Milliseconds: Int)
    /// Both are reported by each daemon, whoever paused or resumed the integration. A daemon that finds one paused when
    /// it starts reports that, too.
    case integrationPaused(integration: String, reason: String)
    case integrationResumed(integration: String)
    /// Reported by the daemon that opened or closed the breaker for all daemons.
    case breakerOpened(integration: String, reason: String)
    case breakerClosed(integration: String, openSeconds: Int)
    /// Count 0: the lease was ended, and what it had is being looked for.
    case leasesReclaimed(daemon: Int64, count: Int)
    /// This daemon's lease expired and its deliveries were reclaimed; it starts again under a new lease.
    case leaseLost(daemon: Int64)

    // MARK: The service

    case databaseLost(reason: String)
    case databaseRecovered
    /// The database answers and does not store: every webhook is answered 503.
    case recordingRefused(reason: String)
    case recordingRecovered
    /// The ledger does not take a webhook of a source that spools, and the spool was empty before.
    case spoolingBegan(reason: String)
    /// Everything in the spool is recorded: `count` webhooks since it began.
    case spoolEmptied(count: Int)
    /// The spool takes nothing: webhooks are answered 503. Reported once a minute at most.
    case spoolRefused(reason: String)
    /// A file of the spool cannot be read and was moved to `file`.
    case spoolDamaged(file: String, reason: String)
    /// `count` webhooks of a daemon that is gone, or of the run before, wait in a folder of the spool.
    case spoolAdopted(folder: String, count: Int)
    case clusterStarted(directory: String, takenOver: Bool)
    case clusterStopped
    case migrated(from: Int, to: Int)
    case ready(listen: String)
    /// The daemon could not begin to serve.
    case startFailed(reason: String)
    /// A new configuration is in force; `changes` lists what it changed.
    case reloaded(changes: String)
    /// The new configuration cannot be used; the previous one stays in force.
    case reloadRefused(reason: String)
    /// A thread of the daemon does not respond; the watchdog is not fed until it answers.
    case hangs(what: String)
    case stopping(reason: String)
    case stopped(inFlight: Int)
    case warning(String)
    case journalDropped(count: Int)
}

/// What a source needs of its store's servers.
package enum StoreServer: String, Sendable, CaseIterable {
    /// The keys by which its webhooks are verified.
    case keys
    /// The API that is asked before its webhooks are recorded.
    case api
}

/// Ids by which an event can be traced.
package struct EventTrail: Sendable {
    package var source: String
    /// The vendor's event id, else Posthouse's own.
    package var event: String
    package var name: String
    package var transaction: String?
    package var purchase: String?
    /// Messages that the event caused.
    package var messages: Int
    package var deliveries: Int

    package init(
        source: String, event: String, name: String, transaction: String?, purchase: String?, messages: Int,
        deliveries: Int
    ) {
        self.source = source
        self.event = event
        self.name = name
        self.transaction = transaction
        self.purchase = purchase
        self.messages = messages
        self.deliveries = deliveries
    }
}

package struct TransferTrail: Sendable {
    package var source: String
    /// nil where several transfers may be meant.
    package var transfer: String?
    package var purchase: String
    package var transaction: String?
    package var event: String
    package var from: Holder
    package var to: Holder

    package init(
        source: String, transfer: String?, purchase: String, transaction: String?, event: String, from: Holder,
        to: Holder
    ) {
        self.source = source
        self.transfer = transfer
        self.purchase = purchase
        self.transaction = transaction
        self.event = event
        self.from = from
        self.to = to
    }
}

/// Ids by which a message can be traced. They are apart from its bytes, because entries wait for the journal.
package final class MessageTrail: Sendable {
    /// `webhook-id`: stable over attempts and replays.
    package let id: String
    /// The vendor's event id, else Posthouse's own; a derived message has its own.
    package let eventID: String
    package let type: String
    package let source: String
    package let transaction: String?
    package let purchaseKey: String?
    package let transferID: String?

    package init(
        id: String, eventID: String, type: String, source: String, transaction: String?, purchaseKey: String?,
        transferID: String?
    ) {
        self.id = id
        self.eventID = eventID
        self.type = type
        self.source = source
        self.transaction = transaction
        self.purchaseKey = purchaseKey
        self.transferID = transferID
    }
}

/// One HTTP request of a delivery, with all its fields in one entry.
package struct AttemptTrail: Sendable {
    package var integration: String
    package var delivery: Int64
    package var message: MessageTrail
    /// Counted from 1.
    package var attempt: Int
    package var outcome: Outcome
    package var httpStatus: Int?
    package var latencyMilliseconds: Int
    package var nextAttemptAt: Timestamp?
    /// Why it failed, for a person; nil when accepted.
    package var failure: String?

    package init(
        integration: String, delivery: Int64, message: MessageTrail, attempt: Int, outcome: Outcome, httpStatus: Int?,
        latencyMilliseconds: Int, nextAttemptAt: Timestamp?, failure: String?
    ) {
        self.integration = integration
        self.delivery = delivery
        self.message = message
        self.attempt = attempt
        self.outcome = outcome
        self.httpStatus = httpStatus
        self.latencyMilliseconds = latencyMilliseconds
        self.nextAttemptAt = nextAttemptAt
        self.failure = failure
    }
}

/// Receives observations. Must not block and must not throw.
package typealias Observer = @Sendable (Observation) -> Void
