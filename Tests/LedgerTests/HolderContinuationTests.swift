import Postgres
import Synchronization
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Changes of holders that are continued after their own transaction, and rows of them that say nothing. Oracle: SQL.
@Suite("Changes of holders: what fails in one concerns no other", .serialized, .timeLimit(.minutes(30)))
struct HolderContinuationTests {
    private static let scope = Scope(source: "moving", app: "app.one", environment: "PRODUCTION")
    private static let (a, b, c, d) = (Holder.user("a"), Holder.user("b"), Holder.user("c"), Holder.user("d"))
    private static let active = """
        SELECT string_agg(holder || ':' || n, ' ' ORDER BY holder)
        FROM (SELECT holder, count(*) AS n FROM entitlements WHERE active GROUP BY holder) AS counted
        """

    private static func move(
        _ from: Holder, _ to: Holder, at: Int64 = 100, source: String = scope.source
    ) -> Event {
        Event(
            scope: Scope(source: source, app: scope.app, environment: scope.environment), vendorEventID: nil,
            name: "MOVE \(from) \(to)", type: "MOVE", holder: to,
            occurredAt: seconds(at), purchase: nil, transaction: nil,
            change: .move(from: [from], to: to, isNative: true), body: Array("{}".utf8))
    }

    private static func gain(_ holder: Holder, _ purchase: String, at: Int64 = 0) -> Event {
        .sample(
            "ACTIVATE", holder: holder, at: seconds(at), purchase: purchase, transaction: "t-\(purchase)",
            source: "moving", fact: .activate(holder, seconds(at), until: seconds(1_000_000)))
    }

    /// a and c have five purchases each and pass them to b and d: two at once, the rest is left to continue.
    private static func begin(_ daemon: Daemon) async throws {
        await daemon.record((0..<5).flatMap { [gain(a, "a\($0)"), gain(c, "c\($0)")] })
        // Not by a recorder that runs, which would continue at once.
        let recorder = daemon.recorder(RecordQueue())
        let batch = try recorder.recording(.insertIfAbsent)
        for move in [move(a, b), move(c, d)] {
            let committed = try await recorder.transact(batch, events: 1) { session, reserved throws(DatabaseError) in
                try batch.run([move], on: session, reserved: &reserved)
            }
            #expect(committed.isUnfinished)
        }
    }

    /// - Parameter time: of the round.
    private static func finish(_ recorder: Recorder, at time: ContinuousClock.Instant = .now) async {
        for _ in 0..<20 where await !recorder.continueChange(at: time) { return }
        Issue.record("it never ends")
    }

