import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: what was recorded and settled.
@Suite("Looking up", .serialized)
struct LookupTests {
    @Test("The whole way of a transaction")
    func trace() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a", order: .none), .named("b")])
            daemon.open("a", "b")
            await daemon.record(login.map { .stating($0) } + [.sample(purchase: "other", transaction: "tx_2")])
            let handed = daemon.inbox.take().filter { $0.message.transaction == "tx_1" }
            _ = try await daemon.queue.settle(
                handed.map {
                    let isDead = $0.message.type == "DEACTIVATE"
                    return $0.settled(isDead ? .dead(reason: "x") : .accepted, status: isDead ? 400 : 200)
                })
            let trace = try #require(await Trace.read(EventHandle(nil, "tx_1"), from: daemon.pool))
            #expect(trace.kind == .transaction)
            #expect(trace.webhooks.map(\.name) == ["ACTIVATE", "DEACTIVATE", "ACTIVATE"])
            #expect(trace.webhooks.map(\.holder) == [anonymous.storageKey, anonymous.storageKey, "user:jeff"])
            #expect(trace.webhooks.map(\.occurredAt) == login.map(\.at))
            #expect(trace.webhooks.allSatisfy { $0.purchase == "subs_1" && $0.source == "shop" })
            #expect(
                trace.webhooks.map { $0.messages.map(\.type) }
                    == [
                        ["ACTIVATE"], ["DEACTIVATE"],
                        ["ACTIVATE", "SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"],
                    ])
            let transfers = Set(trace.webhooks.flatMap(\.messages).compactMap(\.transfer))
            #expect(transfers == [daemon.log.transfers[0].transfer])
            func states(_ webhook: Int, _ message: Int) -> [String] {
                trace.webhooks[webhook].messages[message].deliveries.map { delivery in
                    switch delivery.state {
                    case .discardedOrReplayed: "\(delivery.integration) gone \(delivery.attempts.map(\.outcome))"
                    case .delivered: "\(delivery.integration) delivered \(delivery.attempts.map(\.outcome))"
                    case .waiting(_, let isBlocked, _): "\(delivery.integration) waiting \(isBlocked)"
                    case .dead(let reason): "\(delivery.integration) dead \(reason) \(delivery.attempts.map(\.number))"
                    }
                }
            }
            #expect(states(0, 0) == [#"a delivered ["accepted"]"#, #"b delivered ["accepted"]"#])
            #expect(states(1, 0) == ["a dead x [1]", "b waiting false"])
            #expect(states(2, 2) == [#"a delivered ["accepted"]"#, "b waiting true"])
            #expect(trace.holdings.filter(\.isActive).map(\.holder) == ["user:jeff"] && trace.holdings.count == 2)
            #expect(!trace.isCut)
            // Thrown away: it was never delivered.
            try ledger.psql("DELETE FROM dead_letters")
            let without = try #require(await Trace.read(EventHandle(nil, "tx_1"), from: daemon.pool))
            let discarded = without.webhooks[1].messages[0].deliveries.first { $0.integration == "a" }
            #expect(discarded.map { if case .discardedOrReplayed = $0.state { true } else { false } } == true)
            let newest = try await Trace.read(EventHandle(.transaction, "tx_1"), limit: 1, from: daemon.pool)
            #expect(newest?.webhooks.map(\.name) == ["ACTIVATE"] && newest?.isCut == true)
            #expect(try await Trace.read(EventHandle(nil, "none"), from: daemon.pool) == nil)
        }
    }

    @Test("A sealed body that the database cannot read keeps nothing else of a trace from being shown")
    func damagedBody() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([.sample("GOOD"), .sample("DAMAGED", at: seconds(1))])
            // As a damaged page would: reading the second is an error.
            let columns = try ledger.psql(
                "SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute WHERE attnum > 0 "
                    + "AND attrelid = 'events'::regclass AND NOT attisdropped AND attname <> 'body'")
            try ledger.psql(
                """
                ALTER TABLE events RENAME TO undamaged;
                CREATE VIEW events AS SELECT \(columns),
                    CASE WHEN name = 'DAMAGED' THEN convert_to((1 / (length(name) - length(name)))::text, 'UTF8')
                         ELSE body END AS body
                FROM undamaged
                """)
            let trace = try #require(
                await Trace.read(EventHandle(nil, "tx_1"), opening: ["shop": { body, _ in body }], from: daemon.pool))
            #expect(trace.webhooks.map(\.name) == ["GOOD", "DAMAGED"])
            #expect(trace.webhooks.allSatisfy { $0.sealed != nil })
            #expect(trace.webhooks.map { $0.sealed?.bytes == nil } == [false, true])
        }
    }

    @Test("A trace of a holder says what it has, also of purchases that none of its webhooks shown is about")
    func holderTrace() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            for purchase in ["subs_1", "subs_2"] {
                let gain = Fact.activate(user, seconds(0), until: seconds(100))
                await daemon.record([.stating(gain, purchase: purchase, transaction: purchase)])
            }
            let handle = EventHandle(nil, user.id)
            let trace = try #require(await Trace.read(handle, limit: 1, from: daemon.pool))
            #expect(trace.kind == .user && trace.webhooks.map(\.purchase) == ["subs_2"])
            #expect(trace.holdings.map(\.purchase) == ["subs_1", "subs_2"])
            let other = try #require(await Trace.read(EventHandle(nil, "subs_2"), from: daemon.pool))
            #expect(other.kind == .transaction && other.holdings.map(\.purchase) == ["subs_2"])
        }
    }

    @Test("What waits, by integration")
    func figures() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a"), .named("b"), .named("idle", events: ["NONE"])])
            daemon.open("a")
            await daemon.record((0..<3).map { .sample(purchase: "subs_\($0)") })
            _ = try await daemon.queue.settle([daemon.inbox.take()[0].settled(.dead(reason: "x"))])
            _ = try await Pauses.set("b", isPaused: true, routes: [], in: daemon.pool)
            try ledger.psql(
                "UPDATE deliveries SET created_at = now() - interval '90 seconds' WHERE integration = \(daemon.row("b"))"
            )
            let figures = try await QueueFigures.read(from: daemon.pool)
            #expect(figures.map(\.integration) == ["a", "b", "idle"] && figures.map(\.waiting) == [2, 3, 0])
            #expect(figures.map(\.deadLetters) == [1, 0, 0] && figures.map(\.isPaused) == [false, true, false])
            #expect((90...150).contains(figures[1].oldestSeconds ?? 0) && figures[2].oldestSeconds == nil)
            let five = LedgerContents(hasHistory: true, unsettledDeliveries: 5, quarantined: 0)
            #expect(try await LedgerContents.read(from: daemon.pool) == five)
            let empty = try await TestLedger(isMigrated: false)
            let pool = Pool(
                try TestLedger.settings(empty.connectionString), size: 1,
                waiting: Pool.Waiting(waitersMax: 1, limit: .seconds(120)), backoff: .seconds(1)...(.seconds(1)))
            pool.start()
            let nothing = LedgerContents(hasHistory: false, unsettledDeliveries: 0, quarantined: 0)
            #expect(nothing.isEmpty)
            #expect(try await LedgerContents.read(from: pool) == nothing)
            let migrated = try await TestLedger()
            let fresh = try await migrated.daemon([])
            #expect(try await LedgerContents.read(from: fresh.pool) == nothing)
            // Acknowledged, though nothing could be read of it.
            try migrated.psql(
                "INSERT INTO quarantine (source, reason, body_digest, body) VALUES ('s', 'r', gen_random_uuid(), 'b')")
            let kept = try await LedgerContents.read(from: fresh.pool)
            #expect(kept == LedgerContents(hasHistory: false, unsettledDeliveries: 0, quarantined: 1) && !kept.isEmpty)
            await pool.close()
        }
    }

    @Test("The database's clock runs on by the monotonic one")
    func clock() {
        let clock = DatabaseClock()
        #expect(clock.now == nil)
        let start = ContinuousClock.now
        func note(_ clock: DatabaseClock, _ time: Int64, began: Duration, took: Duration = .zero) {
            clock.addReading(seconds(time), began: start + began, ended: start + began + took)
        }
        note(clock, 5, began: .zero)
        #expect(clock.now.map { $0 >= seconds(5) && $0 < seconds(1_000) } == true)
        // Of a batch that began before that and was committed after it.
        note(clock, 1_000_000, began: .seconds(-1))
        #expect(clock.now.map { $0 < seconds(1_000) } == true)
        // Kept back on its way: the clock would be ahead by as much.
        note(clock, 1_000_000, began: .nanoseconds(1), took: .seconds(8))
        #expect(clock.now.map { $0 < seconds(1_000) } == true)
        // Of a later one: the clock was set back meanwhile.
        note(clock, -1_000_000, began: .nanoseconds(1))
        #expect(clock.now.map { $0 >= seconds(-1_000_000) && $0 < seconds(5) } == true)
        let slow = DatabaseClock()
        note(slow, 5, began: .seconds(-100))
        #expect(slow.now.map { $0 >= seconds(105) } == true)
        let late = DatabaseClock()
        note(late, 5, began: .seconds(-100), took: .seconds(100))
        #expect(late.now.map { $0 >= seconds(5) && $0 < seconds(100) } == true)
        #expect(Duration.milliseconds(1_999).wholeMilliseconds == 1_999)
        #expect(Duration.nanoseconds(1_999_999).wholeMilliseconds == 1)
    }
}
