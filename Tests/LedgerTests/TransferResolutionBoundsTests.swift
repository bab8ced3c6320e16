import Testing
import Vocabulary

@testable import Ledger

private typealias Pair = TransferOracle.Pair

/// The state stays small for a whole life, says the same as the whole history would, and cannot be made to grow.
@Suite("What is kept of a purchase")
struct TransferResolutionBoundsTests {
    private static let day: Int64 = 86_400

    @Test("A hundred years of monthly renewals, each with a duplicate, leave three facts; a transfer still resolves")
    func hundredYears() {
        var playback = Playback([.activate(anonymous, seconds(-100 * Self.day), until: seconds(0))])
        var most = 0
        for month in 0..<1_200 as Range<Int64> {
            let at = seconds(month * 30 * Self.day)
            let renewal = Fact.activate(anonymous, at, until: seconds((month + 1) * 30 * Self.day))
            playback.play(renewal)
            playback.play(renewal)
            most = max(most, playback.state.facts.count)
        }
        #expect(most <= 4 && playback.state.facts.count == 3)
        let login = seconds(1_199 * 30 * Self.day + 500)
        playback.play(.activate(user, login))
        playback.play(.deactivate(anonymous, login))
        #expect(playback.announced == [AnnouncedTransfer(from: anonymous, to: user, ordinal: 1, native: nil)])
        #expect(playback.voids.isEmpty && playback.access[user]?.isActive == true)
    }

    @Test("Ten years of on and off of one holder leave a few facts")
    func toggles() {
        var playback = Playback()
        for month in 0..<120 as Range<Int64> {
            playback.play(.activate(user, seconds(month * 30 * Self.day), until: seconds((month + 1) * 30 * Self.day)))
            playback.play(.deactivate(user, seconds((month * 30 + 20) * Self.day)))
        }
        #expect(playback.state.facts.count <= 5 && playback.announced.isEmpty)
    }

    @Test("What an inner fact stated outlives it: a long period, a revocation, a first gain")
    func innerFacts() {
        func at(_ days: Int64) -> Timestamp { seconds(days * Self.day) }
        let start = Fact.activate(anonymous, at(0), until: at(5))
        let end: [Fact] = [.deactivate(anonymous, at(90), until: at(3)), .activate(user, at(100), until: at(130))]
        let toUser = Pair(from: anonymous, to: user)
        let histories: [(facts: [Fact], numbers: [Pair: Int])] = [
            // The longest period is in the fact that goes.
            (
                [start, .activate(anonymous, at(1), until: at(300)), .activate(anonymous, at(2), until: at(3))] + end,
                [toUser: 1]
            ),
            // The revocation takes back the first fact's period without an end.
            (
                [
                    .activate(anonymous, at(0)), .deactivate(anonymous, at(1), revoked: true),
                    .activate(anonymous, at(2), until: at(3)), .deactivate(anonymous, at(4), until: at(3)),
                ] + end, [:]
            ),
            // The only gain of its holder lies between two losses: it says that the user has it no more.
            (
                [
                    .activate(user, at(0), until: at(20)), .deactivate(anonymous, at(30)), .activate(anonymous, at(31)),
                    .deactivate(anonymous, at(32)), .deactivate(anonymous, at(90)), .deactivate(anonymous, at(99)),
                ], [:]
            ),
        ]
        for (facts, numbers) in histories {
            let played = Playback(facts)
            let oracle = TransferOracle(facts)
            #expect(oracle.numbers == numbers && played.numbers == numbers)
            #expect(played.access == oracle.access)
        }
    }

    @Test("A loss that says which of two gains of one time came first is kept")
    func tieOfGains() {
        let (at, first, second) = (seconds(30 * Self.day), Holder.user("a"), Holder.user("b"))
        let stray = Fact.deactivate(.user("c"), seconds(60 * Self.day))
        let facts: [Fact] = [
            .activate(second, seconds(0)), .activate(second, at), .deactivate(second, at), .activate(first, at),
            .deactivate(second, seconds(31 * Self.day)), stray,
        ]
        let played = Playback(facts + [stray])
        #expect(played.numbers == [Pair(from: second, to: first): 1] && played.voids.isEmpty)
        #expect(played.access == TransferOracle(facts).access && played.access[first]?.isActive == true)
    }

