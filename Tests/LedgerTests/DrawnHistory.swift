import Vocabulary

@testable import Ledger

/// Draws what webhooks of one history say, in the order of their arrival.
struct DrawnHistory {
    static let people: [Holder] = [
        .anonymous("device"), .anonymous("tablet"), .user("ann"), .user("bob"), .user("cleo"),
    ]

    /// In what time a history lies, and how late its webhooks come.
    enum Lateness: Sendable {
        /// All of twenty days, in any order: nothing is settled (`Limits.retryHorizonMilliseconds`).
        case within
        /// Months, each webhook up to 20 days late.
        case retried
        /// All of forty days, in any order.
        case beyondRetries
    }

    let source: String
    let environment: String
    let lateness: Lateness
    var dice: Dice
    private var count = 0
    /// Hours since the first event.
    private var newest: Int64 = 0
    /// Of the event before.
    private var last: Timestamp?

    init(_ source: String, _ environment: String, _ lateness: Lateness, seed: UInt64) {
        self.source = source
        self.environment = environment
        self.lateness = lateness
        dice = Dice(state: seed)
    }

    /// Now and then that of the event before, or within a minute of it: there a loss says who of two was first.
    private mutating func time() -> Timestamp {
        let time: Timestamp
        if let last, dice.chance(10), let more = ([0, 5, 60_000] as [Int64]).randomElement(using: &dice) {
            time = last.advanced(byMilliseconds: more)
        } else {
            time = hour()
        }
        last = time
        return time
    }

    private mutating func hour() -> Timestamp {
        switch lateness {
        case .within: return seconds(Int64.random(in: 0..<480, using: &dice) * 3_600)
        case .beyondRetries: return seconds(Int64.random(in: 0..<960, using: &dice) * 3_600)
        case .retried:
            newest += Int64.random(in: 0..<96, using: &dice)
            let late = dice.chance(40) ? Int64.random(in: 0..<480, using: &dice) : 0
            return seconds(max(newest - late, 0) * 3_600)
        }
    }

    private mutating func holder() -> Holder { Self.people.randomElement(using: &dice)! }

    mutating func next(_ number: Int) -> [Event] { (0..<number).map { _ in next() } }

    private mutating func install() -> String { dice.chance(50) ? "device" : "tablet" }

    private mutating func user() -> String { ["ann", "bob", "cleo"].randomElement(using: &dice)! }

    mutating func next() -> Event {
        count += 1
        return switch source {
        case "store": store()
        case "shared": shared()
        default: exclusive()
        }
    }

