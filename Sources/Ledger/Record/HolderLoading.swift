import Postgres
import Vocabulary

/// What a batch must know of holders: asked together, before its purchases are locked.
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
    /// Installs that are to be registered.
    private var registered: Set<Key> = []
    /// Users all of whose links are wanted.
    private var users: Set<Key> = []

    init(_ events: [Event], rules: [String: SourceRules]) {
        for event in events {
            let named = [event.holder] + event.facts.flatMap { [$0.holder] + ($0.counterpart.map { [$0] } ?? []) }
            for holder in named where holder.isAnonymous { anonymous.insert(Key(event.scope, holder.id)) }
            for link in event.links { anonymous.insert(Key(event.scope, link.anonymousID)) }
            if let change = event.change { want(change, scope: event.scope) }
            guard rules[event.scope.source]?.statesChanges == true else { continue }
            if event.purchase != nil { wantChanges(of: event) }
        }
    }

    private mutating func wantChanges(of event: Event) {
        for fact in event.facts {
            for holder in [fact.holder, fact.counterpart].compactMap({ $0 }) {
                subjects.insert(Key(event.scope, holder.coalesced))
            }
        }
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
        case .identify(let install, let identity), .claim(let install, let identity, _):
            owners.insert(Key(scope, Holder.anonymous(install).coalesced))
            subjects.insert(Key(scope, Holder.anonymous(install).coalesced))
            anonymous.insert(Key(scope, install))
            identities.insert(Key(scope, identity))
        case .register(let install): registered.insert(Key(scope, install))
        case .endSessions(let user): users.insert(Key(scope, user))
        case .restore(let install, let transactions, _):
            anonymous.insert(Key(scope, install))
            for id in transactions { restored.insert(Key(scope, id)) }
        }
    }

    func ask(on session: borrowing Session) throws(DatabaseError) -> HolderAnswers {
        var answers = HolderAnswers()
        if !anonymous.isEmpty { answers.links.append(try session.ask(HolderStatements.links, arrays(anonymous))) }
        if !users.isEmpty { answers.links.append(try session.ask(HolderStatements.linksOfUsers, arrays(users))) }
        if !identities.isEmpty {
            answers.identities = try session.ask(HolderStatements.identities, arrays(identities))
        }
        if !registered.isEmpty {
            answers.registered = try session.ask(HolderStatements.register, arrays(registered))
        }
        if !owners.isEmpty { answers.owned = try session.ask(HolderStatements.purchases, arrays(owners)) }
        if !restored.isEmpty { answers.restored = try session.ask(HolderStatements.restored, arrays(restored)) }
        if !subjects.isEmpty { answers.changes = try session.ask(HolderStatements.changes, arrays(subjects)) }
        if answers.owned != nil || answers.restored != nil { try answers.askForTransactions(on: session) }
        return answers
    }

    private func arrays(_ keys: Set<Key>) -> HolderStatements.Keys {
        let keys = Array(keys)
        return (
            keys.map { String(decoding: $0.text, as: UTF8.self) }, keys.map(\.scope.source), keys.map(\.scope.app),
            keys.map(\.scope.environment)
        )
    }
}

/// What was asked of holders. Nil: nothing of that kind.
struct HolderAnswers {
    fileprivate(set) var links: [Asked<HolderStatements.LinkRow>] = []
    fileprivate(set) var identities: Asked<HolderStatements.IdentityRow>?
    fileprivate(set) var registered: Asked<HolderStatements.RegisteredRow>?
    fileprivate(set) var owned: Asked<Identifier>?
    fileprivate(set) var restored: Asked<(Identifier, String)>?
    fileprivate(set) var changes: Asked<HolderStatements.ChangeRow>?
    /// That events concern without naming them.
    private(set) var purchases: Set<Identifier> = []
    private var transactions: Asked<HolderStatements.TransactionRow>?

    /// Waits for the purchases.
    fileprivate mutating func askForTransactions(on session: borrowing Session) throws(DatabaseError) {
        if let owned { purchases.formUnion(try session.answer(to: owned)) }
        if let restored { purchases.formUnion(try session.answer(to: restored).map(\.0)) }
        guard !purchases.isEmpty else { return }
        transactions = try session.ask(HolderStatements.newestTransactions, purchases.sorted())
    }

    func knowledge(on session: borrowing Session) throws(DatabaseError) -> HolderKnowledge {
        var holders = HolderKnowledge()
        for asked in links {
            for row in try session.answer(to: asked) {
                let link = HolderKnowledge.Link(
                    userID: row.4, until: row.5.map { Timestamp(milliseconds: $0) },
                    asOf: Timestamp(milliseconds: row.6))
                let scope = Scope(source: row.0, app: row.1, environment: row.2)
                holders.load(link, of: HolderKnowledge.LinkKey(scope: scope, holder: .anonymous(row.3)))
            }
        }
        if let identities {
            for row in try session.answer(to: identities) {
                let scope = Scope(source: row.1, app: row.2, environment: row.3)
                holders.load(
                    HolderKnowledge.Identity(first: row.4, linked: row.5, isNamed: row.6),
                    of: HolderKnowledge.IdentityKey(scope: scope, identity: .user(row.0)))
            }
        }
        if let registered {
            for row in try session.answer(to: registered) {
                let scope = Scope(source: row.1, app: row.2, environment: row.3)
                holders.load(registered: HolderKnowledge.LinkKey(scope: scope, holder: .anonymous(row.0)))
            }
        }
        if let restored {
            for row in try session.answer(to: restored) { holders.know(name: row.1, of: row.0) }
        }
        if let transactions {
            for row in try session.answer(to: transactions) { holders.know(Self.transaction(row), of: row.0) }
        }
        if let changes {
            for row in try session.answer(to: changes) { holders.load(try Self.change(row)) }
        }
        return holders
    }

    private static func transaction(_ row: HolderStatements.TransactionRow) -> Transaction {
        Transaction(
            storeTransactionID: row.1, storeOriginalTransactionID: row.2,
            purchasedAt: row.3.map { Timestamp(milliseconds: $0) },
            effectiveNextRenewalAt: row.4.map { Timestamp(milliseconds: $0) }, offerType: row.5, status: row.6)
    }

    private static func change(_ row: HolderStatements.ChangeRow) throws(DatabaseError) -> HolderChangeRow {
        guard let kind = HolderChangeRow.Kind(rawValue: row.4), let target = Holder(coalesced: row.5) else {
            throw .protocolViolation(reason: "a row of holder_changes cannot be read: kind \(row.4)")
        }
        return HolderChangeRow(
            scope: Scope(source: row.0, app: row.1, environment: row.2), subject: row.3, kind: kind, target: target,
            secondTarget: row.6.flatMap { Holder(coalesced: $0) }, at: Timestamp(milliseconds: row.7))
    }
}
