import Postgres
import Vocabulary

/// The table in which overdue purchases are looked for. What recording adds to it costs no page of its own: the ends
/// that webhooks state within an hour lie together.
enum PurchaseEnds {
    struct Row: Sendable, Hashable {
        /// Milliseconds since 1970.
        let until: Int64
        let purchase: Identifier
    }

    static let table = Table<Row>(
        "purchase_ends", [Column("until_ms", \.until), Column("purchase", \.purchase)],
        onConflict: "ON CONFLICT DO NOTHING")

    /// Adds the ends of purchases that somebody has, as they are stored.
    static let addStored = Statement<[Identifier], ()>(
        "purchase_ends_add_stored",
        """
        INSERT INTO purchase_ends (until_ms, purchase)
        SELECT t.effective_next_renewal_at_ms, p.id
        FROM unnest($1) AS p (id) \(AccessEnd.newestTransaction(of: "p.id"))
        WHERE t.effective_next_renewal_at_ms IS NOT NULL AND \(isHeld("p.id"))
        ON CONFLICT DO NOTHING
        """)

    /// Whether somebody has a purchase, by what the ledger says.
    static func isHeld(_ purchase: SQL) -> SQL {
        "EXISTS (SELECT FROM entitlements n WHERE n.purchase = \(purchase) AND \(isOfSomebody))"
    }

    /// Whether an entitlement `n` gives somebody access. Whoever was erased is nobody.
    static let isOfSomebody: SQL = "n.active AND NOT \(EraseStatements.isStandIn(holder: "n.holder"))"

    /// Whether a row `e` is the end of its purchase, with the newest transaction `t`, and somebody has it.
    static let isCurrent: SQL = "t.effective_next_renewal_at_ms = e.until_ms AND \(isHeld("e.purchase"))"
}

/// Which ends a plan adds. Pure.
struct EndWrite {
    /// Ascending.
    let rows: [PurchaseEnds.Row]
    /// Existing purchases that have a holder again. Their end may have been deleted meanwhile, and the event that
    /// returns them may state no end, or not the newest.
    let regained: [Identifier]

    /// - Parameter entitlements: the rows that the plan writes.
    init(_ plan: BatchPlan, writing entitlements: [BatchPlan.EntitlementRow]) {
        var rows: Set<PurchaseEnds.Row> = []
        for row in plan.transactions.values {
            guard let until = row.transaction.effectiveNextRenewalAt else { continue }
            rows.insert(PurchaseEnds.Row(until: until.milliseconds, purchase: row.purchase))
        }
        self.rows = rows.sorted { ($0.until, $0.purchase) < ($1.until, $1.purchase) }
        let active = entitlements.filter(\.access.isActive).map(\.purchase)
        regained = Set(active).subtracting(plan.newPurchases).sorted()
    }
}
