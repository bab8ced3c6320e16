import Vocabulary

extension PurchaseState {
    struct Verdict {
        var told: [ToldTransfer] = []
        var notes: [Note] = []
    }

    /// Compares the number of transfers of each pair with what was announced, announces the missing ones and voids
    /// those that no longer hold.
    ///
    /// - Parameter readings: what was recorded in between.
    mutating func count(before: Timeline, after: Timeline, readings: [FactReading]) -> Verdict {
        var verdict = Verdict()
        var raised: [(index: Int, transfers: [ToldTransfer])] = []
        for pair in pairs(before, after, readings) {
            let index = indexOfEntry(pair)
            restore(at: index, after)
            let number = number(at: index, after)
            let expected = number + told[index].voided.count
            if expected > told[index].number {
                let place = after.lastIndex(of: pair) ?? .max
                raised.append((place, transfers(of: pair, after: told[index].number, upTo: expected, readings)))
                told[index].number = expected
            } else if expected < told[index].number {
                verdict.notes.append(void(at: index, number: number, before, after, readings))
            }
        }
        // A native without a change of tenure comes last; the sort is stable for those.
        raised.sort { $0.index < $1.index }
        verdict.told = raised.flatMap(\.transfers)
        return verdict
    }

    /// The number of transfers of the pair: the largest of the three counts.
    private func number(at index: Int, _ timeline: Timeline) -> Int {
        let entry = told[index]
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
        of pair: Timeline.Pair, after told: Int, upTo expected: Int, _ readings: [FactReading]
    ) -> [ToldTransfer] {
        let webhook = readings.lazy.compactMap(\.native).first { $0.pair == pair }
        return ((told + 1)...expected).map { n in
            var native: ToldTransfer.Native?
            if n == told + 1, let webhook {
                native = webhook.kind == .transferred ? .transferred : .received
            }
            return ToldTransfer(from: pair.from, to: pair.to, n: n, native: native)
        }
    }

    // MARK: Voids

    /// Restores voided transfers that the facts show again: they are the announced ones, not new ones.
    private mutating func restore(at index: Int, _ timeline: Timeline) {
        let entry = told[index]
        if entry.voided.isEmpty { return }
        told[index].voided.removeAll { time in
            timeline.changes.contains(Timeline.Change(pair: entry.pair, at: time))
        }
    }

    private mutating func void(
        at index: Int, number: Int, _ before: Timeline, _ after: Timeline, _ readings: [FactReading]
    ) -> Note {
        let entry = told[index]
        let time = readings.map(\.at).max() ?? before.changes.last?.at ?? Timestamp(milliseconds: 0)
        let missing = entry.number - number - entry.voided.count
        var gone = before.changes.filter { change in
            change.pair == entry.pair && !after.changes.contains(change)
        }.map(\.at)
        // Transfers that no change shows are settled at once beyond what can be kept: a count has no other bound.
        let unshown = max(missing - gone.count, 0)
        gone += Array(repeating: time, count: min(unshown, Self.voidedMax))
        let voided = gone.suffix(missing)
        let all = (entry.voided + voided).sorted()
        told[index].voided = all.suffix(Self.voidedMax)
        // Settled permanently: no fact will restore these.
        told[index].settle(missing - voided.count + all.count - told[index].voided.count)
        let reason = reason(from: entry.from, to: entry.to, at: voided.last ?? time, after, readings)
        return Note(reason: reason, from: entry.from, to: entry.to, count: missing)
    }

    private func reason(
        from: Holder, to: Holder, at time: Timestamp, _ after: Timeline, _ readings: [FactReading]
    ) -> Note.Reason {
        if let between = after.predecessor(of: to, at: time), between != from, between != to {
            return .thirdHolder(between)
        }
        return readings.contains { $0.isRevoked } ? .revoked : .rearranged
    }

    // MARK: Merging

    /// Adds a pair that may exist already under another holder's former name; numbering continues from the higher of
    /// the two.
    mutating func merge(_ other: ToldPair) {
        let count = told.count
        let index = indexOfEntry(other.pair)
        guard told.count == count else { return told[index] = other }
        let known = told[index]
        told[index] = ToldPair(
            from: known.from, to: known.to, number: max(known.number, other.number),
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
        for index in told.indices {
            told[index].settle(told[index].number - told[index].voided.count - number(at: index, timeline))
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
        var (low, high) = (told.startIndex, told.endIndex)
        while low < high {
            let middle = (low + high) / 2
            if (told[middle].from, told[middle].to) < (pair.from, pair.to) { low = middle + 1 } else { high = middle }
        }
        if low < told.endIndex, told[low].pair == pair { return low }
        let entry = ToldPair(
            from: pair.from, to: pair.to, number: forgottenNumber, settledChanges: forgottenNumber,
            settledTransferred: forgottenNumber, settledReceived: forgottenNumber)
        told.insert(entry, at: low)
        return low
    }
}

extension ToldPair {
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
