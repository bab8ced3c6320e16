/// What an event states about holders as such. It applies to every purchase that they hold at the event time, including
/// purchases whose own webhooks come later.
package enum HolderChange: Hashable, Sendable {
    /// Everything that any of `from` holds passes to `to`. If `isNative`, the vendor itself says so, and one-time
    /// purchases pass, too; otherwise it is Posthouse's own rule of a login, which moves only subscriptions (I3:
    /// Domain.md, "Invariants").
    case move(from: [Holder], to: Holder, isNative: Bool)
    /// An install (anonymous holder) logs in as an identity (user). The first identify ever of an identity gives it
    /// everything that the install holds; each identify opens a session (Qonversion, "User Identifiers").
    case identify(install: String, identity: String)
    /// An `identify` that requires that no other install is linked with the identity and that the install is not logged
    /// in as anybody else. Otherwise the event is refused and nothing is recorded. `moves`: whether it concerns what
    /// the install holds.
    case claim(install: String, identity: String, moves: Bool)
    /// An install is registered by its name if it is still unknown. Otherwise the event is refused.
    case register(install: String)
    /// All sessions of a user end, on all anonymous holders (a logout that names only the user).
    case endSessions(user: String)
    /// The purchases of a store account, named by their transactions, are restored on an install: the install and its
    /// current identity hold them, alone or together with the previous holders.
    case restore(install: String, transactions: [String], strategy: RestoreStrategy)
    /// A line of an export: a change as its ledger kept it. What depended on the moment was decided there.
    case kept(KeptChange)
    /// A line of an export: the install that identified as the identity first. Nothing passes by it.
    case first(install: String, identity: String)
}

/// A statement about all purchases of a holder, or about one by the name of a transaction.
package struct KeptChange: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable {
        /// The platform says that everything passes from the subject to the target.
        case native
        /// A login: the subject's subscriptions pass to the target.
        case login
        /// The first identify: the target holds everything that the subject holds.
        case share
        /// A restore of a transaction: only the targets hold its purchase.
        case transfer
        /// A restore of a transaction: the targets hold its purchase, beside the others.
        case copy
    }

    package enum Subject: Hashable, Sendable {
        case holder(Holder)
        case transaction(String)
    }

    package let kind: Kind
    package let subject: Subject
    /// Who holds from then on; the second where an install and its identity do.
    package let target: Holder
    package let secondTarget: Holder?

    package init(kind: Kind, subject: Subject, target: Holder, secondTarget: Holder?) {
        self.kind = kind
        self.subject = subject
        self.target = target
        self.secondTarget = secondTarget
    }
}

/// What a restore does to the previous holders of the purchase (Qonversion, "Restore strategies").
package enum RestoreStrategy: String, Hashable, Sendable, CaseIterable {
    /// They no longer hold it.
    case transfer
    /// They still hold it.
    case copy
}

/// Links an anonymous holder to a user from the event time on.
package struct HolderLink: Hashable, Sendable {
    package let anonymousID: String
    /// Nil: the holder is no longer a known user (logout, an expired session).
    package let userID: String?
    /// The end of a session, after which the holder is anonymous again. Nil: the link lasts until another statement
    /// ends it.
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
