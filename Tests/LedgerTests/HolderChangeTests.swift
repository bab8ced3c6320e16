import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Statements about a holder as a whole, in every order of arrival with the webhooks of the purchases they concern.
/// Oracle: SQL; each order is played in an environment of its own, so that all of them share one database (I4).
@Suite("Transfers that name no purchase, logins, restores", .serialized)
struct HolderChangeTests {
    private static let a = Holder.user("a")
    private static let b = Holder.user("b")
    private static let c = Holder.user("c")
    private static let end = seconds(100_000)

    /// Plays every order of `events`, one by one and as one batch, and expects one outcome.
    ///
    /// - Parameter expected: transfers nil: some are announced in one order alone, and voided.
    private func expectOneOutcome(
        _ events: [@Sendable (String) -> Event], _ expected: (transfers: String?, active: String),
        where isPlayed: ([Int]) -> Bool = { _ in true }, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            var orders: [(environment: String, order: [Int])] = []
            let played = permutations(Array(events.indices)).filter(isPlayed)
            for (index, order) in played.enumerated() {
                orders += [("single\(index)", order), ("batch\(index)", order)]
                await daemon.record(order.map { events[$0]("batch\(index)") })
            }
            // One after the other in each environment, many environments at once: they concern different purchases.
            let places = Array(played.enumerated())
            for begin in stride(from: 0, to: places.count, by: 100) {
                let some = places[begin..<min(begin + 100, places.count)]
                for place in events.indices {
                    await daemon.record(some.map { index, order in events[order[place]]("single\(index)") })
                }
            }
            #expect(daemon.log.warnings == [], sourceLocation: sourceLocation)
            let transfers = try byEnvironment(
                ledger,
                """
                SELECT p.environment, string_agg(p.key || ':' || substr(from_holder, 6) || '>' || substr(to_holder, 6)
                    || ordinal, ' ' ORDER BY p.key, from_holder, to_holder, ordinal)
                FROM transfers t JOIN purchases p ON p.id = t.purchase GROUP BY 1
                """)
            let active = try byEnvironment(
                ledger,
                """
                SELECT p.environment, string_agg(p.key || ':' || substr(holder, 6), ' ' ORDER BY p.key, holder)
                FROM entitlements e JOIN purchases p ON p.id = e.purchase WHERE active GROUP BY 1
                """)
            for (environment, order) in orders {
                if let expected = expected.transfers {
                    #expect(
                        transfers[environment] ?? "" == expected, "\(environment) \(order)",
                        sourceLocation: sourceLocation)
                }
                #expect(
                    active[environment] ?? "" == expected.active, "\(environment) \(order)",
                    sourceLocation: sourceLocation)
            }
            let announced = try ledger.psql(
                """
                SELECT count(*) FROM transfers t
                WHERE 2 <> (SELECT count(*) FROM messages m WHERE m.transfer = t.id)
                """)
            #expect(announced == "0", sourceLocation: sourceLocation)
        }
    }

    /// Of all orders at once: a psql for each would be most of this suite's work.
    private func byEnvironment(_ ledger: TestLedger, _ sql: String) throws -> [String: String] {
        let rows = try ledger.psql(sql).split(separator: "\n").map { $0.split(separator: "|", maxSplits: 1) }
        return Dictionary(uniqueKeysWithValues: rows.map { (String($0[0]), String($0[1])) })
    }

    private func gain(
        _ holder: Holder, _ purchase: String, at: Int64, kind: Purchase.Kind = .subscription, until: Timestamp? = end,
        transaction: String? = nil, source: String = "moving"
    ) -> @Sendable (String) -> Event {
        {
            .sample(
                "ACTIVATE", holder: holder, at: seconds(at), purchase: purchase, kind: kind,
                transaction: transaction ?? "t-\(purchase)",
                source: source, environment: $0, fact: .activate(holder, seconds(at), until: until))
        }
    }

    private func loss(
        _ holder: Holder, _ purchase: String, at: Int64, kind: Purchase.Kind = .subscription, source: String = "moving"
    ) -> @Sendable (String) -> Event {
        {
            .sample(
                "DEACTIVATE", holder: holder, at: seconds(at), purchase: purchase, kind: kind,
                transaction: "t-\(purchase)",
                source: source, environment: $0, fact: .deactivate(holder, seconds(at), until: seconds(at)))
        }
    }

    private func change(_ change: HolderChange, at: Int64, source: String = "moving") -> @Sendable (String) -> Event {
        {
            Event(
                scope: Scope(source: source, app: "app.one", environment: $0), vendorEventID: nil, name: "\(change)",
                type: "CHANGE", holder: Self.a, occurredAt: seconds(at), purchase: nil, transaction: nil,
                change: change, body: Array("{}".utf8))
        }
    }

    @Test("All that the old holder has passes on, one-time purchases too, and on again to a third")
    func native() async throws {
        try await expectOneOutcome(
            [
                gain(Self.a, "s1", at: 0), gain(Self.a, "o1", at: 10, kind: .oneTime, until: nil),
                change(.move(from: [Self.a], to: Self.b, isNative: true), at: 100),
                change(.move(from: [Self.b], to: Self.c, isNative: true), at: 200), gain(Self.b, "s1", at: 150),
            ], ("o1:a>b1 o1:b>c1 s1:a>b1 s1:b>c1", "o1:c s1:c"))
    }

    @Test("A renewal before and one after it announce nothing twice; what is bought after it stays")
    func around() async throws {
        try await expectOneOutcome(
            [
                gain(Self.a, "s1", at: 0, until: seconds(60)), gain(Self.a, "s1", at: 50),
                change(.move(from: [Self.a, .anonymous("x")], to: Self.b, isNative: true), at: 100),
                gain(Self.b, "s1", at: 150), gain(Self.a, "s2", at: 160),
            ], ("s1:a>b1", "s1:b s2:a"))
    }

    @Test("What has lapsed gives no access to its new holder, whatever comes after")
    func lapsed() async throws {
        try await expectOneOutcome(
            [
                gain(Self.a, "s1", at: 0, until: seconds(50)),
                change(.move(from: [Self.a], to: Self.b, isNative: true), at: 100), loss(Self.a, "s1", at: 500),
            ], ("s1:a>b1", ""))
    }

    @Test("A login moves what is paid for, never a one-time purchase nor what has lapsed")
    func login() async throws {
        let device = Holder.anonymous("device")
        try await expectOneOutcome(
            [
                gain(device, "s1", at: 0), gain(device, "o1", at: 0, kind: .oneTime, until: nil),
                gain(device, "s2", at: 0, until: seconds(50)),
                change(.move(from: [device], to: Self.b, isNative: false), at: 1_000), loss(device, "s1", at: 1_000),
            ], ("s1:device>b1", "o1:device s1:b s2:device"))
    }

    @Test("Two logins of one device: each moves what the device bought before it, whenever the webhooks come")
    func twoLogins() async throws {
        let device = Holder.anonymous("device")
        let (first, second) = (
            change(.move(from: [device], to: Self.b, isNative: false), at: 100),
            change(.move(from: [device], to: Self.c, isNative: false), at: 200)
        )
        try await expectOneOutcome(
            [first, second, gain(device, "s2", at: 150), gain(device, "s3", at: 250)],
            ("s2:device>c1", "s2:c s3:device"))
        // A login that comes after the one that it preceded names a third holder between two (the exception of I1).
        try await expectOneOutcome(
            [first, second, gain(device, "s1", at: 0), gain(device, "s2", at: 150), gain(Self.b, "s1", at: 300)],
            ("s1:device>b1 s2:device>c1", "s1:b s2:c"),
            where: { ($0.firstIndex(of: 0) ?? 0) < ($0.firstIndex(of: 1) ?? 0) })
    }

    @Test("A login moves nothing of whom a webhook shows, early or late, that somebody else had it by then")
    func loginOfAFormerHolder() async throws {
        let login = change(.move(from: [Self.a], to: Self.b, isNative: false), at: 100)
        try await expectOneOutcome(
            [gain(Self.a, "p", at: 10), gain(Self.c, "p", at: 50), login], (nil, "p:c"))
    }

    @Test("What was refunded before everything of its holder passed on passes to nobody, whichever comes first")
    func refundedBefore() async throws {
        let all = change(.move(from: [Self.a], to: Self.b, isNative: true), at: 100)
        try await expectOneOutcome(
            [
                gain(Self.a, "once", at: 10, kind: .oneTime), loss(Self.a, "once", at: 50, kind: .oneTime), all,
                gain(Self.a, "kept", at: 20, kind: .oneTime),
            ], (nil, "kept:b"))
    }

    @Test("A login and the platform's own announcement of the same transfer are one")
    func announcedTwice() async throws {
        let login = change(.move(from: [Self.a], to: Self.b, isNative: false), at: 100)
        let native: @Sendable (String) -> Event = {
            .sample(
                "SUBSCRIPTION_TRANSFERRED", holder: Self.a, at: seconds(101), purchase: "p", transaction: "t-p",
                source: "moving", environment: $0,
                fact: .transferred(Self.a, to: Self.b, seconds(101), until: Self.end))
        }
        try await expectOneOutcome([gain(Self.a, "p", at: 10), login, native], ("p:a>b1", "p:b"))
    }

    @Test("A renewal that comes late carries a lapsed purchase through a TRANSFER and the login after it")
    func renewedBeforeBoth() async throws {
        try await expectOneOutcome(
            [
                gain(Self.c, "p", at: 0, until: seconds(100)), gain(Self.c, "p", at: 100, until: seconds(1_000)),
                change(.move(from: [Self.c], to: Self.a, isNative: true), at: 110),
                change(.move(from: [Self.a], to: Self.b, isNative: false), at: 120),
            ], ("p:a>b1 p:c>a1", "p:b"))
    }

    @Test("A lapsed purchase passes on twice, though nobody has access in between")
    func lapsedTwice() async throws {
        try await expectOneOutcome(
            [
                gain(Self.a, "p", at: 0, until: seconds(50)),
                change(.move(from: [Self.a], to: Self.b, isNative: true), at: 100),
                change(.move(from: [Self.b], to: Self.c, isNative: true), at: 200),
            ], ("p:a>b1 p:b>c1", ""))
    }

    @Test("A TRANSFER moves what is a one-time purchase, whenever a webhook says that it is one")
    func oneTimeLate() async throws {
        try await expectOneOutcome(
            [
                gain(Self.a, "p", at: 0), gain(Self.c, "p", at: 5),
                change(.move(from: [Self.a], to: Self.b, isNative: true), at: 10),
                gain(Self.c, "p", at: 20, kind: .oneTime),
            ], (nil, "p:b p:c"))
    }

    @Test("A restore takes the purchase from whoever had it then, whichever transaction it names")
    func restoreOfAnotherTransaction() async throws {
        try await expectOneOutcome(
            [
                gain(Self.a, "p", at: 0, transaction: "t1"), gain(Self.a, "p", at: 30, transaction: "t2"),
                change(.restore(install: "i", transactions: ["t2"], strategy: .transfer), at: 50),
                gain(Self.c, "p", at: 45, transaction: "t3"),
            ], (nil, "p:i"))
    }

    @Test("A restore passes on a one-time purchase, too, where events may name nobody; elsewhere it stays")
    func restoreOfOneTime() async throws {
        for (source, transfers, active) in [("store", "p:i>j1 p:a>i1", "p:j"), ("moving", "", "p:a")] {
            func restore(_ install: String, at: Int64) -> @Sendable (String) -> Event {
                change(.restore(install: install, transactions: ["t-p"], strategy: .transfer), at: at, source: source)
            }
            try await expectOneOutcome(
                [
                    restore("i", at: 50), restore("j", at: 60),
                    gain(Self.a, "p", at: 0, kind: .oneTime, until: nil, source: source),
                    gain(Self.a, "p", at: 10, kind: .oneTime, until: nil, source: source),
                ], (transfers, active), where: { ($0.firstIndex(of: 0) ?? 0) < ($0.firstIndex(of: 1) ?? 0) })
        }
    }

    @Test("A restore of what imports call a transaction that they do not name takes nothing")
    func restoreOfTheUnnamed() async throws {
        let unnamed = ImportLine.unnamedTransaction
        try await expectOneOutcome(
            [
                gain(Self.a, "p", at: 0, transaction: "t1"), gain(Self.a, "p", at: 30, transaction: unnamed),
                change(.restore(install: "i", transactions: [unnamed], strategy: .transfer), at: 50),
            ], (nil, "p:a"))
    }

    @Test("A chain of logins, and what the device buys between")
    func chainOfLogins() async throws {
        let device = Holder.anonymous("device")
        try await expectOneOutcome(
            [
                gain(device, "s1", at: 0), change(.move(from: [device], to: Self.a, isNative: false), at: 100),
                change(.move(from: [Self.a], to: Self.b, isNative: false), at: 200),
                loss(device, "s1", at: 100), gain(device, "s2", at: 150),
            ], ("s1:device>a1 s1:a>b1", "s1:b s2:device"))
        // Two of one time that lead to each other: whichever is applied first.
        try await expectOneOutcome(
            [
                gain(device, "s1", at: 0), change(.move(from: [Self.a], to: Self.b, isNative: true), at: 100),
                change(.move(from: [device], to: Self.a, isNative: true), at: 100),
            ], ("s1:device>a1 s1:a>b1", "s1:b"))
    }

    @Test("A login that came too late for a period counts once a webhook says that the period lasted longer")
    func lateRenewal() async throws {
        let device = Holder.anonymous("device")
        try await expectOneOutcome(
            [
                gain(device, "s1", at: 0, until: seconds(50)), gain(device, "s1", at: 40, until: seconds(150)),
                change(.move(from: [device], to: Self.a, isNative: false), at: 200),
                change(.move(from: [device], to: Self.b, isNative: false), at: 300),
                gain(device, "s1", at: 140),
            ], ("s1:device>a1", "s1:a"), where: { ($0.firstIndex(of: 2) ?? 0) < ($0.firstIndex(of: 3) ?? 0) })
    }

    @Test("A restore may name a transaction before the webhook of it comes")
    func earlyRestore() async throws {
        let (one, two) = (Holder.anonymous("i1"), Holder.anonymous("i2"))
        try await expectOneOutcome(
            [
                gain(one, "s1", at: 0, source: "shared"),
                gain(one, "s1", at: 200, transaction: "renewed", source: "shared"),
                change(.restore(install: "i2", transactions: ["renewed"], strategy: .copy), at: 100, source: "shared"),
                gain(two, "s2", at: 10, source: "shared"),
            ], ("", "s1:i1 s1:i2 s2:i2"))
    }

    @Test("A restore before the first fact counts, also behind webhooks that only name the purchase's product")
    func restoreBeforeFacts() async throws {
        let one = Holder.anonymous("i1")
        func naming(_ product: String?, at: Int64) -> @Sendable (String) -> Event {
            {
                .sample(
                    "NAMED", holder: one, at: seconds(at), purchase: "s1", transaction: "t-s1", source: "shared",
                    environment: $0, product: product)
            }
        }
        try await expectOneOutcome(
            [
                naming("gold", at: 10), naming(nil, at: 20),
                change(.restore(install: "i2", transactions: ["t-s1"], strategy: .copy), at: 30, source: "shared"),
                gain(one, "s1", at: 40, source: "shared"),
            ], ("", "s1:i1 s1:i2"))
    }

    @Test("A purchase is one-time as soon as one webhook says so, whenever it comes")
    func kind() async throws {
        try await expectOneOutcome(
            [
                gain(Self.a, "o1", at: 0, until: nil), gain(Self.b, "o1", at: 50, kind: .oneTime, until: nil),
                loss(Self.c, "o1", at: 70),
                change(.move(from: [Self.c], to: Self.b, isNative: false), at: 100),
                gain(Self.a, "s1", at: 0),
            ], ("", "o1:a o1:b s1:a"))
    }

    @Test("A transfer names the purchase's newest transaction though its events are pruned; a damaged one is left out")
    func newestTransaction() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record(twoTransactions + [gain(Self.a, "s2", at: 0)("E")])
            try ledger.psql("DELETE FROM events")
            try ledger.psql(#"UPDATE purchases SET state = '\xff' WHERE key = 's2'"#)
            let moved = change(.move(from: [Self.a], to: Self.b, isNative: true), at: 100)("E")
            #expect(await daemon.record([moved]) == [.stored])
            #expect(try ledger.psql("SELECT store_transaction_id FROM transfers") == "second")
            #expect(daemon.log.warnings.count == 1)
            #expect(daemon.log.warnings.first?.hasPrefix("the stored state of purchase ") == true)
        }
    }

    @Test("A transfer names the purchase's newest transaction, also if all that is known of it comes in one batch")
    func newestTransactionOfBatch() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record(
                twoTransactions + [change(.move(from: [Self.a], to: Self.b, isNative: true), at: 100)("E")])
            #expect(try ledger.psql("SELECT store_transaction_id FROM transfers") == "second")
        }
    }

    @Test("A transfer names no order of which nothing is known but that it was voided", arguments: [false, true])
    func voidedTransaction(isOneBatch: Bool) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let voided = gain(Self.a, "s1", at: 60, transaction: "first")("E").with(
                transaction: Transaction(
                    storeTransactionID: "first", storeOriginalTransactionID: "first", purchasedAt: nil,
                    effectiveNextRenewalAt: nil, offerType: nil, status: nil))
            let moved = change(.move(from: [Self.a], to: Self.b, isNative: true), at: 100)("E")
            let events = [gain(Self.a, "s1", at: 50, transaction: "second")("E"), voided].map { event in
                event.with(
                    purchase: event.purchase.map { purchase in
                        Purchase(
                            key: purchase.key, kind: purchase.kind, store: "GOOGLE_PLAY_STORE", product: nil,
                            plan: nil, subscriptionID: nil)
                    })
            }
            if isOneBatch {
                await daemon.record(events + [moved])
            } else {
                for event in events + [moved] { await daemon.record([event]) }
            }
            #expect(try ledger.psql("SELECT store_transaction_id FROM transfers") == "second")
        }
    }

    /// Two transactions of one purchase: the older one is heard of late, and again later.
    private var twoTransactions: [Event] {
        let restated = gain(Self.a, "s1", at: 60, transaction: "first")("E").with(
            transaction: Transaction(
                storeTransactionID: "first", storeOriginalTransactionID: "tx_0", purchasedAt: seconds(0),
                effectiveNextRenewalAt: seconds(50), offerType: nil, status: nil))
        return [
            gain(Self.a, "s1", at: 50, transaction: "second")("E"),
            gain(Self.a, "s1", at: 0, transaction: "first")("E"), restated,
        ]
    }

    @Test("The first identify shares, a later one does not, a restore takes away or adds")
    func shared() async throws {
        let (one, two) = (Holder.anonymous("i1"), Holder.anonymous("i2"))
        try await expectOneOutcome(
            [
                gain(one, "s1", at: 0, source: "shared"),
                change(.identify(install: "i1", identity: "u1"), at: 100, source: "shared"),
                gain(two, "s2", at: 10, source: "shared"),
                change(.restore(install: "i2", transactions: ["t-s1"], strategy: .copy), at: 300, source: "shared"),
            ], ("", "s1:i1 s1:i2 s1:u1 s2:i2"))
        try await expectOneOutcome(
            [
                gain(one, "s1", at: 0, source: "shared"), gain(two, "s2", at: 10, source: "shared"),
                change(.restore(install: "i2", transactions: ["t-s1"], strategy: .transfer), at: 300, source: "shared"),
                loss(two, "s2", at: 400, source: "shared"),
            ], ("s1:i1>i21", "s1:i2"))
    }

    @Test("Two daemons at once: a purchase and the transfer of its holder never miss each other")
    func concurrent() async throws {
        try await TestLedger.run { ledger in
            let first = try await ledger.daemon()
            let second = try await ledger.daemon()
            for round in 0..<40 {
                let environment = "round\(round)"
                let bought = gain(Self.a, "s1", at: 0)(environment)
                let moved = change(.move(from: [Self.a], to: Self.b, isNative: true), at: 100)(environment)
                async let one = first.record([bought])
                async let two = second.record([moved])
                #expect(await one + two == [.stored, .stored])
            }
            #expect(try ledger.psql("SELECT count(*) FROM transfers") == "40")
            let active = "SELECT count(*), count(DISTINCT holder), max(holder) FROM entitlements WHERE active"
            #expect(try ledger.psql(active) == "40|1|user:b")
        }
    }

    @Test("A session's end, a logout: whom later messages name")
    func links() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            func link(_ user: String?, at: Int64, until: Int64? = nil) -> Event {
                Event(
                    scope: Scope(source: "moving", app: "app.one", environment: "PRODUCTION"), vendorEventID: nil,
                    name: "LINK", type: "LINK", holder: .anonymous("d"), occurredAt: seconds(at), purchase: nil,
                    transaction: nil,
                    links: [HolderLink(anonymousID: "d", userID: user, until: until.map { seconds($0) })],
                    body: Array("{}".utf8))
            }
            func end(at: Int64) -> Event {
                Event(
                    scope: Scope(source: "moving", app: "app.one", environment: "PRODUCTION"), vendorEventID: nil,
                    name: "END", type: "END", holder: .user("u2"), occurredAt: seconds(at), purchase: nil,
                    transaction: nil, change: .endSessions(user: "u2"), body: Array("{}".utf8))
            }
            func seen(at: Int64) -> Event {
                .sample("SEEN", holder: .anonymous("d"), at: seconds(at), purchase: nil, source: "moving")
            }
            // A login until 500; a late, older one changes nothing; a logout ends it.
            for event in [
                link("u1", at: 100, until: 500), link("u0", at: 50), seen(at: 200), seen(at: 600), link(nil, at: 300),
                seen(at: 310), link("u2", at: 400), seen(at: 410), end(at: 420), seen(at: 430),
            ] { await daemon.record([event]) }
            let named = daemon.inbox.take().filter { $0.message.type == "SEEN" }.map { delivery in
                let text = String(decoding: delivery.message.envelope, as: UTF8.self)
                return text.contains(#""resolved_user_id":"u"#)
            }
            #expect(named == [true, false, false, true, false])
        }
    }

    @Test("A transfer that only the new holder's webhook shows keeps the session's end, and says who the old one is")
    func linkOfUnnamed() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let (a, b, u) = (Holder.anonymous("a"), Holder.anonymous("b"), Holder.user("u"))
            let login = Event(
                scope: Scope(source: "shop", app: "app.one", environment: "PRODUCTION"), vendorEventID: nil,
                name: "LOGIN", type: "LOGIN", holder: a, occurredAt: seconds(10), purchase: nil, transaction: nil,
                links: [HolderLink(anonymousID: "a", userID: "u", until: seconds(1_000))], body: Array("{}".utf8))
            for event in [
                .stating(.activate(a, seconds(1), until: seconds(9_000))), login,
                .stating(.activate(b, seconds(15), until: seconds(9_000))),
                .stating(.activate(a, seconds(16), until: seconds(9_000))),
                .stating(.activate(u, seconds(20), until: seconds(9_000))),
            ] { await daemon.record([event]) }
            let derived = try ledger.psql(
                "SELECT convert_from(envelope, 'UTF8') FROM messages WHERE type = 'SUBSCRIPTION_TRANSFERRED' ORDER BY id"
            ).split(separator: "\n").filter { $0.contains(#""holder":{"anonymous_user_id":"a""#) }
            #expect(!derived.isEmpty)
            #expect(derived.allSatisfy { $0.contains(#""resolved_user_id":"u""#) }, "\(derived)")
            let link = "SELECT user_id, until_ms FROM holder_links WHERE anonymous_user_id = 'a'"
            #expect(try ledger.psql(link) == "u|\(seconds(1_000).milliseconds)")
        }
    }
}
