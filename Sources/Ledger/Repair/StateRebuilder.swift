import Vocabulary

/// Rebuilds the state of a purchase: its stored webhooks, and the statements about its holders, are recorded again in
/// their order of arrival into an empty plan. The rules are those of recording (`BatchPlan`); nothing is written and
/// nothing is announced.
struct StateRebuilder {
    /// What the webhooks give.
    struct Result {
        var state = PurchaseState()
        var kind: Purchase.Kind
        var access: [Holder: BatchPlan.EntitlementRow] = [:]
        var transfers: [BatchPlan.TransferRow] = []
        /// What the webhooks state about somebody at a time.
        var stated: Set<Statement> = []
        /// The times of statements about holders as such.
        var changeTimes: Set<Timestamp> = []
        /// The times of facts that name no account: a state may have them as anybody's.
        var namelessTimes: Set<Timestamp> = []
    }

    struct Statement: Hashable {
        let holder: Holder
        let at: Timestamp
    }

    let history: PurchaseHistory
    let rules: [String: SourceRules]

    func run() -> Result {
        let plan = plan()
        let id = history.purchase
        guard let row = plan.purchases[id] else { return Result(kind: history.kind) }
        var result = Result(state: row.state, kind: row.purchase.kind)
        for (key, entitlement) in plan.entitlements where key.purchase == id {
            result.access[key.holder] = entitlement
        }
        result.transfers = plan.transfers.filter { $0.purchase == id }
        for new in plan.events where new.purchase == id {
            for fact in new.event.facts {
                // As earlier versions dated it: a millisecond earlier (Stripe's changes), or as its event (Adapty's
                // ends).
                let before = fact.at.advanced(byMilliseconds: -1)
                if !fact.isNamed { result.namelessTimes.formUnion([fact.at, before]) }
                result.stated.insert(Statement(holder: fact.holder, at: fact.at))
                if let other = fact.counterpart { result.stated.insert(Statement(holder: other, at: fact.at)) }
                result.stated.insert(Statement(holder: fact.holder, at: before))
                result.stated.insert(Statement(holder: fact.holder, at: new.event.occurredAt))
            }
            if let history = new.event.history.flatMap({ try? PurchaseState(bytes: $0.state) }) {
                history.add(to: &result)
            }
        }
        result.changeTimes.formUnion(plan.holders.newChanges.map(\.row.at))
        return result
    }

    /// The plan of all items. All changes are among the items, so a subject whose changes the plan misses has no
    /// others: it is marked as known, and the plan starts again.
    private func plan() -> BatchPlan {
        var known = HolderKnowledge(changing: [history.scope.source])
        known.add(name: history.key, of: history.purchase)
        while true {
            var plan = BatchPlan(purchases: [:], holders: known, rules: rules)
            for item in history.items { play(item, in: &plan) }
            let missing = plan.holders.changes.missing.keys
            if missing.isEmpty { return plan }
            for key in missing {
                known.changes.load([], of: key, from: .distantPast, through: .distantFuture)
            }
        }
    }

    private func play(_ item: PurchaseHistory.Item, in plan: inout BatchPlan) {
        // Messages of all webhooks would only take memory.
        defer { plan.messages = [] }
        var event = item.event
        if item.isOwn {
            if let facts = item.facts {
                let stated = facts(known(before: event, in: plan))
                event = event.replacing(purchase: event.purchase, transaction: event.transaction, facts: stated)
            }
            return plan.add(
                BatchPlan.PlannedEvent(
                    event, key: item.key, row: item.row, purchase: history.purchase, purchaseHash: history.hash))
        }
        if let (install, identity) = event.change?.identified {
            // The answer to "is this the first?" was given when it arrived.
            plan.holders.load(
                item.isFirstIdentify
                    ? HolderKnowledge.Identity(linked: [install]) : HolderKnowledge.Identity(first: install),
                of: HolderKnowledge.IdentityKey(scope: event.scope, identity: .user(identity)))
        }
        guard !item.changes.isEmpty else {
            return plan.add(BatchPlan.PlannedEvent(event, key: item.key, row: item.row))
        }
        let index = plan.events.count
        plan.add(BatchPlan.PlannedEvent(event.withoutChange, key: item.key, row: item.row))
        for row in item.changes { plan.holders.add(row, event: item.row) }
        plan.apply(item.changes, index: index)
    }

