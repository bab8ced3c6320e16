package import Postgres
package import Vocabulary

/// Group commit: what arrives while one batch is being committed forms the next. `Limits.recordWriters` batches are
/// under way at once, each on a connection of its own.
///
/// What can fail: the database may be gone (everybody is told to come back), two batches may collide (run again), one
/// event may be impossible to store (the batch falls back to one transaction an event, and that one is quarantined).
package struct Recorder: Sendable {
    /// How often a batch that collided with another is run again before its events are told to come back.
    static let collisionsMax = 10

    let queue: RecordQueue
    let pool: Pool
    let handOver: HandOver
    let registration: Registration
    let routes: Routes
    let rules: SourceRuleBook
    let clock: DatabaseClock
    let observe: Observer
    /// Events of a batch from which on it is copied (`RecordWrite`).
    let copiedEventsMin: Int
    package let figures = RecordFigures()

    package init(
        queue: RecordQueue, pool: Pool, handOver: HandOver, registration: Registration, routes: Routes,
        rules: SourceRuleBook, clock: DatabaseClock, copiedEventsMin: Int = Limits.recordCopiedEventsMin,
        observe: @escaping Observer
    ) {
        self.queue = queue
        self.pool = pool
        self.handOver = handOver
        self.registration = registration
        self.routes = routes
        self.rules = rules
        self.clock = clock
        self.copiedEventsMin = copiedEventsMin
        self.observe = observe
    }

    /// Records until the queue is closed and empty.
    package func run() async {
        await withTaskGroup { group in
            for writer in 0..<queue.writers {
                group.addTask {
                    while let batch = await queue.next(for: writer, upTo: Limits.recordBatchEventsMax) {
                        await record(batch)
                    }
                }
            }
        }
    }

    /// An event and the way back to its source. `answerBy`: a stored event is answered by then, whatever is to be
    /// confirmed.
    private typealias Entry = (event: Event, answerBy: ContinuousClock.Instant, completion: RecordQueue.Completion)

    private func record(_ batch: [RecordQueue.Pending]) async {
        // Whoever has waited too long has been answered 503 already: recording it would be sound, but pointless.
        let oldest = ContinuousClock.Instant.now - Limits.acknowledgementTimeout
        var events: [Entry] = []
        for pending in batch {
            switch pending.item {
            case _ where pending.enqueued < oldest: pending.completion(.unavailable)
            case .event(let event):
                let answerBy = pending.startedAt + Limits.acknowledgementTimeout - Limits.acknowledgementMargin
                events.append((event, answerBy, pending.completion))
            case .quarantine(let body): await quarantine(body, completion: pending.completion)
            }
        }
        if !events.isEmpty { await record(events) }
    }

    private func record(_ events: [Entry]) async {
        do {
            let committed = try await commit(events.map(\.event))
            acknowledge(events, committed)
            #if DEBUG
                Failpoint.reach(.webhookAnswered)
            #endif
            await releaseBlocked(committed.behind)
            for outcome in committed.outcomes { observe(outcome) }
            for happening in committed.happenings { observe(happening) }
        } catch let error as DatabaseError where Self.mayBeOneEvent(error) && events.count > 1 {
            for event in events { await record([event]) }
        } catch let error as DatabaseError where Self.isOfTheEvent(error) {
            if let (event, _, completion) = events.first {
                let reason = "the database cannot store it: \(error)"
                let body = QuarantinedBody(source: event.scope.source, reason: reason, body: event.body)
                await quarantine(body, completion: completion)
            }
        } catch {
            for (event, _, completion) in events {
                completion(.unavailable)
                observe(.refused(source: event.scope.source, status: 503, reason: "\(error)"))
            }
        }
    }

    /// Now, or when what is to be confirmed first is. The batch waits for none of it.
    private func acknowledge(_ events: [Entry], _ committed: RecordEvents.Committed) {
        let confirmations = handOver.confirmations
        let isAwaited = confirmations.count > 0
        for (index, entry) in events.enumerated() {
            if case .refused = committed.outcomes[index] {
                entry.completion(.refused)
            } else if isAwaited {
                confirmations.answer(committed.keys[index], by: entry.answerBy) { entry.completion(.stored) }
            } else {
                entry.completion(.stored)
            }
        }
    }

    /// What one event of many can be the cause of; all else is the database's trouble and passes.
    private static func mayBeOneEvent(_ error: DatabaseError) -> Bool {
        switch error {
        case .refused, .protocolViolation: !error.isConnectionLevel && !error.isRetryable
        case .connectFailed, .connectionLost, .timedOut, .commitUnknown: false
        }
    }

    /// What the event's own content causes whenever it is tried: its data, or a size that exceeds the server's limits
    /// (class 54, as of an index row).
    private static func isOfTheEvent(_ error: DatabaseError) -> Bool {
        guard case .refused(let refusal) = error else { return false }
        return refusal.sqlState.isDataError || refusal.sqlState.conditionClass == "54"
    }

    private func commit(_ events: [Event]) async throws -> RecordEvents.Committed {
        var isCareful = false
        for attempt in 1... {
            let lease = try registration.forRecording()
            let recorder = RecordEvents(
                routes: routes.current, rules: rules.current, handOver: handOver, daemon: lease,
                copiedEventsMin: isCareful ? nil : copiedEventsMin)
            do {
                return try await run(recorder, events)
            } catch let error as DatabaseError where !isCareful && Self.isThereAlready(error) {
                isCareful = true
            } catch let error as DatabaseError where Self.mayRunAgain(error, after: attempt) {
                continue
            }
        }
        preconditionFailure("the loop ends by returning or throwing")
    }

    /// A row that was taken for new was not (unique_violation).
    private static func isThereAlready(_ error: DatabaseError) -> Bool {
        guard case .refused(let refusal) = error else { return false }
        return refusal.sqlState.code == "23505"
    }

    /// After a collision, and once after a connection was lost under a batch: a buyer waits for each answer, and what
    /// was committed after all is known as a duplicate the second time.
    private static func mayRunAgain(_ error: DatabaseError, after attempt: Int) -> Bool {
        if error.isRetryable { return attempt < collisionsMax }
        return switch error {
        case .connectionLost, .commitUnknown: attempt == 1
        case .refused: error.isConnectionLevel && attempt == 1
        case .connectFailed, .timedOut, .protocolViolation: false
        }
    }

    private func run(_ recorder: RecordEvents, _ events: [Event]) async throws -> RecordEvents.Committed {
        let (result, reserved) = try await pool.withSession { [figures] session throws(DatabaseError) in
            let began = ContinuousClock.now
            var reserved = Reservations()
            do throws(DatabaseError) {
                let committed = try session.transaction(planning: .onceByIndex) { session throws(DatabaseError) in
                    let committed = try recorder.run(events, on: session, reserved: &reserved)
                    #if DEBUG
                        // What was posted would travel with COMMIT: a crash here is to leave it on the server.
                        if Failpoint.isArmed(.recordBeforeCommit) { try session.script("SELECT 1") }
                        Failpoint.reach(.recordBeforeCommit)
                    #endif
                    return committed
                }
                #if DEBUG
                    Failpoint.reach(.recordAfterCommit)
                #endif
                figures.note(events: events.count, took: .now - began)
                return (Result<RecordEvents.Committed, DatabaseError>.success(committed), reserved)
            } catch {
                return (.failure(error), reserved)
            }
        }
        switch result {
        case .success(let committed):
            if let time = committed.databaseTime { clock.note(time) }
            // Before a lane has any of them: what is accepted at once is struck out at once.
            for (key, deliveries) in committed.awaited { handOver.confirmations.expect(deliveries, of: key) }
            handOn(committed.handedOver, leasedBy: recorder.daemon, reserved)
            return committed
        case .failure(let error):
            // If the commit took effect after all, the sweep finds them leased and not held.
            reserved.giveBack(to: handOver)
            handOver.failed(error)
            throw error
        }
    }

    /// Looks again at what was put behind a delivery that may have been settled before this batch was committed. One
    /// that this daemon holds is not settled yet: its settling will look.
    private func releaseBlocked(_ behind: [(lane: FanOut.Lane, head: Int64)]) async {
        let lanes = behind.filter { !handOver.holds($0.head) }.map(\.lane)
        guard !lanes.isEmpty else { return }
        guard let lease = registration.known else { return handOver.wantSweeps() }
        do {
            let released = try await pool.withSession { [handOver] session throws(DatabaseError) in
                try Followers(handOver: handOver).release(lanes, leasedBy: lease, on: session)
            }
            handOn(released, leasedBy: lease, Reservations())
        } catch {
            handOver.wantSweeps()
        }
    }

    private func handOn(_ deliveries: [Delivery], leasedBy lease: Int64?, _ reserved: Reservations) {
        if deliveries.isEmpty { return }
        // The lease was lost while the batch was being committed: they are anybody's now, and are taken over.
        guard registration.known == lease else {
            reserved.giveBack(to: handOver)
            return handOver.wantSweeps()
        }
        // Their lane closed in between (a pause, a reload): the sweep finds them leased and not held.
        let refused = handOver.hand(deliveries).map(\.id)
        handOver.drop(refused)
        if !refused.isEmpty { handOver.wantSweeps() }
    }

    private func quarantine(_ body: QuarantinedBody, completion: RecordQueue.Completion) async {
        do {
            let digest = Identity.body(body.body)
            let rows = try await pool.withSession { session throws(DatabaseError) in
                try session.run(RecordStatements.quarantine, (body.source, body.reason, digest, body.body))
            }
            completion(.stored)
            // None: it came once more after it was erased.
            if let row = rows.first { observe(.quarantined(source: body.source, quarantine: row, reason: body.reason)) }
        } catch {
            completion(.unavailable)
            observe(.refused(source: body.source, status: 503, reason: "\(error)"))
        }
    }

    private func observe(_ outcome: RecordEvents.Outcome) {
        switch outcome {
        case .recorded(let trail): observe(.eventRecorded(trail, duplicate: false))
        case .duplicate(let trail, let differsNow):
            observe(.eventRecorded(trail, duplicate: true))
            if differsNow { observe(.duplicateDiffers(trail)) }
        case .refused: break
        }
    }
}
