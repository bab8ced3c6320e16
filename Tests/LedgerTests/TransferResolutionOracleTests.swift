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
    }

    private(set) var numbers: [Pair: Int] = [:]
    private(set) var access: [Holder: Access] = [:]
    private var statements: Set<Statement> = []
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
        if let loser {
            let until = isRevoked ? at - 1 : max(fact.until?.milliseconds ?? 0, at + minute)
            statements.insert(Statement(holder: loser, at: at, isGain: false, isRevoked: isRevoked, until: until))
        }
        if let gainer {
            let until = isRevoked ? at - 1 : fact.until?.milliseconds ?? .max
            statements.insert(Statement(holder: gainer, at: at, isGain: true, isRevoked: isRevoked, until: until))
        }
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

    /// A gain of U is a transfer H→U if the last point of anybody else before it is H's, U had none since, and H's
    /// period reaches it.
    private func changes() -> [Pair: Int] {
        var changes: [Pair: Set<Int64>] = [:]
        let points = points()
        for gain in points where gain.isGain {
            let others = points.filter { point in
                point.holder != gain.holder
                    && (point.at < gain.at || point.at == gain.at && point.holder < gain.holder)
            }
            guard let last = others.max(by: { ($0.at, $0.holder) < ($1.at, $1.holder) }) else { continue }
            let isFirst = !points.contains { point in
                point.holder == gain.holder && point.isGain && point.at < gain.at
                    && (last.at < point.at || last.at == point.at && last.holder < point.holder)
            }
            if isFirst, reaches(last.holder, gain.at) {
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
        let newest = statements.filter(\.isGain).max { ($0.at, $0.holder) < ($1.at, $1.holder) }?.holder
        for holder in Set(words.map(\.holder)) {
            let mine = words.filter { $0.holder == holder }
            let at = mine.map(\.at).max() ?? 0
            let last = mine.filter { $0.at == at }
            let isOn = last.allSatisfy(\.isOn)
            let isFree = last.contains { $0.isOn == isOn && $0.isFree }
            access[holder] = Access(
                isActive: isOn && (isFree || holder == newest), asOf: Timestamp(milliseconds: at))
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
