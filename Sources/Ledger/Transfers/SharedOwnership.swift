import Vocabulary

/// Decides who may use a purchase that several hold together (`ownership = "install_and_identity"`): one pure function
/// like TransferResolution, over the same state.
///
/// The smallest rule that reproduces the six examples of Qonversion's page "User Identifiers": a purchase is held by
/// the install that made it, and by the identity logged in on it; the first identify ever of an identity gives it all
/// that the install holds; a restore makes the install and its identity holders, alone ("transfer") or beside the
/// others ("copy"). What ends is the purchase, for all of its holders at once.
///
/// State:
/// - `registers`: one for each holder.
/// - `period`: whether the purchase is running.
/// - `facts`: the first gain of each holder, for a change of holders that comes late.
/// - `natives`: one for each holder that a restore took the purchase from while it ran.
/// - `announced`: how many of those there were, for each pair. A pair's number is the settled ones plus one for each
///   native that is kept: only a new native raises it, and by one.
///
/// A restore is announced once, however often it is applied. While `natives` has room, all are remembered; once it is
/// full (it stays full), a native before the first of them was announced and settled, or comes too late.
enum SharedOwnership {
    static func resolve(_ state: PurchaseState, _ facts: [Fact]) -> Resolution {
        var next = state
        var announced: [AnnouncedTransfer] = []
        for fact in facts {
            switch fact.kind {
            case .gain, .received:
                announced += next.gain(fact.holder, at: fact.at)
                if fact.concernsHolderAlone { continue }
                next.write(period: PurchaseState.RunningState(at: fact.at, isOn: true))
            case .loss where fact.concernsHolderAlone:
                next.write(Register(holder: fact.holder, at: fact.at, isOn: false, isTenureFree: true))
            case .loss, .transferred:
                next.write(period: PurchaseState.RunningState(at: fact.at, isOn: false))
            // Of a source with shared ownership every event names somebody.
            case .naming, .said: break
            case .passed(let times):
                guard let from = fact.counterpart, from != fact.holder else { continue }
                announced += next.pass(from: from, to: fact.holder, times: times)
            }
        }
        return next.resolution(announcing: announced)
    }

    /// Applies a change of holders to the purchase; nil if it changes nothing of it.
    static func apply(_ change: HolderChangeRow, to state: PurchaseState) -> Resolution? {
        // A change older than any retry was applied when it arrived.
        if let newest = state.newestTime,
            change.at < newest.advanced(byMilliseconds: -Limits.retryHorizonMilliseconds)
        {
            return nil
        }
        return switch change.kind {
        case .share, .native, .login: share(change, state)
        case .copy, .transfer: restore(change, state)
        }
    }

    /// Joins what an export knew of the purchase with what is known here (`TransferResolution.joining`).
    static func joining(_ other: PurchaseState, to state: PurchaseState) -> Resolution {
        var next = other
        if !state.isUnknown {
            next = state
            next.merge(shared: other)
        }
        let resolution = next.resolution(announcing: [])
        return .joined(resolution.state, to: state, access: resolution.access)
    }

    private static func share(_ change: HolderChangeRow, _ state: PurchaseState) -> Resolution? {
        guard let from = change.from, state.isHeld(by: from, at: change.at) else { return nil }
        var next = state
        let announced = next.gain(change.target, at: change.at)
        return next.resolution(announcing: announced, ifNot: state)
    }

    private static func restore(_ change: HolderChangeRow, _ state: PurchaseState) -> Resolution? {
        guard !state.registers.isEmpty || state.period != nil else { return nil }
        var next = state
        var announced: [AnnouncedTransfer] = []
        let targets = [change.target] + (change.secondTarget.map { [$0] } ?? [])
        if change.kind == .transfer {
            let isRunning = state.isRunning(at: change.at)
            for holder in state.registers.map(\.holder) where !targets.contains(holder) {
                if isRunning, state.isHeld(by: holder, at: change.at) {
                    announced += next.announce(from: holder, to: targets[targets.endIndex - 1], at: change.at)
                }
                next.write(Register(holder: holder, at: change.at, isOn: false, isTenureFree: true))
            }
        }
        for target in targets { announced += next.gain(target, at: change.at) }
        return next.resolution(announcing: announced, ifNot: state)
    }
}

extension Fact {
    /// Whether it says nothing of whether the purchase runs: it was shared with its holder, or is not any more. Only
    /// lines of an import state that of a purchase that several hold together.
    fileprivate var concernsHolderAlone: Bool { isFamilyShared || endsAccessOnly }
}

extension PurchaseState {
    fileprivate mutating func resolution(announcing announced: [AnnouncedTransfer]) -> Resolution {
        // First: an argument that changes the state would come after the state was read.
        let forgotten = compactShared()
        return resolution(announcing: announced, forgetting: forgotten)
    }

    /// Nil if the state is the one before. Most stored changes that a late event meets were applied when they came, and
    /// there may be thousands: what follows from a state is not worked out for them.
    fileprivate mutating func resolution(
        announcing announced: [AnnouncedTransfer], ifNot before: PurchaseState
    ) -> Resolution? {
        let forgotten = compactShared()
        return self == before ? nil : resolution(announcing: announced, forgetting: forgotten)
    }

    private func resolution(announcing announced: [AnnouncedTransfer], forgetting forgotten: [Register]) -> Resolution {
        var access: [Holder: Access] = [:]
        for register in forgotten { access[register.holder] = sharedAccess(of: register, isForgotten: true) }
        for register in registers { access[register.holder] = sharedAccess(of: register, isForgotten: false) }
        return Resolution(state: self, announced: announced, isPassedOn: true, access: access, voids: [])
    }

