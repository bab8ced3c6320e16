package import Vocabulary

/// A statement that everything of one holder passes to another (a login, a restore, a platform's own TRANSFER), as far
/// as one exclusive purchase is concerned.
///
/// It moves the purchase only if the old holder has it at that time. This is judged anew with each fact, because a fact
/// that arrives later may show that it moved nothing (I1). A statement of one holder that never moved the purchase is
/// not kept: only a further fact of that holder can change that, and such a fact looks the statement up again.
package struct KeptMove: Sendable, Hashable, Comparable {
    package let at: Timestamp
    /// Nil: whoever has the purchase at that time. A restore names a transaction and no old holder.
    package let from: Holder?
    package let to: Holder
    /// A login moves no one-time purchase, no family-shared one and none whose paid period has ended.
    package let isLogin: Bool

    /// - Returns: nil if the statement names one holder on both sides.
    init?(_ change: HolderChangeRow) {
        self.init(
            at: change.at, from: change.from, to: change.secondTarget ?? change.target, isLogin: change.kind == .login)
        if from == to { return nil }
    }

    init(at: Timestamp, from: Holder?, to: Holder, isLogin: Bool) {
        self.at = at
        self.from = from
        self.to = to
        self.isLogin = isLogin
    }

    /// What is said of a statement that came too late to move a purchase (`TransferResolution.comesTooLate`).
    package static func movedNothing(of purchase: String) -> String {
        let days = Limits.retryHorizonMilliseconds / 86_400_000
        return """
            moved nothing of \(purchase): it is too old, webhooks from more than \(days) days after it have settled \
            who holds the purchase
            """
    }

    /// Orders by time, then by content: never by arrival.
    package static func < (left: KeptMove, right: KeptMove) -> Bool {
        if left.at != right.at { return left.at < right.at }
        if left.from != right.from {
            guard let mine = left.from, let other = right.from else { return left.from == nil }
            return mine < other
        }
        if left.to != right.to { return left.to < right.to }
        return left.isLogin && !right.isLogin
    }
}

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
        let reading: FactReading

        static func == (left: Effect, right: Effect) -> Bool {
            left.move == right.move && left.from == right.from && left.until == right.until
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
            while let fact = nameless.first, fact.at < move.at { resolve(nameless.removeFirst(), fact.holder) }
            judge(move)
        }
        for fact in nameless { resolve(fact, fact.holder) }
        facts = known.facts
    }

    private mutating func judge(_ move: KeptMove) {
        let effect = effect(of: move)
        if let effect {
            effects.append(effect)
            known.record(effect.reading, isNaming: false)
        }
        if known.isNaming(move, isEffective: effect != nil) {
            names.append(HolderName(at: move.at, isGain: true, holder: move.to))
        }
    }

    /// - Parameter own: the holder while nobody is named.
    private mutating func resolve(_ fact: NamelessFact, _ own: Holder) {
        let name = (known.names + names).filter { $0.at <= fact.at }.max()
        let holder = name?.holder ?? own
        var reading = FactReading(fact.fact(of: holder), kind: .subscription)
        if fact.kind == .loss, let other = self.holder(at: fact), other != holder {
            let register = Register(holder: other, at: fact.at, isOn: false, isTenureFree: fact.isTenureFree)
            reading = reading.switchingOff(register)
            switchedOff.append(register)
        }
        resolved.append(Resolved(fact: fact, holder: holder, reading: reading))
        known.record(reading, isNaming: false)
    }

    /// The registers of the purchase and those of the moves.
    var registers: [Register] { known.registers }

    /// The transfers that the moves state, ascending.
    var changes: [Timeline.Change] {
        effects.map { Timeline.Change(pair: Timeline.Pair(from: $0.from, to: $0.move.to), at: $0.move.at) }
    }

    private func effect(of move: KeptMove) -> Effect? {
        let isLink = known.isLink(move)
        guard let from = isLink ? soleHolder(at: move.at) ?? move.from : move.from ?? soleHolder(at: move.at),
            from != move.to
        else { return nil }
        let newest = newestStatement(about: from, at: move.at)
        if let newest, newest.isTenureFree {
            guard !move.isLogin, newest.isOn else { return nil }
            return effect(of: move, from: from, until: nil, isTenureFree: true)
        }
        guard let until = period(of: from, at: move.at) else { return nil }
        if move.isLogin, until < move.at { return nil }
        // A link says who somebody is, not that the purchase goes on: what has ended does not pass on by it.
        if isLink, newest?.isOn != true || until <= move.at { return nil }
        return effect(of: move, from: from, until: until, isTenureFree: false)
    }

    private func effect(of move: KeptMove, from: Holder, until: Timestamp?, isTenureFree: Bool) -> Effect {
        let end = until == Timestamp(milliseconds: .max) ? nil : until
        let fact = Fact(
            kind: .transferred, holder: from, counterpart: move.to, at: move.at, until: end,
            isFamilyShared: isTenureFree)
        return Effect(move: move, from: from, until: end, reading: FactReading(fact, kind: .subscription).uncounted)
    }

    /// How long the purchase that `holder` has at `time` is paid for; nil: it does not have it then. A loss at that
    /// very time is the move itself, stated by a webhook too, and says nothing about the period.
    private func period(of holder: Holder, at time: Timestamp) -> Timestamp? {
        var until: Timestamp?
        var isHolder = false
        for fact in known.facts where fact.at < time || fact.at == time && (fact.kind == .gain || fact.isRevoked) {
            if fact.holder == holder {
                until = fact.isRevoked ? fact.until : max(until ?? fact.until, fact.until)
                if fact.kind == .gain { isHolder = true }
            } else if fact.kind == .gain, fact.at < time {
                isHolder = false
            }
        }
        return isHolder ? until : nil
    }

    /// The holder at a time: under exclusive ownership there is at most one.
    private func soleHolder(at time: Timestamp) -> Holder? {
        known.facts.last { $0.kind == .gain && $0.at < time }?.holder
    }

    /// The newest statement about a holder at or before a time; on equal times the loss, then the one that is free of
    /// tenures.
    private func newestStatement(about holder: Holder, at time: Timestamp) -> Register? {
        var newest: Register?
        func take(_ register: Register) { if newest.map({ $0.yields(to: register) }) ?? true { newest = register } }
        for register in known.registers where register.holder == holder && register.at <= time { take(register) }
        for register in known.earlier where register.holder == holder && register.at <= time { take(register) }
        for register in switchedOff where register.holder == holder && register.at <= time { take(register) }
        for fact in known.facts where fact.holder == holder && fact.at <= time {
            take(Register(holder: holder, at: fact.at, isOn: fact.kind == .gain, isTenureFree: false))
        }
        return newest
    }

    /// The holder from whom a nameless loss takes the purchase, besides the one that it is of: who was given it last
    /// and still has it.
    private func holder(at loss: NamelessFact) -> Holder? {
        let holder =
            loss.isTenureFree
            ? (known.registers + known.earlier).filter { $0.isTenureFree && $0.isOn && $0.at <= loss.at }.max()?.holder
            : known.facts.last { $0.kind == .gain && $0.at <= loss.at }?.holder
        guard let holder, let newest = newestStatement(about: holder, at: loss.at) else { return nil }
        return newest.isOn ? holder : nil
    }
}

