import Testing
import Vocabulary

@testable import Ledger

private typealias Pair = TransferOracle.Pair

/// Facts that name nobody: every order, every repetition and every cut into webhooks of small histories. Oracle:
/// `NamelessModel`.
@Suite("No name is no statement")
struct NamelessOrderTests {
    private static let own = Holder.anonymous("2000000123456789")
    private static let install = Holder.anonymous("install-1")
    private static let newInstall = Holder.anonymous("install-2")
    private static let hour: Int64 = 3_600
    private static let day: Int64 = 24 * hour

    private static func nameless(
        _ kind: Fact.Kind, _ at: Int64, until: Int64? = nil, revoked: Bool = false
    ) -> PurchaseStatement {
        .fact(
            Fact(
                kind: kind, holder: own, at: seconds(at), until: until.map { seconds($0) }, isRevoked: revoked,
                isNamed: false))
    }

    /// Of an install's own token.
    private static func given(_ holder: Holder, _ at: Int64, until: Int64) -> PurchaseStatement {
        .fact(
            Fact(kind: .gain, holder: holder, at: seconds(at), until: seconds(until), isNamed: false, isGiven: true))
    }

    private static func named(
        _ kind: Fact.Kind, _ holder: Holder, _ at: Int64, until: Int64? = nil, revoked: Bool = false
    ) -> PurchaseStatement {
        .fact(
            Fact(kind: kind, holder: holder, at: seconds(at), until: until.map { seconds($0) }, isRevoked: revoked))
    }

    /// What can be stated of a purchase at a time; a period lasts a day.
    private static let words: [@Sendable (Int64) -> PurchaseStatement] = [
        { nameless(.gain, $0, until: $0 + day) },
        { nameless(.gain, $0) },
        { nameless(.loss, $0, until: $0 - 5) },
        { nameless(.loss, $0, revoked: true) },
        { named(.gain, user, $0, until: $0 + day) },
        { named(.gain, otherUser, $0, until: $0 + day) },
        { named(.loss, user, $0, until: $0 - 5) },
        { named(.loss, otherUser, $0, revoked: true) },
        { .link(own, to: user, at: seconds($0)) },
        { .link(own, to: otherUser, at: seconds($0)) },
        { given(install, $0, until: $0 + day) },
        { .link(install, to: otherUser, at: seconds($0)) },
        { named(.naming, user, $0) },
        { named(.naming, otherUser, $0) },
        { given(newInstall, $0, until: $0 + day) },
        { named(.said, user, $0) },
        { named(.said, otherUser, $0) },
    ]

    /// Times between two statements: within the period, at a late renewal, on both sides of the day that one may be
    /// late.
    private static let gaps: [Int64] = [6 * hour, day + 5, day + 23 * hour, day + 25 * hour]

    /// Compares all orders and cuts of a history with the model, and their states with each other.
    private static func check(
        _ history: [PurchaseStatement], kind: Purchase.Kind = .subscription, isStore: Bool,
        orders: [[PurchaseStatement]], cuts: ([PurchaseStatement]) -> [[[PurchaseStatement]]]
    ) {
        let model = NamelessModel(history, kind: kind, isStore: isStore)
        let reference = NamelessPlayback(history.map { [$0] }, kind: kind, isStore: isStore)
        // One for each way to cut: orders that follow each other begin alike.
        var players: [NamelessPlayer] = []
        for order in orders {
            for (way, arrivals) in cuts(order).enumerated() {
                if way == players.count { players.append(NamelessPlayer(kind: kind, isStore: isStore)) }
                let played = players[way].play(arrivals)
                let isSame = played.knowledge == reference.knowledge
                let isSameToo = !played.voids.isEmpty || !reference.voids.isEmpty || played.state == reference.state
                if !played.agrees(with: model) || !isSame || !isSameToo {
                    Issue.record(
                        """
                        \(arrivals)
                        played \(String(decoding: played.state.bytes, as: UTF8.self)) \(played.numbers) \
                        \(played.access) \(played.voids)
                        in order \(String(decoding: reference.state.bytes, as: UTF8.self))
                        expected \(model.numbers) \(model.access)
                        """)
                    return
                }
            }
        }
    }

    /// Each statement repeated at once and at the end.
    private static func repetitions(_ order: [PurchaseStatement]) -> [[[PurchaseStatement]]] {
        [order.flatMap { [[$0], [$0]] }, order.map { [$0] } + order.reversed().map { [$0] }]
    }

