import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Webhooks that name nobody, when a person is erased of whose purchase they are. Oracle: SQL.
@Suite("Erasing what came under a purchase's own holder", .serialized)
struct EraseOwnTests {
    private static let own = Holder.anonymous("cus_77aa")
    private static let jeff = Holder.user("jeff-9f3c")
    private static let ann = Holder.user("ann-2b1d")

    /// A webhook that names `holder`; nil: nobody, and so the purchase's own holder.
    private static func event(
        _ kind: Fact.Kind, _ holder: Holder?, of purchase: String, at: Int64, source: String = "store"
    ) -> Event {
        let fact = Fact(
            kind: kind, holder: holder ?? own, at: seconds(at), until: seconds(1_000_000), isNamed: holder != nil)
        return .sample(
            kind == .gain ? "RENEWED" : "EXPIRED", holder: fact.holder, at: fact.at, purchase: purchase,
            transaction: "t-\(purchase)", source: source, fact: fact)
    }

    private static func erase(
        _ events: [Event], in ledger: TestLedger, source: String? = nil
    ) async throws -> (erasure: Erasure, done: Erasure.Tally) {
        let daemon = try await ledger.daemon([.named("all")])
        for event in events { await daemon.record([event]) }
        let dry = try await Erasure.start(jeff, source: source, isDry: true, in: daemon.pool)
        let found = try await dry.run(in: daemon.pool) { _ in }
        let erasure = try await Erasure.start(jeff, source: source, isDry: false, in: daemon.pool)
        let done = try await erasure.run(in: daemon.pool) { _ in }
        let left = try await erasure.proof.run(in: daemon.pool) { _ in }
        #expect(left.total == 0, "\(left)")
        #expect(found.events == done.events && found.purchases == done.purchases)
        let erased = source.map { "source = '\($0)'" } ?? "true"
        for holder in erasure.holders {
            let named = "SELECT count(*) FROM purchases WHERE access -> 'of' ? '\(holder.storageKey)' AND \(erased)"
            #expect(try ledger.psql(named) == "0")
        }
        return (erasure, done)
    }

    private static func holders(_ ledger: TestLedger) throws -> String {
        try ledger.psql("SELECT string_agg(holder, ' ' ORDER BY id) FROM events WHERE source <> 'posthouse'")
    }

    @Test("A loss that names nobody goes with the only user of its purchase, before or after the name")
    func alone() async throws {
        for order in [[0, 1], [1, 0]] {
            try await TestLedger.run { ledger in
                let events = [
                    Self.event(.gain, Self.jeff, of: "a", at: 100), Self.event(.loss, nil, of: "a", at: 200),
                ]
                let (erasure, done) = try await Self.erase(order.map { events[$0] }, in: ledger)
                #expect(erasure.holders == [Self.jeff, Self.own])
                #expect(done.events == 2 && done.purchases == 1)
                #expect(try Self.holders(ledger) == "")
                #expect(try ledger.psql("SELECT count(*) FROM purchases") == "0")
            }
        }
    }

    @Test("All purchases of a customer who is this user alone go, also one that names nobody")
    func customer() async throws {
        try await TestLedger.run { ledger in
            let (erasure, done) = try await Self.erase(
                [
                    Self.event(.gain, Self.jeff, of: "a", at: 100), Self.event(.gain, nil, of: "a", at: 200),
                    Self.event(.gain, nil, of: "b", at: 300),
                ], in: ledger)
            #expect(erasure.holders.contains(Self.own) && done.events == 3 && done.purchases == 2)
            #expect(try Self.holders(ledger) == "")
        }
    }

