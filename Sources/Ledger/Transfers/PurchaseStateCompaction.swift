import Vocabulary

extension PurchaseState {
    /// Drops what no webhook inside the retry horizon can depend on, then what exceeds the limits. The counts of the
    /// dropped facts are kept as numbers, so that no drop changes a number of transfers.
    ///
    /// - Parameter timeline: of the current facts.
    /// - Returns: the registers that were dropped.
    mutating func compact(_ timeline: Timeline) -> [Register] {
        let (facts, moves, nameless, plans) = (facts.count, moves.count, nameless.count, plans.count)
        settle()
        dropInnerFacts()
        if self.facts.count > Self.factsMax { dropInnerFacts(before: Timestamp.distantFuture) }
        dropOldestFacts()
        dropPlans()
        if self.facts.count != facts || self.moves.count != moves || self.nameless.count != nameless
            || self.plans.count != plans
        {
            settleChanges(timeline)
        }
        settleNatives()
        dropEarlier()
        dropNames()
        forgetPairs { Timeline($0).transfers }
        return forgetRegisters { $0.isOn && ($0.isTenureFree || $0.holder == timeline.newestGranted) }
    }

    /// Drops what exceeds the limits of a purchase with shared ownership, which has no tenures.
    ///
    /// - Returns: the registers that were dropped.
    mutating func compactShared() -> [Register] {
        forgetPairs { _ in [] }
        let forgotten = forgetRegisters(whereActive: \.isOn)
        if !forgotten.isEmpty {
            let holders = Set(registers.map(\.holder))
            facts.removeAll { !holders.contains($0.holder) }
        }
        return forgotten
    }

    /// Drops a fact between two others of its holder, without another holder's in between, once no webhook can come
    /// between them: the later one is older than the retry horizon plus the minute by which a loss reaches back,
    /// counted from the newest event time, because there is no clock. The first gain of such a run stays: it makes the
    /// tenure granted. A revocation stays: it changes the meaning of facts before it. So does a fact at the time of
    /// another holder's gain or within a minute after it: it may say which of two comes first (`isBefore`), or be what
    /// the first loss after it ends. So does a fact by which losses of plans are judged.
    /// - Parameter limit: drops those before this time instead: beyond the limit of facts, where the oldest ones, of a
    ///   holder before perhaps, say more.
    private mutating func dropInnerFacts(before limit: Timestamp? = nil) {
        guard facts.count > 2, let newest = facts.last?.at else { return }
        let horizon =
            limit
            ?? newest.advanced(
                byMilliseconds: -(Limits.retryHorizonMilliseconds + Limits.ungrantedTenureMilliseconds))
        guard facts[2].at < horizon else { return }
        var kept: [KeptFact] = []
        kept.reserveCapacity(facts.count)
        for (index, fact) in facts.enumerated() {
            guard let previous = kept.last, index + 1 < facts.endIndex, facts[index + 1].at < horizon,
                previous.holder == fact.holder, facts[index + 1].holder == fact.holder,
                !previous.isRevoked, !fact.isRevoked, fact.kind == .loss || previous.kind == .gain,
                !isNearOthersGain(fact), !isJudgedBy(fact, at: index)
            else {
                kept.append(fact)
                continue
            }
            if isOfLeftPlan(fact, among: facts) { continue }
            kept[kept.endIndex - 1].until = max(previous.until, fact.until)
        }
        let isShorter = kept.count < facts.count
        facts = kept
        // What was kept for the losses that are gone may go, too.
        if isShorter, !plans.isEmpty { dropInnerFacts(before: limit) }
    }

    /// Whether the fact is at the time of another holder's gain, or up to a minute after it.
    private func isNearOthersGain(_ fact: KeptFact) -> Bool {
        let minute = fact.at.advanced(byMilliseconds: -Limits.ungrantedTenureMilliseconds)...fact.at
        return facts.contains { $0.kind == .gain && $0.holder != fact.holder && minute.contains($0.at) }
    }

    /// Drops the oldest facts beyond the limit. The newest gain stays, however old: it says who has the purchase.
    private mutating func dropOldestFacts() {
        while facts.count > Self.factsMax {
            let newestGain = facts.lastIndex { $0.kind == .gain }
            facts.remove(at: newestGain == facts.startIndex ? facts.startIndex + 1 : facts.startIndex)
        }
    }

    /// Settles the changes that the kept facts do not show any more; a change that only the kept facts show is
    /// subtracted.
    mutating func settleChanges(_ full: Timeline) {
        let kept = Timeline(self)
        for pair in full.pairs(differingFrom: kept) {
            let difference = full.count(of: pair) - kept.count(of: pair)
            if difference != 0 { announced[indexOfEntry(pair)].settledChanges += difference }
        }
    }

    private mutating func settleNatives() {
        while natives.count > Self.nativesMax {
            let native = natives.removeFirst()
            let index = indexOfEntry(native.pair)
            switch native.kind {
            case .transferred: announced[index].settledTransferred += 1
            case .received: announced[index].settledReceived += 1
            }
        }
    }

    /// Drops the first pairs beyond the limit that nothing kept concerns.
    /// - Parameter shown: transfers that the kept facts show; called only if there are too many pairs.
    private mutating func forgetPairs(shown: (PurchaseState) -> [Timeline.Transfer]) {
        guard announced.count > Self.pairsMax else { return }
        let transfers = shown(self)
        while announced.count > Self.pairsMax {
            // Such a pair exists: fewer than `pairsMax` pairs have a kept native or two neighbouring tenures.
            let index = announced.firstIndex { entry in
                !natives.contains { $0.pair == entry.pair } && !transfers.contains { $0.pair == entry.pair }
            }
            let forgotten = announced.remove(at: index ?? announced.startIndex)
            forgottenOrdinal = max(forgottenOrdinal, forgotten.lastOrdinal)
        }
    }

    /// Drops the oldest registers without access beyond the limit, else the oldest.
    private mutating func forgetRegisters(whereActive isActive: (Register) -> Bool) -> [Register] {
        var forgotten: [Register] = []
        while registers.count > Self.registersMax {
            let idle = registers.indices.filter { !isActive(registers[$0]) }
            let candidates = idle.isEmpty ? Array(registers.indices) : idle
            guard let oldest = candidates.min(by: { registers[$0].at < registers[$1].at }) else { break }
            forgotten.append(registers.remove(at: oldest))
        }
        return forgotten
    }
}
