import Postgres
import Vocabulary

/// A message that is to be delivered to an integration once more, or for the first time.
struct Requeued: Hashable, Sendable {
    let message: Int64
    let integration: Int32
    let purchase: Identifier?
}

/// Puts deliveries of existing messages into the queue, as recording does for new messages.
///
/// Runs in one transaction with the caller's other work. Steps of several operators take turns (`lock`). Purchases are
/// locked in ascending order, so that a webhook of one that is recorded meanwhile and this see each other, and one
/// message of a purchase is blocked by the other.
struct Requeue {
    /// Deliveries of one transaction.
    static let stepMax: Int32 = 500
    /// Key of the advisory lock by which steps of several operators take turns: "requeued" as bytes.
    private static let lockKey: Int64 = 0x7265_7175_6575_6564

    /// Integrations with `order = "purchase"`.
    let ordered: Set<Int32>

    /// Takes the lock; comes first in a transaction that requeues. What the transaction then reads of the history and
    /// of what waits, in one statement, no other operator changes before it ends. Deleting messages takes it, too.
    static func lock(on session: borrowing Session) throws(DatabaseError) {
        _ = try session.run(Upkeep.lockStatement, session.lockKey(lockKey))
    }

    /// Writes the deliveries. The transaction holds `lock`.
    /// - Parameter new: in message order. The messages exist, and none of them waits to be delivered.
    func write(_ new: [Requeued], on session: borrowing Session) throws(DatabaseError) {
        guard !new.isEmpty else { return }
        let purchases = Set(new.compactMap(\.purchase)).sorted()
        _ = try session.execute(RequeueStatements.lockPurchases, purchases)
        guard let ids = try session.run(RecordStatements.rowIDs, (0, Int32(new.count))).first?.deliveries else {
            throw .protocolViolation(reason: "drawing row ids came to nothing")
        }
        let blocked = try blocked(new, purchases, on: session)
        let rows = zip(zip(ids, new), blocked).map { row, isBlocked in
            let (id, requeued) = row
            return RecordTables.DeliveryRow(
                id: id, message: requeued.message, integration: requeued.integration, purchase: requeued.purchase,
                isBlocked: isBlocked, leasedBy: nil)
        }
        _ = try session.execute(RecordTables.deliveries.insert, rows)
        _ = try session.execute(RecordStatements.notify, "")
    }

    private func blocked(
        _ new: [Requeued], _ purchases: [Identifier], on session: borrowing Session
    ) throws(DatabaseError) -> [Bool] {
        var occupied: Set<FanOut.OrderingKey> = []
        let integrations = ordered.intersection(new.map(\.integration)).sorted()
        if !purchases.isEmpty, !integrations.isEmpty {
            occupied = Set(try session.run(RequeueStatements.occupied, (purchases, integrations)))
        }
        return new.map { requeued in
            guard ordered.contains(requeued.integration), let purchase = requeued.purchase else { return false }
            return !occupied.insert(FanOut.OrderingKey(purchase: purchase, integration: requeued.integration)).inserted
        }
    }
}

enum RequeueStatements {
    /// Locks purchases in the order of their ids.
    static let lockPurchases = Statement<[Identifier], Identifier>(
        "requeue_lock_purchases", "SELECT id FROM purchases WHERE id = ANY ($1) ORDER BY id FOR UPDATE")

    /// The last unsettled delivery of each ordering key. The share lock makes its settling wait for this transaction,
    /// so that unblocking its successor sees what is added here. If it is settled already, it is not found.
    static let occupied = Statement<([Identifier], [Int32]), FanOut.OrderingKey>(
        "requeue_occupied",
        """
        SELECT p.id, i.id
        FROM unnest($1) AS p (id) CROSS JOIN unnest($2) AS i (id)
        CROSS JOIN LATERAL (
            SELECT 1 FROM deliveries d WHERE d.purchase = p.id AND d.integration = i.id
            ORDER BY d.id DESC LIMIT 1 FOR KEY SHARE
        ) AS last
        """, row: FanOut.OrderingKey.init)

    static let removeDeadLetters = Statement<([Int64], [Int32]), ()>(
        "requeue_remove_dead_letters",
        """
        DELETE FROM dead_letters l USING unnest($1, $2) AS r (message, integration)
        WHERE l.message = r.message AND l.integration = r.integration
        """)
}
