import Postgres
import Vocabulary

/// What a batch reads from the queue: the unsettled deliveries that block those of its purchases, and row ids for the
/// messages and deliveries that it causes. A small batch queries both in advance. A wide one queries once it knows what
/// it needs: it then needs less, and one wait for so many events hardly matters.
struct QueueReads {
    /// Messages for which row ids are drawn in advance, beyond one for each event: a transfer announces two.
    private static let messagesBeyondEvents = 4
    /// Row ids of deliveries drawn in advance, at most: of many integrations few may select the event.
    private static let deliveryIDsMax = 64
    /// Ordered integrations for which a batch asks before it knows which of them its messages go to, at most.
    private static let orderedMax = 64

    /// Row ids that were drawn in advance.
    private struct Drawn {
        let messages: Int
        let deliveries: Int
        let rows: PendingRows<RecordStatements.RowIDs>
    }

    private let ordered: [Int32]
    private let occupied: PendingRows<RecordStatements.Head>?
    private let drawn: Drawn?

    /// Queries nothing in advance.
    init(_ routes: RouteTable) {
        ordered = routes.ordered
        occupied = nil
        drawn = nil
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
                form >= .timedKeys ? RecordStatements.occupiedByNamed : RecordStatements.occupied, (purchases, ordered))
            : nil
        let messages = events + Self.messagesBeyondEvents
        let deliveries = messages * routes.all.count
        drawn =
            deliveries <= Self.deliveryIDsMax
            ? Drawn(
                messages: messages, deliveries: deliveries,
                rows: try session.enqueueQuery(RecordStatements.rowIDs, (Int32(messages), Int32(deliveries))))
            : nil
    }

    /// What a batch needs once its deliveries are planned; one wait for what was not queried in advance.
    /// - Parameters:
    ///   - purchases: their ids.
    ///   - receivers: the ordered integrations that the batch's messages go to. Others may be in the answer, where they
    ///     were asked for in advance.
    /// - Returns: the last unsettled delivery of each ordering key of these purchases that has one; row ids, ascending,
    ///   at least so many.
    func rows(
        headsOf purchases: [Identifier], for receivers: @autoclosure () -> Set<Int32>, messages: Int, deliveries: Int,
        on session: borrowing Session
    ) throws(DatabaseError) -> (heads: [FanOut.OrderingKey: Int64], ids: RecordStatements.RowIDs) {
        let heads = try heads(of: purchases, for: receivers(), on: session)
        let ids = try rowIDs(messages: messages, deliveries: deliveries, on: session)
        let found = try heads.map { heads throws(DatabaseError) in try session.answer(to: heads) } ?? []
        let numbers = try ids.map { ids throws(DatabaseError) in try session.answer(to: ids) } ?? []
        return (
            Dictionary(
                firstOf: found.map {
                    (FanOut.OrderingKey(purchase: $0.purchase, integration: $0.integration), $0.delivery)
                }),
            numbers.first ?? RecordStatements.RowIDs(messages: [], deliveries: [])
        )
    }

    private func heads(
        of purchases: [Identifier], for receivers: @autoclosure () -> Set<Int32>, on session: borrowing Session
    ) throws(DatabaseError) -> PendingRows<RecordStatements.Head>? {
        if purchases.isEmpty || ordered.isEmpty { return nil }
        if let occupied { return occupied }
        let wanted = ordered.count <= Self.orderedMax ? ordered : receivers().sorted()
        return wanted.isEmpty ? nil : try session.enqueueQuery(RecordStatements.occupied, (purchases, wanted))
    }

    private func rowIDs(
        messages: Int, deliveries: Int, on session: borrowing Session
    ) throws(DatabaseError) -> PendingRows<RecordStatements.RowIDs>? {
        if messages == 0 { return nil }
        if let drawn, drawn.messages >= messages, drawn.deliveries >= deliveries { return drawn.rows }
        return try session.enqueueQuery(RecordStatements.rowIDs, (Int32(messages), Int32(deliveries)))
    }
}
