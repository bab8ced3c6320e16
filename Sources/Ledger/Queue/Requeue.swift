import Postgres
import Vocabulary

/// A message that is to go to an integration once more, or for the first time.
struct Requeued: Hashable, Sendable {
    let message: Int64
    let integration: Int32
    let purchase: Identifier?
}

/// Puts deliveries of messages that exist already into the queue, as recording puts those of new ones.
///
/// In one transaction with whatever else its caller does: purchases are locked in ascending order first, so that a
/// webhook of one that is being recorded and this see each other, and one message of a purchase is behind the other.
struct Requeue {
    /// Deliveries of one transaction.
    static let stepMax: Int32 = 500
    /// The key of the advisory lock by which steps of several operators take turns: "requeued" as bytes.
    private static let lock: Int64 = 0x7265_7175_6575_6564

    /// Integrations that asked for one purchase's messages in order.
    let ordered: Set<Int32>

    /// - Parameter wanted: in the order of telling.
    /// - Returns: those that were put in: what waits to be delivered already is left as it is.
    func write(_ wanted: [Requeued], on session: borrowing Session) throws(DatabaseError) -> [Requeued] {
        guard !wanted.isEmpty else { return [] }
        _ = try session.run(Upkeep.lockStatement, Self.lock)
        let purchases = Set(wanted.compactMap(\.purchase)).sorted()
        _ = try session.execute(RequeueStatements.lockPurchases, purchases)
        let new = try new(wanted, on: session)
        guard !new.isEmpty else { return [] }
        let (_, rows) = try session.run(RecordStatements.rowIDs, (0, Int32(new.count))).first ?? ([], [])
        let blocked = try blocked(new, purchases, on: session)
        _ = try session.execute(
            RecordStatements.deliveries,
            (
                rows, new.map(\.message), new.map(\.integration), new.map(\.purchase), blocked,
                [Int64?](repeating: nil, count: new.count)
            ))
        _ = try session.execute(RecordStatements.notify, "")
        return new
    }

    /// Those that do not wait to be delivered already.
    func new(_ wanted: [Requeued], on session: borrowing Session) throws(DatabaseError) -> [Requeued] {
        let waiting = Set(
            try session.run(
                RequeueStatements.waiting,
                (wanted.map(\.message), wanted.map(\.integration), wanted.map(\.purchase))
            ).map { Pair(message: $0.0, integration: $0.1) })
        return wanted.filter { !waiting.contains(Pair(message: $0.message, integration: $0.integration)) }
    }

    private struct Pair: Hashable {
        let message: Int64
        let integration: Int32
    }

    private func blocked(
        _ new: [Requeued], _ purchases: [Identifier], on session: borrowing Session
    ) throws(DatabaseError) -> [Bool] {
        var occupied: Set<FanOut.Lane> = []
        let lanes = ordered.intersection(new.map(\.integration)).sorted()
        if !purchases.isEmpty, !lanes.isEmpty {
            for row in try session.run(RecordStatements.occupied, (purchases, lanes)) {
                occupied.insert(FanOut.Lane(purchase: row.0, integration: row.1))
            }
        }
        return new.map { requeued in
            guard ordered.contains(requeued.integration), let purchase = requeued.purchase else { return false }
            return !occupied.insert(FanOut.Lane(purchase: purchase, integration: requeued.integration)).inserted
        }
    }
}

enum RequeueStatements {
    static let lockPurchases = Statement<[Identifier], Identifier>(
        "requeue_lock_purchases", "SELECT id FROM purchases WHERE id = ANY ($1) ORDER BY id FOR UPDATE")

    /// What waits already. Found by its purchase, which is indexed; what is about none, by its integration.
    static let waiting = Statement<([Int64], [Int32], [Identifier?]), (Int64, Int32)>(
        "requeue_waiting",
        """
        SELECT d.message, d.integration FROM unnest($1, $2, $3) AS w (message, integration, purchase)
        JOIN deliveries d ON d.purchase = w.purchase AND d.integration = w.integration AND d.message = w.message
        UNION ALL
        SELECT d.message, d.integration FROM unnest($1, $2, $3) AS w (message, integration, purchase)
        JOIN deliveries d ON d.purchase IS NULL AND d.integration = w.integration AND d.message = w.message
        WHERE w.purchase IS NULL
        """)

    static let removeDeadLetters = Statement<([Int64], [Int32]), ()>(
        "requeue_remove_dead_letters",
        """
        DELETE FROM dead_letters l USING unnest($1, $2) AS r (message, integration)
        WHERE l.message = r.message AND l.integration = r.integration
        """)
}
