import Postgres
import Testing
import Vocabulary

@testable import Ledger

/// What the database answers to the renewal of a lease. Oracle: triggers of the table.
@Suite("The lease: renewals that the database warns of, or refuses", .timeLimit(.minutes(30)))
struct RenewalTests {
    @Test("A renewal with a warning, as each new transaction id brings one near the last, renews the lease")
    func warning() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try ledger.psql(
                """
                CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE WARNING 'of a trigger'; RETURN NEW; END $$;
                CREATE TRIGGER warn BEFORE UPDATE ON daemons FOR EACH ROW EXECUTE FUNCTION warn()
                """)
            #expect(try await daemon.queue.keepAlive())
        }
    }

    @Test("Where the lease cannot be renewed so long that nothing is delivered, that is logged once, and so is its end")
    func standstill() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            // Shorter than the margin in which nothing is started any more.
            let registration = Registration(
                pool: daemon.pool, key: nil, version: "test", clock: daemon.clock, leaseDuration: .seconds(1))
            try await registration.register()
            let queue = Queue(
                pool: daemon.pool, dispatchBuffer: daemon.dispatchBuffer, registration: registration,
                routes: daemon.routes, observe: { [log = daemon.log] in log.note($0) })
            try ledger.psql(
                """
                CREATE FUNCTION cancel() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'as by a time-out' USING ERRCODE = '57014'; END $$;
                CREATE TRIGGER cancel BEFORE UPDATE ON daemons FOR EACH ROW EXECUTE FUNCTION cancel()
                """)
            for _ in 1...2 { await #expect(throws: DatabaseError.self) { _ = try await queue.keepAlive() } }
            #expect(daemon.log.warnings.count == 1)
            #expect(daemon.log.warnings.first?.contains("nothing is delivered until it does") == true)
            #expect(daemon.log.warnings.first?.contains("57014") == true)
            try ledger.psql("DROP TRIGGER cancel ON daemons")
            for _ in 1...2 { #expect(try await queue.keepAlive()) }
            #expect(daemon.log.warnings.count == 2)
            #expect(daemon.log.warnings.last?.contains("commits again") == true)
        }
    }
}
