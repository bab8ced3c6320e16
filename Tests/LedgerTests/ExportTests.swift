import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: what look-ups answer about the ledger that was exported, and about an empty one that took it in.
@Suite("Export", .serialized)
struct ExportTests {
    private static let device = Holder.anonymous("device")
    private static let users = ["ann", "bob", "cleo", "device", "tablet"]

    /// Everything that the export has, one line each.
    private static func export(_ daemon: Daemon, source: String? = nil) async throws -> [ImportLine] {
        var walk = ExportWalk(source: source)
        var lines: [ImportLine] = []
        while !walk.isDone { lines += try await walk.next(in: daemon.pool) }
        return lines
    }

    /// What the look-ups answer about everybody, but for the causes: those are history.
    private static func answers(_ daemon: Daemon) async throws -> [String] {
        let lookup = HolderLookup(pool: daemon.pool, leeways: .off)
        let scope = LookupScope(environment: "PRODUCTION", source: nil)
        var answers: [String] = []
        for holder in users.flatMap({ [Holder.user($0), .anonymous($0)] }) {
            for held in try await lookup.entitlements(of: .holder(holder), in: scope).entries {
                answers.append(
                    """
                    \(holder) \(held.scope) \(held.purchase) \(held.holder) \(held.isActive) \(held.isOverdue) \
                    \(held.asOf) \(String(describing: held.startedAt)) \(String(describing: held.newestTransaction))
                    """)
            }
            let transactions = try await lookup.transactions(
                of: .holder(holder), in: scope, products: ["gold"],
                eventTypes: ["SUBSCRIPTION_REFUNDED_REVOKED"], stating: "previous_offer_type")
            for held in transactions ?? [] {
                answers.append(
                    """
                    \(holder) \(held.product) \(held.kind) \(String(describing: held.until)) \
                    \(held.offerType ?? "-") \(held.status ?? "-") \(held.eventTypes.sorted()) \(held.stated.sorted())
                    """)
            }
            for link in try await lookup.identities(of: holder, in: scope, limit: 100).entries {
                answers.append(
                    """
                    \(holder) \(link.scope) \(link.anonymousID) \(link.userID ?? "-") \(link.asOf) \
                    \(String(describing: link.until)) \(link.isActive)
                    """)
            }
        }
        return answers.sorted()
    }

    private static func bought(
        _ purchase: String, _ fact: Fact, _ transaction: String, kind: Purchase.Kind = .subscription,
        source: String = "shop", until: Timestamp? = nil, offer: String? = nil, body: String = "{}",
        type: String = "ACTIVATE"
    ) -> Event {
        Event(
            scope: Scope(source: source, app: "app.one", environment: "PRODUCTION"), vendorEventID: nil, name: type,
            type: type, holder: fact.holder, occurredAt: fact.at,
            purchase: Purchase(
                key: purchase, kind: kind, store: "APPLE_APP_STORE", product: "gold", plan: nil, subscriptionID: nil),
            transaction: Transaction(
                storeTransactionID: transaction, storeOriginalTransactionID: purchase, purchasedAt: fact.at,
                effectiveNextRenewalAt: until ?? fact.until, offerType: offer, status: nil),
            facts: [fact], body: Array(body.utf8))
    }

