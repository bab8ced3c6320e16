import Vocabulary

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
extension RecordPlan {
    mutating func take(_ change: HolderChange, index: Int) {
        let new = events[index]
        let scope = new.event.scope
        let time = new.event.occurredAt
        var isFirst = false
        var identity: Holder?
        switch change {
        case .move, .register: break
        case .endSessions(let user): holders.endSessions(of: user, scope: scope, at: time)
        case .identify(let install, let user), .claim(let install, let user, _):
            isFirst = holders.identify(
                user, install: install, scope: scope, event: new.row, isHolder: isHolder(.user(user), in: scope))
            holders.learn(HolderLink(anonymousID: install, userID: user), scope: scope, at: time)
        case .restore(let install, _, _):
            identity = holders.user(of: .anonymous(install), scope: scope, at: time).map { .user($0) }
        }
        let rows = HolderChangeRow.rows(
            of: change, ownership: ownership(of: scope.source), isFirstIdentify: isFirst, identity: identity,
            scope: scope, at: time)
        for row in rows { holders.add(row, event: new.row) }
        apply(rows, index: index)
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
    mutating func admits(_ event: Event) -> Bool {
        switch event.change {
        case .register(let install): holders.register(install, scope: event.scope)
        case .claim(let install, let identity, _):
            holders.mayClaim(identity, install: install, scope: event.scope, at: event.occurredAt)
        case .move, .identify, .endSessions, .restore, nil: true
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
        guard let row = purchases[id] else { return [:] }
        var wanted: [KnownChanges.Key: Timestamp] = [:]
        for register in row.state.registers {
            wanted.merge(holders.unfinished(of: register.holder, in: row.scope), uniquingKeysWith: min)
        }
        return wanted
    }

    /// Applies stored changes of the holders that an event names, and of its transactions.
    ///
    /// - Parameter isFirst: nothing was known of the purchase before.
    mutating func applyStoredChanges(to id: Identifier, isFirst: Bool, index: Int) {
        let event = events[index].event
        var wanted = event.wantedChanges
        for name in event.purchaseNames {
            let key = KnownChanges.Key(scope: event.scope, subject: name, isLogin: false)
            // A restore may have named it before its purchase was known.
            let isSettled = holders.isSettled(name, of: id) && !isFirst
            wanted[key] = isSettled ? event.earliestFact : Timestamp(milliseconds: .min)
            holders.settle(name, of: id)
        }
        applyChanges(to: id, from: wanted, index: index)
    }

    /// Applies changes, oldest first: what passed to a holder may have passed on.
    private mutating func applyChanges(
        to id: Identifier, from wanted: [KnownChanges.Key: Timestamp], index: Int
    ) {
        struct Visit: Hashable {
            let key: KnownChanges.Key
            let at: Timestamp
        }
        var wanted = wanted
        let names = wanted.keys.filter { if case .transaction = $0.subject { true } else { false } }
        // Two visits are enough for changes of one time that lead to each other, and they end every circle.
        var visits: [Visit: Int] = [:]
        while let (key, rows) = holders.changes.earliest(of: wanted), let at = rows.first?.at {
            visits[Visit(key: key, at: at), default: 0] += 1
            let isNew = (visits[Visit(key: key, at: at)] ?? 0) <= 2
            wanted[key] = nil
            for row in isNew ? rows : [] {
                guard apply(row, to: id, index: index) else { continue }
                let led = row.targets.flatMap { KnownChanges.Key.all(of: $0, in: row.scope) }
                for next in led + names where next != key { wanted[next] = min(wanted[next] ?? at, at) }
            }
            wanted[key] = nextTime(after: at, of: key, in: id)
        }
    }

    /// The time from which the next change of a subject can matter; nil: none can.
    private func nextTime(after time: Timestamp, of key: KnownChanges.Key, in id: Identifier) -> Timestamp? {
        guard case .holder(let holder) = key.subject, ownership(of: key.scope.source) == .exclusive else {
            return time.advanced(byMilliseconds: 1)
        }
        guard let state = purchases[id]?.state else { return nil }
        let fact = state.facts.first { $0.at > time && $0.holder == holder }?.at
        let register = state.registers.first { $0.at > time && $0.holder == holder }?.at
        guard let fact, let register else { return fact ?? register }
        return min(fact, register)
    }

    /// - Returns: whether the change altered what is known of the purchase.
    private mutating func apply(_ change: HolderChangeRow, to id: Identifier, index: Int) -> Bool {
        guard let row = purchases[id] else { return false }
        changesTried += 1
        let resolution: Resolution? =
            switch ownership(of: row.scope.source) {
            case .exclusive: TransferResolution.apply(change, to: row.state, kind: row.purchase.kind)
            case .installAndIdentity: SharedOwnership.apply(change, to: row.state)
            }
        guard let resolution, resolution.state != row.state else { return false }
        follow(resolution.derived, purchase: id, index: index)
        return true
    }
}

extension Event {
    /// The keys of changes that can concern the purchase that the event names, with the time from which they can.
    var wantedChanges: [KnownChanges.Key: Timestamp] {
        var wanted: [KnownChanges.Key: Timestamp] = [:]
        for fact in facts {
            for holder in [fact.holder] + (fact.counterpart.map { [$0] } ?? []) {
                for key in KnownChanges.Key.all(of: holder, in: scope) {
                    wanted[key] = min(wanted[key] ?? fact.at, fact.at)
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

extension Resolution {
    /// The resolution of a statement that is not a webhook of this purchase: both messages of a transfer are derived.
    fileprivate var derived: Resolution {
        Resolution(
            state: state,
            told: told.map { ToldTransfer(from: $0.from, to: $0.to, n: $0.n, native: nil) },
            isPassedOn: isPassedOn, access: access, notes: notes)
    }
}
