import Vocabulary

/// The tenures and transfers of one purchase and who has access, computed from its state. Recomputed completely for
/// each event: there are at most `PurchaseState.factsMax` facts, and typically one to five.
struct Timeline {
    /// Two holders, in the direction of a transfer.
    struct Pair: Hashable {
        let from: Holder
        let to: Holder
    }

    /// A run of one holder.
    struct Tenure {
        let holder: Holder
        /// When it is first known to have the purchase.
        let start: Timestamp
        /// Its first gain; nil: ungranted.
        var firstGain: Timestamp?
    }

    /// A transfer of the purchase from one holder to another while it was paid for.
    struct Transfer: Equatable {
        let pair: Pair
        /// The new holder's first gain.
        let at: Timestamp
    }

    private(set) var tenures: [Tenure] = []
    private(set) var transfers: [Transfer] = []
    /// The holder of the newest granted tenure: the one who has the purchase.
    private(set) var newestGranted: Holder?

    private var registers: [Register] = []
    private var effects: [EffectiveMoves.Effect] = []
    private var own: [OwnHolder] = []
    private var names: [HolderName] = []

    /// What is known of nobody.
    init() {}

    init(_ state: PurchaseState) {
        let moved = EffectiveMoves(state)
        effects = moved.effects
        take(state.extendingPeriods(state.withoutLeftPlans(moved.facts)))
        // A move is a transfer even if an ungranted tenure lies between the two.
        for transfer in moved.transfers where !transfers.contains(transfer) {
            transfers.insert(transfer, at: transfers.firstIndex { $0.at > transfer.at } ?? transfers.endIndex)
        }
        registers = moved.registers.map { state.counted($0, by: moved.facts) }
        own = state.own
        names = state.names + moved.names
    }

    /// The access of each holder that anything is known of: its register is on, and its access follows no tenure or it
    /// has the newest granted tenure.
    var access: [Holder: Access] {
        var access: [Holder: Access] = [:]
        for register in registers {
            let isActive = register.isOn && (register.isTenureFree || register.holder == newestGranted)
            access[register.holder] = Access(isActive: isActive && !isReplaced(register), asOf: register.at)
        }
        // Statements about these find the purchase by their entitlements.
        for (holder, time) in own.map({ ($0.holder, $0.since) }) + names.map({ ($0.holder, $0.at) })
        where access[holder] == nil {
            access[holder] = Access(isActive: false, asOf: time)
        }
        // What is over gives no access; yet it passed to that holder, and may pass on from there.
        for effect in effects where access[effect.move.to] == nil {
            access[effect.move.to] = Access(isActive: false, asOf: effect.move.at)
        }
        return access
    }

    /// Whether the register is that of an own holder, and somebody else was stated to have the purchase or not to have
    /// it since. What a move took from that other, to give it to the own holder, is no such statement: a gain names an
    /// own holder only by a move, also after this one is part of the registers.
    private func isReplaced(_ register: Register) -> Bool {
        func isOwn(_ holder: Holder) -> Bool { own.contains { $0.holder == holder } }
        func isGiver(_ other: Register) -> Bool {
            !other.isOn && other.at == register.at
                && names.contains { $0.kind == .gain && $0.holder == register.holder && $0.at == register.at }
        }
        guard isOwn(register.holder) else { return false }
        return registers.contains { other in
            !isOwn(other.holder) && other.isTenureFree == register.isTenureFree && other.at >= register.at
                && !isGiver(other)
        }
    }

    /// - Parameter facts: in canonical order.
    private mutating func take(_ facts: [KeptFact]) {
        for point in Self.points(of: facts) {
            if point.isGain { newestGranted = point.holder }
            if let last = tenures.indices.last, tenures[last].holder == point.holder {
                if point.isGain, tenures[last].firstGain == nil { tenures[last].firstGain = point.at }
            } else {
                tenures.append(
                    Tenure(holder: point.holder, start: point.at, firstGain: point.isGain ? point.at : nil))
            }
        }
        let moveTimes = effects.map(\.move.at)
        for (old, new) in zip(tenures, tenures.dropFirst()) {
            guard let start = new.firstGain, Self.reaches(old.holder, start, facts) else { continue }
            // Of two that were given it at one time, only a loss says who had it first. It may be some seconds later,
            // as in any transfer. Moves have an order of their own, and a loss that a move states is that move's.
            if old.start == start, !moveTimes.contains(start) {
                guard let loss = facts.firstLoss(of: old.holder, from: start), !moveTimes.contains(loss) else {
                    continue
                }
            }
            transfers.append(Transfer(pair: Pair(from: old.holder, to: new.holder), at: start))
        }
    }

    /// The access of each holder, and of those of whom nothing is known any more: they have none.
    func access(insteadOf before: Timeline) -> [Holder: Access] {
        var access = access
        for register in before.registers where access[register.holder] == nil {
            access[register.holder] = Access(isActive: false, asOf: register.at)
        }
        for effect in before.effects where access[effect.move.to] == nil {
            access[effect.move.to] = Access(isActive: false, asOf: effect.move.at)
        }
        return access
    }

    /// The transfers that restores state.
    var restored: [Transfer] {
        effects.filter { $0.move.from == nil }.map { effect in
            Transfer(pair: Pair(from: effect.from, to: effect.move.to), at: effect.move.at)
        }
    }

    /// The transfers whose new holder did not get the purchase by a restore, from whomever.
    var unrestored: [Transfer] {
        let restored = restored
        if restored.isEmpty { return transfers }
        return transfers.filter { transfer in
            !restored.contains { $0.pair.to == transfer.pair.to && $0.at == transfer.at }
        }
    }

