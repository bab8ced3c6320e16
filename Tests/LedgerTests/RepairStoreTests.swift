import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Repair of purchases whose webhooks may name nobody: links that are kept, moves, installs and customers over months,
/// so that states are compacted. Oracle: the state that the webhooks gave one by one, as they came; where webhooks are
/// missing, the tables as they were.
@Suite("Repair: what the stores send", .serialized)
struct RepairStoreTests {
    /// Whom a store's webhooks name that name no account.
    enum Store: String, CaseIterable, Sendable {
        /// The purchase; installs if the app gives them (`account_token = "anonymous"`).
        case apple
        /// The purchase, by its first token.
        case googlePlay
        /// The customer, of all of its purchases; sessions name users.
        case stripe
    }

    private static let histories = 8
    private static let hour: Int64 = 3_600
    private static let day: Int64 = 24 * hour
    private static let users = [Holder.user("ann"), .user("ben")]
    private static let installs = [Holder.anonymous("install-1"), .anonymous("install-2")]

    /// One history: what a store says of two purchases, and what becomes of it.
    private struct History {
        let store: Store
        let environment: String
        var dice: Dice
        private var at: Int64 = 0
        private var number = 0

        init(_ store: Store, _ environment: String, _ dice: inout Dice) {
            self.store = store
            self.environment = environment
            self.dice = Dice(state: UInt64.random(in: 1 ... .max, using: &dice))
        }

        private func own(_ purchase: String) -> Holder { .anonymous(store == .stripe ? "cus_1" : "first-" + purchase) }

        private mutating func somebody() -> Holder { users.randomElement(using: &dice) ?? users[0] }

        /// The next webhook in the order of event times.
        mutating func next() -> Event {
            let (hour, day) = (RepairStoreTests.hour, RepairStoreTests.day)
            let gaps = [5, hour, day + 5, 9 * day, 31 * day]
            at += gaps.randomElement(using: &dice) ?? 5
            let purchase = dice.chance(70) ? "p1" : "p2"
            let own = own(purchase)
            switch Int.random(in: 0..<12, using: &dice) {
            case 0...4: return stating(.gain, nameless: own, of: purchase)
            case 5: return stating(.loss, nameless: own, of: purchase)
            case 6...8:
                let user = somebody()
                let kind: Fact.Kind = dice.chance(67) ? .gain : .loss
                return stating(kind, named: user, of: purchase)
            case 9 where store == .stripe: return session(own, of: purchase)
            case 9 where store == .apple:
                let install = installs.randomElement(using: &dice) ?? installs[0]
                return stating(.gain, nameless: install, isGiven: true, of: purchase)
            case 10 where store == .apple:
                let install = installs.randomElement(using: &dice) ?? installs[0]
                return link(install)
            default: return link(own)
            }
        }

        private mutating func stating(
            _ kind: Fact.Kind, nameless: Holder? = nil, named: Holder? = nil, isGiven: Bool = false, of purchase: String
        ) -> Event {
            let fact = Fact(
                kind: kind, holder: nameless ?? named ?? RepairStoreTests.users[0], at: seconds(at),
                until: kind == .gain ? seconds(at + 30 * RepairStoreTests.day) : nil,
                isRevoked: kind == .loss && dice.chance(20), isNamed: nameless == nil, isGiven: isGiven)
            return event(kind == .gain ? "RENEWED" : "EXPIRED", fact.holder, of: purchase, facts: [fact])
        }

        /// A checkout session: it names the user of its subscription, and links the customer.
        private mutating func session(_ own: Holder, of purchase: String) -> Event {
            let user = somebody()
            return event(
                "SESSION", user, of: purchase, facts: [Fact(kind: .naming, holder: user, at: seconds(at))],
                change: .move(from: [own], to: user, isNative: false),
                links: [HolderLink(anonymousID: own.id, userID: user.id)])
        }

