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
        case bought(Holder, day: Int64, until: Int64)
        case restored(Holder, day: Int64)
        case linked(Holder, to: Holder, day: Int64)
    }

    private static let own = Holder.anonymous("2000000123456789")
    private static let (a, b) = (Holder.anonymous("install-a"), Holder.anonymous("install-b"))

    private static func at(_ day: Int64) -> Timestamp { seconds(day * 86_400) }

    private static func record(_ step: Step, in state: PurchaseState) -> Resolution {
        var (facts, moves): ([Fact], [KeptMove]) = ([], [])
        switch step {
        case .said(let kind, let install, let day, let until):
            facts = [
                Fact(
                    kind: kind, holder: install ?? own, at: at(day), until: at(until), isNamed: false,
                    isGiven: install != nil)
            ]
        case .bought(let holder, let day, let until): facts = [.activate(holder, at(day), until: at(until))]
        case .restored(let to, let day): moves = [KeptMove(at: at(day), from: nil, to: to, isLogin: false)]
        case .linked(let from, let to, let day): moves = [KeptMove(at: at(day), from: from, to: to, isLogin: true)]
        }
        return TransferResolution.resolve(state, facts, moves: moves, kind: .subscription, mayLackName: true)
    }

    /// Plays a history in its order: who has the purchase after each step; and in every order: who has it in the end.
    private func expect(
        _ steps: [(step: Step, has: Holder?)], passed: [(Holder, Holder)]?,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        var state = PurchaseState()
        var announced: [[Holder]] = []
        for (number, (step, has)) in steps.enumerated() {
            let resolution = Self.record(step, in: state)
            state = try PurchaseState(bytes: resolution.state.bytes)
            announced += resolution.announced.map { [$0.from, $0.to] }
            #expect(Self.active(state) == has.map { [$0] } ?? [], "step \(number)", sourceLocation: sourceLocation)
        }
        if let passed { #expect(announced == passed.map { [$0.0, $0.1] }, sourceLocation: sourceLocation) }
        for order in permutations(steps.map(\.step)) {
            var state = PurchaseState()
            for step in order { state = Self.record(step, in: state).state }
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

    @Test("A login of an install that an import named as the holder passes on what it has")
    func imported() throws {
        try expect(
            [
                (.linked(Self.a, to: user, day: 0), nil), (.bought(Self.a, day: 1, until: 11), Self.a),
                (.said(.gain, Self.a, day: 9, until: 20), user),
            ], passed: nil)
    }
}
