import Testing
import Vocabulary

@testable import Ledger

private typealias Pair = TransferOracle.Pair

/// What stores send, as timelines. Oracles: the sentences of Domain.md, "Nameless facts", and `NamelessModel` in every
/// order.
@Suite("Facts that name nobody")
struct NamelessTests {
    private static let own = Holder.anonymous("2000000123456789")
    private static let day: Int64 = 86_400

    private static func nameless(
        _ kind: Fact.Kind, _ at: Int64, until: Int64? = nil, revoked: Bool = false
    ) -> PurchaseStatement {
        .fact(
            Fact(
                kind: kind, holder: own, at: seconds(at), until: until.map { seconds($0) }, isRevoked: revoked,
                isNamed: false))
    }

    private static func gain(_ holder: Holder, _ at: Int64, until: Int64? = nil) -> PurchaseStatement {
        .fact(.activate(holder, seconds(at), until: until.map { seconds($0) }))
    }

    private static func loss(_ holder: Holder, _ at: Int64, revoked: Bool = false) -> PurchaseStatement {
        .fact(.deactivate(holder, seconds(at), revoked: revoked))
    }

    /// Plays every order; of those that void nothing each gives the same.
    /// - Parameter voids: some orders announce what another statement then voids.
    private func expect(
        _ history: [PurchaseStatement], numbers: [TransferOracle.Pair: Int], active: [Holder],
        kind: Purchase.Kind = .subscription, isStore: Bool = true, voids: Bool = false,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let model = NamelessModel(history, kind: kind, isStore: isStore)
        #expect(model.numbers == numbers, sourceLocation: sourceLocation)
        let having = model.access.filter(\.value.isActive).map(\.key)
        #expect(having.sorted() == active.sorted(), sourceLocation: sourceLocation)
        for order in permutations(history) {
            let played = NamelessPlayback(order.map { [$0] }, kind: kind, isStore: isStore)
            #expect(played.agrees(with: model), "\(order)", sourceLocation: sourceLocation)
            #expect(voids || played.voids.isEmpty, "\(order)", sourceLocation: sourceLocation)
        }
    }

    @Test("A token that first shows at a renewal 5.3 s late, or at a recovery weeks later, is one transfer")
    func lateToken() {
        let end = 30 * Self.day
        let start = Self.nameless(.gain, 0, until: end)
        let renewal = PurchaseStatement.fact(
            .activate(user, seconds(end).advanced(byMilliseconds: 5_300), until: seconds(2 * end)))
        let toUser = [Pair(from: Self.own, to: user): 1]
        expect([start, renewal], numbers: toUser, active: [user])
        let retry = Self.nameless(.loss, 10 * Self.day, until: 10 * Self.day)
        let recovery = Self.gain(user, 28 * Self.day, until: 60 * Self.day)
        let trial = Self.nameless(.gain, 9 * Self.day, until: 10 * Self.day)
        expect([trial, retry, recovery], numbers: toUser, active: [user])
        expect([retry, recovery], numbers: toUser, active: [user])
    }

    @Test("A token that is missing from later events takes nothing back; their loss is that of the user")
    func lostToken() {
        let events = [
            Self.gain(user, 0, until: 1_000), Self.nameless(.gain, 900, until: 2_000),
            Self.nameless(.gain, 1_900, until: 3_000), Self.nameless(.loss, 3_005, until: 3_000),
        ]
        for length in 1...4 {
            expect(Array(events.prefix(length)), numbers: [:], active: length < 4 ? [user] : [])
        }
    }

    @Test(
        "Another account within a day after the end is a transfer, a millisecond more is a new start",
        arguments: [0, 1] as [Int64])
    func gap(more: Int64) {
        let (end, next) = (seconds(1_000), seconds(1_000 + Self.day).advanced(byMilliseconds: more))
        let history: [PurchaseStatement] = [
            .fact(.activate(user, seconds(0), until: end)), .fact(.activate(otherUser, next)),
        ]
        expect(history, numbers: more == 0 ? [Pair(from: user, to: otherUser): 1] : [:], active: [otherUser])
        // Of a source that always names somebody, neither is.
        expect(history, numbers: [:], active: [otherUser], isStore: false)
    }

