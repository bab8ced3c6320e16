@testable import Ledger
import Testing
import Vocabulary

/// The rules of Domain.md, "Transfers", read as plain sentences over the whole set of facts, slowly and without memory:
/// the oracle that `TransferResolution` is held against. Shares no code with it.
struct TransferOracle {
    struct Pair: Hashable {
        let from: Holder
        let to: Holder
    }

    private struct Statement: Hashable {
        var holder: Holder
        var at: Int64
        var isGain: Bool
        var isRevoked: Bool
        var until: Int64
        var plan: String?
    }

    private(set) var numbers: [Pair: Int] = [:]
    private(set) var access: [Holder: Access] = [:]
    /// Without the losses of plans that were left.
    private var statements: Set<Statement> = []
    private var all: Set<Statement> = []
    private let minute = Limits.ungrantedTenureMilliseconds

    init(_ facts: [Fact], kind: Purchase.Kind = .subscription) {
        var transferred: [Pair: Set<Int64>] = [:]
        var received: [Pair: Set<Int64>] = [:]
        for fact in facts {
            guard let (loser, gainer) = Self.sides(of: fact) else { continue }
            if kind == .subscription, !fact.isFamilyShared { add(fact, loser, gainer) }
            guard let loser, let gainer else { continue }
            let pair = Pair(from: loser, to: gainer)
            if fact.kind == .transferred { transferred[pair, default: []].insert(fact.at.milliseconds) }
            if fact.kind == .received { received[pair, default: []].insert(fact.at.milliseconds) }
        }
        statements = all.filter { $0.isGain || !isOfLeftPlan($0.holder, $0.at) }
        numbers = changes()
        for (pair, times) in transferred { numbers[pair] = max(numbers[pair] ?? 0, times.count) }
        for (pair, times) in received { numbers[pair] = max(numbers[pair] ?? 0, times.count) }
        judgeAccess(facts, kind)
    }

    /// (who loses it, who gets it) by this fact; nil: it states nothing.
    private static func sides(of fact: Fact) -> (Holder?, Holder?)? {
        if fact.kind == .gain { return (nil, fact.holder) }
        if fact.kind == .loss { return (fact.holder, nil) }
        if fact.counterpart == fact.holder { return nil }
        return fact.kind == .transferred ? (fact.holder, fact.counterpart) : (fact.counterpart, fact.holder)
    }

    private mutating func add(_ fact: Fact, _ loser: Holder?, _ gainer: Holder?) {
        let at = fact.at.milliseconds
        let isRevoked = fact.isRevoked && (loser == nil || gainer == nil)
        let plan = fact.kind == .gain || fact.kind == .loss ? fact.plan : nil
        if let loser {
            let until = isRevoked ? at - 1 : max(fact.until?.milliseconds ?? 0, at + minute)
            all.insert(
                Statement(holder: loser, at: at, isGain: false, isRevoked: isRevoked, until: until, plan: plan))
        }
        if let gainer {
            let until = isRevoked ? at - 1 : fact.until?.milliseconds ?? .max
            all.insert(
                Statement(holder: gainer, at: at, isGain: true, isRevoked: isRevoked, until: until, plan: plan))
        }
    }

    /// Whether the holder's loss at this time names another plan than the holder's newest gain, within the period that
    /// this gain states. What is lost at the time of the gain is not the plan that begins there.
    private func isOfLeftPlan(_ holder: Holder, _ at: Int64) -> Bool {
        let gains = all.filter { $0.isGain && $0.holder == holder && $0.at <= at }
        let newest = gains.filter { $0.at == gains.map(\.at).max() }
        guard let begin = newest.first?.at, let end = newest.map(\.until).max(), at < end, end < .max,
            !newest.contains(where: \.isRevoked)
        else { return false }
        let (left, leftAtBegin) = (lostPlans(of: holder, at), lostPlans(of: holder, begin))
        return !left.isEmpty && newest.compactMap(\.plan).contains { !left.contains($0) && !leftAtBegin.contains($0) }
    }

    private func lostPlans(of holder: Holder, _ at: Int64) -> [String] {
        all.filter { !$0.isGain && $0.holder == holder && $0.at == at }.compactMap(\.plan)
    }

    /// Whether only losses of plans that were left are stated from the holder's newest gain on, the last at this time.
    private func hasChangedPlan(_ holder: Holder, lastAt at: Int64) -> Bool {
        guard let gain = all.filter({ $0.isGain && $0.holder == holder }).map(\.at).max() else { return false }
        let losses = all.filter { !$0.isGain && $0.holder == holder && $0.at >= gain }.map(\.at)
        return losses.contains(at) && losses.allSatisfy { isOfLeftPlan(holder, $0) }
    }

    /// How far the holder's period was known to last by these statements: the latest since the last revocation.
    private func period(_ statements: [Statement], takenBackAt revocations: [Int64]) -> Int64? {
        let from = revocations.max()
        return statements.filter { statement in
            guard let from else { return true }
            return statement.at > from || statement.at == from && statement.isRevoked
        }.map(\.until).max()
    }

