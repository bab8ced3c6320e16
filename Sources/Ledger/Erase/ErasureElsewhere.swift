import Postgres
import Vocabulary

/// Data beyond the person's own webhooks and purchases: rows that name the person, and mentions in others' data.
extension Erasure {
    func countRecords(in pool: Pool) async throws(DatabaseError) -> Int {
        let wanted = (storageKeys, anonymousIDs, userIDs, source)
        return try await pool.withSession { session throws(DatabaseError) in
            Int(try session.run(EraseRecordStatements.found, wanted).first ?? 0)
        }
    }

    /// Erases what is not the person's own.
    /// - Returns: false if an own holder has become somebody else's: the rest was left.
    func eraseElsewhere(
        in pool: Pool, into tally: inout Tally, besides own: Own
    ) async throws(DatabaseError) -> Bool {
        guard let mentions = try await eraseMentions(in: pool, besides: own) else { return false }
        tally.mentions += mentions.erased
        tally.inHand += mentions.inHand.count
        if !mentions.inHand.isEmpty { return true }
        guard let quarantined = try await eraseQuarantine(in: pool) else { return false }
        tally.quarantined += quarantined
        guard let words = try await eraseWords(in: pool, besides: own) else { return false }
        tally.mentions += words
        // Last: the links say which anonymous ids the person has, and running this again needs that.
        return try await eraseLinks(in: pool)
    }

    /// Erases what joins several ids to one person.
    private func eraseLinks(in pool: Pool) async throws(DatabaseError) -> Bool {
        if isDry { return true }
        let (anonymous, users) = (anonymousIDs, userIDs)
        let standIns = ids.filter(\.holder.isAnonymous).map(\.standIn.id)
        let isDone: Bool? = try await unlessShared(in: pool) { session throws(DatabaseError) in
            _ = try session.execute(EraseStatements.links, (anonymous, users, source))
            _ = try session.execute(EraseStatements.installIdentities, (users, source))
            _ = try session.execute(EraseStatements.identityInstalls, (anonymous, standIns, source))
            return true
        }
        return isDone ?? false
    }

    /// Runs a step in a transaction of its own, and takes it back if an own holder is somebody else's by then.
    ///
    /// That is asked after the step, so no lock is needed: a webhook whose rows the step could meet was committed
    /// before the question, which then sees it; one that is committed later has lost nothing to the step. Locks would
    /// keep webhooks out for as long as a step reads, which may be a whole day of attempts.
    ///
    /// - Returns: nil if it was taken back.
    private func unlessShared<Value: Sendable>(
        in pool: Pool, _ step: @escaping @Sendable (borrowing Session) throws(DatabaseError) -> Value
    ) async throws(DatabaseError) -> Value? {
        try await pool.retriedDecidedTransaction {
            session throws(DatabaseError) -> TransactionVerdict<Value?> in
            let value = try step(session)
            return try isShared(on: session) ? .rollBack(nil) : .commit(value)
        }
    }

    /// What became of rows in which a needle occurs.
    private struct Mentions: Sendable {
        var erased = 0
        /// Deliveries that daemons have leased and send from memory: their rows are left to the next run. A delivery
        /// may be of two rows, of a webhook and of its message.
        var inHand: Set<Int64> = []
        /// Of locked deliveries that are blocked: to be unblocked after the commit, because what is settled meanwhile
        /// passes over a locked row (`Successors`).
        var blocked: Set<FanOut.OrderingKey> = []

        static let nothing = Mentions()
        static let one = Mentions(erased: 1)

        private init(erased: Int = 0) { self.erased = erased }

        /// None of the deliveries is leased before the transaction that has locked them ends: a claim passes over a
        /// locked row, and reads the message when it has locked it.
        init(locked deliveries: [EraseScans.LockedDelivery]) {
            inHand = Set(deliveries.filter(\.isLeased).map(\.id))
            blocked = Set(deliveries.filter(\.isBlocked).compactMap(\.orderingKey))
        }
    }

