import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: the server itself, for types and for plans; what was recorded, for answers.
@Suite("Looking up holders", .serialized)
struct LookupHoldersTests {
    private struct Entry: Sendable {
        let name: String
        let sql: String
        let parameterOIDs: [UInt32]
        let resultOIDs: [UInt32]
        /// As psql takes them.
        let parameters: String
        let describe: @Sendable (borrowing Session) throws(DatabaseError) -> StatementDescription

        init<Parameters, Row>(_ statement: Statement<Parameters, Row>, _ parameters: String) {
            name = statement.name
            sql = statement.sql
            parameterOIDs = statement.parameterOIDs
            resultOIDs = statement.resultOIDs
            self.parameters = parameters
            describe = { session throws(DatabaseError) in try session.describe(statement) }
        }
    }

    private static let who = "ARRAY['user:7', 'anon:7'], ARRAY[NULL, 'shop'], ARRAY[NULL, '']"
    private static let least = "'00000000-0000-0000-0000-000000000000'"
    private static let greatest = "'ffffffff-ffff-ffff-ffff-ffffffffffff'"

    private static let leeways = "ARRAY['', 'shop'], ARRAY[86400000, NULL]"

    private static let catalogue: [Entry] = [
        Entry(HolderLookupStatements.currentIdentities, "'7', 'PRODUCTION'"),
        Entry(HolderEntitlementStatements.page, "\(who), 'PRODUCTION', NULL, NULL, \(least), 101, \(leeways)"),
        Entry(HolderHistoryStatements.events, "\(who), 'PRODUCTION', NULL, 9000000, 101"),
        Entry(HolderEntitlementStatements.products, "\(who), 'PRODUCTION', NULL, \(least), 101, \(leeways)"),
        Entry(HolderHistoryStatements.transfersOf, "ARRAY[7, 8], ARRAY['user:7', 'anon:7'], 100"),
        Entry(HolderHistoryStatements.transfers, "\(who), 'PRODUCTION', NULL, 9000000, \(greatest), 101"),
        Entry(HolderIdentityStatements.links, "'7', NULL, 'PRODUCTION', NULL, 9000000, \(greatest), 101"),
        Entry(
            HolderTransactionStatements.transactions,
            "\(who), 'PRODUCTION', NULL, ARRAY['gold'], ARRAY['TRIAL_STARTED'], 10001, 'offer', \(leeways)"),
        Entry(HolderInstallStatements.known, "'7', 'shop', '', 'anon:7', NULL"),
        Entry(HolderStatements.identities, "ARRAY['7'], ARRAY['shop'], ARRAY[''], ARRAY['PRODUCTION']"),
        Entry(HolderStatements.register, "ARRAY['new'], ARRAY['shop'], ARRAY[''], ARRAY['PRODUCTION']"),
        Entry(HolderInstallStatements.identity, "'7', 'shop', '', 'PRODUCTION'"),
        Entry(HolderInstallStatements.newestTime, "'7', 'shop', '', 'PRODUCTION', 'anon:7', 100"),
        Entry(HolderInstallStatements.newestTimeOfNamed, "ARRAY['t7', '7'], 'shop', '', 'PRODUCTION', 100"),
        Entry(HolderInstallStatements.identified, "'7', 'shop', '', NULL"),
        Entry(HolderInstallStatements.grant, "md5('7')::uuid"),
    ]

    @Test("The server's types are the declared ones")
    func types() async throws {
        let ledger = try await TestLedger()
        let connection = try await ledger.connect()
        for entry in Self.catalogue {
            let described = try await connection.withSession(entry.describe)
            #expect(described.parameterOIDs == entry.parameterOIDs, "\(entry.name)")
            #expect(described.resultOIDs == entry.resultOIDs, "\(entry.name)")
        }
        await connection.close()
    }

