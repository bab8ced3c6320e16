import Vocabulary

extension PurchaseState {
    struct Verdict {
        var announced: [AnnouncedTransfer] = []
        var voids: [VoidedTransfer] = []
    }

    /// Compares the number of transfers of each pair with what was announced, announces the missing ones and voids
    /// those that no longer hold.
    ///
    /// - Parameter readings: what was recorded in between.
    mutating func count(before: Timeline, after: Timeline, readings: [FactReading]) -> Verdict {
        var verdict = Verdict()
        var raised: [(index: Int, transfers: [AnnouncedTransfer])] = []
        for pair in pairs(before, after, readings) {
            let index = indexOfEntry(pair)
            restore(at: index, after)
            let number = number(at: index, after)
            let expected = number + announced[index].voided.count
            if expected > announced[index].lastOrdinal {
                let place = after.lastIndex(of: pair) ?? .max
                raised.append(
                    (place, transfers(of: pair, after: announced[index].lastOrdinal, upTo: expected, readings)))
                announced[index].lastOrdinal = expected
            } else if expected < announced[index].lastOrdinal {
                verdict.voids.append(void(at: index, number: number, before, after, readings))
            }
        }
        // A native without a change of tenure comes last; the sort is stable for those.
        raised.sort { $0.index < $1.index }
        verdict.announced = raised.flatMap(\.transfers)
        return verdict
    }

    /// The number of transfers of the pair: the largest of the three counts.
    private func number(at index: Int, _ timeline: Timeline) -> Int {
        let entry = announced[index]
        var transferred = entry.settledTransferred
        var received = entry.settledReceived
        for native in natives where native.pair == entry.pair {
            switch native.kind {
            case .transferred: transferred += 1
            case .received: received += 1
            }
        }
        return max(timeline.count(of: entry.pair) + entry.settledChanges, transferred, received)
    }

    private func transfers(
        of pair: Timeline.Pair, after announced: Int, upTo expected: Int, _ readings: [FactReading]
    ) -> [AnnouncedTransfer] {
        let webhook = readings.lazy.compactMap(\.native).first { $0.pair == pair }
        return ((announced + 1)...expected).map { ordinal in
            var native: AnnouncedTransfer.Native?
            if ordinal == announced + 1, let webhook {
                native = webhook.kind == .transferred ? .transferred : .received
            }
            return AnnouncedTransfer(from: pair.from, to: pair.to, ordinal: ordinal, native: native)
        }
    }

    // MARK: Voids

    /// Restores voided transfers that the facts show again: they are the announced ones, not new ones.
    private mutating func restore(at index: Int, _ timeline: Timeline) {
        let entry = announced[index]
        if entry.voided.isEmpty { return }
        announced[index].voided.removeAll { time in
            timeline.changes.contains(Timeline.Change(pair: entry.pair, at: time))
        }
    }

    private mutating func void(
        at index: Int, number: Int, _ before: Timeline, _ after: Timeline, _ readings: [FactReading]
    ) -> VoidedTransfer {
        let entry = announced[index]
        let time = readings.map(\.at).max() ?? before.changes.last?.at ?? Timestamp(milliseconds: 0)
        let missing = entry.lastOrdinal - number - entry.voided.count
        var gone = before.changes.filter { change in
            change.pair == entry.pair && !after.changes.contains(change)
        }.map(\.at)
        // Transfers that no change shows are settled at once beyond what can be kept: a count has no other bound.
        let unshown = max(missing - gone.count, 0)
        gone += Array(repeating: time, count: min(unshown, Self.voidedMax))
        let voided = gone.suffix(missing)
        let all = (entry.voided + voided).sorted()
        announced[index].voided = all.suffix(Self.voidedMax)
        // Settled permanently: no fact will restore these.
        announced[index].settle(missing - voided.count + all.count - announced[index].voided.count)
        let reason = reason(from: entry.from, to: entry.to, at: voided.last ?? time, after, readings)
        return VoidedTransfer(reason: reason, from: entry.from, to: entry.to, count: missing)
    }

    private func reason(
        from: Holder, to: Holder, at time: Timestamp, _ after: Timeline, _ readings: [FactReading]
    ) -> VoidedTransfer.Reason {
        if let between = after.predecessor(of: to, at: time), between != from, between != to {
            return .thirdHolder(between)
        }
        return readings.contains { $0.isRevoked } ? .revoked : .rearranged
    }

    // MARK: Merging

    /// Adds a pair that may exist already under another holder's former name; numbering continues from the higher of
    /// the two.
    mutating func merge(_ other: AnnouncedPair) {
        let count = announced.count
        let index = indexOfEntry(other.pair)
        guard announced.count == count else { return announced[index] = other }
        let known = announced[index]
        announced[index] = AnnouncedPair(
            from: known.from, to: known.to, lastOrdinal: max(known.lastOrdinal, other.lastOrdinal),
            voided: (known.voided + other.voided).sorted().suffix(Self.voidedMax),
            settledChanges: known.settledChanges + other.settledChanges,
            settledTransferred: known.settledTransferred + other.settledTransferred,
            settledReceived: known.settledReceived + other.settledReceived)
    }

    /// Makes the count of each pair equal to its number, so that what facts with new names show is neither announced
    /// again nor voided.
    mutating func settleNumbers() {
        let timeline = period == nil ? Timeline(self) : Timeline()
        for change in timeline.changes { _ = indexOfEntry(change.pair) }
        for index in announced.indices {
            announced[index].settle(
                announced[index].lastOrdinal - announced[index].voided.count - number(at: index, timeline))
        }
    }

    // MARK: Pairs

    /// The pairs whose number this webhook may have changed.
    private func pairs(_ before: Timeline, _ after: Timeline, _ readings: [FactReading]) -> [Timeline.Pair] {
        var pairs = after.pairs(differingFrom: before)
        for pair in readings.compactMap(\.native?.pair) where !pairs.contains(pair) { pairs.append(pair) }
        return pairs
    }

    /// The index of the pair's entry; a new one starts after the forgotten ones, so that its numbers are new.
    mutating func indexOfEntry(_ pair: Timeline.Pair) -> Int {
        var (low, high) = (announced.startIndex, announced.endIndex)
        while low < high {
            let middle = (low + high) / 2
            if (announced[middle].from, announced[middle].to) < (pair.from, pair.to) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        if low < announced.endIndex, announced[low].pair == pair { return low }
        let entry = AnnouncedPair(
            from: pair.from, to: pair.to, lastOrdinal: forgottenOrdinal, settledChanges: forgottenOrdinal,
            settledTransferred: forgottenOrdinal, settledReceived: forgottenOrdinal)
        announced.insert(entry, at: low)
        return low
    }
}

extension AnnouncedPair {
    var pair: Timeline.Pair { Timeline.Pair(from: from, to: to) }

    /// Adds to each of the three counts.
    mutating func settle(_ count: Int) {
        settledChanges += count
        settledTransferred += count
        settledReceived += count
    }
}

extension KeptNative {
    var pair: Timeline.Pair { Timeline.Pair(from: from, to: to) }
}