    private func known(before event: Event, in plan: BatchPlan) -> KnownBefore {
        let holdings = plan.entitlements.values.filter { $0.purchase == history.purchase }
            .sorted { $0.holder < $1.holder }
        return KnownBefore(
            user: event.holder.flatMap { plan.holders.user(of: $0, scope: event.scope, at: event.occurredAt) },
            holders: holdings.map(\.holder), active: holdings.filter(\.access.isActive).map(\.holder))
    }
}

extension PurchaseState {
    /// Adds what the state of an export names as stated.
    fileprivate func add(to result: inout StateRebuilder.Result) {
        var said = facts.map { ($0.holder, $0.at) } + (registers + earlier).map { ($0.holder, $0.at) }
        said += natives.flatMap { [($0.from, $0.at), ($0.to, $0.at)] } + names.map { ($0.holder, $0.at) }
        said += own.map { ($0.holder, $0.since) } + nameless.map { ($0.holder, $0.at) }
        for (holder, time) in said { result.stated.insert(StateRebuilder.Statement(holder: holder, at: time)) }
        result.namelessTimes.formUnion(nameless.map(\.at))
        result.changeTimes.formUnion(moves.map(\.at))
        if let period { result.changeTimes.insert(period.at) }
    }
}

extension HolderChange {
    /// The install and the identity of a login that shares or moves what the install holds.
    fileprivate var identified: (install: String, identity: String)? {
        switch self {
        case .identify(let install, let identity), .claim(let install, let identity, _): (install, identity)
        case .move, .register, .endSessions, .restore, .kept, .first: nil
        }
    }
}

extension Event {
    /// The same event as it is stored: its body may not name its scope and its id, or name them by other rules than
    /// those that it was recorded by. Without its body.
    func stored(as webhook: StoredWebhook) -> Event {
        Event(
            scope: webhook.scope, vendorEventID: webhook.vendorEventID, name: name, type: type, holder: holder,
            occurredAt: occurredAt, asOf: asOf, yieldsProduct: yieldsProduct, purchase: purchase,
            transaction: transaction, facts: facts, change: change, links: links, history: history, body: [])
    }

    /// The same event without what it states about holders as such; a login still says who its install is.
    fileprivate var withoutChange: Event {
        let login = change?.identified.map { [HolderLink(anonymousID: $0.install, userID: $0.identity)] } ?? []
        return withoutPurchase(change: nil, links: links + login)
    }

    /// An event of which only a statement about a holder is kept.
    static func pruned(_ change: HolderChangeRow) -> Event {
        Event(
            scope: change.scope, vendorEventID: nil, name: "", type: "", holder: change.target, occurredAt: change.at,
            purchase: nil, transaction: nil, body: [])
    }

    /// A transfer of another purchase, of which only matters who the old holder is from then on.
    static func transfer(_ from: Holder, _ to: Holder, in scope: Scope, at time: Timestamp) -> Event {
        Event(
            scope: scope, vendorEventID: nil, name: "", type: "", holder: from, occurredAt: time, purchase: nil,
            transaction: nil, links: [HolderLink(anonymousID: from.id, userID: to.id)], body: [])
    }

    /// Of a webhook of another purchase, only who its anonymous holders are.
    var linkingAlone: Event { withoutPurchase(change: nil, links: links) }

    /// The same event, if it names a purchase, as a statement about holders alone.
    var aboutHolders: Event { withoutPurchase(change: change, links: links) }

    private func withoutPurchase(change: HolderChange?, links: [HolderLink]) -> Event {
        Event(
            scope: scope, vendorEventID: vendorEventID, name: name, type: type, holder: holder, occurredAt: occurredAt,
            purchase: nil, transaction: nil, change: change, links: links, body: body)
    }
}
