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
        case .transferred, .received: return nil
        }
        self.at = fact.at
        self.holder = fact.holder
        self.isRevoked = fact.isRevoked
        self.isTenureFree = isTenureFree
        self.until = fact.until
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
}

/// Somebody is named as a holder of the purchase: nameless facts from then on are of that holder.
package struct HolderName: Sendable, Hashable, Comparable {
    package let at: Timestamp
    package let isGain: Bool
    package let holder: Holder

    /// Orders by time; at one time a gain comes after a loss, because it says who has the purchase from then on.
    package static func < (left: HolderName, right: HolderName) -> Bool {
        if left.at != right.at { return left.at < right.at }
        if left.isGain != right.isGain { return right.isGain }
        return left.holder < right.holder
    }
}

extension PurchaseState {
    /// Whether the holder is one of the purchase's own, that no event names.
    func isOwn(_ holder: Holder) -> Bool { own.contains { $0.holder == holder } }

    /// Whether the move says who a holder of the purchase's own is. Such a statement is about every purchase of that
    /// holder, also about one that somebody else has at that time.
    func isLink(_ move: KeptMove) -> Bool { move.from.map(isOwn) ?? false }

    /// The fact with the period that tenures are judged by. Of a purchase whose source always names somebody, this is
    /// the stated one.
    func reaching(_ fact: KeptFact) -> KeptFact {
        guard mayLackName, !fact.isRevoked else { return fact }
        var fact = fact
        fact.until =
            isOwn(fact.holder)
            ? Timestamp(milliseconds: .max) : fact.until.advanced(byMilliseconds: Limits.lateNameMilliseconds)
        return fact
    }

    // MARK: Recording

    /// From now on the purchase's events may name nobody. What they named so far is among the facts and registers.
    mutating func expectNameless() {
        if mayLackName { return }
        mayLackName = true
        for fact in facts { insert(HolderName(at: fact.at, isGain: fact.kind == .gain, holder: fact.holder)) }
        for register in registers + earlier where register.isTenureFree {
            insert(HolderName(at: register.at, isGain: register.isOn, holder: register.holder))
        }
    }

    mutating func insert(_ fact: NamelessFact) {
        expectNameless()
        let index = nameless.firstIndex { !($0 < fact) } ?? nameless.endIndex
        if index == nameless.endIndex || nameless[index] != fact { nameless.insert(fact, at: index) }
        insert(OwnHolder(holder: fact.holder, since: fact.at))
    }

    mutating func insert(_ new: OwnHolder) {
        let index = own.firstIndex { !($0.holder < new.holder) } ?? own.endIndex
        if index < own.endIndex, own[index].holder == new.holder {
            own[index].since = min(own[index].since, new.since)
        } else if own.count < Self.ownMax {
            own.insert(new, at: index)
            names.removeAll { $0.holder == new.holder }
        }
    }

    mutating func insert(_ name: HolderName) {
        guard mayLackName, !isOwn(name.holder) else { return }
        let index = names.firstIndex { !($0 < name) } ?? names.endIndex
        if index == names.endIndex || names[index] != name { names.insert(name, at: index) }
    }

    // MARK: Compaction

    /// Drops names that no nameless fact can be given by any more: the newest before the horizon stays.
    mutating func dropNames() {
        guard !names.isEmpty else { return }
        if let horizon {
            let past = names.prefix { $0.at < horizon }.count
            if past > 1 { names.removeFirst(past - 1) }
        }
        if names.count > Self.namesMax { names.removeFirst(names.count - Self.namesMax) }
    }

    /// Whether a link is older than all that is told of its subject here: it was stated before the purchase was known,
    /// however long ago, and nobody was named since.
    func isUnheard(_ move: KeptMove, before horizon: Timestamp) -> Bool {
        guard let own = own.first(where: { $0.holder == move.from }), move.at < own.since else { return false }
        let name = HolderName(at: move.at, isGain: true, holder: move.to)
        return !names.contains { name <= $0 && $0.at < horizon }
    }

    /// The same knowledge as versions before read it: whose each nameless fact is, and how far each period reaches, by
    /// what is known now. A name that comes later changes neither any more.
    func withoutNameless() -> PurchaseState {
        guard mayLackName else { return self }
        let timeline = Timeline(self)
        let access = timeline.access
        var next = self
        next.settle(movesMost: 0, namelessMost: 0)
        next.facts = next.facts.map(next.reaching)
        for index in next.registers.indices where next.isOwn(next.registers[index].holder) {
            let isActive = access[next.registers[index].holder]?.isActive ?? false
            next.registers[index].isOn = next.registers[index].isOn && isActive
        }
        (next.mayLackName, next.own, next.names) = (false, [], [])
        next.settleChanges(timeline)
        return next
    }
}
