import Vocabulary

/// What a batch knows of holders beyond their purchases: loaded, and learned by it.
struct HolderKnowledge {
    struct LinkKey: Hashable {
        var scope: Scope
        var holder: Holder
    }

    /// Who an anonymous holder is, as of an event time.
    struct Link: Equatable {
        /// Nil: nobody known.
        var userID: String?
        var until: Timestamp?
        var asOf: Timestamp

        /// The later statement holds; of two at one time the one that ends, then by bytes: never the order of arrival.
        func yields(to other: Link) -> Bool {
            if asOf != other.asOf { return asOf < other.asOf }
            guard let userID, let theirs = other.userID else { return other.userID == nil }
            return userID == theirs || Array(userID.utf8).lexicographicallyPrecedes(Array(theirs.utf8))
        }
    }

    struct IdentityKey: Hashable {
        var scope: Scope
        var identity: Holder
    }

    /// All that is known of an identity, loaded and learned.
    struct Identity {
        /// The install that identified as it first.
        var first: String?
        /// Installs that it is linked with, those with the oldest links first; of several that were loaded two.
        var linked: [String] = []
        /// Something in the ledger names it.
        var isNamed = false

        /// Whether another install than this one is known to be, or to have been, logged in as it.
        func isTaken(besides install: String) -> Bool {
            if let first { return !first.hasSameBytes(as: install) }
            return linked.contains { !$0.hasSameBytes(as: install) }
        }
    }

    /// A change that the batch states, and what is left of it to do.
    struct NewChange {
        var row: HolderChangeRow
        /// Row of the event that states it.
        var event: Int64
        /// The last of the subject's purchases that it was applied to; nil: it was applied to all.
        var appliedThrough: Identifier?
    }

    /// Loaded, and learned.
    private(set) var links: [LinkKey: Link] = [:]
    private(set) var learnedLinks: Set<LinkKey> = []
    /// By user: at least all links that name it.
    private var linksOfUsers: [LinkKey: Set<LinkKey>] = [:]
    var changes = KnownChanges()
    private(set) var newChanges: [NewChange] = []
    /// Holders who have more purchases than were loaded: the last one that was.
    private var loadedThrough: [LinkKey: Identifier] = [:]
    /// By holder: stored changes that were not applied to all of its purchases yet, and since when.
    private var unfinished: [LinkKey: [KnownChanges.Key: Timestamp]] = [:]
    private(set) var identities: [IdentityKey: Identity] = [:]
    /// Installs that this batch has registered and no event of it has claimed yet.
    private var registered: Set<LinkKey> = []
    private(set) var newIdentities: [(key: IdentityKey, install: String, event: Int64)] = []
    /// Of purchases that an event can move without naming them: their newest transaction.
    private(set) var newestTransaction: [Identifier: Transaction] = [:]
    /// Purchases by what a restore can name them by.
    private var named: [KnownChanges.Subject: Set<Identifier>] = [:]
    /// Names under which a purchase was known before: what was stated of them was applied to it.
    private var settledNames: [KnownChanges.Subject: Set<Identifier>] = [:]

    mutating func load(_ link: Link, of key: LinkKey) { set(link, of: key) }
    mutating func load(_ identity: Identity, of key: IdentityKey) { identities[key] = identity }
    mutating func load(registered: LinkKey) { self.registered.insert(registered) }
    mutating func load(_ holder: LinkKey, through last: Identifier) { loadedThrough[holder] = last }
    mutating func load(unfinished change: HolderChangeRow) {
        guard let from = change.from else { return }
        let key = LinkKey(scope: change.scope, holder: from)
        unfinished[key, default: [:]].merge([change.key: change.at], uniquingKeysWith: min)
    }

    /// What may not have been applied yet to a purchase that this holder had.
    func unfinished(of holder: Holder, in scope: Scope) -> [KnownChanges.Key: Timestamp] {
        if unfinished.isEmpty { return [:] }
        return unfinished[LinkKey(scope: scope, holder: holder)] ?? [:]
    }

    mutating func settle(_ name: KnownChanges.Subject, of purchase: Identifier) {
        settledNames[name, default: []].insert(purchase)
    }

    // MARK: Who an anonymous holder is

    mutating func learn(_ link: HolderLink, scope: Scope, at time: Timestamp) {
        learn(
            Link(userID: link.userID, until: link.until, asOf: time),
            of: LinkKey(scope: scope, holder: .anonymous(link.anonymousID)))
    }

