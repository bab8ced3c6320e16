package import Postgres
package import Vocabulary

/// Erases one person's data: the person's webhooks, their messages, and messages about transfers from or to the person,
/// except what another's webhook announced about its own holder. The id is removed wherever else it occurs. A user is
/// erased together with its known anonymous ids.
///
/// - What is the person's alone is deleted. Where data is others', too, a nameless holder replaces the person: a
///   purchase that passed on keeps who held it in between (`PurchaseState.renaming`), another's webhook reads `erased`
///   in place of the id, also where it is sealed (`SealedText`).
/// - Waiting deliveries are given up without a message about it; those that a daemon has leased end first
///   (`Tally.inHand`), others' that name the person, too: they are sent from memory.
/// - The relay keeps a salted hash of each webhook, so that a late duplicate is recognised and not stored.
/// - A change of holders that moves the person's purchases, or moves others' to the person, ends first
///   (`Tally.isMoving`): until then a purchase that it has not reached looks like the person's alone.
///
/// Runs in steps of one transaction each, under the locks of recording (`BatchRecording`). If it is interrupted, it
/// continues when it is run again for each of its ids. A dry run does the same without writing: after an erasure it
/// must find nothing, which proves it.
///
/// A purchase's state and the changes of its holders must name the person alike: a webhook that met the one under the
/// stand-in and the other under the id would announce a transfer between the two. So both are renamed together, source
/// by source, while nothing of that source is recorded (`eraseHolders`).
package struct Erasure: Sendable {
    package struct Tally: Sendable {
        package var events = 0
        package var messages = 0
        /// Deliveries given up.
        package var deliveries = 0
        package var purchases = 0
        /// Entitlements, transfers, links, logins: rows that name the person in a column.
        package var records = 0
        /// Others' webhooks, messages and last errors that named the person.
        package var mentions = 0
        package var quarantined = 0
        /// Deliveries that a daemon has leased: the later stages were skipped, run it again.
        package var inHand = 0
        /// Webhooks of the person came meanwhile, or one that makes an own holder somebody else's, too: the later
        /// stages were skipped, run it again.
        package var isOvertaken = false
        /// A change of holders is not applied to all purchases of the person yet: nothing was erased, run it again.
        package var isMoving = false

        package init() {}

        package var total: Int {
            events + messages + deliveries + purchases + records + mentions + quarantined + inHand
        }
    }

    /// Events, or messages, of one transaction.
    static let stepMax: Int32 = 200

    let ids: [ErasedID]
    let source: String?
    let isDry: Bool
    /// Installs that are known to be the user and to be somebody else, too: what is stored under them stays.
    package var sharedInstalls: [Holder] = []
    /// Those of the holders that are purchases' own.
    var ownHolders: Set<Holder> = []

    /// The holders to erase: the requested one, first, its known anonymous ids, and the holders of purchases' own that
    /// are nobody else. A UUID is one in capital letters, too.
    package var holders: [Holder] { ids.map(\.holder) }

    var storageKeys: [String] { ids.map(\.holder.storageKey) }
    var anonymousIDs: [String] { holders.filter(\.isAnonymous).map(\.id) }
    var userIDs: [String] { holders.filter { !$0.isAnonymous }.map(\.id) }

    /// - Parameter source: nil: all sources. Ids of different sources may belong to different people.
    package static func start(
        _ holder: Holder, source: String?, isDry: Bool, in pool: Pool
    ) async throws(DatabaseError) -> Erasure {
        try await pool.withSession { session throws(DatabaseError) in
            var holders = ErasedID.spellings(of: holder)
            var linked: [Holder] = []
            for user in holders where !user.isAnonymous {
                linked += try session.run(EraseStatements.linked, (user.id, source)).sorted().map(Holder.anonymous)
            }
            // A stand-in is nobody, although it was the first install of an identity.
            linked.removeAll(where: ErasedID.isStandIn)
            let spelled = Set(linked.flatMap(ErasedID.spellings)).sorted()
            let foreign = try session.run(
                EraseStatements.sharedInstalls, (spelled.map(\.id), holders.map(\.id), source)
            ).map(Holder.anonymous)
            let shared = linked.filter { !Set(ErasedID.spellings(of: $0)).isDisjoint(with: foreign) }
            linked = spelled.filter { Set(ErasedID.spellings(of: $0)).isDisjoint(with: foreign) }
            linked.removeAll { holders.contains($0) }
            let (known, own) = try findOwnHolders(of: holders, linked: linked, source: source, on: session)
            holders += known + own
            let hashes = try session.run(EraseStatements.standIns, holders.map(\.storageKey))
            guard hashes.count == holders.count else { throw withoutSalt }
            let ids = zip(holders, hashes).map {
                ErasedID(holder: $0, standIn: ErasedID.standIn($1))
            }
            return Erasure(
                ids: ids, source: source, isDry: isDry, sharedInstalls: Set(shared).sorted(), ownHolders: Set(own))
        }
    }

    private static let withoutSalt = DatabaseError.protocolViolation(
        reason: """
            the table erasure_salt has no row, and nothing can be erased without one: put back that of a backup, by \
            which late duplicates of what was erased before are recognised, or else make a new one: INSERT INTO \
            erasure_salt (salt) VALUES \
            (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')))
            """)

    /// A dry run of the same erasure, which finds what is left.
    package var proof: Erasure {
        Erasure(ids: ids, source: source, isDry: true, sharedInstalls: sharedInstalls, ownHolders: ownHolders)
    }

    /// - Parameter progress: called before each stage and between its steps.
    package func run(in pool: Pool, progress: (String) async -> Void) async throws(DatabaseError) -> Tally {
        let erasure = try await pool.withSession { session throws(DatabaseError) -> Erasure? in
            try isMoving(on: session) ? nil : try withoutShared(on: session)
        }
        guard let erasure else {
            var tally = Tally()
            tally.isMoving = true
            return tally
        }
        return try await erasure.runStages(in: pool, progress: progress)
    }

    private func runStages(in pool: Pool, progress: (String) async -> Void) async throws(DatabaseError) -> Tally {
        var tally = Tally()
        await progress("events")
        var own = Own()
        // Before purchases are deleted, and rows counted here with them: a dry run finds the same.
        let records = try await countRecords(in: pool)
        try await eraseEvents(in: pool, into: &tally, &own)
        try await eraseMessagesOfOthers(in: pool, into: &tally, &own)
        tally.purchases = own.purchases.count
        if !isDry, tally.inHand > 0 || tally.isOvertaken { return tally }
        await progress("purchases")
        let found = try await findPurchases(in: pool)
        if !isDry {
            // What came during that long reading: it is found by indexes, so the next stage is not overtaken again.
            try await eraseEvents(in: pool, into: &tally, &own)
            try await eraseMessagesOfOthers(in: pool, into: &tally, &own)
            tally.purchases = own.purchases.count
            if tally.inHand > 0 || tally.isOvertaken { return tally }
        }
        await progress("holders")
        tally.records = records
        tally.isOvertaken = try await !eraseHolders(found, in: pool, &own)
        tally.purchases = own.purchases.count
        if tally.isOvertaken {
            tally.records -= try await countRecords(in: pool)
            return tally
        }
        await progress("mentions")
        let isWhole = try await eraseElsewhere(in: pool, into: &tally, besides: own)
        tally.isOvertaken = !isWhole
        return tally
    }

    // MARK: Events and their messages

    /// The person's own rows: a dry run leaves them in place, and they are not mentions.
    struct Own: Sendable {
        var events: Set<Int64> = []
        var messages: Set<Int64> = []
        var purchases: Set<Identifier> = []
    }

    /// Those of own holders first: only what is the person's by name leads to them, so that a run that was cut off must
    /// have left it.
    private func eraseEvents(in pool: Pool, into tally: inout Tally, _ own: inout Own) async throws(DatabaseError) {
        if !isDry, !ownHolders.isEmpty {
            try await eraseEvents(of: ownHolders.map(\.storageKey).sorted(), in: pool, into: &tally, &own)
            if tally.inHand > 0 || tally.isOvertaken { return }
        }
        try await eraseEvents(of: storageKeys, in: pool, into: &tally, &own)
    }

    private func eraseEvents(
        of storageKeys: [String], in pool: Pool, into tally: inout Tally, _ own: inout Own
    ) async throws(DatabaseError) {
        var (after, stray): (Int64, [EraseStatements.OwnEvent]?) = (0, nil)
        while stray?.isEmpty != true {
            let wanted = (storageKeys, source, after, Self.stepMax)
            let page = try await eraseEvents(in: pool, into: &tally, &own) { session throws(DatabaseError) in
                try session.run(EraseStatements.strayEvents, wanted)
            }
            (after, stray) = (page.last?.id ?? after, page)
        }
        var purchases = [Identifier(high: 0, low: 0)]
        while let last = purchases.last, !tally.isOvertaken {
            let wanted = (storageKeys, last, Self.stepMax)
            purchases = try await pool.withSession { session throws(DatabaseError) in
                try session.run(EraseStatements.purchasesOf, wanted)
            }
            try await eraseEvents(of: storageKeys, on: purchases, in: pool, into: &tally, &own)
        }
    }

    private func eraseEvents(
        of storageKeys: [String], on purchases: [Identifier], in pool: Pool, into tally: inout Tally,
        _ own: inout Own
    ) async throws(DatabaseError) {
        var after: Int64? = purchases.isEmpty ? nil : 0
        while let from = after {
            let wanted = (storageKeys, source, from, Self.stepMax, purchases)
            after = try await eraseEvents(in: pool, into: &tally, &own) { session throws(DatabaseError) in
                try session.run(EraseStatements.eventsOf, wanted)
            }.last?.id
        }
    }

    /// Erases one page of the person's events.
    /// - Returns: the page; empty: there is none, or it was overtaken.
    private func eraseEvents(
        in pool: Pool, into tally: inout Tally, _ own: inout Own,
        _ read: @escaping @Sendable (borrowing Session) throws(DatabaseError) -> [EraseStatements.OwnEvent]
    ) async throws(DatabaseError) -> [EraseStatements.OwnEvent] {
        let page = try await pool.retriedTransaction { session throws(DatabaseError) in
            let page = try read(session)
            if !isDry { _ = try session.execute(EraseStatements.remember, page.map(\.key)) }
            return page
        }
        if page.isEmpty { return [] }
        let erased = try await pool.retriedTransaction {
            session throws(DatabaseError) -> (Forgotten, Int, Set<Identifier>)? in
            if !isDry {
                try Requeue.lock(on: session)
                try lockSources(of: page, on: session)
                _ = try session.execute(EraseStatements.lockEvents, page.map(\.id))
            }
            let messages = try session.run(EraseStatements.messagesOf, page.map(\.id))
            guard let forgotten = try forget(messages, of: page.compactMap(\.purchase), on: session) else { return nil }
            let gone = page.filter { !forgotten.busyEvents.contains($0.id) }
            if !isDry {
                _ = try session.execute(EraseStatements.eventKeys, gone.map(\.key))
                _ = try session.execute(EraseStatements.deleteEvents, gone.map(\.id))
            }
            let alone = try deleteAlone(Set(gone.compactMap(\.purchase)).sorted(), on: session)
            return (forgotten, gone.count, alone)
        }
        guard let (forgotten, gone, alone) = erased else {
            tally.isOvertaken = true
            return []
        }
        await Queue.unblock(successorsOf: forgotten.heads, in: pool)
        tally.events += gone
        own.events.formUnion(page.map(\.id))
        own.purchases.formUnion(alone)
        forgotten.add(to: &tally, &own)
        return page
    }

    /// A change of holders of one of these sources is either committed, and seen (`isMoving`), or waits.
    private func lockSources(
        of page: [EraseStatements.OwnEvent], on session: borrowing Session
    ) throws(DatabaseError) {
        let sources = try session.run(EraseStatements.sourcesOf, page.map(\.id))
        try session.lockShared(sources: sources)
    }

    /// Whether a change of holders that concerns the person is not applied to all purchases yet. One that cannot be
    /// read never will be.
    func isMoving(on session: borrowing Session) throws(DatabaseError) -> Bool {
        if isDry { return false }
        return try session.run(HolderStatements.unfinishedAmong, (storageKeys, source)).contains { unfinished in
            if case .success = unfinished.change { true } else { false }
        }
    }

    /// Erases messages that others' events caused about transfers from and to the person: those of the person's events
    /// are gone. What an event announced of its own holder stays, and is rewritten with the other mentions: whoever got
    /// a purchase from the person still has it, and receivers must learn so.
    private func eraseMessagesOfOthers(in pool: Pool, into tally: inout Tally, _ own: inout Own)
        async throws(DatabaseError)
    {
        var after: Int64 = 0
        while true {
            let wanted = (storageKeys, source, after, Self.stepMax)
            let (last, forgotten) = try await pool.retriedTransaction {
                session throws(DatabaseError) -> (Int64?, Forgotten?) in
                if !isDry { try Requeue.lock(on: session) }
                let messages = try session.run(EraseStatements.messagesOfOthers, wanted)
                return (messages.last?.id, try forget(messages, of: [], on: session))
            }
            guard let last else { return }
            guard let forgotten else {
                tally.isOvertaken = true
                return
            }
            await Queue.unblock(successorsOf: forgotten.heads, in: pool)
            after = last
            forgotten.add(to: &tally, &own)
        }
    }

    private struct Forgotten: Sendable {
        var messages: Set<Int64> = []
        var deliveries = 0
        var inHand = 0
        var busyEvents: Set<Int64> = []
        /// What the deliveries that were given up may have blocked: to be unblocked after the commit, because what is
        /// settled meanwhile passes over a row that this transaction has locked (`Successors`).
        var heads: Set<FanOut.OrderingKey> = []

        func add(to tally: inout Tally, _ own: inout Own) {
            tally.messages += messages.count
            own.messages.formUnion(messages)
            tally.deliveries += deliveries
            tally.inHand += inHand
        }
    }

    /// Gives up waiting deliveries of these messages, and deletes the messages that have no unsettled delivery. The
    /// caller holds the lock of replays, so that none puts them into the queue again meanwhile. Locks every purchase
    /// before it deletes anything (Architecture.md, "Locks").
    /// - Parameter purchases: more that this transaction deletes from.
    /// - Returns: nil if an own holder has become somebody else's, or a change of holders concerns the person: then
    ///   nothing is deleted.
    private func forget(
        _ messages: [EraseStatements.CausedMessage], of purchases: [Identifier], on session: borrowing Session
    ) throws(DatabaseError) -> Forgotten? {
        var forgotten = Forgotten()
        let rows = messages.map(\.id)
        var gone: [EraseStatements.GivenUp] = []
        if !isDry {
            _ = try session.execute(
                RequeueStatements.lockPurchases, Set(messages.compactMap(\.purchase) + purchases).sorted())
            if try isMoving(on: session) { return nil }
            if try isShared(on: session) { return nil }
            gone = try session.run(EraseStatements.giveUp, rows)
            forgotten.deliveries = gone.count
            let heads = gone.compactMap { row in
                row.purchase.map { FanOut.OrderingKey(purchase: $0, integration: row.integration) }
            }
            forgotten.heads = Set(heads)
        }
        let left = try session.run(EraseStatements.unsettled, rows)
        forgotten.inHand = left.count(where: \.isLeased)
        if isDry { forgotten.deliveries = left.count - forgotten.inHand }
        let busy = isDry ? [] : Set(left.map(\.message))
        forgotten.busyEvents = Set(messages.filter { busy.contains($0.id) }.map(\.event))
        let free = rows.filter { !busy.contains($0) }
        forgotten.messages = Set(free)
        guard !isDry else { return forgotten }
        let staying = gone.filter { busy.contains($0.message) }
        if !staying.isEmpty {
            _ = try session.execute(
                EraseStatements.recordDiscards, (staying.map(\.message), staying.map(\.integration)))
        }
        _ = try session.execute(EraseStatements.deadLetters, free)
        _ = try session.execute(EraseStatements.excerpts, free)
        _ = try session.execute(EraseStatements.messages, free)
        return forgotten
    }
}