    @Test(
        "Of two accounts of one time, the one that loses it up to a minute later was first, whatever their ids",
        arguments: [5, 60] as [Int64])
    func tie(late: Int64) {
        for (from, to) in [(user, otherUser), (otherUser, user)] {
            let history = [Self.gain(from, 0), Self.gain(to, 0), Self.loss(from, late)]
            for isStore in [true, false] {
                expect(history, numbers: [Pair(from: from, to: to): 1], active: [to], isStore: isStore)
            }
        }
    }

    @Test("REVOKED cuts every period: that of a nameless holder, too")
    func revoked() {
        let start = Self.nameless(.gain, 0, until: 30 * Self.day)
        expect(
            [start, Self.nameless(.loss, 1_000, revoked: true), Self.gain(user, 5_000)], numbers: [:], active: [user],
            voids: true)
        expect(
            [
                Self.gain(user, 0, until: 9_000), Self.nameless(.loss, 1_000, revoked: true),
                Self.gain(otherUser, 5_000),
            ],
            numbers: [:], active: [otherUser], voids: true)
    }

    @Test("A nameless loss switches off whoever has the purchase, also if somebody else was named last")
    func loss() {
        expect([Self.nameless(.gain, 0), Self.nameless(.loss, 500)], numbers: [:], active: [])
        expect(
            [Self.gain(user, 0, until: 9_000), Self.loss(otherUser, 1_000), Self.nameless(.loss, 2_000)],
            numbers: [:], active: [])
        // A refund that names the account first: nobody has it under the purchase's own id any more.
        expect(
            [Self.nameless(.gain, 0, until: 9_000), Self.loss(user, 1_000, revoked: true)], numbers: [:], active: [])
        expect(
            [Self.nameless(.gain, 0), Self.loss(user, 1_000)], numbers: [:], active: [], kind: .oneTime)
    }

    @Test("A link names the user from its time on, whenever it comes: before the purchase, within it, after its end")
    func link() {
        let link = PurchaseStatement.link(Self.own, to: user, at: seconds(1_000))
        let toUser = [Pair(from: Self.own, to: user): 1]
        expect([link, Self.nameless(.gain, 2_000, until: 3_000)], numbers: [:], active: [user])
        expect([Self.nameless(.gain, 0, until: 3_000), link], numbers: toUser, active: [user])
        expect(
            [Self.nameless(.gain, 0, until: 3_000), link, Self.nameless(.loss, 2_900)], numbers: toUser, active: [])
        let lapsed = [Self.nameless(.gain, 0, until: 500), Self.nameless(.loss, 505), link]
        expect(lapsed, numbers: [:], active: [])
        expect(lapsed + [Self.nameless(.gain, 9_000, until: 99_000)], numbers: toUser, active: [user])
        // One-time purchases do not move by themselves (I3), and a refund finds who has one.
        expect([Self.nameless(.gain, 0), link], numbers: [:], active: [Self.own], kind: .oneTime)
        expect(
            [Self.nameless(.gain, 0), link, Self.nameless(.loss, 5_000)], numbers: [:], active: [], kind: .oneTime)
    }

    @Test("A purchase that turns out to be a one-time purchase is the same as if that had been said first")
    func becomesOneTime() {
        let facts = [
            Fact(kind: .gain, holder: Self.own, at: seconds(0), isNamed: false), .activate(user, seconds(100)),
            Fact(kind: .loss, holder: Self.own, at: seconds(200), isNamed: false),
        ]
        func state(_ facts: [Fact], _ kind: Purchase.Kind) -> PurchaseState {
            facts.reduce(PurchaseState()) { state, fact in
                TransferResolution.resolve(state, fact, kind: kind, mayLackName: true).state
            }
        }
        for order in permutations(facts) {
            for length in 1...3 {
                let begun = Array(order.prefix(length))
                let converted = TransferResolution.oneTime(state(begun, .subscription)).state
                let (now, expected) = (Timeline(converted), Timeline(state(begun, .oneTime)))
                #expect(now.access == expected.access && now.transfers.isEmpty)
                #expect(converted.nameless == state(begun, .oneTime).nameless)
                #expect(converted.names == state(begun, .oneTime).names)
            }
        }
    }

    @Test("A link that is years older than the purchase still names its holder")
    func oldLink() {
        let years = 3 * 365 * Self.day
        let link = PurchaseStatement.link(Self.own, to: user, at: seconds(0))
        let later = [Self.nameless(.gain, years, until: years + 1_000), Self.nameless(.gain, years + 990)]
        expect([link] + later, numbers: [:], active: [user])
    }

