import Vocabulary

/// Decides which entitlement rows a plan writes, and what is stored with its purchases instead. Pure.
struct EntitlementWrite {
    private(set) var rows: [BatchPlan.EntitlementRow] = []
    /// Of each purchase that is written; before `LedgerForm.sparseEntitlements` none.
    private(set) var known: [Identifier: KnownAccess] = [:]
    /// Purchases whose rows must first become as new as what is stored with them, ascending: daemons of versions before
    /// read rows alone, and so does whoever looks for what was dropped.
    private(set) var outdated: [Identifier] = []

    /// - Parameter now: the database's time.
    init(_ plan: BatchPlan, in form: LedgerForm, at now: Timestamp?) {
        if form < .sparseEntitlements {
            rows = Array(plan.entitlements.values)
            outdated = plan.touched.filter { plan.purchases[$0]?.known.entries.isEmpty == false }.sorted()
            return
        }
        for id in plan.touched { known[id] = plan.purchases[id]?.known }
        let before = known
        for row in plan.entitlements.values {
            if known[row.purchase, default: KnownAccess()].update(row, at: now) { rows.append(row) }
        }
        for id in plan.touched.sorted() {
            let stored = before[id]?.entries ?? [:]
            let dropped = known[id]?.dropExcess() ?? [:]
            // What the plan does not state keeps its time of recording.
            if dropped.contains(where: { stored[$0.key] == $0.value }) { outdated.append(id) }
            for (holder, entry) in dropped where stored[holder] != entry {
                guard let event = entry.event else { continue }
                rows.append(
                    BatchPlan.EntitlementRow(holder: holder, purchase: id, access: entry.access, event: event))
            }
        }
    }
}
