import Vocabulary

/// Who may use a purchase that several hold together (`ownership = "install_and_identity"`): one pure function like
/// TransferResolution, over the same state.
///
/// The smallest rule that reproduces the six examples of Qonversion's page "User Identifiers": a purchase is held by
/// the install that made it, and by the identity logged in on it; the first identify ever of an identity gives it all
/// that the install holds; a restore makes the install and its identity holders, alone ("transfer") or beside the
/// others ("copy"). What ends is the purchase, for all of its holders at once.
///
/// State: `registers`, one for each holder ever; `period`, whether the purchase is running; `facts`, of each holder the
/// first gain, for a change of holders that comes late; `natives` and `told`, the transfers told.
enum SharedOwnership {
    static func resolve(_ state: PurchaseState, _ facts: [Fact]) -> Resolution {
        var next = state
        for fact in facts {
            switch fact.kind {
            case .gain, .received:
                next.gain(fact.holder, at: fact.at)
                next.write(period: PurchaseState.Period(at: fact.at, isOn: true))
            case .loss, .transferred:
                next.write(period: PurchaseState.Period(at: fact.at, isOn: false))
            }
        }
        return Resolution(state: next, told: [], isPassedOn: true, access: next.sharedAccess, notes: [])
    }

    /// Nil where the purchase is not concerned.
    static func apply(_ change: HolderChangeRow, to state: PurchaseState) -> Resolution? {
        switch change.kind {
        case .share, .native, .login: share(change, state)
        case .copy, .transfer: restore(change, state)
        }
    }

    private static func share(_ change: HolderChangeRow, _ state: PurchaseState) -> Resolution? {
        guard let from = change.from, state.isHeld(by: from, at: change.at) else { return nil }
        var next = state
        next.gain(change.target, at: change.at)
        return Resolution(state: next, told: [], isPassedOn: true, access: next.sharedAccess, notes: [])
    }

    private static func restore(_ change: HolderChangeRow, _ state: PurchaseState) -> Resolution? {
        guard !state.registers.isEmpty || state.period != nil else { return nil }
        var next = state
        let targets = [change.target] + (change.secondTarget.map { [$0] } ?? [])
        for target in targets { next.gain(target, at: change.at) }
        var told: [ToldTransfer] = []
        if change.kind == .transfer {
            for register in state.registers where !targets.contains(register.holder) && register.at <= change.at {
                if register.isOn, state.period?.isOn == true {
                    told += next.tell(from: register.holder, to: targets[targets.endIndex - 1], at: change.at)
                }
                next.write(Register(holder: register.holder, at: change.at, isOn: false, isTenureFree: true))
            }
        }
        return Resolution(state: next, told: told, isPassedOn: true, access: next.sharedAccess, notes: [])
    }
}

extension PurchaseState {
    /// A register is on while its holder was last given the purchase; all access ends and begins with its period.
    fileprivate var sharedAccess: [Holder: Access] {
        var access: [Holder: Access] = [:]
        for register in registers {
            let isActive = register.isOn && period?.isOn ?? true
            access[register.holder] = Access(isActive: isActive, asOf: max(register.at, period?.at ?? register.at))
        }
        return access
    }

    /// By the register where it is as old as that; where it is newer, by the holder's first gain.
    fileprivate func isHeld(by holder: Holder, at time: Timestamp) -> Bool {
        guard let register = registers.first(where: { $0.holder == holder }) else { return false }
        if register.at <= time { return register.isOn }
        return facts.contains { $0.holder == holder && $0.at <= time }
    }

    fileprivate mutating func gain(_ holder: Holder, at time: Timestamp) {
        write(Register(holder: holder, at: time, isOn: true, isTenureFree: true))
        while registers.count > Self.registersMax { forgetOldestRegister() }
        if let index = facts.firstIndex(where: { $0.holder == holder }) {
            guard time < facts[index].at else { return }
            facts.remove(at: index)
        }
        let fact = KeptFact(at: time, holder: holder, isRevoked: false, kind: .gain, until: time)
        facts.insert(fact, at: facts.firstIndex { fact < $0 } ?? facts.endIndex)
    }

    private mutating func forgetOldestRegister() {
        let idle = registers.indices.filter { !registers[$0].isOn }
        let candidates = idle.isEmpty ? Array(registers.indices) : idle
        guard let oldest = candidates.min(by: { registers[$0].at < registers[$1].at }) else { return }
        let holder = registers.remove(at: oldest).holder
        facts.removeAll { $0.holder == holder }
    }

    /// Once for each restore, however often it is applied.
    fileprivate mutating func tell(from: Holder, to: Holder, at time: Timestamp) -> [ToldTransfer] {
        let native = KeptNative(at: time, kind: .transferred, from: from, to: to)
        let place = natives.firstIndex { $0 >= native } ?? natives.endIndex
        if place < natives.endIndex, natives[place] == native { return [] }
        natives.insert(native, at: place)
        if natives.count > Self.nativesMax { natives.removeFirst() }
        let index = indexOfEntry(Timeline.Pair(from: from, to: to))
        told[index].number += 1
        return [ToldTransfer(from: from, to: to, n: told[index].number, native: nil)]
    }

    /// The later event time wins; on equal times the end.
    fileprivate mutating func write(period new: Period) {
        guard let known = period else { return period = new }
        if new.at > known.at || new.at == known.at && !new.isOn { period = new }
    }
}
