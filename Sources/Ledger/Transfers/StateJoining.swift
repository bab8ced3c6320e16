import Vocabulary

/// Joins what an export knew of a purchase with what is known here. What both state is one statement; of numbers the
/// greater counts. It is a join as a lattice has it: either order gives the same, and a state joined with an older one
/// of itself is itself, so that lines may come in any order and any number of times. Where nothing is known here, the
/// export's state is taken as it is: webhooks that follow are then judged as they would have been there.
extension TransferResolution {
    static func joining(_ other: PurchaseState, to state: PurchaseState, kind: Purchase.Kind) -> Resolution {
        let other = kind == .oneTime && other.hasTenures ? oneTime(other).state : other
        let before = Timeline(state)
        if state.isUnknown {
            return .joined(other, to: state, access: Timeline(other).access(insteadOf: before))
        }
        var next = state
        next.merge(other)
        let together = Timeline(next)
        next.takeNumbers(of: other, and: state, by: together)
        let forgotten = next.compact(together)
        // Of what is kept: what the export names and is dropped again was dropped here before.
        var access = Timeline(next).access(insteadOf: before)
        for register in forgotten { access[register.holder] = Access(isActive: false, asOf: register.at) }
        return .joined(next, to: state, access: access)
    }
}

extension Resolution {
    /// Announces the numbers that are new, as a line that states them does.
    static func joined(
        _ next: PurchaseState, to state: PurchaseState, access: [Holder: Access]
    ) -> Resolution {
        var next = next
        // The values' times follow from the purchase's row.
        next.valueTimes = state.valueTimes
        let known = Dictionary(firstOf: state.announced.map { ($0.pair, $0.lastOrdinal) })
        let none = max(state.forgottenOrdinal, next.forgottenOrdinal)
        let announced = next.announced.flatMap { entry in
            let first = max(known[entry.pair] ?? none, entry.lastOrdinal - Limits.importOrdinalMax) + 1
            return (first..<max(first, entry.lastOrdinal + 1)).map {
                AnnouncedTransfer(from: entry.from, to: entry.to, ordinal: $0, native: nil)
            }
        }
        return Resolution(state: next, announced: announced, isPassedOn: false, access: access, voids: [])
    }
}

extension PurchaseState {
    /// Whether no webhook stated anything of who has the purchase.
    var isUnknown: Bool {
        // What was stated names somebody, most often.
        if !registers.isEmpty { return false }
        var state = self
        state.valueTimes = [:]
        state.mayLackName = false
        return state == PurchaseState()
    }

    fileprivate var hasTenures: Bool { !facts.isEmpty || nameless.contains { !$0.isTenureFree } }

    /// Takes all that the other states, but for numbers and values.
    fileprivate mutating func merge(_ other: PurchaseState) {
        var other = other
        if other.mayLackName { expectNameless() }
        if mayLackName { other.expectNameless() }
        let state = self
        for own in other.own { insert(own) }
        for fact in other.facts { insert(fact) }
        for plan in other.plans { insert(plan) }
        for native in other.natives { insert(native) }
        record(other.registers + other.earlier)
        for name in other.names { insert(name) }
        // What either has settled would be judged again, by what came since.
        nameless.removeAll(where: other.hasSettled)
        for fact in other.nameless where !state.hasSettled(fact) { keep(fact) }
        moves.removeAll(where: other.hasSettled)
        for move in other.moves where !state.hasSettled(move) { insert(move) }
        if unknownLines.isEmpty { unknownLines = other.unknownLines }
    }

    /// Whether a nameless fact became a fact of somebody beyond the limit, or comes before those that did.
    private func hasSettled(_ fact: NamelessFact) -> Bool {
        nameless.count >= Self.namelessMax && fact < nameless[0] && !nameless.contains(fact)
    }

    /// Whether a move became part of the facts beyond the limit, or is shown by them.
    private func hasSettled(_ move: KeptMove) -> Bool {
        if moves.contains(move) { return false }
        return moves.count >= Self.movesMax && move < moves[0] || factsShow(move)
    }

    /// Numbers each pair by what either knew of it and what both show together.
    fileprivate mutating func takeNumbers(of other: PurchaseState, and state: PurchaseState, by timeline: Timeline) {
        let sides = [(state: state, timeline: Timeline(state)), (state: other, timeline: Timeline(other))]
        forgottenOrdinal = max(forgottenOrdinal, other.forgottenOrdinal)
        var pairs = Set(state.announced.map(\.pair) + other.announced.map(\.pair))
        pairs.formUnion(timeline.transfers.map(\.pair))
        for pair in pairs {
            let shown = shown(of: pair, by: timeline)
            var (count, last, voided, refuted) = (shown, 0, Set<Timestamp>(), Set<Timestamp>())
            for (state, timeline) in sides {
                let entry = state.entry(of: pair)
                var known = state.shown(of: pair, by: timeline)
                // What both together do not show any more did not happen: it was announced, and is void.
                known.changes = min(known.changes, shown.changes)
                count.raise(to: known, with: entry)
                last = max(last, entry.lastOrdinal)
                voided.formUnion(entry.voided)
                refuted.formUnion(timeline.times(of: pair))
            }
            let entry = AnnouncedPair(
                from: pair.from, to: pair.to, lastOrdinal: max(last, count.number),
                settledChanges: count.changes - shown.changes,
                settledTransferred: count.transferred - shown.transferred,
                settledReceived: count.received - shown.received)
            announced[indexOfEntry(pair)] = entry.voiding(
                entry.lastOrdinal - count.number, of: [voided, refuted], but: timeline.times(of: pair))
        }
    }

    private func shown(of pair: Timeline.Pair, by timeline: Timeline) -> PairCount {
        let natives = natives.filter { $0.pair == pair }
        return PairCount(
            changes: timeline.count(of: pair), transferred: natives.count { $0.kind == .transferred },
            received: natives.count { $0.kind == .received })
    }
}

/// Changes of tenure and native webhooks from one holder to another.
private struct PairCount {
    var changes: Int
    var transferred: Int
    var received: Int

    var number: Int { max(changes, transferred, received) }

    mutating func raise(to shown: PairCount, with settled: AnnouncedPair) {
        changes = max(changes, shown.changes + settled.settledChanges)
        transferred = max(transferred, shown.transferred + settled.settledTransferred)
        received = max(received, shown.received + settled.settledReceived)
    }
}

extension AnnouncedPair {
    /// With so many of its announced transfers void: those of the times that are known, of the first list before those
    /// of the second, the newest first; the others are settled.
    fileprivate func voiding(_ count: Int, of times: [Set<Timestamp>], but shown: Set<Timestamp>) -> AnnouncedPair {
        var entry = self
        for times in times {
            let free = min(count, PurchaseState.voidedMax) - entry.voided.count
            entry.voided += times.subtracting(shown).subtracting(entry.voided).sorted().suffix(max(free, 0))
        }
        entry.voided.sort()
        entry.settle(count - entry.voided.count)
        return entry
    }
}
