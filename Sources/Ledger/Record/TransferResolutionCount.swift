import Vocabulary

extension PurchaseState {
    struct Verdict {
        var told: [ToldTransfer] = []
        var notes: [Note] = []
    }

    /// Compares the number of transfers of each pair with what was told, tells the rest and voids what is one no more.
    mutating func count(before: Timeline, after: Timeline, reading: FactReading) -> Verdict {
        var verdict = Verdict()
        var raised: [(index: Int, transfers: [ToldTransfer])] = []
        for pair in pairs(in: after) {
            let index = indexOfEntry(pair)
            restore(at: index, after)
            let number = number(at: index, after)
            let expected = number + told[index].voided.count
            if expected > told[index].number {
                let place = after.lastIndex(from: pair.from, to: pair.to) ?? .max
                raised.append((place, transfers(of: pair, after: told[index].number, upTo: expected, reading)))
                told[index].number = expected
            } else if expected < told[index].number {
                verdict.notes.append(void(at: index, number: number, before, after, reading))
            }
        }
        // Native alone, without a change of tenure, comes last; the sort is stable for those.
        raised.sort { $0.index < $1.index }
        verdict.told = raised.flatMap(\.transfers)
        return verdict
    }

    /// Transfers of the pair by all that is known: the largest of the three counts.
    private func number(at index: Int, _ timeline: Timeline) -> Int {
        let entry = told[index]
        var transferred = entry.settledTransferred
        var received = entry.settledReceived
        for native in natives where native.from == entry.from && native.to == entry.to {
            switch native.kind {
            case .transferred: transferred += 1
            case .received: received += 1
            }
        }
        return max(timeline.count(from: entry.from, to: entry.to) + entry.settledChanges, transferred, received)
    }

    private func transfers(
        of pair: Pair, after told: Int, upTo expected: Int, _ reading: FactReading
    ) -> [ToldTransfer] {
        ((told + 1)...expected).map { n in
            var native: ToldTransfer.Native?
            if n == told + 1, let webhook = reading.native, webhook.from == pair.from, webhook.to == pair.to {
                native = webhook.kind == .transferred ? .transferred : .received
            }
            return ToldTransfer(from: pair.from, to: pair.to, n: n, native: native)
        }
    }

    // MARK: Voids

    /// A voided transfer that the facts show again is the one that was told, not another.
    private mutating func restore(at index: Int, _ timeline: Timeline) {
        let entry = told[index]
        if entry.voided.isEmpty { return }
        told[index].voided.removeAll { time in
            timeline.changes.contains { $0.from == entry.from && $0.to == entry.to && $0.at == time }
        }
    }

    private mutating func void(
        at index: Int, number: Int, _ before: Timeline, _ after: Timeline, _ reading: FactReading
    ) -> Note {
        let entry = told[index]
        let missing = entry.number - number - entry.voided.count
        var gone = before.changes.filter { change in
            change.from == entry.from && change.to == entry.to && !after.changes.contains(change)
        }.map(\.at)
        while gone.count < missing { gone.append(reading.at) }
        let voided = gone.suffix(missing)
        told[index].voided = (entry.voided + voided).sorted()
        while told[index].voided.count > Self.voidedMax {
            // Counted for good: no fact will bring it back.
            told[index].voided.removeFirst()
            told[index].settledChanges += 1
            told[index].settledTransferred += 1
            told[index].settledReceived += 1
        }
        let reason = reason(from: entry.from, to: entry.to, at: voided.last ?? reading.at, after, reading)
        return Note(reason: reason, from: entry.from, to: entry.to, count: missing)
    }

    private func reason(
        from: Holder, to: Holder, at time: Timestamp, _ after: Timeline, _ reading: FactReading
    ) -> Note.Reason {
        if let between = after.predecessor(of: to, at: time), between != from, between != to {
            return .thirdHolder(between)
        }
        return reading.isRevoked ? .revoked : .rearranged
    }

    // MARK: Pairs

    private struct Pair: Equatable {
        let from: Holder
        let to: Holder
    }

    /// Every pair that something is known or was told of.
    private func pairs(in timeline: Timeline) -> [Pair] {
        var pairs = told.map { Pair(from: $0.from, to: $0.to) }
        for change in timeline.changes { pairs.appendIfMissing(Pair(from: change.from, to: change.to)) }
        for native in natives { pairs.appendIfMissing(Pair(from: native.from, to: native.to)) }
        return pairs
    }

    /// The pair's entry; a new one starts where forgotten ones ended, so that its numbers are new.
    private mutating func indexOfEntry(_ pair: Pair) -> Int {
        let index = told.firstIndex { !(($0.from, $0.to) < (pair.from, pair.to)) } ?? told.endIndex
        if index < told.endIndex, told[index].from == pair.from, told[index].to == pair.to { return index }
        let entry = ToldPair(
            from: pair.from, to: pair.to, number: forgottenNumber, settledChanges: forgottenNumber,
            settledTransferred: forgottenNumber, settledReceived: forgottenNumber)
        told.insert(entry, at: index)
        return index
    }
}

extension Array where Element: Equatable {
    fileprivate mutating func appendIfMissing(_ element: Element) {
        if !contains(element) { append(element) }
    }
}
