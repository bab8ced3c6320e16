import Postgres
package import Vocabulary

/// Why a batch was not settled.
package enum SettleFailure: Error, Sendable, Equatable {
    /// The database refuses what was written, and would again: a single settlement may be the reason.
    case refused(reason: String)
    /// A lock or a statement timed out; that may be over, or a single settlement may be the reason.
    case timedOut(reason: String)
    /// The database is out of reach, or cannot take anything just now.
    case unavailable

    init(_ error: any Error) {
        guard let error = error as? DatabaseError else {
            self = .unavailable
            return
        }
        switch error {
        case .refused(let refusal) where ["55P03", "57014"].contains(refusal.sqlState):
            self = .timedOut(reason: "\(error)")
        case .refused, .protocolViolation:
            self = error.isConnectionLevel || error.isRetryable ? .unavailable : .refused(reason: "\(error)")
        case .connectFailed, .connectionLost, .timedOut, .commitUnknown: self = .unavailable
        }
    }
}

/// The result of settling a batch.
package struct Settled: Sendable {
    /// Deliveries that were unblocked, leased and already counted in their lanes.
    package var unblocked: [Delivery] = []
    /// Integrations that this batch paused, with the reason.
    package var paused: [(integration: Int32, reason: String)] = []
}

extension Queue {
    /// Writes how a batch of attempts ended, in one transaction: history, dead letters, what leaves the queue, what
    /// waits for its next attempt, pauses. Each is conditional on the lease of the attempt: a delivery that was
    /// reclaimed meanwhile stays with its new daemon, and its attempt is still history. Then unblocks the successors.
    package func settle(_ batch: [Settlement]) async throws(SettleFailure) -> Settled {
        // All other integrations are checked, removed ones too: they may be back before the sweep.
        let orderless = routes.current.orderless
        do {
            return try await pool.withSession { session throws(DatabaseError) in
                try settle(batch, orderless: orderless, on: session)
            }
        } catch {
            dispatchBuffer.failed(error)
            // What is refused is tried again in parts.
            if error.isSequenceBehind { await pool.catchUpSequences() }
            if case DatabaseError.commitUnknown = error {
                inDoubt.insert(batch)
                report(error, doing: "settling \(batch.count) deliveries")
            }
            throw SettleFailure(error)
        }
    }

    private func settle(
        _ batch: [Settlement], orderless: Set<Int32>, on session: borrowing Session
    ) throws(DatabaseError) -> Settled {
        let batch = try session.holdsUnicode ? batch : batch.map { $0.changingTexts(Self.inASCII) }
        var (settled, heads) = try session.transaction(planning: .onceByIndex) { session throws(DatabaseError) in
            let written = try write(batch, orderless: orderless, on: session)
            Failpoint.reach(.settleBeforeCommit)
            return written
        }
        Failpoint.reach(.settleAfterCommit)
        inDoubt.remove(batch)
        // Before the check for successors: whoever adds a successor of one of them reads this first.
        dispatchBuffer.drop(batch.map(\.delivery))
        settled.unblocked = unblock(heads, on: session)
        return settled
    }

    /// Unblocks the successors of what was settled. A failure leaves the batch settled: the sweep that it requests
    /// unblocks them.
    private func unblock(_ heads: [FanOut.OrderingKey], on session: borrowing Session) -> [Delivery] {
        // Read after the waits for a connection and for locks: the lease may have been lost meanwhile.
        let next = registration.leaseForSuccessors
        let what = "unblocking the successors of settled deliveries"
        do throws(DatabaseError) {
            let unblocked = try Successors(dispatchBuffer: dispatchBuffer).unblock(heads, leasedBy: next, on: session)
            if !heads.isEmpty { succeeded(what) }
            return unblocked
        } catch {
            report(error, doing: what)
            return []
        }
    }

