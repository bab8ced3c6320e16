import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: psql, which sets times that a clock ahead would have written.
@Suite("A clock that was ahead", .timeLimit(.minutes(30)))
struct ClockAheadTests {
    @Test("An integration that was first seen in a time to come gets the lapses from now on")
    func lapses() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a", events: [Lapses.type])])
            try ledger.psql("UPDATE integrations SET created_at = now() + interval '400 days'")
            let month = Duration.seconds(30 * 86_400)
            let upkeep = Upkeep(
                pool: daemon.pool, retention: Retention(attempts: month, events: month, duplicates: month))
            try await upkeep.beginPeriod()
            let seen = try #require(
                Int64(
                    ledger.psql("SELECT ceil(extract(epoch FROM created_at) * 1000)::bigint FROM integrations")))
            // The leeway has passed a moment after that.
            let leeway: Int64 = 3_600_000
            let end = Timestamp(milliseconds: seen + 1 - leeway)
            await daemon.record([.paying(user, from: seconds(0), until: end, transaction: "t")])
            let lapses = Lapses(
                pool: daemon.pool, routes: daemon.routes, leeways: Leeways([.leaving("shop", .lasting(leeway))]))
            #expect(try await lapses.announce() == 1)
        }
    }
}
