import Postgres
import Vocabulary

/// The locked purchases of a batch.
struct LoadedPurchases {
    private(set) var rows: [Identifier: BatchPlan.PurchaseRow] = [:]
    /// Purchases whose stored state is damaged, with the reason. Events that name one are quarantined.
    private(set) var unreadable: [Identifier: String] = [:]

    init(_ answer: [RecordTables.PurchaseRow]) {
        for row in answer {
            do throws(PurchaseState.Unreadable) {
                rows[row.id] = try BatchPlan.PurchaseRow(row)
            } catch {
                unreadable[row.id] = """
                    \(Self.unreadablePrefix(key: row.key)) (\(error)): after posthouse repair of this purchase it can be \
                    tried again
                    """
            }
        }
    }

    /// How the reason of a webhook begins that is quarantined because of its purchase's state: `Repair` finds it by
    /// this.
    static func unreadablePrefix(key: String) -> String { "the stored state of its purchase \(key) cannot be read" }

    /// The plan that `build` makes of these purchases. If it misses stored changes, they are read and it starts again.
    /// Each round reads further, so there are at most as many rounds as times that a purchase has passed on.
    func plan(
        _ known: HolderKnowledge, rules: [String: SourceRules], on session: borrowing Session,
        _ build: (inout BatchPlan) -> Void
    ) throws(DatabaseError) -> BatchPlan {
        var known = known
        while true {
            var plan = BatchPlan(purchases: rows, holders: known, rules: rules)
            build(&plan)
            guard let answers = try ChangeLoading(missing: plan.holders.changes).enqueueQueries(on: session) else {
                return plan
            }
            try answers.add(to: &known, on: session)
        }
    }
}

extension BatchPlan.PurchaseRow {
    fileprivate init(_ row: RecordTables.PurchaseRow) throws(PurchaseState.Unreadable) {
        scope = row.scope
        purchase = Purchase(
            key: row.key, kind: row.purchaseKind, store: row.store, product: row.product, plan: row.plan,
            subscriptionID: row.subscriptionID)
        asOf = Timestamp(milliseconds: row.asOf)
        state = try PurchaseState(bytes: row.state)
        isNew = false
    }
}