extension PurchaseState {
    /// Everybody who ever had the purchase, as far as is kept.
    var everHolders: Set<Holder> {
        Set(registers.map(\.holder) + moves.map(\.to) + own.map(\.holder) + names.map(\.holder))
    }

    var effects: [EffectiveMoves.Effect] { moves.isEmpty ? [] : EffectiveMoves(self).effects }

    /// Whether nameless facts after the move are of its new holder.
    func isNaming(_ move: KeptMove, isEffective: Bool) -> Bool {
        mayLackName && (isEffective || isLink(move)) && !isOwn(move.to)
    }

    mutating func insert(_ move: KeptMove) {
        let index = moves.firstIndex { $0 >= move } ?? moves.endIndex
        if index == moves.endIndex || moves[index] != move { moves.insert(move, at: index) }
    }

    /// The time before which no webhook comes any more, counted from the newest event time, because there is no clock;
    /// and a minute more, by which a loss reaches back.
    var horizon: Timestamp? {
        let newest = [facts.last?.at, moves.last?.at, nameless.last?.at, registers.map(\.at).max()]
        return newest.compactMap { $0 }.max()?.advanced(
            byMilliseconds: -(Limits.retryHorizonMilliseconds + Limits.ungrantedTenureMilliseconds))
    }

    /// Whether a move is part of the facts already, or comes too late to be distinguished from those that are. Counted
    /// again it would be doubled.
    func isSettled(_ move: KeptMove) -> Bool { comesTooLate(move) || factsShow(move) }