    @Test("A purchase with a name of its own is not that of whoever its customer is linked to")
    func linkBesideName() {
        let renewal = Self.nameless(.gain, 900, until: 2_000)
        let link = PurchaseStatement.link(Self.own, to: otherUser, at: seconds(500))
        expect([Self.gain(user, 0, until: 1_000), link, renewal], numbers: [:], active: [user])
        expect(
            [Self.gain(user, 0, until: 1_000), link, renewal, Self.nameless(.loss, 1_900)], numbers: [:], active: [])
        // Named after the link, it passes from the one to the other, and stays there.
        let later = PurchaseStatement.link(Self.own, to: otherUser, at: seconds(1_500))
        expect(
            [Self.nameless(.gain, 0, until: 1_000), link, Self.gain(user, 800, until: 2_000), later],
            numbers: [Pair(from: Self.own, to: otherUser): 1, Pair(from: otherUser, to: user): 1], active: [user],
            voids: true)
        // A customer who is somebody else later: the purchase follows.
        expect(
            [
                Self.nameless(.gain, 0, until: 2_000), link, .link(Self.own, to: user, at: seconds(800)),
                Self.nameless(.gain, 1_900, until: 3_000),
            ],
            numbers: [Pair(from: Self.own, to: otherUser): 1, Pair(from: otherUser, to: user): 1], active: [user],
            voids: true)
    }

    @Test("An install's token names the holder until somebody is linked to it, and takes nothing back then")
    func givenToken() {
        let token = Holder.anonymous("install-1")
        func renewal(_ at: Int64, _ until: Int64) -> PurchaseStatement {
            .fact(
                Fact(
                    kind: .gain, holder: token, at: seconds(at), until: seconds(until), isNamed: false, isGiven: true))
        }
        let link = PurchaseStatement.link(token, to: user, at: seconds(500))
        let toUser = [Pair(from: token, to: user): 1]
        expect([renewal(0, 1_000), link, renewal(990, 2_000)], numbers: toUser, active: [user])
        // The store has lost it: the purchase is still that of the token, or of whoever is linked to it.
        let lost = Self.nameless(.gain, 990, until: 2_000)
        expect([renewal(0, 1_000), lost], numbers: [:], active: [token])
        expect([renewal(0, 1_000), link, lost, Self.nameless(.loss, 1_500)], numbers: toUser, active: [])
        // It came late.
        let start = Self.nameless(.gain, 0, until: 1_000)
        expect([start, renewal(990, 2_000)], numbers: [Pair(from: Self.own, to: token): 1], active: [token])
    }

    @Test("A newer install has the purchase, whoever the older one was linked to")
    func newInstall() {
        func gain(_ holder: Holder, _ at: Int64) -> PurchaseStatement {
            .fact(Fact(kind: .gain, holder: holder, at: seconds(at), isNamed: false, isGiven: true))
        }
        let (old, new) = (Holder.anonymous("install-1"), Holder.anonymous("install-2"))
        let link = PurchaseStatement.link(old, to: user, at: seconds(500))
        let passed = [Pair(from: old, to: user): 1, Pair(from: user, to: new): 1]
        let history = [gain(old, 0), link, gain(new, 1_000)]
        expect(history, numbers: passed, active: [new], voids: true)
        expect(history + [Self.nameless(.gain, 2_000)], numbers: passed, active: [new], voids: true)
        // That of the store's id is about the purchase as it is then.
        let all = PurchaseStatement.link(Self.own, to: otherUser, at: seconds(1_500))
        let store = Self.nameless(.gain, 2_000)
        expect(
            [gain(old, 0), gain(new, 1_000), all, store],
            numbers: [Pair(from: old, to: new): 1, Pair(from: new, to: otherUser): 1], active: [otherUser],
            voids: true)
    }

    @Test("An install that comes back is whoever the store's id was linked to while it had the purchase")
    func returningInstall() {
        func gain(_ holder: Holder, _ at: Int64) -> PurchaseStatement {
            .fact(Fact(kind: .gain, holder: holder, at: seconds(at), isNamed: false, isGiven: true))
        }
        let (old, new) = (Holder.anonymous("install-1"), Holder.anonymous("install-2"))
        let passed = [Pair(from: old, to: user): 1, Pair(from: user, to: new): 1, Pair(from: new, to: user): 1]
        // As if the link had named the install.
        for about in [old, Self.own] {
            let link = PurchaseStatement.link(about, to: user, at: seconds(500))
            let history = [gain(old, 0), Self.nameless(.gain, 100), link, gain(new, 1_000), gain(old, 2_000)]
            expect(history, numbers: passed, active: [user], voids: true)
        }
    }

