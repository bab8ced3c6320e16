import Postgres
import Vocabulary

/// Keeps the table of ends as small as what is to come and what is overdue.
extension Upkeep {
    /// Rows of one step.
    static let endsStep: Int32 = 1_000

    /// Deletes the ends whose time has come and which are not those of purchases that somebody has: the purchase was
    /// renewed, or has ended. The rest stays: an hour costs as much as has become due within it, and what is overdue.
    func pruneEnds() async throws {
        let now = try await pool.withSession { session throws(DatabaseError) in
            try session.run(PruneStatements.now, ()).first ?? 0
        }
        var last = PurchaseEnds.Row(until: .min, purchase: Identifier(high: 0, low: 0))
        while true {
            let from = last
            let due = try await pool.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    let due = try session.run(EndStatements.due, (from.until, from.purchase, now, Self.endsStep))
                    if due.isEmpty { return due }
                    let ends = (due.map(\.until), due.map(\.purchase), EndStatements.manualKept)
                    let stale = try session.run(EndStatements.stale, ends)
                    if stale.isEmpty { return due }
                    // A webhook that gives the purchase back states its end under this lock, too.
                    _ = try session.execute(RequeueStatements.lockPurchases, Set(stale.map(\.purchase)).sorted())
                    _ = try session.execute(
                        EndStatements.prune, (stale.map(\.until), stale.map(\.purchase), EndStatements.manualKept))
                    return due
                }
            }
            guard due.count == Int(Self.endsStep), let next = due.last else { return }
            last = next
        }
    }

    /// Adds the ends of purchases from before there was such a table, once every daemon that lives does so itself.
    func addMissingEnds() async throws {
        while try await addSomeMissingEnds() {}
    }

    /// - Returns: whether there may be more.
    private func addSomeMissingEnds() async throws -> Bool {
        try await pool.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                guard try session.run(EndStatements.isOfOneVersion, ()).first == true,
                    let through = try session.run(EndStatements.missing, ()).first
                else { return false }
                let page = try session.run(EndStatements.purchases, (through, Self.endsStep))
                guard let next = page.last else {
                    _ = try session.execute(EndStatements.complete, ())
                    return false
                }
                _ = try session.execute(RequeueStatements.lockPurchases, page)
                _ = try session.execute(PurchaseEnds.addStored, page)
                _ = try session.execute(EndStatements.advance, next)
                return true
            }
        }
    }
}

enum EndStatements {
    /// Ends up to a time ($3), in their order, after one ($1, $2).
    static let due = Statement<(Int64, Identifier, Int64, Int32), PurchaseEnds.Row>(
        "ends_due",
        """
        SELECT until_ms, purchase FROM purchase_ends
        WHERE (until_ms, purchase) > ($1, $2) AND until_ms <= $3 ORDER BY until_ms, purchase LIMIT $4
        """, row: PurchaseEnds.Row.init)

    /// How long the end of what the app's backend granted is kept, of which no webhook will say anything: long enough
    /// to announce it (`Lapses`). Milliseconds.
    static let manualKept: Int64 = 86_400_000

    /// Whether the end `e` is not current. `$3` is `manualKept`.
    private static let isStale: SQL = """
        NOT EXISTS (
            SELECT FROM (SELECT store FROM purchases WHERE id = e.purchase) AS p
            \(AccessEnd.newestTransaction(of: "e.purchase"))
            WHERE (p.store <> 'MANUAL' OR e.until_ms > \(AccessEnd.now) - $3) AND \(PurchaseEnds.isCurrent))
        """

    /// Those of the ends that are not current.
    static let stale = Statement<([Int64], [Identifier], Int64), PurchaseEnds.Row>(
        "ends_stale", "SELECT until_ms, purchase FROM unnest($1, $2) AS e (until_ms, purchase) WHERE \(isStale)",
        row: PurchaseEnds.Row.init)

    /// Deletes those of the ends of locked purchases that are not current.
    static let prune = Statement<([Int64], [Identifier], Int64), ()>(
        "ends_prune",
        """
        DELETE FROM purchase_ends e USING unnest($1, $2) AS w (until_ms, purchase)
        WHERE e.until_ms = w.until_ms AND e.purchase = w.purchase AND \(isStale)
        """)

    /// Counts daemons whose lease has run out, too: one that only stands still goes on without adding ends.
    static let isOfOneVersion = Statement<(), Bool>(
        "ends_is_of_one_version", "SELECT count(DISTINCT version) < 2 FROM daemons")

    /// Two daemons take turns.
    static let missing = Statement<(), Identifier>(
        "ends_missing", "SELECT through FROM purchase_ends_missing LIMIT 1 FOR UPDATE")

    static let purchases = Statement<(Identifier, Int32), Identifier>(
        "ends_purchases", "SELECT id FROM purchases WHERE id > $1 ORDER BY id LIMIT $2")

    static let advance = Statement<Identifier, ()>("ends_advance", "UPDATE purchase_ends_missing SET through = $1")

    static let complete = Statement<(), ()>("ends_complete", "DELETE FROM purchase_ends_missing")
}