    /// A login with a transfer, a trial that was converted, a refund, a lapse with a new start, a one-time purchase,
    /// a family, an install with its identity.
    private static let history: [Event] = [
        bought("p1", .activate(device, seconds(0), until: seconds(9_000)), "t1", offer: "FREE_TRIAL"),
        bought("p1", .deactivate(device, seconds(400), until: seconds(9_000)), "t1", type: "DEACTIVATE"),
        bought("p1", .activate(.user("ann"), seconds(401), until: seconds(9_000)), "t1", offer: "FREE_TRIAL"),
        bought(
            "p1", .activate(.user("ann"), seconds(9_000), until: seconds(19_000)), "t2",
            body: #"{"previous_offer_type":"FREE_TRIAL"}"#),
        bought("p2", .activate(.user("bob"), seconds(0), until: seconds(100)), "t3"),
        bought(
            "p2", .deactivate(.user("bob"), seconds(50), until: seconds(50), revoked: true), "t3",
            type: "SUBSCRIPTION_REFUNDED_REVOKED"),
        bought("p3", .activate(.user("bob"), seconds(0), until: seconds(100)), "t4"),
        bought("p3", .activate(.user("cleo"), seconds(5_000), until: seconds(6_000)), "t5"),
        bought("p4", .activate(.user("ann"), seconds(7)), "t6", kind: .oneTime),
        bought("p5", .activate(.user("ann"), seconds(8), until: seconds(900)), "t7"),
        bought(
            "p5",
            Fact(kind: .gain, holder: .user("bob"), at: seconds(9), until: seconds(900), isFamilyShared: true), "t8"),
        bought("p6", .activate(.anonymous("tablet"), seconds(10), until: seconds(999)), "t9", source: "shared"),
        .change(.identify(install: "tablet", identity: "cleo"), by: .anonymous("tablet"), at: 20, source: "shared"),
    ]

    private static func restored(
        _ lines: [ImportLine], _ body: (TestLedger, Daemon) async throws -> Void
    ) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let importer = Importer(rules: Daemon.rules, in: daemon.pool)
            for line in lines {
                let read = try ImportLine.read(line.canonical).line
                #expect(read == line)
            }
            for outcome in try await importer.record(lines) { #expect(outcome == .recorded) }
            try await body(ledger, daemon)
        }
    }