    mutating func learn(_ told: ToldTransfer, scope: Scope, at time: Timestamp) {
        guard told.from.isAnonymous, case .user(let user) = told.to else { return }
        let key = LinkKey(scope: scope, holder: told.from)
        // A session that says the same keeps its end, and is as new as what says it again.
        let isKnown = links[key]?.userID.map { Array($0.utf8) } == Array(user.utf8)
        learn(Link(userID: user, until: isKnown ? links[key]?.until : nil, asOf: time), of: key)
    }

    private mutating func learn(_ link: Link, of key: LinkKey) {
        if let known = links[key], !known.yields(to: link) { return }
        set(link, of: key)
        learnedLinks.insert(key)
        guard let user = link.userID else { return }
        let identity = IdentityKey(scope: key.scope, identity: .user(user))
        guard identities[identity]?.linked.contains(where: { $0.hasSameBytes(as: key.holder.id) }) != true else {
            return
        }
        identities[identity, default: Identity()].linked.append(key.holder.id)
    }

    private mutating func set(_ link: Link, of key: LinkKey) {
        links[key] = link
        guard let user = link.userID else { return }
        linksOfUsers[LinkKey(scope: key.scope, holder: .user(user)), default: []].insert(key)
    }

    /// Of all that are known by then. A login that comes late, after this, is not known: its own end still holds.
    mutating func endSessions(of user: String, scope: Scope, at time: Timestamp) {
        let named = Holder.user(user)
        for key in linksOfUsers[LinkKey(scope: scope, holder: named)] ?? [] {
            guard let current = links[key]?.userID, Holder.user(current) == named else { continue }
            learn(Link(userID: nil, until: nil, asOf: time), of: key)
        }
    }

    /// The user that an anonymous holder is known to be (invariant I5); past a session's end it is nobody again.
    func user(of holder: Holder, scope: Scope, at time: Timestamp) -> String? {
        guard holder.isAnonymous, let link = links[LinkKey(scope: scope, holder: holder)] else { return nil }
        if let until = link.until, time >= until { return nil }
        return link.userID
    }

    // MARK: Transactions

    mutating func know(_ transaction: Transaction, of purchase: Identifier) {
        newestTransaction[purchase] = transaction
        know(name: transaction.storeTransactionID, of: purchase)
        if let original = transaction.storeOriginalTransactionID { know(name: original, of: purchase) }
    }

    mutating func know(name: String, of purchase: Identifier) {
        named[.named(name), default: []].insert(purchase)
    }

    func purchases(named name: KnownChanges.Subject) -> Set<Identifier> { named[name] ?? [] }

    func isSettled(_ name: KnownChanges.Subject, of purchase: Identifier) -> Bool {
        settledNames[name]?.contains(purchase) ?? false
    }

    // MARK: Holders as a whole

    /// - Parameter isHolder: this batch gave it something.
    /// - Returns: whether this is the first identify ever of the identity, as far as anything is known of it. One that
    ///   only webhooks told of belongs to the install that they linked it with: that install identified as it first,
    /// and   this is where it shares. One that holds something, while no install is known, was somebody's before.
    mutating func identify(
        _ identity: String, install: String, scope: Scope, event: Int64, isHolder: Bool
    ) -> Bool {
        let key = IdentityKey(scope: scope, identity: .user(identity))
        let known = identities[key] ?? Identity()
        guard known.first == nil else { return false }
        let isTaken = known.isTaken(besides: install)
        let first = isTaken ? known.linked.first ?? install : install
        identities[key, default: Identity()].first = first
        newIdentities.append((key, first, event))
        return !isTaken && (!known.linked.isEmpty || !known.isNamed && !isHolder)
    }

    /// Whether the install may become the identity's first: no other is linked with it, and nobody else is logged in.
    func mayClaim(_ identity: String, install: String, scope: Scope, at time: Timestamp) -> Bool {
        let key = IdentityKey(scope: scope, identity: .user(identity))
        if identities[key]?.isTaken(besides: install) == true { return false }
        let current = user(of: .anonymous(install), scope: scope, at: time)
        return current?.hasSameBytes(as: identity) ?? true
    }

    /// - Returns: whether this batch has registered it, for the first event that asks.
    mutating func register(_ install: String, scope: Scope) -> Bool {
        registered.remove(LinkKey(scope: scope, holder: .anonymous(install))) != nil
    }

    /// One that repeats another to the letter is not kept a second time: each is idempotent.
    mutating func add(_ change: HolderChangeRow, event: Int64) {
        guard changes.add(change, of: change.key) else { return }
        let last = change.from.flatMap { loadedThrough[LinkKey(scope: change.scope, holder: $0)] }
        newChanges.append(NewChange(row: change, event: event, appliedThrough: last))
    }
}