    @Test("Of a one-time purchase, too, the install has it where the store lost its token")
    func oneTimeToken() {
        let token = Holder.anonymous("install-1")
        let gain = PurchaseStatement.fact(
            Fact(kind: .gain, holder: token, at: seconds(0), isNamed: false, isGiven: true))
        let refund = [gain, Self.nameless(.loss, 100, revoked: true)]
        expect(refund, numbers: [:], active: [], kind: .oneTime)
        expect(refund + [Self.nameless(.gain, 200)], numbers: [:], active: [token], kind: .oneTime)
        // A refund is one for everybody who has it.
        let both = [Self.gain(user, 0), Self.gain(otherUser, 50), Self.nameless(.loss, 100, revoked: true)]
        expect(both, numbers: [:], active: [], kind: .oneTime)
    }

    @Test("A ninth install is one like the first, whatever the order")
    func ninthInstall() {
        let gains = (0...PurchaseState.ownMax).map { index in
            Fact(
                kind: .gain, holder: .anonymous("install-\(index)"), at: seconds(Int64(index) * 40 * Self.day),
                isNamed: false, isGiven: true)
        }
        let last = Holder.anonymous("install-\(PurchaseState.ownMax)")
        var dice = Dice(state: 97)
        for _ in 0..<20 {
            var state = PurchaseState()
            for fact in gains.shuffled(using: &dice) {
                state = TransferResolution.resolve(state, fact, kind: .subscription, mayLackName: true).state
            }
            #expect(Timeline(state).access.filter(\.value.isActive).map(\.key) == [last])
            #expect(state.own.count == PurchaseState.ownMax && state.isOwn(last))
        }
    }

    @Test("What a session says of its own subscription stays, whoever the customer is linked to later")
    func naming() {
        let session = PurchaseStatement.fact(Fact(kind: .naming, holder: user, at: seconds(5)))
        let link = PurchaseStatement.link(Self.own, to: user, at: seconds(5))
        let other = PurchaseStatement.link(Self.own, to: otherUser, at: seconds(500))
        let start = Self.nameless(.gain, 0, until: 1_000)
        let toUser = [Pair(from: Self.own, to: user): 1]
        expect([start, session, link, other], numbers: toUser, active: [user], voids: true)
        expect(
            [session, link, other, Self.nameless(.gain, 6, until: 1_000), Self.nameless(.gain, 990, until: 2_000)],
            numbers: [:], active: [user], voids: true)
        // The subscription's own metadata count more.
        expect(
            [start, session, link, Self.gain(otherUser, 4, until: 1_000)],
            numbers: [Pair(from: Self.own, to: otherUser): 1], active: [otherUser], voids: true)
        expect([session, Self.nameless(.loss, 9)], numbers: [:], active: [])
    }

    @Test("A link behind a session of another user is kept while another session may come between, and not for ever")
    func linkBehindNaming() {
        func session(_ holder: Holder, _ at: Int64) -> PurchaseStatement {
            .fact(Fact(kind: .naming, holder: holder, at: seconds(at)))
        }
        let start = Self.nameless(.gain, 0, until: 30 * Self.day)
        let link = PurchaseStatement.link(Self.own, to: otherUser, at: seconds(500))
        // Whatever comes last, the link counts once it says the same as the purchase's own newest session.
        expect(
            [start, session(user, 5), session(otherUser, 100), link],
            numbers: [Pair(from: Self.own, to: otherUser): 1], active: [otherUser], voids: true)
        let renewals = (1...3).map { Self.nameless(.gain, $0 * 30 * Self.day, until: ($0 + 1) * 30 * Self.day) }
        let played = NamelessPlayback(([start, session(user, 5), link] + renewals).map { [$0] }, isStore: true)
        #expect(played.state.moves.isEmpty && !played.state.names.contains { $0.kind == .link })
        #expect(played.access.filter(\.value.isActive).map(\.key) == [user])
        // A gain under a name is never preceded: the link behind it is not kept at all.
        let named = NamelessPlayback([[start], [Self.gain(user, 5)], [link]], isStore: true)
        #expect(named.state.moves.isEmpty && !named.state.names.contains { $0.kind == .link })
    }