    /// Whether a move is older than those that became part of the facts.
    func comesTooLate(_ move: KeptMove) -> Bool {
        if let horizon, move.at < horizon { return !isUnheard(move, before: horizon) }
        return moves.count >= Self.movesMax && moves.first.map { move < $0 } ?? false
    }

    /// A daemon of an older version had it written as facts (`LedgerForm`), or a webhook states the same.
    func factsShow(_ move: KeptMove) -> Bool {
        facts.contains { $0.at == move.at && $0.kind == .gain && $0.holder == move.to }
            && facts.contains { $0.at == move.at && $0.kind == .loss && $0.holder == move.from ?? $0.holder }
    }

    /// The same knowledge with every move made part of the facts.
    func withoutMoves() -> PurchaseState {
        if moves.isEmpty, earlier.isEmpty, named.isEmpty, unknownLines.isEmpty { return self }
        let timeline = Timeline(self)
        var next = self
        next.settle(movesMost: 0)
        next.settleChanges(timeline)
        next.earlier = []
        next.named = [:]
        next.unknownLines = []
        return next
    }

    /// Makes the oldest moves and nameless facts part of the facts and registers, once no webhook can change what they
    /// do and whose they are: those older than the retry horizon, and those beyond the limits.
    mutating func settle(movesMost: Int = Self.movesMax, namelessMost: Int = Self.namelessMax) {
        let horizon = horizon ?? Timestamp(milliseconds: .min)
        func isMoveDue() -> Bool { moves.count > movesMost || moves.first.map { $0.at < horizon } ?? false }
        func isFactDue() -> Bool { nameless.count > namelessMost || nameless.first.map { $0.at < horizon } ?? false }
        guard isMoveDue() || isFactDue() else { return }
        let judged = EffectiveMoves(self)
        while isMoveDue() {
            let move = moves.removeFirst()
            let effect = judged.effects.first { $0.move == move }
            if let effect { record(effect.reading, isNaming: false) }
            if isNaming(move, isEffective: effect != nil) {
                insert(HolderName(at: move.at, isGain: true, holder: move.to))
            }
        }
        // In the same order as the list that they are taken from.
        for resolved in judged.resolved where isFactDue() {
            nameless.removeFirst()
            record(resolved.reading, isNaming: false)
        }
    }

    /// Drops statements that are newer than no move which can still come, then the oldest beyond the limit.
    mutating func dropEarlier() {
        guard !earlier.isEmpty else { return }
        let horizon = horizon ?? earlier[0].at
        // The newest before the horizon still says what held at its beginning.
        earlier = earlier.enumerated().filter { index, register in
            register.at >= horizon
                || !earlier[(index + 1)...].contains { $0.holder == register.holder && $0.at < horizon }
        }.map(\.element)
        if earlier.count > Self.earlierMax { earlier.removeFirst(earlier.count - Self.earlierMax) }
    }
}
