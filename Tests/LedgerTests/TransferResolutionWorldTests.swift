@testable import Ledger
import Testing
import Vocabulary

/// A model of the world that knows the true transfers and sends the webhooks a vendor would send of them.
private struct World {
    var truth: [TransferOracle.Pair: Int] = [:]
    var facts: [Fact] = []

    /// - Parameter period: seconds of one billing period. Hand-overs lie at least three minutes apart: closer ones
    ///   cannot be distinguished from the spread of one transfer's own webhooks.
    init(_ holders: [Holder], period: Int64, steps: Int, skew: Int64 = 0, revokes: Bool = false, _ dice: inout Dice) {
        var now = Int64.random(in: 0...1_000, using: &dice)
        var end = now + period
        var holder = holders.randomElement(using: &dice) ?? user
        facts.append(.activate(holder, seconds(now), until: seconds(end)))
        for _ in 0..<steps {
            let roll = Int.random(in: 0..<100, using: &dice)
            if roll < 35 {
                now = max(now + 180, end - Int64.random(in: 0...100, using: &dice))
                end += period
                facts.append(.activate(holder, seconds(now), until: seconds(end)))
            } else if roll < 75, now + 180 < end - 180,
                let next = holders.filter({ $0 != holder }).randomElement(using: &dice)
            {
                now = Int64.random(in: (now + 180)...(end - 180), using: &dice)
                sendTransfer(holder, next, now, end, skew, &dice)
                holder = next
            } else {
                let isRevoked = revokes && dice.chance(40)
                let lossAt = isRevoked ? max(now + 180, end - period / 2) : end + Int64.random(in: 0...20, using: &dice)
                facts.append(.deactivate(holder, seconds(lossAt), until: seconds(end), revoked: isRevoked))
                now = max(end, lossAt) + Int64.random(in: 300...(3 * period), using: &dice)
                holder = holders.randomElement(using: &dice) ?? holder
                end = now + period
                facts.append(.activate(holder, seconds(now), until: seconds(end)))
            }
        }
    }

    private mutating func sendTransfer(
        _ from: Holder, _ to: Holder, _ now: Int64, _ end: Int64, _ skew: Int64, _ dice: inout Dice
    ) {
        truth[TransferOracle.Pair(from: from, to: to), default: 0] += 1
        let until = seconds(end)
        func at() -> Timestamp { seconds(now + Int64.random(in: 0...skew, using: &dice)) }
        facts.append(.deactivate(from, at(), until: until))
        facts.append(.activate(to, at(), until: until))
        if dice.chance(60) { facts.append(.transferred(from, to: to, at(), until: until)) }
        if dice.chance(60) { facts.append(.received(to, from: from, at(), until: until)) }
    }
}

@Suite("Random worlds against the oracle and against the truth")
struct TransferResolutionWorldTests {
    /// Duplicates some, then shuffles.
    private static func arrivals(_ facts: [Fact], _ dice: inout Dice) -> [Fact] {
        (facts + facts.filter { _ in dice.chance(30) }).shuffled(using: &dice)
    }

    @Test(
        "Two holders, nothing lost: every shuffle announces exactly the true transfers", arguments: [0, 20] as [Int64])
    func complete(skew: Int64) {
        var dice = Dice(state: 11 + UInt64(skew))
        for _ in 0..<200 {
            let period: Int64 = dice.chance(50) ? 1_200 : 20_000
            let world = World(
                [anonymous, user], period: period, steps: Int.random(in: 1...7, using: &dice), skew: skew, &dice)
            let oracle = TransferOracle(world.facts)
            #expect(oracle.numbers == world.truth, "\(world)")
            let reference = Playback(world.facts)
            for _ in 0..<3 {
                let played = Playback(Self.arrivals(world.facts, &dice))
                #expect(played.numbers == world.truth)
                #expect(played.isAnnouncedOnce && played.voids.isEmpty)
                #expect(played.access == oracle.access && played.state == reference.state)
            }
        }
    }

    @Test(
        "Two holders, a third of the webhooks lost: every shuffle announces what the remaining ones show, never too much"
    )
    func lossy() {
        var dice = Dice(state: 23)
        for _ in 0..<500 {
            let world = World([anonymous, user], period: 5_000, steps: Int.random(in: 1...8, using: &dice), &dice)
            let facts = world.facts.filter { _ in !dice.chance(33) }
            let oracle = TransferOracle(facts)
            let reference = Playback(facts)
            for _ in 0..<3 {
                let played = Playback(Self.arrivals(facts, &dice))
                #expect(played.numbers == oracle.numbers, "\(facts)")
                #expect(played.isAnnouncedOnce && played.voids.isEmpty, "\(facts)")
                #expect(played.access == oracle.access && played.state == reference.state)
            }
        }
    }

    @Test(
        "Many holders and revocations: all that is true is announced, once; what is more is voided, one void for each")
    func exceptions() {
        var dice = Dice(state: 37)
        var voids = 0
        for _ in 0..<250 {
            let holders = [anonymous, .anonymous("device-2"), user, otherUser]
            let world = World(holders, period: 5_000, steps: 6, revokes: true, &dice)
            let oracle = TransferOracle(world.facts)
            #expect(oracle.numbers == world.truth, "\(world)")
            #expect(Playback(world.facts).voids.isEmpty, "in order of event time nothing is ever voided")
            for _ in 0..<3 {
                let played = Playback(Self.arrivals(world.facts, &dice))
                #expect(played.isAnnouncedOnce && played.access == oracle.access)
                for (pair, number) in world.truth { #expect(played.numbers[pair, default: 0] >= number) }
                for entry in played.state.announced {
                    let number = oracle.numbers[TransferOracle.Pair(from: entry.from, to: entry.to)] ?? 0
                    #expect(entry.lastOrdinal == number + entry.voided.count + entry.settledChanges)
                }
                let excess = played.announced.count - oracle.numbers.values.reduce(0, +)
                #expect(excess <= played.voids.reduce(0) { $0 + $1.count })
                voids += played.voids.count
            }
        }
        #expect(voids > 0, "the worlds must reach the exceptions")
    }

    @Test("Facts that no world would send: still announced once, still the oracle's access, every order")
    func nonsense() {
        var dice = Dice(state: 41)
        for _ in 0..<500 {
            let facts = (0..<Int.random(in: 2...8, using: &dice)).map { _ in Self.nonsense(&dice) }
            let oracle = TransferOracle(facts)
            for _ in 0..<3 {
                let played = Playback(Self.arrivals(facts, &dice))
                #expect(played.isAnnouncedOnce && played.access == oracle.access)
                for (pair, number) in oracle.numbers { #expect(played.numbers[pair, default: 0] >= number, "\(facts)") }
            }
        }
    }

    private static func nonsense(_ dice: inout Dice) -> Fact {
        let holders = [anonymous, user, otherUser]
        let at = seconds(Int64.random(in: 0...20, using: &dice) * 40)
        return Fact(
            kind: [.gain, .loss, .transferred, .received].randomElement(using: &dice) ?? .gain,
            holder: holders.randomElement(using: &dice) ?? user,
            counterpart: dice.chance(80) ? holders.randomElement(using: &dice) : nil, at: at,
            until: dice.chance(80)
                ? at.advanced(byMilliseconds: Int64.random(in: -5...20, using: &dice) * 40_000) : nil,
            isRevoked: dice.chance(10), isFamilyShared: dice.chance(10),
            plan: dice.chance(50) ? ["monthly", "yearly"].randomElement(using: &dice) : nil)
    }
}
