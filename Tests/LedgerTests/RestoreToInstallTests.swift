import Testing
import Vocabulary

@testable import Ledger

/// Restores of which the store knows nothing, to installs under whose token its events stand. Oracle: what
/// posthouse-api(7) promises, by hand: whoever restored it has it until somebody else does, and a repeated token takes
/// nothing back.
@Suite("Restores to an install that the purchase knows")
struct RestoreToInstallTests {
    private enum Step {
        /// A nameless gain or loss under the token of an install; nil: under no token.
        case said(Fact.Kind, Holder?, day: Int64, until: Int64)
        /// A nameless gain, and the account that the store repeats.
        case repeated(Holder, day: Int64)
        case bought(Holder, day: Int64, until: Int64)
        /// As a line of an import states it.
        case lost(Holder, day: Int64)
        case restored(Holder, day: Int64)
        case linked(Holder, to: Holder, day: Int64)
    }

    private static let own = Holder.anonymous("2000000123456789")
    private static let (a, b) = (Holder.anonymous("install-a"), Holder.anonymous("install-b"))

    private static func at(_ day: Int64) -> Timestamp { seconds(day * 86_400) }

    private static func record(
        _ step: Step, in state: PurchaseState, kind: Purchase.Kind = .subscription
    ) -> Resolution {
        var (facts, moves): ([Fact], [KeptMove]) = ([], [])
        switch step {
        case .said(let kind, let install, let day, let until):
            facts = [
                Fact(
                    kind: kind, holder: install ?? own, at: at(day), until: at(until), isNamed: false,
                    isGiven: install != nil)
            ]
        case .repeated(let holder, let day):
            facts = [
                Fact(kind: .said, holder: holder, at: at(day)),
                Fact(kind: .gain, holder: own, at: at(day), isNamed: false),
            ]
        case .bought(let holder, let day, let until): facts = [.activate(holder, at(day), until: at(until))]
        case .lost(let holder, let day): facts = [.deactivate(holder, at(day))]
        case .restored(let to, let day): moves = [KeptMove(at: at(day), from: nil, to: to, isLogin: false)]
        case .linked(let from, let to, let day): moves = [KeptMove(at: at(day), from: from, to: to, isLogin: true)]
        }
        return TransferResolution.resolve(state, facts, moves: moves, kind: kind, mayLackName: true)
    }

