@testable import Ledger
import Testing
import Vocabulary

private typealias Pair = TransferOracle.Pair

/// What is not an ordinary subscription, and the exceptions that I1 allows.
@Suite("One-time purchases, family sharing, natives, exceptions")
struct TransferResolutionKindTests {
    private let end = seconds(10_000)

    @Test("I3: a one-time purchase moves by native webhooks only, in every order of every subset")
    func oneTime() {
        let facts: [Fact] = [
            .activate(anonymous, seconds(0)), .deactivate(anonymous, seconds(100)), .activate(user, seconds(100)),
            .transferred(anonymous, to: user, seconds(100)), .received(user, from: anonymous, seconds(103)),
        ]
        for subset in subsets(facts) {
            let isNative = subset.contains { $0.kind == .transferred || $0.kind == .received }
            expectConfluence(subset, kind: .oneTime, numbers: isNative ? [Pair(from: anonymous, to: user): 1] : [:])
        }
        // Two who bought it each keep it.
        let both = Playback([facts[0], facts[2]], kind: .oneTime)
        #expect(both.access.values.allSatisfy { $0.isActive })
    }

    @Test("Family shared: no tenures, members beside the owner, natives count; in every order of every subset")
    func familyShared() {
        func shared(_ fact: Fact) -> Fact {
            Fact(
                kind: fact.kind, holder: fact.holder, counterpart: fact.counterpart, at: fact.at, until: fact.until,
                isFamilyShared: true)
        }
        let facts: [Fact] = [
            .activate(user, seconds(0), until: end), shared(.activate(otherUser, seconds(50), until: end)),
            shared(.activate(anonymous, seconds(60), until: end)),
            shared(.transferred(anonymous, to: otherUser, seconds(200), until: end)),
            shared(.deactivate(anonymous, seconds(200), until: end)),
        ]
        for subset in subsets(facts) {
            let isNative = subset.contains { $0.kind == .transferred }
            expectConfluence(subset, numbers: isNative ? [Pair(from: anonymous, to: otherUser): 1] : [:])
        }
        let access = Playback(facts).access
        #expect(access[user]?.isActive == true && access[otherUser]?.isActive == true)
        #expect(access[anonymous]?.isActive == false)
    }

    @Test("Natives: one holder on both sides is ignored, an absent side is a plain gain or loss")
    func nativeSides() {
        let known = Playback([.activate(user, seconds(0), until: end)])
        var same = known
        let ignored = same.play(.transferred(user, to: user, seconds(10)))
        #expect(!ignored.isPassedOn && ignored.announced.isEmpty && same.state == known.state)
        #expect(same.access == known.access)

        var plain = known
        let loss = plain.play(.transferred(user, to: nil, seconds(10), until: end))
        #expect(loss.isPassedOn && loss.announced.isEmpty && loss.access[user]?.isActive == false)
        let gain = plain.play(.received(otherUser, from: nil, seconds(10), until: end))
        #expect(gain.isPassedOn)
        #expect(gain.announced == [AnnouncedTransfer(from: user, to: otherUser, ordinal: 1, native: nil)])
    }

    @Test("A native switches its new holder on only while the paid period lasts; ACTIVATE always does")
    func nativeAfterThePeriod() {
        let late = Fact.transferred(anonymous, to: user, seconds(100), until: seconds(100))
        let played = Playback([.activate(anonymous, seconds(0), until: seconds(50)), late])
        #expect(played.announced.count == 1)
        #expect(played.access == [anonymous: Access(isActive: false, asOf: seconds(100))])
        #expect(Playback([.activate(user, seconds(100), until: seconds(50))]).access[user]?.isActive == true)
    }

    @Test("Distinct natives count by kind, holders and time, whatever their event ids")
    func distinctNatives() {
        let first = Fact.transferred(anonymous, to: user, seconds(10), until: end)
        let again = Fact.transferred(anonymous, to: user, seconds(900), until: end)
        expectConfluence([first, first, again], numbers: [Pair(from: anonymous, to: user): 2])
    }