    /// The access of a register: on while its holder was last given the purchase and the period runs.
    private func sharedAccess(of register: Register, isForgotten: Bool) -> Access {
        let isActive = !isForgotten && register.isOn && period?.isOn ?? true
        return Access(isActive: isActive, asOf: max(register.at, period?.at ?? register.at))
    }

    fileprivate var newestTime: Timestamp? {
        (registers.map(\.at) + (period.map { [$0.at] } ?? [])).max()
    }

    /// Whether the purchase ran at a time: before its last known end it did, or it could not have ended then.
    fileprivate func isRunning(at time: Timestamp) -> Bool { period.map { $0.isOn || $0.at > time } ?? true }

    /// Whether a holder held the purchase at a time: by its register if that is not newer; otherwise by the first gain
    /// and the transfers from the holder since then, as far as all of these are remembered.
    fileprivate func isHeld(by holder: Holder, at time: Timestamp) -> Bool {
        guard let register = registers.first(where: { $0.holder == holder }) else { return false }
        if register.at <= time { return register.isOn }
        return facts.contains { $0.holder == holder && $0.at <= time && isRemembered(since: $0.at) }
            && !natives.contains { $0.from == holder && $0.at <= time }
    }

    /// Whether every transfer since then is in `natives`.
    private func isRemembered(since time: Timestamp) -> Bool {
        guard natives.count >= Self.nativesMax, let first = natives.first else { return true }
        return time >= first.at
    }

    /// Gives the purchase to a holder. If the gain comes late, the next transfer after it took the purchase away again.
    fileprivate mutating func gain(_ holder: Holder, at time: Timestamp) -> [AnnouncedTransfer] {
        let register = write(Register(holder: holder, at: time, isOn: true, isTenureFree: true))
        recordGain(of: holder, at: time)
        // The holders that received the newest transfer have registers of its time or later.
        guard let newest = natives.last, register.at < newest.at else { return [] }
        var announced: [AnnouncedTransfer] = []
        if register.isOn, isRemembered(since: register.at), let next = natives.first(where: { $0.at > register.at }) {
            announced = announce(from: holder, to: next.to, at: next.at)
        }
        write(Register(holder: holder, at: newest.at, isOn: false, isTenureFree: true))
        return announced
    }

    private mutating func recordGain(of holder: Holder, at time: Timestamp) {
        if let index = facts.firstIndex(where: { $0.holder == holder }) {
            guard time < facts[index].at else { return }
            facts.remove(at: index)
        }
        let fact = KeptFact(at: time, holder: holder, isRevoked: false, kind: .gain, until: time)
        facts.insert(fact, at: facts.firstIndex { fact < $0 } ?? facts.endIndex)
    }

    /// Announces a transfer once for each restore, however often it is applied.
    fileprivate mutating func announce(from: Holder, to: Holder, at time: Timestamp) -> [AnnouncedTransfer] {
        let native = KeptNative(at: time, kind: .transferred, from: from, to: to)
        if from == to || isSettled(native) || natives.contains(native) { return [] }
        insert(native)
        let index = indexOfEntry(native.pair)
        announced[index].lastOrdinal += 1
        let ordinal = announced[index].lastOrdinal
        settleNatives(of: native.pair)
        while natives.count > Self.nativesMax { settleNatives(of: natives.removeFirst().pair) }
        return [AnnouncedTransfer(from: from, to: to, ordinal: ordinal, native: nil)]
    }

    /// Takes all that the other states; of numbers the greater counts.
    fileprivate mutating func merge(shared other: PurchaseState) {
        for register in other.registers { write(register) }
        for fact in other.facts { recordGain(of: fact.holder, at: fact.at) }
        for native in other.natives { insert(native) }
        if let period = other.period { write(period: period) }
        if unknownLines.isEmpty { unknownLines = other.unknownLines }
        forgottenOrdinal = max(forgottenOrdinal, other.forgottenOrdinal)
        for pair in Set(natives.map(\.pair) + other.announced.map(\.pair)) {
            let index = indexOfEntry(pair)
            let stated = other.announced.first { $0.pair == pair }?.lastOrdinal ?? 0
            let shown = natives.count { $0.pair == pair }
            announced[index].lastOrdinal = max(announced[index].lastOrdinal, stated, shown)
            settleNatives(of: pair)
        }
        while natives.count > Self.nativesMax { settleNatives(of: natives.removeFirst().pair) }
    }

    /// Raises the number of a pair's transfers to what was stated of it.
    fileprivate mutating func pass(from: Holder, to: Holder, times: Int) -> [AnnouncedTransfer] {
        let index = indexOfEntry(Timeline.Pair(from: from, to: to))
        let last = announced[index].lastOrdinal
        guard times > last else { return [] }
        announced[index].lastOrdinal = times
        settleNatives(of: announced[index].pair)
        return (last + 1...times).map { AnnouncedTransfer(from: from, to: to, ordinal: $0, native: nil) }
    }

    /// Settles the part of a pair's number that has no kept native.
    private mutating func settleNatives(of pair: Timeline.Pair) {
        let index = indexOfEntry(pair)
        announced[index].settledTransferred = announced[index].lastOrdinal - natives.count { $0.pair == pair }
    }

    /// Writes the period: the later event time wins; on equal times the end wins.
    fileprivate mutating func write(period new: RunningState) {
        guard let known = period else { return period = new }
        if new.at > known.at || new.at == known.at && !new.isOn { period = new }
    }
}
