import Vocabulary

extension TransferResolution {
    /// Applies a change of holders to one purchase, under exclusive ownership.
    ///
    /// Idempotent, so repetition ends: applied again after a late webhook of the old holder, it states the same with a
    /// longer period, which the state takes as one fact. So the order of the two never matters (I1).
    ///
    /// - Returns: nil if the purchase is not concerned: the change's subject does not hold it at that time, or the rule
    ///   for logins does not move it (I3; after a lapsed period there is a new start, no transfer).
    static func apply(_ change: HolderChangeRow, to state: PurchaseState, kind: Purchase.Kind) -> Resolution? {
        let to = change.secondTarget ?? change.target
        guard let from = change.from ?? soleHolder(of: state, at: change.at), from != to else { return nil }
        if change.kind == .login, kind == .oneTime { return nil }
        // A change older than any retry has been settled; counting it again would double it.
        if let newest = state.facts.last?.at,
            change.at < newest.advanced(byMilliseconds: -Limits.retryHorizonMilliseconds)
        {
            return nil
        }
        // A register that is newer than the change says nothing about the change's time.
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

    /// How long the purchase that `holder` holds at `time` is paid for; nil: it does not hold it then. A loss at that
    /// very time is the change itself, applied before, and says nothing about the period.
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

    /// The holder of a purchase at a time. A restore names a transaction and no old holder; under exclusive ownership
    /// there is at most one.
    private static func soleHolder(of state: PurchaseState, at time: Timestamp) -> Holder? {
        state.facts.last { $0.kind == .gain && $0.at < time }?.holder
    }

    /// Converts the state of a purchase once a webhook says that it is a one-time purchase, after others were read as
    /// those of a subscription: no tenures, and every register counts by itself. The result is the same as if it had
    /// been said first (I1), except for announced transfers that followed from tenures: those are voided and logged.
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
