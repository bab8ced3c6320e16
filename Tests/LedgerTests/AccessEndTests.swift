import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: `TimedAccess`, whose own test has the rule case by case.
@Suite("Ends by the clock", .serialized)
struct AccessEndTests {
    private struct Row: Sendable {
        let number: Int
        let isGranted: Bool
        /// Hours from now; nil: none is stated.
        let hours: Int64?
        let store: String
        let source: String
    }

    private static let hour: Int64 = 3_600_000
    private static let leeways = Leeways([
        .leaving("short", .lasting(2 * hour)), .leaving("off", .off), .leaving("none", .lasting(0)),
        .leaving("shop", .usual),
    ])

    /// Every combination; no end is within minutes of a boundary.
    private static let rows: [Row] = {
        var rows: [Row] = []
        for source in ["short", "off", "none", "gone"] {
            for store in ["APPLE_APP_STORE", "MANUAL"] {
                for isGranted in [true, false] {
                    for hours in [nil, 1, -1, -3, -23, -25] as [Int64?] {
                        rows.append(
                            Row(
                                number: rows.count, isGranted: isGranted, hours: hours, store: store, source: source))
                    }
                }
            }
        }
        return rows
    }()

    private static func fill(_ ledger: TestLedger) throws {
        for row in rows {
            let id = "md5('\(row.number)')::uuid"
            let end = row.hours.map { "(extract(epoch FROM now()) * 1000)::bigint + \($0 * hour)" } ?? "NULL"
            try ledger.psql(
                """
                INSERT INTO purchases VALUES (\(id), '\(row.source)', '', 'PRODUCTION', '\(row.store)', '\(row.number)',
                    'subscription', 'p\(row.number)', NULL, NULL, 1, '');
                INSERT INTO transactions VALUES ('old', \(id), NULL, 1, 2, 'NONE', NULL, 9, \(id)),
                    ('new', \(id), NULL, 2, \(end), 'NONE', NULL, 2, \(id));
                INSERT INTO entitlements (holder, purchase, active, as_of_ms, event)
                    VALUES ('user:jeff', \(id), \(row.isGranted), 1, 1)
                """)
        }
    }

