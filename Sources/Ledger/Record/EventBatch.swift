import Vocabulary

/// The events of one transaction and what becomes of each.
struct EventBatch {
    struct Arrival {
        let event: Event
        let key: Identifier
        /// Of the body.
        let digest: Identifier
        let purchase: Identifier?

        init(_ event: Event) {
            self.event = event
            key = KeyHash.event(event)
            digest = KeyHash.body(event.body)
            purchase = event.purchase.map { KeyHash.purchase($0, in: event.scope) }
        }
    }

    /// Of an event key that this batch adds. An event without one is a duplicate.
    enum Fate {
        /// It gets this row of `events`.
        case new(row: Int64)
        case refused
        /// In quarantine, with its row there. Nil: it was erased before.
        case setAside(quarantine: Int64?, reason: String)
    }

    /// All events, in their order.
    let all: [Arrival]
    /// The first event with each event key.
    let firsts: [Arrival]
    /// By event key.
    var fates: [Identifier: Fate] = [:]
    /// The database's time at the start of the transaction; nil: no event key was added.
    var databaseTime: Timestamp?
    private let isFirst: [Bool]

    init(_ events: [Event]) {
        var seen: Set<Identifier> = []
        let all = events.map(Arrival.init)
        let isFirst = all.map { seen.insert($0.key).inserted }
        firsts = zip(all, isFirst).filter { $1 }.map { $0.0 }
        (self.all, self.isFirst) = (all, isFirst)
    }

    /// The events that are to be recorded.
    var news: [BatchPlan.New] {
        firsts.compactMap { arrival in
            if case .new(let row) = fates[arrival.key] { BatchPlan.New(arrival, row: row) } else { nil }
        }
    }

    /// Nil: a duplicate.
    func fate(of index: Int) -> Fate? {
        let fate = fates[all[index].key]
        if case .new = fate, !isFirst[index] { return nil }
        return fate
    }
}
