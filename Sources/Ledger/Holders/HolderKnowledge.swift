import Vocabulary

/// What a batch knows about holders beyond their purchases: loaded from the database or added by its events.
struct HolderKnowledge {
    struct LinkKey: Hashable {
        var scope: Scope
        var holder: Holder
    }

    /// The user that an anonymous holder is, as of an event time.
    struct Link: Equatable {
        /// Nil: no user is known.
        var userID: String?
        var until: Timestamp?
        var asOf: Timestamp

        /// The later statement wins; on equal times the one that ends the link, then by bytes: never by arrival.
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

    /// What is known of an identity: loaded and added.
    struct Identity {
        /// The first install that identified as it; a stand-in, if that was erased and none has identified since.
        var first: String?
        /// Linked installs, oldest link first. At most two are loaded, and none if `owner` is known.
        var linked: [String] = []
        /// Whether anything in the ledger names it.
        var isNamed = false

        /// The first install, unless it was erased.
        var owner: String? { first.flatMap { ErasedID.isStandIn(.anonymous($0)) ? nil : $0 } }

        /// Whether an install other than this one is known to be, or to have been, logged in as it.
        func isTaken(besides install: String) -> Bool {
            if let owner { return !owner.hasSameBytes(as: install) }
            return linked.contains { !$0.hasSameBytes(as: install) }
        }
    }

    /// A change that the batch states, and how far it was applied.
    struct NewChange {
        var row: HolderChangeRow
        /// Row of the event that states it.
        var event: Int64
        /// The last of the subject's purchases that it was applied to; nil: it was applied to all of them.
        var appliedThrough: Identifier?
    }

    /// An identity that the batch states for the first time, or for the first time since its first install was erased.
    struct NewIdentity {
        let key: IdentityKey
        var install: String
        /// Row of the event that states it.
        let event: Int64
    }

    struct NewLink {
        let key: LinkKey
        let link: Link
    }

    /// Sources with changes of holders. Of others nothing is known that could concern a holder as a whole.
    let changing: Set<String>
    /// Loaded and added.
    private(set) var links: [LinkKey: Link] = [:]
    private(set) var newLinks: Set<LinkKey> = []
    /// Anonymous holders whose links were looked up, whether there are any or not.
    private var lookedUp: Set<LinkKey> = []
    /// Those of transfers that were not: no event names them.
    private(set) var missingLinks: Set<LinkKey> = []
    /// By user: all links that name it, and perhaps former ones.
    private var linksOfUsers: [LinkKey: Set<LinkKey>] = [:]
    var changes = KnownChanges()
    /// Stored changes that cannot be read, by row.
    var leftOut: [Int64: HolderChangeRow.Unreadable] = [:]
    private(set) var newChanges: [NewChange] = []
    /// Holders who have more purchases than were loaded, each with the last one loaded.
    private var loadedThrough: [LinkKey: Identifier] = [:]
    /// By holder: stored changes that are not applied to all of its purchases yet, with their earliest times.
    private var unfinished: [LinkKey: [KnownChanges.Key: Timestamp]] = [:]
    private(set) var identities: [IdentityKey: Identity] = [:]
    /// Installs that this batch has registered and that none of its events has claimed yet.
    private var registered: Set<LinkKey> = []
    private(set) var newIdentities: [NewIdentity] = []
    /// The newest transaction of each purchase that an event can move without naming it.
    private var newestTransactions: [Identifier: BatchPlan.TransactionRow] = [:]
    /// Purchases by the names that a restore can use for them.
    private var named: [KnownChanges.Subject: Set<Identifier>] = [:]
    /// Names under which a purchase was already known: what was stated about these names has been applied to it.
    private var settledNames: [KnownChanges.Subject: Set<Identifier>] = [:]

    init(changing: Set<String> = []) { self.changing = changing }

    mutating func load(_ link: Link, of key: LinkKey) { set(link, of: key) }
    mutating func markLookedUp(_ keys: some Sequence<LinkKey>) { lookedUp.formUnion(keys) }
    mutating func load(_ identity: Identity, of key: IdentityKey) { identities[key] = identity }
    mutating func load(registered: LinkKey) { self.registered.insert(registered) }
    mutating func load(_ holder: LinkKey, through last: Identifier) { loadedThrough[holder] = last }
    mutating func load(unfinished change: HolderChangeRow) {
        guard let from = change.from else { return }
        let key = LinkKey(scope: change.scope, holder: from)
        unfinished[key, default: [:]].merge([change.key: change.at], uniquingKeysWith: min)
    }

    /// Whether there are stored changes that may not have been applied yet to all purchases.
    var hasUnfinished: Bool { !unfinished.isEmpty }

    /// Stored changes that may not have been applied yet to a purchase that this holder had.
    func unfinished(of holder: Holder, in scope: Scope) -> [KnownChanges.Key: Timestamp] {
        unfinished[LinkKey(scope: scope, holder: holder)] ?? [:]
    }

    mutating func settle(_ name: KnownChanges.Subject, of purchase: Identifier) {
        settledNames[name, default: []].insert(purchase)
    }

    // MARK: Who an anonymous holder is

    mutating func add(_ link: HolderLink, scope: Scope, at time: Timestamp) {
        add(
            Link(userID: link.userID, until: link.until, asOf: time),
            of: LinkKey(scope: scope, holder: .anonymous(link.anonymousID)))
    }

