import Vocabulary

/// The kept moves of a purchase that take effect, and what each states; and whose the nameless facts are. Judged in
/// order of time, each by what is known up to its time.
struct EffectiveMoves {
    /// A move that takes effect.
    struct Effect: Equatable {
        let move: KeptMove
        let from: Holder
        /// How far the period of the old holder is known to last; nil: no end, or access without a period.
        let until: Timestamp?
        /// What it states of this purchase, as a webhook would.
        fileprivate(set) var reading: FactReading

        static func == (left: Effect, right: Effect) -> Bool {
            left.move == right.move && left.from == right.from && left.until == right.until
        }

        /// The same effect with one more register.
        fileprivate func adding(_ register: Register) -> Effect {
            var effect = self
            effect.reading = reading.adding(register)
            return effect
        }
    }

    /// A nameless fact, and whose it is.
    struct Resolved: Equatable {
        let fact: NamelessFact
        let holder: Holder
        /// What it states, as a webhook that names the holder would.
        let reading: FactReading

        static func == (left: Resolved, right: Resolved) -> Bool {
            left.fact == right.fact && left.holder == right.holder
        }
    }

    private(set) var effects: [Effect] = []
    private(set) var resolved: [Resolved] = []
    /// Whom the moves name.
    private(set) var names: [HolderName] = []
    /// The kept facts, those of the moves and the nameless ones, in canonical order.
    private(set) var facts: [KeptFact]
    private var known: PurchaseState
    /// Losses that no fact shows.
    private var switchedOff: [Register] = []

    init(_ state: PurchaseState) {
        facts = state.facts
        known = state
        if state.moves.isEmpty, state.nameless.isEmpty { return }
        var nameless = state.nameless[...]
        for move in state.moves {
            while let next = nameless.first, next.at < move.at { resolve(nameless.removeFirst()) }
            judge(move)
        }
        for fact in nameless { resolve(fact) }
        facts = known.facts
    }

    private mutating func judge(_ move: KeptMove) {
        let isLink = isLink(move)
        let effect = effect(of: move, isLink: isLink)
        if let effect {
            effects.append(effect)
            known.record(effect.reading, isNaming: false)
        }
        if let name = name(by: move, isLink: isLink, isEffective: effect != nil) { names.append(name) }
    }

    /// Whether the move says who an own holder is. One that somebody gave the purchase to (a restore to an install) has
    /// it like any account: then it is a login.
    private func isLink(_ move: KeptMove) -> Bool {
        known.isLink(move) && !isGiven(move)
    }

    /// Whom a move names: nameless facts after it may be of its new holder.
    private func name(by move: KeptMove, isLink: Bool, isEffective: Bool) -> HolderName? {
        guard known.mayLackName else { return nil }
        if isLink {
            return known.isOwn(move.to)
                ? nil : HolderName(at: move.at, kind: .link, holder: move.to, about: move.from)
        }
        return isEffective ? HolderName(at: move.at, kind: .gain, holder: move.to) : nil
    }

    private mutating func resolve(_ fact: NamelessFact) {
        let holder = holder(of: fact.holder, at: fact.at)
        var reading = FactReading(fact.fact(of: holder), kind: .subscription)
        if fact.kind == .loss {
            for other in holders(at: fact) where other != holder {
                let register = Register(holder: other, at: fact.at, isOn: false, isTenureFree: fact.isTenureFree)
                reading = reading.adding(register)
                switchedOff.append(register)
            }
        }
        resolved.append(Resolved(fact: fact, holder: holder, reading: reading))
        known.record(reading, isNaming: false)
    }

    /// The registers of the purchase and those of the moves.
    var registers: [Register] { known.registers }

    /// The transfers that the moves state, ascending.
    var transfers: [Timeline.Transfer] {
        effects.map { Timeline.Transfer(pair: Timeline.Pair(from: $0.from, to: $0.move.to), at: $0.move.at) }
    }

    /// Whose a nameless fact is that came under this own holder.
    func holder(of own: Holder, at time: Timestamp) -> Holder {
        let account = account(at: time)
        // Names before the first may have been dropped.
        if account.account == nil, known.names.count >= PurchaseState.namesMax,
            let first = known.names.first(where: { $0.kind.isOfPurchase })
        {
            return first.holder
        }
        return account.holder(of: own)
    }

    func account(at time: Timestamp) -> PurchaseAccount {
        known.account(by: names.isEmpty ? known.names : (known.names + names).sorted(), at: time)
    }

    private func effect(of move: KeptMove, isLink: Bool) -> Effect? {
        if isLink, !account(at: move.at).isAbout(move) { return nil }
        guard let from = isLink ? soleHolder(at: move.at) ?? move.from : move.from ?? lastGiven(before: move),
            from != move.to
        else { return nil }
        let newest = newestStatement(about: from, at: move.at)
        if let newest, newest.isTenureFree {
            guard !move.isLogin, newest.isOn else { return nil }
            return effect(of: move, from: from, until: nil, isTenureFree: true)
        }
        guard let until = period(of: from, at: move.at) else { return nil }
        if move.isLogin, until < move.at, !isGiven(move) { return nil }
        // A link says who somebody is, not that the purchase goes on: what has ended does not pass on by it.
        if isLink, newest?.isOn != true || until <= move.at { return nil }
        // Every loss of such a source ends the purchase, and none is half of a transfer: what is unpaid or paused
        // passes on without access, which what is paid next gives. Nor does what the new holder had before give it.
        if known.mayLackName, newest?.isOn != true {
            let end = move.at.advanced(byMilliseconds: -1)
            let effect = effect(of: move, from: from, until: min(until, end), isTenureFree: false)
            return effect.adding(Register(holder: move.to, at: end, isOn: false, isTenureFree: false))
        }
        let effect = effect(of: move, from: from, until: until, isTenureFree: false)
        // Without a loss it is overdue: the new holder has it as the old one had, until the clock ends it.
        if known.mayLackName, until <= move.at {
            return effect.adding(Register(holder: move.to, at: move.at, isOn: true, isTenureFree: false))
        }
        return effect
    }

