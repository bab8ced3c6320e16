import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL.
@Suite("Erasing without a salt", .timeLimit(.minutes(30)))
struct EraseSaltTests {
    @Test("It fails, and says what makes a new one, instead of finding nothing of the person")
    func missing() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([.sample("A", holder: user, purchase: "a")])
            try ledger.psql("DELETE FROM erasure_salt")
            var problem = ""
            do {
                _ = try await Erasure.start(user, source: nil, isDry: false, in: daemon.pool)
            } catch { problem = "\(error)" }
            let insert = try #require(problem.firstMatch(of: /INSERT INTO erasure_salt.*/), "\(problem)")
            try ledger.psql(String(insert.0))
            let erasure = try await Erasure.start(user, source: nil, isDry: false, in: daemon.pool)
            let tally = try await erasure.run(in: daemon.pool) { _ in }
            #expect(tally.events == 1)
        }
    }
}