    /// The distances are drawn: of the seventeen kinds three times over, every pair of distances is drawn often.
    @Test("Three statements of every kind, in every order")
    func three() {
        var dice = Dice(state: 67)
        for first in Self.words {
            for second in Self.words {
                for third in Self.words {
                    for near in Self.gaps.shuffled(using: &dice).prefix(2) {
                        let far = dice.chance(50) ? Self.day + 5 : Self.day + 25 * Self.hour
                        let history = [first(0), second(near), third(near + far)]
                        Self.check(history, isStore: true, orders: permutations(history)) { [$0.map { [$0] }] }
                    }
                }
            }
        }
    }

    private static func isNameless(_ statement: PurchaseStatement) -> Bool {
        if case .fact(let fact) = statement { !fact.isNamed } else { false }
    }

    private static func isGiven(_ statement: PurchaseStatement) -> Bool {
        if case .fact(let fact) = statement { fact.isGiven } else { false }
    }

    private static func isOfStore(_ statement: PurchaseStatement) -> Bool {
        isNameless(statement) && !isGiven(statement)
    }

    private static func random(_ length: Int, _ dice: inout Dice) -> [PurchaseStatement] {
        var (at, history): (Int64, [PurchaseStatement]) = (0, [])
        for _ in 0..<length {
            guard let word = words.randomElement(using: &dice), let gap = gaps.randomElement(using: &dice) else {
                continue
            }
            history.append(word(at))
            // Sometimes at one time.
            if !dice.chance(15) { at += gap }
        }
        return history
    }

    /// The cuts are drawn, one for each order: each is drawn often.
    @Test("Four statements, drawn: every order, cut anywhere, everything twice; also of a one-time purchase")
    func four() {
        var dice = Dice(state: 71)
        for _ in 0..<250 {
            let history = Self.random(4, &dice)
            let kind: Purchase.Kind = dice.chance(20) ? .oneTime : .subscription
            // Without its kind, a source is known by its first nameless fact.
            let isStore = !history.contains(where: Self.isNameless) || dice.chance(50)
            Self.check(history, kind: kind, isStore: isStore, orders: permutations(history)) { order in
                Array(partitions(order).shuffled(using: &dice).prefix(1)) + Self.repetitions(order)
            }
        }
    }

    @Test("Four statements and what comes months later: all of them are settled by then, whatever came first")
    func settled() {
        var dice = Dice(state: 73)
        for _ in 0..<300 {
            let history = Self.random(4, &dice)
            // Months after a link to it, the store's id is no news of whose the purchase is.
            if history.contains(where: Self.isGiven), !history.contains(where: Self.isOfStore) { continue }
            let later = 60 * Self.day
            let words = [0, 2, 4, 5, 6, 8].map { Self.words[$0] }
            guard let last = words.randomElement(using: &dice), let next = words.randomElement(using: &dice) else {
                continue
            }
            let end = [last(later), next(later + Self.day + 5)]
            let kind: Purchase.Kind = dice.chance(20) ? .oneTime : .subscription
            let orders = permutations(history).map { $0 + end }
            Self.check(history + end, kind: kind, isStore: true, orders: orders) { order in
                [order.map { [$0] }, [Array(order.prefix(4)), Array(order.suffix(2))]]
            }
        }
    }

    /// Recorded, because each link is looked up once: when its own holder is known.
    @Test("A link of an install counts, also if an import named another one that turns out to be an own holder, too")
    func namedInstall() {
        func given(_ holder: Holder, _ day: Int64) -> Event {
            let fact = Fact(
                kind: .gain, holder: holder, at: seconds(day * Self.day), until: seconds((day + 30) * Self.day),
                isNamed: false, isGiven: true)
            return .stating(fact, source: "store")
        }
        let history: [Event] = [
            .stating(.activate(Self.install, seconds(0)), source: "store"), given(Self.install, 2),
            .change(
                .move(from: [Self.newInstall], to: user, isNative: false), by: user, at: 3 * Self.day, source: "store"),
            given(Self.newInstall, 4),
        ]
        for order in permutations(history) { #expect(PlannedHistory(order).active("subs_1") == [user], "\(order)") }
    }

    @Test("Up to nine statements, drawn and shuffled")
    func many() {
        var dice = Dice(state: 79)
        for _ in 0..<1_000 {
            let history = Self.random(Int.random(in: 5...9, using: &dice), &dice)
            let orders = (0..<3).map { _ in history.shuffled(using: &dice) }
            Self.check(history, isStore: true, orders: orders) { [$0.map { [$0] }] }
        }
    }
}
