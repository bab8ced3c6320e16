import Vocabulary

/// The rows that a batch of new events causes, without SQL. Events are taken in order of arrival; the result does not
/// depend on it (TransferResolution; I1).
struct BatchPlan {
    var events: [PlannedEvent] = []
    /// Whether the event was recorded before: the plan continues a change of holders.
    private(set) var isCauseStored = false
    var purchases: [Identifier: PurchaseRow]
    /// Those of them that were not stored before.
    private(set) var newPurchases: Set<Identifier> = []
    var touched: Set<Identifier> = []
    var transactions: [TransactionKey: TransactionRow] = [:]
    var entitlements: [EntitlementKey: EntitlementRow] = [:]
    var transfers: [TransferRow] = []
    var holders: HolderKnowledge
    var messages: [MessageRow] = []
    var voids: [Observation] = []
    /// What is known of the events' tokens, with what they add.
    var tokens = KnownTokens()
    /// Purchases that a change stated in this batch came too late to move.
    private(set) var unmoved: [Unmoved] = []
    /// How often a change of a holder was tried on a purchase: the cost of the batch beyond its own events. Read by
    /// tests.
    var changesTried = 0
    /// Whether transfers that a line of an import reveals are announced.
    var announcesImports = false
    /// Purchases by each holder they ever had.
    private(set) var held: [HolderKnowledge.LinkKey: Set<Identifier>] = [:]

    let rules: [String: SourceRules]
    /// Periods of purchases before those that are renewed.
    let purchasePeriods: [Identifier: [PurchasePeriod]]
    /// The newest statuses of purchases that may have been paused.
    let statuses: [Identifier: [KnownStatus]]

    init(
        purchases: [Identifier: PurchaseRow], purchasePeriods: [Identifier: [PurchasePeriod]] = [:],
        statuses: [Identifier: [KnownStatus]] = [:], holders: HolderKnowledge = HolderKnowledge(),
        rules: [String: SourceRules]
    ) {
        self.purchases = purchases
        self.purchasePeriods = purchasePeriods
        self.statuses = statuses
        self.holders = holders
        self.rules = rules
        if holders.changing.isEmpty { return }
        for (id, row) in purchases { index(row.state.everHolders, of: id, row.scope) }
    }

    mutating func add(_ new: PlannedEvent) {
        let index = events.count
        let new = named(new)
        events.append(new)
        for link in new.event.links { holders.add(link, scope: new.event.scope, at: new.event.occurredAt) }
        if let purchase = new.event.purchase, let id = new.purchase {
            applyUnfinishedChanges(to: id, index: index)
            let isFirst = purchases[id]?.state.isUnknown ?? true
            let isConverted = add(purchase, id: id, of: new, index: index)
            add(new.event.transaction, purchase: id, of: new)
            if let history = new.event.history {
                apply(history, of: id, isFirst: isFirst, index: index)
            } else {
                apply(new.event.facts, of: id, isFirst: isFirst, isConverted: isConverted, index: index)
            }
        } else {
            passOn(index, transfer: nil)
        }
        if let change = new.event.change { apply(change, index: index) }
    }

    /// Applies a change that an earlier event stated to the purchases that were loaded.
    mutating func continueChange(_ change: HolderChangeRow, of cause: PlannedEvent) {
        events = [cause]
        isCauseStored = true
        apply([change], index: 0)
    }

    func ownership(of source: String) -> Ownership { rules[source]?.ownership ?? .exclusive }

    private func mayLackName(_ source: String) -> Bool { rules[source]?.mayLackName ?? false }

    // MARK: What follows

