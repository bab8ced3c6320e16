package import Vocabulary

/// What Posthouse must remember of one purchase to judge the next webhook: a handful of facts, not its history.
///
/// Every list is kept in one canonical order and without repetition, so that equal knowledge is equal (`==`), whatever
/// its order of arrival. Two rules write it, depending on the source's ownership policy: `TransferResolution`
/// (exclusive) and `SharedOwnership` (shared); an erasure renames people in it.
package struct PurchaseState: Sendable, Equatable {
    /// Exclusive: gains and losses that make tenures; family-shared and one-time facts make none and are not here.
    /// Shared: the first gain of each holder that has a register.
    package internal(set) var facts: [KeptFact] = []
    /// Exclusive: distinct native transfer webhooks that name two holders. Shared: Posthouse's own, one for each holder
    /// that a restore took the running purchase from.
    package internal(set) var natives: [KeptNative] = []
    /// One last-writer-wins register for each holder ever named, under both policies.
    package internal(set) var registers: [Register] = []
    /// Exclusive: statements about holders as such that moved this purchase, by what was known then. What follows from
    /// them is not among the facts and registers, but computed (`EffectiveMoves`).
    package internal(set) var moves: [KeptMove] = []
    /// Exclusive: statements that are free of tenures and older than their holder's register. A move that arrives late
    /// is judged by them. Ascending.
    package internal(set) var earlier: [Register] = []
    /// What was announced, for each ordered pair of holders. Exclusive: the largest of three counts, and the voids.
    /// Shared: the natives.
    package internal(set) var announced: [AnnouncedPair] = []
    /// Exclusive: the plans of those facts whose webhooks name one. Ascending.
    package internal(set) var plans: [NamedPlan] = []
    /// The highest number announced for any pair that was forgotten (`pairsMax`): a new pair is numbered above it, so
    /// that no transfer id is ever used twice.
    package internal(set) var forgottenOrdinal = 0

    /// Exclusive: whether events of the purchase's source may name no account. Only then is anything in the three lists
    /// below, and periods reach further than they are stated (`extendingPeriods`).
    package internal(set) var mayLackName = false
    /// Gains and losses that name no account. Whose they are is computed (`EffectiveMoves`). Ascending.
    package internal(set) var nameless: [NamelessFact] = []
    /// The holders under which nameless facts came, by holder.
    package internal(set) var own: [OwnHolder] = []
    /// Whom events and links named: accounts, and installs among the own holders. Ascending.
    package internal(set) var names: [HolderName] = []

    /// Whether the purchase is running, for all of its holders at once: only under shared ownership.
    package internal(set) var period: RunningState?

    /// When the values were named that webhooks newer than that left out. The others were named by the newest webhook.
    var valueTimes: [Value: Timestamp] = [:]
    /// What a newer version added, as stored.
    var unknownLines: [UInt8] = []

    /// A purchase about which nothing is known.
    package init() {}

    /// Facts kept for one purchase. Beyond it the oldest is settled: its transfers stay counted, but no later webhook
    /// can pair with it any more. A purchase transferred in every billing period stays below it for years.
    package static let factsMax = 64
    /// Plans kept for one purchase, one for each fact as a rule. Beyond it that of the oldest fact is unknown.
    package static let plansMax = 64
    /// Native webhooks kept for one purchase. Beyond it the oldest is only counted; neither it nor an older one is
    /// announced again.
    package static let nativesMax = 32
    /// Moves kept for one purchase. Beyond it the oldest becomes part of the facts: no later webhook takes it back.
    package static let movesMax = 32
    /// Statements older than their holder's register. Beyond it the oldest is dropped: a move before it that arrives
    /// late is judged without it.
    package static let earlierMax = 32
    /// Nameless facts kept for one purchase. Beyond it the oldest becomes a fact of whoever was named by then.
    package static let namelessMax = 32
    /// Own holders of one purchase: it has one, and each install that bought it. Beyond it the oldest install is like a
    /// named holder.
    package static let ownMax = 8
    /// Names kept for one purchase. Beyond it the oldest is dropped: older nameless facts are then of the first that is
    /// kept.
    package static let namesMax = 64
    /// Registers of one purchase, one for each holder. Beyond it the oldest without access is dropped, else the oldest.
    package static let registersMax = 256
    /// Pairs of holders of one purchase. Beyond it a pair that no kept fact concerns is merged into `forgottenOrdinal`.
    package static let pairsMax = 256
    /// Voided transfers remembered by time for one pair, so that a fact which restores one does not announce it again.
    package static let voidedMax = 8
    /// Bytes of a stored state, whatever its history, if its holders' ids have at most 64 bytes: the sum of the limits
    /// above.
    package static let bytesMax = 192 << 10
}

