import Testing
import Vocabulary

@testable import Ledger

/// Everything that one order of arrival leads to.
struct Playback {
    private(set) var state = PurchaseState()
    private(set) var announced: [AnnouncedTransfer] = []
    private(set) var voids: [VoidedTransfer] = []
    private(set) var access: [Holder: Access] = [:]
    /// Native webhooks that were messages of their own.
    private(set) var nativesPassedOn = 0
    private let kind: Purchase.Kind

    init(_ facts: [Fact] = [], kind: Purchase.Kind = .subscription) {
        self.kind = kind
        for fact in facts { play(fact) }
    }

    @discardableResult
    mutating func play(_ fact: Fact) -> Resolution {
        let resolution = TransferResolution.resolve(state, fact, kind: kind)
        state = resolution.state
        announced += resolution.announced
        voids += resolution.voids
        access = resolution.access
        let isNative = fact.kind == .transferred || fact.kind == .received
        if isNative, resolution.isPassedOn { nativesPassedOn += 1 }
        return resolution
    }

    var numbers: [TransferOracle.Pair: Int] {
        var numbers: [TransferOracle.Pair: Int] = [:]
        for transfer in announced {
            let pair = TransferOracle.Pair(from: transfer.from, to: transfer.to)
            numbers[pair] = max(numbers[pair] ?? 0, transfer.ordinal)
        }
        return numbers
    }

    /// I2: each transfer is announced once, and they are counted without a gap.
    var isAnnouncedOnce: Bool {
        Set(announced.map { [$0.from.storageKey, $0.to.storageKey, "\($0.ordinal)"] }).count == announced.count
            && announced.count == numbers.values.reduce(0, +)
    }
}

let anonymous = Holder.anonymous("6837C35A-949B-4489-B212-62F66ACA6CC2")
let user = Holder.user("jeff")
let otherUser = Holder.user("toto")

func seconds(_ value: Int64) -> Timestamp { Timestamp(milliseconds: 1_636_307_000_000 + value * 1_000) }

extension Fact {
    static func activate(_ holder: Holder, _ at: Timestamp, until: Timestamp? = nil) -> Fact {
        Fact(kind: .gain, holder: holder, at: at, until: until)
    }
    static func deactivate(_ holder: Holder, _ at: Timestamp, until: Timestamp? = nil, revoked: Bool = false) -> Fact {
        Fact(kind: .loss, holder: holder, at: at, until: until, isRevoked: revoked)
    }
    static func transferred(_ from: Holder, to: Holder?, _ at: Timestamp, until: Timestamp? = nil) -> Fact {
        Fact(kind: .transferred, holder: from, counterpart: to, at: at, until: until)
    }
    static func received(_ to: Holder, from: Holder?, _ at: Timestamp, until: Timestamp? = nil) -> Fact {
        Fact(kind: .received, holder: to, counterpart: from, at: at, until: until)
    }
}

/// Every order of the elements.
func permutations<Element>(_ elements: [Element]) -> [[Element]] {
    guard elements.count > 1 else { return [elements] }
    return elements.indices.flatMap { index in
        var rest = elements
        let first = rest.remove(at: index)
        return permutations(rest).map { [first] + $0 }
    }
}

/// Every subset but the empty one.
func subsets<Element>(_ elements: [Element]) -> [[Element]] {
    (1..<(1 << elements.count)).map { mask in elements.indices.filter { mask >> $0 & 1 == 1 }.map { elements[$0] } }
}

/// SplitMix64: the same histories on every machine.
struct Dice: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }
}

/// Plays the facts in every order, as they are and with each arriving twice, and holds every outcome against the oracle
/// and against the others.
func expectConfluence(
    _ facts: [Fact], kind: Purchase.Kind = .subscription, numbers: [TransferOracle.Pair: Int]? = nil,
    sourceLocation: SourceLocation = #_sourceLocation
) {
    let oracle = TransferOracle(facts, kind: kind)
    if let numbers { #expect(oracle.numbers == numbers, "\(facts)", sourceLocation: sourceLocation) }
    let reference = Playback(facts, kind: kind).state
    func isRight(_ played: Playback, _ arrivals: [Fact]) -> Bool {
        if played.numbers == oracle.numbers, played.access == oracle.access, played.state == reference,
            played.isAnnouncedOnce, played.voids.isEmpty
        {
            return true
        }
        Issue.record("\(arrivals) → \(played), expected \(oracle)", sourceLocation: sourceLocation)
        return false
    }
    /// Goes through every order of what is left. What orders begin with alike is played once for all of them.
    /// - Parameters:
    ///   - once: the playback of `order`.
    ///   - twice: that of `order` with each fact arriving twice.
    /// - Returns: whether every outcome was right; it ends with the first that is not.
    func search(_ left: [Fact], after order: [Fact], once: Playback, twice: Playback) -> Bool {
        if left.isEmpty {
            var again = once
            for fact in order.reversed() { again.play(fact) }
            return isRight(once, order) && isRight(twice, order.flatMap { [$0, $0] })
                && isRight(again, order + order.reversed())
        }
        return left.indices.allSatisfy { index in
            var (left, once, twice) = (left, once, twice)
            let fact = left.remove(at: index)
            once.play(fact)
            for _ in 1...2 { twice.play(fact) }
            return search(left, after: order + [fact], once: once, twice: twice)
        }
    }
    _ = search(facts, after: [], once: Playback(kind: kind), twice: Playback(kind: kind))
}
