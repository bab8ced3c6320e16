@testable import Ledger
import Testing
import Vocabulary

private typealias Pair = TransferOracle.Pair

/// I1 to I3 over every order, every subset and every duplication of the webhooks of small histories.
@Suite("Every order of every set of webhooks of a transfer")
struct TransferResolutionOrderTests {
    private static let end = seconds(10_000)

    /// The four webhooks of one transfer; the offsets (seconds) say how far their event times lie apart.
    private static func transfer(_ from: Holder, _ to: Holder, at: Int64, offsets: [Int64]) -> [Fact] {
        [
            .deactivate(from, seconds(at + offsets[0]), until: end),
            .activate(to, seconds(at + offsets[1]), until: end),
            .transferred(from, to: to, seconds(at + offsets[2]), until: end),
            .received(to, from: from, seconds(at + offsets[3]), until: end),
        ]
    }

    @Test(
        "One transfer, 15 subsets, with and without what came before and after",
        arguments: [[0, 0, 0, 0], [0, 0, 3, 5], [2, 0, 1, 4], [0, 2, 0, 7], [30, 0, 40, 20]])
    func oneTransfer(offsets: [Int64]) {
        let wide: [[Int64]] = [[0, 0, 0, 0], [0, 0, 3, 5]]
        for (from, to) in [(anonymous, user), (user, otherUser), (user, anonymous)] {
            for subset in subsets(Self.transfer(from, to, at: 1_000, offsets: offsets)) {
                for isSeenBefore in [false, true] {
                    for isRenewedAfter in [false, true] {
                        var facts = subset
                        if isSeenBefore { facts.append(.activate(from, seconds(0), until: Self.end)) }
                        if isRenewedAfter { facts.append(.activate(to, seconds(9_000), until: seconds(20_000))) }
                        let isNative = subset.contains { $0.kind == .transferred || $0.kind == .received }
                        let isOldKnown = isSeenBefore || subset.contains { $0.kind == .loss }
                        let isNewKnown = isRenewedAfter || subset.contains { $0.kind == .gain }
                        let isKnowable = isNative || isOldKnown && isNewKnown
                        // Every pair of holders and spread up to four webhooks; the login up to six: 720 orders.
                        if facts.count > 4, from != anonymous || !wide.contains(offsets) { continue }
                        if facts.count == 6, offsets != wide[1] { continue }
                        expectConfluence(facts, numbers: isKnowable ? [Pair(from: from, to: to): 1] : [:])
                    }
                }
            }
        }
    }

    @Test("Native or derived, never both: the native that raises a transfer is its own message, the other is not")
    func nativeOrDerived() {
        let facts = Self.transfer(anonymous, user, at: 1_000, offsets: [0, 0, 3, 5])
        for order in permutations(facts) {
            let played = Playback(order)
            let isNativeFirst = played.announced.first?.native != nil
            #expect(played.announced.count == 1)
            #expect(played.nativesPassedOn == (isNativeFirst ? 1 : 0))
        }
        var playback = Playback([facts[2]])
        #expect(playback.announced == [AnnouncedTransfer(from: anonymous, to: user, ordinal: 1, native: .transferred)])
        let second = playback.play(facts[3])
        #expect(!second.isPassedOn && second.announced.isEmpty)
        #expect(Playback([facts[3]]).announced.first?.native == .received)
        #expect(Playback([facts[0], facts[1]]).announced.first?.native == nil)
    }

    @Test("Ping-pong A→U→A→U: every subset of the gains and losses, and with natives, in every order")
    func pingPong() {
        let legs = [(anonymous, user, 1_000 as Int64), (user, anonymous, 3_000), (anonymous, user, 5_000)]
        let plain = legs.flatMap { Array(Self.transfer($0, $1, at: $2, offsets: [0, 0, 0, 0]).prefix(2)) }
        for subset in subsets(plain) where subset.count < 6 { expectConfluence(subset) }
        expectConfluence(plain, numbers: [Pair(from: anonymous, to: user): 2, Pair(from: user, to: anonymous): 1])
        let natives = legs.flatMap { Array(Self.transfer($0, $1, at: $2, offsets: [0, 0, 0, 2]).suffix(2)) }
        expectConfluence(natives, numbers: [Pair(from: anonymous, to: user): 2, Pair(from: user, to: anonymous): 1])
        let mixed = [natives[0], plain[1], plain[2], natives[3], plain[5]]
        expectConfluence(mixed, numbers: [Pair(from: anonymous, to: user): 2, Pair(from: user, to: anonymous): 1])
    }

    @Test("A lapse and a new start is no transfer; a renewal of the same holder neither; in every order")
    func lapse() {
        let facts: [Fact] = [
            .activate(anonymous, seconds(0), until: seconds(1_000)),
            .deactivate(anonymous, seconds(1_020), until: seconds(1_000)),
            .activate(user, seconds(5_000), until: seconds(6_000)),
            .activate(user, seconds(5_990), until: seconds(7_000)),
            .deactivate(user, seconds(7_005), until: seconds(7_000)),
        ]
        for subset in subsets(facts) { expectConfluence(subset, numbers: [:]) }
        let reactivated: [Fact] = [facts[0], facts[1], .activate(anonymous, seconds(3_000), until: seconds(4_000))]
        expectConfluence(reactivated, numbers: [:])
    }

