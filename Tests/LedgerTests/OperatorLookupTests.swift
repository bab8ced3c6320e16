import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: what was recorded and settled.
@Suite("What an operator looks up", .serialized)
struct OperatorLookupTests {
    @Test("An event is found by everything that it is known by")
    func handles() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a", order: .none)])
            daemon.open("a")
            await daemon.record(login.map { .stating($0) })
            await daemon.record([
                .sample(
                    "NAMED", holder: .user("other"), purchase: "p2", transaction: "tx_2", vendorEventID: "vendor-1"),
                .sample(
                    "NAMED", holder: .user("other"), purchase: "p3", transaction: "tx_3", vendorEventID: "vendor-1",
                    app: "app.two"),
            ])
            let messages = daemon.inbox.take().map(\.message)
            let transfer = try #require(messages.compactMap(\.transferID).first)
            let received = try #require(messages.first { $0.type == "SUBSCRIPTION_RECEIVED" })
            let passedOn = try #require(messages.first { $0.type == "DEACTIVATE" })
            func names(_ kind: EventHandle.Kind?, _ id: String) async throws -> [String] {
                try await StoredEvent.read(EventHandle(kind, id), from: daemon.pool).map(\.name)
            }
            func kind(_ id: String) async throws -> EventHandle.Kind? {
                try await Trace.read(EventHandle(nil, id), from: daemon.pool)?.kind
            }
            let all = ["ACTIVATE", "DEACTIVATE", "ACTIVATE"]
            #expect(try await names(.transaction, "tx_1") == all)
            #expect(try await names(.user, "jeff") == ["ACTIVATE"])
            // Its own two, and the one that moved its purchase away.
            #expect(try await names(.anonymous, anonymous.id) == all)
            #expect(try await names(.user, anonymous.id) == [])
            #expect(try await names(.message, received.id) == ["ACTIVATE"])
            #expect(try await names(.transfer, transfer) == ["ACTIVATE"])
            #expect(try await names(.event, passedOn.eventID) == ["DEACTIVATE"])
            #expect(try await names(.event, received.eventID) == ["ACTIVATE"])
            #expect(try await names(.event, "vendor-1") == ["NAMED", "NAMED"])
            for (id, expected) in [
                ("vendor-1", .event), ("jeff", .user), (anonymous.id, .anonymous), ("tx_1", .transaction),
                (transfer, .transfer), (received.id, .message), ("no such", nil),
            ] as [(String, EventHandle.Kind?)] {
                #expect(try await kind(id) == expected, "\(id)")
            }
            // The event key may be forgotten before the event is.
            try ledger.psql("DELETE FROM identities")
            #expect(try await names(.event, "vendor-1") == ["NAMED", "NAMED"])
            #expect(try await names(nil, passedOn.eventID) == ["DEACTIVATE"])
        }
    }

    @Test("Events by source and time, the newest first, cut at the limit")
    func events() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([])
            await daemon.record(
                (0..<20).map { .sample("E\($0)", purchase: "p\($0)", transaction: "t\($0)") })
            await daemon.record([.sample("MOVED", purchase: "m", source: "moving")])
            try ledger.psql("UPDATE events SET received_at = now() - (30 - (id & 4294967295)) * interval '1 hour'")
            func names(
                source: String? = nil, since: Timestamp? = nil, limit: Int32 = 50
            ) async throws -> [String] {
                try await StoredEvent.read(source: source, since: since, limit: limit, from: daemon.pool).map(\.name)
            }
            #expect(try await names(limit: 3) == ["MOVED", "E19", "E18"])
            #expect(try await names(source: "moving") == ["MOVED"])
            let now = try #require(
                Int64(ledger.psql("SELECT (extract(epoch FROM now()) * 1000)::bigint")))
            let since = Timestamp(milliseconds: now - 12 * 3_600_000 - 1_800_000)
            let expected = Int(try ledger.psql("SELECT count(*) FROM events WHERE id & 4294967295 >= 18")) ?? -1
            #expect(try await names(since: since).count == expected && expected > 1)
            #expect(try await names(source: "shop", since: Timestamp(milliseconds: now)) == [])
        }
    }

    @Test("Deliveries by state and integration")
    func deliveries() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a"), .named("b")])
            daemon.open("a", "b")
            await daemon.record(
                (0..<3).map { .sample("E\($0)", purchase: "p\($0)", transaction: "t\($0)") })
            let made = daemon.inbox.take().filter { $0.integration == daemon.row("a") }
            _ = try await daemon.queue.settle([
                made[0].settled(.accepted, status: 204), made[1].settled(.dead(reason: "x"), status: 400),
                made[2].settled(.retry(after: .seconds(60)), status: 500, failure: "answered 500"),
            ])
            func list(
                _ state: ListedDelivery.State, _ integration: String? = nil, since: Timestamp? = nil
            ) async throws -> [ListedDelivery]? {
                try await ListedDelivery.read(state, of: integration, since: since, from: daemon.pool)
            }
            let dead = try #require(await list(.dead)?.first)
            #expect(dead.type == "E1" && dead.integration == "a" && dead.httpStatus == 400 && dead.failure == "x")
            let delivered = try #require(await list(.delivered, "a")?.first)
            #expect(delivered.type == "E0" && delivered.message == made[0].message.id && delivered.httpStatus == 204)
            let waiting = try #require(await list(.waiting, "a"))
            #expect(waiting.map(\.failure) == ["answered 500"] && waiting.map(\.attempts) == [1])
            #expect(try await list(.waiting)?.count == 4)
            #expect(try await list(.delivered, "b")?.isEmpty == true)
            #expect(try await list(.waiting, "c") == nil)
            #expect(try await list(.waiting, since: Timestamp(milliseconds: 4_000_000_000_000))?.isEmpty == true)
        }
    }

    @Test("How each integration is doing")
    func status() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a"), .named("b")])
            daemon.open("a")
            await daemon.record((0..<3).map { .sample(purchase: "p\($0)", transaction: "t\($0)") })
            let made = daemon.inbox.take()
            _ = try await daemon.queue.settle([
                made[0].settled(.accepted), made[1].settled(.dead(reason: "no"), status: 400, failure: "first"),
            ])
            _ = try await daemon.queue.settle([
                made[2].settled(.retry(after: .seconds(9)), status: 503, failure: "second")
            ])
            _ = try await Pauses.set("b", isPaused: true, routes: [], in: daemon.pool)
            let status = try await LedgerStatus.read(from: daemon.pool)
            #expect(status.daemons.count == 1 && status.quarantined == 0)
            let (a, b) = (status.integrations[0], status.integrations[1])
            #expect(a.name == "a" && a.waiting == 1 && a.delivered == 1 && a.failed == 2 && a.deadLetters == 1)
            #expect(a.lastError?.text == "second" && a.lastError?.httpStatus == 503 && a.pausedAt == nil)
            #expect(b.waiting == 3 && b.pauseReason == "paused by hand" && b.pausedAt != nil && b.lastError == nil)
            #expect(a.breaker == nil)
            try ledger.psql(
                "INSERT INTO breakers (integration, reason, next_probe_at) VALUES (\(daemon.row("a")), 'why', now())")
            try ledger.psql("UPDATE attempts SET at = at - interval '2 minutes'")
            let later = try await LedgerStatus.read(from: daemon.pool).integrations[0]
            #expect(later.delivered == 0 && later.failed == 0 && later.lastError?.text == "second")
            #expect(later.breaker?.reason == "why")
        }
    }

    @Test("What is read from quarantine is recorded as if it had just come, once, and leaves")
    func quarantine() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            await daemon.record([
                .quarantine(QuarantinedBody(source: "shop", reason: "odd", body: Array("{1}".utf8))),
                .quarantine(QuarantinedBody(source: "shop", reason: "odd", body: Array("{2}".utf8))),
            ])
            let rows = try await Quarantine.list(in: daemon.pool)
            #expect(rows.map(\.reason) == ["odd", "odd"] && rows.map(\.bytes) == [3, 3])
            #expect(try await Quarantine.body(rows[0].id, in: daemon.pool)?.body == Array("{1}".utf8))
            try await Quarantine.setReason("still odd", of: rows[1].id, in: daemon.pool)
            let rules = ["shop": SourceRules(shape: TestShape())]
            func readAgain(_ row: Quarantine.Row) async throws -> Quarantine.Outcome {
                try await Quarantine.record(
                    row.id, as: .sample(), routes: daemon.routes.current.all, rules: rules, in: daemon.pool)
            }
            guard case .recorded(let trail, _) = try await readAgain(rows[0]) else {
                Issue.record("not recorded")
                return
            }
            #expect(trail.messages == 1 && trail.deliveries == 1)
            #expect(try await Quarantine.list(in: daemon.pool).map(\.reason) == ["still odd"])
            guard case .duplicate = try await readAgain(rows[1]) else {
                Issue.record("recorded twice")
                return
            }
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "0")
            #expect(try ledger.psql("SELECT count(*) FROM events") == "1")
            #expect(try ledger.psql("SELECT count(*) FROM deliveries WHERE leased_by IS NULL") == "1")
            #expect(try await Quarantine.body(rows[0].id, in: daemon.pool) == nil)
        }
    }

    @Test("What was discarded while it was being read again is not recorded, nor put back")
    func quarantineDiscarded() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            await daemon.record([.sample(purchase: "p", transaction: "t0")])
            try ledger.damage()
            let events = [
                Event.sample(at: seconds(200), purchase: "p", transaction: "t1"),
                .sample(at: seconds(300), purchase: "q", transaction: "t2"),
            ]
            for event in events {
                await daemon.record([
                    .quarantine(QuarantinedBody(source: "shop", reason: "odd", body: event.body))
                ])
                let row = try #require(try await Quarantine.list(in: daemon.pool).last)
                #expect(try await Quarantine.discard([row.id], in: daemon.pool) == [row.id])
                let outcome = try await Quarantine.record(
                    row.id, as: event, routes: daemon.routes.current.all, rules: Daemon.rules, in: daemon.pool)
                guard case .vanished = outcome else {
                    Issue.record("\(outcome)")
                    continue
                }
            }
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "0")
            #expect(try ledger.psql("SELECT count(*) FROM events") == "1")
        }
    }

    @Test("Sources that webhooks came under and that are not configured are named, also where purchases cannot be read")
    func vanishedSources() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([.sample(source: "shop"), .sample(purchase: "b", source: "older")])
            try ledger.psql(
                """
                INSERT INTO source_names (name, heard_at) VALUES
                    ('shop', NULL), ('older', NULL), ('logins', now()), ('typo', NULL)
                """)
            var vanished: [String] = []
            // It gives up after two seconds, in which a machine that stands still reads no purchase.
            for _ in 0..<5 where vanished.count < 2 {
                vanished = try await SourceNames.vanished(besides: ["shop"], in: daemon.pool)
            }
            #expect(vanished == ["logins", "older"])
            let held = try await ledger.during("LOCK TABLE purchases IN ACCESS EXCLUSIVE MODE") {
                try await SourceNames.vanished(besides: ["shop"], in: daemon.pool)
            }
            #expect(held == ["logins"])
        }
    }
}
