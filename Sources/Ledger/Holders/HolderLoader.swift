import Postgres
import Vocabulary

/// Loads what a batch must know about holders: queried together, before its purchases are locked.
struct HolderLoader {
    private struct Key: Hashable {
        var scope: Scope
        /// A holder, a transaction or an identity, as bytes.
        var text: [UInt8]

        init(_ scope: Scope, _ text: String) {
            self.scope = scope
            self.text = Array(text.utf8)
        }
    }

    /// Anonymous ids whose links are needed.
    private var anonymous: Set<Key> = []
    private var changes = ChangeLoader()
    /// Holders whose purchases are all concerned by an event.
    private var owners = OwnerLoader()
    /// Transactions whose purchases are concerned by an event.
    private var restored: Set<Key> = []
    private var identities: Set<Key> = []
    /// Installs to register.
    private var registered: Set<Key> = []
    /// Users whose links are all needed.
    private var users: Set<Key> = []
    /// Sources with changes of holders.
    private let changing: Set<String>
    /// Sources whose unfinished changes are needed.
    private var sources: Set<String> = []

    /// - Parameter changing: sources that have, or state, changes of holders.
    init(_ arrivals: [EventBatch.Arrival], changing: Set<String>) {
        self.changing = changing
        for arrival in arrivals {
            let event = arrival.event
            let stated = event.facts.flatMap { [$0.holder] + ($0.counterpart.map { [$0] } ?? []) }
            let named = (event.holder.map { [$0] } ?? []) + stated
            for holder in named where holder.isAnonymous { anonymous.insert(Key(event.scope, holder.id)) }
            for link in event.links { anonymous.insert(Key(event.scope, link.anonymousID)) }
            if let change = event.change { need(change, scope: event.scope, at: event.occurredAt) }
            guard changing.contains(event.scope.source) else { continue }
            sources.insert(event.scope.source)
            if let purchase = arrival.purchaseHash { changes.need(of: event, naming: purchase) }
        }
    }

    /// Loads what is needed to apply a change to further purchases of its subject, after `last`.
    init(continuing change: HolderChangeRow, after last: Identifier) {
        changing = [change.scope.source]
        sources.insert(change.scope.source)
        if let from = change.from { owners.need(from, in: change.scope, after: last) }
        for holder in change.targets + (change.from.map { [$0] } ?? []) where holder.isAnonymous {
            anonymous.insert(Key(change.scope, holder.id))
        }
        changes.need(change.key, from: change.at)
        for target in change.targets { changes.need(target, in: change.scope, from: change.at) }
    }

    private mutating func need(_ change: HolderChange, scope: Scope, at time: Timestamp) {
        switch change {
        case .move(let from, let to, _):
            for holder in from {
                owners.need(holder, in: scope)
                changes.need(holder, in: scope, from: time)
            }
            changes.need(to, in: scope, from: time)
            for holder in from + [to] where holder.isAnonymous { anonymous.insert(Key(scope, holder.id)) }
        case .identify(let install, let identity), .claim(let install, let identity, _):
            owners.need(.anonymous(install), in: scope)
            changes.need(.anonymous(install), in: scope, from: time)
            changes.need(.user(identity), in: scope, from: time)
            anonymous.insert(Key(scope, install))
            identities.insert(Key(scope, identity))
        case .kept(let kept):
            switch kept.subject {
            case .holder(let from):
                owners.need(from, in: scope)
                changes.need(from, in: scope, from: time)
                if from.isAnonymous { anonymous.insert(Key(scope, from.id)) }
            case .transaction(let id):
                restored.insert(Key(scope, id))
                changes.need(KnownChanges.Key(scope: scope, subject: .named(id), isLogin: false), from: time)
            }
            for target in [kept.target] + (kept.secondTarget.map { [$0] } ?? []) {
                changes.need(target, in: scope, from: time)
                if target.isAnonymous { anonymous.insert(Key(scope, target.id)) }
            }
        case .first(_, let identity): identities.insert(Key(scope, identity))
        case .register(let install): registered.insert(Key(scope, install))
        case .endSessions(let user): users.insert(Key(scope, user))
        case .restore(let install, let transactions, _):
            anonymous.insert(Key(scope, install))
            changes.need(.anonymous(install), in: scope, from: time)
            for id in transactions where id != ImportLine.unnamedTransaction {
                restored.insert(Key(scope, id))
                changes.need(KnownChanges.Key(scope: scope, subject: .named(id), isLogin: false), from: time)
            }
        }
    }

