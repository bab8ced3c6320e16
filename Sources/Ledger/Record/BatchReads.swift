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
    private let holders: HolderAnswers
    private let purchases: PendingRows<RecordTables.PurchaseRow>?

    init(
        _ arrivals: [EventBatch.Arrival], of recorder: RecordEvents, on session: borrowing Session
    ) throws(DatabaseError) {
        admitted = try session.enqueueQuery(RecordStatements.admit, (arrivals.map(\.key), arrivals.map(\.digest)))
        let stating = arrivals.filter { $0.event.change != nil }.map(\.event.scope.source)
        let known = recorder.changing.known.union(stating)
        let unknown = Set(arrivals.map(\.event.scope.source)).subtracting(known)
        changing = unknown.isEmpty ? nil : try session.enqueueQuery(HolderStatements.changing, unknown.sorted())
        holders = try HolderLoading(arrivals, changing: known)
            .enqueueQueries(on: session, purchasesMax: recorder.changePurchasesMax)
        // Locks are taken in one order everywhere: event keys, then purchases.
        let wanted = holders.purchases.union(arrivals.compactMap(\.purchase)).sorted()
        purchases = wanted.isEmpty ? nil : try session.enqueueQuery(RecordStatements.lockPurchases, wanted)
        queueReads =
            recorder.mode == .copy
            ? QueueReads(recorder.routes)
            : try QueueReads(recorder.routes, readingAheadFor: arrivals.count, of: wanted, on: session)
    }

    /// What is known; waits for the answers.
    func load(on session: borrowing Session) throws(DatabaseError) -> (LoadedPurchases, HolderKnowledge) {
        let rows = if let purchases { try session.answer(to: purchases) } else { [RecordTables.PurchaseRow]() }
        return (LoadedPurchases(rows), try holders.knowledge(on: session))
    }

    /// Purchases that events concern without naming them.
    var unnamed: Set<Identifier> { holders.purchases }
}