    @Test("A loss up to a minute after a gain of another holder is kept, and so is the gain before it")
    func nearOthersGain() {
        let (at, first, second) = (seconds(30 * Self.day), Holder.user("a"), Holder.user("b"))
        let late = at.advanced(byMilliseconds: 60_000)
        let stray = Fact.deactivate(.user("c"), seconds(60 * Self.day))
        let (to, back) = (Pair(from: second, to: first), Pair(from: first, to: second))
        let gains: [Fact] = [.activate(second, at), .activate(first, at)]
        let loss = Fact.deactivate(second, late)
        let before = Fact.activate(second, seconds(0))
        let end = Fact.deactivate(second, seconds(31 * Self.day))
        let histories: [(facts: [Fact], numbers: [Pair: Int], active: [Holder])] = [
            ([before] + gains + [loss, end], [to: 1], [first]),
            // What the loss ends was given again: without that gain the other one would seem to have it.
            (gains + [Fact.activate(second, late), loss], [to: 1, back: 1], []),
        ]
        for (facts, numbers, active) in histories {
            let played = Playback(facts + [stray, stray])
            let oracle = TransferOracle(facts + [stray])
            #expect(oracle.numbers == numbers && played.numbers == numbers && played.voids.isEmpty)
            #expect(played.access == oracle.access)
            #expect(played.access.filter(\.value.isActive).map(\.key) == active)
        }
    }

    @Test("Years of renewals and transfers, each webhook up to 20 days late: the same as without compaction")
    func compactedAsWhole() {
        var dice = Dice(state: 53)
        for round in 0..<30 {
            let history = Self.years(&dice, transfers: round % 8)
            let oracle = TransferOracle(history.facts)
            #expect(oracle.numbers == history.truth)
            var states: Set<[UInt8]> = []
            for _ in 0..<3 {
                let arrivals = (history.facts + history.facts.filter { _ in dice.chance(30) })
                    .map { ($0, $0.at.milliseconds + Int64.random(in: 0...20 * Self.day * 1_000, using: &dice)) }
                    .sorted { $0.1 < $1.1 }.map(\.0)
                let played = Playback(arrivals)
                #expect(played.numbers == oracle.numbers && played.isAnnouncedOnce && played.voids.isEmpty)
                #expect(played.access == oracle.access)
                #expect(played.state.facts.count < history.facts.count / 2)
                states.insert(played.state.bytes)
            }
            #expect(states.count == 1, "equal knowledge is equal, whatever was compacted when")
        }
    }

    /// Five to eight years of monthly renewals with some transfers between, days apart from any renewal, and lapses.
    private static func years(_ dice: inout Dice, transfers: Int) -> (facts: [Fact], truth: [Pair: Int]) {
        let months = Int.random(in: 60...96, using: &dice)
        let transferMonths = Set((0..<months).shuffled(using: &dice).prefix(transfers))
        var facts: [Fact] = []
        var truth: [Pair: Int] = [:]
        var holder = anonymous
        var start: Int64 = 0
        for month in 0..<months {
            let until = seconds(start + 30 * day)
            facts.append(.activate(holder, seconds(start), until: until))
            if transferMonths.contains(month) {
                let to = holder == anonymous ? user : anonymous
                let at = seconds(start + Int64.random(in: 1...28, using: &dice) * day)
                let four: [Fact] = [
                    .deactivate(holder, at, until: until), .activate(to, at, until: until),
                    .transferred(holder, to: to, at, until: until), .received(to, from: holder, at, until: until),
                ]
                facts += four.prefix(dice.chance(50) ? 2 : 4)
                truth[Pair(from: holder, to: to), default: 0] += 1
                holder = to
            }
            start += 30 * day
            if dice.chance(3) {
                facts.append(.deactivate(holder, seconds(start + 10), until: until))
                start += Int64.random(in: 2...200, using: &dice) * day
                holder = dice.chance(50) ? anonymous : user
            }
        }
        return (facts, truth)
    }

    @Test(
        "Three hundred transfers to and fro within one period: counted exactly, in a bounded state", arguments: [2, 4])
    func pingPong(webhooks: Int) {
        var playback = Playback([.activate(anonymous, seconds(0))])
        var (from, to) = (anonymous, user)
        for round in 1...300 as ClosedRange<Int64> {
            let at = seconds(round * 300)
            let four: [Fact] = [
                .deactivate(from, at), .activate(to, at), .transferred(from, to: to, at), .received(to, from: from, at),
            ]
            for fact in four.prefix(webhooks) { playback.play(fact) }
            (from, to) = (to, from)
        }
        #expect(playback.numbers == [Pair(from: anonymous, to: user): 150, Pair(from: user, to: anonymous): 150])
        #expect(playback.isAnnouncedOnce && playback.voids.isEmpty)
        #expect(playback.state.facts.count <= PurchaseState.factsMax)
        #expect(playback.state.natives.count <= PurchaseState.nativesMax)
        #expect(playback.access[from]?.isActive == true && playback.access[to]?.isActive == false)
    }