    @Test("A DEACTIVATE long after a new start, whose ACTIVATE comes last, does not turn the lapse into a transfer")
    func lateActivate() {
        // The set on which the table's first wording (a loss belongs to the last tenure known by then) announced A→U.
        let facts: [Fact] = [
            .activate(anonymous, seconds(0), until: seconds(1_000)),
            .activate(user, seconds(5_000), until: seconds(9_000)),
            .activate(anonymous, seconds(7_000), until: seconds(9_000)),
            .deactivate(anonymous, seconds(9_010), until: seconds(9_000)),
        ]
        expectConfluence(facts, numbers: [Pair(from: user, to: anonymous): 1])
    }

    @Test("A fact with a shorter period takes nothing back")
    func shorterPeriod() {
        let facts: [Fact] = [
            .activate(anonymous, seconds(0), until: seconds(9_000)),
            .activate(anonymous, seconds(500), until: seconds(600)),
            .activate(user, seconds(2_000), until: seconds(9_000)),
            .deactivate(anonymous, seconds(1_000), until: seconds(700)),
        ]
        expectConfluence(facts, numbers: [Pair(from: anonymous, to: user): 1])
    }

    @Test("Everything at one instant, three holders: the order of arrival still does not matter")
    func equalTimes() {
        let at = seconds(15)
        let facts: [Fact] = [
            .deactivate(anonymous, at), .activate(user, at), .transferred(anonymous, to: user, at), .activate(user, at),
        ]
        for subset in subsets(facts) { expectConfluence(subset) }
        // Gain and loss of one holder at one time: the loss wins in the register.
        let both = Playback([.deactivate(user, at), .activate(user, at)])
        #expect(both.access[user] == Access(isActive: false, asOf: at))
        #expect(both.state == Playback([.activate(user, at), .deactivate(user, at)]).state)
    }

    @Test("A transfer at the very time of a renewal or of the purchase: one transfer, whoever is first by id")
    func transferWithRenewal() {
        let at = seconds(1_000)
        let start = seconds(0)
        let holders = [anonymous, user, otherUser]
        for from in holders {
            for to in holders where to != from {
                let gains: [Fact] = [.activate(from, at, until: Self.end), .activate(to, at, until: Self.end)]
                let ends = [Fact.deactivate(from, at, until: Self.end)]
                let natives = Array(Self.transfer(from, to, at: 1_000, offsets: [0, 0, 0, 0]).suffix(2))
                let before = [Fact.activate(from, start, until: at)]
                let histories: [[Fact]] = [gains + ends, before + gains + ends, before + [gains[0]] + natives]
                for facts in histories {
                    expectConfluence(facts, numbers: [Pair(from: from, to: to): 1])
                    let access = Playback(facts).access
                    #expect(access[to]?.isActive == true && access[from]?.isActive == false)
                }
                expectConfluence(gains, numbers: [:])
                // Whoever loses it up to a minute later was first; later than that, the tie by id stays.
                for late in [5, 60_000, 60_001] as [Int64] {
                    let facts = gains + [.deactivate(from, at.advanced(byMilliseconds: late), until: Self.end)]
                    let one = [Pair(from: from, to: to): 1]
                    expectConfluence(facts, numbers: late <= 60_000 ? one : [:])
                    expectConfluence(before + facts, numbers: one)
                    if late > 60_000, to < from { continue }
                    #expect(Playback(facts).access[to]?.isActive == true)
                    #expect(Playback(before + facts).access[to]?.isActive == true)
                }
            }
        }
    }

    @Test("Two who were given it at one time both lose it within the minute: the first loss says who was first")
    func bothLost() {
        let at = seconds(1_000)
        for (from, to) in [(user, anonymous), (anonymous, user), (otherUser, user)] {
            let facts: [Fact] = [
                .activate(from, at, until: Self.end), .activate(to, at, until: Self.end),
                .deactivate(from, at.advanced(byMilliseconds: 5), until: Self.end),
                .deactivate(to, at.advanced(byMilliseconds: 30_000), until: Self.end),
            ]
            let played = Playback(facts)
            let oracle = TransferOracle(facts)
            #expect(oracle.numbers == [Pair(from: from, to: to): 1] && played.numbers == oracle.numbers)
            #expect(played.access == oracle.access && !played.access.values.contains { $0.isActive })
        }
    }

    @Test(
        "A late DEACTIVATE of the anonymous holder never revokes the user, a lost one leaves nobody with double access")
    func access() {
        let start = Fact.activate(anonymous, seconds(0), until: Self.end)
        let legs = Self.transfer(anonymous, user, at: 1_000, offsets: [0, 0, 0, 0])
        for subset in subsets(legs) where !subset.allSatisfy({ $0.kind == .loss }) {
            for order in permutations([start] + subset) {
                let access = Playback(order).access
                #expect(access[user]?.isActive == true)
                #expect(access[anonymous]?.isActive == false)
            }
        }
        let old = Playback([.activate(user, seconds(100)), .deactivate(user, seconds(50))])
        #expect(old.access[user] == Access(isActive: true, asOf: seconds(100)))
    }

    @Test("Renewal toggles: the same ACTIVATE and DEACTIVATE of one holder again and again announce nothing")
    func toggles() {
        var facts: [Fact] = []
        for round in 0..<3 as Range<Int64> {
            facts.append(.activate(user, seconds(round * 100), until: Self.end))
            facts.append(.deactivate(user, seconds(round * 100 + 50), until: Self.end))
        }
        for subset in subsets(facts) where subset.count < 6 { expectConfluence(subset, numbers: [:]) }
        expectConfluence(facts, numbers: [:])
    }
}
