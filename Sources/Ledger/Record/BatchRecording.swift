import Postgres
import Vocabulary

/// Records a batch of events in one transaction. Nothing is half-written, and what is committed misses no receiver.
///
/// Order of locks: Architecture.md, "Locks". Two batches can still deadlock on a purchase that both create; PostgreSQL
/// ends one of them, and it is run again.
struct BatchRecording {
    /// The result for one event of the batch.
    enum Outcome: Sendable {
        case recorded(EventTrail)
        case duplicate(EventTrail, differsNow: Bool)
        /// The event is conditional, and its condition does not hold; or what is known of its token does not fit it any
        /// more (`KnownTokens`).
        case conditionFailed
        /// The state of its purchase cannot be read: the event is in quarantine. Nil: it was erased before.
        case setAside(source: String, quarantine: Int64?, reason: String)
        /// A statement of the backend that is not stored: the same, as quarantine cannot read it; or its request has
        /// been answered 503 already.
        case unavailable(reason: String)
    }

    struct Committed: Sendable {
        var outcomes: [Outcome] = []
        /// The event key of each event of the batch, in its order.
        var keys: [Identifier] = []
        /// Deliveries that the acknowledgement of an event waits for: those to integrations with `confirm`, with their
        /// time-outs.
        var awaited: [Identifier: [Int64: Duration]] = [:]
        /// Ordering keys in which this batch's deliveries are blocked by one that was in the table, and that delivery.
        var blocked: [(key: FanOut.OrderingKey, head: Int64)] = []
        var observations: [Observation] = []
        /// Keys of purchases that a change of holders of this batch came too late to move.
        var unmoved: [String] = []
        /// Stored changes of holders that cannot be read and were left out, by row.
        var leftOut: [Int64: HolderChangeRow.Unreadable] = [:]
        /// The database's time at the start of the transaction.
        var databaseTime: Timestamp?
        /// Whether a change of a holder was not applied yet to all the purchases that it concerns.
        var isUnfinished = false
    }

    /// Another batch created one of the purchases first: this one is run again, as after a serialisation failure.
    static let purchaseRace = DatabaseError.refused(
        Refusal(sqlState: "40001", message: "another batch created one of its purchases first"))

    /// A source of the batch turned out to have changes of holders, which were not looked up: this batch is run again.
    static let changingRace = DatabaseError.refused(
        Refusal(sqlState: "40001", message: "the first change of holders of one of its sources was found"))

    /// A message is there already: this batch is run again in `WriteMode.insertIfAbsent`, as after a unique violation.
    static let messageIsThere = DatabaseError.refused(
        Refusal(sqlState: "23505", message: "one of its messages is there already"))

    let routes: RouteTable
    let rules: [String: SourceRules]
    var changing = ChangingSources()
    let dispatchBuffer: DispatchBuffer
    /// The daemon that leases are written for; nil: nothing is leased.
    let daemon: Int64?
    /// The form in which the ledger is written.
    var ledgerForm: LedgerForm
    let mode: WriteMode
    /// Purchases of one holder that one transaction moves; further transactions move the rest (`ChangeContinuation`).
    var changePurchasesMax = Limits.changePurchasesMax
    /// `BatchPlan.announcesImports`.
    var announcesImports = false

    /// Records the events inside a transaction of `session`: admits those whose keys are new, loads what is known of
    /// them, plans their rows and writes them. The caller commits and then hands over what was leased
    /// (`Recorder.transact`). `reserved` collects what must be released if the transaction does not commit.
    func run(
        _ events: [Event], on session: borrowing Session, reserved: inout Reservations
    ) throws(DatabaseError) -> Committed {
        var batch = EventBatch(events, in: ledgerForm)
        try lockSources(of: batch.all, on: session)
        let reads = try BatchReads(batch.firsts, of: self, on: session)
        try admit(&batch, by: reads, on: session)
        let purchases = try reads.loadPurchases(on: session)
        batch.assignIDs(stored: purchases.ids)
        let tokens = try reads.loadTokens(on: session)
        let holders = try reads.loadHolders(on: session) { [batch] in batch.id(ofPurchase: $0) }
        try setAside(&batch, unreadable: purchases.unreadable, on: session)
        var committed = Committed(keys: batch.all.map(\.key), databaseTime: batch.databaseTime)
        var caused: [Identifier: BatchWrite.Caused] = [:]
        if let now = batch.databaseTime, let plan = try plan(&batch, purchases, holders, tokens, now, on: session) {
            for id in reads.unnamed.intersection(purchases.unreadable.keys).sorted() {
                committed.observations.append(.warning(Self.leftOut(id)))
            }
            let write = BatchWrite(
                plan: plan, recording: self, queueReads: reads.queueReads, createdAt: now)
            caused = try write.run(on: session, reserved: &reserved, into: &committed)
        } else if batch.dispositions.isEmpty {
            // A duplicate may be committed here and not yet at a standby, if the wait for it was cut short. PostgreSQL
            // skips the standby wait for a transaction that wrote nothing, so this one writes to the log.
            try session.enqueue(RecordStatements.wait, ())
        }
        committed.outcomes = try outcomes(of: batch, caused, on: session)
        return committed
    }

