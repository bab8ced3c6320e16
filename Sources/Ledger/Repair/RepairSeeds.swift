import Vocabulary

/// Completes the state that an incomplete history gives, so that it agrees with what was written and announced while
/// all webhooks were known: access from `entitlements`, the ordinals of transfers from `transfers`.
///
/// What cannot be known any more is decided against a second announcement and against access that nobody had: what the
/// facts show counts as announced, and who has no access is off. Facts that contradict what is stored are dropped: one
/// that names nobody is somebody else's where the name before it is missing.
struct RepairSeeds {
    let history: PurchaseHistory
    let ownership: Ownership
    private let mayLackName: Bool

    init(_ history: PurchaseHistory, rules: SourceRules) {
        self.history = history
        ownership = rules.ownership
        mayLackName = rules.mayLackName
    }

    /// A purchase that was known to be a one-time purchase still is.
    func kind(_ rebuilt: Purchase.Kind) -> Purchase.Kind { history.kind == .oneTime ? .oneTime : rebuilt }

    func state(completing rebuilt: PurchaseState, of kind: Purchase.Kind) -> PurchaseState {
        let state = seeded(rebuilt, of: kind)
        return ownership == .exclusive && !agrees(state) ? seeded(rebuilt.withoutCourse, of: kind) : state
    }

    private func seeded(_ rebuilt: PurchaseState, of kind: Purchase.Kind) -> PurchaseState {
        var state = rebuilt
        var numbers: [Timeline.Pair: Int] = [:]
        for pair in rebuilt.announced { numbers[pair.pair] = pair.lastOrdinal }
        for transfer in history.transfers {
            numbers[transfer.pair] = max(numbers[transfer.pair] ?? 0, transfer.ordinal)
        }
        switch ownership {
        case .exclusive:
            if kind == .oneTime { state = TransferResolution.oneTime(state).state }
            if mayLackName {
                seedUser(&state)
                seedInstall(&state)
            }
            seedExclusive(&state, kind)
        case .installAndIdentity: seedShared(&state)
        }
        for (pair, number) in numbers { state.announced[state.indexOfEntry(pair)].lastOrdinal = number }
        _ = ownership == .exclusive ? state.compact(Timeline(state)) : state.compactShared()
        state.settleNumbers()
        return state
    }

    /// Whether a state gives the access that is stored, knows nobody else, and nothing newer of anybody.
    private func agrees(_ state: PurchaseState) -> Bool {
        let stored = Dictionary(firstOf: history.entitlements, by: \.holder).mapValues(\.access)
        if stored.isEmpty { return true }
        let given = access(of: state)
        return given.allSatisfy { holder, access in stored[holder]?.isActive == access.isActive }
            && stored.allSatisfy { holder, access in !access.isActive || given[holder] != nil }
            && EffectiveMoves(state).registers.allSatisfy { register in
                stored[register.holder].map { register.at <= $0.asOf } ?? false
            }
    }

    /// The access that a state gives to each of its holders.
    func access(of state: PurchaseState) -> [Holder: Access] {
        switch ownership {
        case .exclusive: Timeline(state).access
        case .installAndIdentity: SharedOwnership.resolve(state, []).access
        }
    }

    /// Stored entitlements that a state does not agree with, oldest first. The newer word counts; that somebody is only
    /// named is no word about access.
    private func unknown(to state: PurchaseState) -> [PurchaseHistory.Entitlement] {
        let known = access(of: state)
        let stated = Set((ownership == .exclusive ? EffectiveMoves(state).registers : state.registers).map(\.holder))
        return history.entitlements.sorted { ($0.access.asOf, $0.holder) < ($1.access.asOf, $1.holder) }
            .filter { entitlement in
                guard let access = known[entitlement.holder] else { return true }
                if access == entitlement.access { return false }
                return access.asOf <= entitlement.access.asOf
                    || entitlement.access.isActive && !stated.contains(entitlement.holder)
            }
    }

