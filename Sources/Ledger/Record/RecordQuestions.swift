import Postgres
import Vocabulary

/// What a batch wants to know, asked in one go and answered in one wait: which of its events are new, what is known of
/// their holders and purchases, and, of a small batch, what waits in front of them and row ids for what they may cause:
/// a wide one asks for these when it knows for what, because that is less, and one wait in so many events is nothing.
/// Where an event concerns purchases that it does not name, there is one wait more: those are to be found first.
///
/// It asks for all of its events, before it knows which are new: a duplicate's purchase is locked and not used.
struct RecordQuestions {
    /// An event as it came in, the first of its identity in the batch.
    struct Arrival {
        let event: Event
        let key: Identifier
        let digest: Identifier
        let purchase: Identifier?

        init(_ event: Event, key: Identifier, digest: Identifier) {
            self.event = event
            self.key = key
            self.digest = digest
            purchase = event.purchase.map { Identity.purchase($0, in: event.scope) }
        }
    }

    /// Messages beyond one an event for which row ids are drawn in advance: a transfer tells two.
    private static let messagesBeyondEvents = 4
    /// Row ids of deliveries that are drawn in advance at most: of many integrations few may want the event.
    private static let deliveryIDsMax = 64

    let admitted: Asked<(Identifier, Int64, Int64)>
    private let holders: HolderAnswers
    private let purchases: Asked<RecordStatements.PurchaseRow>?
    private let ordered: [Int32]
    private let occupied: Asked<(Identifier, Int32, Int64)>?
    private let rowIDs: Asked<([Int64], [Int64])>?

    init(_ arrivals: [Arrival], of recorder: RecordEvents, on session: borrowing Session) throws(DatabaseError) {
        admitted = try session.ask(RecordStatements.admit, (arrivals.map(\.key), arrivals.map(\.digest)))
        holders = try HolderLoading(arrivals.map(\.event), rules: recorder.rules).ask(on: session)
        // Locks come in one order everywhere: identities, then purchases.
        let wanted = holders.purchases.union(arrivals.compactMap(\.purchase)).sorted()
        purchases = wanted.isEmpty ? nil : try session.ask(RecordStatements.lockPurchases, wanted)
        ordered = recorder.routes.filter { $0.integration.order == .purchase }.map(\.row)
        let isSmall = arrivals.count < recorder.copiedEventsMin ?? .max
        occupied =
            isSmall && !wanted.isEmpty && !ordered.isEmpty
            ? try session.ask(RecordStatements.occupied, (wanted, ordered)) : nil
        let messages = arrivals.count + Self.messagesBeyondEvents
        let deliveries = messages * recorder.routes.count
        rowIDs =
            isSmall && deliveries <= Self.deliveryIDsMax
            ? try session.ask(RecordStatements.rowIDs, (Int32(messages), Int32(deliveries))) : nil
    }

    /// A plan that knows what the database knows.
    func plan(rules: [String: SourceRules], on session: borrowing Session) throws(DatabaseError) -> RecordPlan {
        var rows: [Identifier: RecordPlan.PurchaseRow] = [:]
        if let purchases {
            for row in try session.answer(to: purchases) { rows[row.0] = try Self.purchase(from: row) }
        }
        return RecordPlan(purchases: rows, holders: try holders.knowledge(on: session), rules: rules)
    }

    /// The last unsettled delivery of each lane of these purchases that has one.
    func heads(
        of purchases: [Identifier], on session: borrowing Session
    ) throws(DatabaseError) -> [FanOut.Lane: Int64] {
        if purchases.isEmpty || ordered.isEmpty { return [:] }
        let rows =
            if let occupied {
                try session.answer(to: occupied)
            } else {
                try session.run(RecordStatements.occupied, (purchases, ordered))
            }
        return Dictionary(
            rows.map { (FanOut.Lane(purchase: $0.0, integration: $0.1), $0.2) }, uniquingKeysWith: { first, _ in first }
        )
    }

    /// Row ids, ascending: those drawn in advance, or as many as there must be.
    func rowIDs(
        messages: Int, deliveries: Int, on session: borrowing Session
    ) throws(DatabaseError) -> (messages: [Int64], deliveries: [Int64]) {
        if messages == 0 { return ([], []) }
        if let rowIDs, let drawn = try session.answer(to: rowIDs).first,
            drawn.0.count >= messages, drawn.1.count >= deliveries
        {
            return (Array(drawn.0.prefix(messages)), Array(drawn.1.prefix(deliveries)))
        }
        return try session.run(RecordStatements.rowIDs, (Int32(messages), Int32(deliveries))).first ?? ([], [])
    }

    private static func purchase(
        from row: RecordStatements.PurchaseRow
    ) throws(DatabaseError) -> RecordPlan.PurchaseRow {
        let state: PurchaseState
        do throws(PurchaseState.Unreadable) {
            state = try PurchaseState(bytes: row.11)
        } catch {
            throw .protocolViolation(reason: "the state of purchase \(row.0.hex) cannot be read: \(error)")
        }
        return RecordPlan.PurchaseRow(
            scope: Scope(source: row.1, app: row.2, environment: row.3),
            purchase: Purchase(
                key: row.5, kind: Purchase.Kind(rawValue: row.6) ?? .subscription, store: row.4, product: row.7,
                plan: row.8, subscriptionID: row.9),
            asOf: Timestamp(milliseconds: row.10), state: state, isNew: false)
    }
}
