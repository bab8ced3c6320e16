import Postgres
import Vocabulary

/// The locked purchases of a batch.
struct LoadedPurchases {
    private(set) var rows: [Identifier: BatchPlan.PurchaseRow] = [:]
    /// Ids by hash.
    private(set) var ids: [Identifier: Identifier] = [:]
    /// Purchases whose stored state is damaged, with the reason. Events that name one are quarantined.
    private(set) var unreadable: [Identifier: String] = [:]
    /// By purchase.
    private let purchasePeriods: [Identifier: [PurchasePeriod]]
    /// By purchase.
    private let statuses: [Identifier: [KnownStatus]]

    init(_ answer: [RecordTables.PurchaseRow], purchasePeriods: [PurchasePeriod] = [], statuses: [KnownStatus] = []) {
        self.purchasePeriods = Dictionary(grouping: purchasePeriods, by: \.purchase)
        self.statuses = Dictionary(grouping: statuses, by: \.purchase)
        for row in answer {
            ids[row.hash ?? row.id] = row.id
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
    static func unreadablePrefix(key: String) -> String { "\(unreadableOpening)\(key) cannot be read" }

    /// How it begins for every purchase: no adapter gives such a reason (`ImportLine.setAside`).
    static let unreadableOpening = "the stored state of its purchase "

    /// The plan that `build` makes of these purchases. If it misses stored changes or links, they are read and it
    /// starts again. Each round reads further, so there are at most as many rounds as times that a purchase has passed
    /// on.
    func plan(
        _ known: HolderKnowledge, rules: [String: SourceRules], in form: LedgerForm, on session: borrowing Session,
        _ build: (inout BatchPlan) -> Void
    ) throws(DatabaseError) -> BatchPlan {
        var known = known
        while true {
            var plan = BatchPlan(
                purchases: rows, purchasePeriods: purchasePeriods, statuses: statuses, holders: known, rules: rules)
            build(&plan)
            let missing = ChangeLoader(missing: plan.holders.changes)
            let pending = try missing.enqueueQueries(in: form, on: session)
            let isLinkMissing = try loadMissingLinks(of: plan, into: &known, on: session)
            if pending == nil, !isLinkMissing { return plan }
            try pending?.add(to: &known, on: session) { _ in nil }
        }
    }

    private func loadMissingLinks(
        of plan: BatchPlan, into known: inout HolderKnowledge, on session: borrowing Session
    ) throws(DatabaseError) -> Bool {
        let keys = Array(plan.holders.missingLinks)
        if keys.isEmpty { return false }
        let found = try session.run(
            HolderStatements.links,
            (keys.map(\.holder.id), keys.map(\.scope.source), keys.map(\.scope.app), keys.map(\.scope.environment)))
        for (key, link) in found { known.load(link, of: key) }
        known.markLookedUp(keys)
        return true
    }
}

extension BatchPlan.PurchaseRow {
    fileprivate init(_ row: RecordTables.PurchaseRow) throws(PurchaseState.Unreadable) {
        hash = row.hash ?? row.id
        scope = row.scope
        purchase = Purchase(
            key: row.key, kind: row.purchaseKind, store: row.store, product: row.product, plan: row.plan,
            subscriptionID: row.subscriptionID)
        asOf = Timestamp(milliseconds: row.asOf)
        state = try PurchaseState(bytes: row.state)
        known = KnownAccess(row.access, of: row.state)
    }
}
