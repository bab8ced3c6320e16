import Vocabulary

/// What one webhook adds to the state of its purchase.
struct FactReading {
    /// Whether it is a native that names one holder on both sides: it states nothing.
    let isIgnored: Bool
    private(set) var facts: [KeptFact] = []
    private(set) var native: KeptNative?
    private(set) var registers: [Register] = []
    let isRevoked: Bool
    let at: Timestamp

    init(_ fact: Fact, kind: Purchase.Kind) {
        at = fact.at
        isRevoked = fact.isRevoked
        // ACTIVATE and DEACTIVATE concern one holder, whatever else the body names.
        let isNative = fact.kind == .transferred || fact.kind == .received
        let counterpart = isNative ? fact.counterpart : nil
        isIgnored = counterpart == fact.holder
        if isIgnored { return }

        let isOldHolder = fact.kind == .loss || fact.kind == .transferred
        let loser = isOldHolder ? fact.holder : counterpart
        let gainer = isOldHolder ? counterpart : fact.holder
        let isTenureFree = fact.isFamilyShared || kind == .oneTime
        // In a transfer that names both holders, the status describes the subscription, not a period that was taken
        // back.
        let isRevocation = fact.isRevoked && counterpart == nil

        if let loser {
            if !isTenureFree { facts.append(.loss(of: loser, fact, isRevocation: isRevocation)) }
            registers.append(Register(holder: loser, at: fact.at, isOn: false, isTenureFree: isTenureFree))
        }
        if let gainer {
            if !isTenureFree { facts.append(.gain(of: gainer, fact, isRevocation: isRevocation)) }
            // A native switches its new holder on only while the paid period lasts by its own event time: with a clock
            // the answer would depend on the day of arrival. ACTIVATE always does: access follows event names.
            let isPaid = !fact.isRevoked && (fact.until.map { $0 > fact.at } ?? true)
            if !isNative || isPaid {
                registers.append(Register(holder: gainer, at: fact.at, isOn: true, isTenureFree: isTenureFree))
            }
        }
        if let loser, let gainer {
            let kind: KeptNative.Kind = fact.kind == .transferred ? .transferred : .received
            native = KeptNative(at: fact.at, kind: kind, from: loser, to: gainer)
        }
    }
}

extension FactReading {
    /// Whether it states anything: not a native that was settled already.
    func isCounted(in state: PurchaseState) -> Bool {
        !isIgnored && !(native.map(state.isSettled) ?? false)
    }

    /// The same statement, not counted as a webhook that announces a transfer.
    var uncounted: FactReading {
        var reading = self
        reading.native = nil
        return reading
    }
}

extension KeptFact {
    fileprivate static func gain(of holder: Holder, _ fact: Fact, isRevocation: Bool) -> KeptFact {
        let until = fact.until ?? Timestamp(milliseconds: .max)
        return KeptFact(
            at: fact.at, holder: holder, isRevoked: isRevocation, kind: .gain,
            until: isRevocation ? fact.at.advanced(byMilliseconds: -1) : until)
    }

    fileprivate static func loss(of holder: Holder, _ fact: Fact, isRevocation: Bool) -> KeptFact {
        let least = fact.at.advanced(byMilliseconds: Limits.ungrantedTenureMilliseconds)
        let until = max(fact.until ?? least, least)
        return KeptFact(
            at: fact.at, holder: holder, isRevoked: isRevocation, kind: .loss,
            until: isRevocation ? fact.at.advanced(byMilliseconds: -1) : until)
    }
}

extension PurchaseState {
    /// Adds what a webhook states. Commutative and idempotent: confluence (I1) depends on it.
    mutating func record(_ reading: FactReading) {
        for fact in reading.facts { insert(fact) }
        if let native = reading.native { insert(native) }
        record(reading.registers)
    }

    private mutating func record(_ new: [Register]) {
        for register in new {
            let known = registers.first { $0.holder == register.holder }
            write(register)
            keepEarlier(register)
            if let known { keepEarlier(known) }
        }
    }

    /// Whether the native comes before all of a full list: it was settled, or comes too late to be distinguished from
    /// those that were.
    func isSettled(_ native: KeptNative) -> Bool {
        natives.count >= Self.nativesMax && natives.first.map { native < $0 } ?? false
    }

    /// The same knowledge of a purchase without tenures: each fact is a statement about its holder alone.
    func freeOfTenures() -> PurchaseState {
        var next = self
        next.facts = []
        next.registers = []
        let gains = natives.map { Register(holder: $0.to, at: $0.at, isOn: true, isTenureFree: true) }
        let stated = registers.map { Register(holder: $0.holder, at: $0.at, isOn: $0.isOn, isTenureFree: true) }
        next.record(stated)
        for fact in facts {
            let register = Register(holder: fact.holder, at: fact.at, isOn: fact.kind == .gain, isTenureFree: true)
            // A native switches its new holder on only while the period lasts; its register says whether it did.
            if register.isOn, fact.until <= fact.at, gains.contains(register) { continue }
            next.record([register])
        }
        return next
    }

    mutating func insert(_ fact: KeptFact) {
        let index = facts.firstIndex { !($0 < fact) } ?? facts.endIndex
        if index < facts.endIndex, facts[index].isSameStatement(as: fact) {
            facts[index].until = max(facts[index].until, fact.until)
        } else {
            facts.insert(fact, at: index)
        }
    }

    mutating func insert(_ native: KeptNative) {
        let index = natives.firstIndex { $0 >= native } ?? natives.endIndex
        if index == natives.endIndex || natives[index] != native { natives.insert(native, at: index) }
    }

    /// Writes a register, if the known one yields to it.
    ///
    /// - Returns: the register that won.
    @discardableResult
    mutating func write(_ register: Register) -> Register {
        let index = registers.firstIndex { !($0.holder < register.holder) } ?? registers.endIndex
        guard index < registers.endIndex, registers[index].holder == register.holder else {
            registers.insert(register, at: index)
            return register
        }
        if registers[index].yields(to: register) { registers[index] = register }
        return registers[index]
    }

    /// Keeps a statement that is free of tenures and older than its holder's register.
    mutating func keepEarlier(_ register: Register) {
        guard register.isTenureFree, !registers.contains(register) else { return }
        let index = earlier.firstIndex { !($0 < register) } ?? earlier.endIndex
        if index == earlier.endIndex || earlier[index] != register { earlier.insert(register, at: index) }
    }
}