    @Test("Which of the links before the first fact are still stored makes no difference")
    func prunedLinks() {
        let fact = Self.nameless(.gain, 50 * Self.day, until: 80 * Self.day)
        let last = Self.nameless(.gain, 79 * Self.day, until: 110 * Self.day)
        let links = [0, 10].map { PurchaseStatement.link(Self.own, to: user, at: seconds($0 * Self.day)) }
        let all = NamelessPlayback((links + [fact, last]).map { [$0] }, isStore: true)
        let pruned = NamelessPlayback([[links[1]], [fact], [last]], isStore: true)
        #expect(all.state == pruned.state && all.access == pruned.access)
    }

    @Test("A late loss of a former holder does not make later facts that holder's")
    func formerHolder() {
        expect(
            [
                Self.gain(user, 0, until: 9_000), Self.gain(otherUser, 1_000, until: 9_000), Self.loss(user, 2_000),
                Self.nameless(.gain, 8_900, until: 20_000),
            ],
            numbers: [Pair(from: user, to: otherUser): 1], active: [otherUser])
    }

    /// As the App Store says it after an account token was set anew, of which no notification comes.
    @Test("A loss beside the name of another account is that of whoever was given the purchase by name")
    func lossBesideName() {
        func naming(_ at: Int64) -> PurchaseStatement {
            .fact(Fact(kind: .naming, holder: otherUser, at: seconds(at)))
        }
        let gain = Self.gain(user, 0, until: 9_000)
        for isRevoked in [true, false] {
            let loss = [naming(2_000), Self.nameless(.loss, 2_000, until: 9_000, revoked: isRevoked)]
            for kind in [Purchase.Kind.subscription, .oneTime] {
                expect([gain] + loss, numbers: [:], active: [], kind: kind)
                // Nobody was given it by name: it is that of the one whom the loss names.
                expect([Self.nameless(.gain, 0, until: 9_000)] + loss, numbers: [:], active: [], kind: kind)
            }
            expect(
                [gain, naming(1_000), Self.nameless(.gain, 1_000, until: 9_000)] + loss, numbers: [:], active: [])
        }
    }

    /// As Stripe says a renewal: the period begins and its invoice is made, in one second or another; the user is
    /// changed; the invoice is finalised with the new user in its copy of the metadata.
    @Test("A user who is changed between a period's beginning and its invoice is one transfer, in every order")
    func userInInvoice() {
        let until = 30 * Self.day
        let before = [Self.gain(user, -30 * Self.day, until: 0)]
        let once = [AnnouncedTransfer(from: user, to: otherUser, ordinal: 1, native: nil)]
        for madeAt in [-1, 0, 1] as [Int64] {
            let invoice = [
                PurchaseStatement.fact(Fact(kind: .naming, holder: otherUser, at: seconds(madeAt))),
                Self.nameless(.gain, madeAt, until: until),
            ]
            let webhooks = [[Self.gain(user, 0, until: until)], [Self.gain(otherUser, 1_800, until: until)], invoice]
            for order in permutations(webhooks) {
                let played = NamelessPlayback([before] + order, isStore: true)
                #expect(played.announced == once && played.voids.isEmpty, "\(madeAt) \(order)")
                #expect(played.access.filter(\.value.isActive).map(\.key) == [otherUser], "\(madeAt) \(order)")
            }
        }
    }

    @Test("What a revocation took back lasts no longer by the end that follows it")
    func endAfterRevocation() {
        let end = 9 * Self.day
        expect(
            [
                Self.gain(user, 0, until: end), Self.nameless(.loss, 1_000, revoked: true),
                Self.nameless(.loss, end + 5, until: end), Self.gain(otherUser, end + 3_600),
            ],
            numbers: [:], active: [otherUser], voids: true)
    }

