import TestSupport
import Postgres
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: the purchases that the test recorded, by hand; for the table of ends, the table as recording left it.
@Suite("Overdue purchases", .serialized)
struct OverdueTests {
    private static let hour: Int64 = 3_600_000
    private static let leeways = Leeways([.leaving("shop", .lasting(10 * hour)), .leaving("moving", .off)])
    private static let ends = """
        SELECT string_agg(until_ms || ' ' || purchase, ',' ORDER BY until_ms, purchase) FROM purchase_ends
        """

    private func upkeep(_ daemon: Daemon) -> Upkeep {
        let month = Duration.seconds(30 * 86_400)
        return Upkeep(pool: daemon.pool, retention: Retention(attempts: month, events: month, duplicates: month))
    }

    private func overdue(
        _ daemon: Daemon, source: String? = nil, environment: String? = nil, limit: Int32 = 100
    ) async throws -> [OverduePurchase] {
        try await OverduePurchase.read(
            source: source, environment: environment, limit: limit, leeways: Self.leeways, from: daemon.pool
        ).entries
    }

    @Test("Listed are those whose end has passed without a word, and no others; a late webhook takes them off")
    func list() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let now = try ledger.now()
            func at(_ hours: Int64) -> Timestamp { now.advanced(byMilliseconds: hours * Self.hour) }
            await daemon.record([
                .paying(user, from: at(-90), until: at(-20), transaction: "a", purchase: "lapsed"),
                .paying(user, from: at(-90), until: at(-5), transaction: "b", purchase: "active"),
                .paying(user, from: at(-90), until: at(5), transaction: "c", purchase: "running"),
                .paying(user, from: at(-90), until: nil, transaction: "d", purchase: "endless"),
                .paying(user, from: at(-90), until: at(-40), transaction: "e", purchase: "off", source: "moving"),
                .paying(
                    user, from: at(-90), until: at(-30), transaction: "f", purchase: "test", environment: "SANDBOX"),
                .paying(user, from: at(-90), until: at(-50), transaction: "g", purchase: "renewed"),
                .paying(user, from: at(-50), until: at(50), transaction: "h", purchase: "renewed"),
                .paying(user, from: at(-90), until: at(-50), transaction: "i", purchase: "ended"),
                .stating(.deactivate(user, at(-49)), purchase: "ended", transaction: "i"),
            ])
            for _ in 0..<2 {
                let found = try await overdue(daemon)
                #expect(found.map(\.purchase) == ["off", "test", "lapsed", "active"])
                #expect(found.map(\.isActive) == [true, false, false, true])
                #expect(found.map(\.until) == [at(-40), at(-30), at(-20), at(-5)])
                #expect(found.allSatisfy { $0.holders == ["user:jeff"] } && found.first?.transaction == "e")
                #expect(try await overdue(daemon, source: "shop", environment: "PRODUCTION").count == 2)
                let read = try await OverdueFigures.read(leeways: Self.leeways, from: daemon.pool)
                let figures = try #require(read)
                #expect(
                    figures == [
                        OverdueFigures(source: "moving", environment: "PRODUCTION", active: 1, lapsed: 0),
                        OverdueFigures(source: "shop", environment: "PRODUCTION", active: 1, lapsed: 1),
                        OverdueFigures(source: "shop", environment: "SANDBOX", active: 0, lapsed: 1),
                    ])
                // Upkeep deletes what is past and not overdue, and changes nothing of this.
                try await upkeep(daemon).pruneEnds()
                #expect(try ledger.psql("SELECT count(*) FROM purchase_ends") == "6")
            }
            await daemon.record([
                .paying(user, from: at(-20), until: at(20), transaction: "a2", purchase: "lapsed"),
                .stating(.deactivate(user, at(-4)), purchase: "active", transaction: "b"),
            ])
            #expect(try await overdue(daemon).map(\.purchase) == ["off", "test"])
        }
    }

    @Test("Ends of a period before, which renewals made stale, do not hide what is overdue from the figures")
    func staleEnds() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let now = try ledger.now()
            func at(_ hours: Int64) -> Timestamp { now.advanced(byMilliseconds: hours * Self.hour) }
            var events: [Event] = [.paying(user, from: at(-90), until: at(-20), transaction: "a", purchase: "lapsed")]
            for number in 0..<7 {
                let purchase = "renewed_\(number)"
                events += [
                    .paying(user, from: at(-90), until: at(-1), transaction: "b\(number)", purchase: purchase),
                    .paying(user, from: at(-1), until: at(90), transaction: "c\(number)", purchase: purchase),
                ]
            }
            await daemon.record(events)
            let read = try await OverdueFigures.read(leeways: Self.leeways, from: daemon.pool, countedMax: 3)
            #expect(read == [OverdueFigures(source: "shop", environment: "PRODUCTION", active: 0, lapsed: 1)])
        }
    }

    @Test("Pages follow one another, also where many end at one moment")
    func pages() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let end = try ledger.now().advanced(byMilliseconds: -Self.hour)
            await daemon.record(
                (0..<10).map {
                    .paying(user, from: seconds(0), until: end, transaction: "t\($0)", purchase: "subs_\($0)")
                })
            var seen: [String] = []
            var cursor: LookupCursor?
            for _ in 0..<10 {
                let page = try await OverduePurchase.read(
                    after: cursor, limit: 3, leeways: Self.leeways, from: daemon.pool)
                seen += page.entries.map(\.purchase)
                cursor = page.next.flatMap { LookupCursor(written: $0.written) }
                if cursor == nil { break }
            }
            #expect(seen.count == 10 && Set(seen).count == 10)
        }
    }

    @Test("A purchase that a webhook about an older transaction gives back after its end was deleted is overdue again")
    func givenBackByAnOlderOne() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let now = try ledger.now()
            func at(_ hours: Int64) -> Timestamp { now.advanced(byMilliseconds: hours * Self.hour) }
            await daemon.record([
                .paying(user, from: at(-90), until: at(-50), transaction: "a"),
                .paying(user, from: at(-50), until: at(-1), transaction: "b"),
                .sample("DEACTIVATE", at: at(-40), transaction: nil, fact: .deactivate(user, at(-40))),
            ])
            try await upkeep(daemon).pruneEnds()
            #expect(try ledger.psql("SELECT count(*) FROM purchase_ends") == "0")
            await daemon.record([.paying(user, from: at(-90), until: at(-50), transaction: "a", at: at(-30))])
            let listed = try await overdue(daemon)
            #expect(listed.map(\.until) == [at(-1)])
        }
    }

    @Test("A purchase that a login gives back after its end was deleted is overdue again")
    func givenBack() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let end = try ledger.now().advanced(byMilliseconds: -Self.hour)
            await daemon.record([
                .paying(user, from: seconds(0), until: end, transaction: "t"),
                .sample("DEACTIVATE", at: seconds(10), transaction: nil, fact: .deactivate(user, seconds(10))),
            ])
            try await upkeep(daemon).pruneEnds()
            #expect(try ledger.psql("SELECT count(*) FROM purchase_ends") == "0")
            let fact = Fact.activate(user, seconds(20), until: end)
            await daemon.record([.sample("ACTIVATE", at: seconds(20), transaction: nil, fact: fact)])
            #expect(try await overdue(daemon).map(\.purchase) == ["subs_1"])
        }
    }

    @Test("The ends of purchases from before are added in steps, and not while a daemon of another version may live")
    func missing() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let now = try ledger.now()
            let count = Int(Upkeep.endsStep) + 7
            for start in stride(from: 0, to: count, by: 500) {
                await daemon.record(
                    (start..<min(start + 500, count)).map { number in
                        let end = now.advanced(byMilliseconds: Int64(number - 500) * Self.hour)
                        return .paying(
                            user, from: seconds(0), until: end, transaction: "t\(number)", purchase: "p\(number)")
                    })
            }
            let recorded = try ledger.psql(Self.ends)
            try ledger.psql(
                """
                DELETE FROM purchase_ends;
                INSERT INTO purchase_ends_missing VALUES ('00000000-0000-0000-0000-000000000000');
                INSERT INTO daemons (version, expires_at, state_form) VALUES ('older', now() - interval '1 hour', 5)
                """)
            try await upkeep(daemon).addMissingEnds()
            #expect(try ledger.psql("SELECT count(*) FROM purchase_ends") == "0")
            try ledger.psql("DELETE FROM daemons WHERE version = 'older'")
            try await upkeep(daemon).addMissingEnds()
            #expect(try ledger.psql(Self.ends) == recorded)
            #expect(try ledger.psql("SELECT count(*) FROM purchase_ends_missing") == "0")
        }
    }

    @Test("An erased purchase leaves no end behind")
    func erased() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([.paying(user, from: seconds(0), until: seconds(100), transaction: "t")])
            #expect(try ledger.psql("SELECT count(*) FROM purchase_ends") == "1")
            let erasure = try await Erasure.start(user, source: nil, isDry: false, in: daemon.pool)
            _ = try await erasure.run(in: daemon.pool) { _ in }
            #expect(try ledger.psql("SELECT count(*) FROM purchases") == "0")
            #expect(try ledger.psql("SELECT count(*) FROM purchase_ends") == "0")
        }
    }

    @Test("Due ends and figures are found by the index, without the purchases that are not due")
    func plans() async throws {
        try await TestLedger.run { ledger in
            _ = try await ledger.daemon()
            try ledger.psql(
                """
                INSERT INTO purchases SELECT md5(n::text)::uuid, 'shop', '', 'PRODUCTION', 'S', n::text,
                    'subscription', 'gold', NULL, NULL, n, '' FROM generate_series(1, 20000) AS n;
                INSERT INTO transactions SELECT 't' || n, md5(n::text)::uuid, NULL, n,
                    CASE WHEN n <= 20 THEN n ELSE 4102444800000 + n END, 'NONE', NULL, n, md5(n::text)::uuid
                    FROM generate_series(1, 20000) AS n;
                INSERT INTO entitlements (holder, purchase, active, as_of_ms, event)
                    SELECT 'user:' || n, md5(n::text)::uuid, true, n, n FROM generate_series(1, 20000) AS n;
                INSERT INTO purchase_ends
                    SELECT effective_next_renewal_at_ms, purchase FROM transactions;
                ANALYZE
                """)
            let least = "'00000000-0000-0000-0000-000000000000'"
            let page = OverdueStatements.page
            let (passed, figures) = (OverdueStatements.passed, OverdueStatements.figures)
            let due = EndStatements.due
            let queries = [
                ("purchase_ends_pkey", page.sql, page.parameterOIDs, "0, \(least), NULL, NULL, 51, 10"),
                ("purchase_ends_pkey", passed.sql, passed.parameterOIDs, "4000000000000, \(least), 50000"),
                (
                    "purchases_pkey", figures.sql, figures.parameterOIDs,
                    "ARRAY[''], ARRAY[1], ARRAY[1], ARRAY[md5('1')]::uuid[]"
                ),
                ("purchase_ends_pkey", due.sql, due.parameterOIDs, "0, \(least), 1000000, 1000"),
            ]
            for (index, sql, oids, parameters) in queries {
                let types = try ledger.psql(
                    "SELECT " + oids.map { "\($0)::regtype::text" }.joined(separator: " || ', ' || "))
                let plan = try ledger.psql(
                    """
                    SET plan_cache_mode = force_generic_plan;
                    PREPARE s (\(types)) AS \(sql);
                    EXPLAIN (ANALYZE, TIMING OFF) EXECUTE s (\(parameters))
                    """)
                #expect(plan.contains(index) && !plan.contains("Seq Scan"), "\(plan)")
                #expect(!plan.contains("rows=20000") && !plan.contains("rows=19980"), "\(plan)")
            }
        }
    }
}
