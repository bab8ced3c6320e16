import Foundation
import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// What a look-up reads does not grow with what it does not answer. Oracle: the rows that PostgreSQL says it read
/// (EXPLAIN ANALYZE) over a thousand of each; never the clock.
@Suite("Look-ups read within bounds", .serialized)
struct LookupBoundsTests {
    /// One holder with a thousand purchases, of which one is held; one transaction with a thousand webhooks; one login
    /// that moved a thousand purchases, with two messages of each; a thousand deliveries that wait and as many dead
    /// letters. Five thousand webhooks of others, each with a purchase of its own.
    private static let thousands = """
        INSERT INTO integrations (name) VALUES ('backend');
        INSERT INTO purchases SELECT md5(n::text)::uuid, 'shop', '', 'PRODUCTION', 'S', n::text, 'subscription',
            'product' || n, NULL, NULL, n, '' FROM generate_series(1, 1000) AS n;
        INSERT INTO transactions SELECT 't' || n, md5(n::text)::uuid, NULL, n, n, 'NONE', NULL, n, md5(n::text)::uuid
            FROM generate_series(1, 1000) AS n;
        INSERT INTO entitlements (holder, purchase, active, as_of_ms, event) SELECT 'user:u', md5(n::text)::uuid,
            n = 500, n, n FROM generate_series(1, 1000) AS n;
        INSERT INTO events SELECT n, md5(n::text)::uuid, 'shop', '', 'PRODUCTION', NULL, 'X', 'X', 'user:u', n,
            md5('1')::uuid, 't1', now(), '' FROM generate_series(1, 1000) AS n;
        INSERT INTO events SELECT -n, md5((-n)::text)::uuid, 'shop', '', 'PRODUCTION', NULL, 'X', 'X', 'user:' || n, n,
            md5('other' || n)::uuid, 'o' || n, now(), '' FROM generate_series(1, 5000) AS n;
        INSERT INTO transfers (id, purchase, from_holder, to_holder, ordinal, event) SELECT md5(n::text)::uuid,
            md5(n::text)::uuid, 'anon:a', 'user:u', 1, 1000 FROM generate_series(1, 1000) AS n;
        INSERT INTO messages (id, key, event, type, transfer, envelope) SELECT n, md5(n::text)::uuid, 1000, 'X',
            md5(((n - 1) % 1000 + 1)::text)::uuid, '' FROM generate_series(1, 2000) AS n;
        INSERT INTO deliveries (id, message, integration, purchase) SELECT n, n, 1, md5(n::text)::uuid
            FROM generate_series(1, 1000) AS n;
        INSERT INTO dead_letters (delivery, message, integration, attempts, reason, created_at)
            SELECT n + 1000, n + 1000, 1, 1, 'x', now() FROM generate_series(1, 1000) AS n;
        INSERT INTO holder_links (source, app, environment, anonymous_user_id, user_id, as_of_ms) SELECT 'shop', '',
            'PRODUCTION', n::text, 'u', n FROM generate_series(1, 1000) AS n;
        ANALYZE
        """

    private struct Plan: Decodable {
        enum CodingKeys: String, CodingKey {
            case type = "Node Type", rows = "Actual Rows", loops = "Actual Loops", relation = "Relation Name"
            case plans = "Plans", removed = "Rows Removed by Filter"
        }

        let type: String
        let rows: Double
        let loops: Double
        let relation: String?
        let plans: [Plan]?
        let removed: Double?

        /// Rows of tables that were read, those included that a filter threw away.
        func read(of wanted: Set<String>) -> Double {
            let own =
                relation.map { wanted.contains(String($0.prefix { $0 != "_" })) } == true
                ? (rows + (removed ?? 0)) * loops : 0
            return (plans ?? []).reduce(own) { $0 + $1.read(of: wanted) }
        }
    }

    private struct Explained: Decodable {
        enum CodingKeys: String, CodingKey { case plan = "Plan" }
        let plan: Plan
    }

    private func plan<Parameters, Row>(
        of statement: Statement<Parameters, Row>, _ parameters: String, _ ledger: TestLedger
    ) throws -> Plan {
        let types = statement.parameterOIDs.map { "\($0)::regtype::text" }.joined(separator: " || ', ' || ")
        let declared = try ledger.psql("SELECT \(types)")
        let text = try ledger.psql(
            """
            SET plan_cache_mode = force_custom_plan;
            PREPARE s (\(declared)) AS \(statement.sql);
            EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE s (\(parameters))
            """)
        let json = text.drop { $0 != "[" }
        return try #require(JSONDecoder().decode([Explained].self, from: Data(json.utf8)).first).plan
    }