    /// Takes a transfer between two.
    /// - Parameter time: since when the old holder is known to be the new one; nil: the transfer does not say it.
    mutating func add(_ pair: Timeline.Pair, scope: Scope, at time: Timestamp?) {
        for holder in [pair.from, pair.to] where holder.isAnonymous {
            let key = LinkKey(scope: scope, holder: holder)
            if !lookedUp.contains(key) { missingLinks.insert(key) }
        }
        guard let time, pair.from.isAnonymous, case .user(let user) = pair.to else { return }
        let key = LinkKey(scope: scope, holder: pair.from)
        // If a session links the same user, its end stays; the link becomes as new as this transfer.
        let isKnown = links[key]?.userID.map { Array($0.utf8) } == Array(user.utf8)
        add(Link(userID: user, until: isKnown ? links[key]?.until : nil, asOf: time), of: key)
    }

    private mutating func add(_ link: Link, of key: LinkKey) {
        if let known = links[key], !known.yields(to: link) { return }
        set(link, of: key)
        newLinks.insert(key)
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

    /// Ends the sessions of a user that are known by now. A login that arrives after this and belongs before it is not
    /// known yet: its own end still applies.
    mutating func endSessions(of user: String, scope: Scope, at time: Timestamp) {
        let named = Holder.user(user)
        for key in linksOfUsers[LinkKey(scope: scope, holder: named)] ?? [] {
            guard let current = links[key]?.userID, Holder.user(current) == named else { continue }
            add(Link(userID: nil, until: nil, asOf: time), of: key)
        }
    }

    /// The user that an anonymous holder is known to be (invariant I5); after the end of the session there is none.
    func user(of holder: Holder, scope: Scope, at time: Timestamp) -> String? {
        guard holder.isAnonymous, let link = links[LinkKey(scope: scope, holder: holder)] else { return nil }
        if let until = link.until, time >= until { return nil }
        return link.userID
    }

    // MARK: Transactions

    /// No message has one that an import's line did not name.
    mutating func add(_ row: BatchPlan.TransactionRow) {
        let transaction = row.transaction
        if transaction.storeTransactionID == ImportLine.unnamedTransaction { return }
        if newestTransactions[row.purchase].map({ row.isNewer(than: $0) }) ?? true {
            newestTransactions[row.purchase] = row
        }
        add(name: transaction.storeTransactionID, of: row.purchase)
        if let original = transaction.storeOriginalTransactionID { add(name: original, of: row.purchase) }
    }

    func newestTransaction(of purchase: Identifier) -> Transaction? { newestTransactions[purchase]?.transaction }

    mutating func add(name: String, of purchase: Identifier) {
        named[.named(name), default: []].insert(purchase)
    }

    func purchases(named name: KnownChanges.Subject) -> Set<Identifier> { named[name] ?? [] }

    func isSettled(_ name: KnownChanges.Subject, of purchase: Identifier) -> Bool {
        settledNames[name]?.contains(purchase) ?? false
    }

    // MARK: Holders as a whole

    /// Records an identify of an install as an identity.
    /// - Parameter isHolder: this batch gave the identity something.
    /// - Returns: whether this is the first identify ever of the identity, as far as is known. An identity that is
    ///   known only from webhooks belongs to the install that they linked it with: that install identified first, and
    ///   now it shares its purchases. An identity that holds something while no install is known was somebody's before.
    ///   So was one whose first install was erased: the next one takes that place, so that no other may claim the
    ///   identity, but shares nothing.
    mutating func identify(
        _ identity: String, install: String, scope: Scope, event: Int64, isHolder: Bool
    ) -> Bool {
        let key = IdentityKey(scope: scope, identity: .user(identity))
        let known = identities[key] ?? Identity()
        guard known.owner == nil else { return false }
        let isTaken = known.isTaken(besides: install)
        let first = isTaken ? known.linked.first ?? install : install
        name(first, of: key, event: event)
        return known.first == nil && !isTaken && (!known.linked.isEmpty || !known.isNamed && !isHolder)
    }

    /// Takes which install identified as an identity first, as another ledger recorded it.
    mutating func addFirst(_ identity: String, install: String, scope: Scope, event: Int64) {
        let key = IdentityKey(scope: scope, identity: .user(identity))
        if identities[key]?.owner == nil { name(install, of: key, event: event) }
    }

    private mutating func name(_ first: String, of key: IdentityKey, event: Int64) {
        identities[key, default: Identity()].first = first
        // A line of an export may have brought a stand-in in this batch, and one statement writes each row once.
        if let index = newIdentities.firstIndex(where: { $0.key == key }) {
            newIdentities[index].install = first
        } else {
            newIdentities.append(NewIdentity(key: key, install: first, event: event))
        }
    }

    /// Whether the install may become the identity's first: no other install is linked with the identity, and nobody
    /// else is logged in on this install.
    func mayClaim(_ identity: String, install: String, scope: Scope, at time: Timestamp) -> Bool {
        let key = IdentityKey(scope: scope, identity: .user(identity))
        if identities[key]?.isTaken(besides: install) == true { return false }
        let current = user(of: .anonymous(install), scope: scope, at: time)
        return current?.hasSameBytes(as: identity) ?? true
    }

    /// Takes the registration of an install.
    /// - Returns: whether this batch has registered it; true only for the first event that asks.
    mutating func register(_ install: String, scope: Scope) -> Bool {
        registered.remove(LinkKey(scope: scope, holder: .anonymous(install))) != nil
    }

    /// Adds a change, unless it repeats another exactly: each change is idempotent.
    /// - Returns: whether it is new, as far as is known.
    @discardableResult
    mutating func add(_ change: HolderChangeRow, event: Int64) -> Bool {
        guard changes.add(change, of: change.key) else { return false }
        let last = change.from.flatMap { loadedThrough[LinkKey(scope: change.scope, holder: $0)] }
        newChanges.append(NewChange(row: change, event: event, appliedThrough: last))
        return true
    }
}
