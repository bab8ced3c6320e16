import Vocabulary

/// The order in which changes reach a purchase: oldest first, and what each leads to, because what passed to a holder
/// may have passed on.
struct ChangeWalk {
    private struct Visit: Hashable {
        let key: KnownChanges.Key
        let at: Timestamp
    }

    private var wanted: [KnownChanges.Key: Timestamp]
    /// The names under which restores can mean the purchase.
    private let names: [KnownChanges.Key]
    /// Two visits are enough for changes of one time that lead to each other, and they end every circle.
    private var visits: [Visit: Int] = [:]

    init(_ wanted: [KnownChanges.Key: Timestamp]) {
        self.wanted = wanted
        names = wanted.keys.filter { if case .transaction = $0.subject { true } else { false } }
    }

    /// The next changes of one subject, all of one time; `resume` must follow.
    mutating func next(
        of changes: inout KnownChanges
    ) -> (key: KnownChanges.Key, at: Timestamp, rows: ArraySlice<HolderChangeRow>)? {
        guard let (key, rows) = changes.earliest(of: wanted), let at = rows.first?.at else { return nil }
        visits[Visit(key: key, at: at), default: 0] += 1
        wanted[key] = nil
        return (key, at, (visits[Visit(key: key, at: at)] ?? 0) <= 2 ? rows : [])
    }

    /// - Parameter time: from which the subject's next change can matter; nil: none can.
    mutating func resume(_ key: KnownChanges.Key, at time: Timestamp?) { wanted[key] = time }

    mutating func lead(to targets: [Holder], in scope: Scope, at time: Timestamp, from key: KnownChanges.Key?) {
        for next in targets.flatMap({ KnownChanges.Key.all(of: $0, in: scope) }) + names where next != key {
            wanted[next] = min(wanted[next] ?? time, time)
        }
    }

    /// Leads to the holders whose later changes may do something else now: the new holder of a move that takes effect
    /// now, or with another period, the old one of a move that takes nothing from it any more, and the one who gets a
    /// nameless fact.
    mutating func lead(
        from before: EffectiveMoves, to after: EffectiveMoves, in scope: Scope, by key: KnownChanges.Key? = nil
    ) {
        for effect in after.effects where !before.effects.contains(effect) {
            lead(to: [effect.move.to], in: scope, at: effect.move.at, from: key)
        }
        for effect in before.effects
        where !after.effects.contains(where: { $0.move == effect.move && $0.from == effect.from }) {
            lead(to: [effect.from], in: scope, at: effect.move.at, from: key)
        }
        for resolved in after.resolved
        where resolved.holder != resolved.fact.holder && !before.resolved.contains(resolved) {
            lead(to: [resolved.holder], in: scope, at: resolved.fact.at, from: key)
        }
    }
}

extension PurchaseState {
    /// The time from which the next change of a subject can matter, under exclusive ownership; nil: none can.
    func nextTime(after time: Timestamp, of key: KnownChanges.Key) -> Timestamp? {
        guard case .holder(let holder) = key.subject, !isOwn(holder) else { return time.advanced(byMilliseconds: 1) }
        let moved = EffectiveMoves(self)
        // A change is judged without a loss of its very time, which may be half of it; the next change is not.
        let isLost = moved.facts.contains { $0.kind == .loss && $0.holder == holder && $0.at == time }
        if isLost, !moved.effects.contains(where: { $0.move.at == time && $0.from == holder }) {
            return time.advanced(byMilliseconds: 1)
        }
        let facts = moved.facts.lazy.filter { $0.holder == holder && $0.at > time }.map(\.at).min()
        let registers = (moved.registers + earlier).lazy.filter { $0.holder == holder && $0.at > time }.map(\.at).min()
        return [facts, registers].compactMap { $0 }.min()
    }
}
