@testable import API
import Testing
import Vocabulary

/// Every combination of flags, ends, groups and grace against an oracle of another build: each fact casts a vote of
/// some weight, whatever the order, and the heaviest vote wins.
@Suite struct EligibilityOracleTests {
    static let now = Timestamp(milliseconds: 1_700_000_000_000)
    static let times: [Timestamp?] = [
        nil, now.advanced(byMilliseconds: -1), now, now.advanced(byMilliseconds: 1),
    ]

    /// A transaction, and by its making whether it is of the group.
    struct Made: Sendable {
        let transaction: StoreTransaction
        let isIn: Bool
    }
    struct MadeRenewal: Sendable {
        let renewal: PendingRenewal
        let isIn: Bool
    }

    static let transactions: [Made] = {
        // "p" is configured where anything is, "q" is only known to the store.
        let places: [(product: String?, group: String?, isIn: Bool)] = [
            ("q", "G", true), (nil, "G", true), ("z", "H", false), ("z", nil, false),
        ]
        return places.flatMap { place in
            times.flatMap { end in
                (0..<8).map { flags in
                    Made(
                        transaction: StoreTransaction(
                            product: place.product, group: place.group, expiresAt: end, isRefunded: flags & 1 != 0,
                            isTrial: flags & 2 != 0, isIntroductory: flags & 4 != 0),
                        isIn: place.isIn)
                }
            }
        }
    }()

    static let renewals: [[MadeRenewal]] =
        [[]]
        + [("r", "G", true), ("z", "H", false), ("z", nil, false)].flatMap { product, group, isIn in
            times.map { grace in
                [
                    MadeRenewal(
                        renewal: PendingRenewal(product: product, group: group, graceExpiresAt: grace), isIn: isIn)
                ]
            }
        }

    static func oracle(
        _ offer: Offer, isConfigured: Bool, _ transactions: [Made], _ renewals: [MadeRenewal]
    ) -> Eligibility.Answer {
        var votes: [(weight: Int, answer: Eligibility.Answer)] = []
        if !isConfigured, !transactions.contains(where: \.isIn), !renewals.contains(where: \.isIn) {
            votes.append((9, .unknown))
        }
        for renewal in renewals where renewal.isIn {
            if let grace = renewal.renewal.graceExpiresAt, grace.milliseconds - now.milliseconds >= 1 {
                votes.append((8, .entitled))
            }
            if offer == .promotional { votes.append((7, .eligible)) }
        }
        votes.append((0, offer == .promotional ? .notEligible : .eligible))
        for made in transactions where made.isIn && offer == .introductory {
            let transaction = made.transaction
            if transaction.isRefunded { votes.append((6, .notEligible)) }
            if transaction.isTrial || transaction.isIntroductory { votes.append((5, .notEligible)) }
            guard let end = transaction.expiresAt else {
                votes.append((3, .unknown))
                continue
            }
            if end.milliseconds - now.milliseconds >= 1 { votes.append((4, .notEligible)) }
        }
        return votes.max { $0.weight < $1.weight }?.answer ?? .unknown
    }

    static func decide(
        _ offer: Offer, isConfigured: Bool, _ transactions: [Made], _ renewals: [MadeRenewal]
    ) -> Eligibility {
        Eligibility.decide(
            EligibilityQuestion(group: "G", products: isConfigured ? ["p"] : [], offer: offer),
            transactions: transactions.map(\.transaction), renewals: renewals.map(\.renewal), now: now)
    }

    private func compare(_ transactions: [Made], seen: inout [Eligibility.Answer: Int]) {
        for renewals in Self.renewals {
            for offer in Offer.allCases {
                for isConfigured in [true, false] {
                    let answer = Self.decide(offer, isConfigured: isConfigured, transactions, renewals).answer
                    let expected = Self.oracle(offer, isConfigured: isConfigured, transactions, renewals)
                    seen[answer, default: 0] += 1
                    guard answer != expected else { continue }
                    Issue.record("\(offer), \(isConfigured), \(transactions), \(renewals): \(answer), not \(expected)")
                }
            }
        }
    }

    @Test func everyOneAndEveryTwo() {
        var seen: [Eligibility.Answer: Int] = [:]
        compare([], seen: &seen)
        for one in Self.transactions { compare([one], seen: &seen) }
        // Of two, every pair of those that differ in more than the spelling of their group.
        let some = Self.transactions.filter { $0.transaction.product == "q" || $0.transaction.group == "H" }
        #expect(some.count == 64)
        for (index, first) in some.enumerated() {
            for second in some[index...] { compare([first, second], seen: &seen) }
        }
        for answer in Eligibility.Answer.allCases { #expect(seen[answer, default: 0] > 100, "\(answer)") }
    }

    /// Four transactions in every order, and the renewals in both: one answer, for one reason.
    @Test func theOrderNeverMatters() {
        var random = EligibilityRandom(state: 3)
        for _ in 0..<200 {
            let four = (0..<4).compactMap { _ in Self.transactions.randomElement(using: &random) }
            let two = (0..<2).compactMap { _ in Self.renewals.randomElement(using: &random) }.flatMap { $0 }
            for offer in Offer.allCases {
                let first = Self.decide(offer, isConfigured: true, four, two)
                for order in Self.permutations(four) {
                    #expect(Self.decide(offer, isConfigured: true, order, two.reversed()) == first, "\(order)")
                }
            }
        }
    }

    /// What is of another group changes nothing; what is said twice is said once.
    @Test func strangersAndRepetitionsChangeNothing() {
        let strangers = Self.transactions.filter { !$0.isIn }
        let strangeRenewals = Self.renewals.flatMap { $0 }.filter { !$0.isIn }
        for offer in Offer.allCases {
            for made in Self.transactions where made.isIn {
                for renewals in Self.renewals {
                    let plain = Self.decide(offer, isConfigured: true, [made], renewals)
                    #expect(
                        Self.decide(offer, isConfigured: true, [made, made] + strangers, renewals + strangeRenewals)
                            == plain)
                }
            }
        }
    }

    static func permutations(_ items: [Made]) -> [[Made]] {
        guard items.count > 1 else { return [items] }
        return items.indices.flatMap { index in
            var rest = items
            let item = rest.remove(at: index)
            return permutations(rest).map { [item] + $0 }
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): the same cases from the same seed.
struct EligibilityRandom: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