    /// Plays a history in its order: who has the purchase after each step; and in every order: who has it in the end.
    private func expect(
        _ steps: [(step: Step, has: Holder?)], passed: [(Holder, Holder)]?, kind: Purchase.Kind = .subscription,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        var state = PurchaseState()
        var announced: [[Holder]] = []
        for (number, (step, has)) in steps.enumerated() {
            let resolution = Self.record(step, in: state, kind: kind)
            state = try PurchaseState(bytes: resolution.state.bytes)
            announced += resolution.announced.map { [$0.from, $0.to] }
            #expect(Self.active(state) == has.map { [$0] } ?? [], "step \(number)", sourceLocation: sourceLocation)
        }
        if let passed { #expect(announced == passed.map { [$0.0, $0.1] }, sourceLocation: sourceLocation) }
        for order in permutations(steps.map(\.step)) {
            var state = PurchaseState()
            for step in order { state = Self.record(step, in: state, kind: kind).state }
            let expected = steps.last?.has.map { [$0] } ?? []
            #expect(Self.active(state) == expected, "\(order)", sourceLocation: sourceLocation)
        }
    }

    private static func active(_ state: PurchaseState) -> [Holder] {
        Timeline(state).access.filter(\.value.isActive).map(\.key)
    }

    @Test("Restored on the install that bought it, after a login, it is that install's, also when it is renewed")
    func back() throws {
        try expect(
            [
                (.said(.gain, Self.a, day: 0, until: 10), Self.a), (.linked(Self.a, to: user, day: 1), user),
                (.restored(Self.a, day: 2), Self.a), (.said(.gain, Self.a, day: 9, until: 20), Self.a),
            ], passed: [(Self.a, user), (user, Self.a)])
    }

    @Test("Restored on another install and back again; a login passes it on from there")
    func forthAndBack() throws {
        try expect(
            [
                (.said(.gain, Self.a, day: 0, until: 10), Self.a), (.restored(Self.b, day: 1), Self.b),
                (.restored(Self.a, day: 2), Self.a), (.said(.gain, Self.a, day: 9, until: 20), Self.a),
                (.linked(Self.a, to: user, day: 11), user), (.said(.gain, Self.a, day: 19, until: 30), user),
            ], passed: [(Self.a, Self.b), (Self.b, Self.a), (Self.a, user)])
    }

    @Test("A token that comes only after the restore to its install changes nothing")
    func knownLater() throws {
        try expect(
            [
                (.said(.gain, Self.a, day: 0, until: 10), Self.a), (.restored(Self.b, day: 1), Self.b),
                (.said(.gain, Self.a, day: 9, until: 20), Self.b), (.said(.gain, Self.b, day: 19, until: 30), Self.b),
            ], passed: [(Self.a, Self.b)])
    }

    @Test("Bought anew on another install and restored on the first, a renewal takes nothing back")
    func boughtBetween() throws {
        try expect(
            [
                (.said(.gain, Self.a, day: 0, until: 10), Self.a), (.said(.gain, Self.b, day: 1, until: 11), Self.b),
                (.restored(Self.a, day: 2), Self.a), (.said(.gain, Self.b, day: 9, until: 20), Self.a),
            ], passed: [(Self.a, Self.b), (Self.b, Self.a)])
    }

    @Test("What is unpaid or has ended passes on without access, which the next payment gives")
    func ended() throws {
        try expect(
            [
                (.bought(user, day: 0, until: 30), user), (.said(.loss, nil, day: 20, until: 60), nil),
                (.restored(Self.b, day: 22), nil), (.said(.gain, nil, day: 25, until: 60), Self.b),
            ], passed: [(user, Self.b)])
        try expect(
            [
                (.bought(user, day: 0, until: 365), user), (.said(.loss, nil, day: 2, until: 365), nil),
                (.restored(Self.b, day: 10), nil), (.linked(Self.b, to: otherUser, day: 11), nil),
                (.said(.gain, nil, day: 12, until: 365), otherUser),
            ], passed: [(user, Self.b), (Self.b, otherUser)])
    }

    @Test("While it is unpaid no restore and no login gives access, whoever had it before")
    func unpaid() throws {
        try expect(
            [
                (.bought(user, day: 0, until: 60), user), (.bought(otherUser, day: 1, until: 60), otherUser),
                (.said(.loss, nil, day: 20, until: 60), nil), (.restored(user, day: 22), nil),
            ], passed: [(user, otherUser), (otherUser, user)])
        try expect(
            [
                (.bought(user, day: 0, until: 60), user), (.restored(otherUser, day: 1), otherUser),
                (.said(.loss, nil, day: 20, until: 60), nil), (.restored(user, day: 22), nil),
                (.restored(Self.b, day: 23), nil),
            ], passed: [(user, otherUser), (otherUser, user), (user, Self.b)])
        try expect(
            [
                (.said(.gain, Self.a, day: 0, until: 60), Self.a), (.linked(Self.a, to: otherUser, day: 1), otherUser),
                (.said(.loss, Self.a, day: 20, until: 60), nil), (.restored(Self.a, day: 22), nil),
                (.linked(Self.a, to: user, day: 23), nil), (.said(.gain, Self.a, day: 24, until: 60), user),
            ], passed: [(Self.a, otherUser), (otherUser, Self.a), (Self.a, user)])
    }

    @Test("Restored while its end is overdue, it is the restorer's as it was the holder's, and so is the renewal")
    func overdue() throws {
        try expect(
            [
                (.bought(user, day: 0, until: 30), user), (.restored(Self.b, day: 31), Self.b),
                (.said(.gain, nil, day: 32, until: 62), Self.b),
            ], passed: [(user, Self.b)])
        // The same for whoever had it before.
        try expect(
            [
                (.bought(user, day: 0, until: 30), user), (.bought(otherUser, day: 1, until: 30), otherUser),
                (.restored(user, day: 31), user),
            ], passed: [(user, otherUser), (otherUser, user)])
    }

    @Test("An end takes what was overdue from whom a login passed it on to, and one before its restore from everybody")
    func overdueEnded() throws {
        try expect(
            [
                (.bought(user, day: 0, until: 30), user), (.restored(Self.b, day: 31), Self.b),
                (.linked(Self.b, to: otherUser, day: 32), otherUser), (.said(.loss, nil, day: 33, until: 30), nil),
            ], passed: [(user, Self.b), (Self.b, otherUser)])
        try expect(
            [
                (.bought(user, day: 0, until: 30), user), (.said(.loss, nil, day: 30, until: 30), nil),
                (.restored(Self.b, day: 31), nil), (.said(.gain, nil, day: 32, until: 62), Self.b),
            ], passed: [(user, Self.b)])
    }

    @Test("A login of an install that an import named as the holder passes on what it has")
    func imported() throws {
        try expect(
            [
                (.linked(Self.a, to: user, day: 0), nil), (.bought(Self.a, day: 1, until: 11), Self.a),
                (.said(.gain, Self.a, day: 9, until: 20), user),
            ], passed: nil)
    }

    @Test("A one-time purchase is restored, too, and back again; a login passes it on to nobody, a refund ends it")
    func oneTime() throws {
        try expect(
            [
                (.said(.gain, Self.a, day: 0, until: 10), Self.a), (.restored(Self.b, day: 1), Self.b),
                (.restored(Self.a, day: 2), Self.a), (.linked(Self.a, to: user, day: 3), Self.a),
                (.said(.loss, Self.b, day: 5, until: 5), nil),
            ], passed: [(Self.a, Self.b), (Self.b, Self.a)], kind: .oneTime)
    }

    @Test("The account that the store repeats takes no one-time purchase back; a refund ends it for whoever has it")
    func oneTimeRepeated() throws {
        try expect(
            [
                (.repeated(user, day: 0), user), (.restored(Self.b, day: 1), Self.b), (.repeated(user, day: 2), Self.b),
                (.said(.loss, nil, day: 3, until: 3), nil),
            ], passed: [(user, Self.b)], kind: .oneTime)
    }

    @Test("A one-time purchase that was refunded is restored to nobody")
    func oneTimeRefunded() throws {
        try expect(
            [
                (.said(.gain, Self.a, day: 0, until: 10), Self.a), (.said(.loss, nil, day: 1, until: 1), nil),
                (.restored(Self.b, day: 2), nil),
            ], passed: [], kind: .oneTime)
    }

    @Test("Of two who have a one-time purchase, a restore takes it from the last that it was given to")
    func oneTimeOfTwo() {
        expectOfTwo(.restored(Self.b, day: 2), [user, Self.b])
    }

    @Test("Restored by one of two who have it already, a one-time purchase stays with both")
    func oneTimeOfTwoRestored() {
        expectOfTwo(.restored(user, day: 2), [user, otherUser])
        expectOfTwo(.restored(otherUser, day: 2), [user, otherUser])
    }

    /// Who has a one-time purchase of two users after a restore, in every order; and after a refund nobody has it.
    private func expectOfTwo(_ restore: Step, _ expected: Set<Holder>) {
        let steps: [Step] = [.bought(user, day: 0, until: 10), .bought(otherUser, day: 1, until: 10), restore]
        for order in permutations(steps) {
            var state = PurchaseState()
            for step in order { state = Self.record(step, in: state, kind: .oneTime).state }
            #expect(Set(Self.active(state)) == expected, "\(order)")
            state = Self.record(.said(.loss, nil, day: 3, until: 3), in: state, kind: .oneTime).state
            #expect(Self.active(state) == [], "\(order)")
        }
    }

    @Test("A one-time purchase that somebody was named for and lost is restored to nobody, whatever its own holder had")
    func oneTimeLost() throws {
        try expect(
            [
                (.said(.gain, nil, day: 0, until: 10), Self.own), (.bought(user, day: 1, until: 10), user),
                (.lost(user, day: 2), nil), (.restored(Self.b, day: 3), nil),
            ], passed: [], kind: .oneTime)
    }

    @Test("Access that a family shares is restored, too")
    func familyShared() {
        func shared(_ kind: Fact.Kind, day: Int64) -> Fact {
            Fact(kind: kind, holder: Self.own, at: Self.at(day), isFamilyShared: true, isNamed: false)
        }
        var state = PurchaseState()
        for (fact, install) in [(shared(.gain, day: 0), Self.b), (shared(.gain, day: 2), Self.a)] {
            state = TransferResolution.resolve(state, fact, kind: .subscription, mayLackName: true).state
            let day: Int64 = install == Self.b ? 1 : 3
            state = Self.record(.restored(install, day: day), in: state).state
            #expect(Self.active(state) == [install])
        }
        state = TransferResolution.resolve(state, shared(.loss, day: 4), kind: .subscription, mayLackName: true).state
        #expect(Self.active(state) == [])
    }

    @Test("A one-time purchase stays with an install that it knows once its restore is older than any late webhook")
    func oneTimeSettled() throws {
        let steps: [Step] = [
            .said(.gain, Self.a, day: 0, until: 10), .bought(user, day: 1, until: 10), .restored(Self.a, day: 2),
            .linked(Self.a, to: otherUser, day: 30), .linked(Self.a, to: otherUser, day: 31),
        ]
        var state = PurchaseState()
        for step in steps {
            state = try PurchaseState(bytes: Self.record(step, in: state, kind: .oneTime).state.bytes)
        }
        #expect(!state.moves.contains { $0.from == nil } && Self.active(state) == [Self.a])
    }

    @Test("A restore that a version before kept without effect takes effect with the next webhook, announced once")
    func oneTimeOfVersionBefore() {
        var state = Self.record(.said(.gain, Self.a, day: 0, until: 10), in: PurchaseState(), kind: .oneTime).state
        state.insert(KeptMove(at: Self.at(1), from: nil, to: Self.b, isLogin: false))
        let next = Self.record(.said(.gain, Self.a, day: 2, until: 10), in: state, kind: .oneTime)
        #expect(next.announced == [AnnouncedTransfer(from: Self.a, to: Self.b, ordinal: 1, native: nil)])
        #expect(Self.active(next.state) == [Self.b])
        let last = Self.record(.said(.gain, Self.a, day: 3, until: 10), in: next.state, kind: .oneTime)
        #expect(last.announced.isEmpty && last.voids.isEmpty && Self.active(last.state) == [Self.b])
        // A refund says nothing of access to anybody.
        let refund = Self.record(.said(.loss, nil, day: 2, until: 2), in: state, kind: .oneTime)
        #expect(refund.announced.isEmpty && Self.active(refund.state) == [])
    }
}
