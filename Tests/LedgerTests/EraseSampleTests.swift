import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// What PostgreSQL's samples of values have of an erased person. Oracle: `pg_stats`, by psql.
@Suite("Erasing PostgreSQL's samples")
struct EraseSampleTests {
    private static let jeff = Holder.user("jeff-9f3c")

    /// JSON, a purchase's state and the text of an array double a backslash.
    private static func escaped(_ id: String) -> String {
        id.split(separator: #"\"#, omittingEmptySubsequences: false).joined(separator: #"\\"#)
    }

    /// A ledger that has a purchase of the person and of two others, with a webhook that names each, all sampled.
    private static func daemon(with person: Holder, in ledger: TestLedger) async throws -> Daemon {
        let daemon = try await ledger.daemon([.named("a")])
        for (number, holder) in [person, .user("ann"), .user("bob")].enumerated() {
            await daemon.record([
                .stating(
                    .activate(holder, seconds(0), until: seconds(10_000)), purchase: "subs_\(number)",
                    transaction: "tx_\(number)"),
                .sample(
                    "NOTE", holder: .user("bob"), purchase: nil, transaction: nil, vendorEventID: "note-\(number)",
                    body: #"{"friend":"\#(escaped(holder.id))"}"#),
            ])
        }
        try ledger.psql("ANALYZE")
        return daemon
    }

    /// Columns in whose samples the id is, in text or in bytes; those of a partition under the name of its table.
    private static func columns(with id: String, in ledger: TestLedger) throws -> Set<String> {
        let hex = escaped(id).utf8.map { String($0, radix: 16) }.joined()
        let columns = try ledger.psql(
            """
            SELECT string_agg(DISTINCT regexp_replace(tablename, '_[0-9]+$', '') || '.' || attname, ' ')
            FROM pg_stats CROSS JOIN (VALUES ('\(escaped(id))'), ('\(hex)')) AS w (needle)
            WHERE schemaname = 'public'
              AND position(needle IN concat(most_common_vals::text, histogram_bounds::text)) > 0
            """)
        return Set(columns.split(separator: " ").map(String.init))
    }

    private func withPool<Value: Sendable>(
        _ connectionString: String, _ body: (Pool) async throws -> Value
    ) async throws -> Value {
        let pool = Pool(
            try TestLedger.settings(connectionString), size: 1,
            waiting: Pool.Waiting(waitersMax: 4, limit: .seconds(120)), backoff: .milliseconds(50)...(.seconds(1)))
        pool.start()
        let result: Result<Value, any Error>
        do { result = .success(try await body(pool)) } catch { result = .failure(error) }
        await pool.close()
        return try result.get()
    }

    @Test(
        "Analyzed after an erasure, the samples have the person no more, in text or in bytes",
        arguments: [jeff, .user(#"corp\ann"#)])
    func samples(person: Holder) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await Self.daemon(with: person, in: ledger)
            let before = try Self.columns(with: person.id, in: ledger)
            #expect(before.isSuperset(of: ["entitlements.holder", "events.body", "purchases.state"]), "\(before)")
            let erasure = try await Erasure.start(person, source: nil, isDry: false, in: daemon.pool)
            _ = try await erasure.run(in: daemon.pool) { _ in }
            let left = try await erasure.reanalyze(in: daemon.pool)
            #expect(left.isEmpty, "\(left)")
            #expect(try Self.columns(with: person.id, in: ledger) == [])
        }
    }

    @Test("A table that could not be analyzed is named with the reason, and so is one that is empty by now")
    func unsampled() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await Self.daemon(with: Self.jeff, in: ledger)
            let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool)
            _ = try await erasure.run(in: daemon.pool) { _ in }
            try ledger.psql("DELETE FROM events")
            let impatient = ledger.connectionString + " options='-c lock_timeout=100'"
            let left = try await withPool(impatient) { pool in
                try await ledger.during("LOCK TABLE entitlements IN SHARE UPDATE EXCLUSIVE MODE") {
                    try await erasure.reanalyze(in: pool)
                }
            }
            let (locked, emptied) = (
                left.first { $0.table == "entitlements" }, left.first { $0.table == "events" }
            )
            #expect(locked?.failure?.isLockTimeout == true, "\(left)")
            #expect(emptied != nil && emptied?.failure == nil, "\(left)")
            // Nobody has the lock any more.
            let next = try await erasure.reanalyze(in: daemon.pool)
            #expect(next.map(\.table) == ["events"], "\(next)")
            let columns = try Self.columns(with: Self.jeff.id, in: ledger)
            #expect(columns.allSatisfy { $0.hasPrefix("events") }, "\(columns)")
        }
    }

    @Test("Digits in the samples of a number or a time are nobody's")
    func numbers() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            try ledger.psql(
                """
                CREATE TABLE aside AS SELECT n AS id, timestamptz 'epoch' + n * interval '1 day' AS at, n || '' AS said
                FROM generate_series(42, 44) AS n;
                ANALYZE aside; DELETE FROM aside
                """)
            func named(_ person: Holder) async throws -> [String] {
                let erasure = try await Erasure.start(person, source: nil, isDry: false, in: daemon.pool)
                return try await erasure.reanalyze(in: daemon.pool).map(\.table)
            }
            #expect(try await named(.user("42")) == ["aside"])
            try ledger.psql("ALTER TABLE aside DROP COLUMN said")
            #expect(try await named(.user("42")) == [])
        }
    }

    @Test("Tables of another role are named, of partitions the table that they are of")
    func ofOthers() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await Self.daemon(with: Self.jeff, in: ledger)
            let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool)
            let role = "reader_\(ledger.database)"
            try ledger.psql("CREATE ROLE \(role) LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO \(role)")
            let url = ledger.connectionString.replacing(/user=\w+/, with: "user=\(role)")
            let left = try await withPool(url) { pool in try await erasure.reanalyze(in: pool) }
            #expect(Set(left.map(\.table)).isSuperset(of: ["entitlements", "events", "purchases"]), "\(left)")
            #expect(left.allSatisfy { $0.failure == nil && !$0.table.hasPrefix("events_") }, "\(left)")
        }
    }
}
