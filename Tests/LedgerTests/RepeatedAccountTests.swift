import Testing
import Vocabulary

@testable import Ledger

private typealias Pair = TransferOracle.Pair

/// What stores say in each event of whose a purchase is, and restores of which they know nothing. Oracle:
/// `NamelessModel`, and numbers by hand, in every order of the webhooks.
@Suite("Accounts that a store repeats")
struct RepeatedAccountTests {
    private static let own = Holder.anonymous("2000000123456789")
    private static let day: Int64 = 86_400

    private static func nameless(_ kind: Fact.Kind, _ at: Int64, until: Int64? = nil) -> PurchaseStatement {
        .fact(Fact(kind: kind, holder: own, at: seconds(at), until: until.map { seconds($0) }, isNamed: false))
    }

    private static func gain(_ holder: Holder, _ at: Int64, until: Int64) -> PurchaseStatement {
        .fact(.activate(holder, seconds(at), until: seconds(until)))
    }

    /// Plays webhooks in every order; in some they announce what another one then voids.
    private func expect(
        _ webhooks: [[PurchaseStatement]], numbers: [TransferOracle.Pair: Int], active: Holder?,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let model = NamelessModel(webhooks.flatMap { $0 }, isStore: true)
        #expect(model.numbers == numbers, sourceLocation: sourceLocation)
        #expect(
            model.access.filter(\.value.isActive).map(\.key) == (active.map { [$0] } ?? []),
            sourceLocation: sourceLocation)
        for order in permutations(webhooks) {
            let played = NamelessPlayback(order, isStore: true)
            #expect(played.agrees(with: model), "\(order)", sourceLocation: sourceLocation)
        }
    }

    @Test("An account that the store repeats takes back nothing that has passed on; another one than before does")
    func repeatedAccount() {
        let third = Holder.user("third")
        func renewal(_ holder: Holder, _ day: Int64) -> [PurchaseStatement] {
            [
                .fact(Fact(kind: .said, holder: holder, at: seconds(day * Self.day))),
                Self.nameless(.gain, day * Self.day, until: (day + 5) * Self.day),
            ]
        }
        func bought(_ holder: Holder, _ day: Int64) -> [PurchaseStatement] {
            [renewal(holder, day)[0], Self.gain(holder, day * Self.day, until: (day + 5) * Self.day)]
        }
        let passed = [Self.gain(otherUser, 2 * Self.day, until: 5 * Self.day)]
        let toOther = Pair(from: user, to: otherUser)
        expect([bought(user, 0), renewal(user, 5), renewal(user, 10)], numbers: [:], active: user)
        expect(
            [bought(user, 0), passed, renewal(user, 5), renewal(user, 10)], numbers: [toOther: 1], active: otherUser)
        // Also where nothing is known of what the store said before: a state of an older version, or a lost webhook.
        expect([[bought(user, 0)[1]], passed, renewal(user, 5)], numbers: [toOther: 1], active: otherUser)
        expect(
            [bought(user, 0), passed, renewal(user, 5), renewal(third, 10)],
            numbers: [toOther: 1, Pair(from: otherUser, to: third): 1], active: third)
        // After another one, the account of before is news again.
        expect(
            [bought(user, 0), renewal(third, 5), renewal(user, 10)],
            numbers: [Pair(from: user, to: third): 1, Pair(from: third, to: user): 1], active: user)
        // Whoever the store says first has it, if nobody was named before.
        expect([renewal(user, 5)], numbers: [:], active: user)
        let unnamed = [Self.nameless(.gain, 0, until: 5 * Self.day)]
        expect([unnamed, renewal(user, 5)], numbers: [Pair(from: Self.own, to: user): 1], active: user)
        // It says more than a naming of the same account: another naming counts no more.
        func named(_ holder: Holder, _ day: Int64) -> PurchaseStatement {
            .fact(Fact(kind: .naming, holder: holder, at: seconds(day * Self.day)))
        }
        let invoice = [named(third, 5), Self.nameless(.gain, 5 * Self.day, until: 10 * Self.day)]
        expect([[named(user, 0)], renewal(user, 1), invoice], numbers: [:], active: user)
        // What ends is that of whoever has it, and what is bought again the buyer's, who then keeps it.
        let ended = [Self.nameless(.loss, 6 * Self.day)]
        expect([bought(user, 0), passed, renewal(user, 5), ended], numbers: [toOther: 1], active: nil)
        expect(
            [bought(user, 0), passed, bought(user, 5), renewal(user, 10)],
            numbers: [toOther: 1, Pair(from: otherUser, to: user): 1], active: user)
        expect(
            [bought(user, 0), bought(third, 3), passed, renewal(third, 8)],
            numbers: [toOther: 1, Pair(from: otherUser, to: third): 1], active: third)
        let passedAgain = [Self.gain(otherUser, 4 * Self.day, until: 8 * Self.day)]
        expect(
            [bought(user, 0), bought(third, 3), passedAgain, renewal(third, 8)],
            numbers: [Pair(from: user, to: third): 1, Pair(from: third, to: otherUser): 1], active: otherUser)
    }
}
