import Postgres
package import Vocabulary

/// What settling a batch came to.
package struct Settled: Sendable {
    /// Deliveries that came free behind those settled, leased and already in their lanes' count.
    package var released: [Delivery] = []
    /// Integrations that this batch paused, with the reason.
    package var paused: [(integration: Int32, reason: String)] = []
}

extension Queue {
    /// Writes how a batch of attempts ended, in one transaction: history, dead letters, what leaves the queue, what
    /// waits for its next attempt, what comes free behind it. Conditional on the lease: a delivery that was taken over
    /// meanwhile is left to who has it now; its attempt is still history.
    package func settle(_ batch: [Settlement]) async throws -> Settled {
        let lease = try registration.current()
        let ordered = Set(routes.current.filter { $0.integration.order == .purchase }.map(\.row))
        do {
            return try await pool.withSession { session throws(DatabaseError) in
                var (settled, heads) = try session.transaction(planning: .onceByIndex) {
                    session throws(DatabaseError) in
                    let written = try write(batch, lease: lease, ordered: ordered, on: session)
                    #if DEBUG
                        Failpoint.reach(.settleBeforeCommit)
                    #endif
                    return written
                }
                #if DEBUG
                    Failpoint.reach(.settleAfterCommit)
                #endif
                // Before the look at what they held up: who put something behind one of them reads this first.
                handOver.drop(batch.map(\.delivery.id))
                do throws(DatabaseError) {
                    settled.released = try Followers(handOver: handOver).release(heads, leasedBy: lease, on: session)
                } catch {
                    // The batch is settled all the same; the sweep that is wanted now frees what was behind it.
                    report(error, doing: "freeing what was behind settled deliveries")
                }
                return settled
            }
        } catch {
            handOver.failed(error)
            throw error
        }
    }

    private func write(
        _ batch: [Settlement], lease: Int64, ordered: Set<Int32>, on session: borrowing Session
    ) throws(DatabaseError) -> (Settled, heads: [FanOut.Lane]) {
        var settled = Settled()
        try writeAttempts(batch, on: session)
        try writeRetries(batch, lease: lease, on: session)
        settled.paused = try writePauses(batch, on: session)
        try tell(settled.paused.map { (.paused, $0.integration, $0.reason, []) }, on: session)
        let done = batch.filter(\.verdict.isFinal).sorted { $0.delivery.id < $1.delivery.id }
        guard !done.isEmpty else { return (settled, []) }
        let gone = try session.run(QueueStatements.settled, (done.map(\.delivery.id), lease))
        let goneIDs = Set(gone.map(\.0))
        let dead = done.filter { goneIDs.contains($0.delivery.id) && $0.verdict.outcome == .dead }
        try writeDeadLetters(dead, on: session)
        let byIntegration = Dictionary(grouping: dead, by: \.delivery.integration).sorted { $0.key < $1.key }
        // In the verdict's words: what the receiver answered may quote what it was sent, and is the operator's alone.
        try tell(
            byIntegration.map { integration, letters in
                let reasons = letters.compactMap { if case .dead(let reason) = $0.verdict { reason } else { nil } }
                return (.dead, integration, reasons.last, letters.map(\.delivery.message))
            }, on: session)
        let heads = gone.compactMap { row in row.2.map { FanOut.Lane(purchase: $0, integration: row.1) } }
            .filter { ordered.contains($0.integration) }
            .sorted { ($0.purchase, $0.integration) < ($1.purchase, $1.integration) }
        return (settled, heads)
    }

    private func tell(
        _ news: [(kind: OperationalMessage.Kind, integration: Int32, reason: String?, messages: [Int64])],
        on session: borrowing Session
    ) throws(DatabaseError) {
        guard !news.isEmpty else { return }
        let routes = routes.current
        let messages = news.compactMap { news in
            routes.first { $0.row == news.integration }.map {
                OperationalMessage(news.kind, of: $0, reason: news.reason, messages: news.messages)
            }
        }
        try OperationalMessage.tell(messages, routes: routes, on: session)
    }

    private func writeAttempts(_ batch: [Settlement], on session: borrowing Session) throws(DatabaseError) {
        try session.copy(QueueStatements.attempts, batch)
    }

    /// A pause uses up no gap, nor does a failed probe: the delivery waits as it was.
    private func writeRetries(_ batch: [Settlement], lease: Int64, on session: borrowing Session) throws(DatabaseError)
    {
        let waiting: [(Int64, Int16, Int64)] = batch.compactMap { settlement in
            let made = settlement.delivery.attemptsMade
            return switch settlement.verdict {
            case .retry(let delay): (settlement.delivery.id, Int16(clamping: made + 1), delay.wholeMilliseconds)
            case .kept(let delay): (settlement.delivery.id, Int16(clamping: made), delay.wholeMilliseconds)
            case .paused: (settlement.delivery.id, Int16(clamping: made), 0)
            case .accepted, .dead: nil
            }
        }.sorted { $0.0 < $1.0 }
        guard !waiting.isEmpty else { return }
        _ = try session.run(
            QueueStatements.retry, (waiting.map(\.0), waiting.map(\.1), waiting.map(\.2), lease))
    }

    private func writePauses(
        _ batch: [Settlement], on session: borrowing Session
    ) throws(DatabaseError) -> [(integration: Int32, reason: String)] {
        var reasons: [Int32: String] = [:]
        for settlement in batch {
            if case .paused(let reason) = settlement.verdict { reasons[settlement.delivery.integration] = reason }
        }
        var paused: [(integration: Int32, reason: String)] = []
        for (integration, reason) in reasons.sorted(by: { $0.key < $1.key }) {
            let isNew = try !session.run(QueueStatements.pause, (integration, reason)).isEmpty
            if isNew { paused.append((integration, reason)) }
        }
        return paused
    }

    private func writeDeadLetters(_ dead: [Settlement], on session: borrowing Session) throws(DatabaseError) {
        let letters: [(Settlement, String)] = dead.compactMap { settlement in
            if case .dead(let reason) = settlement.verdict { (settlement, reason) } else { nil }
        }
        guard !letters.isEmpty else { return }
        let deliveries = letters.map(\.0.delivery)
        _ = try session.execute(
            QueueStatements.deadLetters,
            (
                deliveries.map(\.id), deliveries.map(\.message), deliveries.map(\.integration),
                deliveries.map(\.purchase), deliveries.map { Int16(clamping: $0.attemptsMade + 1) },
                letters.map { letter in Self.lastWords(reason: letter.1, failure: letter.0.failure) },
                letters.map { $0.0.httpStatus.map { Int16(clamping: $0) } },
                deliveries.map(\.createdAt.milliseconds)
            ))
    }

    /// Why it was given up and how the last attempt failed; a failure that says the reason itself says it once.
    private static func lastWords(reason: String, failure: String?) -> String {
        guard let failure else { return reason }
        return failure.hasPrefix(reason) ? failure : "\(reason): \(failure)"
    }
}

extension Settlement.Verdict {
    /// Settled means accepted or dead: the delivery leaves the queue.
    package var isFinal: Bool {
        switch self {
        case .accepted, .dead: true
        case .retry, .kept, .paused: false
        }
    }

    package var outcome: Outcome {
        switch self {
        case .accepted: .accepted
        case .retry, .kept: .retry
        case .dead: .dead
        case .paused: .paused
        }
    }
}