    /// Takes the facts that one webhook states about its purchase, with the stored changes that reach it.
    ///
    /// - Parameters:
    ///   - isFirst: nothing was known of the purchase before.
    ///   - isConverted: it has just become a one-time purchase: changes that moved nothing may move it now.
    private mutating func apply(
        _ facts: [Fact], of id: Identifier, isFirst: Bool, isConverted: Bool, index: Int
    ) {
        var changes = storedChanges(of: id, isFirst: isFirst, index: index)
        if isConverted, let row = purchases[id], holders.changing.contains(row.scope.source) {
            for key in row.state.everHolders.flatMap({ KnownChanges.Key.all(of: $0, in: row.scope) }) {
                changes[key] = Timestamp.distantPast
            }
        }
        switch ownership(of: events[index].event.scope.source) {
        case .installAndIdentity:
            passOn(index, transfer: nil)
            if !facts.isEmpty, let row = purchases[id] {
                apply(SharedOwnership.resolve(row.state, facts), purchase: id, index: index)
            }
            applyShared(changes, to: id, index: index)
        case .exclusive:
            if facts.isEmpty { passOn(index, transfer: nil) }
            applyExclusive(changes, with: facts, to: id, index: index)
        }
    }

    /// Takes what an export says of who had the purchase, with the stored changes that reach it.
    private mutating func apply(_ history: StatedHistory, of id: Identifier, isFirst: Bool, index: Int) {
        guard let row = purchases[id], let stated = try? PurchaseState(bytes: history.state) else { return }
        let ownership = ownership(of: row.scope.source)
        let joined =
            switch ownership {
            case .exclusive: TransferResolution.joining(stated, to: row.state, kind: row.purchase.kind)
            case .installAndIdentity: SharedOwnership.joining(stated, to: row.state)
            }
        var changes = storedChanges(of: id, isFirst: isFirst, index: index)
        if joined.state == row.state {
            // Stored changes were applied to all of it, but for those of a name that is new.
            changes = changes.filter { $0.value == Timestamp.distantPast }
        } else {
            apply(joined, purchase: id, index: index)
            // Those whom a state has forgotten are known by their rows alone.
            for former in history.holders where row.state.isUnknown && joined.access[former.holder] == nil {
                let access = Access(isActive: false, asOf: former.asOf)
                entitlements[EntitlementKey(holder: former.holder, purchase: id)] = EntitlementRow(
                    holder: former.holder, purchase: id, access: access, event: events[index].row)
            }
            for holder in stated.everHolders where holders.changing.contains(row.scope.source) {
                for key in KnownChanges.Key.all(of: holder, in: row.scope) {
                    changes[key] = Timestamp.distantPast
                }
            }
        }
        switch ownership {
        case .exclusive: applyExclusive(changes, with: [], to: id, index: index)
        case .installAndIdentity: applyShared(changes, to: id, index: index)
        }
    }

    /// Adds the rows of a resolution.
    mutating func apply(_ resolution: Resolution, purchase id: Identifier, index: Int) {
        touched.insert(id)
        purchases[id]?.state = resolution.state
        for (holder, access) in resolution.access {
            let key = EntitlementKey(holder: holder, purchase: id)
            if entitlements[key]?.access == access { continue }
            entitlements[key] = EntitlementRow(
                holder: holder, purchase: id, access: access, event: events[index].row)
        }
        if !holders.changing.isEmpty, let scope = purchases[id]?.scope {
            self.index(resolution.access.keys, of: id, scope)
        }
        announce(resolution, index: index, id: id)
    }

    private mutating func index(_ holders: some Sequence<Holder>, of id: Identifier, _ scope: Scope) {
        guard self.holders.changing.contains(scope.source) else { return }
        for holder in holders { held[HolderKnowledge.LinkKey(scope: scope, holder: holder), default: []].insert(id) }
    }

    /// Whether no entitlement that this plan writes leads from the event's holder to the event, also if an earlier one
    /// does. False without a holder.
    func isStray(_ new: PlannedEvent) -> Bool {
        guard let holder = new.event.holder else { return false }
        guard let purchase = new.purchase else { return true }
        return entitlements[EntitlementKey(holder: holder, purchase: purchase)] == nil
    }

    // MARK: What is known of purchases and transactions