    func count(of pair: Pair) -> Int { transfers.count { $0.pair == pair } }

    func times(of pair: Pair) -> Set<Timestamp> { Set(transfers.filter { $0.pair == pair }.map(\.at)) }

    /// The index of the pair's newest transfer among all, for the order of announcement.
    func lastIndex(of pair: Pair) -> Int? { transfers.lastIndex { $0.pair == pair } }

    /// The pairs whose transfers differ in `other`, each once. One webhook touches one part of the timeline: what both
    /// have in common at either end is skipped.
    func pairs(differingFrom other: Timeline) -> [Pair] {
        let start = zip(transfers, other.transfers).prefix { $0 == $1 }.count
        let rest = (mine: transfers.dropFirst(start), others: other.transfers.dropFirst(start))
        let end = zip(rest.mine.reversed(), rest.others.reversed()).prefix { $0 == $1 }.count
        var pairs: [Pair] = []
        for transfer in rest.mine.dropLast(end) + rest.others.dropLast(end) where !pairs.contains(transfer.pair) {
            pairs.append(transfer.pair)
        }
        return pairs
    }

    /// The holder directly before the tenure that `holder` began at or before `start`.
    func predecessor(of holder: Holder, at start: Timestamp) -> Holder? {
        let index = tenures.lastIndex { tenure in
            tenure.holder == holder && (tenure.firstGain.map { $0 <= start } ?? false)
        }
        guard let index, index > 0 else { return nil }
        return tenures[index - 1].holder
    }

    // MARK: Points

    private struct Point {
        let at: Timestamp
        let holder: Holder
        let isGain: Bool
    }

    /// The instants at which somebody is known to hold the purchase, in order.
    private static func points(of facts: [KeptFact]) -> [Point] {
        var points: [Point] = []
        points.reserveCapacity(facts.count)
        for (index, fact) in facts.enumerated() {
            switch fact.kind {
            case .gain:
                points.append(Point(at: fact.at, holder: fact.holder, isGain: true))
            case .loss:
                if let start = ungrantedStart(of: fact, after: facts[..<index]) {
                    points.append(Point(at: start, holder: fact.holder, isGain: false))
                }
            }
        }
        points.sort { facts.isBefore(($0.at, $0.holder), ($1.at, $1.holder)) }
        return points
    }

    /// The point at which the holder of this loss must have held the purchase, if nothing known before says so;
    /// otherwise nil.
    private static func ungrantedStart(of loss: KeptFact, after earlier: ArraySlice<KeptFact>) -> Timestamp? {
        if loss.isRevoked { return nil }
        let start = loss.at.advanced(byMilliseconds: -Limits.ungrantedTenureMilliseconds)
        var latest: Timestamp?
        for fact in earlier where fact.holder == loss.holder { latest = fact.period(after: latest) }
        if let latest, latest >= start { return nil }
        return start
    }

    /// Whether the period known of `holder` lasts to `start`, the first gain of the next holder.
    private static func reaches(_ holder: Holder, _ start: Timestamp, _ facts: [KeptFact]) -> Bool {
        let lossesEnd = start.advanced(byMilliseconds: Limits.ungrantedTenureMilliseconds)
        var latest: Timestamp?
        for fact in facts where fact.holder == holder && fact.at <= (fact.kind == .gain ? start : lossesEnd) {
            // A revocation after the transfer takes nothing back from it, and states that the period lasted until then.
            latest = fact.at > start ? max(latest ?? fact.until, fact.until) : fact.period(after: latest)
        }
        return latest.map { $0 >= start } ?? false
    }
}

/// Facts in canonical order.
extension [KeptFact] {
    /// The newest of the wanted gains, which says who has the purchase. All facts decide ties (`isBefore`).
    func newestGain(where isWanted: (KeptFact) -> Bool) -> KeptFact? {
        let gains = filter { $0.kind == .gain && isWanted($0) }
        return gains.max { isBefore(($0.at, $0.holder), ($1.at, $1.holder)) }
    }

    /// Orders the times at which holders have the purchase. At one time, whoever first loses it within the minute from
    /// then on comes first, because another has it afterwards (a transfer together with a renewal, or with the
    /// purchase itself, whose webhooks have times of their own); then anonymous holders, then by id. The first loss,
    /// not any: the new holder may lose it within that minute, too.
    func isBefore(_ left: (at: Timestamp, holder: Holder), _ right: (at: Timestamp, holder: Holder)) -> Bool {
        if left.at != right.at { return left.at < right.at }
        if left.holder == right.holder { return false }
        let never = Timestamp.distantFuture
        let leftLoss = firstLoss(of: left.holder, from: left.at) ?? never
        let rightLoss = firstLoss(of: right.holder, from: left.at) ?? never
        return leftLoss != rightLoss ? leftLoss < rightLoss : left.holder < right.holder
    }

    /// When `holder` first loses the purchase within the minute from `start`, both ends included; nil: not then.
    func firstLoss(of holder: Holder, from start: Timestamp) -> Timestamp? {
        let end = start.advanced(byMilliseconds: Limits.ungrantedTenureMilliseconds)
        return first(where: { $0.kind == .loss && $0.holder == holder && $0.at >= start && $0.at <= end })?.at
    }
}

extension KeptFact {
    /// The period known after this fact, given the one known before it.
    fileprivate func period(after latest: Timestamp?) -> Timestamp {
        guard let latest, !isRevoked else { return until }
        return max(latest, until)
    }
}