    /// Replaces what is not ASCII: a database of another encoding may refuse characters, and only it knows which.
    private static func inASCII(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map { $0.isASCII ? $0 : "?" }))
    }

    private func write(
        _ batch: [Settlement], orderless: Set<Int32>, on session: borrowing Session
    ) throws(DatabaseError) -> (Settled, heads: [FanOut.OrderingKey]) {
        var settled = Settled()
        // Of two with one id (`QueueStatements.isTheSame`) the newer one counts.
        let done = batch.filter(\.verdict.isFinal).sorted {
            ($0.delivery.id, $0.delivery.createdAt) < ($1.delivery.id, $1.delivery.createdAt)
        }
        // These travel with BEGIN, and their answers with that to the copy.
        var leaving: [(lease: Int64, rows: PendingRows<QueueStatements.Gone>)] = []
        for (lease, settlements) in Self.byLease(done) {
            let created = settlements.map(\.delivery.createdAt.milliseconds)
            let rows = try session.enqueueQuery(
                QueueStatements.settled, (settlements.map(\.delivery.id), lease, created))
            leaving.append((lease, rows))
        }
        let waiting = try writeRetries(batch, on: session)
        let attempts = try unwritten(batch, leaving, waiting, on: session)
        try session.copy([QueueStatements.attempts.copied(attempts)])
        settled.paused = try writePauses(batch, waiting, on: session)
        try publish(settled.paused.map { (.paused, $0.integration, $0.reason, []) }, on: session)
        if done.isEmpty { return (settled, []) }
        var gone: [QueueStatements.Gone] = []
        for (_, rows) in leaving { gone += try session.answer(to: rows) }
        let dead = try Self.dead(of: done, leaving, on: session)
        try writeDeadLetters(dead, on: session)
        let byIntegration = Dictionary(grouping: dead, by: \.delivery.integration).sorted { $0.key < $1.key }
        // Only the verdict's reason: the receiver's answer may quote what it was sent, and is for the operator alone.
        try publish(
            byIntegration.map { integration, letters in
                let reasons = letters.compactMap { if case .dead(let reason) = $0.verdict { reason } else { nil } }
                return (.dead, integration, reasons.last, letters.map(\.delivery.message))
            }, on: session)
        let heads = gone.compactMap(\.orderingKey)
            .filter { !orderless.contains($0.integration) }
            .sorted { ($0.purchase, $0.integration) < ($1.purchase, $1.integration) }
        return (settled, heads)
    }

    private func publish(
        _ news: [(kind: RelayMessage.Kind, integration: Int32, reason: String?, messages: [Int64])],
        on session: borrowing Session
    ) throws(DatabaseError) {
        guard !news.isEmpty else { return }
        let routes = routes.current
        let messages = news.compactMap { news in
            routes[news.integration].map {
                RelayMessage(news.kind, of: $0, reason: news.reason, messages: news.messages)
            }
        }
        try RelayMessage.publish(messages, routes: routes.all, on: session)
    }

    /// Those given up that have left the queue.
    private static func dead(
        of done: [Settlement], _ leaving: [(lease: Int64, rows: PendingRows<QueueStatements.Gone>)],
        on session: borrowing Session
    ) throws(DatabaseError) -> [Settlement] {
        guard done.contains(where: { $0.verdict.outcome == .dead }) else { return [] }
        let left = try Self.left(leaving, on: session)
        // Of two with one id the newer one left.
        let created = Dictionary(done.map { ($0.leased, $0.delivery.createdAt) }) { _, newer in newer }
        return done.filter {
            $0.verdict.outcome == .dead && left.contains($0.leased) && created[$0.leased] == $0.delivery.createdAt
        }
    }

    private static func left(
        _ leaving: [(lease: Int64, rows: PendingRows<QueueStatements.Gone>)], on session: borrowing Session
    ) throws(DatabaseError) -> Set<LeasedDelivery> {
        var left: Set<LeasedDelivery> = []
        for (lease, rows) in leaving {
            left.formUnion(try session.answer(to: rows).map { LeasedDelivery(lease: lease, id: $0.id) })
        }
        return left
    }

    /// Those whose attempts are not in the history yet. An attempt is there if it was in doubt, its delivery is not
    /// found under its lease any more, and the table has one with the same result and latency. Its number alone is
    /// no proof: the next attempt has the same one if this one uses up no retry, and so has an attempt that another
    /// daemon made because the COMMIT never arrived.
    /// - Parameters:
    ///   - leaving: what left the queue.
    ///   - waiting: of `writeRetries`.
    private func unwritten(
        _ batch: [Settlement], _ leaving: [(lease: Int64, rows: PendingRows<QueueStatements.Gone>)],
        _ waiting: [(lease: Int64, rows: PendingRows<Int64>)], on session: borrowing Session
    ) throws(DatabaseError) -> [Settlement] {
        let doubtful = inDoubt.places(in: batch)
        if doubtful.isEmpty { return batch }
        let held = try Self.held(waiting, on: session).union(Self.left(leaving, on: session))
        let places = doubtful.filter { !held.contains(batch[$0].leased) }
        if places.isEmpty { return batch }
        let asked = places.map { batch[$0] }
        let found = try session.run(
            QueueStatements.attemptsThere,
            (
                asked.map(\.delivery.message), asked.map(\.delivery.id), asked.map(\.attempt),
                asked.map(\.verdict.outcome.rawValue), asked.map(\.httpStatusWritten), asked.map(\.latencyWritten)
            ))
        // PostgreSQL skips the standby wait for a transaction that wrote nothing, and what it finds may be lost yet.
        try session.enqueue(RecordStatements.wait, ())
        let there = Set(found.map { places[Int($0) - 1] })
        return batch.indices.filter { !there.contains($0) }.map { batch[$0] }
    }

    /// Groups by lease: a batch may span two, from before and after this daemon registered anew.
    private static func byLease(_ settlements: [Settlement]) -> [(Int64, [Settlement])] {
        Dictionary(grouping: settlements, by: \.delivery.lease).sorted { $0.key < $1.key }
    }

    /// Writes when the next attempt is due. A pause and a failed probe use up no retry.
    /// - Returns: by lease, the ids of the deliveries for which it still held.
    private func writeRetries(
        _ batch: [Settlement], on session: borrowing Session
    ) throws(DatabaseError) -> [(lease: Int64, rows: PendingRows<Int64>)] {
        var written: [(lease: Int64, rows: PendingRows<Int64>)] = []
        let waiting = batch.filter { !$0.verdict.isFinal }.sorted { $0.delivery.id < $1.delivery.id }
        for (lease, settlements) in Self.byLease(waiting) {
            var (ids, attempts, delays): ([Int64], [Int16], [Int64]) = ([], [], [])
            for settlement in settlements {
                let made = settlement.delivery.attemptsMade
                ids.append(settlement.delivery.id)
                switch settlement.verdict {
                case .retry(let delay):
                    attempts.append(Int16(clamping: made + 1))
                    delays.append(delay.wholeMilliseconds)
                case .postponed(let delay):
                    attempts.append(Int16(clamping: made))
                    delays.append(delay.wholeMilliseconds)
                case .paused, .accepted, .dead:
                    attempts.append(Int16(clamping: made))
                    delays.append(0)
                }
            }
            let created = settlements.map(\.delivery.createdAt.milliseconds)
            let rows = try session.enqueueQuery(QueueStatements.retry, (ids, attempts, delays, lease, created))
            written.append((lease, rows))
        }
        return written
    }

    /// - Parameter waiting: of `writeRetries`.
    private static func held(
        _ waiting: [(lease: Int64, rows: PendingRows<Int64>)], on session: borrowing Session
    ) throws(DatabaseError) -> Set<LeasedDelivery> {
        var held: Set<LeasedDelivery> = []
        for (lease, rows) in waiting {
            held.formUnion(try session.answer(to: rows).map { LeasedDelivery(lease: lease, id: $0) })
        }
        return held
    }

    /// Pauses what was answered 410 under a lease that still held. Another daemon has what was reclaimed, and gets its
    /// own answer, perhaps at another address: a daemon without its lease may have slept through a change of it.
    /// - Parameter waiting: of `writeRetries`.
    private func writePauses(
        _ batch: [Settlement], _ waiting: [(lease: Int64, rows: PendingRows<Int64>)], on session: borrowing Session
    ) throws(DatabaseError) -> [(integration: Int32, reason: String)] {
        let answers: [(settlement: Settlement, reason: String)] = batch.compactMap { settlement in
            if case .paused(let reason) = settlement.verdict { (settlement, reason) } else { nil }
        }
        if answers.isEmpty { return [] }
        let held = try Self.held(waiting, on: session)
        var reasons: [Int32: String] = [:]
        for (settlement, reason) in answers where held.contains(settlement.leased) {
            reasons[settlement.delivery.integration] = reason
        }
        var paused: [(integration: Int32, reason: String)] = []
        for (integration, reason) in reasons.sorted(by: { $0.key < $1.key }) {
            let isNew = try !session.run(QueueStatements.pause, (integration, reason)).isEmpty
            if isNew { paused.append((integration, reason)) }
        }
        return paused
    }

    private func writeDeadLetters(_ dead: [Settlement], on session: borrowing Session) throws(DatabaseError) {
        let letters: [(settlement: Settlement, reason: String)] = dead.compactMap { settlement in
            if case .dead(let reason) = settlement.verdict { (settlement, reason) } else { nil }
        }
        guard !letters.isEmpty else { return }
        let deliveries = letters.map(\.settlement.delivery)
        _ = try session.execute(
            QueueStatements.deadLetters,
            (
                deliveries.map(\.id), deliveries.map(\.message), deliveries.map(\.integration),
                deliveries.map(\.purchase), deliveries.map { Int16(clamping: $0.attemptsMade + 1) },
                letters.map { Self.lastWords(reason: $0.reason, failure: $0.settlement.failure) },
                letters.map { $0.settlement.httpStatus.map { Int16(clamping: $0) } },
                deliveries.map(\.createdAt.milliseconds)
            ))
    }

    /// Why it was given up and how the last attempt failed; a failure that begins with the reason is written alone.
    private static func lastWords(reason: String, failure: String?) -> String {
        guard let failure else { return reason }
        return failure.hasPrefix(reason) ? failure : "\(reason): \(failure)"
    }
}

extension Settlement {
    /// The number of the attempt, as the history has it.
    var attempt: Int16 { Int16(clamping: delivery.attemptsMade + 1) }
    /// `http_status` of the history.
    var httpStatusWritten: Int16? { httpStatus.map { Int16(clamping: $0) } }
    /// `latency_ms` of the history.
    var latencyWritten: Int32 { Int32(clamping: latencyMilliseconds) }
}

extension Settlement.Verdict {
    /// Settled means accepted or dead: the delivery leaves the queue.
    package var isFinal: Bool {
        switch self {
        case .accepted, .dead: true
        case .retry, .postponed, .paused: false
        }
    }

    package var outcome: Outcome {
        switch self {
        case .accepted: .accepted
        case .retry, .postponed: .retry
        case .dead: .dead
        case .paused: .paused
        }
    }
}