extension PurchaseState {
    /// Whether a purchase with several holders was last said to run or to have ended, by event time.
    package struct RunningState: Sendable, Hashable {
        package let at: Timestamp
        package let isOn: Bool
    }
}

/// A gain or a loss, as far as later webhooks can still depend on it.
package struct KeptFact: Sendable, Hashable {
    package enum Kind: Int, Sendable { case gain, loss }

    package let at: Timestamp
    package let holder: Holder
    /// `subscription_status` REVOKED: takes back every period stated up to its time.
    package let isRevoked: Bool
    package let kind: Kind
    /// How far the paid period is known to last. Gain: the stated end (`Int64.max` without one). Loss: the later of the
    /// stated end and its own time + `Limits.ungrantedTenureMilliseconds`. Revocation: just before its time. Facts that
    /// were compacted into this one have raised it.
    package internal(set) var until: Timestamp
}

extension KeptFact: Comparable {
    /// Orders by time; then by holder, anonymous first (the tie rule of tenures); then a revocation last.
    package static func < (left: KeptFact, right: KeptFact) -> Bool {
        if left.at != right.at { return left.at < right.at }
        if left.holder != right.holder { return left.holder < right.holder }
        if left.isRevoked != right.isRevoked { return right.isRevoked }
        return left.kind.rawValue < right.kind.rawValue
    }

    /// Whether both state the same for the same instant. They may differ in `until`; they are then one fact with the
    /// later.
    func isSameStatement(as other: KeptFact) -> Bool {
        at == other.at && holder == other.holder && isRevoked == other.isRevoked && kind == other.kind
    }
}

/// A native transfer webhook. Two that agree in all fields are one: the same webhook sent under two event ids.
package struct KeptNative: Sendable, Hashable, Comparable {
    package enum Kind: Int, Sendable { case transferred, received }

    package let at: Timestamp
    package let kind: Kind
    package let from: Holder
    package let to: Holder

    package static func < (left: KeptNative, right: KeptNative) -> Bool {
        if left.at != right.at { return left.at < right.at }
        if left.kind != right.kind { return left.kind.rawValue < right.kind.rawValue }
        if left.from != right.from { return left.from < right.from }
        return left.to < right.to
    }
}

/// Whether one holder was last given or last denied the purchase, by event time.
package struct Register: Sendable, Hashable {
    package let holder: Holder
    package internal(set) var at: Timestamp
    package internal(set) var isOn: Bool
    /// Stated by a family-shared event or for a one-time purchase: access does not follow tenures.
    package internal(set) var isTenureFree: Bool
}

extension Register: Comparable {
    /// Orders by time, then by content: never by arrival.
    package static func < (left: Register, right: Register) -> Bool {
        if left.at != right.at { return left.at < right.at }
        if left.holder != right.holder { return left.holder < right.holder }
        if left.isOn != right.isOn { return left.isOn }
        return !left.isTenureFree && right.isTenureFree
    }

    /// Whether the other statement about the same holder wins: the later one; on equal times the loss, then the one
    /// that is free of tenures.
    func yields(to other: Register) -> Bool {
        if at != other.at { return at < other.at }
        if isOn != other.isOn { return isOn }
        return !isTenureFree && other.isTenureFree
    }
}

/// The transfers announced from one holder to another, and the counts whose facts are not kept any more.
package struct AnnouncedPair: Sendable, Hashable {
    package let from: Holder
    package let to: Holder
    /// The ordinal of the last transfer announced; all from 1 to it were.
    package internal(set) var lastOrdinal: Int
    /// Times of transfers that were announced and later turned out not to have happened (the exceptions of I1),
    /// ascending.
    package internal(set) var voided: [Timestamp] = []
    /// Changes of tenure, TRANSFERRED and RECEIVED whose facts are no longer kept, added to what the kept facts show.
    /// Negative: what is kept shows more than there was.
    package internal(set) var settledChanges: Int
    package internal(set) var settledTransferred: Int
    package internal(set) var settledReceived: Int
}

