/// The limits of Posthouse (queues, buffers, pools, bodies, waits), each with its unit; those that concern one target
/// alone may be there (`APILimits`). Values that the configuration can change have their defaults here, too.
package enum Limits {
    // MARK: HTTP server

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
    /// Connections of one listener; more wait in the kernel's queue.
    package static let connectionsMax = 16_384
    /// Length of the kernel's queue of connections not yet accepted.
    package static let listenBacklog = 4_096

    // MARK: Acknowledgement

    /// From the first byte of a webhook to its answer; Purchasely stops reading after 10 s.
    package static let acknowledgementTimeout: Duration = .seconds(8)
    /// A stored webhook is answered at the latest this long before `acknowledgementTimeout`, whatever it waits for.
    package static let acknowledgementMargin: Duration = .milliseconds(500)
    /// Retry-After of a 503 for the source.
    package static let retryAfterUnavailableSeconds = 5

    // MARK: Identifiers in a webhook

    /// Bytes of any id, name or holder in a webhook; a webhook with a longer one is quarantined (an index row must fit
    /// a page).
    package static let identifierBytesMax = 1_024
    /// Bytes of a purchase's key: that of a grant names an install and an entitlement.
    package static let purchaseKeyBytesMax = 2 * identifierBytesMax + 32
    /// Nesting of a JSON body; a deeper one is quarantined.
    package static let jsonDepthMax = 128
    /// Devices of one customer that are read in a webhook: a refund also ends the access of each.
    package static let customerDevicesMax = 100
    /// Digits of an amount of money, written out; a longer one is left out of the message.
    package static let moneyDigitsMax = 40

    // MARK: Recording

    /// Events of one transaction.
    package static let recordBatchEventsMax = 500
    /// From this number of events on, the rows of a transaction are copied instead of inserted.
    package static let recordCopiedEventsMin = 8
    /// Events that wait for a batch; further ones are answered 503.
    package static let recordQueueEventsMax = 8_192
    /// Bytes of the bodies that wait for a batch; further ones are answered 503.
    package static let recordQueueBytesMax = 64 << 20
    /// Batches being committed at once, one connection each.
    package static let recordWriters = 2

    /// Purchases of one holder that one transaction moves; the rest follows in further transactions, after the answer.
    package static let changePurchasesMax = 250
    /// How often the daemon looks for changes that another daemon left unfinished when it ended.
    package static let changePollInterval: Duration = .seconds(30)
    /// The first and the longest pause of a change whose next step failed. Each pause is four times the one before. The
    /// longest is five minutes: until the change is applied, the former holder has access to purchases of another.
    package static let changeRetry: ClosedRange<Duration> = .seconds(30)...(.seconds(300))
    /// Statement time-out while the events of a batch that a time-out or its size ended are tried one by one.
    package static let isolationStatementTimeout: Duration = .seconds(2)
    /// How long each of these tries waits for a lock. A batch of 500 is halved nine times until the event is alone
    /// whose lock somebody holds: all others are stored before a webhook's answer is due.
    package static let isolationLockWait: Duration = .milliseconds(250)
    /// How long the events of such a batch are tried one by one; the rest is then answered 503.
    package static let isolationTimeout: Duration = .seconds(30)

    /// Holders in `data.access` whose locks one transaction takes, at most; one with more takes the lock of all. Two
    /// daemons with all their writers then hold a third of the locks that PostgreSQL has room for by default (6,400).
    package static let accessLocksMax = 500
    /// Holders that `data.access` of one message has: those whom it names first.
    package static let accessHoldersMax = 32
    /// Purchases that `data.access` lists of one holder.
    package static let accessPurchasesMax = 20
    /// Purchases of one holder among which these are chosen, those with access first.
    package static let accessCandidatesMax = 1_000

    // MARK: Spool

    /// `[spool] max` default: what one daemon's files take of the disk.
    package static let spoolBytesMax = 1 << 30
    /// What the spool leaves free of its disk, beside a private cluster for PostgreSQL to recover in; of a small disk
    /// the part below.
    package static let spoolHeadroomBytes = 1 << 30
    /// The headroom is at most this part of the disk: one tenth.
    package static let spoolHeadroomPart = 10
    /// A file takes whole blocks of the disk.
    package static let spoolBlockBytes = 4_096
    /// From the first byte of a webhook to its way into the spool, if the ledger has not answered by then.
    package static let spoolTimeout: Duration = .seconds(5)
    /// Precision of the end of that wait.
    package static let spoolTick: Duration = .milliseconds(100)
    /// Bytes that are reserved on the disk for webhooks whose writing is not over; they wait in memory.
    package static let spoolPendingBytesMax = 64 << 20
    /// Webhooks that are written behind one fsync of their folder.
    package static let spoolGroupMax = 64
    /// Files that are read and recorded at once, and bytes of them (a larger one comes by itself).
    package static let spoolDrainWebhooksMax = 256
    package static let spoolDrainBytesMax = 8 << 20
    /// Wait before what could not be recorded is tried again: doubles from the first value to the second.
    package static let spoolRetry: ClosedRange<Duration> = .milliseconds(500)...(.seconds(5))
    /// How often a daemon looks for folders that another one has left, and tries to open a spool that is away.
    package static let spoolAdoptionInterval: Duration = .seconds(30)
    /// At most so often is it reported that the spool takes nothing.
    package static let spoolReportInterval: Duration = .seconds(60)

    // MARK: Import

    /// Bytes of one line.
    package static let importLineBytesMax = 1 << 20
    /// Lines of one transaction: few, because the commit of a webhook waits while the disk takes that of the lines.
    package static let importBatchLinesMax = 50
    /// How long an import rests after each of them, as a share of what it took: the machine is the webhooks', too.
    package static let importRestShare = 0.5
    /// How far ahead of this machine's clock a line's times may be: what is stated as of later would go before all
    /// webhooks until then.
    package static let importAhead: Duration = .seconds(86_400)
    /// The highest ordinal of a transfer that a line may state: each becomes a row.
    package static let importOrdinalMax = 1_000
    /// Lines that are left out and said one by one; further ones are counted.
    package static let importFaultsMax = 1_000
    /// An import ends after so many lines that failed even when tried one by one: then the database is the cause. More
    /// than one purchase has transactions, so that one damaged purchase does not end it.
    package static let importFailedMax = 500
    /// Purchases, or links, that an export looks at at once.
    package static let exportPageRows: Int32 = 500
    /// Purchases that an export leaves out because the database cannot read them; with one more it ends.
    package static let exportUnreadableMax = 1_000
    /// Messages that a backfill leaves out because the database cannot read them; behind so many it ends at the next.
    package static let backfillDamagedMax = 1_000

    // MARK: Queue

    /// Deliveries of one integration held in memory, leased by this daemon; claimed ones may exceed it by an eighth.
    /// Those that do not fit are claimed from the table later, at three times the cost.
    package static let laneDeliveriesMax = 8_192
    /// Bytes of bodies held in memory by one lane: an equal share of the total of all lanes, within these bounds.
    package static let laneBytesMax = 16 << 20
    package static let laneBytesMin = 256 << 10
    /// Bytes of bodies held in memory by all lanes; holds for up to 256 lanes.
    package static let dispatchBufferBytesMax = 64 << 20
    /// Deliveries that one claim takes.
    package static let claimDeliveriesMax = 256
    /// Calls of the database that all lanes of a daemon make at once; further ones wait in turn. They never fill the
    /// pool's queue, in which recording and the renewal of the lease wait, too.
    package static let laneCallsMax = 64
    /// Interval of the poll that backs up the wake-ups.
    package static let pollInterval: Duration = .seconds(1)
    /// A daemon that has not renewed its lease for this long, by the database's time, is dead: its deliveries are
    /// reclaimed.
    package static let leaseDuration: Duration = .seconds(15)
    /// How long a transaction may stand open between two of its statements. A host that has lost its power or its
    /// network holds the locks of its purchases for so long, and its deliveries are then nobody's, too.
    package static let idleTransactionTimeout = leaseDuration
    /// How often a daemon renews its lease.
    package static let leaseRenewal: Duration = .seconds(4)
    /// A renewal that is later than this was kept from the database.
    package static let leaseRenewalLateness: Duration = .seconds(2)
    /// A daemon stops starting attempts when its lease has less than this left.
    package static let leaseMargin: Duration = .seconds(5)
    /// A daemon that has reached the database expires no other daemon's lease for this long. It is longer than
    /// `reconnectBackoff`, so that after an outage of the database all daemons are back first.
    package static let leaseExpiryGrace: Duration = .seconds(6)
    /// How long a background task may fail by time-outs, collisions or a lack of room before that is logged.
    package static let failureGrace: Duration = .seconds(60)

    // MARK: Delivery

    /// `[[integration]] timeout` default: connect, head and body of one attempt together.
    package static let attemptTimeout: Duration = .seconds(15)
    /// Largest `timeout` that the configuration accepts.
    package static let attemptTimeoutMax: Duration = .seconds(120)
    /// Bytes of a response body that are read; a longer body ends the connection, not the attempt.
    package static let responseBodyBytesMax = 64 << 10
    /// Bytes of a response's head.
    package static let responseHeadBytesMax = 32 << 10
    /// Bytes of the response body that are kept with a failed attempt.
    package static let responseExcerptBytesMax = 256
    /// Idle connections to a receiver are closed after this time, which is shorter than the keep-alive of common
    /// servers.
    package static let receiverIdleTimeout: Duration = .seconds(20)
    /// A connection of this age carries no further request: a new one looks the name up, passes the egress guard and
    /// trusts the authorities of today.
    package static let receiverConnectionAge: Duration = .seconds(300)
    /// `concurrency` default.
    package static let laneConcurrency = 16
    /// Largest `concurrency` that the configuration accepts.
    package static let laneConcurrencyMax = 1_024
    /// Longest wait that a Retry-After can request.
    package static let retryAfterMax: Duration = .seconds(86_400)

    // MARK: Confirming

    /// `confirm_timeout`: default, and the largest value that the configuration accepts.
    package static let confirmTimeout: Duration = .seconds(5)
    package static let confirmTimeoutMax: Duration = .seconds(7)
    /// Webhooks whose acknowledgement waits for an integration; others are acknowledged at once.
    package static let confirmationsMax = 8_192
    /// Precision of the end of the wait.
    package static let confirmTick: Duration = .milliseconds(50)
    /// How often the daemon checks whether another daemon has delivered the messages that are waited for.
    package static let confirmPoll: Duration = .milliseconds(250)

    // MARK: Breaker

    /// From one probe of an open breaker to the next.
    package static let breakerProbeInterval: Duration = .seconds(5)
    /// Newest attempts of a lane that the breaker looks at; it opens when half of them have failed.
    package static let breakerAttemptsWatched = 20
    /// With fewer attempts than this the breaker does not open.
    package static let breakerAttemptsNeeded = 10
    /// Attempts that ended longer ago than this are ignored.
    package static let breakerMemory: Duration = .seconds(30)

    // MARK: Rate

    /// Largest count of a `rate`, per second or per minute.
    package static let rateCountMax = 10_000
    /// Percentage by which slots are further apart than the limit requires, so that late arrivals stay within the
    /// limit.
    package static let rateMarginPercent = 5
    /// Slots are reserved at most this far ahead, except the first one.
    package static let rateLookAhead: Duration = .milliseconds(250)
    /// Slots are reserved earlier to cover the database's response time, up to this long.
    package static let rateLeadMax: Duration = .seconds(2)
    /// A slot is lost this long after its time.
    package static let rateLateness: Duration = .milliseconds(25)
    /// A request is assumed to have arrived this long after it was sent, even if it is not answered yet.
    package static let rateArrivalMax: Duration = .milliseconds(500)

    // MARK: Settling

    /// How long a settled delivery waits for others before the batch is written.
    package static let settleDelay: Duration = .milliseconds(5)
    /// Deliveries of one settling transaction.
    package static let settleBatchMax = 1_000
    /// Attempts that have ended and are not written yet; at this number no lane starts another attempt.
    package static let settleBufferMax = 20_000
    /// Settling transactions in progress at once.
    package static let settleWriters = 2
    /// Settlements that the database rejects are kept aside and retried; at this number no lane starts another attempt.
    package static let settleRefusedMax = 1_000
    /// Rejections after which a batch is no longer split: the untried rest of it is kept aside. Finding one such
    /// settlement in a full batch takes 11 rejections, finding three takes 30.
    package static let settleRefusalsMax = 32
    /// How often the settlements kept aside are checked for being due.
    package static let settleRefusedTick: Duration = .milliseconds(100)
    /// The first and the longest delay of a delivery whose message the database cannot read. Each delay is four times
    /// the one before.
    package static let unreadableRetry: ClosedRange<Duration> = .seconds(5)...(.seconds(3_600))
    /// Deliveries whose last such delay is remembered.
    package static let unreadableRemembered = 10_000
    /// How often leaks are looked for (`Sweep`).
    package static let sweepInterval: Duration = .seconds(30)
    /// Longer than any wait for an attempt: than the longest gap that a configuration may have, with its jitter, and
    /// than any Retry-After.
    package static let dueAheadMax: Duration = .seconds(90 * 86_400)
    /// Longer than any wait of a delivery without an attempt that counts: than `retryAfterMax`, which the answer to a
    /// probe of the breaker may ask for, and than `unreadableRetry`.
    package static let untriedDueAheadMax: Duration = .seconds(25 * 3_600)
    /// Whole looks at the queue that put what waits for an integration in order once it has one: two follow a reload at
    /// once, and the others find what was leased meanwhile.
    package static let sweepOrderingLooks = 4
    /// Blocks of the queue (8 KB) that one step of a sweep looks at: some 10,000 rows.
    package static let sweepStepBlocks: Int64 = 128
    /// Pause between two sweeps, as a multiple of the duration of the first: with a long queue, 1 % of one connection.
    package static let sweepRestFactor = 100

    // MARK: Replay

    /// Rows of dead letters, and of attempts, that a step of a replay looks at, besides those of one message: few of
    /// them may match what is asked for.
    package static let replayRowsMax: Int32 = 10_000

    // MARK: Resolution

    /// How long before its first loss a holder without a known gain is assumed to have held the purchase (Domain.md,
    /// "Transfers").
    package static let ungrantedTenureMilliseconds: Int64 = 60_000
    /// How far past its stated end a named holder's period reaches, where events may name no account: the next period
    /// is stated at its renewal, seconds or hours late (Domain.md, "Nameless facts").
    package static let lateNameMilliseconds: Int64 = 24 * 3_600_000
    /// Longest retry horizon of a source (Purchasely's 20 days 10 hours, rounded up); older facts may be dropped
    /// (Domain.md, "State of a purchase").
    package static let retryHorizonMilliseconds: Int64 = 21 * 86_400_000

    // MARK: Database

    package static let connectTimeout: Duration = .seconds(5)
    /// `[database] statement_timeout` default.
    package static let statementTimeout: Duration = .seconds(30)
    /// How long the transactions that record and settle wait for a lock: somebody may hold one without an end. Longer
    /// than `deadlock_timeout` usually is, so that a deadlock is found first; shorter than `acknowledgementTimeout`.
    package static let lockWait: Duration = .seconds(5)
    /// Time beyond the statement time-out after which Posthouse's own deadline ends every wait on the socket.
    package static let statementDeadlineMargin: Duration = .seconds(5)
    /// Wait before a reconnect: doubles from the first value to the second.
    package static let reconnectBackoff: ClosedRange<Duration> = .milliseconds(100)...(.seconds(5))

    // MARK: Journal

    /// Entries that wait for the journal; further ones are dropped and counted.
    package static let journalQueueEntriesMax = 16_384
    /// `[journal] detail_limit` default: successes per second that get an entry each.
    package static let journalDetailPerSecond = 2_000

    // MARK: The process

    /// Files and connections that are open at once, as in the unit (LimitNOFILE=).
    package static let descriptorsMax = 65_536

    // MARK: Stopping

    /// How long a start that failed undoes what it began.
    package static let startUndoTimeout: Duration = .seconds(10)
    /// How long a refused webhook keeps `/readyz` at 503 if nothing is stored after it.
    package static let recordingRefusalMemory: Duration = .seconds(30)
    /// At most so often is it reported that webhooks are stored again.
    package static let recordingReportInterval: Duration = .seconds(60)
    /// How often a daemon writes what `status` says of its sources, and sees that its row has its configuration.
    package static let sourceReportInterval: Duration = .seconds(5)
    /// How long a stop waits for transactions that store webhooks; their sources have been answered before.
    package static let recordDrainTimeout: Duration = .seconds(5)
    /// From SIGTERM to the end; less than the unit's TimeoutStopSec.
    package static let drainTimeout: Duration = .seconds(20)
}