    /// - Returns: whether the purchase has become a one-time purchase by it.
    private mutating func add(_ purchase: Purchase, id: Identifier, of new: PlannedEvent, index: Int) -> Bool {
        touched.insert(id)
        guard var row = purchases[id] else {
            var row = PurchaseRow(
                hash: new.purchaseHash ?? id, scope: new.event.scope, purchase: purchase.withoutValues,
                asOf: new.event.asOf, state: PurchaseState())
            row.update(purchase, of: new.event)
            purchases[id] = row
            newPurchases.insert(id)
            return false
        }
        row.update(purchase, of: new.event)
        // One webhook that says so is enough, whenever it arrives: others of the same purchase may not know.
        let becomesOneTime = purchase.kind == .oneTime && row.purchase.kind != .oneTime
        if becomesOneTime { row.purchase.kind = .oneTime }
        purchases[id] = row
        if becomesOneTime, ownership(of: new.event.scope.source) == .exclusive {
            apply(TransferResolution.oneTime(row.state), purchase: id, index: index)
        }
        return becomesOneTime
    }

    private mutating func add(_ transaction: Transaction?, purchase: Identifier, of new: PlannedEvent) {
        guard let transaction else { return }
        let row = TransactionRow(
            purchase: purchase, transaction: transaction, asOf: new.event.transactionAsOf, asOfEvent: new.key,
            isVoided: AccessEnd.isVoided(transaction, at: new.event.purchase?.store ?? ""))
        if holders.changing.contains(new.event.scope.source) {
            holders.add(row)
            if let name = new.event.purchase?.key { holders.add(name: name, of: purchase) }
        }
        let key = TransactionKey(
            purchase: purchase, storeTransactionID: Array(transaction.storeTransactionID.utf8))
        if let known = transactions[key], (known.asOf, known.asOfEvent) >= (row.asOf, row.asOfEvent) { return }
        transactions[key] = row
    }
}

/// Applies events that state something about holders as a whole to each of their purchases.
///
/// A change is applied where it and a purchase meet for the first time: a new change to the purchases that its subject
/// ever held; a stored change to the purchase that an event names, from the event's time on, for the event's holders
/// and those it led to. What was stated before that time has been applied, or an older fact finds it. So the cost is
/// that of what moves.
///
/// Under exclusive ownership only the first change of a holder after each of its facts can matter. Once it has moved
/// the purchase, the holder does not have it any more until its next gain. If a login did not move it because the paid
/// period had ended, only a further fact of that holder can say that it lasted longer. A platform's own statement does
/// not depend on a period, so those are looked up separately from logins. Under shared ownership each change counts,
/// and each restore of a transaction.
extension BatchPlan {
    mutating func apply(_ change: HolderChange, index: Int) {
        let new = events[index]
        let scope = new.event.scope
        let time = new.event.occurredAt
        var isFirst = false
        var identity: Holder?
        switch change {
        case .move, .register, .kept: break
        case .first(let install, let user): holders.addFirst(user, install: install, scope: scope, event: new.row)
        case .endSessions(let user): holders.endSessions(of: user, scope: scope, at: time)
        case .identify(let install, let user), .claim(let install, let user, _):
            isFirst = holders.identify(
                user, install: install, scope: scope, event: new.row, isHolder: isHolder(.user(user), in: scope))
            holders.add(HolderLink(anonymousID: install, userID: user), scope: scope, at: time)
        case .restore(let install, _, _):
            identity = holders.user(of: .anonymous(install), scope: scope, at: time).map { .user($0) }
        }
        let rows = HolderChangeRow.rows(
            of: change, ownership: ownership(of: scope.source), isFirstIdentify: isFirst, identity: identity,
            scope: scope, at: time)
        let added = rows.filter { holders.add($0, event: new.row) }
        // A line of an export may repeat a change that is known: it was applied as it was then understood.
        if case .kept = change { apply(added, index: index) } else { apply(rows, index: index) }
    }

    /// Applies new changes to all purchases of their subjects that were loaded.
    mutating func apply(_ rows: [HolderChangeRow], index: Int) {
        var wanted: [Identifier: [KnownChanges.Key: Timestamp]] = [:]
        for row in rows {
            for id in purchases(of: row) {
                wanted[id, default: unfinishedChanges(of: id)].merge([row.key: row.at], uniquingKeysWith: min)
            }
        }
        // In a fixed order, independent of loading: it is the order of announcement.
        for (id, keys) in wanted.sorted(by: { $0.key < $1.key }) { applyChanges(to: id, from: keys, index: index) }
    }

