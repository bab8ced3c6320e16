import Vocabulary

/// Joins what an export knew of a purchase with what is known here. What both state is one statement; of numbers the
/// greater counts. Where nothing is known here, the export's state is taken as it is: webhooks that follow are then
/// judged as they would have been there.
extension TransferResolution {
    static func joining(_ other: PurchaseState, to state: PurchaseState, kind: Purchase.Kind) -> Resolution {
        let other = kind == .oneTime && other.hasTenures ? other.freeOfTenures() : other
        let before = Timeline(state)
        if state.isUnknown {
            return .joined(other, to: state, access: Timeline(other).access(insteadOf: before))
        }
        var next = state
        next.take(other)
        let after = Timeline(next)
        next.takeNumbers(of: other, and: state, by: after)
        let forgotten = next.compact(after)
        var access = after.access(insteadOf: before)
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
        next.named = state.named
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
        var state = self
        state.named = [:]
        state.mayLackName = false
        return state == PurchaseState()
    }

    fileprivate var hasTenures: Bool { !facts.isEmpty || nameless.contains { !$0.isTenureFree } }

    /// Takes all that the other states, but for numbers and values.
    fileprivate mutating func take(_ other: PurchaseState) {
        var other = other
        if other.mayLackName { expectNameless() }
        if mayLackName { other.expectNameless() }
        for own in other.own { insert(own) }
        for fact in other.facts { insert(fact) }
        for native in other.natives { insert(native) }
        record(other.registers + other.earlier)
        for fact in other.nameless { keep(fact) }
        for name in other.names { insert(name) }
        // What is part of the facts already would be counted twice.
        for move in other.moves where !isSettled(move) { insert(move) }
        if unknownLines.isEmpty { unknownLines = other.unknownLines }
    }

    /// Numbers each pair by what either knew of it and what both show together.
    fileprivate mutating func takeNumbers(of other: PurchaseState, and state: PurchaseState, by timeline: Timeline) {
        forgottenOrdinal = max(forgottenOrdinal, other.forgottenOrdinal)
        let (mine, theirs) = (Timeline(state), Timeline(other))
        var pairs = Set(state.announced.map(\.pair) + other.announced.map(\.pair))
        pairs.formUnion(timeline.changes.map(\.pair))
        for pair in pairs {
            let counts = [state.count(of: pair, by: mine), other.count(of: pair, by: theirs)]
            let index = indexOfEntry(pair)
            func settled(_ count: (PairCount) -> Int, shown: Int) -> Int {
                max(counts.map(count).max() ?? 0, shown) - shown
            }
            let received = natives.count { $0.pair == pair && $0.kind == .received }
            let transferred = natives.count { $0.pair == pair && $0.kind == .transferred }
            announced[index].settledChanges = settled(\.changes, shown: timeline.count(of: pair))
            announced[index].settledTransferred = settled(\.transferred, shown: transferred)
            announced[index].settledReceived = settled(\.received, shown: received)
            announced[index].lastOrdinal = counts.map(\.entry.lastOrdinal).max() ?? 0
            var voided = counts[0].entry.voided
            for time in counts[1].entry.voided where !voided.contains(time) { voided.append(time) }
            voided.removeAll { timeline.changes.contains(Timeline.Change(pair: pair, at: $0)) }
            announced[index].voided = voided.sorted().suffix(Self.voidedMax)
            let entry = announced[index]
            let number = max(
                entry.settledChanges + timeline.count(of: pair), entry.settledTransferred + transferred,
                entry.settledReceived + received)
            let expected = number + entry.voided.count
            announced[index].lastOrdinal = max(entry.lastOrdinal, expected)
            announced[index].settle(max(entry.lastOrdinal - expected, 0))
        }
    }

    private struct PairCount {
        let entry: AnnouncedPair
        let changes: Int
        let transferred: Int
        let received: Int
    }

    private func count(of pair: Timeline.Pair, by timeline: Timeline) -> PairCount {
        let entry =
            announced.first { $0.pair == pair }
            ?? AnnouncedPair(
                from: pair.from, to: pair.to, lastOrdinal: forgottenOrdinal, settledChanges: forgottenOrdinal,
                settledTransferred: forgottenOrdinal, settledReceived: forgottenOrdinal)
        return PairCount(
            entry: entry, changes: entry.settledChanges + timeline.count(of: pair),
            transferred: entry.settledTransferred + natives.count { $0.pair == pair && $0.kind == .transferred },
            received: entry.settledReceived + natives.count { $0.pair == pair && $0.kind == .received })
    }
}