/// What one webhook adds to the state of its purchase.
struct FactReading {
    /// Whether it is a native that names one holder on both sides: it states nothing.
    let isIgnored: Bool
    private(set) var facts: [KeptFact] = []
    private(set) var native: KeptNative?
    /// The plan of its fact.
    private(set) var plan: NamedPlan?
    /// How often the purchase has passed between two holders at least.
    private(set) var passed: (pair: Timeline.Pair, times: Int)?
    fileprivate(set) var registers: [Register] = []
    /// What an event states that names no account: no facts and no registers until it is known whose it is.
    private(set) var nameless: NamelessFact?
    /// The holder of a nameless fact that was settled already.
    private(set) var own: OwnHolder?
    /// Whom an event names that states nothing else.
    fileprivate var naming: HolderName?
    /// Whether the app gave the holder of `nameless`.
    let isGiven: Bool
    let isRevoked: Bool
    let at: Timestamp

    init(_ fact: Fact, kind: Purchase.Kind) {
        at = fact.at
        isRevoked = fact.isRevoked
        nameless = NamelessFact(fact, kind: kind)
        isGiven = fact.isGiven
        if nameless != nil {
            isIgnored = false
            return
        }
        if fact.kind == .naming || fact.kind == .said {
            naming = HolderName(at: fact.at, kind: fact.kind == .naming ? .naming : .said, holder: fact.holder)
            isIgnored = false
            return
        }
        if case .passed(let times) = fact.kind {
            isIgnored = fact.counterpart.map { $0 == fact.holder } ?? true
            passed = fact.counterpart.map { (Timeline.Pair(from: $0, to: fact.holder), times) }
            return
        }
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
            if !isTenureFree, !fact.endsAccessOnly { facts.append(.loss(of: loser, fact, isRevocation: isRevocation)) }
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
        if !isTenureFree { plan = NamedPlan(fact) }
    }
}

extension FactReading {
    /// Whether it states anything: not a native that was settled already.
    func isCounted(in state: PurchaseState) -> Bool {
        !isIgnored && !(native.map(state.isSettled) ?? false)
    }

    /// The same statement of a webhook, without facts that were settled already.
    func unsettled(in state: PurchaseState) -> FactReading {
        var reading = self
        reading.facts.removeAll { state.isSettled($0) }
        if let nameless, state.isSettled(nameless) {
            reading.nameless = nil
            reading.own = OwnHolder(holder: nameless.holder, since: nameless.at, isGiven: isGiven)
        }
        return reading
    }

    /// The same statement, not counted as a webhook that announces a transfer.
    var uncounted: FactReading {
        var reading = self
        reading.native = nil
        return reading
    }

    /// The same statement with one more register.
    func adding(_ register: Register) -> FactReading {
        var reading = self
        reading.registers.append(register)
        return reading
    }

    /// Whom it names.
    var names: [HolderName] {
        if let naming { return [naming] }
        return facts.isEmpty ? registers.map { HolderName($0) } : facts.map { HolderName($0) }
    }
}

extension KeptFact {
    fileprivate static func gain(of holder: Holder, _ fact: Fact, isRevocation: Bool) -> KeptFact {
        let until = fact.until ?? Timestamp.distantFuture
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
    /// - Parameter isNaming: false: what the reading says of a holder follows from other statements.
    mutating func record(_ reading: FactReading, isNaming: Bool = true) {
        if let fact = reading.nameless { return insert(fact, isGiven: reading.isGiven) }
        if let own = reading.own {
            expectNameless()
            return insert(own)
        }
        if reading.naming != nil { expectNameless() }
        for fact in reading.facts { insert(fact) }
        if let plan = reading.plan { insert(plan) }
        if let native = reading.native { insert(native) }
        record(reading.registers)
        if mayLackName, isNaming { for name in reading.names where !isOwn(name.holder) { insert(name) } }
    }

    mutating func record(_ new: [Register]) {
        for register in new {
            let known = registers.first { $0.holder == register.holder }
            write(register)
            keepEarlier(register)
            if let known { keepEarlier(known) }
        }
    }

    /// Whether the fact comes before all of a full list: it would show a transfer once more that is counted already.
    fileprivate func isSettled(_ fact: KeptFact) -> Bool {
        facts.count >= Self.factsMax && facts.first.map { fact < $0 } ?? false
    }

    /// The same of one that names no account, and is not among those that wait to be settled.
    fileprivate func isSettled(_ fact: NamelessFact) -> Bool {
        facts.count >= Self.factsMax && !fact.isTenureFree && facts.first.map { fact.at < $0.at } ?? false
            && !nameless.contains(fact)
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
        next.plans = []
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
        next.nameless = []
        for fact in nameless { next.insert(fact.freeOfTenures) }
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
