import Vocabulary

/// The rows that a batch of new events causes, without SQL. Events are taken in order of arrival; the result does not
/// depend on it (TransferResolution; I1).
struct BatchPlan {
    var events: [New] = []
    /// Whether the event was recorded before: the plan continues a change of holders.
    private(set) var isCauseStored = false
    var purchases: [Identifier: PurchaseRow]
    var touched: Set<Identifier> = []
    var transactions: [TransactionKey: TransactionRow] = [:]
    var entitlements: [EntitlementKey: EntitlementRow] = [:]
    var transfers: [TransferRow] = []
    var holders: HolderKnowledge
    var messages: [MessageRow] = []
    var voids: [Observation] = []
    /// How often a change of a holder was tried on a purchase: the cost of the batch beyond its own events.
    var changesTried = 0
    /// Purchases by each holder they ever had.
    private(set) var held: [HolderKnowledge.LinkKey: Set<Identifier>] = [:]

    let rules: [String: SourceRules]

    init(
        purchases: [Identifier: PurchaseRow], holders: HolderKnowledge = HolderKnowledge(),
        rules: [String: SourceRules]
    ) {
        self.purchases = purchases
        self.holders = holders
        self.rules = rules
        for (id, row) in purchases { index(row.state.everHolders, of: id, row.scope) }
    }

    mutating func add(_ new: New) {
        let index = events.count
        events.append(new)
        for link in new.event.links { holders.learn(link, scope: new.event.scope, at: new.event.occurredAt) }
        if let purchase = new.event.purchase, let id = new.purchase {
            applyUnfinishedChanges(to: id, index: index)
            let isFirst = purchases[id].map { $0.state == PurchaseState() } ?? true
            learn(purchase, id: id, of: new, index: index)
            learn(new.event.transaction, purchase: id, of: new)
            take(new.event.facts, of: id, isFirst: isFirst, index: index)
        } else {
            passOn(index, transfer: nil)
        }
        if let change = new.event.change { take(change, index: index) }
    }

    /// Applies a change that an earlier event stated to the purchases that were loaded.
    mutating func continueChange(_ change: HolderChangeRow, of cause: New) {
        events = [cause]
        isCauseStored = true
        apply([change], index: 0)
    }

    func ownership(of source: String) -> Ownership { rules[source]?.ownership ?? .exclusive }

    // MARK: What follows

