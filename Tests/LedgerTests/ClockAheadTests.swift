import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL, which sets times that a clock ahead would have written.
@Suite("A clock that was ahead", .timeLimit(.minutes(30)))
struct ClockAheadTests {
    private static let leeway: Int64 = 3_600_000

    @Test("An integration that was first seen in a time to come gets the lapses from now on")
    func lapses() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a", events: [Lapses.type])])
            try ledger.psql("UPDATE integrations SET created_at = now() + interval '400 days'")
            let lapses = Lapses(
                pool: daemon.pool, routes: daemon.routes, leeways: Leeways([.leaving("shop", .lasting(Self.leeway))]))
            #expect(try await lapses.announce() == 0)
            let seen = try #require(
                Int64(
                    ledger.psql("SELECT ceil(extract(epoch FROM created_at) * 1000)::bigint FROM integrations")))
            // The leeway has passed a moment after that.
            let end = Timestamp(milliseconds: seen + 1 - Self.leeway)
            await daemon.record([.paying(user, from: seconds(0), until: end, transaction: "t")])
            #expect(try await lapses.announce() == 1)
        }
    }

    @Test("By a clock that is behind no integration is new")
    func behind() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a", events: [Lapses.type])])
            try ledger.psql(
                """
                UPDATE schema_migrations SET applied_at = applied_at + interval '5 years';
                UPDATE integrations SET created_at = created_at + interval '5 years'
                """)
            let created = "SELECT created_at FROM integrations"
            let before = try ledger.psql(created)
            let lapses = Lapses(
                pool: daemon.pool, routes: daemon.routes, leeways: Leeways([.leaving("shop", .lasting(Self.leeway))]))
            _ = try await lapses.announce()
            #expect(try ledger.psql(created) == before)
        }
    }

    @Test("What dies while dead letters are discarded stays, also where one of those counted is of a time to come")
    func discarded() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            daemon.open("a")
            func die(_ name: String) async throws {
                await daemon.record([.sample(name, purchase: name, transaction: name)])
                _ = try await daemon.queue.settle(daemon.inbox.take().map { $0.settled(.dead(reason: "x")) })
            }
            try await die("AHEAD")
            try ledger.psql("UPDATE dead_letters SET died_at = now() + interval '1 day'")
            try await die("COUNTED")
            let letters = try await DeadLetters.of(daemon.row("a"), before: nil, in: daemon.pool)
            #expect(letters.count == 2)
            try await die("LATER")
            #expect(try await letters.drop(in: daemon.pool) == 2)
            #expect(try await letters.drop(in: daemon.pool) == 0)
            #expect(
                try ledger.psql("SELECT m.type FROM dead_letters l JOIN messages m ON m.id = l.message") == "LATER")
        }
    }
}
