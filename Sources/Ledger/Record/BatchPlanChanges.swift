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
extension BatchPlan {
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
        for holder in row.state.everHolders {
            wanted.merge(holders.unfinished(of: holder, in: row.scope), uniquingKeysWith: min)
        }
        return wanted
    }

    /// The stored changes of the holders that an event names, and of its transactions.
    ///
    /// - Parameter isFirst: nothing was known of the purchase before.
    mutating func storedChanges(of id: Identifier, isFirst: Bool, index: Int) -> [KnownChanges.Key: Timestamp] {
        let event = events[index].event
        guard holders.changing.contains(event.scope.source) else { return [:] }
        var wanted = event.wantedChanges
        for name in event.purchaseNames {
            let key = KnownChanges.Key(scope: event.scope, subject: name, isLogin: false)
            // A restore may have named it before its purchase was known.
            let isSettled = holders.isSettled(name, of: id) && !isFirst
            wanted[key] = isSettled ? event.earliestFact : Timestamp(milliseconds: .min)
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
        guard let row = purchases[id] else { return }
        let kind = row.purchase.kind
        var state = TransferResolution.recording(facts, in: row.state, kind: kind)
        var walk = ChangeWalk(wanted)
        walk.lead(by: state.movesInEffect, without: row.state.movesInEffect, in: row.scope)
        var moves: [KeptMove] = []
        while let step = walk.next(of: &holders.changes) {
            for change in step.rows {
                changesTried += 1
                guard let move = TransferResolution.move(change, in: state) else { continue }
                let before = state.movesInEffect
                state.insert(move)
                moves.append(move)
                walk.lead(by: state.movesInEffect, without: before, in: row.scope, from: step.key)
            }
            walk.resume(step.key, at: state.nextTime(after: step.at, of: step.key))
        }
        if facts.isEmpty, moves.isEmpty { return }
        let resolution = TransferResolution.resolve(row.state, facts, moves: moves, kind: kind)
        // The webhook's own statement comes first, unless it is itself one of the two messages of a transfer.
        let isNative = resolution.announced.contains { $0.native != nil }
        if !facts.isEmpty, !isNative, resolution.isPassedOn { passOn(index, transfer: nil) }
        apply(resolution, purchase: id, index: index)
    }

    mutating func applyShared(_ wanted: [KnownChanges.Key: Timestamp], to id: Identifier, index: Int) {
        var walk = ChangeWalk(wanted)
        while let step = walk.next(of: &holders.changes) {
            for change in step.rows {
                guard let row = purchases[id] else { return }
                changesTried += 1
                guard let resolution = SharedOwnership.apply(change, to: row.state), resolution.state != row.state
                else { continue }
                apply(resolution, purchase: id, index: index)
                walk.lead(to: change.targets, in: row.scope, at: step.at, from: step.key)
            }
            walk.resume(step.key, at: step.at.advanced(byMilliseconds: 1))
        }
    }
}

/// The order in which changes reach a purchase: oldest first, and what each leads to, because what passed to a holder
/// may have passed on.
private struct ChangeWalk {
    private struct Visit: Hashable {
        let key: KnownChanges.Key
        let at: Timestamp
    }

    private var wanted: [KnownChanges.Key: Timestamp]
    /// The names under which restores can mean the purchase.
    private let names: [KnownChanges.Key]
    /// Two visits are enough for changes of one time that lead to each other, and they end every circle.
    private var visits: [Visit: Int] = [:]

    init(_ wanted: [KnownChanges.Key: Timestamp]) {
        self.wanted = wanted
        names = wanted.keys.filter { if case .transaction = $0.subject { true } else { false } }
    }

    /// The next changes of one subject, all of one time; `resume` must follow.
    mutating func next(
        of changes: inout KnownChanges
    ) -> (key: KnownChanges.Key, at: Timestamp, rows: ArraySlice<HolderChangeRow>)? {
        guard let (key, rows) = changes.earliest(of: wanted), let at = rows.first?.at else { return nil }
        visits[Visit(key: key, at: at), default: 0] += 1
        wanted[key] = nil
        return (key, at, (visits[Visit(key: key, at: at)] ?? 0) <= 2 ? rows : [])
    }

    /// - Parameter time: from which the subject's next change can matter; nil: none can.
    mutating func resume(_ key: KnownChanges.Key, at time: Timestamp?) { wanted[key] = time }

    mutating func lead(to targets: [Holder], in scope: Scope, at time: Timestamp, from key: KnownChanges.Key?) {
        for next in targets.flatMap({ KnownChanges.Key.all(of: $0, in: scope) }) + names where next != key {
            wanted[next] = min(wanted[next] ?? time, time)
        }
    }

    /// Leads to the holders of the moves that take effect now and did not before.
    mutating func lead(
        by moves: [KeptMove], without before: [KeptMove], in scope: Scope, from key: KnownChanges.Key? = nil
    ) {
        for move in moves where !before.contains(move) {
            lead(to: [move.to], in: scope, at: move.at, from: key)
        }
    }
}

extension PurchaseState {
    /// The time from which the next change of a subject can matter, under exclusive ownership; nil: none can.
    fileprivate func nextTime(after time: Timestamp, of key: KnownChanges.Key) -> Timestamp? {
        guard case .holder(let holder) = key.subject else { return time.advanced(byMilliseconds: 1) }
        let stated =
            facts.filter { $0.holder == holder }.map(\.at) + earlier.filter { $0.holder == holder }.map(\.at)
            + registers.filter { $0.holder == holder }.map(\.at)
        return stated.filter { $0 > time }.min()
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