    /// Takes the facts that one webhook states about its purchase, with the stored changes that reach it.
    ///
    /// - Parameter isFirst: nothing was known of the purchase before.
    private mutating func take(_ facts: [Fact], of id: Identifier, isFirst: Bool, index: Int) {
        let changes = storedChanges(of: id, isFirst: isFirst, index: index)
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

    /// Adds the rows of a resolution.
    mutating func apply(_ resolution: Resolution, purchase id: Identifier, index: Int) {
        touched.insert(id)
        purchases[id]?.state = resolution.state
        for (holder, access) in resolution.access {
            let key = EntitlementKey(holder: holder, purchase: id)
            if entitlements[key]?.access == access { continue }
            entitlements[key] = EntitlementRow(access: access, event: events[index].row)
        }
        if let scope = purchases[id]?.scope { self.index(resolution.access.keys, of: id, scope) }
        announce(resolution, index: index, id: id)
    }

    private mutating func index(_ holders: some Sequence<Holder>, of id: Identifier, _ scope: Scope) {
        guard self.holders.changing.contains(scope.source) else { return }
        for holder in holders { held[HolderKnowledge.LinkKey(scope: scope, holder: holder), default: []].insert(id) }
    }

    // MARK: What is known of purchases and transactions

    private mutating func learn(_ purchase: Purchase, id: Identifier, of new: New, index: Int) {
        touched.insert(id)
        guard var row = purchases[id] else {
            purchases[id] = PurchaseRow(
                scope: new.event.scope, purchase: purchase, asOf: new.event.occurredAt, state: PurchaseState(),
                isNew: true)
            return
        }
        row.learn(purchase, at: new.event.occurredAt)
        // One webhook that says so is enough, whenever it arrives: others of the same purchase may not know.
        let becomesOneTime = purchase.kind == .oneTime && row.purchase.kind != .oneTime
        if becomesOneTime { row.purchase.kind = .oneTime }
        purchases[id] = row
        if becomesOneTime, ownership(of: new.event.scope.source) == .exclusive {
            apply(TransferResolution.oneTime(row.state), purchase: id, index: index)
        }
    }

    private mutating func learn(_ transaction: Transaction?, purchase: Identifier, of new: New) {
        guard let transaction else { return }
        if holders.changing.contains(new.event.scope.source) {
            holders.know(transaction, of: purchase)
            if let name = new.event.purchase?.key { holders.know(name: name, of: purchase) }
        }
        let key = TransactionKey(
            purchase: purchase, storeTransactionID: Array(transaction.storeTransactionID.utf8))
        if let known = transactions[key], (known.asOf, known.asOfEvent) >= (new.event.occurredAt, new.key) { return }
        transactions[key] = TransactionRow(
            purchase: purchase, transaction: transaction, asOf: new.event.occurredAt, asOfEvent: new.key)
    }

    // MARK: What is announced

    private mutating func announce(_ resolution: Resolution, index: Int, id: Identifier) {
        guard let row = purchases[id] else { return }
        let new = events[index]
        for announced in resolution.announced {
            let transfer = KeyHash.transfer(
                purchase: id, from: announced.from, to: announced.to, ordinal: announced.ordinal)
            let subject = subject(id, index: index)
            let trail = TransferTrail(
                source: new.event.scope.source, transfer: transfer.transferID, purchase: row.purchase.key,
                transaction: subject.transaction?.storeTransactionID, event: eventID(of: new), from: announced.from,
                to: announced.to)
            transfers.append(
                TransferRow(
                    id: transfer, purchase: id, from: announced.from, to: announced.to, ordinal: announced.ordinal,
                    event: new.row,
                    storeTransactionID: subject.transaction?.storeTransactionID, trail: trail))
            holders.learn(announced, scope: new.event.scope, at: resolution.time(of: announced) ?? new.event.occurredAt)
            let prefix = row.purchase.kind == .oneTime ? "ONE_TIME_PURCHASE_" : "SUBSCRIPTION_"
            for (side, type) in [
                (AnnouncedTransfer.Native.transferred, prefix + "TRANSFERRED"), (.received, prefix + "RECEIVED"),
            ] {
                let parties = (id: transfer, from: announced.from, to: announced.to)
                if announced.native == side {
                    passOn(index, transfer: parties)
                } else {
                    derive(type, index: index, side: side, transfer: parties, of: subject)
                }
            }
        }
        for voided in resolution.voids { voids.append(observation(of: voided, index: index, purchase: row.purchase)) }
    }

    /// The purchase that a message is about, and its transaction.
    private func subject(_ id: Identifier, index: Int) -> MessageEnvelope.Subject {
        let event = events[index].event
        if events[index].purchase == id {
            return MessageEnvelope.Subject(id: id, purchase: event.purchase, transaction: event.transaction)
        }
        return MessageEnvelope.Subject(
            id: id, purchase: purchases[id]?.purchase, transaction: holders.newestTransaction[id])
    }

    mutating func passOn(_ index: Int, transfer: (id: Identifier, from: Holder, to: Holder)?) {
        let new = events[index]
        let event = new.event
        let statement = MessageEnvelope.Statement(
            type: event.type, eventID: eventID(of: new), eventName: event.name, holder: event.holder,
            resolvedUserID: resolved(event.holder, as: event),
            transfer: transfer.map { ($0.id.transferID, $0.from, $0.to) })
        let subject = MessageEnvelope.Subject(
            id: new.purchase, purchase: event.purchase, transaction: event.transaction)
        messages.append(
            MessageRow(
                key: transfer.map { KeyHash.message(ofTransfer: $0.id, type: event.type) }
                    ?? KeyHash.message(passingOn: new.key),
                cause: index, type: event.type, purchase: subject.id, purchaseKey: subject.purchase?.key,
                storeTransactionID: subject.transaction?.storeTransactionID, transfer: transfer?.id,
                eventID: statement.eventID,
                envelope: MessageEnvelope.write(statement, of: subject, causedBy: event), derivedBody: nil))
    }

    private mutating func derive(
        _ type: String, index: Int, side: AnnouncedTransfer.Native,
        transfer: (id: Identifier, from: Holder, to: Holder),
        of subject: MessageEnvelope.Subject
    ) {
        let event = events[index].event
        let key = KeyHash.message(ofTransfer: transfer.id, type: type)
        let holder = side == .transferred ? transfer.from : transfer.to
        let statement = MessageEnvelope.Statement(
            type: type, eventID: key.eventID, eventName: type, holder: holder,
            resolvedUserID: resolved(holder, as: event),
            transfer: (transfer.id.transferID, transfer.from, transfer.to))
        let isNamed = events[index].purchase == subject.id
        let derived = DerivedTransfer(
            type: type, from: transfer.from, to: transfer.to, eventID: key.eventID,
            unnamedPurchase: isNamed ? nil : subject.purchase,
            unnamedTransaction: isNamed ? nil : subject.transaction)
        messages.append(
            MessageRow(
                key: key, cause: index, type: type, purchase: subject.id, purchaseKey: subject.purchase?.key,
                storeTransactionID: subject.transaction?.storeTransactionID, transfer: transfer.id,
                eventID: key.eventID, envelope: MessageEnvelope.write(statement, of: subject, causedBy: event),
                derivedBody: rules[event.scope.source]?.shape.derivedBody(from: event.body, stating: derived)))
    }

    private func resolved(_ holder: Holder, as event: Event) -> String? {
        holders.user(of: holder, scope: event.scope, at: event.occurredAt)
    }

    private func eventID(of new: New) -> String { new.event.vendorEventID ?? new.key.eventID }

    private func observation(of voided: VoidedTransfer, index: Int, purchase: Purchase) -> Observation {
        let new = events[index]
        let trail = TransferTrail(
            source: new.event.scope.source, transfer: nil, purchase: purchase.key,
            transaction: new.event.transaction?.storeTransactionID, event: eventID(of: new), from: voided.from,
            to: voided.to)
        return .transferVoided(trail, explanation: voided.explanation)
    }
}

extension Resolution {
    /// When the purchase last passed between the two. The webhook that shows it may have another time, depending on the
    /// order of arrival.
    fileprivate func time(of announced: AnnouncedTransfer) -> Timestamp? {
        let pair = Timeline.Pair(from: announced.from, to: announced.to)
        let changed = Timeline(state).changes.last { $0.pair == pair }?.at
        let stated = state.natives.last { $0.pair == pair }?.at
        return [changed, stated].compactMap { $0 }.max()
    }
}

extension VoidedTransfer {
    /// The explanation for a person: why an announced transfer is void.
    fileprivate var explanation: String {
        let amount = count == 1 ? "one announced transfer is" : "\(count) announced transfers are"
        return switch reason {
        case .thirdHolder(let third): "\(amount) void: a late webhook shows that \(third.storageKey) held it in between"
        case .revoked: "\(amount) void: a late webhook shows that the old holder's purchase had been revoked before"
        case .rearranged: "\(amount) void: a late webhook shows another course between these two holders"
        }
    }
}
