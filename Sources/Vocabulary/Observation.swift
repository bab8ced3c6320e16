/// How a delivery or an event came out: the values of POSTHOUSE_OUTCOME.
package enum Outcome: String, Sendable, CaseIterable {
    case accepted, retry, dead, paused, duplicate, quarantined, refused
}

/// What happened: journal and metrics are two readers of this one enum. No case carries a secret or a body.
package enum Observation: Sendable {
    // MARK: Inbound

    /// An event was committed and acknowledged (`duplicate` false), or was known already.
    case eventRecorded(EventTrail, duplicate: Bool)
    /// What one source sent in one second, above `[journal] detail_limit`; `count` includes the duplicates.
    case eventsRecorded(source: String, count: Int, duplicates: Int)
    /// The identity of a known event arrived with other bytes; reported once an event.
    case duplicateDiffers(EventTrail)
    case quarantined(source: String, quarantine: Int64, reason: String)
    /// Refused before anything was stored: 401, 408, 413, 503 …
    case refused(source: String, status: Int, reason: String)
    /// The refused requests of one second that got no entry of their own: a flood must not fill the journal.
    case refusals(source: String, status: Int, count: Int)
    /// A transfer was told: exactly one of these for each transfer id.
    case transferResolved(TransferTrail)
    /// A late fact put a third holder between two that a transfer was already told of.
    case transferVoided(TransferTrail, explanation: String)

    // MARK: Outbound

    case attempt(AttemptTrail)
    /// The successes of one second of one integration, above `[journal] detail_limit`.
    case successes(integration: String, count: Int, p50Milliseconds: Int, p99Milliseconds: Int)
    case integrationPaused(integration: String, reason: String)
    case integrationResumed(integration: String)
    /// Told by the daemon that opened or closed it for all.
    case breakerOpened(integration: String, reason: String)
    case breakerClosed(integration: String, openSeconds: Int)
    case leasesRescued(daemon: Int64, count: Int)
    /// This daemon was taken for dead and its deliveries were taken over: it starts again under a new lease.
    case leaseLost(daemon: Int64)

    // MARK: The service

    case databaseLost(reason: String)
    case databaseRecovered
    case clusterStarted(directory: String, takenOver: Bool)
    case clusterStopped
    case migrated(from: Int, to: Int)
    case ready(listen: String)
    /// The daemon could not begin to serve.
    case startFailed(reason: String)
    /// A new configuration holds; `changes` says what it changed.
    case reloaded(changes: String)
    /// The configuration that was to be loaded cannot be used: the one before holds on.
    case reloadRefused(reason: String)
    /// A thread of our own does not answer: the watchdog is not fed until it does.
    case hangs(what: String)
    case stopping(reason: String)
    case stopped(inFlight: Int)
    case warning(String)
    case journalDropped(count: Int)
}

/// The ids under which an event can be followed.
package struct EventTrail: Sendable {
    package var source: String
    /// The vendor's event id, else the relay's.
    package var event: String
    package var name: String
    package var transaction: String?
    package var purchase: String?
    /// What the event caused.
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
    /// nil where several may be meant.
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

/// One HTTP request of a delivery: the one wide line.
package struct AttemptTrail: Sendable {
    package var integration: String
    package var delivery: Int64
    /// `webhook-id`.
    package var message: String
    package var type: String
    package var source: String
    package var event: String
    package var transaction: String?
    package var purchase: String?
    package var transfer: String?
    /// Counted from 1.
    package var attempt: Int
    package var outcome: Outcome
    package var httpStatus: Int?
    package var latencyMilliseconds: Int
    package var nextAttemptAt: Timestamp?
    /// Why it failed, for a person; nil when accepted.
    package var failure: String?

    package init(
        integration: String, delivery: Int64, message: String, type: String, source: String, event: String,
        transaction: String?, purchase: String?, transfer: String?, attempt: Int, outcome: Outcome, httpStatus: Int?,
        latencyMilliseconds: Int, nextAttemptAt: Timestamp?, failure: String?
    ) {
        self.integration = integration
        self.delivery = delivery
        self.message = message
        self.type = type
        self.source = source
        self.event = event
        self.transaction = transaction
        self.purchase = purchase
        self.transfer = transfer
        self.attempt = attempt
        self.outcome = outcome
        self.httpStatus = httpStatus
        self.latencyMilliseconds = latencyMilliseconds
        self.nextAttemptAt = nextAttemptAt
        self.failure = failure
    }
}

/// Where happenings are told. Must not block and must not throw.
package typealias Observer = @Sendable (Observation) -> Void