    /// Names the user whom the purchase itself was given, if no webhook that is stored says it: otherwise a link of its
    /// customer to somebody else would count, or nobody would be named. Who had it by the newest link has it by that.
    private func seedUser(_ state: inout PurchaseState) {
        let users = history.entitlements.filter { !$0.holder.isAnonymous }
        let link = newestLink
        let isGiven = history.entitlements.contains(where: \.access.isActive)
        let given =
            isGiven
            ? users.first { $0.access.isActive && $0.holder != link }
            : link == nil ? users.max { ($0.access.asOf, $0.holder) < ($1.access.asOf, $1.holder) } : nil
        guard let given else { return }
        state.expectNameless()
        // Without other names it is about all facts that name nobody.
        let since = state.names.isEmpty ? state.own.map(\.since).min() : nil
        let time = min(since ?? given.access.asOf, given.access.asOf)
        state.insert(HolderName(at: time, kind: .gain, holder: given.holder))
    }

    /// Makes an install of who has the purchase under an anonymous id that no stored webhook names, where they name
    /// the store's own: what names nobody is the install's then.
    private func seedInstall(_ state: inout PurchaseState) {
        guard !state.own.isEmpty,
            let install = history.entitlements.first(where: { $0.access.isActive && $0.holder.isAnonymous }),
            !state.isOwn(install.holder)
        else { return }
        state.insert(OwnHolder(holder: install.holder, since: install.access.asOf, isGiven: true))
        state.insert(HolderName(at: install.access.asOf, kind: .given, holder: install.holder))
    }

    /// To whom a link of an anonymous holder of the purchase leads that is the newest known.
    private var newestLink: Holder? {
        let anonymous = Set(history.entitlements.map(\.holder).filter(\.isAnonymous).map(\.storageKey))
        let rows = history.items.flatMap { item in
            guard item.changes.isEmpty, let change = item.event.change else { return item.changes }
            return HolderChangeRow.rows(
                of: change, ownership: ownership, isFirstIdentify: false, identity: nil, scope: history.scope,
                at: item.event.occurredAt)
        }
        return rows.filter { $0.kind == .login && anonymous.contains($0.subject) }
            .max { ($0.at, $0.target) < ($1.at, $1.target) }?.target
    }

    private func seedExclusive(_ state: inout PurchaseState, _ kind: Purchase.Kind) {
        // Two can only have access at once where it does not follow tenures.
        let isShared = history.entitlements.count(where: \.access.isActive) > 1
        // An own holder has access until something is stated of somebody else: whoever is newer is only named.
        let own = history.entitlements.first { $0.access.isActive && state.isOwn($0.holder) }?.access.asOf
        for entitlement in unknown(to: state) {
            if let own, !entitlement.access.isActive, entitlement.access.asOf >= own { continue }
            let (holder, access) = (entitlement.holder, entitlement.access)
            if access.isActive {
                let gain = Fact(
                    kind: .gain, holder: holder, at: access.asOf, until: until, isFamilyShared: isShared)
                state.record(FactReading(gain, kind: kind))
            } else {
                state.write(
                    Register(holder: holder, at: access.asOf, isOn: false, isTenureFree: isShared || kind == .oneTime))
            }
        }
    }

    private func seedShared(_ state: inout PurchaseState) {
        let isRunning = history.entitlements.contains(where: \.access.isActive)
        for entitlement in unknown(to: state) {
            let (holder, access) = (entitlement.holder, entitlement.access)
            if access.isActive {
                state = SharedOwnership.resolve(state, [Fact(kind: .gain, holder: holder, at: access.asOf)]).state
            } else {
                // What ended is the purchase, for all its holders; only who passed it on does not hold it.
                let isHolder = !isRunning && !history.transfers.contains { $0.pair.from == holder }
                state.write(Register(holder: holder, at: access.asOf, isOn: isHolder, isTenureFree: true))
            }
        }
        guard !isRunning, let end = history.entitlements.max(by: { $0.access.asOf < $1.access.asOf }),
            state.period.map({ $0.isOn && $0.at <= end.access.asOf }) ?? true
        else { return }
        state = SharedOwnership.resolve(state, [Fact(kind: .loss, holder: end.holder, at: end.access.asOf)]).state
    }

    /// The end of the paid period, by the newest transaction; nil: no known end.
    private var until: Timestamp? {
        history.transactions.max { ($0.asOf, $0.asOfEvent) < ($1.asOf, $1.asOfEvent) }?.effectiveNextRenewalAt
    }
}

extension PurchaseState {
    /// The same knowledge without what says who had the purchase when.
    fileprivate var withoutCourse: PurchaseState {
        var state = self
        (state.facts, state.registers, state.earlier, state.plans) = ([], [], [], [])
        (state.moves, state.nameless, state.names) = ([], [], [])
        return state
    }
}
