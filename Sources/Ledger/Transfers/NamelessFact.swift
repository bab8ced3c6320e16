package import Vocabulary

/// A gain or a loss stated by an event that names no account (`Fact.isNamed`), kept as it came until no webhook can
/// change any more whose it is (Domain.md, "Nameless facts").
package struct NamelessFact: Sendable, Hashable {
    package let at: Timestamp
    /// The anonymous holder of the purchase's own. The fact is of this one while nobody is named.
    package let holder: Holder
    package let kind: KeptFact.Kind
    package let isRevoked: Bool
    /// Stated by a family-shared event or for a one-time purchase.
    package let isTenureFree: Bool
    /// The stated end of the period; nil: none is stated.
    package let until: Timestamp?

    init(
        at: Timestamp, holder: Holder, kind: KeptFact.Kind, isRevoked: Bool, isTenureFree: Bool, until: Timestamp?
    ) {
        self.at = at
        self.holder = holder
        self.kind = kind
        self.isRevoked = isRevoked
        self.isTenureFree = isTenureFree
        self.until = until
    }

    /// - Returns: nil if the fact is of the holder that it names. A native is: it names one.
    init?(_ fact: Fact, kind: Purchase.Kind) {
        if fact.isNamed { return nil }
        let isTenureFree = fact.isFamilyShared || kind == .oneTime
        switch fact.kind {
        case .gain: self.kind = .gain
        case .loss: self.kind = .loss
        case .transferred, .received, .naming, .said, .passed: return nil
        }
        self.at = fact.at
        self.holder = fact.holder
        self.isRevoked = fact.isRevoked
        self.isTenureFree = isTenureFree
        self.until = fact.until
    }

    /// Whether both are gains that differ in their times alone.
    fileprivate func isAlike(_ other: NamelessFact) -> Bool {
        kind == .gain && other.kind == .gain && !isRevoked && !other.isRevoked && holder == other.holder
            && isTenureFree == other.isTenureFree
    }

    /// The same with the later of both ends.
    fileprivate func lasting(as other: NamelessFact) -> NamelessFact {
        let ends = [until, other.until].compactMap { $0 }
        return NamelessFact(
            at: at, holder: holder, kind: kind, isRevoked: isRevoked, isTenureFree: isTenureFree,
            until: ends.count == 2 ? ends.max() : nil)
    }

    /// The same as a statement about a holder.
    func fact(of holder: Holder) -> Fact {
        Fact(
            kind: kind == .gain ? .gain : .loss, holder: holder, at: at, until: until, isRevoked: isRevoked,
            isFamilyShared: isTenureFree)
    }

    /// The same of a holder who has another name now.
    func renamed(_ holder: Holder) -> NamelessFact {
        NamelessFact(
            at: at, holder: holder, kind: kind, isRevoked: isRevoked, isTenureFree: isTenureFree, until: until)
    }

    /// The same, stated for a one-time purchase.
    var freeOfTenures: NamelessFact {
        NamelessFact(at: at, holder: holder, kind: kind, isRevoked: isRevoked, isTenureFree: true, until: until)
    }
}

extension NamelessFact: Comparable {
    /// Orders by time, then by content: never by arrival.
    package static func < (left: NamelessFact, right: NamelessFact) -> Bool {
        if left.at != right.at { return left.at < right.at }
        if left.holder != right.holder { return left.holder < right.holder }
        if left.isRevoked != right.isRevoked { return right.isRevoked }
        if left.kind != right.kind { return left.kind.rawValue < right.kind.rawValue }
        if left.isTenureFree != right.isTenureFree { return right.isTenureFree }
        guard let mine = left.until, let other = right.until else { return left.until == nil && right.until != nil }
        return mine < other
    }
}

/// An anonymous holder of a purchase's own, under which its events stand that name no account.
package struct OwnHolder: Sendable, Hashable {
    package let holder: Holder
    /// Event time of the first nameless fact: an older statement about the holder may be new to the purchase.
    package internal(set) var since: Timestamp
    /// `Fact.isGiven`.
    package internal(set) var isGiven = false
}

extension PurchaseState {
    /// Whether the holder is one of the purchase's own, that no event names.
    func isOwn(_ holder: Holder) -> Bool { own.contains { $0.holder == holder } }

    /// Whom an event is about that names only this holder: of one of the purchase's own, whoever is named at that time.
    func holder(of holder: Holder, at time: Timestamp) -> Holder {
        isOwn(holder) ? EffectiveMoves(self).holder(of: holder, at: time) : holder
    }

    /// Whom the purchase itself was given last, where its events may name nobody; nil: nobody was named.
    func account(at time: Timestamp) -> Holder? {
        mayLackName ? EffectiveMoves(self).account(at: time).account?.holder : nil
    }

    /// Whether the move says who a holder of the purchase's own is. Such a statement is about every purchase of that
    /// holder, also about one that somebody else has at that time.
    func isLink(_ move: KeptMove) -> Bool { move.from.map(isOwn) ?? false }

    /// Whether the move is a link that can never count, whatever else arrives: a user was given the purchase by name
    /// before it, and not its subject. An install that was given it by name may turn out to be one of its own holders,
    /// which no event names.
    func canNeverCount(_ move: KeptMove) -> Bool {
        guard isLink(move) else { return false }
        let given = names.filter { $0.kind == .gain && $0.at <= move.at }
        return given.contains { !$0.holder.isAnonymous } && !given.contains { $0.holder == move.from }
            && !moves.contains { $0.at <= move.at && $0.to == move.from }
    }

    /// Whose nameless facts are at a time.
    func account(by names: [HolderName], at time: Timestamp) -> PurchaseAccount {
        PurchaseAccount(names.prefix { $0.at <= time }, given: own.filter(\.isGiven).map(\.holder))
    }