    private func purchases(of row: HolderChangeRow) -> Set<Identifier> {
        switch row.key.subject {
        case .holder(let holder): held[HolderKnowledge.LinkKey(scope: row.scope, holder: holder)] ?? []
        case .transaction: holders.purchases(named: row.key.subject).filter { purchases[$0]?.scope == row.scope }
        }
    }

    /// Whether the condition of an event holds; nothing of an event that is not admitted is recorded.
    /// - Parameter newest: the time of the newest statement about the event's purchase; nil: there is none.
    mutating func admits(_ event: Event, newest: Timestamp?) -> Bool {
        if let presumed = event.presumedAsOf, presumed != newest ?? Timestamp.distantPast { return false }
        return switch event.change {
        case .register(let install): holders.register(install, scope: event.scope)
        case .claim(let install, let identity, _):
            holders.mayClaim(identity, install: install, scope: event.scope, at: event.occurredAt)
        case .move, .identify, .endSessions, .restore, .kept, .first, nil: true
        }
    }

    /// Whether an event of this batch gave the holder something.
    private func isHolder(_ holder: Holder, in scope: Scope) -> Bool {
        entitlements.keys.contains { $0.holder == holder && purchases[$0.purchase]?.scope == scope }
    }

    /// Applies stored changes of a purchase's holders that have not reached it yet.
    mutating func applyUnfinishedChanges(to id: Identifier, index: Int) {
        applyChanges(to: id, from: unfinishedChanges(of: id), index: index)
    }

    private func unfinishedChanges(of id: Identifier) -> [KnownChanges.Key: Timestamp] {
        guard holders.hasUnfinished, let row = purchases[id] else { return [:] }
        var wanted: [KnownChanges.Key: Timestamp] = [:]
        for holder in row.state.everHolders {
            wanted.merge(holders.unfinished(of: holder, in: row.scope), uniquingKeysWith: min)
        }
        return wanted
    }

    /// The stored changes of the holders that an event names, and of its transactions.
    ///
    /// - Parameter isFirst: nothing was known of the purchase before.
    mutating func storedChanges(of id: Identifier, isFirst: Bool, index: Int) -> [KnownChanges.Key: Timestamp] {
        let new = events[index]
        guard holders.changing.contains(new.event.scope.source) else { return [:] }
        var wanted = new.event.wantedChanges
        // The purchase has all links of an own holder: it looked them up at the first nameless fact.
        for fact in new.event.facts where !fact.isNamed && purchases[id]?.state.isOwn(fact.holder) ?? false {
            for key in KnownChanges.Key.all(of: fact.holder, in: new.event.scope) { wanted[key] = nil }
        }
        for name in new.event.purchaseNames {
            let key = KnownChanges.Key(scope: new.event.scope, subject: name, isLogin: false)
            // A restore may have named it before its purchase was known.
            let isSettled = holders.isSettled(name, of: id) && !isFirst
            wanted[key] = isSettled ? new.event.earliestFact : Timestamp.distantPast
            holders.settle(name, of: id)
        }
        return wanted
    }

    private mutating func applyChanges(to id: Identifier, from wanted: [KnownChanges.Key: Timestamp], index: Int) {
        guard let row = purchases[id], !wanted.isEmpty else { return }
        switch ownership(of: row.scope.source) {
        case .exclusive: applyExclusive(wanted, with: [], to: id, index: index)
        case .installAndIdentity: applyShared(wanted, to: id, index: index)
        }
    }