    @Test("Every look-up is answered from indexes")
    func plans() async throws {
        try await TestLedger.run { ledger in
            try ledger.allowIDsBefore(splitAt: [5_000, 10_000], isAlone: true)
            try ledger.psql(Self.manyRows)
            for entry in Self.catalogue {
                let types = entry.parameterOIDs.map { "\($0)::regtype::text" }.joined(separator: " || ', ' || ")
                let declared = try ledger.psql("SELECT \(types)")
                let plan = try ledger.psql(
                    """
                    SET plan_cache_mode = force_custom_plan;
                    PREPARE s (\(declared)) AS \(entry.sql);
                    EXPLAIN EXECUTE s (\(entry.parameters))
                    """)
                #expect(plan.contains("cost=") && !plan.contains("Seq Scan"), "\(entry.name): \(plan)")
            }
        }
    }

    /// A plan for all of them at once is right only for as few as the planner believes them to be.
    @Test("Recording asks for the stray events of whom a batch is about, whatever the planner believes of their number")
    func strayEvents() async throws {
        try await TestLedger.run { ledger in
            try ledger.allowIDsBefore(splitAt: [5_000, 10_000], isAlone: true)
            try ledger.psql(Self.manyRows)
            try ledger.psql("UPDATE events SET stray = false")
            try ledger.psql("VACUUM FULL ANALYZE events")
            try ledger.psql(
                """
                INSERT INTO events SELECT 20000 + n, md5((-n)::text)::uuid, 'shop', '', 'PRODUCTION', NULL, 'X', 'X',
                    'user:stray' || n, n, NULL, NULL, now(), '' FROM generate_series(1, 5000) AS n
                """)
            for entry in Self.catalogue where ["holder_identities", "holder_register"].contains(entry.name) {
                let types = entry.parameterOIDs.map { "\($0)::regtype::text" }.joined(separator: " || ', ' || ")
                let declared = try ledger.psql("SELECT \(types)")
                let plan = try ledger.psql(
                    """
                    SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off;
                    SET enable_mergejoin = off;
                    PREPARE s (\(declared)) AS \(entry.sql);
                    EXPLAIN (ANALYZE, TIMING OFF) EXECUTE s (\(entry.parameters))
                    """)
                #expect(plan.contains("_holder_id_idx") && !plan.contains("rows=5000"), "\(plan)")
            }
        }
    }

    /// 20,000 holders with one purchase, event, transfer and link each.
    private static let manyRows = """
        INSERT INTO purchases SELECT md5(n::text)::uuid, 'shop', '', 'PRODUCTION', 'S', n::text, 'subscription', 'gold',
            NULL, NULL, n, '' FROM generate_series(1, 20000) AS n;
        INSERT INTO transactions SELECT 't' || n, md5(n::text)::uuid, NULL, n, n, 'NONE', NULL, n, md5(n::text)::uuid
            FROM generate_series(1, 20000) AS n;
        INSERT INTO entitlements (holder, purchase, active, as_of_ms, event) SELECT 'user:' || n, md5(n::text)::uuid,
            true, n, n FROM generate_series(1, 20000) AS n;
        INSERT INTO events SELECT n, md5(n::text)::uuid, 'shop', '', 'PRODUCTION', NULL, 'X', 'X', 'user:' || n, n,
            md5(n::text)::uuid, 't' || n, now(), '' FROM generate_series(1, 20000) AS n;
        INSERT INTO transfers (id, purchase, from_holder, to_holder, ordinal, event) SELECT md5(n::text)::uuid,
            md5(n::text)::uuid, 'anon:' || n, 'user:' || n, 1, n FROM generate_series(1, 20000) AS n;
        INSERT INTO holder_links (source, app, environment, anonymous_user_id, user_id, as_of_ms) SELECT 'shop', '',
            'PRODUCTION', n::text, n::text, n FROM generate_series(1, 20000) AS n;
        INSERT INTO install_identities (source, app, environment, identity, install, event) SELECT 'shop', '',
            'PRODUCTION', n::text, n::text, n FROM generate_series(1, 20000) AS n;
        INSERT INTO installs (source, app, environment, install) SELECT 'shop', '', 'PRODUCTION', n::text
            FROM generate_series(1, 20000) AS n;
        ANALYZE
        """