    @Test("REVOKED before the successor ends the period; after it, it ends nothing")
    func revoked() {
        let start = Fact.activate(anonymous, seconds(0), until: end)
        let next = Fact.activate(user, seconds(1_000), until: end)
        let early = Fact.deactivate(anonymous, seconds(500), until: end, revoked: true)
        #expect(Playback([start, early, next]).announced.isEmpty)
        #expect(Playback([early, next]).announced.isEmpty)
        let without: [Fact] = [.activate(user, seconds(470), until: end), early]
        expectConfluence(without, numbers: [:])  // a revocation makes no ungranted tenure
        for at in [1_001, 5_000] as [Int64] {
            expectConfluence(
                [start, next, .deactivate(anonymous, seconds(at), until: end, revoked: true)],
                numbers: [Pair(from: anonymous, to: user): 1])
        }
    }

    @Test(
        "REVOKED that comes late: what was announced stays, is voided and logged; the next real transfer is the second")
    func lateRevoked() {
        let early = Fact.deactivate(anonymous, seconds(500), until: end, revoked: true)
        var playback = Playback([
            .activate(anonymous, seconds(0), until: end), .activate(user, seconds(1_000), until: end),
        ])
        #expect(playback.announced.count == 1)
        playback.play(early)
        #expect(playback.voids == [VoidedTransfer(reason: .revoked, from: anonymous, to: user, count: 1)])
        playback.play(early)
        #expect(playback.voids.count == 1)
        var restored = playback
        restored.play(.activate(anonymous, seconds(600), until: end))
        #expect(restored.announced.count == 1, "the voided transfer is restored, not announced a second time")
        #expect(restored.state.announced.first?.voided.isEmpty == true)
        playback.play(.activate(anonymous, seconds(2_000), until: end))
        playback.play(.activate(user, seconds(3_000), until: end))
        #expect(
            playback.announced.map(\.ordinal) == [1, 1, 2] && playback.announced.last?.to == user
                && playback.isAnnouncedOnce)
    }

    @Test(
        "A third holder found late between two: its transfers are announced, what was announced stays and is voided, once"
    )
    func thirdHolder() {
        let facts: [Fact] = [
            .activate(anonymous, seconds(0), until: end), .deactivate(anonymous, seconds(1_000), until: end),
            .activate(otherUser, seconds(1_000), until: end), .deactivate(otherUser, seconds(2_000), until: end),
            .activate(user, seconds(2_000), until: end),
        ]
        let always = Set([Pair(from: anonymous, to: otherUser), Pair(from: otherUser, to: user)])
        let direct = Pair(from: anonymous, to: user)
        var exceptions = 0
        for order in permutations(facts) {
            let played = Playback(order)
            #expect(played.isAnnouncedOnce)
            #expect(played.access == TransferOracle(facts).access)
            #expect(Set(played.numbers.keys).subtracting([direct]) == always)
            let isExcepted = played.numbers[direct] != nil
            if isExcepted { exceptions += 1 }
            let voided = VoidedTransfer(reason: .thirdHolder(otherUser), from: anonymous, to: user, count: 1)
            #expect(played.voids == (isExcepted ? [voided] : []))
        }
        #expect(exceptions > 0 && Playback(facts).voids.isEmpty)
    }

    @Test("A chain that one late fact reveals is announced in the order in which it happened")
    func chainOrder() {
        var playback = Playback([
            .activate(user, seconds(0), until: end), .activate(anonymous, seconds(2_000), until: end),
        ])
        let revealed = playback.play(.activate(otherUser, seconds(1_000), until: end))
        #expect(revealed.announced.map(\.from) == [user, otherUser])
        #expect(revealed.announced.map(\.to) == [otherUser, anonymous])
    }
}