    /// Sends the queries.
    /// - Parameter limit: purchases of one holder; for all holders together the limit is four times as high.
    func enqueueQueries(
        in form: LedgerForm, on session: borrowing Session, purchasesMax limit: Int
    ) throws(DatabaseError) -> PendingHolderRows {
        var pending = PendingHolderRows(owners: owners, changing: changing)
        if !anonymous.isEmpty {
            pending.lookedUp = anonymous.map {
                HolderKnowledge.LinkKey(scope: $0.scope, holder: .anonymous(String(decoding: $0.text, as: UTF8.self)))
            }
            pending.links.append(try session.enqueueQuery(HolderStatements.links, arrays(anonymous)))
        }
        if !users.isEmpty {
            pending.links.append(try session.enqueueQuery(HolderStatements.linksOfUsers, arrays(users)))
        }
        if !identities.isEmpty {
            pending.identities = try session.enqueueQuery(HolderStatements.identities, arrays(identities))
        }
        if !registered.isEmpty {
            pending.registered = try session.enqueueQuery(HolderStatements.register, arrays(registered))
        }
        if !owners.isEmpty { pending.owned = try owners.enqueueQueries(on: session, limit: limit) }
        if !restored.isEmpty {
            pending.restored = try session.enqueueQuery(HolderStatements.restored, arrays(restored))
        }
        pending.changes = try changes.enqueueQueries(in: form, on: session)
        if !sources.isEmpty {
            pending.unfinished = try session.enqueueQuery(HolderStatements.unfinishedOf, sources.sorted())
        }
        if pending.owned != nil || pending.restored != nil {
            try pending.enqueueTransactionQuery(on: session, purchasesMax: limit)
        }
        return pending
    }

    private func arrays(_ keys: Set<Key>) -> HolderStatements.Keys {
        let keys = Array(keys)
        return (
            keys.map { String(decoding: $0.text, as: UTF8.self) }, keys.map(\.scope.source), keys.map(\.scope.app),
            keys.map(\.scope.environment)
        )
    }
}

/// Holders whose purchases a batch needs, in a fixed order.
struct OwnerLoader {
    private(set) var holders: [HolderKnowledge.LinkKey] = []
    private var after: [Identifier] = []
    private var known: Set<HolderKnowledge.LinkKey> = []

    var isEmpty: Bool { holders.isEmpty }

    mutating func need(
        _ holder: Holder, in scope: Scope, after last: Identifier = Identifier(high: 0, low: 0)
    ) {
        let key = HolderKnowledge.LinkKey(scope: scope, holder: holder)
        guard known.insert(key).inserted else { return }
        holders.append(key)
        after.append(last)
    }

    /// Queries one purchase more for each holder than may be taken, to see whether there are more.
    func enqueueQueries(on session: borrowing Session, limit: Int) throws(DatabaseError) -> PendingRows<
        (Int64, Identifier)
    > {
        try session.enqueueQuery(
            HolderStatements.purchases,
            (
                holders.map(\.holder.storageKey), holders.map(\.scope.source), holders.map(\.scope.app),
                holders.map(\.scope.environment), after, Int64(limit) + 1
            ))
    }

    /// Takes purchases up to the limits.
    /// - Returns: the purchases taken, and for each holder who has more the last one taken.
    func take(
        _ found: [(Int64, Identifier)], limit: Int
    ) -> (purchases: Set<Identifier>, through: [(holder: HolderKnowledge.LinkKey, last: Identifier)]) {
        var lists = [[Identifier]](repeating: [], count: holders.count)
        for (place, purchase) in found { lists[Int(place) - 1].append(purchase) }
        var purchases: Set<Identifier> = []
        var through: [(holder: HolderKnowledge.LinkKey, last: Identifier)] = []
        var left = 4 * limit
        for index in holders.indices {
            let list = lists[index].sorted()
            let taken = list.prefix(min(limit, left))
            left -= taken.count
            purchases.formUnion(taken)
            if taken.count < list.count { through.append((holders[index], taken.last ?? after[index])) }
        }
        return (purchases, through)
    }
}