    @Test("More names than are kept: an older fact that names nobody is of the first of them, not of nobody")
    func manyNames() {
        var state = PurchaseState()
        func play(_ fact: Fact) -> Resolution {
            let resolution = TransferResolution.resolve(state, fact, kind: .subscription, mayLackName: true)
            state = resolution.state
            return resolution
        }
        for day in 0..<40 as Range<Int64> {
            for holder in [user, otherUser] {
                let at = day * 3_600 + (holder == user ? 0 : 1_800)
                _ = play(.activate(holder, seconds(at), until: seconds(100 * Self.day)))
            }
        }
        #expect(state.names.count == PurchaseState.namesMax)
        let late = play(Fact(kind: .gain, holder: Self.own, at: seconds(2_000), isNamed: false))
        #expect(late.announced.allSatisfy { $0.from != Self.own } && late.access[Self.own]?.isActive == false)
        // What the store said last is not forgotten: it would be news again.
        var passed = PurchaseState()
        for hour in 0..<70 as Range<Int64> {
            let fact =
                hour == 0
                ? Fact(kind: .said, holder: user, at: seconds(0))
                : .activate(hour % 2 == 0 ? otherUser : .user("third"), seconds(hour * 3_600))
            passed = TransferResolution.resolve(passed, fact, kind: .subscription, mayLackName: true).state
        }
        let repeated = Fact(kind: .said, holder: user, at: seconds(70 * 3_600))
        passed = TransferResolution.resolve(passed, repeated, kind: .subscription, mayLackName: true).state
        #expect(passed.names.count == PurchaseState.namesMax)
        #expect(passed.account(at: repeated.at) == .user("third"))
        // The same names again and again leave all that says something.
        var calm = PurchaseState()
        for day in 0..<200 as Range<Int64> {
            calm =
                TransferResolution.resolve(
                    calm, .activate(user, seconds(day * 3_600)), kind: .subscription, mayLackName: true
                ).state
        }
        #expect(calm.names.first?.at == seconds(0) && calm.names.count <= PurchaseState.namesMax)
    }

    @Test("A hundred years of renewals that name nobody leave a few facts; a name then gets all of them at once")
    func hundredYears() throws {
        var state = PurchaseState()
        func play(_ fact: Fact) -> Resolution {
            let resolution = TransferResolution.resolve(state, fact, kind: .subscription, mayLackName: true)
            state = resolution.state
            return resolution
        }
        for month in 0..<1_200 as Range<Int64> {
            let at = month * 30 * Self.day
            let renewal = Fact(
                kind: .gain, holder: Self.own, at: seconds(at), until: seconds(at + 30 * Self.day), isNamed: false)
            for _ in 0..<2 { #expect(play(renewal).announced.isEmpty) }
            #expect(state.facts.count + state.nameless.count <= 5)
        }
        let login = play(.activate(user, seconds(1_200 * 30 * Self.day + 5)))
        #expect(login.announced == [AnnouncedTransfer(from: Self.own, to: user, ordinal: 1, native: nil)])
        #expect(login.access[user]?.isActive == true && login.access[Self.own]?.isActive == false)
        #expect(state.bytes.count < 1_000)
    }

    @Test("Years of renewals with and without a name, each up to 20 days late: the same as without compaction")
    func compactedAsWhole() {
        var dice = Dice(state: 89)
        for _ in 0..<40 {
            let history = Self.years(&dice)
            let model = NamelessModel(history, isStore: true)
            var states: Set<[UInt8]> = []
            for _ in 0..<3 {
                let arrivals = (history + history.filter { _ in dice.chance(30) })
                    .map { ($0, $0.at + Int64.random(in: 0...20 * Self.day * 1_000, using: &dice)) }
                    .sorted { $0.1 < $1.1 }.map { [$0.0] }
                let played = NamelessPlayback(arrivals, isStore: true)
                #expect(played.agrees(with: model), "\(arrivals)")
                #expect(played.state.facts.count < history.count * 2 / 3)
                states.insert(played.knowledge.bytes)
            }
            #expect(states.count == 1, "equal knowledge is equal, whatever was compacted when")
        }
    }

    /// Three years of monthly renewals, some named, some said by the store; a name that goes again; lapses; links.
    private static func years(_ dice: inout Dice) -> [PurchaseStatement] {
        var (history, start): ([PurchaseStatement], Int64) = ([], 0)
        for _ in 0..<36 {
            let until = start + 30 * day
            switch Int.random(in: 0..<10, using: &dice) {
            case 0: history.append(gain(dice.chance(50) ? user : otherUser, start, until: until))
            case 2:
                history.append(.fact(Fact(kind: .said, holder: dice.chance(50) ? user : otherUser, at: seconds(start))))
            case 1: history.append(.link(own, to: dice.chance(50) ? user : otherUser, at: seconds(start + 7 * day)))
            default: break
            }
            history.append(nameless(.gain, start + 5, until: until))
            if dice.chance(10) {
                history.append(nameless(.loss, until + 5, until: until, revoked: dice.chance(30)))
                start += Int64.random(in: 1...90, using: &dice) * day
            }
            start += 30 * day
        }
        return history
    }
}