    /// Erases the id from others' webhooks and messages.
    ///
    /// Where a purchase has no other name than its anonymous holder, others who have it now need that name: it stays in
    /// what they received, and nothing says any more that it was a holder, neither does a line of an import.
    ///
    /// A webhook that a vendor signed is not one any more without the id. What is left of it stays readable here, and
    /// waiting messages that would repeat it byte for byte are sent in the standard shape instead.
    private func eraseMentions(in pool: Pool, besides own: Own) async throws(DatabaseError) -> Mentions? {
        let storageKeys = storageKeys
        let wanted = (anonymousIDs, storageKeys, source)
        let shared = try await pool.withSession { session throws(DatabaseError) in
            try session.run(EraseScans.sharedKeys, wanted)
        }
        let all = self.ids
        let ids = all.filter { id in
            !id.holder.isAnonymous || !shared.contains { $0.utf8.elementsEqual(id.holder.id.utf8) }
        }
        let inEvents = try await scan(EraseScans.events, for: (all.needles, all.sealedNeedles), in: pool) {
            row, session throws(DatabaseError) in
            guard !own.events.contains(row), let stored = try session.run(EraseScans.body, row).first
            else { return .nothing }
            // The person's own, and yet not found before: it came meanwhile. Counted by the proof, and left to the next
            // run.
            if storageKeys.contains(stored.holder) { return isDry ? .one : .nothing }
            let body = ids.redaction(ofStored: stored.body, naming: all)
            let answer = stored.answer.flatMap(ids.redacted)
            guard body != nil || answer != nil else { return .nothing }
            if isDry { return .one }
            var found = Mentions(locked: try body == nil ? [] : session.run(EraseScans.deliveriesOfEvent, row))
            if !found.inHand.isEmpty { return found }
            _ = try session.execute(
                EraseScans.rewriteBody, (row, body?.bytes ?? stored.body, answer ?? stored.answer))
            if let body, body.lostSignature {
                _ = try session.execute(EraseScans.passOnInStandard, (row, body.bytes + Message.envelopeEnd))
            }
            found.erased = 1
            return found
        }
        guard let inEvents else { return nil }
        if ids.isEmpty { return inEvents }
        let inMessages = try await scan(EraseScans.messages, for: (ids.needles, ids.sealedNeedles), in: pool) {
            row, session throws(DatabaseError) in
            guard !own.messages.contains(row), let stored = try session.run(EraseScans.message, row).first
            else { return .nothing }
            if let holder = stored.holder, storageKeys.contains(holder) { return isDry ? .one : .nothing }
            let newEnvelope = ids.redacted(stored.envelope)
            let newDerived = stored.derivedBody.flatMap(ids.redacted)
            // What the person had goes as a whole, not the name alone.
            let isInAccess = stored.access.map { ids.redacted($0) != nil } ?? false
            guard newEnvelope != nil || newDerived != nil || isInAccess else { return .nothing }
            if isDry { return .one }
            var found = Mentions(locked: try session.run(EraseScans.deliveriesOfMessage, row))
            if !found.inHand.isEmpty { return found }
            let derived = newDerived ?? stored.derivedBody
            let access = isInAccess ? nil : stored.access
            _ = try session.execute(
                EraseScans.rewriteMessage, (row, newEnvelope ?? stored.envelope, derived, access))
            found.erased = 1
            return found
        }
        guard var mentions = inMessages else { return nil }
        mentions.erased += inEvents.erased
        mentions.inHand.formUnion(inEvents.inHand)
        return mentions
    }

    /// Deletes quarantined bodies that name the person, or whose event's id does: nobody can read whose they are. A
    /// reason that alone has the id may quote it, or have it for a word: then the reason goes, and the body stays.
    private func eraseQuarantine(in pool: Pool) async throws(DatabaseError) -> Int? {
        let ids = ids
        let sealed = ids.reduce(into: Set<[UInt8]>()) { $0.formUnion($1.sealedWords) }
        let needles = (ids.map { Array($0.holder.id.utf8) } + ids.needles, Array(sealed) + ids.sealedNeedles)
        let found = try await scan(EraseScans.quarantine, for: needles, in: pool) {
            row, session throws(DatabaseError) in
            guard let kept = try session.run(EraseScans.quarantined, row).first else { return .nothing }
            if [kept.body, kept.answer ?? [], kept.eventID ?? []].contains(where: ids.occur(inUnreadable:)) {
                if !isDry {
                    _ = try session.execute(EraseStatements.remember, [kept.digest])
                    _ = try session.run(QuarantineStatements.discard, [row])
                }
                return .one
            }
            let reason = Self.reason(insteadOf: kept.reason)
            guard kept.reason != reason, ids.occur(in: Array(kept.reason.utf8)) else { return .nothing }
            if !isDry { _ = try session.execute(QuarantineStatements.setReason, (row, reason)) }
            return .one
        }
        return found?.erased
    }

    /// Erases what receivers answered, for any message, because an answer about one id may name many. With `source`
    /// only the person's own messages count (`forget`): an answer does not say which source's id it quotes.
    private func eraseWords(in pool: Pool, besides own: Own) async throws(DatabaseError) -> Int? {
        guard source == nil else { return 0 }
        let expression = ids.expression
        let days = try await pool.withSession { session throws(DatabaseError) in
            try session.run(Upkeep.partitions, ()).map(\.1).sorted()
        }
        // One day at a time; also before and after all days, which the default partition holds.
        let edges = [Self.dayMin] + days + (days.last.map { [$0 + 1] } ?? []) + [Self.dayMax]
        var found = 0
        for (from, to) in zip(edges, edges.dropFirst()) {
            let day = Int64(from) * Self.daySeconds..<Int64(to) * Self.daySeconds
            guard let count = try await eraseWords(expression, during: day, in: pool, besides: own) else { return nil }
            found += count
        }
        let statement = isDry ? EraseScans.foundLastWords : EraseScans.lastWords
        let count: Int? = try await unlessShared(in: pool) { session throws(DatabaseError) in
            try session.run(statement, expression).count { !own.messages.contains($0) }
        }
        return count.map { found + $0 }
    }

