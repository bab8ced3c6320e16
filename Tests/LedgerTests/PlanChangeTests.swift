import Testing
import Vocabulary

@testable import Ledger

private typealias Pair = TransferOracle.Pair

/// A loss of a plan that was left for another one ends nothing (Domain.md, "A change of plan"), in every order and
/// after any compaction.
@Suite("A change of plan")
struct PlanChangeTests {
    private static func at(_ day: Int64, _ more: Int64 = 0) -> Timestamp { seconds(day * 86_400 + more) }

    private static func gain(
        _ plan: String?, _ time: Timestamp, until: Timestamp?, of holder: Holder = user
    ) -> Fact {
        Fact(kind: .gain, holder: holder, at: time, until: until, plan: plan)
    }

    private static func loss(
        _ plan: String?, _ time: Timestamp, until: Timestamp, isRevoked: Bool = false, of holder: Holder = user
    ) -> Fact {
        Fact(kind: .loss, holder: holder, at: time, until: until, isRevoked: isRevoked, plan: plan)
    }

    /// Weekly from the beginning, another plan from day 2 on.
    private static let week = gain("weekly", at(0), until: at(7))
    private static let weekEnds = loss("weekly", at(2), until: at(7))
    private static let month = gain("monthly", at(2), until: at(16))
    private static let change = [week, weekEnds, month]

    private static func isActive(_ facts: [Fact], _ holder: Holder = user) -> Bool {
        Playback(facts).access[holder]?.isActive == true
    }

    @Test("The end of the plan that was left, at the time of the new plan's begin or days later, ends nothing")
    func left() {
        for end in [
            Self.weekEnds, Self.loss("weekly", Self.at(2, 30), until: Self.at(7)),
            Self.loss("weekly", Self.at(6), until: Self.at(7)),
            Self.loss("weekly", Self.at(2), until: Self.at(7), isRevoked: true),
        ] {
            let facts = [Self.week, Self.month, end]
            expectConfluence(facts, numbers: [:])
            #expect(Self.isActive(facts))
            expectConfluence([Self.month, end], numbers: [:])
            #expect(Self.isActive([Self.month, end]))
        }
    }

    @Test("Back to the first plan: each end is of the plan that was left")
    func back() {
        let facts =
            Self.change + [
                Self.loss("monthly", Self.at(4), until: Self.at(16)),
                Self.gain("weekly", Self.at(4), until: Self.at(11)),
            ]
        expectConfluence(facts, numbers: [:])
        #expect(Self.isActive(facts))
    }

    @Test("What ends the plan in force ends access: expiry, refund, after the stated end, no plan or end named")
    func ends() {
        for end in [
            Self.loss("monthly", Self.at(16, 5), until: Self.at(16)),
            Self.loss("monthly", Self.at(5), until: Self.at(16), isRevoked: true),
            Self.loss("renamed", Self.at(16), until: Self.at(16)),
            Self.loss(nil, Self.at(5), until: Self.at(16)),
        ] {
            let facts = Self.change + [end]
            expectConfluence(facts, numbers: [:])
            #expect(!Self.isActive(facts))
        }
        // Where the plan of the gain is unknown, or how long it lasts, a loss is a loss.
        for month in [Self.gain(nil, Self.at(2), until: Self.at(16)), Self.gain("monthly", Self.at(2), until: nil)] {
            let unknown = [month, Self.loss("weekly", Self.at(5), until: Self.at(7))]
            expectConfluence(unknown, numbers: [:])
            #expect(!Self.isActive(unknown))
        }
    }

    @Test("Renewed, ended and replaced at one time, a plan is left, and what ends the new one ends access")
    func renewed() {
        let renewed = Self.change + [Self.gain("weekly", Self.at(2), until: Self.at(9))]
        expectConfluence(renewed, numbers: [:])
        #expect(Self.isActive(renewed))
        for isRevoked in [false, true] {
            let ended = renewed + [Self.loss("monthly", Self.at(5), until: Self.at(16), isRevoked: isRevoked)]
            expectConfluence(ended, numbers: [:])
            #expect(!Self.isActive(ended))
        }
    }

