/// What an event states of holders as such. It concerns every purchase that they hold at the event time, those included
/// whose own webhooks come later.
package enum HolderChange: Hashable, Sendable {
    /// All that any of `from` holds passes to `to`. `isNative`: the vendor itself says so, and one-time purchases pass,
    /// too; otherwise it is the relay's own rule of a login, which moves subscriptions alone (I3: Domain.md,
    /// "Invariants").
    case move(from: [Holder], to: Holder, isNative: Bool)
    /// An install (anonymous holder) logs in as an identity (user). The first identify ever of an identity gives it all
    /// that the install holds; every one opens a session (Qonversion, "User Identifiers").
    case identify(install: String, identity: String)
    /// The same, where no other install is linked with the identity and the install is logged in as nobody else.
    /// Otherwise the event is refused: nothing of it is recorded. `moves`: whether what the install holds is concerned.
    case claim(install: String, identity: String, moves: Bool)
    /// An install is registered by its name, where nothing knows of it yet. Otherwise the event is refused.
    case register(install: String)
    /// All sessions of a user end, on whatever anonymous holders (a logout that names the user alone).
    case endSessions(user: String)
    /// A store account's purchases, named by their transactions, are restored on an install: it and its current
    /// identity hold them, alone or beside the others.
    case restore(install: String, transactions: [String], strategy: RestoreStrategy)
}

/// What a restore does to those who held the purchase before (Qonversion, "Restore strategies").
package enum RestoreStrategy: String, Hashable, Sendable, CaseIterable {
    /// They hold it no more.
    case transfer
    /// They hold it still.
    case copy
}

/// From the event time on an anonymous holder is this user.
package struct HolderLink: Hashable, Sendable {
    package let anonymousID: String
    /// Nil: it is nobody known any more (logout, an expired session).
    package let userID: String?
    /// A session's end: past it the holder resolves as anonymous again. Nil: it holds until something else is said.
    package let until: Timestamp?

    package init(anonymousID: String, userID: String?, until: Timestamp? = nil) {
        self.anonymousID = anonymousID
        self.userID = userID
        self.until = until
    }
}

/// Who may hold one purchase at a time (Domain.md, "Ownership").
package enum Ownership: String, Hashable, Sendable, CaseIterable {
    /// One holder at a time; a login moves subscriptions, a logout moves nothing back.
    case exclusive
    /// Qonversion's rule: an install and its identity hold together, the first identify shares, a restore transfers or
    /// copies.
    case installAndIdentity = "install_and_identity"
}