    /// Erases what receivers answered in seconds since 1970, in halves where the server cannot look through so many in
    /// time.
    private func eraseWords(
        _ expression: String, during seconds: Range<Int64>, in pool: Pool, besides own: Own
    ) async throws(DatabaseError) -> Int? {
        let statement = isDry ? EraseScans.foundAttemptWords : EraseScans.attemptWords
        do throws(DatabaseError) {
            return try await unlessShared(in: pool) { session throws(DatabaseError) in
                try session.run(statement, (expression, seconds.lowerBound, seconds.upperBound))
                    .count { !own.messages.contains($0) }
            }
        } catch  where error.isStatementTimeout && seconds.count > 1 {
            let middle = seconds.lowerBound + Int64(seconds.count / 2)
            guard
                let first = try await eraseWords(
                    expression, during: seconds.lowerBound..<middle, in: pool, besides: own),
                let second = try await eraseWords(
                    expression, during: middle..<seconds.upperBound, in: pool, besides: own)
            else { return nil }
            return first + second
        }
    }

    private static let daySeconds: Int64 = 86_400

    /// Days since 1970 of the years 1000 and 9000, well within PostgreSQL's dates and timestamps.
    private static let (dayMin, dayMax): (Int32, Int32) = (-354_285, 2_567_682)

    /// Calls `body` for every row in which a needle occurs, each in a transaction of its own.
    /// - Returns: what became of them; nil if an own holder has become somebody else's.
    private func scan(
        _ statement: Statement<([[UInt8]], Int64, Int32, String?, [[UInt8]]), EraseScans.Scanned>,
        for needles: (clear: [[UInt8]], sealed: [[UInt8]]), in pool: Pool,
        _ body: @escaping @Sendable (Int64, borrowing Session) throws(DatabaseError) -> Mentions
    ) async throws(DatabaseError) -> Mentions? {
        var (after, mentions) = (Int64(0), Mentions.nothing)
        var rows = EraseScans.pageRows(needles: needles.clear.count + needles.sealed.count)
        while true {
            let page = try await readPage(of: &rows, in: pool) { [source, after] rows, session throws(DatabaseError) in
                try session.run(statement, (needles.clear, after, rows, source, needles.sealed))
            }
            for row in page where row.isHit {
                let found: Mentions? = try await unlessShared(in: pool) { session throws(DatabaseError) in
                    // Otherwise a replay could be about to put the message into the queue as it was.
                    if !isDry { try Requeue.lock(on: session) }
                    return try body(row.id, session)
                }
                guard let found else { return nil }
                await Queue.unblock(successorsOf: found.blocked, in: pool)
                mentions.erased += found.erased
                mentions.inHand.formUnion(found.inHand)
            }
            guard let last = page.last?.id, page.count == Int(rows) else { return mentions }
            after = last
        }
    }

    /// By how it begins a line of an import is known for one (`ImportLine.setAside`).
    static func reason(insteadOf reason: String) -> String {
        reason.utf8.starts(with: LoadedPurchases.unreadableOpening.utf8)
            ? LoadedPurchases.unreadablePrefix(key: ErasedID.replacement) : ErasedID.replacement
    }

    /// Reads a page of at most `rows` rows; of fewer, here and later, if the server cannot search so many in time,
    /// because they are large.
    func readPage<Row: Sendable>(
        of rows: inout Int32, in pool: Pool,
        _ read: @escaping @Sendable (Int32, borrowing Session) throws(DatabaseError) -> [Row]
    ) async throws(DatabaseError) -> [Row] {
        while true {
            let limit = rows
            do throws(DatabaseError) {
                return try await pool.withSession { session throws(DatabaseError) in try read(limit, session) }
            } catch  where error.isStatementTimeout && rows > 1 {
                rows /= 2
            }
        }
    }
}

enum EraseRecordStatements {
    /// How many rows name holders ($1), anonymous ids ($2) or users ($3).
    static let found = Statement<([String], [String], [String], String?), Int64>(
        "erase_found_records",
        """
        SELECT (SELECT count(*) FROM transfers t WHERE (from_holder = ANY ($1) OR to_holder = ANY ($1)) AND ($4 IS NULL
                    OR EXISTS (SELECT FROM purchases p WHERE p.id = t.purchase AND p.source = $4)))
             + (SELECT count(*) FROM entitlements e WHERE holder = ANY ($1) AND ($4 IS NULL
                    OR EXISTS (SELECT FROM purchases p WHERE p.id = e.purchase AND p.source = $4)))
             + (SELECT count(*) FROM holder_links WHERE (anonymous_user_id = ANY ($2) OR user_id = ANY ($3))
                    AND ($4 IS NULL OR source = $4))
             + (SELECT count(*) FROM install_identities WHERE (install = ANY ($2) OR identity = ANY ($3))
                    AND ($4 IS NULL OR source = $4))
             + (SELECT count(*) FROM installs WHERE install = ANY ($2) AND ($4 IS NULL OR source = $4))
             + (SELECT count(*) FROM holder_changes WHERE (subject = ANY ($1) OR target = ANY ($1)
                    OR second_target = ANY ($1)) AND ($4 IS NULL OR source = $4))
        """)
}