    @Test("A transfer after a change of plan is one, with or without an end that says so; at its very time, too")
    func transfers() {
        let once = [Pair(from: user, to: otherUser): 1]
        let new = Self.gain("monthly", Self.at(5), until: Self.at(16), of: otherUser)
        let end = Self.loss("monthly", Self.at(5), until: Self.at(16))
        for facts in [Self.change + [new], Self.change + [end, new]] {
            expectConfluence(facts, numbers: once)
            #expect(Self.isActive(facts, otherUser) && !Self.isActive(facts))
        }
        let both = [
            Self.week, Self.weekEnds, Self.gain("monthly", Self.at(2), until: Self.at(16), of: otherUser),
        ]
        expectConfluence(both, numbers: once)
        #expect(Self.isActive(both, otherUser) && !Self.isActive(both))
        // A renewal, the change and the transfer at one time.
        let renewed = [Self.gain("weekly", Self.at(2), until: Self.at(9))] + both
        expectConfluence(renewed, numbers: once)
        #expect(Self.isActive(renewed, otherUser) && !Self.isActive(renewed))
    }

    @Test("A plan that was left and revoked takes back no period: what passes on then is a transfer")
    func revoked() {
        let revoked = Self.loss("weekly", Self.at(2), until: Self.at(7), isRevoked: true)
        let facts = [
            Self.week, revoked, Self.month, Self.gain("monthly", Self.at(5), until: Self.at(16), of: otherUser),
        ]
        let oracle = TransferOracle(facts)
        #expect(oracle.numbers == [Pair(from: user, to: otherUser): 1])
        for order in permutations(facts) {
            let played = Playback(order)
            #expect(played.numbers == oracle.numbers && played.isAnnouncedOnce && played.access == oracle.access)
        }
    }

    @Test("A restore and a login pass on, with access, what goes on after a change of plan", arguments: [false, true])
    func moves(isLogin: Bool) {
        let end = Self.loss("weekly", Self.at(2), until: Self.at(7), isRevoked: true)
        let move = KeptMove(at: Self.at(9), from: isLogin ? user : nil, to: otherUser, isLogin: isLogin)
        for order in permutations([Self.week, end, Self.month]) {
            let moved = TransferResolution.resolve(Playback(order).state, [], moves: [move], kind: .subscription)
            #expect(moved.announced == [AnnouncedTransfer(from: user, to: otherUser, ordinal: 1, native: nil)])
            #expect(moved.access[otherUser]?.isActive == true && moved.access[user]?.isActive == false)
        }
    }

    @Test("Once nothing can come in between any more, what losses of plans are judged by is kept")
    func compaction() {
        let stray = Self.loss(nil, Self.at(60), until: Self.at(60), of: otherUser)
        let year = Self.gain("yearly", Self.at(10), until: Self.at(375))
        let month = Self.gain("monthly", Self.at(0), until: Self.at(30))
        let left = Self.loss("monthly", Self.at(10), until: Self.at(30))
        let changed = [month, left, year, stray]
        #expect(Playback(changed + [stray]).access == TransferOracle(changed).access)
        #expect(Self.isActive(changed + [stray]))

        // The new plan is refunded, and the end of the old one is dated later: what is kept says that both are over.
        let refunded = [
            month, year, Self.loss("yearly", Self.at(12), until: Self.at(12)),
            Self.loss("monthly", Self.at(13), until: Self.at(30)), stray,
        ]
        #expect(Playback(refunded + [stray]).access == TransferOracle(refunded).access)
        #expect(!Self.isActive(refunded + [stray]))

        // The plan that was left had been renewed at the time of the new one's begin.
        let renewed = [
            month, Self.gain("monthly", Self.at(10), until: Self.at(40)), left, year,
            Self.loss("yearly", Self.at(12), until: Self.at(12)), stray,
        ]
        #expect(Playback(renewed + [stray]).access == TransferOracle(renewed).access)
        #expect(!Self.isActive(renewed + [stray]))

        // Years of both leave little.
        var playback = Playback()
        for round in 0..<60 as Range<Int64> {
            let plans = round % 2 == 0 ? ["monthly", "yearly"] : ["yearly", "monthly"]
            let (start, end) = (Self.at(round * 30), Self.at(round * 30 + 30))
            playback.play(Self.loss(plans[1], start, until: start))
            playback.play(Self.gain(plans[0], start, until: end))
        }
        #expect(playback.state.facts.count <= 8 && playback.state.plans.count <= playback.state.facts.count)
        #expect(playback.access[user]?.isActive == true)
    }

    @Test("However many plans one time names, no more than the limit are kept")
    func bounds() {
        var playback = Playback()
        for number in 0..<(2 * PurchaseState.plansMax) {
            playback.play(Self.gain("plan \(number)", Self.at(0), until: Self.at(7)))
        }
        #expect(playback.state.plans.count == PurchaseState.plansMax && playback.state.facts.count == 1)
    }