    private static let who = "ARRAY['user:u'], ARRAY[NULL], ARRAY[NULL], 'PRODUCTION', NULL"
    private static let least = "'00000000-0000-0000-0000-000000000000'"
    private static let leeways = "ARRAY[''], ARRAY[NULL]::bigint[]"
    private static let greatest = "'ffffffff-ffff-ffff-ffff-ffffffffffff'"

    @Test("What a holder has now is found without the transactions and events of what it no longer has")
    func activeOnes() async throws {
        try await TestLedger.run { ledger in
            try ledger.allowIDsBefore(splitAt: [-2_500], isAlone: true)
            try ledger.psql(Self.thousands)
            let active = try plan(
                of: HolderEntitlementStatements.page, "\(Self.who), true, \(Self.least), 101, \(Self.leeways)", ledger)
            #expect(active.rows == 1 && active.read(of: ["transactions", "events"]) <= 10)
            let page = try plan(
                of: HolderEntitlementStatements.page, "\(Self.who), NULL, \(Self.least), 11, \(Self.leeways)", ledger)
            #expect(page.rows == 11 && page.read(of: ["transactions", "events"]) <= 100)
            let products = try plan(
                of: HolderEntitlementStatements.products, "\(Self.who), \(Self.least), 11, \(Self.leeways)", ledger)
            #expect(products.rows == 11)
        }
    }

    @Test("A history shows a part of what one login moved; the transfers come in pages")
    func history() async throws {
        try await TestLedger.run { ledger in
            try ledger.allowIDsBefore(splitAt: [-2_500], isAlone: true)
            try ledger.psql(Self.thousands)
            let events = try plan(of: HolderHistoryStatements.events, "\(Self.who), 9000000, 11", ledger)
            #expect(events.rows == 11 && events.read(of: ["events", "transfers"]) <= 200)
            let moved = try plan(
                of: HolderHistoryStatements.transfersOf, "ARRAY[999, 1000], ARRAY['user:u'], 100", ledger)
            #expect(moved.rows == 100)
            let page = try plan(
                of: HolderHistoryStatements.transfers, "\(Self.who), 9000000, \(Self.greatest), 11", ledger)
            #expect(page.rows == 11)
        }
    }

    @Test("A history does not read the transfers whose events are all gone")
    func historyOfOldTransfers() async throws {
        try await TestLedger.run { ledger in
            try ledger.allowIDsBefore(splitAt: [-2_500], isAlone: true)
            try ledger.psql(Self.thousands)
            for (from, to) in [("anon:a", "user:u"), ("user:u", "anon:a")] {
                try ledger.psql(
                    """
                    INSERT INTO transfers (id, purchase, from_holder, to_holder, ordinal, event)
                        SELECT md5('\(from)' || n)::uuid, md5(n::text)::uuid, '\(from)', '\(to)', 2, n - 20000
                        FROM generate_series(1, 1000) AS n
                    """)
            }
            try ledger.psql("ANALYZE")
            let events = try plan(of: HolderHistoryStatements.events, "\(Self.who), 9000000, 11", ledger)
            #expect(events.rows == 11 && events.read(of: ["events", "transfers"]) <= 200)
        }
    }

    @Test("A transaction's newest webhooks are found without the others")
    func transaction() async throws {
        try await TestLedger.run { ledger in
            try ledger.allowIDsBefore(splitAt: [-2_500], isAlone: true)
            try ledger.psql(Self.thousands)
            let found = try plan(of: EventHandleStatements.byTransaction, "'t1', 10", ledger)
            #expect(found.rows == 10 && found.read(of: ["events", "transfers", "transactions"]) <= 100)
        }
    }

