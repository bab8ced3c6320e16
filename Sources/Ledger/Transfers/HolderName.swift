package import Vocabulary

/// Somebody is named as a holder of the purchase: nameless facts from then on may be of that holder
/// (`PurchaseAccount`).
package struct HolderName: Sendable, Hashable, Comparable {
    /// What names the holder. Of those of one time the last counts: a gain says who has the purchase from then on.
    package enum Kind: Int, Sendable, Comparable {
        /// A gain under an own holder that the app gave (`Fact.isGiven`).
        case given
        /// A statement about every purchase of an own holder (`PurchaseState.isLink`).
        case link
        /// `Fact.Kind.naming`.
        case naming
        case loss
        case gain

        /// Whether it is about the purchase itself, and names an account.
        var isOfPurchase: Bool {
            switch self {
            case .given, .link: false
            case .naming, .loss, .gain: true
            }
        }

        package static func < (left: Kind, right: Kind) -> Bool { left.rawValue < right.rawValue }
    }

    package let at: Timestamp
    package let kind: Kind
    package let holder: Holder
    /// Of a link: the own holder that it is about.
    package let about: Holder?

    package init(at: Timestamp, kind: Kind, holder: Holder, about: Holder? = nil) {
        self.at = at
        self.kind = kind
        self.holder = holder
        self.about = about
    }

    init(_ fact: KeptFact) { self.init(at: fact.at, kind: fact.kind == .gain ? .gain : .loss, holder: fact.holder) }

    init(_ register: Register) {
        self.init(at: register.at, kind: register.isOn ? .gain : .loss, holder: register.holder)
    }

    /// Orders by time, then by kind.
    package static func < (left: HolderName, right: HolderName) -> Bool {
        if left.at != right.at { return left.at < right.at }
        if left.kind != right.kind { return left.kind < right.kind }
        if left.holder != right.holder { return left.holder < right.holder }
        guard let mine = left.about, let other = right.about else { return left.about == nil && right.about != nil }
        return mine < other
    }

    /// Whether a name of the purchase itself counts from now on, after `last` did. Of whom a former holder's late loss
    /// is about, the purchase was not any more.
    fileprivate func counts(after last: HolderName?) -> Bool {
        guard let last else { return true }
        return switch kind {
        case .gain: true
        case .loss: last.holder == holder
        case .naming: last.kind == .naming
        case .given, .link: false
        }
    }

    /// Whether it moves a purchase by a link to the same holder: it says whose the purchase is, and not that this
    /// holder has it already.
    func isMoved(by link: KeptMove) -> Bool { kind == .naming && holder == link.to }
}

/// Whose nameless facts of a purchase are at a time, by the names up to then (Domain.md, "Nameless facts"): the account
/// that the purchase itself was given; without one, that of the newest link; without one, the own holder.
struct PurchaseAccount {
    /// The last name of the purchase itself that counts.
    private(set) var account: HolderName?
    /// The install that has the purchase: the own holder that the app gave last.
    private var given: Holder?
    /// The installs that had the purchase so far.
    private var installs: Set<Holder> = []
    /// Each with the install that it is about; nil: with the store's id, while no install had the purchase.
    private var links: [(about: Holder?, to: Holder)] = []
    private let givenHolders: [Holder]

    /// - Parameters:
    ///   - names: ascending.
    ///   - givenHolders: the own holders that the app gave.
    init(_ names: ArraySlice<HolderName>, given givenHolders: [Holder]) {
        self.givenHolders = givenHolders
        for name in names {
            switch name.kind {
            case .given:
                given = name.holder
                installs.insert(name.holder)
            case .link: links.append((install(of: name.about), name.holder))
            case .naming, .loss, .gain: if name.counts(after: account) { account = name }
            }
        }
    }

    /// The holder of a fact that came under this own holder.
    func holder(of own: Holder) -> Holder {
        if let account { return account.holder }
        // An install goes before the store's id, also if the fact lacks it.
        let own = givenHolders.contains(own) ? own : given ?? own
        return links.last { $0.about == own || $0.about == nil && !installs.contains(own) }?.to ?? own
    }

    /// Whether a link says of this purchase whose it is.
    func isAbout(_ link: KeptMove) -> Bool {
        if let account { return account.isMoved(by: link) }
        return install(of: link.from) == given
    }

    /// The install that a link of this subject is about now. That of the store's id is about the purchase, and so about
    /// the install that has it now, also when it comes back, but about no later one. Nil: no install has it.
    private func install(of subject: Holder?) -> Holder? {
        if let subject, givenHolders.contains(subject) { return subject }
        return given
    }
}

extension [HolderName] {
    /// Without those before a time that change nothing of whose nameless facts are.
    /// - Parameter first: the time of the first nameless fact, if there is one. Of the links of one holder before it
    ///   only the newest counts.
    func dropping(before time: Timestamp, first: Timestamp?) -> [HolderName] {
        var account: HolderName?
        var given: HolderName?
        var link: HolderName?
        return enumerated().filter { index, name in
            if name.at >= time { return true }
            switch name.kind {
            case .given:
                if account != nil || given?.holder == name.holder { return false }
                (given, link) = (name, nil)
            case .link:
                if account != nil { return false }
                if let first, name.at < first {
                    let isOld = self[(index + 1)...].contains {
                        $0.kind == .link && $0.about == name.about && $0.at < first && $0.at < time
                    }
                    if isOld { return false }
                } else if let link, link.holder == name.holder, link.about == name.about {
                    return false
                }
                link = name
            case .naming, .loss, .gain:
                guard name.counts(after: account) else { return false }
                if let account, account.holder == name.holder, account.kind >= name.kind { return false }
                account = name
            }
            return true
        }.map(\.element)
    }
}