    @Test("The text has one line for each holder, kind and plan; without plans there is none")
    func text() throws {
        func time(_ milliseconds: Int64) -> Timestamp { Timestamp(milliseconds: milliseconds) }
        let state = Playback([
            Self.gain("monthly", time(1_000), until: time(900_000)),
            Self.loss("monthly", time(2_000), until: time(900_000)),
            Self.gain("yearly", time(2_000), until: time(1_800_000)),
            Self.gain("yearly", time(3_000), until: time(2_000_000)),
        ]).state
        let text = """
            2\tfea8828ec9017d04
            fact\t1000\tgain\t900000\t-\tuser:jeff
            fact\t2000\tgain\t1800000\t-\tuser:jeff
            fact\t2000\tloss\t900000\t-\tuser:jeff
            fact\t3000\tgain\t2000000\t-\tuser:jeff
            register\t3000\ton\ttenure\tuser:jeff
            plan\tgain\t2439635914\t1000\tuser:jeff
            plan\tgain\t3174053895\t2000,3000\tuser:jeff
            plan\tloss\t2439635914\t2000\tuser:jeff

            """
        #expect(String(decoding: state.bytes, as: UTF8.self) == text)
        #expect(try PurchaseState(bytes: state.bytes) == state)
        #expect(try PurchaseState(bytes: state.bytes(.plain)) == state.withoutPlans)
        for times in ["", "2,1", "1,1"] {
            #expect(throws: PurchaseState.Unreadable(line: 2, reason: "out of order")) {
                try PurchaseState(bytes: Array("1\nplan\tgain\t1\t\(times)\tuser:a\n".utf8))
            }
        }
        #expect(throws: PurchaseState.Unreadable(line: 3, reason: "out of order")) {
            try PurchaseState(bytes: Array("1\nplan\tgain\t1\t1\tuser:a\nplan\tgain\t1\t2\tuser:a\n".utf8))
        }
    }

    @Test("A plan whose fact a version before has dropped says nothing, and goes with the next webhook")
    func stray() throws {
        var state = Playback(Self.change).state
        state.facts.removeAll { $0.kind == .gain && $0.at == Self.month.at }
        let read = try PurchaseState(bytes: state.bytes)
        #expect(read == state && Timeline(read).access[user]?.isActive == false)
        let next = TransferResolution.resolve(read, Self.week, kind: .subscription).state
        #expect(next.plans == state.plans.filter { $0.kind == .loss || $0.at == Self.week.at })
    }

    @Test("Of a one-time purchase and of a family-shared one no plan is kept: each statement counts by itself")
    func withoutTenures() {
        let before = Playback(Self.change).state
        let oneTime = TransferResolution.oneTime(before)
        #expect(oneTime.state.plans.isEmpty && oneTime.access[user]?.isActive == false)
        #expect(Playback(Self.change, kind: .oneTime).state.plans.isEmpty)
        let shared = Fact(kind: .gain, holder: user, at: Self.at(0), isFamilyShared: true, plan: "weekly")
        #expect(Playback([shared]).state.plans.isEmpty)
    }

    @Test("An export's state and the known one have the plans of both")
    func joining() {
        let whole = Playback(Self.change).state
        for part in subsets(Self.change) {
            let (one, other) = (Playback(part).state, Playback(Array(Self.change.suffix(2))).state)
            let expected = Playback(Self.change.filter { part.contains($0) || $0 != Self.week }).state
            for (known, export) in [(one, other), (other, one)] {
                let joined = TransferResolution.joining(export, to: known, kind: .subscription)
                #expect(joined.state == expected && joined.access[user]?.isActive == true)
            }
            #expect(TransferResolution.joining(whole, to: one, kind: .subscription).state == whole)
        }
    }

    @Test("Whoever is erased is nobody in the lines of plans, too, and who has the purchase stays")
    func erased() {
        let nobody = ErasedID.standIn("0123456789abcdef")
        let renamed = Playback(Self.change).state.renaming([ErasedID(holder: user, standIn: nobody)])
        #expect(renamed.holders == [nobody] && renamed.plans.count == 3)
        #expect(!String(decoding: renamed.bytes, as: UTF8.self).contains(user.storageKey))
        #expect(Timeline(renamed).access[nobody]?.isActive == true)
    }
}