    @Test("A purchase handed through three hundred holders: each transfer announced once, the state bounded")
    func manyHolders() {
        var playback = Playback()
        for number in 0..<300 as Range<Int64> {
            playback.play(.activate(.user("user-\(number)"), seconds(number * 300)))
        }
        #expect(playback.announced.count == 299 && playback.voids.isEmpty)
        #expect(Set(playback.announced.map { [$0.from.id, $0.to.id] }).count == 299)
        #expect(playback.state.registers.count == PurchaseState.registersMax)
        #expect(playback.state.announced.count <= PurchaseState.pairsMax)
        #expect(playback.access[.user("user-299")]?.isActive == true)
        #expect(playback.access.values.count { $0.isActive } == 1)
        // A pair that was forgotten goes on above what was announced for it before.
        playback.play(.activate(.user("user-0"), seconds(300 * 300)))
        playback.play(.activate(.user("user-1"), seconds(301 * 300)))
        #expect(playback.announced.count == 301)
        #expect(Set(playback.announced).count == 301, "no transfer id is used twice")
    }

    @Test("Losses beyond the limit never push out the newest gain; a register that goes is reported inactive")
    func floods() {
        var playback = Playback([.activate(user, seconds(0))])
        for number in 1...100 as ClosedRange<Int64> {
            playback.play(.deactivate(.user("user-\(number)"), seconds(number)))
        }
        #expect(playback.access[user]?.isActive == true)
        #expect(playback.state.facts.count == PurchaseState.factsMax)
        for number in 101...PurchaseState.registersMax {
            playback.play(.deactivate(.user("user-\(number)"), seconds(1)))
        }
        #expect(playback.access.count == PurchaseState.registersMax + 1)
        #expect(playback.access[user]?.isActive == true)
        #expect(playback.state.registers.count == PurchaseState.registersMax)
    }

    /// At the very first millisecond a loss cannot reach back to one before it, so that what is announced and voided
    /// meanwhile depends on the order.
    @Test("An event time at either end of what can be written breaks nothing")
    func extremes() {
        for at in [Timestamp(milliseconds: .min), Timestamp.writable.lowerBound, Timestamp(milliseconds: .max)] {
            let facts: [Fact] = [
                .activate(anonymous, at, until: at), .deactivate(anonymous, at, until: at), .activate(user, seconds(0)),
                .transferred(user, to: otherUser, at),
            ]
            let played = permutations(facts).map { Playback($0) }
            #expect(Set(played.map { $0.access.filter(\.value.isActive).keys.map(\.storageKey).sorted() }).count == 1)
            if at > Timestamp(milliseconds: .min) { #expect(Set(played.map(\.state.bytes)).count == 1) }
        }
    }

    @Test("Late webhooks of the holder before announce nothing again, however many the next one had meanwhile")
    func lateBehindMany() {
        let day: Int64 = 86_400
        for count in [10, 63, 64, 200] as [Int64] {
            var playback = Playback([.activate(anonymous, seconds(0)), .activate(user, seconds(day))])
            for number in 1...count { playback.play(.activate(user, seconds(day + number * 3_600))) }
            playback.play(.deactivate(anonymous, seconds(day)))
            playback.play(.activate(anonymous, seconds(day / 2)))
            playback.play(.activate(anonymous, seconds(day / 4)))
            #expect(playback.numbers == [Pair(from: anonymous, to: user): 1], "\(count)")
            #expect(playback.isAnnouncedOnce && playback.access[user]?.isActive == true)
            #expect(playback.access[anonymous]?.isActive == false)
            #expect(playback.state.facts.count <= PurchaseState.factsMax)
        }
    }

    @Test("A fact that comes before all of a full list shows no transfer that was counted")
    func lateBehindFullList() {
        var playback = Playback()
        for number in 0..<100 as Range<Int64> {
            playback.play(.activate(.user("user-\(number % 2)"), seconds(number * 3_600)))
        }
        let before = playback.announced
        #expect(before.count == 99 && playback.state.facts.count == PurchaseState.factsMax)
        for number in 0..<10 as Range<Int64> {
            playback.play(.activate(.user("user-\(number % 2)"), seconds(number * 3_600 + 1)))
        }
        #expect(playback.announced == before)
    }
}
