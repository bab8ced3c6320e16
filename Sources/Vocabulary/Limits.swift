/// Every queue, buffer, pool, body and wait of the relay, with its unit, in one place. What the configuration can move
/// has its default here too.
package enum Limits {
    // MARK: Front

    /// Bytes of one request body; `[server] max_body`.
    package static let requestBodyBytesMax = 1 << 20
    /// Bytes of a request's head: request line and header fields together.
    package static let requestHeadBytesMax = 16 << 10
    /// A request's head must be complete this long after its first byte (or the connection's start).
    package static let requestHeadTimeout: Duration = .seconds(10)
    /// A request's body must be complete this long after its head.
    package static let requestBodyTimeout: Duration = .seconds(20)
    /// An idle kept-alive connection is closed after this.
    package static let keepAliveIdleTimeout: Duration = .seconds(75)
    /// Connections of one listener; further ones wait in the kernel's queue.
    package static let connectionsMax = 16_384
    /// Length of the kernel's queue of connections not yet accepted.
    package static let listenBacklog = 4_096

    // MARK: Acknowledgement

    /// From the first byte of a webhook to its answer: Purchasely stops reading after 10 s.
    package static let acknowledgementTimeout: Duration = .seconds(8)
    /// A stored webhook is answered so long before that, whatever it waits for.
    package static let acknowledgementMargin: Duration = .milliseconds(500)
    /// What a 503 asks the source to wait.
    package static let retryAfterUnavailableSeconds = 5

    // MARK: Identifiers in a webhook

    /// Bytes of any id, name or holder in a webhook; longer is quarantined (an index row must fit a page).
    package static let identifierBytesMax = 1_024
    /// Nesting of a JSON body; deeper is quarantined.
    package static let jsonDepthMax = 128

    // MARK: Recording

    /// Events of one transaction.
    package static let recordBatchEventsMax = 500
    /// Events of a transaction from which on its rows are copied instead of inserted.
    package static let recordCopiedEventsMin = 8
    /// Events waiting for a batch; more are answered 503.
    package static let recordQueueEventsMax = 8_192
    /// Bytes of the bodies waiting for a batch; more are answered 503.
    package static let recordQueueBytesMax = 64 << 20
    /// Batches being committed at once, one connection each.
    package static let recordWriters = 2

    /// Purchases of one holder that one transaction moves; the rest follows in further ones, after the answer.
    package static let changePurchasesMax = 250
    /// How often changes are looked for that a daemon left unfinished when it ended.
    package static let changePollInterval: Duration = .seconds(30)
    /// Statements of a batch that a time-out ended are given this long when its events are tried apart.
    package static let isolationStatementTimeout: Duration = .seconds(2)
    /// How long the events of such a batch are tried apart; what is left then is answered 503.
    package static let isolationTimeout: Duration = .seconds(30)

    // MARK: Queue

    /// Deliveries of one integration held in memory, leased by this daemon; an eighth more of those that are claimed.
    /// What finds no place is claimed from the table later, at three times the cost.
    package static let laneDeliveriesMax = 8_192
    /// Bytes of bodies held in memory by one lane: its equal part of what all lanes may hold, within these bounds.
    package static let laneBytesMax = 16 << 20
    package static let laneBytesMin = 256 << 10
    /// Bytes of bodies held in memory by all lanes, while they are no more than 256.
    package static let handOverBytesMax = 64 << 20
    /// Deliveries that one claim takes.
    package static let claimDeliveriesMax = 256
    /// The poll that backs the wake-ups up.
    package static let pollInterval: Duration = .seconds(1)
    /// A daemon that has not renewed its lease for this long, by the database's time, is dead: its deliveries are taken
    /// over.
    package static let leaseDuration: Duration = .seconds(15)
    /// How often a daemon renews its lease.
    package static let leaseRenewal: Duration = .seconds(4)
    /// A daemon stops starting attempts when its lease has less than this left.
    package static let leaseMargin: Duration = .seconds(5)
    /// A daemon that has reached the database ends nobody's lease for this long: longer than `reconnectBackoff`, so
    /// that a database that was away has all of them back first.
    package static let leaseExpiryGrace: Duration = .seconds(6)

    // MARK: Delivery

    /// `[[integration]] timeout` default: connect, head and body of one attempt together.
    package static let attemptTimeout: Duration = .seconds(15)
    /// Largest `timeout` that the configuration takes.
    package static let attemptTimeoutMax: Duration = .seconds(120)
    /// Bytes of a response body that are read; a longer one ends the connection, not the attempt.
    package static let responseBodyBytesMax = 64 << 10
    /// Bytes of a response's head.
    package static let responseHeadBytesMax = 32 << 10
    /// Bytes of a response body that are kept with an attempt that failed.
    package static let responseExcerptBytesMax = 256
    /// Idle connections to a receiver are closed after this; less than common servers' keep-alive.
    package static let receiverIdleTimeout: Duration = .seconds(20)
    /// `concurrency` default.
    package static let laneConcurrency = 16
    /// Largest `concurrency` that the configuration takes.
    package static let laneConcurrencyMax = 1_024
    /// The longest wait that a Retry-After can ask for.
    package static let retryAfterMax: Duration = .seconds(86_400)

    // MARK: Confirming

    /// `confirm_timeout` default, and the largest that the configuration takes.
    package static let confirmTimeout: Duration = .seconds(5)
    package static let confirmTimeoutMax: Duration = .seconds(7)
    /// Webhooks whose acknowledgement waits for an integration; others are acknowledged at once.
    package static let confirmationsMax = 8_192
    /// How exactly the wait ends.
    package static let confirmTick: Duration = .milliseconds(50)
    /// How often it is looked whether another daemon delivered what is waited for.
    package static let confirmPoll: Duration = .milliseconds(250)

    // MARK: Breaker

    /// From one probe of an open breaker to the next.
    package static let breakerProbeInterval: Duration = .seconds(5)
    /// The newest attempts of a lane, of which half must have failed for its breaker to open.
    package static let breakerAttemptsWatched = 20
    /// Fewer attempts than this say nothing.
    package static let breakerAttemptsNeeded = 10
    /// Attempts that ended longer ago than this say nothing.
    package static let breakerMemory: Duration = .seconds(30)

    // MARK: Rate

    /// Largest count of a `rate`, by the second or by the minute.
    package static let rateCountMax = 10_000
    /// Slots lie further apart than the limit asks for, by so much: what arrives late then is still below it.
    package static let rateMarginPercent = 5
    /// Slots are reserved for this long at most, the first one excepted.
    package static let rateLookAhead: Duration = .milliseconds(250)
    /// Slots are asked for ahead of a database that takes so long to answer at most.
    package static let rateLeadMax: Duration = .seconds(2)
    /// A slot is lost so long after its time.
    package static let rateLateness: Duration = .milliseconds(25)
    /// A request that was sent is taken for arrived after this, answered or not.
    package static let rateArrivalMax: Duration = .milliseconds(500)

    // MARK: Settling

    /// How long a settled delivery waits for others before the batch is written.
    package static let settleDelay: Duration = .milliseconds(5)
    /// Deliveries of one settling transaction.
    package static let settleBatchMax = 1_000
    /// Attempts that have ended and are not written yet; at this number no lane starts another.
    package static let settleBufferMax = 20_000
    /// Settling transactions under way at once.
    package static let settleWriters = 2
    /// Settlements that the database refuses, kept aside and tried again; at this number no lane starts another
    /// attempt.
    package static let settleRefusedMax = 1_000
    /// Refusals after which a batch is no longer cut in parts: what of it was not tried is kept aside. One settlement
    /// in a full batch is found with 11, three are with 30.
    package static let settleRefusalsMax = 32
    /// How often it is looked whether what is kept aside is due.
    package static let settleRefusedTick: Duration = .milliseconds(100)
    /// How often a leak is looked for (`Queue.sweep`).
    package static let sweepInterval: Duration = .seconds(30)
    /// At least so many times what a sweep took lies between it and the next: with a long queue, 1 % of one connection.
    package static let sweepRestFactor = 100

    // MARK: Resolution

    /// How long before its first loss a holder that was never seen gaining is taken to have held (Domain.md,
    /// "Transfers").
    package static let ungrantedTenureMilliseconds: Int64 = 60_000
    /// The longest retry horizon of a source (Purchasely's 20 days 10 hours, rounded up): older facts are settled.
    package static let retryHorizonMilliseconds: Int64 = 21 * 86_400_000

    // MARK: Database

    package static let connectTimeout: Duration = .seconds(5)
    /// `[database] statement_timeout` default.
    package static let statementTimeout: Duration = .seconds(30)
    /// Beyond the statement time-out our own deadline ends every wait on the socket.
    package static let statementDeadlineMargin: Duration = .seconds(5)
    /// A reconnect waits from the first to the second, doubling.
    package static let reconnectBackoff: ClosedRange<Duration> = .milliseconds(100)...(.seconds(5))

    // MARK: Journal

    /// Entries waiting for the journal; more are dropped and counted.
    package static let journalQueueEntriesMax = 16_384
    /// `[journal] detail_limit` default: successes a second that each get an entry.
    package static let journalDetailPerSecond = 2_000

    // MARK: Stopping

    /// From SIGTERM to the end: less than the unit's TimeoutStopSec.
    package static let drainTimeout: Duration = .seconds(20)
}
