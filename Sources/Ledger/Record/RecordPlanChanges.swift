import Vocabulary

/// Events that state something of holders as a whole, and what that does to each of their purchases.
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
        // In one order, whatever order they were loaded in: it is the order of telling.
        for id in purchases.keys.filter({ purchases[$0]?.scope == scope }).sorted() {
            applyChanges(to: id, index: index)
        }
    }

    /// Whether what a conditional event is about is as it needs it. Nothing of one that is not admitted is recorded.
    mutating func admits(_ event: Event) -> Bool {
        switch event.change {
        case .register(let install): holders.register(install, scope: event.scope)
        case .claim(let install, let identity, _):
            holders.mayClaim(identity, install: install, scope: event.scope, at: event.occurredAt)
        case .move, .identify, .endSessions, .restore, nil: true
        }
    }

    /// Whether a webhook of this batch gave it something.
    private func isHolder(_ holder: Holder, in scope: Scope) -> Bool {
        entitlements.keys.contains { $0.holder == holder && purchases[$0.purchase]?.scope == scope }
    }

    /// All that was stated of the holders of a purchase, oldest first: what passed to somebody may have passed on.
    /// Each is idempotent, so it does no harm that most were applied before.
    mutating func applyChanges(to id: Identifier, index: Int) {
        guard let scope = purchases[id]?.scope else { return }
        for change in holders.changes where change.scope == scope {
            guard let row = purchases[id], concerns(change, purchase: id, row) else { continue }
            let resolution: Resolution? =
                switch ownership(of: scope.source) {
                case .exclusive: TransferResolution.apply(change, to: row.state, kind: row.purchase.kind)
                case .installAndIdentity: SharedOwnership.apply(change, to: row.state)
                }
            guard let resolution, resolution.state != row.state else { continue }
            follow(resolution.derived, purchase: id, index: index)
        }
    }

    private func concerns(_ change: HolderChangeRow, purchase id: Identifier, _ row: PurchaseRow) -> Bool {
        if let from = change.from { return row.state.registers.contains { $0.holder == from } }
        return holders.names(id, in: change)
    }
}

extension Resolution {
    /// Of a statement that is no webhook of this purchase: both messages of a transfer are the relay's own.
    fileprivate var derived: Resolution {
        Resolution(
            state: state,
            told: told.map { ToldTransfer(from: $0.from, to: $0.to, n: $0.n, native: nil) },
            isPassedOn: isPassedOn, access: access, notes: notes)
    }
}