        private mutating func link(_ own: Holder) -> Event {
            let user = somebody()
            return event(
                "LINK", user, of: nil, change: .move(from: [own], to: user, isNative: false),
                links: [HolderLink(anonymousID: own.id, userID: user.id)])
        }

        private mutating func event(
            _ name: String, _ holder: Holder, of purchase: String?, facts: [Fact] = [], change: HolderChange? = nil,
            links: [HolderLink] = []
        ) -> Event {
            number += 1
            return Event(
                scope: Scope(source: "store", app: "app.one", environment: environment),
                vendorEventID: "e\(number)", name: name, type: name, holder: holder, occurredAt: seconds(at),
                purchase: purchase.map {
                    Purchase(
                        key: $0, kind: .subscription, store: "S", product: "gold", plan: nil, subscriptionID: nil)
                },
                transaction: purchase.map {
                    Transaction(
                        storeTransactionID: "\($0)-\(number)", storeOriginalTransactionID: nil,
                        purchasedAt: seconds(at), effectiveNextRenewalAt: facts.first?.until, offerType: nil,
                        status: nil)
                },
                facts: facts, change: change, links: links, body: Array("{}".utf8))
        }

        /// In an order of arrival: each up to 20 days late.
        mutating func events(_ count: Int) -> [Event] {
            var late: [(event: Event, arrival: Int64)] = []
            for _ in 0..<count {
                let event = next()
                let delay = dice.chance(30) ? Int64.random(in: 0...20 * RepairStoreTests.day, using: &dice) : 0
                late.append((event, at + delay))
            }
            return late.sorted { $0.arrival < $1.arrival }.map(\.event)
        }
    }

    private static func record(
        _ store: Store, by daemon: Daemon, _ readings: Readings, seed: UInt64, histories count: Int = histories
    ) async {
        var dice = Dice(state: seed)
        var histories: [[Event]] = []
        for number in 0..<count {
            var history = History(store, "h\(number)", &dice)
            histories.append(history.events(Int.random(in: 4...24, using: &dice)))
        }
        // The next webhooks of all histories together: they concern different purchases and holders.
        for round in 0..<(histories.map(\.count).max() ?? 0) {
            let events = histories.filter { round < $0.count }.map { $0[round] }
            readings.remember(events)
            await daemon.record(events)
        }
    }

