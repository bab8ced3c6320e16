import Vocabulary

/// The events of one transaction and what becomes of each.
struct EventBatch {
    /// A class, because it is passed on more often than it is read.
    final class Arrival: Sendable {
        let event: Event
        /// The event key as it is written.
        let key: Identifier
        /// The event key in the other of its two forms (`LedgerForm.timedKeys`): the event may be stored under it.
        let otherKey: Identifier
        /// `KeyHash.eventHash`.
        let hash: Identifier
        /// Of what every webhook of the event repeats: the body, most often.
        let digest: Identifier
        /// The hash of its purchase.
        let purchaseHash: Identifier?

        init(_ event: Event, in form: LedgerForm) {
            hash = KeyHash.eventHash(event)
            let newest = KeyHash.eventKey(event, hash: hash)
            (key, otherKey) = form >= .timedKeys ? (newest, hash) : (hash, newest)
            digest = KeyHash.body(event.repeated ?? event.body)
            // An event that names nobody states nothing of anybody's access: it is one about no purchase.
            self.event = event.holder == nil ? event.replacing(purchase: nil, transaction: nil, facts: []) : event
            purchaseHash = self.event.purchase.map { KeyHash.purchase($0, in: event.scope) }
        }
    }

    /// Of an event key that this batch adds. An event without one is a duplicate.
    enum Disposition {
        /// It gets this row of `events`.
        case new(row: Int64)
        case conditionFailed
        /// In quarantine, with its row there. Nil: it was erased before.
        case setAside(quarantine: Int64?, reason: String)
        /// Nothing is stored of it, and its sender is answered so (`Event.isOfBackend`).
        case unavailable(reason: String)
    }

    /// All events, in their order.
    let all: [Arrival]
    /// The first event with each event key.
    let firsts: [Arrival]
    /// By event key.
    var dispositions: [Identifier: Disposition] = [:]
    /// The database's time at the start of the transaction; nil: no event key was added.
    var databaseTime: Timestamp?
    /// Ids of purchases by their hashes: of those that are stored, and of those that this batch creates.
    private var purchases: [Identifier: Identifier] = [:]
    private let isFirst: [Bool]
    private let form: LedgerForm

    init(_ events: [Event], in form: LedgerForm) {
        self.form = form
        var seen: Set<Identifier> = []
        let all = events.map { Arrival($0, in: form) }
        let isFirst = all.map { seen.insert($0.key).inserted }
        firsts = zip(all, isFirst).filter { $1 }.map { $0.0 }
        (self.all, self.isFirst) = (all, isFirst)
    }

    /// The id of the purchase with this hash.
    func id(ofPurchase hash: Identifier) -> Identifier? { purchases[hash] }

    /// The id of the purchase that an event names.
    func purchase(of arrival: Arrival) -> Identifier? { arrival.purchaseHash.flatMap(id) }

    /// Takes the ids of the stored purchases, by hash, and gives an id to each new one: its hash behind the
    /// database's time, so that purchases of one time lie together.
    mutating func assignIDs(stored: [Identifier: Identifier]) {
        purchases = stored
        guard let databaseTime else { return }
        for hash in firsts.compactMap(\.purchaseHash) where purchases[hash] == nil {
            purchases[hash] = form >= .timedKeys ? hash.behind(databaseTime) : hash
        }
    }

    /// The events that are to be recorded.
    var newEvents: [BatchPlan.PlannedEvent] {
        firsts.compactMap { arrival in
            guard case .new(let row) = dispositions[arrival.key] else { return nil }
            return BatchPlan.PlannedEvent(arrival, row: row, purchase: purchase(of: arrival))
        }
    }

    /// Nil: a duplicate.
    func disposition(of index: Int) -> Disposition? {
        let disposition = dispositions[all[index].key]
        if case .new = disposition, !isFirst[index] { return nil }
        return disposition
    }
}
