package import Postgres
package import Vocabulary

/// Records events by group commit: what arrives while one batch is being committed forms the next.
/// `Limits.recordWriters` batches run at once, each on a connection of its own.
///
/// What can fail:
/// - the database is gone: all events are answered 503;
/// - two batches collide: one is run again;
/// - an event cannot be stored: the batch is halved until that event is alone, and it is quarantined; a statement of
///   the backend is answered 503;
/// - an event ends every batch by a time-out: the batch is halved too, but alone it is answered 503, because a slow
///   database looks the same;
/// - a batch takes more memory or locks than the server has: it is halved, too;
/// - the ids that a batch draws are taken, or no partition takes them: once, sequences that are behind their tables are
///   moved on, and it is run again; then its events are answered 503.
package struct Recorder: Sendable {
    /// Attempts at a batch that collides with others, before its events are answered 503.
    static let collisionsMax = 10

    let queue: RecordQueue
    let pool: Pool
    let dispatchBuffer: DispatchBuffer
    let registration: Registration
    let routes: Routes
    let rules: SourceRuleBook
    private let changing = ChangingSources()
    let clock: DatabaseClock
    let observe: Observer
    /// Batches of at least so many events are copied (`WriteMode`).
    let copiedEventsMin: Int
    /// Purchases of one holder that one transaction moves.
    let changePurchasesMax: Int
    let unfinished = UnfinishedChanges()
    package let figures = RecordFigures()
    package let health: RecordingHealth

    package init(
        queue: RecordQueue, pool: Pool, dispatchBuffer: DispatchBuffer, registration: Registration, routes: Routes,
        rules: SourceRuleBook, clock: DatabaseClock, copiedEventsMin: Int = Limits.recordCopiedEventsMin,
        changePurchasesMax: Int = Limits.changePurchasesMax, observe: @escaping Observer
    ) {
        self.queue = queue
        self.pool = pool
        self.dispatchBuffer = dispatchBuffer
        self.registration = registration
        self.routes = routes
        self.rules = rules
        self.clock = clock
        self.copiedEventsMin = copiedEventsMin
        self.changePurchasesMax = changePurchasesMax
        self.observe = observe
        health = RecordingHealth(observe: observe)
    }

    /// Records until the queue is closed and empty.
    package func run() async {
        await withTaskGroup { group in
            group.addTask { await continueChanges() }
            await withTaskGroup { writers in
                for writer in 0..<queue.writers {
                    writers.addTask {
                        while let batch = await queue.next(for: writer, upTo: Limits.recordBatchEventsMax) {
                            await record(batch)
                        }
                    }
                }
            }
            group.cancelAll()
        }
    }

    /// An event and the completion that answers its source. A stored event is answered by `answerBy`, even if
    /// confirmations are missing.
    private typealias Entry = (event: Event, answerBy: ContinuousClock.Instant, submitter: RecordQueue.Submitter)

    static let lateReason = "it waited too long to be stored"
    private static let notInTime = "its batch could not be committed in time"

    private func record(_ batch: [RecordQueue.Pending]) async {
        // An event that waited too long has been answered 503 already: it would be safe to record it, but pointless. A
        // statement of the backend would undo what was stated since, so it has a limit that is read behind the locks.
        let oldest = ContinuousClock.Instant.now - Limits.acknowledgementTimeout
        var (events, bodies): ([Entry], [(QuarantinedBody, RecordQueue.Submitter)]) = ([], [])
        for pending in batch {
            switch pending.item {
            case _ where pending.enqueued < oldest: pending.submitter.answerUnavailable(Self.lateReason)
            case .event(let event):
                let event = event.isOfBackend ? event.admitted(until: pending.submitter.answeredAt) : event
                let answerBy = pending.startedAt + Limits.acknowledgementTimeout - Limits.acknowledgementMargin
                events.append((event, answerBy, pending.submitter))
            case .quarantine(let body): bodies.append((body, pending.submitter))
            }
        }
        // First: they are not to wait for what another source sends in a form that nobody can read.
        if !events.isEmpty { await record(events) }
        await quarantine(bodies)
    }

    /// - Parameter deadline: a time-out or its size ended the batch of these events, and they are tried apart until
    ///   then.
    private func record(_ events: [Entry], apartUntil deadline: ContinuousClock.Instant? = nil) async {
        if let deadline, .now > deadline { return answerUnavailable(events, Self.notInTime) }
        do {
            let committed = try await commit(events.map(\.event), isApart: deadline != nil)
            health.stored()
            acknowledge(events, committed)
            Failpoint.reach(.webhookAnswered)
            await unblockSuccessors(of: committed.blocked)
            if committed.isUnfinished { unfinished.wake() }
            for outcome in committed.outcomes { observe(outcome) }
            for observation in committed.observations { observe(observation) }
            report(committed.leftOut)
        } catch let error as DatabaseError
            where events.count > 1 && (error.mayBeOneEvent || error.isTimeout || error.isServerLimit)
        {
            let hasDeadline = error.isTimeout || error.isServerLimit
            let deadline = hasDeadline ? deadline ?? .now + Limits.isolationTimeout : deadline
            let middle = events.count / 2
            await record(Array(events[..<middle]), apartUntil: deadline)
            await record(Array(events[middle...]), apartUntil: deadline)
        } catch let error as DatabaseError where error.isCausedByEvent {
            let reason = "the database cannot store it: \(error)"
            if let (event, _, submitter) = events.first {
                if event.isOfBackend { return answerUnavailable(events, reason, blamesDatabase: false) }
                let body = QuarantinedBody(
                    source: event.scope.source, reason: reason, body: event.body, answer: event.answer,
                    eventID: event.vendorEventID)
                await quarantine([(body, submitter)])
            }
        } catch let error as DatabaseError where error.isOutdatedFormat {
            answerUnavailable(
                events, "\(error); if it stays so, posthouse migrate builds the indexes that the ledger lacks")
        } catch {
            let failure = error as? DatabaseError
            // A lock on one event's purchase says nothing of the database.
            let isOfOne = events.count == 1 && failure?.isLockTimeout == true
            answerUnavailable(events, "\(error)", blamesDatabase: failure?.isRefusedByServer == true && !isOfOne)
        }
    }

    /// - Parameter blamesDatabase: false where the reason says nothing new of the database: the pool reports it, this
    ///   daemon stops, or the event alone is the cause.
    private func answerUnavailable(_ events: [Entry], _ reason: String, blamesDatabase: Bool = true) {
        if blamesDatabase { health.refused(reason) }
        for (event, _, submitter) in events {
            submitter.answerUnavailable(reason) {
                observe(.refused(source: event.scope.source, status: 503, reason: reason))
            }
        }
    }

    /// Answers the events: at once, or once the deliveries with `confirm` are accepted or given up, at the latest at
    /// `answerBy`. The batch does not wait for that.
    private func acknowledge(_ events: [Entry], _ committed: BatchRecording.Committed) {
        let confirmations = dispatchBuffer.confirmations
        let isAwaited = confirmations.count > 0
        for (index, (_, answerBy, submitter)) in events.enumerated() {
            switch committed.outcomes[index] {
            case .conditionFailed:
                submitter.completion(.conditionFailed)
                continue
            case .unavailable(let reason):
                submitter.answerUnavailable(reason)
                continue
            case .recorded, .duplicate, .setAside: break
            }
            submitter.fallback?.committed()
            if isAwaited {
                confirmations.answer(committed.keys[index], by: answerBy) { submitter.completion(.stored) }
            } else {
                submitter.completion(.stored)
            }
        }
    }

    private func commit(_ events: [Event], isApart: Bool) async throws -> BatchRecording.Committed {
        var mode = WriteMode(events: events.count, copiedEventsMin: copiedEventsMin)
        var isCaughtUp = false
        for attempt in 1... {
            let recording = try recording(mode)
            do {
                return try await transact(recording, events: events.count) { session, reserved throws(DatabaseError) in
                    if isApart { try session.script(Self.apartTimeout) }
                    return try recording.run(events, on: session, reserved: &reserved)
                }
            } catch let error as DatabaseError where error.isSequenceBehind && !isCaughtUp {
                isCaughtUp = true
                await pool.catchUpSequences()
            } catch let error as DatabaseError where mode != .insertIfAbsent && error.isThereAlready {
                mode = .insertIfAbsent
            } catch let error as DatabaseError where error.isOutdatedFormat && recording.ledgerForm < .timedKeys {
                if try await registration.readForm() == recording.ledgerForm { throw error }
            } catch let error as DatabaseError where error.mayRunAgain(after: attempt, isApart: isApart) {
                continue
            }
        }
        preconditionFailure("the loop ends by returning or throwing")
    }

    /// Sets `statement_timeout` to `Limits.isolationStatementTimeout`, unless the session's is shorter, and
    /// `lock_timeout`.
    static let apartTimeout = """
        SELECT set_config('statement_timeout', least(setting::bigint, \(Limits.isolationStatementTimeout.wholeMilliseconds))::text, true),
            set_config('lock_timeout', '\(Limits.isolationLockWait.wholeMilliseconds)', true)
        FROM pg_settings WHERE name = 'statement_timeout'
        """

    func recording(_ mode: WriteMode) throws -> BatchRecording {
        BatchRecording(
            routes: routes.current, rules: rules.current, changing: changing, dispatchBuffer: dispatchBuffer,
            daemon: try registration.forRecording(),
            ledgerForm: registration.ledgerForm, mode: mode, changePurchasesMax: changePurchasesMax)
    }

    /// Runs one transaction of `recording` and dispatches what it leased.
    /// - Parameter events: number of events in the batch; 0: it continues a change.
    func transact(
        _ recording: BatchRecording, events: Int,
        _ body:
            @escaping @Sendable (borrowing Session, inout Reservations) throws(DatabaseError)
            -> BatchRecording.Committed
    ) async throws -> BatchRecording.Committed {
        let (result, reserved) = try await pool.withSession { [figures, clock] session throws(DatabaseError) in
            let began = ContinuousClock.now
            var reserved = Reservations()
            do throws(DatabaseError) {
                let committed = try session.transaction(planning: .onceByIndex) { session throws(DatabaseError) in
                    let committed = try body(session, &reserved)
                    // Enqueued statements would be sent with COMMIT: a crash here must leave them on the server.
                    if Failpoint.isArmed(.recordBeforeCommit) { try session.script("SELECT 1") }
                    if events > 0 { Failpoint.reach(.recordBeforeCommit) }
                    return committed
                }
                if events > 0 { Failpoint.reach(.recordAfterCommit) }
                if events > 0 { figures.add(events: events, took: .now - began) }
                if let time = committed.databaseTime { clock.addReading(time, began: began) }
                return (Result<BatchRecording.Committed, DatabaseError>.success(committed), reserved)
            } catch {
                return (.failure(error), reserved)
            }
        }
        switch result {
        case .success(let committed):
            // Before any lane has one of them, so that an immediate confirmation is counted.
            for (key, deliveries) in committed.awaited { dispatchBuffer.confirmations.expect(deliveries, of: key) }
            dispatch(reserved.deliveries)
            return committed
        case .failure(let error):
            // If the commit took effect after all, the sweep finds deliveries that are leased and not held.
            reserved.giveBack(to: dispatchBuffer)
            dispatchBuffer.failed(error)
            throw error
        }
    }

    /// Unblocks deliveries whose blocker may have been settled before this batch was committed. A blocker that this
    /// daemon holds is not settled yet: settling it unblocks its successor.
    func unblockSuccessors(of blocked: [(key: FanOut.OrderingKey, head: Int64)]) async {
        guard !blocked.isEmpty else { return }
        guard let lease = registration.id else { return dispatchBuffer.requestSweeps() }
        let keys = blocked.filter { !dispatchBuffer.holds($0.head, under: lease) }.map(\.key)
        guard !keys.isEmpty else { return }
        do {
            let unblocked = try await pool.withSession { [dispatchBuffer, registration] session throws(DatabaseError) in
                // Read after the wait for a connection: the lease may have been lost meanwhile.
                try Successors(dispatchBuffer: dispatchBuffer)
                    .unblock(keys, leasedBy: registration.leaseForSuccessors, on: session)
            }
            dispatch(unblocked)
        } catch {
            dispatchBuffer.requestSweeps()
        }
    }

    /// Gives leased deliveries of one transaction to their lanes.
    func dispatch(_ deliveries: [Delivery]) {
        guard let lease = deliveries.first?.lease else { return }
        // The lease was lost during the commit: any daemon may deliver them now, and one will take them over.
        guard registration.isCurrent(lease) else {
            Reservations(deliveries).giveBack(to: dispatchBuffer)
            return dispatchBuffer.requestSweeps()
        }
        // Their lane was closed meanwhile (a pause, a reload): the sweep finds them leased and not held.
        let refused = dispatchBuffer.passToLanes(deliveries)
        dispatchBuffer.drop(refused)
        if !refused.isEmpty { dispatchBuffer.requestSweeps() }
    }

    /// Quarantines bodies in one transaction; if one of them may be why it fails, each in one of its own.
    /// - Parameter deadline: they are tried apart until then.
    private func quarantine(
        _ bodies: [(body: QuarantinedBody, submitter: RecordQueue.Submitter)],
        apartUntil deadline: ContinuousClock.Instant? = nil, isCaughtUp: Bool = false
    ) async {
        guard !bodies.isEmpty else { return }
        if let deadline, .now > deadline {
            health.refused(Self.notInTime)
            return answerUnavailable(bodies, Self.notInTime)
        }
        do {
            let rows = try await Quarantine.add(bodies.map(\.body), isApart: deadline != nil, in: pool)
            health.stored()
            for ((body, submitter), row) in zip(bodies, rows) {
                submitter.fallback?.committed()
                submitter.completion(.stored)
                // No row: it came again after it was erased.
                if let row { observe(.quarantined(source: body.source, quarantine: row, reason: body.reason)) }
            }
        } catch  where error.isSequenceBehind && !isCaughtUp {
            await pool.catchUpSequences()
            await quarantine(bodies, apartUntil: deadline, isCaughtUp: true)
        } catch  where bodies.count > 1 && (error.mayBeOneEvent || error.isRetryable) {
            let deadline = ContinuousClock.Instant.now + Limits.isolationTimeout
            for body in bodies { await quarantine([body], apartUntil: deadline) }
        } catch {
            // A lock that somebody holds of one row says nothing of the database.
            let isOfOne = bodies.count == 1 && error.isLockTimeout
            if error.isRefusedByServer, !isOfOne { health.refused("\(error)") }
            answerUnavailable(bodies, "\(error)")
        }
    }

    private func answerUnavailable(
        _ bodies: [(body: QuarantinedBody, submitter: RecordQueue.Submitter)], _ reason: String
    ) {
        for (body, submitter) in bodies {
            submitter.answerUnavailable(reason) { observe(.refused(source: body.source, status: 503, reason: reason)) }
        }
    }

    private func observe(_ outcome: BatchRecording.Outcome) {
        switch outcome {
        case .recorded(let trail): observe(.eventRecorded(trail, duplicate: false))
        case .duplicate(let trail, let differsNow):
            observe(.eventRecorded(trail, duplicate: true))
            if differsNow { observe(.duplicateDiffers(trail)) }
        // The API reports what it refuses by itself, and not under the name of the source: no webhook was refused.
        case .conditionFailed, .unavailable: break
        case .setAside(let source, let row, let reason):
            if let row { observe(.quarantined(source: source, quarantine: row, reason: reason)) }
        }
    }
}
