import Vocabulary

/// Why the webhooks that are stored are not all that the purchase ever had.
package enum MissingHistory: String, Sendable, CaseIterable {
    case webhooks = "none of its webhooks is stored"
    case unreadable = "stored webhooks of it cannot be read any more"
    case state = "its stored state names what no stored webhook states"
    case entitlements = "its access was stated by a webhook that is not stored"
    case transfers = "transfers of it were announced that no stored webhook shows"
    case transactions = "the newest webhook of a transaction is not stored"
    case kind = "no stored webhook says that it is a one-time purchase"
    case retention = "it was bought before the oldest webhooks that are kept"
    case statements = "its holders have too many logins to read them all"
}

/// Decides what becomes of a purchase, from what is stored of it and what its webhooks give.
///
/// - The stored state is equal: nothing is to do.
/// - Nothing is missing: what the webhooks give is right.
/// - Webhooks are missing, and the stored state can be read: it knows more than they do, and stays.
/// - Webhooks are missing, and the stored state cannot be read: what the webhooks give is completed from
///   `entitlements` and `transfers` (`RepairSeeds`).
///
/// Whoever was erased keeps a place in the state, and nothing beside it: the access and the transfers of a stand-in are
/// neither compared nor written, and no transfer from or to it counts as never announced.
struct RepairDecision {
    let verdict: RepairReport.Verdict
    let missing: [MissingHistory]
    let state: PurchaseState
    let kind: Purchase.Kind
    /// The entitlements that differ from the stored ones.
    let entitlements: [(holder: Holder, access: Access, event: Int64)]
    /// Transfers that the webhooks show and that were not announced.
    let transfers: [BatchPlan.TransferRow]

    /// - Parameter stored: nil: it cannot be read.
    init(_ history: PurchaseHistory, stored: PurchaseState?, rebuilt: StateRebuilder.Result, rules: SourceRules) {
        var rebuilt = rebuilt
        rebuilt.state.unknownLines = stored?.unknownLines ?? []
        let known = Dictionary(firstOf: history.entitlements, by: \.holder).filter { !ErasedID.isStandIn($0.key) }
        let given = rebuilt.access.filter { !ErasedID.isStandIn($0.key) }
        let announced = Set(history.transfers.map(\.id))
        let missing = Self.missing(history, stored: stored, rebuilt: rebuilt)
        let isEqual =
            stored.map { rebuilt.state.isSame(as: $0) } ?? false && history.kind == rebuilt.kind
            && known.mapValues(\.access) == given.mapValues(\.access)
        let isComplete = isEqual || missing.isEmpty
        let isKept = !isComplete && stored != nil
        verdict = isEqual ? .sound : isKept ? .leftUnchanged : .rebuilt
        self.missing = isEqual ? [] : missing
        let new = rebuilt.transfers.filter {
            !announced.contains($0.id) && !ErasedID.isStandIn($0.from) && !ErasedID.isStandIn($0.to)
        }
        transfers = isKept ? [] : new
        if isEqual || isKept {
            state = stored ?? rebuilt.state
            kind = history.kind
            entitlements = []
            return
        }
        var access = given.mapValues(\.access)
        if isComplete {
            (state, kind) = (rebuilt.state, rebuilt.kind)
        } else {
            let seeds = RepairSeeds(history, rules: rules)
            kind = seeds.kind(rebuilt.kind)
            state = seeds.state(completing: rebuilt.state, of: kind)
            let completed = seeds.access(of: state).filter { !ErasedID.isStandIn($0.key) }
            // What nobody can know better stays: that somebody has no access, and since when.
            access = known.mapValues { Access(isActive: false, asOf: $0.access.asOf) }
            for (holder, found) in completed where found.isActive || known[holder] == nil { access[holder] = found }
        }
        let newest = history.items.last?.row ?? 0
        entitlements = access.filter { known[$0.key]?.access != $0.value }
            .map { ($0.key, $0.value, rebuilt.access[$0.key]?.event ?? known[$0.key]?.event ?? newest) }
            .sorted { $0.0 < $1.0 }
    }