    @Test("An erasure that a delivery on its way held up finds the customer again")
    func heldUp() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record([
                Self.event(.gain, Self.jeff, of: "a", at: 100), Self.event(.gain, nil, of: "a", at: 200),
            ])
            var made = daemon.inbox.take()
            while !made.isEmpty {
                made = try await daemon.queue.settle(made.map { $0.settled(.accepted) }).unblocked
            }
            await daemon.record([Self.event(.gain, nil, of: "b", at: 300)])
            let onItsWay = daemon.inbox.take()
            func erase() async throws -> Erasure.Tally {
                try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool).run(in: daemon.pool) {
                    _ in
                }
            }
            #expect(try await erase().inHand == onItsWay.count && !onItsWay.isEmpty)
            _ = try await daemon.queue.settle(onItsWay.map { $0.settled(.accepted) })
            #expect(try await erase().inHand == 0)
            #expect(try Self.holders(ledger) == "" && ledger.psql("SELECT count(*) FROM purchases") == "0")
        }
    }

    @Test("What another user has, or had, of the same customer stays under the customer")
    func shared() async throws {
        try await TestLedger.run { ledger in
            let (erasure, _) = try await Self.erase(
                [
                    Self.event(.gain, Self.jeff, of: "a", at: 100), Self.event(.gain, nil, of: "a", at: 200),
                    Self.event(.gain, Self.ann, of: "b", at: 300), Self.event(.loss, nil, of: "b", at: 400),
                ], in: ledger)
            #expect(erasure.holders == [Self.jeff])
            #expect(try Self.holders(ledger) == "\(Self.own.storageKey) \(Self.ann.storageKey) \(Self.own.storageKey)")
        }
        try await TestLedger.run { ledger in
            let (erasure, _) = try await Self.erase(
                [
                    Self.event(.gain, Self.jeff, of: "a", at: 100), Self.event(.gain, Self.ann, of: "a", at: 200),
                    Self.event(.loss, nil, of: "a", at: 300),
                ], in: ledger)
            #expect(erasure.holders == [Self.jeff])
            #expect(try Self.holders(ledger) == "\(Self.ann.storageKey) \(Self.own.storageKey)")
        }
    }

    @Test(
        "A customer whom a link calls the person, but who pays for another too, goes with the last of them",
        arguments: [[jeff], [jeff, ann], [ann, jeff]])
    func linked(users: [Holder]) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            var events = [
                Self.event(.gain, Self.jeff, of: "a", at: 100), Self.event(.gain, Self.ann, of: "b", at: 200),
                Self.event(.loss, nil, of: "b", at: 300),
            ]
            for (index, user) in users.enumerated() {
                events.append(
                    .change(
                        .move(from: [Self.own], to: user, isNative: false), by: user, at: 400 + Int64(index),
                        source: "store", links: [HolderLink(anonymousID: Self.own.id, userID: user.id)]))
            }
            for event in events { await daemon.record([event]) }
            func erase(_ holder: Holder) async throws -> [Holder] {
                let erasure = try await Erasure.start(holder, source: nil, isDry: false, in: daemon.pool)
                _ = try await erasure.run(in: daemon.pool) { _ in }
                #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
                return erasure.holders
            }
            let anns = """
                SELECT count(*) FROM events e JOIN purchases p ON p.id = e.purchase WHERE p.key = 'b'
                """
            #expect(try await erase(Self.jeff) == [Self.jeff])
            #expect(try ledger.psql(anns) == "2")
            #expect(try ledger.psql("SELECT count(*) FROM events WHERE holder = '\(Self.jeff.storageKey)'") == "0")
            #expect(try await erase(Self.ann) == [Self.ann, Self.own])
            #expect(try ledger.psql(anns) == "0")
        }
    }

    @Test("A customer who is another user by what is known last stays, though no webhook of that user names nobody")
    func knownAsAnother() async throws {
        try await TestLedger.run { ledger in
            let named = Event(
                scope: Scope(source: "store", app: "app.one", environment: "PRODUCTION"), vendorEventID: "e",
                name: "RENEWED", type: "RENEWED", holder: Self.ann, occurredAt: seconds(300),
                purchase: Purchase(
                    key: "b", kind: .subscription, store: "STRIPE", product: nil, plan: nil, subscriptionID: nil),
                transaction: nil, facts: [.activate(Self.ann, seconds(300))],
                links: [HolderLink(anonymousID: Self.own.id, userID: Self.ann.id)],
                body: Array(#"{"customer":"cus_77aa"}"#.utf8))
            let (erasure, _) = try await Self.erase(
                [
                    Self.event(.gain, Self.jeff, of: "a", at: 100), Self.event(.loss, nil, of: "a", at: 200), named,
                ], in: ledger)
            #expect(erasure.holders == [Self.jeff])
            #expect(try ledger.psql("SELECT user_id FROM holder_links") == Self.ann.id)
            let body = "SELECT convert_from(body, 'UTF8') FROM events WHERE vendor_event_id = 'e'"
            #expect(try ledger.psql(body) == #"{"customer":"cus_77aa"}"#)
        }
    }

    @Test("An install that the app named is somebody: it does not go with another install of the purchase")
    func installs() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let (first, second) = (Holder.anonymous("install-1"), Holder.anonymous("install-2"))
            for (at, holder) in [(100, first), (200, second), (300, Self.own)] as [(Int64, Holder)] {
                let fact = Fact(
                    kind: .gain, holder: holder, at: seconds(at), isNamed: false, isGiven: holder != Self.own)
                await daemon.record([
                    .sample(
                        holder: holder, at: fact.at, purchase: "a", transaction: "t\(at)", source: "store", fact: fact)
                ])
            }
            let erasure = try await Erasure.start(first, source: nil, isDry: false, in: daemon.pool)
            #expect(erasure.holders == [first])
            _ = try await erasure.run(in: daemon.pool) { _ in }
            #expect(try Self.holders(ledger) == "\(second.storageKey) \(Self.own.storageKey)")
            #expect(try ledger.psql("SELECT holder FROM entitlements WHERE active") == second.storageKey)
        }
    }

    @Test("Of one source alone, what came under an own holder of another stays")
    func oneSource() async throws {
        try await TestLedger.run { ledger in
            let (erasure, done) = try await Self.erase(
                [
                    Self.event(.gain, Self.jeff, of: "a", at: 100),
                    Self.event(.gain, Self.jeff, of: "b", at: 100, source: "shop"),
                    Self.event(.loss, nil, of: "a", at: 200),
                ], in: ledger, source: "shop")
            #expect(erasure.holders == [Self.jeff] && done.events == 1)
            #expect(try Self.holders(ledger) == "\(Self.jeff.storageKey) \(Self.own.storageKey)")
        }
    }
}