    /// Locks the sources of the events, because a webhook of a purchase and a statement about its holder must not miss
    /// each other: an event with such a statement is recorded while no other batch of that source runs.
    private func lockSources(of arrivals: [EventBatch.Arrival], on session: borrowing Session) throws(DatabaseError) {
        var sources: [String: Bool] = [:]
        for arrival in arrivals {
            let (source, isExclusive) = (arrival.event.scope.source, arrival.event.change != nil)
            if isExclusive || sources[source] == nil { sources[source] = isExclusive }
        }
        // Two sources may have the same key.
        let locks = Dictionary(
            sources.map { (KeyHash.lock(ofSource: $0.key), $0.value) }, uniquingKeysWith: { $0 || $1 })
        for (key, isExclusive) in locks.sorted(by: { $0.key < $1.key }) {
            let statement = isExclusive ? HolderStatements.lock : HolderStatements.lockShared
            try session.enqueue(statement, session.halfLockKey(key))
        }
    }

    /// Finds which event keys are new.
    private func admit(
        _ batch: inout EventBatch, by reads: BatchReads, on session: borrowing Session
    ) throws(DatabaseError) {
        let admitted = try session.answer(to: reads.admitted)
        for row in admitted { batch.dispositions[row.key] = .new(row: row.event) }
        batch.databaseTime = admitted.first.map { Timestamp(milliseconds: $0.now) }
        guard let unknown = reads.changing else { return }
        let found = try session.answer(to: unknown)
        changing.add(found)
        if !found.isEmpty { throw Self.changingRace }
    }

    /// Quarantines the events of purchases whose state cannot be read, or refuses those that could not be read again
    /// there, and removes their event keys; the other events of the batch continue.
    private func setAside(
        _ batch: inout EventBatch, unreadable: [Identifier: String], on session: borrowing Session
    ) throws(DatabaseError) {
        var pending: [(arrival: EventBatch.Arrival, reason: String, row: PendingRows<Int64>)] = []
        var refused: [Identifier] = []
        for arrival in batch.firsts where batch.dispositions[arrival.key] != nil {
            guard let reason = batch.purchase(of: arrival).flatMap({ unreadable[$0] }) else { continue }
            let event = arrival.event
            if event.isOfBackend {
                refused.append(arrival.key)
                batch.dispositions[arrival.key] = .unavailable(reason: reason)
                continue
            }
            let id = event.vendorEventID.map { Array($0.utf8) }
            let columns = (event.scope.source, reason, KeyHash.body(event.body), event.body, event.answer, id)
            pending.append((arrival, reason, try session.enqueueQuery(RecordStatements.quarantine, columns)))
        }
        if pending.isEmpty, refused.isEmpty { return }
        try session.enqueue(RecordStatements.forget, pending.map(\.arrival.key) + refused)
        for (arrival, reason, row) in pending {
            batch.dispositions[arrival.key] = .setAside(quarantine: try session.answer(to: row).first, reason: reason)
        }
    }