    /// Whether a restore gave the purchase to the subject of the move, who has had it since, paid or not.
    private func isGiven(_ move: KeptMove) -> Bool {
        guard known.mayLackName, let account = account(at: move.at).account else { return false }
        return account.kind == .gain && account.holder == move.from
    }

    private func effect(of move: KeptMove, from: Holder, until: Timestamp?, isTenureFree: Bool) -> Effect {
        let end = until == Timestamp.distantFuture ? nil : until
        let fact = Fact(
            kind: .transferred, holder: from, counterpart: move.to, at: move.at, until: end,
            isFamilyShared: isTenureFree)
        return Effect(move: move, from: from, until: end, reading: FactReading(fact, kind: .subscription).uncounted)
    }

    /// How long the purchase that `holder` has at `time` is paid for; nil: it does not have it then. A loss at that
    /// very time is the move itself, stated by a webhook too, and says nothing about the period. A period without a
    /// stated end is over with a loss that came too early to be half of the move.
    private func period(of holder: Holder, at time: Timestamp) -> Timestamp? {
        let facts = counted
        let newest = facts.newestGain { $0.at < time || $0.at == time && $0.holder == holder }
        guard newest?.holder == holder else { return nil }
        var until: Timestamp?
        /// What the newest loss after the last gain states.
        var ended: Timestamp?
        for fact in facts where fact.holder == holder {
            guard fact.at < time || fact.at == time && (fact.kind == .gain || fact.isRevoked) else { continue }
            until = fact.isRevoked ? fact.until : max(until ?? fact.until, fact.until)
            ended = fact.kind == .loss ? fact.until : nil
        }
        if until == Timestamp.distantFuture, let ended, ended < time { return ended }
        return until
    }

    /// The holder at a time: under exclusive ownership there is at most one.
    private func soleHolder(at time: Timestamp) -> Holder? {
        counted.newestGain { $0.at < time }?.holder
    }

    /// Whom a restore takes the purchase from. Without tenures it is, of those who have it, the last that it was given
    /// to, and nobody if the new holder is one of them. That is so only where events may name nobody: elsewhere refunds
    /// would not reach who has it by a restore, because they name the holder that the platform knows.
    private func lastGiven(before move: KeptMove) -> Holder? {
        if let holder = soleHolder(at: move.at) { return holder }
        guard known.mayLackName else { return nil }
        let stated = (known.registers + known.earlier).filter { $0.isTenureFree && $0.at <= move.at }
        let newest = Set(stated.map(\.holder)).compactMap { newestStatement(about: $0, at: move.at) }
            .filter(\.isTenureFree)
        // An own holder has it only until something is stated of somebody else (`Timeline.access`).
        let having = newest.filter { one in
            one.isOn
                && !(known.isOwn(one.holder) && newest.contains { !known.isOwn($0.holder) && $0.at > one.at })
        }
        return having.contains { $0.holder == move.to } ? nil : having.max()?.holder
    }

    /// The known facts that count for tenures.
    private var counted: [KeptFact] { known.withoutLeftPlans(known.facts) }

    /// The newest statement about a holder at or before a time; on equal times the loss, then the one that is free of
    /// tenures.
    private func newestStatement(about holder: Holder, at time: Timestamp) -> Register? {
        var newest: Register?
        func take(_ register: Register) { if newest.map({ $0.yields(to: register) }) ?? true { newest = register } }
        for register in known.registers where register.holder == holder && register.at <= time { take(register) }
        for register in known.earlier where register.holder == holder && register.at <= time { take(register) }
        for register in switchedOff where register.holder == holder && register.at <= time { take(register) }
        for fact in known.facts where fact.holder == holder && fact.at <= time && !fact.givesNothing(in: known) {
            take(Register(holder: holder, at: fact.at, isOn: fact.kind == .gain, isTenureFree: false))
        }
        return newest
    }

    /// The holders from whom a nameless loss takes the purchase, besides the one that it is of: who was given it last
    /// and still has it; where access is free of tenures, everybody who has it.
    private func holders(at loss: NamelessFact) -> Set<Holder> {
        let given =
            loss.isTenureFree
            ? (known.registers + known.earlier).filter { $0.isTenureFree && $0.isOn && $0.at <= loss.at }.map(\.holder)
            : known.facts.newestGain { $0.at <= loss.at }.map { [$0.holder] } ?? []
        return Set(given).filter { newestStatement(about: $0, at: loss.at)?.isOn ?? false }
    }
}

extension KeptFact {
    /// Whether it is what a move stated of a purchase that was not paid for.
    fileprivate func givesNothing(in state: PurchaseState) -> Bool {
        state.mayLackName && kind == .gain && !isRevoked && until < at
    }
}
