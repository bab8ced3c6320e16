import Postgres
import Vocabulary

/// Records a batch of events in one transaction: dedupe, resolve, fan out. Nothing is half-written, and what is
/// committed misses no receiver.
///
/// Order of locks: the sources, event keys (ascending), existing purchases (ascending), then inserts. Two batches can
/// still deadlock on a purchase that both create; PostgreSQL ends one of them, and it is run again.
struct RecordEvents {
    /// The result for one event of the batch.
    enum Outcome: Sendable {
        case recorded(EventTrail)
        case duplicate(EventTrail, differsNow: Bool)
        /// The event is conditional, and its condition does not hold.
        case refused
        /// The state of its purchase cannot be read: the event is in quarantine. Nil: it was erased before.
        case setAside(source: String, quarantine: Int64?, reason: String)
    }

    struct Committed: Sendable {
        var outcomes: [Outcome] = []
        /// The event key of each event of the batch, in its order.
        var keys: [Identifier] = []
        /// Deliveries that the acknowledgement of an event waits for: those to integrations with `confirm`, with their
        /// time-outs.
        var awaited: [Identifier: [Int64: Duration]] = [:]
        var dispatched: [Delivery] = []
        /// Ordering keys in which this batch's deliveries are blocked by one that was in the table, and that delivery.
        var blocked: [(key: FanOut.OrderingKey, head: Int64)] = []
        var happenings: [Observation] = []
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

    let routes: [RoutedIntegration]
    let rules: [String: SourceRules]
    var changing = ChangingSources()
    let dispatchBuffer: DispatchBuffer
    /// The daemon that leases are written for; nil: nothing is leased.
    let daemon: Int64?
    /// The form in which purchases are written.
    var stateForm = StateForm.current
    /// Batches of at least so many events are copied: a copy costs one more round trip for each table. A row taken for
    /// new that exists already fails the batch with unique_violation, whether copied or inserted. Nil: nothing is
    /// copied, and purchases and messages that exist already do not cause that error.
    var copiedEventsMin: Int?
    /// Purchases of one holder that one transaction moves; further transactions move the rest (`ChangeContinuation`).
    var changePurchasesMax = Limits.changePurchasesMax

    /// Records the events inside a transaction of `session`; the caller commits. `reserved` collects what must be
    /// released if the transaction does not commit.
    func run(_ events: [Event], on session: borrowing Session, reserved: inout Reservations) throws(DatabaseError)
        -> Committed
    {
        let keys = events.map(KeyHash.event)
        let digests = events.map { KeyHash.body($0.body) }
        var firstByKey: [Identifier: Int] = [:]
        for (index, key) in keys.enumerated() where firstByKey[key] == nil { firstByKey[key] = index }
        let arrivals = events.indices.filter { firstByKey[keys[$0]] == $0 }
            .map { BatchReads.Arrival(events[$0], key: keys[$0], digest: digests[$0]) }
        try lockHolders(of: events, on: session)
        let reads = try BatchReads(arrivals, of: self, on: session)
        let admitted = try session.answer(to: reads.admitted)
        if let unknown = reads.changing {
            let found = try session.answer(to: unknown)
            changing.learn(found)
            if !found.isEmpty { throw Self.changingRace }
        }
        let rows = Dictionary(admitted.map { ($0.0, $0.1) }, uniquingKeysWith: { first, _ in first })
        let (purchases, holders) = try reads.known(on: session)
        let admittedNow = arrivals.filter { rows[$0.key] != nil }
        let unreadable = admittedNow.filter { $0.purchase.map { purchases.unreadable[$0] != nil } ?? false }
        let aside = try setAside(unreadable, purchases, on: session)
        let news = admittedNow.compactMap { arrival in
            aside[arrival.key] == nil ? rows[arrival.key].map { BatchPlan.New(arrival, row: $0) } : nil
        }
        var committed = Committed()
        committed.keys = keys
        committed.databaseTime = admitted.first.map { Timestamp(milliseconds: $0.2) }
        var caused: [Identifier: (messages: Int, deliveries: Int)] = [:]
        var refused: Set<Identifier> = []
        if !news.isEmpty {
            let plan = try purchases.plan(holders, rules: rules, on: session) { plan in
                // The plan may be built more than once.
                refused = []
                for new in news {
                    if plan.admits(new.event) { plan.add(new) } else { refused.insert(new.key) }
                }
            }
            committed.leftOut = plan.holders.leftOut
            // If the event comes again after a lost answer, its condition must be checked again.
            if !refused.isEmpty { try session.enqueue(RecordStatements.forget, refused.sorted()) }
            let write = BatchWrite(
                plan: plan, recorder: self, queueReads: reads.queueReads, createdAt: committed.databaseTime)
            committed.isUnfinished = plan.holders.newChanges.contains { $0.appliedThrough != nil }
            for id in reads.unnamed.intersection(purchases.unreadable.keys).sorted() {
                committed.happenings.append(.warning(Self.leftOut(id)))
            }
            caused = try write.run(on: session, reserved: &reserved, into: &committed)
        } else if aside.isEmpty {
            // A duplicate may be committed here and not yet at a standby, if the wait for it was cut short. PostgreSQL
            // skips the standby wait for a transaction that wrote nothing, so this one writes to the log.
            try session.enqueue(RecordStatements.wait, ())
        }
        let isNew = events.indices.map {
            rows[keys[$0]] != nil && firstByKey[keys[$0]] == $0 && !refused.contains(keys[$0])
        }
        var differing = try differing(
            events.indices.filter { !isNew[$0] && aside[keys[$0]] == nil }, keys: keys, digests: digests, on: session)
        for index in events.indices {
            if refused.contains(keys[index]) {
                committed.outcomes.append(.refused)
                continue
            }
            if let outcome = aside[keys[index]] {
                committed.outcomes.append(outcome)
                continue
            }
            let counts = isNew[index] ? caused[keys[index]] ?? (0, 0) : (0, 0)
            let trail = trail(of: events[index], keys[index], counts)
            let differsNow = !isNew[index] && differing[keys[index]] == digests[index]
            if differsNow { differing[keys[index]] = nil }
            committed.outcomes.append(isNew[index] ? .recorded(trail) : .duplicate(trail, differsNow: differsNow))
        }
        return committed
    }