    /// Applies the facts of a webhook and the changes that reach the purchase with them, counted together.
    ///
    /// - Parameter facts: of the event at `index`; empty if it states nothing about this purchase.
    mutating func applyExclusive(
        _ wanted: [KnownChanges.Key: Timestamp], with facts: [Fact], to id: Identifier, index: Int
    ) {
        guard var row = purchases[id] else { return }
        if wanted.isEmpty, row.state.moves.isEmpty { return resolve(facts, [], of: id, index: index) }
        var facts = facts
        var state = TransferResolution.recording(
            facts, in: row.state, kind: row.purchase.kind, mayLackName: mayLackName(row.scope.source))
        var walk = ChangeWalk(wanted)
        walk.lead(from: EffectiveMoves(row.state), to: EffectiveMoves(state), in: row.scope)
        var moves: [KeptMove] = []
        while let step = walk.next(of: &holders.changes) {
            for change in step.rows {
                changesTried += 1
                guard let move = TransferResolution.move(change, in: state) else {
                    if isStatedNow(change, index), TransferResolution.comesTooLate(change, in: state) {
                        unmoved.append(Unmoved(cause: index, purchase: row.purchase.key))
                    }
                    continue
                }
                let before = EffectiveMoves(state)
                state.insert(move)
                moves.append(move)
                walk.lead(from: before, to: EffectiveMoves(state), in: row.scope, by: step.key)
                if moves.count < PurchaseState.movesMax { continue }
                // Each move costs as much as there are: no more than that at once.
                resolve(facts, moves, of: id, index: index)
                (facts, moves) = ([], [])
                row = purchases[id] ?? row
                state = row.state
            }
            walk.resume(step.key, at: state.nextTime(after: step.at, of: step.key))
        }
        resolve(facts, moves, of: id, index: index)
    }

    /// Whether the event at `index` states the change: what is stored was judged when it came.
    private func isStatedNow(_ change: HolderChangeRow, _ index: Int) -> Bool {
        (isCauseStored || events[index].event.change != nil) && change.at == events[index].event.occurredAt
    }

    private mutating func resolve(_ facts: [Fact], _ moves: [KeptMove], of id: Identifier, index: Int) {
        guard !facts.isEmpty || !moves.isEmpty, let row = purchases[id] else { return }
        let resolution = TransferResolution.resolve(
            row.state, facts, moves: moves, kind: row.purchase.kind, mayLackName: mayLackName(row.scope.source))
        // The webhook's own statement comes first, unless it is itself one of the two messages of a transfer.
        let isNative = resolution.announced.contains { $0.native != nil }
        if !facts.isEmpty, !isNative, resolution.isPassedOn {
            passOn(index, transfer: nil, knowing: resolution.state)
        }
        apply(resolution, purchase: id, index: index)
    }

    mutating func applyShared(_ wanted: [KnownChanges.Key: Timestamp], to id: Identifier, index: Int) {
        var walk = ChangeWalk(wanted)
        while let step = walk.next(of: &holders.changes) {
            for change in step.rows {
                guard let row = purchases[id] else { return }
                changesTried += 1
                guard let resolution = SharedOwnership.apply(change, to: row.state) else { continue }
                apply(resolution, purchase: id, index: index)
                walk.lead(to: change.targets, in: row.scope, at: step.at, from: step.key)
            }
            walk.resume(step.key, at: step.at.advanced(byMilliseconds: 1))
        }
    }
}

extension Event {
    /// The keys of changes that can concern the purchase that the event names, with the time from which they can. A
    /// link of the holder of a nameless fact counts however old it is.
    var wantedChanges: [KnownChanges.Key: Timestamp] {
        var wanted: [KnownChanges.Key: Timestamp] = [:]
        for fact in facts {
            let time = fact.isNamed ? fact.at : Timestamp.distantPast
            for holder in [fact.holder] + (fact.counterpart.map { [$0] } ?? []) {
                for key in KnownChanges.Key.all(of: holder, in: scope) {
                    wanted[key] = min(wanted[key] ?? time, time)
                }
            }
        }
        return wanted
    }

    /// The names that a restore can use for its purchase.
    var purchaseNames: Set<KnownChanges.Subject> {
        guard let purchase else { return [] }
        let names = [purchase.key, transaction?.storeTransactionID, transaction?.storeOriginalTransactionID]
        return Set(names.compactMap { $0.map { .named($0) } })
    }

    var earliestFact: Timestamp { facts.map(\.at).min() ?? occurredAt }
}
