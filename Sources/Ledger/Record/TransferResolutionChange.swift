import Vocabulary

extension TransferResolution {
    /// Applies what was stated of a holder as a whole to one purchase, under exclusive ownership.
    ///
    /// Idempotent, and sure of its end: applied again after a late webhook of the old holder it says the same with a
    /// longer period, which the state takes as one fact. So the order of the two never matters (I1).
    ///
    /// - Returns: nil where the purchase is not concerned: its subject does not hold it at that time, or the rule of a
    ///   login does not move it (I3; a lapsed period is a new start, no transfer).
    static func apply(_ change: HolderChangeRow, to state: PurchaseState, kind: Purchase.Kind) -> Resolution? {
        let to = change.secondTarget ?? change.target
        guard let from = change.from ?? soleHolder(of: state, at: change.at), from != to else { return nil }
        if change.kind == .login, kind == .oneTime { return nil }
        // What is older than any retry has been settled; counting it once more would double it.
        if let newest = state.facts.last?.at,
            change.at < newest.advanced(byMilliseconds: -Limits.retryHorizonMilliseconds)
        {
            return nil
        }
        // A register that is newer than the change says nothing of the time of it.
        if let register = state.registers.first(where: { $0.holder == from && $0.at <= change.at }),
            register.isTenureFree
        {
            guard change.kind != .login, register.isOn else { return nil }
            return resolve(state, fact(change, from, to, until: nil, isShared: kind != .oneTime), kind: kind)
        }
        guard let until = period(of: from, at: change.at, in: state) else { return nil }
        if change.kind == .login, until < change.at { return nil }
        return resolve(state, fact(change, from, to, until: until, isShared: false), kind: kind)
    }

    private static func fact(
        _ change: HolderChangeRow, _ from: Holder, _ to: Holder, until: Timestamp?, isShared: Bool
    ) -> Fact {
        Fact(
            kind: .transferred, holder: from, counterpart: to, at: change.at,
            until: until == Timestamp(milliseconds: .max) ? nil : until, isFamilyShared: isShared)
    }

    /// How long what `holder` holds at `time` is paid for; nil: it does not hold it then. A loss at that very time is
    /// the change itself, applied before, and says nothing of the period.
    private static func period(of holder: Holder, at time: Timestamp, in state: PurchaseState) -> Timestamp? {
        var until: Timestamp?
        var isHolder = false
        for fact in state.facts where fact.at < time || fact.at == time && (fact.kind == .gain || fact.isRevoked) {
            if fact.holder == holder {
                until = fact.isRevoked ? fact.until : max(until ?? fact.until, fact.until)
                if fact.kind == .gain { isHolder = true }
            } else if fact.kind == .gain, fact.at < time {
                isHolder = false
            }
        }
        return isHolder ? until : nil
    }

    /// A restore names a transaction and no old holder: under exclusive ownership there is at most one.
    private static func soleHolder(of state: PurchaseState, at time: Timestamp) -> Holder? {
        state.facts.last { $0.kind == .gain && $0.at < time }?.holder
    }

    /// What is known of a purchase once a webhook says that it is a one-time purchase, after others were taken for
    /// those of a subscription: no tenures, and every register stands for itself. The same as if it had been said first
    /// (I1), but for transfers that followed from tenures and were announced: those are void, and the journal says so.
    static func oneTime(_ state: PurchaseState) -> Resolution {
        var next = state
        let before = Timeline(state.facts)
        next.facts = []
        for index in next.registers.indices { next.registers[index].isTenureFree = true }
        var notes: [Note] = []
        if let newest = state.facts.last {
            let reading = FactReading(Fact(kind: .gain, holder: newest.holder, at: newest.at), kind: .oneTime)
            notes = next.count(before: before, after: Timeline([]), reading: reading).notes
        }
        var access: [Holder: Access] = [:]
        for register in next.registers {
            access[register.holder] = Access(isActive: register.isOn, asOf: register.at)
        }
        return Resolution(state: next, told: [], isPassedOn: true, access: access, notes: notes)
    }
}
