import Postgres
import Synchronization
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// What happens beside a transaction whose COMMIT takes a while. Oracle: a trigger that PostgreSQL runs at COMMIT, and
/// psql.
@Suite("Beside a commit", .serialized, .timeLimit(.minutes(30)))
struct CommitTests {
    /// Runs `body`, whose transaction changes rows of `table`, and `meanwhile` while that transaction is in its COMMIT.
    private func stopping<Value: Sendable>(
        at change: String, of table: String, in ledger: TestLedger,
        _ body: @escaping @Sendable () async throws -> Value, meanwhile: () async throws -> Void
    ) async throws -> Value {
        try ledger.psql(
            """
            CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                PERFORM pg_advisory_xact_lock(4711);
                RETURN NULL;
            END $$;
            CREATE CONSTRAINT TRIGGER stop AFTER \(change) ON \(table) DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION stop()
            """)
        return try await ledger.holding(
            { session throws(DatabaseError) in try session.script("SELECT pg_advisory_xact_lock(4711)") }, body,
            meanwhile: meanwhile)
    }

    /// Between the commit and its answer two sweeps may come.
    @Test("What a claim leases is held before it is committed")
    func claimed() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            await daemon.record([.sample()])
            daemon.open("a")
            let id = try #require(Int64(ledger.psql("SELECT id FROM deliveries")))
            let claimed = try await stopping(at: "UPDATE", of: "deliveries", in: ledger) {
                try await daemon.claimAll("a").map(\.id)
            } meanwhile: {
                #expect(daemon.dispatchBuffer.holds(id, under: daemon.lease))
            }
            #expect(claimed == [id])
            #expect(daemon.dispatchBuffer.heldCount == 1)
        }
    }

    @Test("A claim that is not committed holds nothing, and keeps no slot")
    func notClaimed() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")], slotsPerLane: 2)
            await daemon.record([.sample()])
            daemon.open("a")
            try ledger.psql(
                """
                CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$;
                CREATE CONSTRAINT TRIGGER fail AFTER UPDATE ON deliveries DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW EXECUTE FUNCTION fail()
                """)
            await #expect(throws: DatabaseError.self) { _ = try await daemon.claimAll("a") }
            #expect(daemon.dispatchBuffer.heldCount == 0)
            #expect(daemon.dispatchBuffer.reserve(daemon.row("a"), upTo: 9) == 2)
        }
    }

    private static func failure(of daemon: Daemon, _ batch: [Settlement]) async -> SettleFailure? {
        do throws(SettleFailure) {
            _ = try await daemon.queue.settle(batch)
            return nil
        } catch { return error }
    }

    @Test("A settlement whose COMMIT is in doubt has its attempts in the history once", arguments: [true, false])
    func settledInDoubt(tookEffect: Bool) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            daemon.open("a")
            await daemon.record((0..<3).map { .sample("E\($0)", purchase: "subs_\($0)") })
            let held = daemon.inbox.take()
            // Its end of the connection closes while the server goes on.
            let settings = try ConnectionSettings(
                ledger.connectionString, connectTimeout: .seconds(120), statementTimeout: .zero,
                deadlineMargin: .seconds(20))
            let impatient = try await ledger.daemon([.named("a")], settings: settings)
            let batch = [
                held[0].settled(.accepted), held[1].settled(.postponed(after: .seconds(60))),
                held[2].settled(.dead(reason: "answered 400")),
            ]
            // The attempt before was alike, because it used up no retry.
            try ledger.psql(
                """
                INSERT INTO attempts (delivery, message, integration, attempt, outcome, http_status, latency_ms)
                VALUES (\(held[1].id), \(held[1].message.row), \(held[1].integration), 1, 'retry', 200, 12)
                """)
            let isOver = Mutex(false)
            let failure = try await stopping(at: "DELETE", of: "deliveries", in: ledger) {
                defer { isOver.withLock { $0 = true } }
                return await Self.failure(of: impatient, batch)
            } meanwhile: {
                if !tookEffect {
                    try ledger.psql(
                        """
                        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                        WHERE datname = current_database() AND wait_event_type = 'Lock'
                        """)
                }
                while !isOver.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(20)) }
            }
            #expect(failure == .unavailable)
            while try ledger.psql("SELECT count(*) FROM deliveries") != (tookEffect ? "1" : "3") {
                try await Task.sleep(for: .milliseconds(20))
            }
            #expect(try ledger.psql("SELECT count(*) FROM attempts") == (tookEffect ? "4" : "1"))
            #expect(await Self.failure(of: impatient, batch) == nil)
            #expect(
                try ledger.psql("SELECT string_agg(outcome, ' ' ORDER BY outcome) FROM attempts")
                    == "accepted dead retry retry")
            #expect(impatient.queue.inDoubt.places(in: batch) == [])
        }
    }

    @Test("An attempt whose COMMIT never arrived is in the history beside the one that another daemon made instead")
    func madeByAnother() async throws {
        try await TestLedger.run { ledger in
            let (daemon, other) = (try await ledger.daemon([.named("a")]), try await ledger.daemon([.named("a")]))
            daemon.open("a")
            await daemon.record([.sample()])
            let batch = daemon.inbox.take().map { $0.settled(.accepted) }
            daemon.queue.inDoubt.insert(batch)
            try ledger.expire(daemon)
            try await other.endExpiredLeases()
            other.open("a")
            let claimed = try await other.claimAll("a")
            #expect(claimed.map(\.id) == batch.map(\.delivery.id))
            _ = try await other.queue.settle(claimed.map { $0.settled(.accepted, latency: 34) })
            #expect(await Self.failure(of: daemon, batch) == nil)
            #expect(
                try ledger.psql("SELECT string_agg(latency_ms::text, ' ' ORDER BY latency_ms) FROM attempts")
                    == "12 34")
        }
    }

    @Test("An attempt in doubt that is in the history is not written again beside one under the next lease")
    func doubtfulOfTwoLeases() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            daemon.open("a")
            await daemon.record([.sample()])
            let before = daemon.inbox.take().map { $0.settled(.postponed(after: .zero)) }
            #expect(await Self.failure(of: daemon, before) == nil)
            daemon.queue.inDoubt.insert(before)
            try ledger.psql("DELETE FROM daemons")
            #expect(try await !daemon.queue.keepAlive())
            let after = try await daemon.claimAll("a").map { $0.settled(.accepted) }
            #expect(after.map(\.delivery.id) == before.map(\.delivery.id))
            #expect(await Self.failure(of: daemon, before + after) == nil)
            #expect(
                try ledger.psql("SELECT string_agg(outcome, ' ' ORDER BY outcome) FROM attempts") == "accepted retry")
        }
    }

    /// The settlement finds the discarded one, which is locked; the discard finds what is being settled.
    @Test("What waited for two deliveries, of which one is discarded beside the other's settlement, is next")
    func discardedBesideSettlement() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            daemon.open("a")
            await daemon.record((0..<2).map { .sample("E\($0)", transaction: "t\($0)") })
            let (row, held) = (daemon.row("a"), daemon.inbox.take())
            #expect(held.map(\.message.type) == ["E0"])
            let last = try await Discard.look(row, in: daemon.pool).last
            await daemon.record([.sample("E2", transaction: "t2")])
            let discarded = try await stopping(at: "INSERT", of: "dead_letters", in: ledger) { [pool = daemon.pool] in
                var cursor: Int64 = 0
                return try await Discard.step(row, from: &cursor, upTo: last, in: pool).discarded
            } meanwhile: {
                let unblocked = try await daemon.queue.settle(held.map { $0.settled(.accepted) }).unblocked
                #expect(unblocked.isEmpty)
            }
            #expect(discarded == 1)
            #expect(try await daemon.claimAll("a").map(\.message.type) == ["E2"])
        }
    }
}