    /// Facts, in canonical order, with the periods that tenures are judged by. Of a purchase whose source always names
    /// somebody, these are the stated ones. What a revocation took back lasts no longer by a further loss.
    func extendingPeriods(_ facts: [KeptFact]) -> [KeptFact] {
        guard mayLackName else { return facts }
        var cuts: [Holder: Timestamp] = [:]
        return facts.map { fact in
            var fact = fact
            if fact.isRevoked {
                cuts[fact.holder] = fact.until
            } else if fact.kind == .loss, let cut = cuts[fact.holder] {
                fact.until = cut
            } else {
                cuts[fact.holder] = nil
                fact.until =
                    isOwn(fact.holder)
                    ? .distantFuture : fact.until.advanced(byMilliseconds: Limits.lateNameMilliseconds)
            }
            return fact
        }
    }

    // MARK: Recording

    /// From now on the purchase's events may name nobody. What they named so far is among the facts and registers.
    mutating func expectNameless() {
        if mayLackName { return }
        mayLackName = true
        for fact in facts { insert(HolderName(fact)) }
        for register in registers + earlier where register.isTenureFree { insert(HolderName(register)) }
    }

    mutating func insert(_ fact: NamelessFact, isGiven: Bool = false) {
        expectNameless()
        keep(fact)
        insert(OwnHolder(holder: fact.holder, since: fact.at, isGiven: isGiven))
        if isGiven, fact.kind == .gain { insert(HolderName(at: fact.at, kind: .given, holder: fact.holder)) }
    }

    /// Adds a fact whose holder is among the own holders, or was forgotten there.
    mutating func keep(_ fact: NamelessFact) {
        let index = nameless.firstIndex { !($0 < fact) } ?? nameless.endIndex
        if index == nameless.endIndex || nameless[index] != fact { nameless.insert(fact, at: index) }
    }

    mutating func insert(_ new: OwnHolder) {
        let index = own.firstIndex { !($0.holder < new.holder) } ?? own.endIndex
        if index < own.endIndex, own[index].holder == new.holder {
            own[index].since = min(own[index].since, new.since)
            own[index].isGiven = own[index].isGiven || new.isGiven
        } else {
            own.insert(new, at: index)
            names = names.filter { $0.holder != new.holder || $0.kind == .given || isOfMove($0) }
            if own.count > Self.ownMax { forgetOwnHolder() }
        }
    }

    /// Whether a move gave the purchase to the holder of the name, at its time.
    private func isOfMove(_ name: HolderName) -> Bool {
        guard name.kind == .gain else { return false }
        if factsShow(KeptMove(at: name.at, from: nil, to: name.holder, isLogin: false)) { return true }
        let here = (registers + earlier).filter { $0.isTenureFree && $0.at == name.at }
        return here.contains { $0.isOn && $0.holder == name.holder }
            && here.contains { !$0.isOn && $0.holder != name.holder }
    }

    /// Forgets the oldest install whose facts are settled; without one, the oldest install.
    private mutating func forgetOwnHolder() {
        let waiting = Set(nameless.map(\.holder))
        func order(_ own: OwnHolder) -> (Int, Int, Timestamp, Holder) {
            (own.isGiven ? 0 : 1, waiting.contains(own.holder) ? 1 : 0, own.since, own.holder)
        }
        guard let oldest = own.min(by: { order($0) < order($1) }) else { return }
        own.removeAll { $0.holder == oldest.holder }
        names.removeAll { $0.about == oldest.holder || $0.kind == .given && $0.holder == oldest.holder }
    }

    mutating func insert(_ name: HolderName) {
        guard mayLackName, name.kind.mayNameOwn || !isOwn(name.holder) else { return }
        let index = names.firstIndex { !($0 < name) } ?? names.endIndex
        if index == names.endIndex || names[index] != name { names.insert(name, at: index) }
    }

    // MARK: Compaction

    /// Drops gains between two others of the same holder, the first of which takes over their end. Whoever is named
    /// later has the purchase from one of the others on; settled, they would stay the own holder's, and those around
    /// them would pass to the named one and back.
    mutating func dropInnerNameless() {
        var kept: [NamelessFact] = []
        for (index, fact) in nameless.enumerated() {
            guard index + 1 < nameless.endIndex, let previous = kept.last, fact.isAlike(previous),
                fact.isAlike(nameless[index + 1])
            else {
                kept.append(fact)
                continue
            }
            kept[kept.endIndex - 1] = previous.lasting(as: fact)
        }
        nameless = kept
    }

    /// Drops names that say nothing new, once no other can come between them; then, beyond the limit, all such, and the
    /// oldest.
    mutating func dropNames() {
        guard !names.isEmpty else { return }
        let first = own.map(\.since).min()
        if let horizon { names = names.dropping(before: horizon, first: first) }
        if names.count <= Self.namesMax { return }
        names = names.dropping(before: Timestamp.distantFuture, first: first)
        while names.count > Self.namesMax {
            // Without what the store said last, the next that it says would be news.
            let said = names.lastIndex { $0.kind == .said }
            names.remove(at: said == names.startIndex ? names.startIndex + 1 : names.startIndex)
        }
    }

    /// Whether a link is older than all that is known of its subject here: it was stated before the purchase was known,
    /// however long ago, and nobody was named since.
    func predatesPurchase(_ move: KeptMove, before horizon: Timestamp) -> Bool {
        guard let own = own.first(where: { $0.holder == move.from }), move.at < own.since else { return false }
        let link = HolderName(at: move.at, kind: .link, holder: move.to, about: move.from)
        return !names.contains { name in
            name.at < horizon && (name.kind.isOfPurchase || name.about == link.about && link <= name)
        }
    }
}
