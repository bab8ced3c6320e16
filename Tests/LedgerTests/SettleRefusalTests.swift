import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL.
@Suite("Settlements that the database refuses, and those of what is configured no more", .serialized)
struct SettleRefusalTests {
    private static func failure(of daemon: Daemon, _ batch: [Settlement]) async -> SettleFailure? {
        do throws(SettleFailure) {
            _ = try await daemon.queue.settle(batch)
            return nil
        } catch { return error }
    }

    @Test(
        "A trigger that raises on any of the tables is a refusal, and changes nothing; when it goes all is written",
        arguments: ["attempts", "deliveries", "dead_letters"])
    func triggers(table: String) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record((1...2).map { .sample("E\($0)", purchase: "subs_\($0)") })
            let held = daemon.inbox.take()
            try ledger.psql(
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
                CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON \(table)
                    FOR EACH ROW EXECUTE FUNCTION refuse()
                """)
            let batch = [held[0].settled(.accepted), held[1].settled(.dead(reason: "answered 400"))]
            guard case .refused(let reason) = await Self.failure(of: daemon, batch) else {
                Issue.record("not refused")
                return
            }
            #expect(reason.contains("P0001"))
            #expect(try ledger.psql("SELECT count(*) FROM deliveries WHERE leased_by = \(daemon.lease)") == "2")
            try ledger.psql("DROP TRIGGER refuse ON \(table)")
            #expect(await Self.failure(of: daemon, batch) == nil)
            #expect(
                try ledger.psql(
                    "SELECT (SELECT count(*) FROM deliveries), (SELECT count(*) FROM dead_letters), count(*) FROM attempts"
                ) == "0|1|2")
        }
    }

    @Test("A lock that somebody holds too long is a time-out, no refusal")
    func timedOut() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record([.sample("A")])
            let held = daemon.inbox.take()
            try ledger.psql("ALTER DATABASE \(ledger.database) SET lock_timeout = '100ms'")
            let impatient = try await ledger.daemon([.named("all")])
            let failure = try await ledger.holdingRow {
                await Self.failure(of: impatient, [held[0].settled(.accepted)])
            }
            guard case .timedOut = failure else {
                Issue.record("\(String(describing: failure))")
                return
            }
        }
    }

    @Test("Text that the database's encoding does not have is written without what it lacks; NUL never comes so far")
    func encoding() async throws {
        try await TestLedger.run(encoding: "WIN1252") { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record([.sample("A"), .sample("B", purchase: "subs_2")])
            let held = daemon.inbox.take()
            _ = try await daemon.queue.settle([
                held[0].settled(.dead(reason: "answered 400"), status: 400, failure: "answered 400: ☃ snow\0man"),
                held[1].settled(.paused(reason: "gone ☃"), status: 410, failure: "gone ☃"),
            ])
            #expect(
                try ledger.psql("SELECT failure FROM attempts ORDER BY delivery") == "answered 400: ? snowman\ngone ?")
            #expect(try ledger.psql("SELECT reason FROM dead_letters") == "answered 400: ? snowman")
        }
    }

    @Test("A server whose default isolation is stricter: settles and claims that meet wait for each other as ever")
    func isolation() async throws {
        try await TestLedger.run { ledger in
            try ledger.psql("ALTER DATABASE \(ledger.database) SET default_transaction_isolation = 'serializable'")
            let daemon = try await ledger.daemon([.named("all")])
            let levels = try await daemon.pool.withSession { session throws(DatabaseError) in
                let level = Statement<(), String>("test_level", "SELECT current_setting('transaction_isolation')")
                let alone = try session.run(level, ())
                let inside = try session.transaction { session throws(DatabaseError) in try session.run(level, ()) }
                return alone + inside
            }
            #expect(levels == ["read committed", "read committed"])
            daemon.open("all")
            await daemon.record([.sample("A"), .sample("B")])
            let head = try #require(daemon.inbox.take().first)
            // Another transaction changes the row meanwhile: read committed looks again, others are refused.
            let settled = try await ledger.holding(
                { session throws(DatabaseError) in
                    try session.script("UPDATE deliveries SET due_at = due_at + interval '1 second'")
                }, { try await daemon.queue.settle([head.settled(.accepted)]) })
            #expect(settled.unblocked.map(\.message.type) == ["B"])
        }
    }

    @Test("A settled delivery of an integration that was removed unblocks the next of its purchase")
    func removed() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record([.sample("A"), .sample("B")])
            let head = try #require(daemon.inbox.take().first)
            // Removed by a reload while the receiver has the first.
            daemon.dispatchBuffer.close(daemon.row("all"))
            _ = try await daemon.queue.route([])
            let settled = try await daemon.queue.settle([head.settled(.accepted)])
            #expect(settled.unblocked.isEmpty, "it has no lane")
            #expect(try ledger.psql("SELECT blocked, leased_by IS NULL FROM deliveries") == "f|t")
            // Back: it is there to be claimed, without a sweep.
            _ = try await daemon.queue.route([.named("all")])
            daemon.open("all")
            #expect(try await daemon.claimAll("all").map(\.message.type) == ["B"])
            #expect(daemon.log.warnings == [])
        }
    }
}

extension TestLedger {
    /// Runs `body` while another session has locked all deliveries.
    fileprivate func holdingRow<Value: Sendable>(_ body: @escaping @Sendable () async -> Value) async throws -> Value {
        let (holder, gate) = (try await connect(), Gate())
        async let held: Void = holder.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                try session.script("SELECT FROM deliveries FOR UPDATE")
                gate.open()
                gate.waitForClose()
            }
        }
        await gate.opened()
        let value = await body()
        gate.close()
        try await held
        await holder.close()
        return value
    }
}