    @Test("Taken in by an empty ledger, entitlements, offers and identities are answered the same")
    func roundTrip() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            for event in Self.history { #expect(await daemon.record([event]) == [.stored]) }
            let before = try await Self.answers(daemon)
            #expect(before.count > 15, "\(before)")
            let numbers = "SELECT from_holder, to_holder, max(ordinal) FROM transfers GROUP BY 1, 2 ORDER BY 1, 2"
            let firsts = "SELECT identity, install FROM install_identities ORDER BY 1"
            let (ordinals, identities) = (try ledger.psql(numbers), try ledger.psql(firsts))
            #expect(ordinals == "anon:device|user:ann|1" && identities == "cleo|tablet")
            let lines = try await Self.export(daemon)
            try await Self.restored(lines) { other, reader in
                let after = try await Self.answers(reader)
                #expect(after == before)
                #expect(try other.psql(numbers) == ordinals)
                #expect(try other.psql(firsts) == identities)
                #expect(try await Self.export(reader).map(\.canonical).count == lines.count)
            }
            // Taken in where it came from, it changes nothing that is answered.
            _ = try await Importer(rules: Daemon.rules, in: daemon.pool).record(lines)
            #expect(try await Self.answers(daemon) == before)
            #expect(try ledger.psql(numbers) == ordinals)
        }
    }

    @Test("The next transfer between the same two is numbered after those that were exported")
    func nextOrdinal() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            for event in Self.history { #expect(await daemon.record([event]) == [.stored]) }
            try await Self.restored(try await Self.export(daemon, source: "shop")) { (other, reader) async throws in
                #expect(try other.psql("SELECT count(*) FROM purchases WHERE source <> 'shop'") == "0")
                let back = Fact.received(.user("ann"), from: Self.device, seconds(9_500), until: seconds(19_000))
                await reader.record([Self.bought("p1", back, "t2", type: "SUBSCRIPTION_RECEIVED")])
                #expect(
                    try other.psql("SELECT max(ordinal) FROM transfers WHERE from_holder = 'anon:device'") == "2")
            }
        }
    }

    @Test("A page ends where it has looked at enough, also at what is another source's; all of the source's is there")
    func ofOneSource() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            for event in Self.history { #expect(await daemon.record([event]) == [.stored]) }
            let lines = try await Self.export(daemon, source: "shop")
            let rows = Int(Limits.exportPageRows) * 2 + 1
            try ledger.psql(
                """
                INSERT INTO purchases (id, source, app, environment, store, key, kind, as_of_ms, state)
                    SELECT md5(n::text)::uuid, 'other', '', 'PRODUCTION', 'S', n::text, 'subscription', n, ''
                    FROM generate_series(1, \(rows)) AS n;
                INSERT INTO holder_links (source, app, environment, anonymous_user_id, user_id, as_of_ms)
                    SELECT 'other', '', 'PRODUCTION', n::text, 'u', n FROM generate_series(1, \(rows)) AS n;
                INSERT INTO install_identities (source, app, environment, identity, install, event)
                    SELECT 'other', '', 'PRODUCTION', n::text, 'u', n FROM generate_series(1, \(rows)) AS n;
                INSERT INTO installs (source, app, environment, install)
                    SELECT 'other', '', 'PRODUCTION', n::text FROM generate_series(1, \(rows)) AS n;
                INSERT INTO holder_changes (source, app, environment, subject, kind, target, at_ms, event)
                    SELECT 'other', '', 'PRODUCTION', 'anon:a', 'login', 'user:u', n, n
                    FROM generate_series(1, \(rows)) AS n
                """)
            var (walk, found, pages): (ExportWalk, [ImportLine], Int) = (ExportWalk(source: "shop"), [], 0)
            while !walk.isDone {
                found += try await walk.next(in: daemon.pool)
                pages += 1
            }
            #expect(found == lines)
            // Three of each of the five tables.
            #expect(pages == 15)
            #expect(walk.incomplete == 0 && walk.unreadable.isEmpty)
        }
    }

    @Test("A purchase that the database cannot read is left out and named; the others are written")
    func damaged() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            for event in Self.history { #expect(await daemon.record([event]) == [.stored]) }
            let lines = try await Self.export(daemon)
            // A time that is no number, in the part that belongs to the stored state.
            try ledger.psql(
                """
                UPDATE purchases SET access = jsonb_build_object(
                    'state', convert_from(substring(state FROM 3 FOR 16), 'UTF8'),
                    'of', jsonb_build_object('user:ann', jsonb_build_array(1, 'x', 1, 1)))
                WHERE key = 'p4'
                """)
            var (walk, found): (ExportWalk, [ImportLine]) = (ExportWalk(), [])
            while !walk.isDone { found += try await walk.next(in: daemon.pool) }
            let left = lines.filter { line in
                if case .purchase(let stated) = line.subject { stated.purchase.key != "p4" } else { true }
            }
            #expect(found == left && left.count < lines.count)
            let id = try ledger.psql("SELECT replace(id::text, '-', '') FROM purchases WHERE key = 'p4'")
            #expect(walk.unreadable.map(\.purchase.hex) == [id] && walk.incomplete == 0)
            #expect(walk.unreadable.allSatisfy { $0.reason.contains("22P02") }, "\(walk.unreadable)")
        }
    }

    @Test("Pages follow one another without a gap")
    func pages() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let count = Int(Limits.exportPageRows) + 3
            let importer = Importer(rules: Daemon.rules, in: daemon.pool)
            let scope = Scope(source: "shop", app: "app.one", environment: "PRODUCTION")
            let links = (0..<count).map { number in
                ImportLine(
                    scope: scope, holder: .anonymous("device_\(number)"), asOf: seconds(0), until: nil,
                    subject: .link(user: "ann", isFirst: false))
            }
            let purchases = (0..<count).map { number in
                let purchase = Purchase(
                    key: "p\(number)", kind: .subscription, store: "APPLE_APP_STORE", product: nil, plan: nil,
                    subscriptionID: nil)
                return ImportLine(
                    scope: scope, holder: .user("ann"), asOf: seconds(0), until: seconds(9),
                    subject: .purchase(.init(purchase: purchase, isActive: true)))
            }
            for outcome in try await importer.record(links + purchases) { #expect(outcome == .recorded) }
            let lines = try await Self.export(daemon)
            // A link, a purchase, and the transaction that its end stands with.
            #expect(lines.count == 3 * count)
            #expect(Set(lines.map(\.canonical)).count == 3 * count)
        }
    }
}
