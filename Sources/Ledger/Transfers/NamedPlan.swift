package import Vocabulary

/// The plan of a kept gain or loss, where its webhook names one (`Fact.plan`).
///
/// By it `isOfLeftPlan` judges losses (Domain.md, "A change of plan"). Losses of a holder at one time are one fact:
/// where one of them names a plan, another without a plan shares it. The judgement depends on the set of facts and
/// plans alone, and not on the order of arrival.
package struct NamedPlan: Sendable, Hashable {
    package let holder: Holder
    package let kind: KeptFact.Kind
    /// The first four bytes of the SHA-256 of the plan's id, big-endian: ids have no limit, and are only compared.
    package let digest: UInt32
    package let at: Timestamp

    init(holder: Holder, kind: KeptFact.Kind, digest: UInt32, at: Timestamp) {
        self.holder = holder
        self.kind = kind
        self.digest = digest
        self.at = at
    }

    /// - Returns: nil if the fact names no plan, or is no gain or loss of one holder.
    init?(_ fact: Fact) {
        guard let plan = fact.plan else { return nil }
        switch fact.kind {
        case .gain: kind = .gain
        case .loss: kind = .loss
        case .transferred, .received, .naming, .said, .passed: return nil
        }
        holder = fact.holder
        digest = UInt32(KeyHash.body(Array(plan.utf8)).high >> 32)
        at = fact.at
    }

    /// Whether the fact may be the one that names it. Facts of one holder and time that differ in `isRevoked` alone
    /// share their plans.
    func isOf(_ fact: KeptFact) -> Bool { at == fact.at && kind == fact.kind && holder == fact.holder }

    /// Whether both differ in their times alone.
    func isAlike(_ other: NamedPlan) -> Bool {
        holder == other.holder && kind == other.kind && digest == other.digest
    }

    /// The same of a holder who has another name now.
    func renamed(_ holder: Holder) -> NamedPlan { NamedPlan(holder: holder, kind: kind, digest: digest, at: at) }
}

extension NamedPlan: Comparable {
    /// Orders by holder, kind and plan, then by time, so that alike ones are stored as one line.
    package static func < (left: NamedPlan, right: NamedPlan) -> Bool {
        if left.holder != right.holder { return left.holder < right.holder }
        if left.kind != right.kind { return left.kind.rawValue < right.kind.rawValue }
        if left.digest != right.digest { return left.digest < right.digest }
        return left.at < right.at
    }
}

extension PurchaseState {
    /// Adds the plan of a fact that is kept.
    mutating func insert(_ plan: NamedPlan) {
        guard facts.contains(where: plan.isOf) else { return }
        let index = plans.firstIndex { $0 >= plan } ?? plans.endIndex
        if index == plans.endIndex || plans[index] != plan { plans.insert(plan, at: index) }
    }

    /// Drops the plans of facts that are not kept any more, then the oldest beyond the limit.
    mutating func dropPlans() {
        let facts = facts
        plans.removeAll { plan in !facts.contains(where: plan.isOf) }
        while plans.count > Self.plansMax {
            guard let oldest = plans.indices.min(by: { plans[$0].at < plans[$1].at }) else { return }
            plans.remove(at: oldest)
        }
    }

    /// The same knowledge without plans.
    var withoutPlans: PurchaseState {
        var state = self
        state.plans = []
        return state
    }

    /// Whether the loss is that of a plan that its holder has left: it ends nothing and takes back no period.
    /// - Parameter facts: all that are known, in canonical order.
    func isOfLeftPlan(_ loss: KeptFact, among facts: [KeptFact]) -> Bool {
        if plans.isEmpty || loss.kind == .gain { return false }
        let newest = facts.last { $0.kind == .gain && $0.holder == loss.holder && $0.at <= loss.at }
        guard let newest, loss.at < newest.until, newest.until < Timestamp.distantFuture else { return false }
        let left = digests(.loss, of: loss.holder, at: loss.at)
        // A plan that was left may have been renewed at that very time.
        let inForce = digests(.gain, of: loss.holder, at: newest.at).subtracting(
            digests(.loss, of: loss.holder, at: newest.at))
        return !left.isEmpty && !inForce.isSubset(of: left)
    }

    /// Facts, in canonical order, without the losses of plans that were left.
    func withoutLeftPlans(_ facts: [KeptFact]) -> [KeptFact] {
        plans.isEmpty ? facts : facts.filter { !isOfLeftPlan($0, among: facts) }
    }

    /// The register as it counts: on, if only losses of plans that were left have switched it off since its holder's
    /// newest gain.
    /// - Parameter facts: all that are known, in canonical order.
    func counted(_ register: Register, by facts: [KeptFact]) -> Register {
        if plans.isEmpty || register.isOn || register.isTenureFree { return register }
        let own = facts.filter { $0.holder == register.holder }
        guard let gain = own.last(where: { $0.kind == .gain }) else { return register }
        let losses = own.filter { $0.kind == .loss && $0.at >= gain.at }
        guard losses.contains(where: { $0.at == register.at }),
            losses.allSatisfy({ isOfLeftPlan($0, among: facts) })
        else { return register }
        var counted = register
        counted.isOn = true
        return counted
    }

    /// Whether losses after a kept fact, before its holder's next gain, may be judged by it: by the plan and the end of
    /// a gain; by what was left at its time; or because it ended access, which no loss of a left plan gives back.
    func isJudgedBy(_ fact: KeptFact, at index: Int) -> Bool {
        if plans.isEmpty { return false }
        let isAtGain = facts.contains { $0.kind == .gain && $0.at == fact.at && $0.holder == fact.holder }
        if !isAtGain, isOfLeftPlan(fact, among: facts) { return false }
        let later = facts[(index + 1)...].filter { $0.holder == fact.holder }
        return later.prefix { $0.kind == .loss }.contains { !digests(.loss, of: $0.holder, at: $0.at).isEmpty }
    }

    private func digests(_ kind: KeptFact.Kind, of holder: Holder, at time: Timestamp) -> Set<UInt32> {
        Set(plans.filter { $0.at == time && $0.kind == kind && $0.holder == holder }.map(\.digest))
    }
}