    /// Plans the rows of the new events.
    /// - Returns: nil if there are none.
    private func plan(
        _ batch: inout EventBatch, _ purchases: LoadedPurchases, _ holders: HolderKnowledge, _ tokens: KnownTokens,
        _ now: Timestamp, on session: borrowing Session
    ) throws(DatabaseError) -> BatchPlan? {
        let newEvents = batch.newEvents
        guard !newEvents.isEmpty else { return nil }
        var refused: [Identifier: EventBatch.Disposition] = [:]
        let plan = try purchases.plan(holders, rules: rules, in: ledgerForm, on: session) { plan in
            // The plan may be built more than once.
            refused = [:]
            // Read behind the locks: what was recorded before they were granted may have been stated later.
            let instant = ContinuousClock.now
            plan.tokens = tokens
            plan.announcesImports = announcesImports
            for new in newEvents {
                let newest = new.purchase.flatMap { plan.purchases[$0]?.asOf }
                if let limit = new.event.admittedUntil, limit < instant {
                    refused[new.key] = .unavailable(reason: Recorder.lateReason)
                } else if plan.admits(new.event, newest: newest),
                    plan.tokens.admit(new.event, newest: newest, now: now)
                {
                    plan.add(new)
                } else {
                    refused[new.key] = .conditionFailed
                }
            }
        }
        for (key, disposition) in refused { batch.dispositions[key] = disposition }
        // If the event comes again after a lost answer, its condition must be checked again.
        if !refused.isEmpty { try session.enqueue(RecordStatements.forget, refused.keys.sorted()) }
        return plan
    }

    private func outcomes(
        of batch: EventBatch, _ caused: [Identifier: BatchWrite.Caused], on session: borrowing Session
    ) throws(DatabaseError) -> [Outcome] {
        var differing = try differing(of: batch, on: session)
        return batch.all.enumerated().map { index, arrival in
            switch batch.disposition(of: index) {
            case .conditionFailed: return .conditionFailed
            case .setAside(let row, let reason):
                return .setAside(source: arrival.event.scope.source, quarantine: row, reason: reason)
            case .unavailable(let reason): return .unavailable(reason: reason)
            case .new: return .recorded(Self.trail(of: arrival, caused[arrival.key] ?? BatchWrite.Caused()))
            case nil:
                let differsNow = differing[arrival.key] == arrival.digest
                if differsNow { differing[arrival.key] = nil }
                return .duplicate(Self.trail(of: arrival, BatchWrite.Caused()), differsNow: differsNow)
            }
        }
    }

    /// Among the duplicates: the event keys that came with other bytes for the first time, and the digests of those
    /// bytes.
    private func differing(
        of batch: EventBatch, on session: borrowing Session
    ) throws(DatabaseError) -> [Identifier: Identifier] {
        let repeated = batch.all.indices.filter { batch.disposition(of: $0) == nil }.map { batch.all[$0] }
            .sorted { $0.key < $1.key }
        guard !repeated.isEmpty else { return [:] }
        let digests = repeated.map(\.digest)
        let found = try session.run(
            RecordStatements.differing, (repeated.map(\.key) + repeated.map(\.otherKey), digests + digests))
        let keys = Dictionary(firstOf: repeated.map { ($0.otherKey, $0.key) })
        return Dictionary(firstOf: found.map { (keys[$0.key] ?? $0.key, $0.digest) })
    }

    private static func trail(of arrival: EventBatch.Arrival, _ caused: BatchWrite.Caused) -> EventTrail {
        let event = arrival.event
        return EventTrail(
            source: event.scope.source, event: event.vendorEventID ?? arrival.key.eventID, name: event.name,
            transaction: event.transaction?.storeTransactionID, purchase: event.purchase?.key,
            messages: caused.messages, deliveries: caused.deliveries)
    }

    static func leftOut(_ purchase: Identifier) -> String {
        """
        the stored state of purchase \(purchase.hex) cannot be read: it was left out when all purchases of its holder \
        moved; posthouse repair \(purchase.hex) rebuilds it
        """
    }
}

/// Deliveries that a transaction has leased, each with a slot of the dispatch buffer.
struct Reservations {
    private(set) var deliveries: [Delivery] = []

    init(_ deliveries: [Delivery] = []) { self.deliveries = deliveries }

    mutating func take(_ delivery: Delivery) { deliveries.append(delivery) }

    func giveBack(to dispatchBuffer: DispatchBuffer) {
        for (integration, taken) in Dictionary(grouping: deliveries, by: \.integration) {
            dispatchBuffer.release(integration, taken.count, bytes: taken.reduce(0) { $0 + $1.message.bytes })
        }
        dispatchBuffer.drop(deliveries)
    }
}
