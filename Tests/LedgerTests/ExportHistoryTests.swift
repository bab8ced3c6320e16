import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// What is kept of random histories of each kind of ownership, exported and imported into an empty ledger. Oracle: psql
/// and look-ups, asked of both ledgers, also after more webhooks that both get.
@Suite("Export of random histories", .serialized)
struct ExportHistoryTests {
    private static let histories = 5
    private static let people: [Holder] = [
        .anonymous("device"), .anonymous("tablet"), .user("ann"), .user("bob"), .user("cleo"),
    ]

    /// Draws what webhooks of one history say, in the order of their arrival.
    private struct Drawing {
        let source: String
        let environment: String
        var dice: Dice
        var count = 0

        /// Within forty days, so that some of it is older than any retry.
        private mutating func time() -> Timestamp { seconds(Int64.random(in: 0..<960, using: &dice) * 3_600) }

        private mutating func holder() -> Holder { ExportHistoryTests.people.randomElement(using: &dice)! }

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
                token: KeyHash.body(Array("\(purchase) \(count % 3)".utf8)), first: purchase, environment: environment,
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

    /// What the tables say that later webhooks are judged by, and what look-ups answer of everybody.
    private static func picture(_ ledger: TestLedger, _ daemon: Daemon) async throws -> [String: String] {
        let environments = (0..<histories).map { "h\($0)" }
        var picture: [String: String] = [:]
        let tables = [
            "states": """
            SELECT environment, key, kind, product, as_of_ms, convert_from(state, 'UTF8') FROM purchases
            ORDER BY 1, 2
            """,
            "access": """
            SELECT p.environment, p.key, a.holder, a.active, a.as_of_ms
            FROM \(TestLedger.access) AS a JOIN purchases p ON p.id = a.purchase ORDER BY 1, 2, 3
            """,
            "transactions": """
            SELECT p.environment, p.key, t.store_transaction_id, t.store_original_transaction_id,
                   t.purchased_at_ms, t.effective_next_renewal_at_ms, t.offer_type, t.status, t.as_of_ms
            FROM transactions t JOIN purchases p ON p.id = t.purchase ORDER BY 1, 2, 3
            """,
            "links": """
            SELECT environment, anonymous_user_id, user_id, as_of_ms, until_ms FROM holder_links ORDER BY 1, 2
            """,
            "firsts": "SELECT environment, identity, install FROM install_identities ORDER BY 1, 2",
            "changes": """
            SELECT environment, subject, kind, target, second_target, at_ms FROM holder_changes ORDER BY 1, 2, 3, 4, 6
            """,
            "numbers": """
            SELECT p.environment, p.key, t.from_holder, t.to_holder, max(t.ordinal)
            FROM transfers t JOIN purchases p ON p.id = t.purchase GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
            """,
            "tokens": "SELECT first, environment, token, is_replaced FROM purchase_tokens ORDER BY 1, 2, 3",
        ]
        for (name, sql) in tables { picture[name] = try ledger.psql(sql) }
        let lookup = HolderLookup(pool: daemon.pool, leeways: .off)
        for environment in environments {
            var answers: [String] = []
            let scope = LookupScope(environment: environment, source: nil)
            for holder in people + [.anonymous("customer")] {
                for held in try await lookup.entitlements(of: .holder(holder), in: scope).entries {
                    answers.append(
                        "\(holder) \(held.purchase.key) \(held.isActive) \(held.isOverdue) \(held.asOf) "
                            + "\(String(describing: held.until)) \(String(describing: held.startedAt))")
                }
                for item in try await lookup.transactions(
                    of: .holder(holder), in: scope, products: ["gold"],
                    eventTypes: ["SUBSCRIPTION_REFUNDED_REVOKED"], stating: "previous_offer_type") ?? []
                {
                    let offers = item.stated.subtracting(["NONE"]).sorted()
                    answers.append(
                        "\(holder) \(item.kind) \(String(describing: item.until)) \(item.offerType ?? "-") "
                            + "\(item.eventTypes.sorted()) \(offers)")
                }
                for link in try await lookup.identities(of: holder, in: scope, limit: 100).entries {
                    answers.append(
                        "\(holder) \(link.anonymousID) \(link.userID ?? "-") \(link.asOf) "
                            + "\(String(describing: link.until)) \(link.isActive)")
                }
            }
            picture["answers \(environment)"] = answers.sorted().joined(separator: "\n")
        }
        return picture
    }