    /// Quarantines events in the current transaction and removes their event keys; the other events of the batch
    /// continue.
    private func setAside(
        _ arrivals: [BatchReads.Arrival], _ purchases: LoadedPurchases, on session: borrowing Session
    ) throws(DatabaseError) -> [Identifier: Outcome] {
        guard !arrivals.isEmpty else { return [:] }
        try session.enqueue(RecordStatements.forget, arrivals.map(\.key))
        var pending: [(arrival: BatchReads.Arrival, reason: String, row: PendingRows<Int64>)] = []
        for arrival in arrivals {
            let reason = arrival.purchase.flatMap { purchases.unreadable[$0] } ?? ""
            let columns = (arrival.event.scope.source, reason, arrival.digest, arrival.event.body)
            pending.append((arrival, reason, try session.enqueueQuery(RecordStatements.quarantine, columns)))
        }
        var outcomes: [Identifier: Outcome] = [:]
        for (arrival, reason, row) in pending {
            outcomes[arrival.key] = .setAside(
                source: arrival.event.scope.source, quarantine: try session.answer(to: row).first, reason: reason)
        }
        return outcomes
    }

    static func leftOut(_ purchase: Identifier) -> String {
        """
        the stored state of purchase \(purchase.hex) cannot be read: it was left out when all purchases of its holder \
        moved; posthouse repair \(purchase.hex) rebuilds it
        """
    }

    private func trail(
        of event: Event, _ key: Identifier, _ caused: (messages: Int, deliveries: Int)
    ) -> EventTrail {
        EventTrail(
            source: event.scope.source, event: event.vendorEventID ?? key.eventID, name: event.name,
            transaction: event.transaction?.storeTransactionID, purchase: event.purchase?.key,
            messages: caused.messages, deliveries: caused.deliveries)
    }

    /// Among the duplicates at `indices`: the event keys that came with other bytes for the first time, and the digests
    /// of those bytes.
    private func differing(
        _ indices: [Int], keys: [Identifier], digests: [Identifier], on session: borrowing Session
    ) throws(DatabaseError) -> [Identifier: Identifier] {
        let repeated = indices.sorted { keys[$0] < keys[$1] }
        guard !repeated.isEmpty else { return [:] }
        let found = try session.run(
            RecordStatements.differing, (repeated.map { keys[$0] }, repeated.map { digests[$0] }))
        return Dictionary(found, uniquingKeysWith: { first, _ in first })
    }

    /// Locks the sources of the events, because a webhook of a purchase and a statement about its holder must not miss
    /// each other: an event with such a statement is recorded while no other batch of that source runs.
    private func lockHolders(of events: [Event], on session: borrowing Session) throws(DatabaseError) {
        var locks: [Int32: Bool] = [:]
        for event in events {
            let isExclusive = event.change != nil
            let key = KeyHash.lock(ofSource: event.scope.source)
            locks[key] = locks[key] == true || isExclusive
        }
        for (key, isExclusive) in locks.sorted(by: { $0.key < $1.key }) {
            let statement = isExclusive ? HolderStatements.lock : HolderStatements.lockShared
            try session.enqueue(statement, key)
        }
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