    @Test("The newest transaction is the latest purchased, not the latest received")
    func newestTransaction() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let lookup = HolderLookup(pool: daemon.pool)
            await daemon.record([
                .stating(.activate(user, seconds(0), until: seconds(100)), transaction: "first"),
                .stating(.activate(user, seconds(50), until: seconds(200)), transaction: "second"),
                .sample("RESTATED", at: seconds(90), transaction: "first"),
            ])
            try ledger.psql("UPDATE transactions SET purchased_at_ms = 5 WHERE store_transaction_id = 'first'")
            try ledger.psql("UPDATE transactions SET purchased_at_ms = 6 WHERE store_transaction_id = 'second'")
            let scope = LookupScope(environment: "PRODUCTION", source: nil)
            let held = try await lookup.entitlements(of: .holder(user), in: scope).entries
            #expect(held.map(\.newestTransaction?.storeTransactionID) == ["second"])
            #expect(held.first?.startedAt == Timestamp(milliseconds: 5) && held.first?.isActive == true)
            #expect(held.first?.cause?.name == "ACTIVATE" && held.first?.asOf == seconds(50))
        }
    }

    @Test("Ids are compared byte by byte")
    func bytes() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let lookup = HolderLookup(pool: daemon.pool)
            let composed = Holder.user("\u{E9}")
            let decomposed = Holder.user("e\u{301}")
            await daemon.record([.stating(.activate(composed, seconds(0), until: seconds(10)))])
            let scope = LookupScope(environment: "PRODUCTION", source: nil)
            #expect(try await lookup.entitlements(of: .holder(composed), in: scope).entries.count == 1)
            #expect(try await lookup.entitlements(of: .holder(decomposed), in: scope).entries.isEmpty)
        }
    }

    @Test("A name is registered once in its scope, whoever comes first, and not where webhooks named it")
    func registering() async throws {
        try await TestLedger.run { ledger in
            let (one, two) = (try await ledger.daemon(), try await ledger.daemon())
            let lookup = HolderLookup(pool: one.pool)
            @Sendable func registration(_ install: String, environment: String = "PRODUCTION") -> Event {
                Event(
                    scope: Scope(source: "shop", app: "", environment: environment),
                    vendorEventID: "\(UInt64.random(in: 0...(.max)))", name: "USER_CREATED", type: "USER_CREATED",
                    holder: .anonymous(install), occurredAt: seconds(0), purchase: nil, transaction: nil,
                    change: .register(install: install), body: Array("{}".utf8))
            }
            async let first = one.record((0..<4).map { _ in registration("A") })
            async let second = two.record((0..<4).map { _ in registration("A") })
            let answers = await first + second
            #expect(answers.count { $0 == .stored } == 1 && answers.count { $0 == .conditionFailed } == 7)
            #expect(await one.record([registration("A", environment: "SANDBOX")]) == [.stored])
            await one.record([.sample(holder: .anonymous("B"), purchase: nil, transaction: nil, app: "")])
            let mixed: [Event] = [
                registration("B"), .sample(holder: .anonymous("C"), at: seconds(1), app: ""), registration("D"),
            ]
            #expect(await one.record(mixed) == [.conditionFailed, .stored, .stored])
            #expect(try ledger.psql("SELECT count(*) FROM events WHERE name = 'USER_CREATED'") == "3")
            let known = try await lookup.install("A", of: "shop", app: "", environment: nil)
            #expect(known?.environment == "PRODUCTION")
            #expect(try await lookup.install("A", of: "shop", app: "other", environment: nil) == nil)
            #expect(try await lookup.install("A", of: "other", app: "", environment: nil) == nil)
        }
    }
}