    private static func differing(_ one: [String: String], _ other: [String: String]) -> [String] {
        one.keys.sorted().filter { one[$0] != other[$0] }.map { key in
            func lines(_ text: String?) -> Set<Substring> { Set((text ?? "").split(separator: "\n")) }
            let (mine, theirs) = (lines(one[key]), lines(other[key]))
            return "\(key): only before \(mine.subtracting(theirs).sorted()), "
                + "only after \(theirs.subtracting(mine).sorted())"
        }
    }

    private static func export(_ daemon: Daemon) async throws -> [ImportLine] {
        var walk = ExportWalk()
        var lines: [ImportLine] = []
        while !walk.isDone { lines += try await walk.next(in: daemon.pool) }
        #expect(walk.incomplete == 0)
        return lines
    }

    private static func record(_ lines: [ImportLine], by daemon: Daemon) async throws {
        let importer = Importer(rules: Daemon.rules, in: daemon.pool)
        for line in lines { #expect(try ImportLine.read(line.canonical).line == line) }
        for start in stride(from: 0, to: lines.count, by: Limits.importBatchLinesMax) {
            let batch = Array(lines[start..<min(start + Limits.importBatchLinesMax, lines.count)])
            for (outcome, line) in zip(try await importer.record(batch), batch) {
                #expect(outcome == .recorded, "\(String(decoding: line.canonical, as: UTF8.self))")
            }
        }
    }

    @Test(
        "Imported into an empty ledger, all is known as before; webhooks that follow have the same effect on both",
        arguments: ["shop", "store", "shared"], [1, 2] as [UInt64])
    func roundTrip(_ source: String, _ seed: UInt64) async throws {
        var drawings = (0..<Self.histories).map { number in
            Drawing(
                source: source, environment: "h\(number)",
                dice: Dice(state: seed &* 1_000_003 &+ UInt64(number) &* 7_919))
        }
        let first = (0..<14).flatMap { _ in drawings.indices.map { drawings[$0].next() } }
        let second = (0..<8).flatMap { _ in drawings.indices.map { drawings[$0].next() } }
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            for event in first { _ = await daemon.record([event]) }
            let lines = try await Self.export(daemon)
            let before = try await Self.picture(ledger, daemon)
            try await TestLedger.run { other in
                let reader = try await other.daemon()
                try await Self.record(lines.shuffled(by: seed), by: reader)
                let after = try await Self.picture(other, reader)
                #expect(Self.differing(before, after) == [])
                for event in second {
                    let expected = await daemon.record([event])
                    #expect(await reader.record([event]) == expected, "\(event.name)")
                }
                let (mine, theirs) = (
                    try await Self.picture(ledger, daemon), try await Self.picture(other, reader)
                )
                #expect(Self.differing(mine, theirs) == [])
            }
        }
    }

    @Test(
        "Imported again where it came from, before or after further webhooks, nothing changes",
        arguments: ["store", "shared"], [4] as [UInt64])
    func again(_ source: String, _ seed: UInt64) async throws {
        var drawings = (0..<Self.histories).map { number in
            Drawing(
                source: source, environment: "h\(number)",
                dice: Dice(state: seed &* 1_000_003 &+ UInt64(number) &* 7_919))
        }
        let first = (0..<12).flatMap { _ in drawings.indices.map { drawings[$0].next() } }
        let second = (0..<4).flatMap { _ in drawings.indices.map { drawings[$0].next() } }
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            for event in first { _ = await daemon.record([event]) }
            let lines = try await Self.export(daemon)
            for event in second { _ = await daemon.record([event]) }
            let before = try await Self.picture(ledger, daemon)
            _ = try await Importer(rules: Daemon.rules, in: daemon.pool).record(lines)
            var after = try await Self.picture(ledger, daemon)
            // The changes are the same, each stated once more by a line.
            after["changes"] = before["changes"]
            #expect(Self.differing(before, after) == [])
        }
    }
}

extension [ImportLine] {
    /// In another order, the same for each seed.
    fileprivate func shuffled(by seed: UInt64) -> [ImportLine] {
        var dice = Dice(state: seed)
        return shuffled(using: &dice)
    }
}
