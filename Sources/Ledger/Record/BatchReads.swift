import Postgres
import Vocabulary

/// The reads of a batch, sent together and answered in one wait: which of its events are new, and what is known of
/// their holders and purchases. If an event concerns purchases that it does not name, there is one more wait, because
/// those must be found first.
///
/// It reads for all events, before it knows which are new: a duplicate's purchase is locked and not used.
struct BatchReads {
    let admitted: PendingRows<RecordStatements.Admitted>
    /// Which sources of the batch have changes of holders, of those not known to have any; nil: all are known to.
    let changing: PendingRows<String>?
    let queueReads: QueueReads
    private let holders: PendingHolderRows
    private let purchases: PendingRows<RecordTables.PurchaseRow>?
    /// Of purchases with a renewal that may convert a trial; nil: there is none.
    private let purchasePeriods: PendingRows<PurchasePeriod>?
    /// Of purchases that may have been paused; nil: there is none.
    private let statuses: PendingRows<KnownStatus>?
    /// Of the tokens that events name; nil: none names any.
    private let tokens: PendingRows<RecordTables.TokenRow>?

    init(
        _ arrivals: [EventBatch.Arrival], of recording: BatchRecording, on session: borrowing Session
    ) throws(DatabaseError) {
        let hasTimedKeys = recording.ledgerForm >= .timedKeys
        admitted = try session.enqueueQuery(
            hasTimedKeys ? RecordStatements.admit : RecordStatements.admitBeforeTimedKeys,
            (arrivals.map(\.key), arrivals.map(\.otherKey), arrivals.map(\.digest)))
        let stating = arrivals.filter { $0.event.change != nil }.map(\.event.scope.source)
        let known = recording.changing.known.union(stating)
        let unknown = Set(arrivals.map(\.event.scope.source)).subtracting(known)
        changing = unknown.isEmpty ? nil : try session.enqueueQuery(HolderStatements.changing, unknown.sorted())
        holders = try HolderLoader(arrivals, changing: known)
            .enqueueQueries(in: recording.ledgerForm, on: session, purchasesMax: recording.changePurchasesMax)
        // Locks are taken in one order everywhere: event keys, then purchases.
        let (unnamed, named) = (holders.purchases, Set(arrivals.compactMap(\.purchaseHash)))
        if unnamed.isEmpty, named.isEmpty {
            purchases = nil
        } else if hasTimedKeys {
            purchases = try session.enqueueQuery(
                RecordStatements.lockNamedPurchases, (named.sorted(), unnamed.sorted()))
        } else {
            purchases = try session.enqueueQuery(RecordStatements.lockPurchases, unnamed.union(named).sorted())
        }
        // Behind the locks, so that a trial that another batch records meanwhile is seen.
        let renewed = arrivals.compactMap { arrival in
            arrival.event.mayConvertTrial
                ? arrival.purchaseHash.flatMap { hash in
                    arrival.event.transaction.map { (hash, ($0.purchasedAt ?? arrival.event.occurredAt).milliseconds) }
                } : nil
        }
        purchasePeriods =
            renewed.isEmpty
            ? nil
            : try session.enqueueQuery(
                hasTimedKeys ? PurchasePeriodStatements.ofNamed : PurchasePeriodStatements.ofIDs,
                (renewed.map(\.0), renewed.map(\.1)))
        let resumed = Set(arrivals.compactMap { $0.event.typeIfPaused == nil ? nil : $0.purchaseHash })
        statuses =
            resumed.isEmpty
            ? nil
            : try session.enqueueQuery(
                hasTimedKeys ? KnownStatusStatements.ofNamed : KnownStatusStatements.ofIDs, resumed.sorted())
        // Behind the locks, too: what another batch records meanwhile of a purchase's tokens must be seen.
        let tokensNamed = arrivals.flatMap { arrival in
            arrival.event.tokens.map { (arrival.event.scope.source, $0.token) }
        }
        tokens =
            tokensNamed.isEmpty
            ? nil
            : try session.enqueueQuery(KnownTokens.statement, (tokensNamed.map(\.0), tokensNamed.map(\.1)))
        // Purchases that no event names are not known by their hashes: then nothing is read ahead.
        let ahead = unnamed.isEmpty ? named.sorted() : []
        queueReads =
            recording.mode == .copy
            ? QueueReads(recording.routes)
            : try QueueReads(
                recording.routes, readingAheadFor: arrivals.count, of: ahead, in: recording.ledgerForm, on: session)
    }

    /// What is known of the purchases; waits for the answers.
    func loadPurchases(on session: borrowing Session) throws(DatabaseError) -> LoadedPurchases {
        guard let purchases else { return LoadedPurchases([]) }
        let rows = try session.answer(to: purchases)
        var (known, paused): ([PurchasePeriod], [KnownStatus]) = ([], [])
        if let purchasePeriods { known = try session.answer(to: purchasePeriods) }
        if let statuses { paused = try session.answer(to: statuses) }
        return LoadedPurchases(rows, purchasePeriods: known, statuses: paused)
    }

    /// What is known of the tokens; waits for the answers.
    func loadTokens(on session: borrowing Session) throws(DatabaseError) -> KnownTokens {
        guard let tokens else { return KnownTokens() }
        return KnownTokens(try session.answer(to: tokens))
    }

    /// What is known of the holders; waits for the answers.
    /// - Parameter purchase: the id of the purchase with a hash.
    func loadHolders(
        on session: borrowing Session, purchase: (Identifier) -> Identifier?
    ) throws(DatabaseError) -> HolderKnowledge {
        try holders.knowledge(on: session, purchase: purchase)
    }

    /// Purchases that events concern without naming them.
    var unnamed: Set<Identifier> { holders.purchases }
}
