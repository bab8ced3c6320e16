import Vocabulary

@testable import Ledger

/// What recording decides of events in their order, as of one batch (`BatchPlan`); and the lines that an export of that
/// has. Pure.
struct PlannedHistory {
    private let plan: BatchPlan

    init(_ events: [Event]) {
        // All changes of holders are among the events: what the plan misses of a subject is not there.
        var known = HolderKnowledge(changing: Set(events.map(\.scope.source)))
        func load(_ keys: some Sequence<KnownChanges.Key>) {
            for key in keys {
                known.changes.load(
                    [], of: key, from: .distantPast, through: .distantFuture)
            }
        }
        for event in events { load(event.wantedChanges.keys) }
        while true {
            let plan = Self.plan(events, known)
            if plan.holders.changes.missing.isEmpty {
                self.plan = plan
                return
            }
            load(plan.holders.changes.missing.keys)
        }
    }

    private static func plan(_ events: [Event], _ known: HolderKnowledge) -> BatchPlan {
        var plan = BatchPlan(purchases: [:], holders: known, rules: Daemon.rules)
        for (row, arrival) in EventBatch(events, in: .timedKeys).firsts.enumerated() {
            plan.add(BatchPlan.PlannedEvent(arrival, row: Int64(row + 1), purchase: arrival.purchaseHash))
        }
        return plan
    }

    private func row(_ purchase: String) -> (id: Identifier, row: BatchPlan.PurchaseRow)? {
        plan.purchases.first { $0.value.purchase.key == purchase }.map { ($0.key, $0.value) }
    }

    var purchases: [String] { plan.purchases.values.map(\.purchase.key).sorted() }

    func state(of purchase: String) -> PurchaseState { row(purchase)?.row.state ?? PurchaseState() }

    func kind(of purchase: String) -> Purchase.Kind { row(purchase)?.row.purchase.kind ?? .subscription }

    private func access(of id: Identifier) -> [Holder: Access] {
        var access: [Holder: Access] = [:]
        for (key, entitlement) in plan.entitlements where key.purchase == id { access[key.holder] = entitlement.access }
        return access
    }

    /// Who has the purchase.
    func active(_ purchase: String) -> Set<Holder> {
        guard let id = row(purchase)?.id else { return [] }
        return Set(access(of: id).filter(\.value.isActive).keys)
    }

    /// What the other lacks of all that is stored.
    func lacking(_ other: PlannedHistory) -> [String] { picture.subtracting(other.picture).sorted() }

    /// Of each purchase what is stored, a line each.
    var picture: Set<String> {
        var picture: Set<String> = []
        for (id, row) in plan.purchases {
            let key = row.purchase.key
            picture.insert("\(key) \(row.purchase.kind) \(row.purchase.product ?? "-") \(row.asOf.milliseconds)")
            for line in String(decoding: row.state.withoutRepeatedNames.bytes, as: UTF8.self).split(separator: "\n")
                .dropFirst()
            {
                picture.insert("\(key) \(line)")
            }
            for (holder, access) in access(of: id) {
                picture.insert("\(key) access \(holder) \(access.isActive) \(access.asOf.milliseconds)")
            }
        }
        for transfer in plan.transfers {
            let key = plan.purchases[transfer.purchase]?.purchase.key ?? "-"
            picture.insert("\(key) transfer \(transfer.from) \(transfer.to) \(transfer.ordinal)")
        }
        return picture
    }

    /// The lines of purchases and of changes of holders.
    var lines: [ImportLine] {
        let ids = plan.purchases.keys.sorted()
        let held = ids.flatMap { id in
            access(of: id).sorted { ($0.value.isActive ? 0 : 1, $0.key) < ($1.value.isActive ? 0 : 1, $1.key) }.map {
                ExportStatements.HolderRow(
                    purchase: id, holder: $0.key, isActive: $0.value.isActive, asOf: $0.value.asOf)
            }
        }
        let bought = ids.compactMap { id in
            plan.purchases[id].map {
                ExportStatements.Bought(
                    id: id, scope: $0.scope, purchase: $0.purchase, asOf: $0.asOf, state: $0.state.bytes)
            }
        }
        let page = ExportPage(
            purchases: bought, holders: held, transactions: [], said: [], tokens: [], transfers: [])
        return page.lines.lines
            + plan.holders.newChanges.map(\.row).map {
                ImportLine(
                    scope: $0.scope, holder: $0.from ?? $0.target, asOf: $0.at, until: nil, subject: .change($0.kept))
            }
    }
}

extension PurchaseState {
    /// Without the names that say nothing new. They are kept until nothing can come between them, and how long that is
    /// depends on links that are forgotten since.
    var withoutRepeatedNames: PurchaseState {
        var state = self
        state.names = names.dropping(before: .distantFuture, first: own.map(\.since).min())
        return state
    }
}