    private func points() -> [(at: Int64, holder: Holder, isGain: Bool)] {
        var points: [(at: Int64, holder: Holder, isGain: Bool)] = []
        for statement in statements {
            if statement.isGain {
                points.append((statement.at, statement.holder, true))
                continue
            }
            if statement.isRevoked { continue }
            let earlier = statements.filter { other in
                other.holder == statement.holder
                    && (other.at < statement.at || other.at == statement.at && other.isGain && !other.isRevoked)
            }
            let known = period(Array(earlier), takenBackAt: earlier.filter(\.isRevoked).map(\.at))
            if let known, known >= statement.at - minute { continue }
            points.append((statement.at - minute, statement.holder, false))
        }
        return points
    }

    private func reaches(_ holder: Holder, _ start: Int64) -> Bool {
        let known = statements.filter { $0.holder == holder && $0.at <= start + ($0.isGain ? 0 : minute) }
        let revocations = known.filter { $0.isRevoked && $0.at <= start }.map(\.at)
        return (period(Array(known), takenBackAt: revocations) ?? .min) >= start
    }

    private func firstLoss(_ holder: Holder, _ start: Int64) -> Int64? {
        let losses = statements.filter { !$0.isGain && $0.holder == holder }.map(\.at)
        return losses.filter { (start...start + minute).contains($0) }.min()
    }

    /// Whether one holder has it before the other: at one time, who first loses it within a minute.
    private func isBefore(_ left: (at: Int64, holder: Holder), _ right: (at: Int64, holder: Holder)) -> Bool {
        if left.at != right.at { return left.at < right.at }
        func place(_ holder: Holder) -> (Int64, Holder) { (firstLoss(holder, left.at) ?? .max, holder) }
        return place(left.holder) < place(right.holder)
    }

    /// A gain of U is a transfer H→U if the last point of anybody else before it is H's, U had none since, and H's
    /// period reaches it; but not if H is first known to have it at that very time, and no loss within a minute says
    /// that it was first.
    private func changes() -> [Pair: Int] {
        var changes: [Pair: Set<Int64>] = [:]
        let points = points().map { (place: (at: $0.at, holder: $0.holder), isGain: $0.isGain) }
        for (gain, isGain) in points where isGain {
            let others = points.map(\.place).filter { $0.holder != gain.holder && isBefore($0, gain) }
            guard let last = others.max(by: isBefore) else { continue }
            let isFirst = !points.contains { point in
                point.place.holder == gain.holder && point.isGain && point.place.at < gain.at
                    && isBefore(last, point.place)
            }
            let before = points.map(\.place).filter { $0.holder != last.holder && isBefore($0, last) }.max(by: isBefore)
            let start = points.map(\.place).filter { point in
                point.holder == last.holder && (before.map { isBefore($0, point) } ?? true)
            }.map(\.at).min()
            let isKnownFirst = start != gain.at || firstLoss(last.holder, gain.at) != nil
            if isFirst, isKnownFirst, reaches(last.holder, gain.at) {
                changes[Pair(from: last.holder, to: gain.holder), default: []].insert(gain.at)
            }
        }
        return changes.mapValues(\.count)
    }

    private mutating func judgeAccess(_ facts: [Fact], _ kind: Purchase.Kind) {
        struct Word {
            var holder: Holder
            var at: Int64
            var isOn: Bool
            var isFree: Bool
        }
        var words: [Word] = []
        for fact in facts {
            guard let (loser, gainer) = Self.sides(of: fact) else { continue }
            let at = fact.at.milliseconds
            let isFree = fact.isFamilyShared || kind == .oneTime
            if let loser { words.append(Word(holder: loser, at: at, isOn: false, isFree: isFree)) }
            let isPaid = !fact.isRevoked && (fact.until?.milliseconds ?? .max) > at
            if let gainer, fact.kind == .gain || isPaid {
                words.append(Word(holder: gainer, at: at, isOn: true, isFree: isFree))
            }
        }
        let newest = statements.filter(\.isGain).max { isBefore(($0.at, $0.holder), ($1.at, $1.holder)) }?.holder
        for holder in Set(words.map(\.holder)) {
            let mine = words.filter { $0.holder == holder }
            let at = mine.map(\.at).max() ?? 0
            let last = mine.filter { $0.at == at }
            let isOn = last.allSatisfy(\.isOn)
            let isFree = last.contains { $0.isOn == isOn && $0.isFree }
            let isOnStill = isOn || !isFree && hasChangedPlan(holder, lastAt: at)
            access[holder] = Access(
                isActive: isOnStill && (isFree || holder == newest), asOf: Timestamp(milliseconds: at))
        }
    }
}

@Suite("The oracle itself")
struct TransferOracleTests {
    @Test("Purchasely's own sample: DEACTIVATE and ACTIVATE with one time are one transfer")
    func sample() {
        let oracle = TransferOracle([.deactivate(anonymous, seconds(15)), .activate(user, seconds(15))])
        #expect(oracle.numbers == [TransferOracle.Pair(from: anonymous, to: user): 1])
        #expect(oracle.access[user]?.isActive == true)
        #expect(oracle.access[anonymous]?.isActive == false)
    }

    @Test("A start after the paid period is no transfer")
    func lapse() {
        let oracle = TransferOracle([
            .activate(anonymous, seconds(0), until: seconds(100)), .activate(user, seconds(1_000)),
        ])
        #expect(oracle.numbers.isEmpty)
    }
}