    @Test("Pages answer by the rule, whole and cut, all and only the active ones")
    func pages() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try Self.fill(ledger)
            let now = try ledger.now()
            var active: Set<String> = []
            var overdue: Set<String> = []
            for row in Self.rows {
                let access = TimedAccess(
                    isGranted: row.isGranted, until: row.hours.map { now.advanced(byMilliseconds: $0 * Self.hour) },
                    store: row.store, leeway: Self.leeways[row.source])
                if access.isActive(at: now) { active.insert("\(row.number)") }
                if access.isOverdue(at: now) { overdue.insert("\(row.number)") }
            }
            #expect(active.count > 10 && overdue.count > 10 && active.count < Self.rows.count - overdue.count / 2)
            let lookup = HolderLookup(pool: daemon.pool, leeways: Self.leeways)
            let scope = LookupScope(environment: "PRODUCTION", source: nil)
            let all = try await lookup.entitlements(of: .holder(user), in: scope).entries
            #expect(all.count == Self.rows.count)
            #expect(Set(all.filter(\.isActive).map(\.purchase.key)) == active)
            #expect(Set(all.filter(\.isOverdue).map(\.purchase.key)) == overdue)
            let only = try await lookup.entitlements(of: .holder(user), in: scope, isActive: true).entries
            #expect(Set(only.map(\.purchase.key)) == active && only.allSatisfy(\.isActive))
            let others = try await lookup.entitlements(of: .holder(user), in: scope, isActive: false).entries
            #expect(others.count == Self.rows.count - active.count && !others.contains(where: \.isActive))
            var seen: [HeldPurchase] = []
            var cursor: LookupCursor?
            for _ in 0...Self.rows.count {
                let page = try await lookup.products(of: .holder(user), in: scope, after: cursor, limit: 7)
                seen += page.entries
                cursor = page.next
                if cursor == nil { break }
            }
            #expect(seen.count == Self.rows.count && Set(seen.filter(\.isOverdue).map(\.purchase.key)) == overdue)
            #expect(Set(seen.filter(\.isActive).map(\.purchase.key)) == active)
        }
    }

    @Test("Without a leeway for anybody, only webhooks end access, and grants of the app's backend their time")
    func off() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try Self.fill(ledger)
            let lookup = HolderLookup(pool: daemon.pool)
            let scope = LookupScope(environment: "PRODUCTION", source: nil)
            let inactive = try await lookup.entitlements(of: .holder(user), in: scope, isActive: false).entries
            let expected = Self.rows.filter { !$0.isGranted || $0.store == "MANUAL" && ($0.hours ?? 1) < 0 }
            #expect(Set(inactive.map(\.purchase.key)) == Set(expected.map { "\($0.number)" }))
        }
    }

    @Test("Before the upgrade it is counted whom it answers differently; after it nothing is")
    func upgrade() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try Self.fill(ledger)
            #expect(try await TimedAccessUpgrade.changes(leeways: Self.leeways, in: daemon.pool).isEmpty)
            try ledger.psql("DELETE FROM schema_migrations WHERE version > 12")
            try ledger.psql("UPDATE entitlements SET holder = 'user:ann' WHERE purchase = md5('4')::uuid")
            // Of apps and stores: -3, -23 and -25 h by a leeway of 2 h, one of them ann's; all of the past without one.
            #expect(
                try await TimedAccessUpgrade.changes(leeways: Self.leeways, in: daemon.pool) == [
                    TimedAccessUpgrade.Change(source: "none", environment: "PRODUCTION", holders: 1),
                    TimedAccessUpgrade.Change(source: "short", environment: "PRODUCTION", holders: 2),
                ])
            #expect(try await TimedAccessUpgrade.changes(leeways: .off, in: daemon.pool).isEmpty)
        }
    }

    /// The oracle is the state without the webhook that comes late.
    @Test("A late renewal makes access whole again; a late word about an older transaction ends nothing")
    func late() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let now = try ledger.now()
            func at(_ hours: Int64) -> Timestamp { now.advanced(byMilliseconds: hours * Self.hour) }
            func held() async throws -> HeldPurchase? {
                try await HolderLookup(pool: daemon.pool, leeways: Self.leeways)
                    .entitlements(of: .holder(user), in: LookupScope(environment: "PRODUCTION", source: nil)).entries
                    .first
            }
            await daemon.record([.paying(user, from: at(-60), until: at(-30), transaction: "1")])
            let lapsed = try await held()
            #expect(lapsed?.isActive == false && lapsed?.isOverdue == true && lapsed?.until == at(-30))
            await daemon.record([.paying(user, from: at(-30), until: at(30), transaction: "2")])
            let renewed = try await held()
            #expect(renewed?.isActive == true && renewed?.isOverdue == false && renewed?.until == at(30))
            await daemon.record([
                .paying(user, from: at(-60), until: at(-30), transaction: "1", named: "RESTATED", at: at(-1))
            ])
            let restated = try await held()
            #expect(restated?.isActive == true && restated?.isOverdue == false && restated?.until == at(30))
        }
    }

    @Test("Of transactions without a time of purchase the end decides; a voided one that states nothing does not count")
    func undated() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let now = try ledger.now()
            func at(_ hours: Int64) -> Timestamp { now.advanced(byMilliseconds: hours * Self.hour) }
            typealias Word = (name: String?, transaction: String, at: Int64, until: Int64?, status: String?)
            let words: [Word] = [
                (nil, "1", -90, -60, nil), (nil, "2", -60, 60, nil), ("NOTED", "1", -2, -60, nil),
                ("VOIDED", "0", -1, nil, "REVOKED"),
            ]
            for (index, order) in permutations(Array(words.indices)).enumerated() {
                for word in order.map({ words[$0] }) {
                    let until = word.until.map { at($0) }
                    let event = Event.paying(
                        user, from: at(word.at), until: until, transaction: word.transaction, named: word.name,
                        environment: "order\(index)")
                    let stated = Transaction(
                        storeTransactionID: word.transaction, storeOriginalTransactionID: nil, purchasedAt: nil,
                        effectiveNextRenewalAt: until, offerType: nil, status: word.status)
                    await daemon.record([event.with(transaction: stated)])
                }
                let held = try await HolderLookup(pool: daemon.pool, leeways: Leeways([.leaving("shop", .none)]))
                    .entitlements(of: .holder(user), in: LookupScope(environment: "order\(index)", source: nil)).entries
                #expect(held.count == 1 && held.first?.until == at(60) && held.first?.isActive == true, "\(order)")
            }
        }
    }

    @Test(
        "A transaction of which nothing is stated has no end; one of Google Play's is a former order",
        arguments: [("APPLE_APP_STORE", nil), ("GOOGLE_PLAY_STORE", 5)] as [(store: String, until: Int64?)])
    func nothingStated(store: String, until: Int64?) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let now = try ledger.now()
            func at(_ hours: Int64) -> Timestamp { now.advanced(byMilliseconds: hours * Self.hour) }
            let words: [(transaction: String, at: Int64, until: Int64?)] = [("1", -90, 5), ("2", -30, nil)]
            for (index, order) in permutations(Array(words.indices)).enumerated() {
                let environment = "order\(index)"
                for word in order.map({ words[$0] }) {
                    let end = word.until.map { at($0) }
                    let event = Event.paying(
                        user, from: at(word.at), until: end, transaction: word.transaction, environment: environment)
                    let purchase = Purchase(
                        key: "subs_1", kind: .subscription, store: store, product: "gold", plan: "monthly",
                        subscriptionID: "subs_1")
                    let stated = Transaction(
                        storeTransactionID: word.transaction, storeOriginalTransactionID: nil, purchasedAt: nil,
                        effectiveNextRenewalAt: end, offerType: nil, status: nil)
                    await daemon.record([event.with(purchase: purchase, transaction: stated)])
                }
                let held = try await HolderLookup(pool: daemon.pool, leeways: Leeways([.leaving("shop", .none)]))
                    .entitlements(of: .holder(user), in: LookupScope(environment: environment, source: nil)).entries
                #expect(held.count == 1 && held.first?.until == until.map { at($0) }, "\(order)")
            }
        }
    }

    /// As Google Play states it: only the first order says when it was bought, and the renewals of a token that a
    /// change of plan replaced keep the end that they had.
    @Test(
        "After a change of plan in mid-period the end is that of the new plan, whether it is later or earlier",
        arguments: [(days: 400, isFirstKnown: true), (10, true), (400, false), (10, false)])
    func changedPlan(days: Int64, isFirstKnown: Bool) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let now = try ledger.now()
            func at(_ days: Int64) -> Timestamp { now.advanced(byMilliseconds: days * 24 * Self.hour) }
            typealias Order = (id: String, first: String, at: Int64, until: Int64, isDated: Bool)
            let old: [Order] = [
                ("old", "old", -95, -65, true), ("old..0", "old", -66, -35, false), ("old..1", "old", -36, 25, false),
            ]
            let new: Order = ("new", "new", -5, days, true)
            for (index, order) in permutations((isFirstKnown ? old : Array(old.suffix(1))) + [new]).enumerated() {
                for word in order {
                    let event = Event.paying(
                        user, from: at(word.at), until: at(word.until), transaction: word.id,
                        environment: "order\(index)")
                    let stated = Transaction(
                        storeTransactionID: word.id, storeOriginalTransactionID: word.first,
                        purchasedAt: word.isDated ? at(word.at) : nil, effectiveNextRenewalAt: at(word.until),
                        offerType: nil, status: nil)
                    await daemon.record([event.with(transaction: stated)])
                }
                let held = try await HolderLookup(pool: daemon.pool, leeways: Leeways([.leaving("shop", .none)]))
                    .entitlements(of: .holder(user), in: LookupScope(environment: "order\(index)", source: nil)).entries
                #expect(held.count == 1 && held.first?.until == at(days), "\(order.map(\.id))")
            }
        }
    }

    /// As Google Play states it: the void names an order, and the API answers for the newest alone.
    @Test("The void of a former order changes neither begin nor end nor offer, in any order", arguments: [false, true])
    func voidedFormerOrder(isOneBatch: Bool) async throws {
        // Times are in days; without an end it is a void.
        typealias Word = (id: String, first: String, at: Int64, until: Int64?, isDated: Bool)
        let histories: [(words: [Word], begin: Int64)] = [
            // The first order of a subscription that was renewed since.
            ([("a", "a", -60, -30, true), ("a..0", "a", -30, 5, false), ("a", "a", -1, nil, false)], -60),
            // A renewal of a plan in whose place another one came before: of neither the first order is known.
            ([("b..9", "b", -80, 25, false), ("c..5", "c", -40, 5, false), ("c..3", "c", -1, nil, false)], -80),
        ]
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let now = try ledger.now()
            func at(_ days: Int64) -> Timestamp { now.advanced(byMilliseconds: days * 24 * Self.hour) }
            func event(_ word: Word, _ environment: String) -> Event {
                let until = word.until.map { at($0) }
                let event = Event.sample(
                    until == nil ? "VOIDED_PURCHASE" : "ACTIVATE", at: at(word.at), transaction: word.id,
                    environment: environment,
                    fact: until.map { Fact(kind: .gain, holder: user, at: at(word.at), until: $0) },
                    yieldsTransaction: until == nil)
                let purchase = Purchase(
                    key: "subs_1", kind: .subscription, store: "GOOGLE_PLAY_STORE", product: "gold", plan: "monthly",
                    subscriptionID: nil)
                let stated = Transaction(
                    storeTransactionID: word.id, storeOriginalTransactionID: word.first,
                    purchasedAt: word.isDated ? at(word.at) : nil, effectiveNextRenewalAt: until,
                    offerType: word.isDated ? "INTRO_OFFER" : nil, status: until.map { _ in "AUTO_RENEWING" })
                return event.with(purchase: purchase, transaction: stated)
            }
            for (number, history) in histories.enumerated() {
                for (index, order) in permutations(history.words).enumerated() {
                    let environment = "history\(number)order\(index)"
                    let events = order.map { event($0, environment) }
                    for batch in isOneBatch ? [events] : events.map({ [$0] }) { await daemon.record(batch) }
                    let held = try await HolderLookup(pool: daemon.pool, leeways: Leeways([.leaving("shop", .none)]))
                        .entitlements(of: .holder(user), in: LookupScope(environment: environment, source: nil)).entries
                    #expect(held.count == 1 && held.first?.isActive == true, "\(order)")
                    #expect(held.first?.until == at(5) && held.first?.startedAt == at(history.begin), "\(order)")
                }
            }
            let first = "SELECT DISTINCT offer_type, status FROM transactions WHERE store_transaction_id = 'a'"
            #expect(try ledger.psql(first) == "INTRO_OFFER|AUTO_RENEWING")
        }
    }

    /// A line of an import that names no transaction, beside webhooks of transactions of every kind. Days; the end that
    /// counts is that of what was stated last of the newest period.
    struct Unnamed: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Of the line; nil: no end.
        let until: Int64?
        let webhooks: [(id: String, first: String?, boughtAt: Int64?, at: Int64, until: Int64?)]
        let expected: Int64?
    }

    private static let unnamed = [
        Unnamed(
            testDescription: "renewals of which no time of purchase is known", until: -5,
            webhooks: [("1", "1", -60, -60, -35), ("1..0", "1", nil, -36, -5), ("1..1", "1", nil, -6, 25)],
            expected: 25),
        Unnamed(
            testDescription: "a grace period of the same transaction", until: -1,
            webhooks: [("1", nil, -366, -366, -1), ("1", nil, -366, -1, 15)], expected: 15),
        Unnamed(
            testDescription: "a shorter plan that was bought later", until: 300,
            webhooks: [("1", "1", -60, -60, 300), ("2", "1", -5, -5, 25)], expected: 25),
        Unnamed(
            testDescription: "nothing newer than the line", until: 40,
            webhooks: [("1", nil, -60, -60, -30), ("2", nil, -30, -30, 1)], expected: 40),
        Unnamed(
            testDescription: "a late word about an older transaction", until: 40,
            webhooks: [("1", nil, -60, -60, -30), ("2", nil, -30, -30, 1), ("1", nil, -60, -2, -30)], expected: 40),
        Unnamed(
            testDescription: "a late word about the only transaction, which was over by then", until: 40,
            webhooks: [("1", nil, -60, -2, -30)], expected: 40),
        Unnamed(testDescription: "a line without an end", until: nil, webhooks: [("1", nil, -30, -30, 1)], expected: 1),
        Unnamed(testDescription: "no webhook", until: 40, webhooks: [], expected: 40),
    ]

    @Test("A line of an import without a transaction counts until webhooks state more", arguments: unnamed)
    func unnamedTransaction(example: Unnamed) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let now = try ledger.now()
            func at(_ days: Int64) -> Timestamp { now.advanced(byMilliseconds: days * 24 * Self.hour) }
            for (number, order) in permutations(Array(0...example.webhooks.count)).enumerated() {
                let environment = "order\(number)"
                for index in order {
                    if index == 0 {
                        let purchase = Purchase(
                            key: "subs_1", kind: .subscription, store: "APPLE_APP_STORE", product: "gold",
                            plan: "monthly", subscriptionID: "subs_1")
                        let line = ImportLine(
                            scope: Scope(source: "shop", app: "app.one", environment: environment), holder: user,
                            asOf: at(-20), until: example.until.map { at($0) },
                            subject: .purchase(ImportLine.Stated(purchase: purchase, isActive: true)))
                        await daemon.record([line.event])
                        continue
                    }
                    let word = example.webhooks[index - 1]
                    let event = Event.paying(
                        user, from: at(word.at), until: word.until.map { at($0) }, transaction: word.id,
                        environment: environment)
                    let stated = Transaction(
                        storeTransactionID: word.id, storeOriginalTransactionID: word.first,
                        purchasedAt: word.boughtAt.map { at($0) },
                        effectiveNextRenewalAt: word.until.map { at($0) }, offerType: nil, status: nil)
                    await daemon.record([event.with(transaction: stated)])
                }
                let held = try await HolderLookup(pool: daemon.pool, leeways: Leeways([.leaving("shop", .none)]))
                    .entitlements(of: .holder(user), in: LookupScope(environment: environment, source: nil)).entries
                #expect(held.count == 1 && held.first?.until == example.expected.map { at($0) }, "\(order)")
            }
        }
    }

    @Test("A trace says by the clock who has access, and until when")
    func trace() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let now = try ledger.now()
            let until = now.advanced(byMilliseconds: -25 * Self.hour)
            await daemon.record([.paying(user, from: seconds(0), until: until, transaction: "1")])
            let handle = EventHandle(.transaction, "1")
            let trace = try await Trace.read(handle, leeways: Self.leeways, from: daemon.pool)
            let holding = try #require(trace?.holdings.first)
            #expect(!holding.isActive && holding.isOverdue && holding.until == until)
            let other = try await Trace.read(handle, from: daemon.pool)
            let off = try #require(other?.holdings.first)
            #expect(off.isActive && off.isOverdue)
        }
    }
}

