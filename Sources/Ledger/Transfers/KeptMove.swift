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
            moved nothing of \(purchase): it is too old, webhooks from more than \(days) days after it have decided \
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

extension PurchaseState {
    /// Everybody who ever had the purchase, as far as is kept.
    var everHolders: Set<Holder> {
        // Who got what had lapsed has facts alone, once that move is settled.
        let holders = [
            facts.map(\.holder), registers.map(\.holder), moves.map(\.to), own.map(\.holder), names.map(\.holder),
        ]
        return Set(holders.joined())
    }

    var effects: [EffectiveMoves.Effect] { moves.isEmpty ? [] : EffectiveMoves(self).effects }

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
        if let horizon, move.at < horizon { return !predatesPurchase(move, before: horizon) }
        return moves.count >= Self.movesMax && moves.first.map { move < $0 } ?? false
    }

    /// A daemon of an older version had it written as facts (`LedgerForm`), or a webhook states the same.
    func factsShow(_ move: KeptMove) -> Bool {
        facts.contains { $0.at == move.at && $0.kind == .gain && $0.holder == move.to }
            && facts.contains { $0.at == move.at && $0.kind == .loss && $0.holder == move.from ?? $0.holder }
    }

    /// The same knowledge with every move made part of the facts, and without plans.
    func withoutMoves() -> PurchaseState {
        if moves.isEmpty, earlier.isEmpty, valueTimes.isEmpty, plans.isEmpty, unknownLines.isEmpty { return self }
        let timeline = Timeline(self)
        var next = self
        next.settle(movesMost: 0)
        next.plans = []
        next.settleChanges(timeline)
        next.earlier = []
        next.valueTimes = [:]
        next.unknownLines = []
        return next
    }

    /// Makes the oldest moves and nameless facts part of the facts and registers, once no webhook can change what they
    /// do and whose they are: those older than the retry horizon, and those beyond the limits.
    mutating func settle(movesMost: Int = Self.movesMax, namelessMost: Int = Self.namelessMax) {
        moves.removeAll(where: canNeverCount)
        if nameless.count > Self.namelessMax { dropInnerNameless() }
        let horizon = horizon ?? Timestamp.distantPast
        func isMoveDue() -> Bool { moves.count > movesMost || moves.first.map { $0.at < horizon } ?? false }
        func isFactDue() -> Bool { nameless.count > namelessMost || nameless.first.map { $0.at < horizon } ?? false }
        guard isMoveDue() || isFactDue() else { return }
        let judged = EffectiveMoves(self)
        while isMoveDue() {
            let move = moves.removeFirst()
            if let effect = judged.effects.first(where: { $0.move == move }) { record(effect.reading, isNaming: false) }
            for name in judged.names where name.at == move.at && name.holder == move.to { insert(name) }
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
