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
    private static let third = Holder.user("third")

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

    /// What an event says of whose the purchase is; what goes on is of whoever has it.
    private static func renewal(_ holder: Holder, on day: Int64) -> [PurchaseStatement] {
        [said(holder, day), nameless(.gain, day * Self.day, until: (day + 5) * Self.day)]
    }

    private static func bought(_ holder: Holder, on day: Int64) -> [PurchaseStatement] {
        [said(holder, day), gain(holder, day * Self.day, until: (day + 5) * Self.day)]
    }

    private static func said(_ holder: Holder, _ day: Int64) -> PurchaseStatement {
        .fact(Fact(kind: .said, holder: holder, at: seconds(day * Self.day)))
    }

    private let bought = Self.bought(user, on: 0)
    private let restored = [Self.gain(otherUser, 2 * Self.day, until: 5 * Self.day)]
    private let restores = [Pair(from: user, to: otherUser): 1]

    @Test("Repeated by renewals, it takes back nothing that a restore has passed on")
    func repeated() {
        expect([bought, Self.renewal(user, on: 5), Self.renewal(user, on: 10)], numbers: [:], active: user)
        expect(
            [bought, restored, Self.renewal(user, on: 5), Self.renewal(user, on: 10)],
            numbers: restores, active: otherUser)
        // Nor where it is not known what the store said before: a state of an older version, or a lost webhook.
        expect([[bought[1]], restored, Self.renewal(user, on: 5)], numbers: restores, active: otherUser)
    }

    @Test("Another one than before has the purchase from then on, and so has the one before where it comes again")
    func changed() {
        expect(
            [bought, restored, Self.renewal(user, on: 5), Self.renewal(Self.third, on: 10)],
            numbers: [Pair(from: user, to: otherUser): 1, Pair(from: otherUser, to: Self.third): 1],
            active: Self.third)
        expect(
            [bought, Self.renewal(Self.third, on: 5), Self.renewal(user, on: 10)],
            numbers: [Pair(from: user, to: Self.third): 1, Pair(from: Self.third, to: user): 1], active: user)
    }

    @Test("The first one has the purchase, if nobody was named before")
    func first() {
        expect([Self.renewal(user, on: 5)], numbers: [:], active: user)
        let unnamed = [Self.nameless(.gain, 0, until: 5 * Self.day)]
        expect([unnamed, Self.renewal(user, on: 5)], numbers: [Pair(from: Self.own, to: user): 1], active: user)
        // It says more than a naming of the same account: another naming counts no more.
        func named(_ holder: Holder, on day: Int64) -> PurchaseStatement {
            .fact(Fact(kind: .naming, holder: holder, at: seconds(day * Self.day)))
        }
        let invoice = [named(Self.third, on: 5), Self.nameless(.gain, 5 * Self.day, until: 10 * Self.day)]
        expect([[named(user, on: 0)], Self.renewal(user, on: 1), invoice], numbers: [:], active: user)
    }

    @Test("What ends is that of whoever has the purchase")
    func ended() {
        let ended = [Self.nameless(.loss, 6 * Self.day)]
        expect([bought, restored, Self.renewal(user, on: 5), ended], numbers: restores, active: nil)
    }

    @Test("What is bought again is the buyer's, who keeps it until the next restore")
    func boughtAgain() {
        expect(
            [bought, restored, Self.bought(user, on: 5), Self.renewal(user, on: 10)],
            numbers: [Pair(from: user, to: otherUser): 1, Pair(from: otherUser, to: user): 1], active: user)
        let byThird = Self.bought(Self.third, on: 3)
        expect(
            [bought, byThird, restored, Self.renewal(Self.third, on: 8)],
            numbers: [Pair(from: user, to: otherUser): 1, Pair(from: otherUser, to: Self.third): 1],
            active: Self.third)
        let restoredLater = [Self.gain(otherUser, 4 * Self.day, until: 8 * Self.day)]
        expect(
            [bought, byThird, restoredLater, Self.renewal(Self.third, on: 8)],
            numbers: [Pair(from: user, to: Self.third): 1, Pair(from: Self.third, to: otherUser): 1],
            active: otherUser)
    }
}