    /// What shows that webhooks are missing. Only the stored tables can: nothing remembers how many there were.
    private static func missing(
        _ history: PurchaseHistory, stored: PurchaseState?, rebuilt: StateRebuilder.Result
    ) -> [MissingHistory] {
        let rows = Set(history.items.map(\.row))
        let keys = Set(history.items.filter(\.isOwn).map(\.key))
        var numbers: [Timeline.Pair: Int] = [:]
        for pair in rebuilt.state.announced { numbers[pair.pair] = pair.lastOrdinal }
        let isMissing: (MissingHistory) -> Bool = { reason in
            switch reason {
            case .webhooks: keys.isEmpty
            case .unreadable: history.unreadable > 0
            case .statements: history.isCut
            case .kind: history.kind == .oneTime && rebuilt.kind != .oneTime
            case .state: stored.map { !rebuilt.explains($0) } ?? false
            case .entitlements:
                history.entitlements.contains { entitlement in
                    guard let found = rebuilt.access[entitlement.holder]?.access else { return true }
                    return found.asOf < entitlement.access.asOf && !rebuilt.endsEarlier(found, than: entitlement)
                        || entitlement.event.map { !rows.contains($0) } ?? false
                }
            case .transfers:
                history.transfers.contains { $0.ordinal > numbers[$0.pair] ?? 0 || !rows.contains($0.event) }
            case .transactions: history.transactions.contains { !keys.contains($0.asOfEvent) }
            case .retention:
                history.prunedBefore.map { horizon in
                    history.transactions.contains { $0.isOlder(than: horizon) }
                } ?? false
            }
        }
        return MissingHistory.allCases.filter(isMissing)
    }
}

extension PurchaseState {
    /// Whether a stored state says the same. While a daemon of an older version lives, moves are written as facts, or
    /// what a store said as gains (`LedgerForm`). A version before recorded no plans: what was recorded since has them.
    fileprivate func isSame(as stored: PurchaseState) -> Bool {
        if mayLackName {
            var before = self
            before.names = namesWithoutSaid
            return stored == self || stored == before
        }
        return stored == withoutMoves()
            || stored.withoutPlans == withoutPlans && Set(stored.plans).isSubset(of: plans)
    }
}

extension StateRebuilder.Result {
    private func isStated(_ holder: Holder, _ time: Timestamp) -> Bool {
        changeTimes.contains(time) || namelessTimes.contains(time)
            || stated.contains(StateRebuilder.Statement(holder: holder, at: time))
    }

    /// Whether access that is stored as ended ended earlier by the webhooks, and the statement that the stored end is
    /// from is there. Older versions took an end that concerns whoever has the purchase for a former holder's. Not for
    /// active access: a missing webhook may have given it to this holder.
    fileprivate func endsEarlier(_ found: Access, than stored: PurchaseHistory.Entitlement) -> Bool {
        !found.isActive && !stored.access.isActive && isStated(stored.holder, stored.access.asOf)
    }

    /// Whether the webhooks state everything that a state names, and as many transfers.
    fileprivate func explains(_ other: PurchaseState) -> Bool {
        guard other.facts.allSatisfy({ isStated($0.holder, $0.at) }),
            (other.registers + other.earlier).allSatisfy({ isStated($0.holder, $0.at) }),
            other.moves.allSatisfy({ changeTimes.contains($0.at) }),
            other.nameless.allSatisfy({ isStated($0.holder, $0.at) }),
            other.names.allSatisfy({ isStated($0.holder, $0.at) }),
            other.own.allSatisfy({ isStated($0.holder, $0.since) }),
            other.natives.allSatisfy({ isStated($0.from, $0.at) && isStated($0.to, $0.at) })
        else { return false }
        let times = Set(stated.map(\.at)).union(changeTimes)
        if let period = other.period, !times.contains(period.at) { return false }
        return other.announced.allSatisfy { pair in
            let found = state.announced.first { $0.pair == pair.pair }
            return pair.lastOrdinal <= found?.lastOrdinal ?? state.forgottenOrdinal
        }
    }
}
