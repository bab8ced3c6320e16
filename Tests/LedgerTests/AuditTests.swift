import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: what the test itself did, by the operator's commands or by psql behind their back.
@Suite("The audit", .serialized, .timeLimit(.minutes(30)))
struct AuditTests {
    /// Something that is done to the database, and what is found then.
    struct Damage: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let sql: String
        let found: Set<AuditFinding.Kind>

        init(_ what: String, _ sql: String, _ found: AuditFinding.Kind...) {
            testDescription = what
            self.sql = sql
            self.found = Set(found)
        }
    }

    private static let waiting = "message = (SELECT id FROM messages WHERE type = 'WAITING')"
    private static let retried = "message = (SELECT id FROM messages WHERE type = 'RETRIED')"
    private static let accepted = "message = (SELECT id FROM messages WHERE type = 'ACCEPTED')"

    private static let damages = [
        Damage("a delivery before its first attempt is gone", "DELETE FROM deliveries WHERE \(waiting)", .unanswered),
        Damage(
            "a delivery between two attempts is gone",
            "DELETE FROM deliveries WHERE \(retried) AND attempts > 0", .lost),
        Damage("the attempt of what was delivered is gone", "DELETE FROM attempts WHERE \(accepted)", .unanswered),
        Damage("a message is gone", "DELETE FROM messages WHERE type = 'WAITING'", .noMessage),
        Damage("the message of a dead letter is gone", "DELETE FROM messages WHERE type = 'DEAD'", .noMessage),
        Damage("a webhook is gone", "DELETE FROM events WHERE name = 'ACCEPTED'", .noEvent),
        Damage(
            "a message is said to be for one more",
            """
            UPDATE messages SET integrations = integrations || ',' || (SELECT id FROM integrations WHERE name = 'ops')
            WHERE type = 'ACCEPTED'
            """, .unanswered),
        Damage("whom a message is for is nonsense", "UPDATE messages SET integrations = '1,,x'", .unreadable),
        Damage(
            "a message is for an integration that never was",
            "UPDATE messages SET integrations = integrations || ',4711' WHERE type = 'ACCEPTED'", .noIntegration),
        Damage("a dead letter is gone", "DELETE FROM dead_letters", .noDeadLetter),
        Damage("a delivery waits for ever", "UPDATE deliveries SET due_at = 'infinity' WHERE \(retried)", .neverDue),
        Damage("a lease does not end", "UPDATE daemons SET expires_at = 'infinity'", .leaseWithoutEnd),
        Damage(
            "the attempts of what waits are gone", "DELETE FROM attempts WHERE outcome = 'retry'", .noAttempt),
        Damage(
            "the last attempt of a dead letter is gone", "DELETE FROM attempts WHERE outcome = 'dead'",
            .noLastAttempt),
        Damage(
            "a delivery waits twice",
            """
            INSERT INTO deliveries (id, message, integration, purchase)
            SELECT nextval('delivery_ids'), message, integration, purchase FROM deliveries WHERE \(waiting)
            """, .twice),
        Damage(
            "a dead letter waits again",
            """
            INSERT INTO deliveries (id, message, integration, purchase)
            SELECT delivery, message, integration, purchase FROM dead_letters
            """, .twice),
        Damage(
            "a dead letter waits again as another delivery",
            """
            INSERT INTO deliveries (id, message, integration, purchase)
            SELECT nextval('delivery_ids'), message, integration, purchase FROM dead_letters
            """, .twice),
        Damage(
            "a delivery without a purchase waits twice",
            """
            INSERT INTO deliveries (id, message, integration)
            SELECT nextval('delivery_ids'), message, integration FROM deliveries WHERE purchase IS NULL
            """, .twice),
        Damage("the webhooks of a period are gone", "DROP TABLE events_1", .noTable, .noEvent),
        Damage("the messages of a period are gone", "DROP TABLE messages_1", .noTable, .noMessage),
    ]

    /// A ledger with something of everything: of integration a one message is accepted, one dead, one to be tried
    /// again and one leased; of b four wait; ops gets the message about a's dead letter.
    private func ledger(_ body: (TestLedger, Daemon) async throws -> Void) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([
                .named("a"), .named("b"), .named("ops", events: ["posthouse.*"]),
            ])
            daemon.open("a")
            for (name, holder) in [("ACCEPTED", "bob"), ("DEAD", "cleo"), ("RETRIED", "dan"), ("WAITING", "ann")] {
                await daemon.record([.sample(name, holder: .user(holder), purchase: name, transaction: name)])
            }
            let settled: [Settlement] = daemon.inbox.take().compactMap { delivery in
                switch delivery.message.type {
                case "ACCEPTED": delivery.settled(.accepted)
                case "DEAD": delivery.settled(.dead(reason: "answered 400"), status: 400)
                case "RETRIED": delivery.settled(.retry(after: .seconds(60)), status: 500)
                default: nil
                }
            }
            try #require(settled.count == 3)
            _ = try await daemon.queue.settle(settled)
            try await body(ledger, daemon)
        }
    }

    private func audit(
        _ daemon: Daemon, integration: String? = nil, since: Timestamp? = nil
    ) async throws -> Audit {
        var audit = try #require(await Audit.start(integration: integration, since: since, in: daemon.pool))
        while !audit.isDone { try await audit.step(in: daemon.pool) }
        return audit
    }

    @discardableResult
    private func expectSound(_ daemon: Daemon, after what: String) async throws -> AuditCoverage {
        let audit = try await audit(daemon)
        #expect(audit.findings.isEmpty && audit.counts.isEmpty, "after \(what): \(audit.findings)")
        return audit.coverage
    }

    @Test("Each damage is found, and nothing else", arguments: damages)
    func damage(_ damage: Damage) async throws {
        try await ledger { ledger, daemon in
            try await expectSound(daemon, after: "nothing")
            try ledger.psql(damage.sql)
            let audit = try await audit(daemon)
            #expect(Set(audit.counts.keys) == damage.found, "\(audit.findings)")
            #expect(Set(audit.findings.map(\.kind)) == damage.found)
            #expect(audit.counts.values.reduce(0, +) == audit.findings.count)
        }
    }

    @Test("A finding names event, source, message and integration")
    func handle() async throws {
        try await ledger { ledger, daemon in
            let ids = try ledger.psql(
                """
                SELECT replace('evt_' || e.key::text || '|msg_' || coalesce(m.key, e.key)::text, '-', '')
                FROM messages m JOIN events e ON e.id = m.event WHERE m.type = 'ACCEPTED'
                """
            ).split(separator: "|").map(String.init)
            try ledger.psql("DELETE FROM attempts WHERE \(Self.accepted)")
            let findings = try await audit(daemon).findings
            #expect(findings.count == 1)
            let finding = try #require(findings.first)
            #expect(finding.handle.source == "shop")
            #expect(finding.handle.event == ids.first && finding.handle.message == ids.last)
            #expect(finding.integration == "a")
            #expect(finding.delivery == nil && finding.table == nil && finding.createdAt != nil)
            #expect(try await audit(daemon, integration: "a").findings == findings)
            #expect(try await audit(daemon, integration: "b").findings == [])
            let later = try #require(finding.createdAt).advanced(byMilliseconds: 3_600_000)
            #expect(try await audit(daemon, since: later).coverage.messages == 0)
            let isKnown = try await Audit.start(integration: "nobody", in: daemon.pool) != nil
            #expect(!isKnown)
        }
    }

    @Test("Of one integration: a webhook that is gone is found if its message was for it, and not otherwise")
    func goneForOne() async throws {
        try await ledger { ledger, daemon in
            try ledger.psql("DELETE FROM events WHERE name = 'ACCEPTED'")
            let (its, other) = (
                try await audit(daemon, integration: "b").counts, try await audit(daemon, integration: "ops").counts
            )
            #expect(its.keys.contains(.noEvent) && other.isEmpty)
        }
    }

    @Test("--since is exact: what was made a moment before it is not looked at")
    func exactSince() async throws {
        try await ledger { ledger, daemon in
            try ledger.psql(
                "UPDATE messages SET created_at = created_at - interval '30 seconds' WHERE type = 'ACCEPTED'")
            try ledger.psql("DELETE FROM attempts WHERE \(Self.accepted)")
            let time = try #require(await audit(daemon).findings.first?.createdAt)
            let (from, later) = (
                try await audit(daemon, since: time), try await audit(daemon, since: time.advanced(byMilliseconds: 1))
            )
            #expect(from.counts == [.unanswered: 1] && later.counts.isEmpty)
            #expect(from.coverage.messages == later.coverage.messages + 1)
        }
    }

    @Test("Attempts of messages that are pruned are not read, and pages end where they should")
    func outlived() async throws {
        try await ledger { ledger, daemon in
            let before = try await expectSound(daemon, after: "nothing")
            // A message far behind the others; what lies between them has attempts, and is gone.
            try ledger.psql(
                """
                INSERT INTO attempts
                SELECT (jsonb_populate_record(
                    NULL::attempts, to_jsonb(a) || jsonb_build_object('message', a.message + n))).*
                FROM attempts a, generate_series(1000, 3000) AS n WHERE a.outcome = 'accepted';
                SELECT setval('message_ids', (SELECT max(id) + 5000 FROM messages))
                """)
            await daemon.record([.sample("LATER", purchase: "LATER", transaction: "LATER")])
            let after = try await expectSound(daemon, after: "a gap")
            #expect(after.messages == before.messages + 1 && after.delivered == before.delivered)
        }
    }

    @Test("Ranges of ids have no wide gaps, and have every id")
    func runs() {
        #expect(AuditRuns.of([]).isEmpty)
        #expect(AuditRuns.of([5]) == [5...5])
        let far: Int64 = 1 << 40
        #expect(AuditRuns.of([1, 2, 102, 203, far, far + 100]) == [1...102, 203...203, far...(far + 100)])
    }

    @Test("A step is larger where much waits without a purchase, and smaller for many integrations")
    func steps() {
        #expect(Audit.stepMax(waitingAlone: 0, integrations: 0) == Audit.stepMax)
        #expect(Audit.stepMax(waitingAlone: Audit.manyMin, integrations: 3) == Audit.stepOfManyMax)
        #expect(Audit.stepMax(waitingAlone: Audit.manyMin, integrations: 100) == 5_000)
        #expect(Audit.stepMax(waitingAlone: 0, integrations: 1_000_000) == 1)
    }

    @Test("A sound ledger has an answer for every message and integration")
    func counted() async throws {
        try await ledger { _, daemon in
            var expected = AuditCoverage()
            (expected.messages, expected.delivered, expected.dead, expected.waiting) = (5, 1, 1, 7)
            let counted = try await expectSound(daemon, after: "nothing")
            #expect(counted == expected)
        }
    }

    @Test("Nothing is found after retry, replay, pause, backfill, discard and pruning")
    func operators() async throws {
        try await ledger { ledger, daemon in
            let (pool, routes) = (daemon.pool, daemon.routes.current.all)
            var retry = try #require(await Retry.start([daemon.row("a")], message: nil, in: pool))
            while !retry.isDone { _ = try await retry.step(in: pool) }
            try await expectSound(daemon, after: "retry")
            _ = try await Pauses.set("b", isPaused: true, routes: routes, in: pool)
            try await expectSound(daemon, after: "pause")
            var replay = try #require(
                await Replay.start(Replay.Filter(integrations: [daemon.row("a")]), routes: routes, in: pool))
            while !replay.isDone { _ = try await replay.step(in: pool) }
            try await expectSound(daemon, after: "replay")

            let new = try await ledger.daemon([.named("new")])
            let route = try #require(new.routes.current.all.first)
            var backfill = try await Backfill.start(
                route, since: Timestamp(milliseconds: 0), until: nil, in: pool)
            var queued = 0
            while !backfill.isDone { queued += try await backfill.step(isDry: false, in: pool) }
            #expect(queued == 4)
            #expect(
                try ledger.psql("SELECT count(*) FROM messages WHERE integrations LIKE '%_,\(route.row)'") == "4")
            // Three for a, four for b and for new, and ops hears of the dead letter and of the pause.
            #expect(try await expectSound(daemon, after: "backfill").waiting == 13)

            for name in ["b", "new"] {
                let row = name == "b" ? daemon.row("b") : route.row
                let waiting = try await Discard.look(row, in: pool)
                var cursor: Int64 = 0
                while try await !Discard.step(row, from: &cursor, upTo: waiting.last, in: pool).isDone {}
            }
            #expect(try await expectSound(daemon, after: "discard").discarded == 8)
            let letters = try await DeadLetters.of(daemon.row("b"), before: nil, in: pool)
            while try await letters.drop(in: pool) > 0 {}
            #expect(try ledger.psql("SELECT count(*) FROM dead_letters") == "4")
            #expect(try await expectSound(daemon, after: "discard --dead").discarded == 8)
            var again = try await Backfill.start(
                try #require(routes.first { $0.integration.name == "b" }), since: Timestamp(milliseconds: 0),
                until: nil, in: pool)
            var repeated = 0
            while !again.isDone { repeated += try await again.step(isDry: false, in: pool) }
            #expect(repeated == 0, "what was thrown away stays so")

            let day = Duration.seconds(86_400)
            let upkeep = Upkeep(
                pool: pool, retention: Retention(attempts: day * 30, events: day * 30, duplicates: day * 30))
            try await upkeep.preparePartitions()
            try await upkeep.prune()
            try await expectSound(daemon, after: "pruning")
        }
    }

    @Test("Nothing is found while a person is being erased, nor afterwards")
    func erased() async throws {
        try await ledger { ledger, daemon in
            let erasure = try await Erasure.start(.user("ann"), source: nil, isDry: false, in: daemon.pool)
            let half = try await erasure.run(in: daemon.pool) { _ in }
            #expect(half.inHand == 1)
            let during = try await expectSound(daemon, after: "half an erasure")
            #expect(during.erased == 1 && during.waiting == 6)
            try ledger.psql("UPDATE deliveries SET leased_by = NULL")
            let whole = try await erasure.run(in: daemon.pool) { _ in }
            #expect(whole.inHand == 0)
            let after = try await expectSound(daemon, after: "an erasure")
            #expect(after.messages == 4 && after.erased == 0 && after.waiting == 5)
        }
    }

    @Test("A backfill delivers what is found, whatever is selected today, and nothing that was tried and not noted")
    func mended() async throws {
        try await ledger { ledger, daemon in
            // RETRIED as a version before left it: given up by hand and thrown away.
            try ledger.psql(
                """
                UPDATE messages SET integrations = NULL WHERE type = 'RETRIED';
                DELETE FROM deliveries WHERE \(Self.retried);
                DELETE FROM deliveries WHERE \(Self.waiting) AND integration = \(daemon.row("a"))
                """)
            let found = try await audit(daemon)
            #expect(found.counts == [.unanswered: 1], "\(found.findings)")
            for (events, queued) in [("NOTHING", 1), ("*", 0)] {
                let configured = try await ledger.daemon([.named("a", events: [events])])
                var backfill = try await Backfill.start(
                    try #require(configured.routes.current.all.first), since: Timestamp(milliseconds: 0), until: nil,
                    in: daemon.pool)
                var count = 0
                while !backfill.isDone { count += try await backfill.step(isDry: false, in: daemon.pool) }
                #expect(count == queued, "selecting \(events)")
            }
            try await expectSound(daemon, after: "a backfill")
        }
    }

    @Test("Nothing is found of what a version before backfilled beside, which notes nothing")
    func backfilledBefore() async throws {
        try await ledger { ledger, daemon in
            let ops = daemon.row("ops")
            try ledger.psql(
                """
                INSERT INTO deliveries (id, message, integration, purchase)
                SELECT nextval('delivery_ids'), message, \(ops), purchase FROM deliveries WHERE \(Self.waiting) LIMIT 1;
                INSERT INTO attempts (delivery, message, integration, attempt, outcome, latency_ms)
                SELECT nextval('delivery_ids'), message, \(ops), 1, 'accepted', 5 FROM attempts WHERE \(Self.accepted)
                """)
            try await expectSound(daemon, after: "a backfill of a version before")
        }
    }

    @Test("What is older than the kept attempts, and what was not noted, is counted and not judged")
    func unprovable() async throws {
        try await ledger { ledger, daemon in
            let day = Duration.seconds(86_400)
            let upkeep = Upkeep(
                pool: daemon.pool,
                retention: Retention(attempts: day * 30, events: day * 400, duplicates: day * 30))
            try await upkeep.preparePartitions()
            try ledger.psql(
                """
                UPDATE messages SET created_at = created_at - interval '40 days';
                UPDATE deliveries SET created_at = created_at - interval '40 days';
                UPDATE dead_letters SET created_at = created_at - interval '40 days';
                UPDATE attempts SET at = at - interval '40 days';
                UPDATE schema_migrations SET applied_at = applied_at - interval '40 days'
                """)
            try await upkeep.prune()
            #expect(try ledger.psql("SELECT count(*) FROM attempts") == "0")
            let old = try await expectSound(daemon, after: "pruning attempts")
            #expect(old.older == 5 && old.messages == 0)
            // As of a ledger that was moved: its migrations are younger than what is stored.
            try ledger.psql(
                """
                UPDATE schema_migrations SET applied_at = now();
                UPDATE integrations SET created_at = created_at - interval '40 days';
                UPDATE messages SET created_at = now() - interval '2 minutes' WHERE id = (SELECT min(id) FROM messages)
                """)
            let moved = try await expectSound(daemon, after: "a move, and a clock that was wrong for one message")
            #expect(moved.older == 5 && moved.messages == 0)
            try ledger.psql(
                """
                UPDATE messages SET created_at = now() + interval '2 days', integrations = NULL
                WHERE id > (SELECT min(id) FROM messages)
                """)
            let unnoted = try await expectSound(daemon, after: "an upgrade")
            #expect(unnoted.older == 1 && unnoted.unnoted == 4 && unnoted.messages == 0)
        }
    }

    @Test("What a message is said to be for reads back as it was written")
    func text() {
        for rows: [Int32] in [[], [7], [1, 2, 2_147_483_647]] {
            #expect(MessageReceivers.rows(MessageReceivers.text(rows)) == rows)
        }
        for text in [",", "1,", ",1", "1,,2", "x", "1 2", "2147483648"] {
            #expect(MessageReceivers.rows(text) == nil, "\(text)")
        }
    }
}