extension TestLedger {
    /// The database's time.
    func now() throws -> Timestamp {
        let text = try psql("SELECT (extract(epoch FROM now()) * 1000)::bigint")
        return Timestamp(milliseconds: try #require(Int64(text)))
    }
}

extension Source {
    static func leaving(_ name: String, _ leeway: Leeway) -> Source {
        Source(
            name: name, kind: .purchasely, authentication: .none, secrets: [], app: nil, defaultEnvironment: nil,
            freshness: nil, leeway: leeway)
    }
}

extension Event {
    /// A webhook that states a paid period in its transaction; without a name it also gives access.
    /// - Parameter time: nil: the beginning of the period.
    static func paying(
        _ holder: Holder, from start: Timestamp, until end: Timestamp?, transaction: String,
        purchase: String = "subs_1", named name: String? = nil, at time: Timestamp? = nil, source: String = "shop",
        environment: String = "PRODUCTION"
    ) -> Event {
        let fact = Fact(kind: .gain, holder: holder, at: time ?? start, until: end)
        let event = Event.sample(
            name ?? "ACTIVATE", holder: holder, at: time ?? start, purchase: purchase, source: source,
            environment: environment, fact: name == nil ? fact : nil)
        return event.with(
            transaction: Transaction(
                storeTransactionID: transaction, storeOriginalTransactionID: nil, purchasedAt: start,
                effectiveNextRenewalAt: end, offerType: nil, status: nil))
    }
}
