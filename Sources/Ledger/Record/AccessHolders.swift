import Vocabulary

/// Whose access a message of a plan is about: whom it names, and everybody whose access its event may have changed. Of
/// a purchase that several have, an event that names one of them ends or extends it for all; and an event that names
/// no account is that of somebody whom another named. Pure.
struct AccessHolders {
    private let plan: BatchPlan
    private let rows: [Identifier: [BatchPlan.EntitlementRow]]
    private let rowsOfEvents: [Int64: [BatchPlan.EntitlementRow]]

    init(_ plan: BatchPlan) {
        self.plan = plan
        rows = Dictionary(grouping: plan.entitlements.values, by: \.purchase)
        rowsOfEvents = Dictionary(grouping: plan.entitlements.values, by: \.event)
    }

    /// Those whom the message names first, then the others in order: `Limits.accessHoldersMax` at most.
    func holders(of message: BatchPlan.MessageRow) -> [Holder] {
        let named = message.fields.named
        // Of an event that names nobody there is nobody's access.
        if named.isEmpty { return [] }
        let others = concerned(by: message).subtracting(named)
        return Array((named + others.sorted()).prefix(Limits.accessHoldersMax))
    }

    private func concerned(by message: BatchPlan.MessageRow) -> Set<Holder> {
        if let purchase = message.purchase { return havingOrLosing(purchase) }
        // A statement about holders as such: those of all purchases that it changed.
        let changed = rowsOfEvents[plan.events[message.cause].row] ?? []
        return Set(changed.filter { isConcerned($0.holder, $0.purchase, now: $0.access.isActive) }.map(\.holder))
    }

    /// Everybody who has the purchase, or had it before this plan.
    private func havingOrLosing(_ purchase: Identifier) -> Set<Holder> {
        var now: [Holder: Bool] = [:]
        for (holder, entry) in plan.purchases[purchase]?.known.entries ?? [:] { now[holder] = entry.access.isActive }
        for row in rows[purchase] ?? [] { now[row.holder] = row.access.isActive }
        return Set(now.filter { isConcerned($0.key, purchase, now: $0.value) }.keys)
    }

    private func isConcerned(_ holder: Holder, _ purchase: Identifier, now: Bool) -> Bool {
        guard let row = plan.purchases[purchase] else { return now }
        // If the purchase is known but this holder's access is not, an older row may have granted it.
        let before = row.known.entries[holder].map(\.access.isActive) ?? !plan.newPurchases.contains(purchase)
        return now || before
    }
}
