import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// What is kept of random histories of each kind of ownership, exported and imported into an empty ledger. Oracle: SQL
/// and look-ups, asked of both ledgers, also after more webhooks that both get.
@Suite("Export of random histories", .serialized)
struct ExportHistoryTests {
    private static let histories = 8
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
            for holder in DrawnHistory.people + [.anonymous("customer")] {
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

    /// One history for each environment. The next events of all of them are recorded together: they concern different
    /// purchases.
    private static func drawings(
        _ source: String, _ lateness: DrawnHistory.Lateness, _ seed: UInt64
    ) -> [DrawnHistory] {
        (0..<histories).map { number in
            DrawnHistory(source, "h\(number)", lateness, seed: seed &* 1_000_003 &+ UInt64(number) &* 7_919)
        }
    }

    @Test(
        "Imported into an empty ledger, all is known as before; webhooks that follow have the same effect on both",
        arguments: ["shop", "store", "shared"])
    func roundTrip(_ source: String) async throws {
        var drawings = Self.drawings(source, .beyondRetries, 1)
        let first = (0..<14).map { _ in drawings.indices.map { drawings[$0].next() } }
        let second = (0..<8).map { _ in drawings.indices.map { drawings[$0].next() } }
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            for events in first { _ = await daemon.record(events) }
            let lines = try await Self.export(daemon)
            let before = try await Self.picture(ledger, daemon)
            try await TestLedger.run { other in
                let reader = try await other.daemon()
                try await Self.record(lines.shuffled(by: 1), by: reader)
                let after = try await Self.picture(other, reader)
                #expect(Self.differing(before, after) == [])
                for events in second {
                    let expected = await daemon.record(events)
                    #expect(await reader.record(events) == expected, "\(events.map(\.name))")
                }
                let (mine, theirs) = (
                    try await Self.picture(ledger, daemon), try await Self.picture(other, reader)
                )
                #expect(Self.differing(mine, theirs) == [])
            }
        }
    }

    /// Many more histories are joined in `StateJoiningTests`. Facts that name nobody and come later than any retry may
    /// be of somebody else by what the export still has and the ledger has settled.
    @Test(
        "Imported again where it came from after further webhooks, nothing changes",
        arguments: [
            ("shop", .beyondRetries), ("store", .retried), ("shared", .beyondRetries),
        ] as [(String, DrawnHistory.Lateness)])
    func again(_ source: String, _ lateness: DrawnHistory.Lateness) async throws {
        var drawings = Self.drawings(source, lateness, 4)
        let first = (0..<12).map { _ in drawings.indices.map { drawings[$0].next() } }
        let second = (0..<4).map { _ in drawings.indices.map { drawings[$0].next() } }
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            for events in first { _ = await daemon.record(events) }
            let lines = try await Self.export(daemon)
            for events in second { _ = await daemon.record(events) }
            let before = try await Self.picture(ledger, daemon)
            _ = try await Importer(rules: Daemon.rules, in: daemon.pool).record(lines.shuffled(by: 4))
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