    private func bought(
        _ purchase: String, _ facts: [Fact], at: Timestamp, until: Timestamp?, transaction: String,
        kind: Purchase.Kind = .subscription, product: String? = "gold", tokens: [KnownToken] = []
    ) -> Event {
        let isRefund = facts.first?.isRevoked == true
        return Event(
            scope: Scope(source: source, app: "app.one", environment: environment),
            vendorEventID: "\(environment).\(count)", name: "EVENT",
            type: isRefund ? "SUBSCRIPTION_REFUNDED_REVOKED" : "EVENT",
            holder: facts.first?.holder ?? .user("ann"), occurredAt: at,
            purchase: Purchase(
                key: purchase, kind: kind, store: "APPLE_APP_STORE", product: product, plan: nil,
                subscriptionID: nil),
            transaction: Transaction(
                storeTransactionID: transaction, storeOriginalTransactionID: purchase, purchasedAt: at,
                effectiveNextRenewalAt: until, offerType: count % 3 == 0 ? "FREE_TRIAL" : nil, status: nil),
            facts: facts, tokens: tokens,
            body: Array(
                #"{"n":\#(count),"previous_offer_type":"\#(count % 5 == 0 ? "INTRO_OFFER" : "NONE")"}"#.utf8)
        )
    }

    private func change(_ change: HolderChange, by holder: Holder, at: Timestamp, _ link: HolderLink?) -> Event {
        Event(
            scope: Scope(source: source, app: "app.one", environment: environment),
            vendorEventID: "\(environment).\(count)", name: "CHANGE", type: "CHANGE", holder: holder,
            occurredAt: at, purchase: nil, transaction: nil, change: change, links: link.map { [$0] } ?? [],
            body: Array(#"{"n":\#(count)}"#.utf8))
    }

    private mutating func exclusive() -> Event {
        let (at, dies) = (time(), dice.chance(20))
        let until = dies ? at.advanced(byMilliseconds: 3_600_000) : at.advanced(byMilliseconds: 30 * 86_400_000)
        let purchase = dice.chance(60) ? "p1" : dice.chance(50) ? "p2" : "once"
        let (one, other) = (holder(), holder())
        switch Int.random(in: 0..<10, using: &dice) {
        case 0:
            let (from, to) = (install(), user())
            return change(
                .move(from: [.anonymous(from)], to: .user(to), isNative: false), by: .user(to), at: at,
                HolderLink(anonymousID: from, userID: to, until: dice.chance(50) ? until : nil))
        case 1: return change(.move(from: [one], to: other, isNative: true), by: other, at: at, nil)
        case 2 where purchase != "once":
            let fact =
                dice.chance(50)
                ? Fact.transferred(one, to: other, at, until: until)
                : Fact.received(one, from: other, at, until: until)
            return bought(purchase, [fact], at: at, until: until, transaction: "t\(count)")
        case 3, 4:
            let loss = Fact.deactivate(one, at, until: until, revoked: dice.chance(30))
            return bought(
                purchase, [loss], at: at, until: until, transaction: "t\(count % 4)",
                kind: purchase == "once" ? .oneTime : .subscription)
        default:
            let isFamily = dice.chance(15)
            let gain = Fact(kind: .gain, holder: one, at: at, until: until, isFamilyShared: isFamily)
            return bought(
                purchase, [gain], at: at, until: until, transaction: "t\(count % 4)",
                kind: purchase == "once" && dice.chance(50) ? .oneTime : .subscription,
                product: dice.chance(70) ? "gold" : nil)
        }
    }

    private mutating func store() -> Event {
        let (at, purchase) = (time(), dice.chance(60) ? "p1" : "p2")
        let until = at.advanced(byMilliseconds: dice.chance(20) ? 3_600_000 : 30 * 86_400_000)
        let isGiven = dice.chance(25)
        let own = isGiven ? Holder.anonymous(install()) : .anonymous("customer")
        let token = KnownToken(
            token: KeyHash.body(Array("\(environment) \(purchase) \(count % 3)".utf8)), first: purchase,
            environment: environment,
            isReplaced: false)
        func said(_ facts: [Fact]) -> Event {
            bought(
                purchase, facts, at: at, until: until, transaction: "t\(count % 4)",
                kind: purchase == "p2" ? .oneTime : .subscription, tokens: [token])
        }
        switch Int.random(in: 0..<10, using: &dice) {
        case 0, 1:
            let to = user()
            return change(
                .move(from: [own], to: .user(to), isNative: false), by: .user(to), at: at,
                HolderLink(anonymousID: own.id, userID: to))
        case 2: return said([Fact(kind: .naming, holder: .user(user()), at: at)])
        case 3, 4: return said([Fact(kind: .gain, holder: .user(user()), at: at, until: until)])
        case 5: return said([Fact(kind: .loss, holder: .user(user()), at: at, until: until)])
        case 6, 7:
            return said([
                Fact(
                    kind: .loss, holder: own, at: at, until: until, isRevoked: dice.chance(30), isNamed: false,
                    isGiven: isGiven)
            ])
        default:
            return said([Fact(kind: .gain, holder: own, at: at, until: until, isNamed: false, isGiven: isGiven)])
        }
    }

    private mutating func shared() -> Event {
        let (at, purchase, install) = (time(), dice.chance(60) ? "p1" : "p2", install())
        let until = at.advanced(byMilliseconds: 30 * 86_400_000)
        let holder = Holder.anonymous(install)
        // Of a purchase that nobody was ever stated to have there is no line: somebody has each first.
        if count <= 2 {
            let gain = Fact.activate(holder, at, until: until)
            return bought("p\(count)", [gain], at: at, until: until, transaction: "t\(count)")
        }
        switch Int.random(in: 0..<8, using: &dice) {
        case 0, 1: return change(.identify(install: install, identity: user()), by: holder, at: at, nil)
        case 2:
            let strategy: RestoreStrategy = dice.chance(70) ? .transfer : .copy
            return change(
                .restore(install: install, transactions: [purchase], strategy: strategy), by: holder, at: at, nil)
        case 3:
            return bought(
                purchase, [.deactivate(holder, at, until: at)], at: at, until: at, transaction: "t\(count % 4)")
        default:
            return bought(
                purchase, [.activate(holder, at, until: until)], at: at, until: until, transaction: "t\(count % 4)")
        }
    }
}