    @Test(
        "A row that says nothing is left out and announced once: webhooks and other changes go on",
        arguments: [
            "kind = 'no such kind'", "target = 'nobody'", "second_target = 'nobody'",
        ])
    func unreadable(damage: String) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon(changePurchasesMax: 2)
            try await Self.begin(daemon)
            let row = try ledger.psql("SELECT min(id) FROM holder_changes")
            try ledger.psql("UPDATE holder_changes SET \(damage) WHERE id = \(row)")
            let text = "row \(row) of holder_changes cannot be read"
            var announced: [String] { daemon.log.warnings.filter { $0.hasPrefix(text) } }
            let recorder = daemon.recorder(RecordQueue())
            await Self.finish(recorder)
            #expect(announced.count == 1)
            // Of others, and of the holder that it is about.
            #expect(await daemon.record([Self.gain(.user("e"), "e0")]) == [.stored])
            #expect(await daemon.record([Self.gain(Self.a, "a9", at: 50)]) == [.stored])
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "0")
            #expect(try ledger.psql(Self.active) == "user:a:4 user:b:2 user:d:5 user:e:1")
            // Each batch was recorded by a recorder of its own, which announced it, too.
            let before = announced
            #expect(before.count >= 3)
            await Self.finish(recorder)
            #expect(announced == before)
            // Mended as the warning says.
            try ledger.psql(
                """
                UPDATE holder_changes SET kind = 'native', target = 'user:b', second_target = NULL,
                    applied_through = '00000000-0000-0000-0000-000000000000' WHERE id = \(row)
                """)
            await Self.finish(daemon.recorder(RecordQueue()))
            #expect(try ledger.psql(Self.active) == "user:b:6 user:d:5 user:e:1")
            #expect(announced == before)
        }
    }

    @Test("A change whose event says nothing is left out and reported once: the other changes go on")
    func unreadableEvent() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon(changePurchasesMax: 2)
            try await Self.begin(daemon)
            let row = try ledger.psql("SELECT min(id) FROM holder_changes")
            let event = "WHERE id = (SELECT event FROM holder_changes WHERE id = \(row))"
            let holder = try ledger.psql("SELECT holder FROM events \(event)")
            try ledger.psql("UPDATE events SET holder = 'nobody' \(event)")
            let recorder = daemon.recorder(RecordQueue())
            await Self.finish(recorder)
            await Self.finish(recorder, at: .now + Limits.changeRetry.upperBound)
            #expect(daemon.log.warnings.count == 1)
            #expect(daemon.log.warnings.first?.hasPrefix("row \(row) of holder_changes cannot be read") == true)
            #expect(try ledger.psql(Self.active) == "user:a:3 user:b:2 user:d:5")
            // Mended, and the daemon restarted.
            try ledger.psql("UPDATE events SET holder = '\(holder)' \(event)")
            await Self.finish(daemon.recorder(RecordQueue()))
            #expect(try ledger.psql(Self.active) == "user:b:5 user:d:5")
        }
    }

    @Test("What is stated of a holder counts for every source, whatever its own webhooks can state")
    func anySource() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            #expect(await daemon.record([Self.move(Self.a, Self.b, source: "shop")]) == [.stored])
            let bought = Event.sample(at: seconds(0), fact: .activate(Self.a, seconds(0), until: seconds(1_000_000)))
            #expect(await daemon.record([bought]) == [.stored])
            #expect(try ledger.psql(Self.active) == "user:b:1")
        }
    }

    @Test("A step that runs into a time-out waits for the next round; the changes after it do not")
    func timeout() async throws {
        try await TestLedger.run { ledger in
            let settings = try ConnectionSettings(
                ledger.connectionString, connectTimeout: .seconds(120), statementTimeout: .seconds(30),
                deadlineMargin: .seconds(120))
            let daemon = try await ledger.daemon(changePurchasesMax: 2, settings: settings)
            try await Self.begin(daemon)
            let recorder = daemon.recorder(RecordQueue())
            let isOver = Mutex(false)
            let round = ContinuousClock.now
            try await ledger.holding(
                { session throws(DatabaseError) in
                    try session.script("SELECT FROM purchases WHERE key LIKE 'a%' FOR UPDATE")
                },
                {
                    await Self.finish(recorder, at: round)
                    isOver.withLock { $0 = true }
                },
                meanwhile: {
                    while !isOver.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(20)) }
                })
            #expect(try ledger.psql(Self.active) == "user:a:3 user:b:2 user:d:5")
            #expect(daemon.log.warnings.count == 1)
            #expect(daemon.log.warnings.first?.contains("is tried again after") == true)
            #expect(await !recorder.continueChange(at: round), "not in the same round")
            await Self.finish(recorder, at: .now + Limits.changeRetry.lowerBound)
            #expect(try ledger.psql(Self.active) == "user:b:5 user:d:5")
        }
    }

    @Test("A step that is refused is tried again after a pause, which grows; the changes after it do not wait")
    func refused() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon(changePurchasesMax: 2)
            try await Self.begin(daemon)
            // As where the role lacks a privilege for a while.
            try ledger.psql(
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '42501'; END $$;
                CREATE TRIGGER refuse BEFORE UPDATE ON purchases FOR EACH ROW WHEN (OLD.key LIKE 'a%')
                EXECUTE FUNCTION refuse()
                """)
            let recorder = daemon.recorder(RecordQueue())
            await Self.finish(recorder)
            #expect(try ledger.psql(Self.active) == "user:a:3 user:b:2 user:d:5")
            let pause = Limits.changeRetry.lowerBound
            let second = ContinuousClock.now + pause
            await Self.finish(recorder, at: second)
            #expect(try ledger.psql(Self.active) == "user:a:3 user:b:2 user:d:5")
            let pauses = [pause, pause * 4].map { "tried again after \($0)" }
            #expect(zip(daemon.log.warnings, pauses).allSatisfy { $0.contains($1) }, "\(daemon.log.warnings)")
            #expect(daemon.log.warnings.count == pauses.count)

            try ledger.psql("DROP TRIGGER refuse ON purchases")
            // The second try began after `second - pause`, so its own pause lasts beyond this.
            #expect(await !recorder.continueChange(at: second + pause * 3), "its pause is not over")
            await Self.finish(recorder, at: .now + pause * 4)
            #expect(try ledger.psql(Self.active) == "user:b:5 user:d:5")
            #expect(daemon.log.warnings.count == pauses.count)
        }
    }

    @Test("A change that has failed many times is tried again five minutes later, and not again in the same round")
    func longestPause() {
        let unfinished = UnfinishedChanges()
        let longest = Duration.seconds(300)
        for _ in 0..<9 {
            let before = ContinuousClock.now
            #expect(unfinished.postpone(7) <= longest)
            #expect(unfinished.skipped(at: before) == [7])
        }
        #expect(unfinished.skipped(at: .now + longest) == [])
    }

    @Test("A step that waits for a source holds no change of it, which an erasure would wait for")
    func order() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon(changePurchasesMax: 2)
            try await Self.begin(daemon)
            let recorder = daemon.recorder(RecordQueue())
            try await ledger.holding { session throws(DatabaseError) in
                _ = try session.run(HolderStatements.lock, KeyHash.lock(ofSource: Self.scope.source))
            } _: {
                await Self.finish(recorder)
            } meanwhile: {
                let free = try ledger.psql(
                    "SELECT count(*) FROM (SELECT FROM holder_changes FOR UPDATE SKIP LOCKED) AS free")
                #expect(free == "2")
            }
            #expect(try ledger.psql(Self.active) == "user:b:5 user:d:5")
        }
    }

    @Test("A step that finds one of its messages there already is run again with care, as a batch is")
    func careful() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")], copiedEventsMin: 500, changePurchasesMax: 2)
            try ledger.allowIDsBefore()
            try await Self.begin(daemon)
            for index in 0..<5 {
                guard let purchase = Self.gain(Self.a, "a\(index)").purchase else { continue }
                let transfer = KeyHash.transfer(
                    purchase: KeyHash.purchase(purchase, in: Self.scope), from: Self.a, to: Self.b, ordinal: 1)
                let key = KeyHash.message(ofTransfer: transfer, type: "SUBSCRIPTION_RECEIVED")
                try ledger.psql(
                    """
                    INSERT INTO messages (id, key, event, type, envelope)
                    SELECT -1 - \(index), '\(key.hex)', min(id), 'SUBSCRIPTION_RECEIVED', '' FROM events
                    HAVING NOT EXISTS (SELECT FROM messages WHERE key = '\(key.hex)')
                    """)
            }
            await Self.finish(daemon.recorder(RecordQueue()))
            #expect(daemon.log.warnings == [])
            #expect(try ledger.psql(Self.active) == "user:b:5 user:d:5")
            #expect(try ledger.psql("SELECT count(*) FROM messages WHERE id < 0") == "3")
            #expect(try ledger.psql("SELECT count(*) FROM deliveries WHERE message < 0") == "0", "announced before")
        }
    }

    @Test("What a change has not reached yet is not erased with the holder before, and not repaired as if it had")
    func erasedAndRepairedMeanwhile() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")], changePurchasesMax: 2)
            let readings = Readings()
            readings.remember((0..<5).flatMap { [Self.gain(Self.a, "a\($0)"), Self.gain(Self.c, "c\($0)")] })
            readings.remember([Self.move(Self.a, Self.b), Self.move(Self.c, Self.d)])
            try await Self.begin(daemon)
            let before = try ledger.picture()
            let erasure = try await Erasure.start(Self.a, source: nil, isDry: false, in: daemon.pool)
            #expect(try await erasure.run(in: daemon.pool) { _ in }.isMoving)
            #expect(try ledger.picture() == before)
            var impossible = 0
            for purchase in try await Repair.page(after: nil, source: nil, in: daemon.pool) {
                let report = try await readings.repair.run(purchase, isDry: false, in: daemon.pool)
                if case .impossible = report?.verdict { impossible += 1 }
            }
            #expect(impossible == 6, "those that were reached are sound")
            #expect(try ledger.picture() == before)
            await Self.finish(daemon.recorder(RecordQueue()))
            #expect(try ledger.psql("SELECT count(*) FROM transfers") == "10")
            #expect(try ledger.psql("SELECT count(*) FROM messages WHERE transfer IS NOT NULL") == "20")
            #expect(try await !erasure.run(in: daemon.pool) { _ in }.isMoving)
            #expect(try ledger.psql(Self.active) == "user:b:5 user:d:5")
        }
    }

    @Test("A webhook whose change of holders is not applied to all its purchases outlives its retention until it is")
    func keptForItsChange() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon(changePurchasesMax: 2)
            try await Self.begin(daemon)
            try ledger.psql(
                """
                UPDATE periods SET began_at = began_at - interval '10 days';
                UPDATE events SET received_at = received_at - interval '10 days'
                """)
            let month = Duration.seconds(30 * 86_400)
            let upkeep = Upkeep(
                pool: daemon.pool, retention: Retention(attempts: month, events: month, duplicates: month),
                observe: { [log = daemon.log] in log.note($0) })
            try await upkeep.beginPeriod()
            try ledger.psql(
                """
                UPDATE periods SET began_at = began_at - interval '40 days';
                UPDATE events SET received_at = received_at - interval '40 days'
                """)
            try await upkeep.beginPeriod()
            for _ in 0..<2 { try await upkeep.pruneInTheEnd() }
            #expect(try ledger.psql("SELECT count(*) FROM events WHERE type = 'MOVE'") == "2")
            #expect(daemon.log.warnings.contains { $0.contains("not all are moved yet") })
            await Self.finish(daemon.recorder(RecordQueue()))
            #expect(try ledger.psql(Self.active) == "user:b:5 user:d:5")
            for _ in 0..<2 { try await upkeep.pruneInTheEnd() }
            #expect(
                try ledger.psql("SELECT count(*) FROM events WHERE id < (SELECT min(event) FROM holder_changes)") == "0"
            )
        }
    }
}