    @Test("A trace of a login that moved a thousand shows a part, and says so")
    func trace() async throws {
        try await TestLedger.run { ledger in
            try ledger.allowIDsBefore(splitAt: [-2_500], isAlone: true)
            try ledger.psql(Self.thousands)
            let daemon = try await ledger.daemon()
            let trace = try #require(try await Trace.read(EventHandle(.user, "u"), from: daemon.pool))
            #expect(trace.isCut && trace.webhooks.count == Int(Trace.webhooksMax))
            let messages = trace.webhooks.flatMap(\.messages)
            #expect(messages.count == Int(Trace.messagesMax) && trace.holdings.count <= Int(Trace.messagesMax))
            // The newest messages are shown: those of dead letters.
            let dead = messages.flatMap(\.deliveries).count { if case .dead = $0.state { true } else { false } }
            #expect(dead == 1_000)
            let waiting = try plan(
                of: TraceStatements.waiting, "ARRAY[1, 2, 3]", ledger)
            #expect(waiting.rows == 3 && waiting.read(of: ["deliveries"]) <= 20)
        }
    }

    @Test("The first identify of an identity with a thousand installs reads two of them into memory")
    func installs() async throws {
        try await TestLedger.run { ledger in
            try ledger.allowIDsBefore(splitAt: [-2_500], isAlone: true)
            try ledger.psql(Self.thousands)
            let keys = "ARRAY['u'], ARRAY['shop'], ARRAY[''], ARRAY['PRODUCTION']"
            let identity = try plan(of: HolderStatements.identities, keys, ledger)
            #expect(identity.rows == 1 && identity.read(of: ["entitlements", "events"]) <= 20)
            try ledger.psql(
                """
                INSERT INTO install_identities (source, app, environment, identity, install, event)
                VALUES ('shop', '', 'PRODUCTION', 'u', '1', 1)
                """)
            let known = try plan(of: HolderStatements.identities, keys, ledger)
            #expect(known.rows == 1 && known.read(of: ["entitlements", "events", "holder_links"]) <= 20)
        }
    }

    @Test("A step of a replay reads what it replays, not all that is left")
    func replay() async throws {
        try await TestLedger.run { ledger in
            try ledger.allowIDsBefore(splitAt: [-2_500], isAlone: true)
            try ledger.psql(Self.thousands)
            try ledger.psql(
                """
                INSERT INTO dead_letters (delivery, message, integration, attempts, reason, created_at)
                    SELECT n + 5000, n % 2000 + 1, 1, 1, 'x', now() FROM generate_series(1, 20000) AS n;
                INSERT INTO attempts (delivery, message, integration, attempt, outcome, latency_ms)
                    SELECT n, n % 2000 + 1, 1, 1, 'accepted', 1 FROM generate_series(1, 20000) AS n;
                ANALYZE
                """)
            let page = try plan(
                of: ReplayStatements.page,
                "9000000, ARRAY[1], 0, 4102444800000, NULL, true, true, 0, 0, 10, 4102444800000", ledger)
            #expect(page.rows == 10 && page.read(of: ["dead", "attempts", "messages"]) <= 1_000)
            let end = try plan(of: ReplayStatements.end, "0, true, true, 0, 4102444800000, 100", ledger)
            #expect(end.rows == 1 && end.read(of: ["dead", "attempts", "messages"]) <= 1_000)
        }
    }

    @Test("A page of an export or a repair of one source reads as many rows as a page has, whosever they are")
    func ofOneSource() async throws {
        try await TestLedger.run { ledger in
            try ledger.allowIDsBefore(splitAt: [-2_500], isAlone: true)
            try ledger.psql(Self.thousands)
            let repaired = try plan(of: RepairStatements.page, "\(Self.least), 10", ledger)
            #expect(repaired.rows == 10 && repaired.read(of: ["purchases"]) <= 20)
            let exported = try plan(of: ExportStatements.seen, "\(Self.least), 10", ledger)
            #expect(exported.rows == 10 && exported.read(of: ["purchases"]) <= 20)
            let links = try plan(of: ExportStatements.links, "'', '', '', '', 10", ledger)
            #expect(links.rows == 10 && links.read(of: ["holder"]) <= 20)
        }
    }

    @Test("What is read of an install is of one moment, whatever is recorded meanwhile")
    func ofOneMoment() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([.stating(.activate(anonymous, seconds(0)))])
            let scope = LookupScope(environment: "PRODUCTION", source: nil)
            let counts = try await HolderLookup(pool: daemon.pool).read(
                of: .install(anonymous.id), in: scope
            ) { _, session throws(DatabaseError) in
                let before = try session.number("SELECT count(*) FROM events", stall: .seconds(60))
                do { try ledger.psql("DELETE FROM events") } catch { Issue.record(error) }
                return [before, try session.number("SELECT count(*) FROM events", stall: .seconds(60))]
            }
            #expect(counts == [1, 1])
        }
    }
}
