import Postgres
import Vocabulary

/// What a batch must know of holders, read in a handful of statements before its purchases are locked.
struct HolderLoading {
    private struct Key: Hashable {
        var scope: Scope
        /// A holder, a transaction or an identity, as bytes.
        var text: [UInt8]

        init(_ scope: Scope, _ text: String) {
            self.scope = scope
            self.text = Array(text.utf8)
        }
    }

    /// Anonymous ids whose links are wanted.
    private var anonymous: Set<Key> = []
    /// Whose changes are wanted: holders and transactions of purchases that this batch is about.
    private var subjects: Set<Key> = []
    /// Holders all of whose purchases an event concerns.
    private var owners: Set<Key> = []
    /// Transactions whose purchases an event concerns.
    private var restored: Set<Key> = []
    private var identities: Set<Key> = []
    /// Users all of whose links are wanted.
    private var users: Set<Key> = []

    init(_ news: [RecordPlan.New], rules: [String: SourceRules]) {
        for new in news {
            let event = new.event
            let named = [event.holder] + event.facts.flatMap { [$0.holder] + ($0.counterpart.map { [$0] } ?? []) }
            for holder in named where holder.isAnonymous { anonymous.insert(Key(event.scope, holder.id)) }
            for link in event.links { anonymous.insert(Key(event.scope, link.anonymousID)) }
            guard rules[event.scope.source]?.statesChanges == true else { continue }
            if new.purchase != nil { wantChanges(of: event) }
            if let change = event.change { want(change, scope: event.scope) }
        }
    }

    private mutating func wantChanges(of event: Event) {
        for fact in event.facts { subjects.insert(Key(event.scope, fact.holder.coalesced)) }
        let names = [
            event.transaction?.storeTransactionID, event.transaction?.storeOriginalTransactionID, event.purchase?.key,
        ]
        for name in names.compactMap({ $0 }) {
            subjects.insert(Key(event.scope, HolderChangeRow.transactionSubject(name)))
        }
    }

    private mutating func want(_ change: HolderChange, scope: Scope) {
        switch change {
        case .move(let from, let to, _):
            for holder in from + [to] {
                owners.insert(Key(scope, holder.coalesced))
                subjects.insert(Key(scope, holder.coalesced))
                if holder.isAnonymous { anonymous.insert(Key(scope, holder.id)) }
            }
        case .identify(let install, let identity):
            owners.insert(Key(scope, Holder.anonymous(install).coalesced))
            subjects.insert(Key(scope, Holder.anonymous(install).coalesced))
            anonymous.insert(Key(scope, install))
            identities.insert(Key(scope, identity))
        case .endSessions(let user): users.insert(Key(scope, user))
        case .restore(let install, let transactions, _):
            anonymous.insert(Key(scope, install))
            for id in transactions { restored.insert(Key(scope, id)) }
        }
    }

    /// - Returns: the purchases that events concern without naming them.
    func run(
        into holders: inout HolderKnowledge, on session: borrowing Session
    ) throws(DatabaseError) -> Set<Identifier> {
        try loadLinks(into: &holders, on: session)
        try loadIdentities(into: &holders, on: session)
        var purchases: Set<Identifier> = []
        if !owners.isEmpty { purchases.formUnion(try session.run(HolderStatements.purchases, arrays(owners))) }
        if !restored.isEmpty {
            for row in try session.run(HolderStatements.restored, arrays(restored)) {
                purchases.insert(row.0)
                holders.know(name: row.1, of: row.0)
            }
        }
        try loadTransactions(of: purchases, into: &holders, on: session)
        try loadChanges(touching: purchases, into: &holders, on: session)
        return purchases
    }

    private func arrays(_ keys: Set<Key>) -> ([String], [String], [String], [String]) {
        let keys = Array(keys)
        return (
            keys.map { String(decoding: $0.text, as: UTF8.self) }, keys.map(\.scope.source), keys.map(\.scope.app),
            keys.map(\.scope.environment)
        )
    }

    private func loadLinks(
        into holders: inout HolderKnowledge, on session: borrowing Session
    ) throws(DatabaseError) {
        var rows = anonymous.isEmpty ? [] : try session.run(HolderStatements.links, arrays(anonymous))
        if !users.isEmpty { rows += try session.run(HolderStatements.linksOfUsers, arrays(users)) }
        for row in rows {
            let scope = Scope(source: row.0, app: row.1, environment: row.2)
            let link = HolderKnowledge.Link(
                userID: row.4, until: row.5.map { Timestamp(milliseconds: $0) }, asOf: Timestamp(milliseconds: row.6))
            holders.load(link, of: HolderKnowledge.LinkKey(scope: scope, holder: .anonymous(row.3)))
        }
    }

    private func loadIdentities(
        into holders: inout HolderKnowledge, on session: borrowing Session
    ) throws(DatabaseError) {
        guard !identities.isEmpty else { return }
        for row in try session.run(HolderStatements.identities, arrays(identities)) {
            let scope = Scope(source: row.1, app: row.2, environment: row.3)
            holders.load(identity: HolderKnowledge.IdentityKey(scope: scope, identity: .user(row.0)))
        }
    }

    private func loadTransactions(
        of purchases: Set<Identifier>, into holders: inout HolderKnowledge, on session: borrowing Session
    ) throws(DatabaseError) {
        guard !purchases.isEmpty else { return }
        for row in try session.run(HolderStatements.newestTransactions, purchases.sorted()) {
            let transaction = Transaction(
                storeTransactionID: row.1, storeOriginalTransactionID: row.2,
                purchasedAt: row.3.map { Timestamp(milliseconds: $0) },
                effectiveNextRenewalAt: row.4.map { Timestamp(milliseconds: $0) }, offerType: row.5, status: row.6)
            holders.know(transaction, of: row.0)
        }
    }

    private func loadChanges(
        touching purchases: Set<Identifier>, into holders: inout HolderKnowledge, on session: borrowing Session
    ) throws(DatabaseError) {
        guard !subjects.isEmpty else { return }
        for row in try session.run(HolderStatements.changes, arrays(subjects)) {
            guard let kind = HolderChangeRow.Kind(rawValue: row.4), let target = Holder(coalesced: row.5) else {
                throw .protocolViolation(reason: "a row of holder_changes cannot be read: kind \(row.4)")
            }
            holders.load(
                HolderChangeRow(
                    scope: Scope(source: row.0, app: row.1, environment: row.2), subject: row.3, kind: kind,
                    target: target, secondTarget: row.6.flatMap { Holder(coalesced: $0) },
                    at: Timestamp(milliseconds: row.7)))
        }
    }
}
