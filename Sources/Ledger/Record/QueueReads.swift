import Postgres
import Vocabulary

/// What a batch reads from the queue: the unsettled deliveries that block those of its purchases, and row ids for the
/// messages and deliveries that it may cause. A small batch queries both in advance. A wide one queries once it knows
/// what it needs: it then needs less, and one wait for so many events hardly matters.
struct QueueReads {
    /// Messages for which row ids are drawn in advance, beyond one for each event: a transfer announces two.
    private static let messagesBeyondEvents = 4
    /// Row ids of deliveries drawn in advance, at most: of many integrations few may select the event.
    private static let deliveryIDsMax = 64
    /// Ordered integrations for which a batch asks before it knows which of them its messages go to, at most.
    private static let orderedMax = 64

    private let ordered: [Int32]
    private let occupied: PendingRows<RecordStatements.Head>?
    private let rowIDs: PendingRows<RecordStatements.RowIDs>?

    /// Queries nothing in advance.
    init(_ routes: RouteTable) {
        ordered = routes.ordered
        occupied = nil
        rowIDs = nil
    }

    /// - Parameter purchases: by their hashes.
    init(
        _ routes: RouteTable, readingAheadFor events: Int, of purchases: [Identifier], in form: LedgerForm,
        on session: borrowing Session
    ) throws(DatabaseError) {
        ordered = routes.ordered
        occupied =
            !purchases.isEmpty && !ordered.isEmpty && ordered.count <= Self.orderedMax
            ? try session.enqueueQuery(
                form >= .four ? RecordStatements.occupiedByNamed : RecordStatements.occupied, (purchases, ordered))
            : nil
        let messages = events + Self.messagesBeyondEvents
        let deliveries = messages * routes.all.count
        rowIDs =
            deliveries <= Self.deliveryIDsMax
            ? try session.enqueueQuery(RecordStatements.rowIDs, (Int32(messages), Int32(deliveries))) : nil
    }

    /// The last unsettled delivery of each ordering key of these purchases that has one.
    /// - Parameter receivers: the ordered integrations that the batch's messages go to. Others may be in the answer,
    ///   where they were asked for in advance.
    func heads(
        of purchases: [Identifier], for receivers: @autoclosure () -> Set<Int32>, on session: borrowing Session
    ) throws(DatabaseError) -> [FanOut.OrderingKey: Int64] {
        if purchases.isEmpty || ordered.isEmpty { return [:] }
        let rows: [RecordStatements.Head]
        if let occupied {
            rows = try session.answer(to: occupied)
        } else {
            let wanted = ordered.count <= Self.orderedMax ? ordered : receivers().sorted()
            rows = wanted.isEmpty ? [] : try session.run(RecordStatements.occupied, (purchases, wanted))
        }
        return Dictionary(
            firstOf: rows.map { (FanOut.OrderingKey(purchase: $0.purchase, integration: $0.integration), $0.delivery) })
    }

    /// Row ids, ascending, at least so many: those drawn in advance if they are enough, otherwise newly drawn ones.
    func rowIDs(
        messages: Int, deliveries: Int, on session: borrowing Session
    ) throws(DatabaseError) -> RecordStatements.RowIDs {
        let none = RecordStatements.RowIDs(messages: [], deliveries: [])
        if messages == 0 { return none }
        if let rowIDs, let drawn = try session.answer(to: rowIDs).first,
            drawn.messages.count >= messages, drawn.deliveries.count >= deliveries
        {
            return drawn
        }
        return try session.run(RecordStatements.rowIDs, (Int32(messages), Int32(deliveries))).first ?? none
    }
}
