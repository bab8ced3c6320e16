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
        /// `Fact.Kind.said`.
        case said
        case gain

        /// Whether it is about the purchase itself, and names an account.
        var isOfPurchase: Bool {
            switch self {
            case .given, .link: false
            case .naming, .loss, .said, .gain: true
            }
        }

        /// Whether it may name one of the purchase's own holders: an install that the app gave, or to which a restore
        /// gave the purchase.
        var mayNameOwn: Bool { self == .given || self == .gain }

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

    /// Whether it moves a purchase by a link to the same holder: it says whose the purchase is, and not that this
    /// holder has it already.
    func isMoved(by link: KeptMove) -> Bool { kind == .naming && holder == link.to }
}

/// Which names of the purchase itself count, taken in ascending order.
private struct CountedNames {
    /// The last that counts.
    private(set) var last: HolderName?
    /// Whom the store said last, whether it counted or not.
    private(set) var said: Holder?
    /// Of all that counted.
    private var holders: Set<Holder> = []

    /// - Returns: whether the name counts from its time on.
    mutating func take(_ name: HolderName) -> Bool {
        let counts = counts(name)
        if name.kind == .said { said = name.holder }
        if counts {
            last = name
            holders.insert(name.holder)
        }
        return counts
    }

    private func counts(_ name: HolderName) -> Bool {
        switch name.kind {
        case .gain: true
        // A late loss counts only if its holder was the last one named.
        case .loss: last.map { $0.holder == name.holder } ?? true
        case .naming: last.map { $0.kind == .naming } ?? true
        case .said: isNewAccount(name.holder)
        case .given, .link: false
        }
    }

    /// Whether the store says another account than before, or says it of a purchase that this takes from nobody. What
    /// it said before is not known at first, and once that account was erased: it may be this one, if this one or an
    /// erased one was named.
    private func isNewAccount(_ account: Holder) -> Bool {
        guard let last, last.holder != account, !ErasedID.isStandIn(last.holder) else { return true }
        if let said, !ErasedID.isStandIn(said) { return said != account }
        return said == nil && !holders.contains { $0 == account || ErasedID.isStandIn($0) }
    }
}

/// Whose nameless facts of a purchase are at a time, by the names up to then (Domain.md, "Nameless facts"): the account
/// that the purchase itself was given; without one, that of the newest link; without one, the own holder.
struct PurchaseAccount {
    private var counted = CountedNames()
    /// The last name of the purchase itself that counts.
    var account: HolderName? { counted.last }
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
            case .naming, .loss, .said, .gain: _ = counted.take(name)
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
        var counted = CountedNames()
        var given: HolderName?
        var link: HolderName?
        return enumerated().filter { index, name in
            if name.at >= time { return true }
            switch name.kind {
            case .given:
                if counted.last != nil || given?.holder == name.holder { return false }
                (given, link) = (name, nil)
            case .link:
                if counted.last != nil { return false }
                if let first, name.at < first {
                    let isOld = self[(index + 1)...].contains {
                        $0.kind == .link && $0.about == name.about && $0.at < first && $0.at < time
                    }
                    if isOld { return false }
                } else if let link, link.holder == name.holder, link.about == name.about {
                    return false
                }
                link = name
            case .naming, .loss, .said, .gain:
                let before = counted
                let counts = counted.take(name)
                // What the store says is kept also if it does not count: the next is compared with it.
                if name.kind == .said, before.said != name.holder { return true }
                if counts, before.last?.holder != name.holder || before.last.map({ $0.kind < name.kind }) ?? true {
                    return true
                }
                counted = before
                return false
            }
            return true
        }.map(\.element)
    }
}

extension PurchaseState {
    /// The names for a version that does not know what a store said: what counts is a gain, which is all that such a
    /// version would have written of it.
    var namesWithoutSaid: [HolderName] { sayingByGains(keepingSaid: false) }

    /// The names where some are about to change: what the store said and counted is a gain as well, and what did not
    /// count is left out, so that neither is judged anew.
    var decidedNames: [HolderName] { sayingByGains(keepingSaid: true) }

    private func sayingByGains(keepingSaid: Bool) -> [HolderName] {
        if !names.contains(where: { $0.kind == .said }) { return names }
        var counted = CountedNames()
        // A kept move names somebody, too: what the store repeats after it does not count.
        let decided = Set(names + EffectiveMoves(self).names).sorted().flatMap { name -> [HolderName] in
            let counts = counted.take(name)
            guard name.kind == .said else { return names.contains(name) ? [name] : [] }
            guard counts else { return [] }
            let gain = HolderName(at: name.at, kind: .gain, holder: name.holder)
            return keepingSaid ? [name, gain] : [gain]
        }
        return Set(decided).sorted()
    }
}