    @Test(
        "A sound purchase is said to be sound, and rebuilt it is the same, whatever names its holders",
        arguments: Store.allCases)
    func equal(store: Store) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let readings = Readings()
            await Self.record(store, by: daemon, readings, seed: 14)
            let before = try ledger.picture()
            for report in try await ledger.repairAll(readings, by: daemon) {
                #expect(report.verdict == .sound && report.transfers.isEmpty, "\(report)")
            }
            #expect(try ledger.picture() == before)
            try ledger.damage()
            for report in try await ledger.repairAll(readings, by: daemon) {
                #expect(report.verdict == .rebuilt && !report.isPartial && report.transfers.isEmpty, "\(report)")
                #expect(report.access.isEmpty, "\(report)")
            }
            #expect(try ledger.picture() == before)
        }
    }

    @Test("So it is once upkeep has pruned the links that newer ones have replaced", arguments: Store.allCases)
    func pruned(store: Store) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let readings = Readings()
            await Self.record(store, by: daemon, readings, seed: 15, histories: 13)
            let before = try ledger.picture()
            let changes = try ledger.psql("SELECT count(*) FROM holder_changes")
            try ledger.psql(
                """
                UPDATE holder_changes SET received_at = now() - interval '30 days';
                UPDATE events SET received_at = now() - interval '30 days'
                """)
            let upkeep = Upkeep(
                pool: daemon.pool,
                retention: Retention(
                    attempts: .seconds(2_592_000), events: .seconds(2_592_000), duplicates: .seconds(2_592_000)),
                alwaysNaming: [], mayLackName: ["store"])
            try await upkeep.pruneChanges()
            #expect(try ledger.psql("SELECT count(*) FROM holder_changes") != changes)
            for report in try await ledger.repairAll(readings, by: daemon) {
                #expect(report.verdict == .sound && report.transfers.isEmpty, "\(report)")
            }
            #expect(try ledger.picture() == before)
            try ledger.damage()
            for report in try await ledger.repairAll(readings, by: daemon) {
                #expect(report.verdict == .rebuilt && !report.isPartial && report.access.isEmpty, "\(report)")
            }
            #expect(try ledger.picture() == before)
        }
    }

    @Test(
        "Webhooks are missing: a state that can be read stays; of one that cannot, everybody's access stays",
        arguments: Store.allCases, [100, 50, 25])
    func missing(store: Store, percent: Int) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let readings = Readings()
            await Self.record(store, by: daemon, readings, seed: 17)
            let access = try ledger.knownAccess()
            try ledger.loseWebhooks(percent: percent)
            let tables = try ledger.tables()
            for report in try await ledger.repairAll(readings, by: daemon) {
                #expect(report.verdict == .leftUnchanged || report.verdict == .sound, "\(report)")
            }
            #expect(try ledger.tables() == tables)
            try ledger.damage()
            for report in try await ledger.repairAll(readings, by: daemon) {
                #expect(report.verdict == .rebuilt && report.isPartial && report.access.isEmpty, "\(report)")
            }
            #expect(try ledger.knownAccess() == access)
        }
    }

    // MARK: One purchase

    private static let customer = Holder.anonymous("cus_1")

    private static func gain(_ holder: Holder, at: Int64) -> Event {
        let fact = Fact(
            kind: .gain, holder: holder, at: seconds(at), until: seconds(at + 30 * day), isNamed: !holder.isAnonymous)
        return .stating(fact, transaction: "t-\(at)", source: "store")
    }

    private static func loss(_ user: Holder, at: Int64) -> Event {
        .stating(Fact(kind: .loss, holder: user, at: seconds(at)), transaction: "t-\(at)", source: "store")
    }

    private static func naming(_ user: Holder, at: Int64) -> Event {
        .stating(Fact(kind: .naming, holder: user, at: seconds(at)), transaction: "t-\(at)", source: "store")
    }

    private static func link(to user: Holder, at: Int64) -> Event {
        .change(.move(from: [customer], to: user, isNative: false), by: user, at: at, source: "store")
    }

    /// What is recorded, and the times of what is lost.
    static let lost: [(events: [Event], lost: [Int64])] = [
        // The gain that named the user is lost; an older link of the customer is not.
        (
            [
                link(to: users[1], at: 0), gain(users[0], at: day), gain(customer, at: 2 * day),
                link(to: users[0], at: 3 * day),
            ], [day]
        ),
        // The gain that named the user is lost; a loss of a former user is not.
        (
            [
                gain(users[0], at: day), loss(users[1], at: 2 * day), gain(customer, at: 3 * day),
                loss(users[0], at: 4 * day),
            ], [day]
        ),
        // The first session and the renewal are lost; a later session, which only names the user, is not.
        ([naming(users[0], at: 0), gain(customer, at: day), naming(users[0], at: 2 * day)], [0, day]),
    ]

    @Test(
        "A purchase stays with the user whom a lost webhook named, also at the next renewal",
        arguments: lost.indices)
    func lostName(number: Int) async throws {
        let (events, lost) = Self.lost[number]
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let readings = Readings()
            await ledger.record(events, by: daemon, readings)
            let access = try ledger.knownAccess()
            for at in lost { try ledger.psql("DELETE FROM events WHERE store_transaction_id = 't-\(at)'") }
            try ledger.damage()
            let report = try await ledger.repair("subs_1", readings, by: daemon)
            #expect(report.isPartial && report.access.isEmpty, "\(report)")
            #expect(try ledger.knownAccess() == access)
            await daemon.record([Self.gain(Self.customer, at: 5 * Self.day)])
            #expect(try ledger.psql("SELECT holder FROM entitlements WHERE active") == "user:ann")
        }
    }
}
