import Postgres
import Vocabulary

/// The locked purchases of a batch.
struct LoadedPurchases {
    private(set) var rows: [Identifier: BatchPlan.PurchaseRow] = [:]
    /// Purchases whose stored state is damaged, with the reason. Events that name one are quarantined.
    private(set) var unreadable: [Identifier: String] = [:]

    init(_ answer: [RecordStatements.PurchaseRow]) {
        for row in answer {
            do throws(PurchaseState.Unreadable) {
                rows[row.0] = Self.purchase(row, try PurchaseState(bytes: row.11))
            } catch {
                unreadable[row.0] = """
                    \(Self.unreadablePrefix(key: row.5)) (\(error)): after posthouse repair of this purchase it can be \
                    tried again
                    """
            }
        }
    }

    /// How the reason of a webhook begins that is quarantined because of its purchase's state: `Repair` finds it by
    /// this.
    static func unreadablePrefix(key: String) -> String { "the stored state of its purchase \(key) cannot be read" }

    private static func purchase(
        _ row: RecordStatements.PurchaseRow, _ state: PurchaseState
    ) -> BatchPlan.PurchaseRow {
        BatchPlan.PurchaseRow(
            scope: Scope(source: row.1, app: row.2, environment: row.3),
            purchase: Purchase(
                key: row.5, kind: Purchase.Kind(rawValue: row.6) ?? .subscription, store: row.4, product: row.7,
                plan: row.8, subscriptionID: row.9),
            asOf: Timestamp(milliseconds: row.10), state: state, isNew: false)
    }

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
