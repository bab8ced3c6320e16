import Postgres
import Synchronization
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Webhooks between the stages of an erasure that make the customer of its purchases somebody else's, too.
/// Oracle: SQL.
@Suite("Erasing a person while the customer becomes another user's", .serialized)
struct EraseOwnRaceTests {
    private static let own = Holder.anonymous("cus_77aa")
    private static let jeff = Holder.user("jeff-9f3c")
    private static let ann = Holder.user("ann-2b1d")

    /// A webhook that names `holder`; nil: nobody, and so the customer.
    private static func event(_ kind: Fact.Kind, _ holder: Holder?, of purchase: String, at: Int64) -> Event {
        let fact = Fact(
            kind: kind, holder: holder ?? own, at: seconds(at), until: seconds(1_000_000), isNamed: holder != nil)
        return .sample(
            kind == .gain ? "RENEWED" : "EXPIRED", holder: fact.holder, at: fact.at, purchase: purchase,
            transaction: "t-\(purchase)", source: "store", fact: fact, body: #"{"customer":"cus_77aa","at":\#(at)}"#)
    }

    enum Late: String, CaseIterable {
        /// A new purchase of the customer, which then names the other user.
        case purchase
        /// A link of the customer, who buys afterwards.
        case link

        var events: [Event] {
            switch self {
            case .purchase:
                [
                    EraseOwnRaceTests.event(.gain, nil, of: "b", at: 300),
                    EraseOwnRaceTests.event(.gain, EraseOwnRaceTests.ann, of: "b", at: 400),
                ]
            case .link:
                [
                    .change(
                        .move(from: [EraseOwnRaceTests.own], to: EraseOwnRaceTests.ann, isNative: false),
                        by: EraseOwnRaceTests.ann, at: 300, source: "store")
                ]
            }
        }
    }

    private static func link(_ user: Holder, at: Int64) -> Event {
        .change(
            .move(from: [own], to: user, isNative: false), by: user, at: at, source: "store",
            links: [HolderLink(anonymousID: own.id, userID: user.id)])
    }

    @Test("A link to another user that is committed while the person's links are erased stays")
    func betweenCheckAndDeletion() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            await daemon.record([Self.event(.gain, Self.jeff, of: "a", at: 100)])
            await daemon.record([Self.link(Self.jeff, at: 150)])
            await daemon.record([Self.event(.loss, nil, of: "a", at: 200)])
            let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool)
            #expect(erasure.holders == [Self.jeff, Self.own])
            // What a batch of another daemon writes of such a link, before its COMMIT.
            let tally = try await ledger.holding { session throws(DatabaseError) in
                try session.script(
                    """
                    INSERT INTO holder_changes (source, app, environment, subject, kind, target, at_ms, event)
                    SELECT source, app, environment, 'anon:cus_77aa', 'login', 'user:ann-2b1d', as_of_ms + 1000, 1
                    FROM holder_links;
                    UPDATE holder_links SET user_id = 'ann-2b1d', as_of_ms = as_of_ms + 1000
                    """)
            } _: { [pool = daemon.pool] in
                try await erasure.run(in: pool) { _ in }
            }
            #expect(tally.isOvertaken)
            let links = "SELECT anonymous_user_id || ' ' || user_id FROM holder_links"
            #expect(try ledger.psql(links) == "cus_77aa ann-2b1d")
            let again = try await erasure.run(in: daemon.pool) { _ in }
            #expect(!again.isOvertaken)
            #expect(try ledger.psql(links) == "cus_77aa ann-2b1d")
        }
    }

    /// What is stored of the other user.
    private static func others(_ ledger: TestLedger, _ late: Late) throws -> String {
        switch late {
        case .purchase:
            try ledger.psql(
                """
                SELECT string_agg(DISTINCT e.holder || ' ' || convert_from(e.body, 'UTF8'), ', '),
                    count(DISTINCT m.id), count(d.id)
                FROM purchases p JOIN events e ON e.purchase = p.id JOIN messages m ON m.event = e.id
                LEFT JOIN deliveries d ON d.message = m.id WHERE p.key = 'b'
                """)
        case .link:
            try ledger.psql("SELECT string_agg(subject || ' ' || target, ', ') FROM holder_changes")
        }
    }

    @Test(
        "What is the other user's stays, with its messages and names, whenever it comes; nothing of the person is left",
        arguments: ["events", "purchases", "holders", "mentions"], Late.allCases)
    func between(stage: String, late: Late) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            await daemon.record([Self.event(.gain, Self.jeff, of: "a", at: 100)])
            await daemon.record([Self.event(.loss, nil, of: "a", at: 200)])
            let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool)
            #expect(erasure.holders == [Self.jeff, Self.own])
            let stages = Mutex<[String]>([])
            let before = Mutex<String?>(nil)
            for _ in 0..<3 {
                _ = try await erasure.run(in: daemon.pool) { name in
                    let isFirst = stages.withLock { stages in
                        defer { stages.append(name) }
                        return name == stage && !stages.contains(stage)
                    }
                    if !isFirst { return }
                    for event in late.events { await daemon.record([event]) }
                    let found = try? Self.others(ledger, late)
                    before.withLock { $0 = found }
                }
            }
            let expected = try #require(before.withLock { $0 })
            #expect(expected.contains(Self.ann.storageKey))
            #expect(try Self.others(ledger, late) == expected)
            let jeffs = "SELECT count(*) FROM events WHERE holder = '\(Self.jeff.storageKey)'"
            #expect(try ledger.psql(jeffs) == "0")
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            await daemon.record([Self.event(.gain, nil, of: late == .link ? "c" : "b", at: 500)])
            let active = try ledger.psql(
                """
                SELECT holder FROM entitlements e JOIN purchases p ON p.id = e.purchase
                WHERE active AND p.key IN ('b', 'c')
                """)
            #expect(active == Self.ann.storageKey)
        }
    }
}
