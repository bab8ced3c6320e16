import Foundation
import Postgres
import Synchronization
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL and the answers.
@Suite("Recording: what can go wrong", .serialized, .timeLimit(.minutes(30)))
struct RecorderTests {
    @Test("An event that PostgreSQL refuses fails alone: quarantined byte for byte, the others stored")
    func oneBadEvent() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            // The first with a NUL, which no text column takes; the second with a key that no index row takes.
            let bad = [
                Event.sample("BA\0D", body: "bad one"),
                Event.sample("LONG", transaction: Self.incompressible, body: "bad two"),
            ]
            let good = (0..<6).map { Event.sample(purchase: "subs_\($0)") }
            let answers = await daemon.record(good.prefix(3) + bad + good.suffix(3))
            #expect(answers == Array(repeating: .stored, count: 8))
            #expect(try ledger.psql("SELECT count(*) FROM events") == "6")
            #expect(
                try ledger.psql("SELECT convert_from(body, 'UTF8') FROM quarantine ORDER BY 1") == "bad one\nbad two")
            let quarantined = daemon.log.all { if case .quarantined(_, _, let reason) = $0 { reason } else { nil } }
            #expect(quarantined.count == 2 && quarantined.allSatisfy { $0.hasPrefix("the database cannot store it") })
            // What the failed batch had reserved was given back: nothing is held but what was dispatched.
            #expect(daemon.inbox.take().count == daemon.dispatchBuffer.heldCount)
            #expect(await daemon.record([bad[0]]) == [.stored])
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "2")
        }
    }

    /// Text that no compression makes fit an index row (2,704 bytes).
    private static var incompressible: String {
        var dice = Dice(state: 3)
        return String((0..<6_000).map { _ in Character(Unicode.Scalar(UInt8.random(in: 33...126, using: &dice))) })
    }

    @Test(
        "Webhooks of a purchase whose state cannot be read wait in quarantine until it is repaired, others are recorded"
    )
    func unreadableState() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([.sample("A", purchase: "subs_1"), .sample("A", purchase: "subs_2")])
            let state = try ledger.psql("SELECT encode(state, 'hex') FROM purchases WHERE key = 'subs_1'")
            try ledger.psql(#"UPDATE purchases SET state = '\xff' WHERE key = 'subs_1'"#)
            let late = Event.sample("B", purchase: "subs_1", body: "late")
            let batch = [late] + (0..<20).map { Event.sample("B\($0)", purchase: "subs_2") }
            #expect(await daemon.record(batch) == Array(repeating: .stored, count: 21))
            // One transaction took all of them.
            #expect(try ledger.psql("SELECT count(DISTINCT xmin::text) FROM events WHERE name LIKE 'B%'") == "1")
            #expect(try ledger.psql("SELECT count(*) FROM events") == "22")
            let kept = "SELECT count(*), min(convert_from(body, 'UTF8')), min(reason) FROM quarantine"
            #expect(try ledger.psql(kept).hasPrefix("1|late|the stored state of its purchase subs_1 cannot be read"))
            #expect(await daemon.record([late]) == [.stored])
            #expect(try ledger.psql(kept).hasPrefix("1|"))

            let row = try #require(try await Quarantine.list(in: daemon.pool).first)
            let still = try await Quarantine.record(row.id, as: late, routes: [], rules: [:], in: daemon.pool)
            guard case .stillQuarantined = still else { throw DatabaseError.protocolViolation(reason: "\(still)") }
            #expect(try ledger.psql(kept).hasPrefix("1|"))
            try ledger.psql(#"UPDATE purchases SET state = '\x\#(state)' WHERE key = 'subs_1'"#)
            let outcome = try await Quarantine.record(row.id, as: late, routes: [], rules: [:], in: daemon.pool)
            guard case .recorded = outcome else { throw DatabaseError.protocolViolation(reason: "\(outcome)") }
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "0")
            #expect(try ledger.psql("SELECT count(*) FROM events") == "23")
        }
    }

    @Test("An event that always runs into a time-out is answered 503 alone; the others of its batch are recorded")
    func slowEvent() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            // The refusal of statement_timeout without its wait, into which a busy machine's statements would run, too.
            try ledger.psql(
                """
                CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN IF NEW.name = 'SLOW' THEN RAISE query_canceled; END IF; RETURN NEW; END $$;
                CREATE TRIGGER stall BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION stall()
                """)
            let batch = (0..<8).map { Event.sample($0 == 5 ? "SLOW" : "GOOD\($0)", purchase: "subs_\($0)") }
            let answers = await daemon.record(batch)
            #expect(answers == (0..<8).map { $0 == 5 ? .unavailable : .stored })
            #expect(try ledger.psql("SELECT count(*) FROM events") == "7")
        }
    }

    @Test("An event whose purchase somebody has locked is answered 503 alone; the others are stored meanwhile")
    func lockedPurchase() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon(
                settings: TestLedger.settings(ledger.connectionString, lockWait: .seconds(2)))
            await daemon.record([.sample("A", purchase: "subs_5")])
            let batch = (0..<8).map { Event.sample("B", purchase: "subs_\($0)") }
            let answers = try await ledger.during("SELECT FROM purchases WHERE key = 'subs_5' FOR UPDATE") {
                await daemon.record(batch)
            }
            #expect(answers == (0..<8).map { $0 == 5 ? .unavailable : .stored })
            let reasons = daemon.log.all { if case .refused(_, _, let reason) = $0 { reason } else { nil } }
            #expect(reasons.contains { $0.contains("55P03") })
            // The database does store webhooks, so this daemon stays ready.
            let queue = RecordQueue(writers: 1)
            queue.submit(.event(batch[5])) { #expect($0 == .unavailable) }
            queue.close()
            let recorder = daemon.recorder(queue)
            try await ledger.during("SELECT FROM purchases WHERE key = 'subs_5' FOR UPDATE") { await recorder.run() }
            #expect(recorder.health.refusal == nil)
            #expect(await daemon.record([batch[5]]) == [.stored])
            #expect(try ledger.psql("SELECT count(*) FROM events") == "9")
        }
    }

    @Test("A COMMIT that the server refuses for a limit of its own is answered 503: no event is the cause")
    func refusedCommit() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            // As where another application has let the queue of notifications become full.
            try ledger.psql(
                """
                CREATE SEQUENCE commits;
                CREATE FUNCTION overflow() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN PERFORM nextval('commits'); RAISE program_limit_exceeded; END $$;
                CREATE CONSTRAINT TRIGGER overflow AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW EXECUTE FUNCTION overflow()
                """)
            for events in [["A"], ["A", "B"]] {
                let answers = await daemon.recordOnce(events.map { .event(.sample($0)) })
                #expect(answers.allSatisfy { $0 == .unavailable } && answers.count == events.count)
            }
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "0")
            #expect(try ledger.psql("SELECT last_value FROM commits") == "2", "nothing is tried apart")
            try ledger.psql("DROP TRIGGER overflow ON events")
            #expect(await daemon.record([.sample("A")]) == [.stored])
        }
    }

    @Test(
        "A batch that takes more than the server has is halved until it fits",
        arguments: ["out_of_memory", "configuration_limit_exceeded"])
    func tooLarge(condition: String) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            try ledger.psql(
                """
                CREATE FUNCTION exhaust() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN IF (SELECT count(*) FROM added) > 4 THEN RAISE \(condition); END IF; RETURN NULL; END $$;
                CREATE TRIGGER exhaust AFTER INSERT ON events REFERENCING NEW TABLE AS added
                    FOR EACH STATEMENT EXECUTE FUNCTION exhaust()
                """)
            let answers = await daemon.record((0..<8).map { .sample(purchase: "subs_\($0)") })
            #expect(answers == Array(repeating: .stored, count: 8))
            #expect(try ledger.psql("SELECT count(*) FROM events") == "8")
        }
    }

    @Test("A body whose row in quarantine somebody holds waits for it as an event would, and is answered 503 alone")
    func lockedQuarantine() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon(
                settings: TestLedger.settings(ledger.connectionString, lockWait: .seconds(2)))
            func item(_ body: String) -> RecordQueue.Item {
                .quarantine(QuarantinedBody(source: "shop", reason: "no event name", body: Array(body.utf8)))
            }
            #expect(await daemon.record([item("held")]) == [.stored])
            let answers = try await ledger.during("SELECT FROM quarantine FOR UPDATE") {
                await daemon.record([item("held"), item("free"), .event(.sample("A"))])
            }
            #expect(answers == [.unavailable, .stored, .stored])
            // Not only by the end of the statement's time, during which the writer stores nothing.
            let reasons = daemon.log.all { if case .refused(_, _, let reason) = $0 { reason } else { nil } }
            #expect(reasons.contains { $0.contains("55P03") })
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "2")
        }
    }

    @Test("Quarantine keeps one row for each body of a source")
    func quarantine() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            func item(_ source: String, _ body: String) -> RecordQueue.Item {
                .quarantine(QuarantinedBody(source: source, reason: "no event name", body: Array(body.utf8)))
            }
            let answers = await daemon.record([
                item("shop", "x"), item("shop", "x"), item("kiosk", "x"), item("shop", "y"),
            ])
            #expect(answers == Array(repeating: .stored, count: 4))
            #expect(
                try ledger.psql("SELECT source, convert_from(body, 'UTF8'), reason FROM quarantine ORDER BY 1, 2")
                    == "kiosk|x|no event name\nshop|x|no event name\nshop|y|no event name")
            try ledger.psql("ALTER TABLE quarantine ADD CONSTRAINT refusing CHECK (body <> 'bad')")
            let others = await daemon.record([item("shop", "z"), item("shop", "bad"), item("shop", "w")])
            #expect(others == [.stored, .unavailable, .stored])
            #expect(try ledger.psql("SELECT count(*) FROM quarantine") == "5")
        }
    }

    @Test("What cannot be read holds up no event that came behind it")
    func quarantineLast() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let body = QuarantinedBody(source: "shop", reason: "no event name", body: [1])
            let answers = await daemon.record([.quarantine(body), .event(.sample("A", purchase: nil))])
            #expect(answers == [.stored, .stored])
            let order = daemon.log.all { observation in
                switch observation {
                case .eventRecorded: "event"
                case .quarantined: "quarantine"
                default: nil
                }
            }
            #expect(order == ["event", "quarantine"])
        }
    }

    @Test("A submitter with a fallback hears of a commit and of a refusal, and its source is refused nothing")
    func fallback() async throws {
        let cluster = try TestCluster()
        try await TestLedger.run(on: cluster) { ledger in
            let daemon = try await ledger.daemon()
            let heard = Mutex<[String]>([])
            func record(_ items: [RecordQueue.Item]) async {
                let queue = RecordQueue(eventsMax: 2, writers: 1)
                for item in items {
                    let fallback = RecordQueue.Fallback(
                        committed: { heard.withLock { $0.append("committed") } },
                        unavailable: { reason in heard.withLock { $0.append(reason) } })
                    queue.submit(item, fallback: fallback) { answer in heard.withLock { $0.append("\(answer)") } }
                }
                queue.close()
                await daemon.recorder(queue).run()
            }
            let body = QuarantinedBody(source: "shop", reason: "x", body: [1])
            let items = [RecordQueue.Item.event(.sample("A")), .quarantine(body), .event(.sample("C"))]
            for attempt in 1...4 {
                await record(items)
                let said = heard.withLock { heard in
                    defer { heard = [] }
                    return heard
                }
                // On a busy machine a statement may take longer than it has.
                if attempt < 4, said.filter({ $0 == "committed" }).count < 2 { continue }
                #expect(said.first == RecordQueue.fullReason)
                #expect(said.dropFirst().sorted() == ["committed", "committed", "stored", "stored"])
                break
            }
            try cluster.stop(mode: "immediate")
            await record(Array(items.prefix(2)))
            let said = heard.withLock { $0 }
            #expect(said.count == 2 && !said.contains("unavailable") && !said.contains("committed"), "\(said)")
            #expect(daemon.log.all { if case .refused = $0 { true } else { nil } }.isEmpty)
        }
    }

    @Test("A refusal that comes after the server's own answer is not reported again")
    func lateRefusal() {
        let start = ContinuousClock.now
        let answers = Mutex(0)
        let submitter = RecordQueue.Submitter(
            completion: { _ in answers.withLock { $0 += 1 } }, fallback: nil, answeredAt: start + .seconds(8))
        var reports: [Int] = []
        for second in [0, 7, 8, 9] {
            submitter.answerUnavailable("gone", at: start + .seconds(second)) { reports.append(second) }
        }
        #expect(reports == [0, 7])
        #expect(answers.withLock { $0 } == 4)
    }

    @Test("A full queue, by number or by bytes, and a closed one answer at once")
    func bounds() {
        let answers = Mutex<[RecordQueue.Answer]>([])
        @Sendable func note(_ answer: RecordQueue.Answer) { answers.withLock { $0.append(answer) } }
        let few = RecordQueue(eventsMax: 2)
        for _ in 0..<3 { few.submit(.event(.sample()), completion: note) }
        #expect(answers.withLock { $0 } == [.unavailable] && few.depth == 2)
        let small = RecordQueue(bytesMax: 10)
        small.submit(.event(.sample(body: "123456")), completion: note)
        small.submit(.event(.sample(body: "12345")), completion: note)
        small.submit(.event(.sample(body: "1234")), completion: note)
        #expect(answers.withLock { $0.count } == 2 && small.depth == 2)
        let closed = RecordQueue()
        closed.close()
        #expect(closed.submit(.event(.sample()), completion: note) == RecordQueue.stoppingReason)
        #expect(answers.withLock { $0.count } == 3)
    }

    @Test("Room comes back as batches are taken, in order of arrival")
    func room() async {
        let queue = RecordQueue(eventsMax: 3, bytesMax: 100, writers: 1)
        for name in ["A", "B", "C"] {
            queue.submit(.event(.sample(name, body: "30 bytes 30 bytes 30 bytes 30b")), completion: { _ in })
        }
        func names(_ batch: [RecordQueue.Pending]?) -> [String] {
            (batch ?? []).map { if case .event(let event) = $0.item { event.name } else { "?" } }
        }
        #expect(names(await queue.next(for: 0, upTo: 2)) == ["A", "B"])
        queue.submit(
            .event(.sample("D", body: "60 bytes 60 bytes 60 bytes 60 bytes 60 bytes 60 bytes 60 byt")),
            completion: { _ in })
        queue.close()
        #expect(names(await queue.next(for: 0, upTo: 500)) == ["C", "D"])
        #expect(await queue.next(for: 0, upTo: 500) == nil)
    }

    @Test("All events of a purchase go to one writer, in order of arrival; none is left out")
    func shares() async {
        let queue = RecordQueue(writers: 3)
        for round in 0..<5 {
            for purchase in 0..<40 {
                queue.submit(.event(.sample("\(round)", purchase: "subs_\(purchase)")), completion: { _ in })
            }
        }
        queue.close()
        var seen: [String: [String]] = [:]
        var owners: [String: Set<Int>] = [:]
        for writer in 0..<3 {
            while let batch = await queue.next(for: writer, upTo: 7) {
                for case .event(let event) in batch.map(\.item) {
                    let purchase = event.purchase?.key ?? ""
                    seen[purchase, default: []].append(event.name)
                    owners[purchase, default: []].insert(writer)
                }
            }
        }
        #expect(seen.count == 40 && seen.values.allSatisfy { $0 == ["0", "1", "2", "3", "4"] })
        #expect(owners.values.allSatisfy { $0.count == 1 })
        #expect(queue.depth == 0)
    }

    @Test("A duplicate, too, is acknowledged when a synchronous standby has what it repeats", arguments: [1, .max])
    func duplicateWaits(copiedFrom: Int) async throws {
        let cluster = try TestCluster()
        try await TestLedger.run(on: cluster) { ledger in
            let daemon = try await ledger.daemon([.named("all")], copiedEventsMin: copiedFrom)
            let events = [
                Event.sample("LOGIN", purchase: nil, transaction: nil, vendorEventID: "evt-1", product: nil),
                .sample("ACTIVATE", purchase: "subs_1"),
            ]
            #expect(await daemon.record(events) == [.stored, .stored])
            for event in events {
                // There is none: every commit that wrote something waits.
                try await require(standby: "absent", of: ledger)
                let isAnswered = Mutex(false)
                let repeated = Task {
                    defer { isAnswered.withLock { $0 = true } }
                    return await daemon.record([event])
                }
                let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
                while try ledger.psql(waiting) == "0", !isAnswered.withLock({ $0 }) {
                    try await Task.sleep(for: .milliseconds(5))
                }
                #expect(!isAnswered.withLock { $0 }, "\(event.name) was acknowledged before it was safe")
                try await require(standby: "", of: ledger)
                #expect(await repeated.value == [.stored])
            }
        }
    }

    private func require(standby: String, of ledger: TestLedger) async throws {
        try ledger.psql("ALTER SYSTEM SET synchronous_standby_names = '\(standby)'")
        try ledger.psql("SELECT pg_reload_conf()")
        while try ledger.psql("SHOW synchronous_standby_names", inKeptSession: false) != standby {
            try await Task.sleep(for: .milliseconds(5))
        }
        // The checkpointer is told before a new session has the value, and notifies the others before it begins.
        try ledger.psql("CHECKPOINT")
        // The first number drawn after it is written down, the next ones are not.
        try ledger.psql(
            """
            SET synchronous_commit = local;
            SELECT nextval('event_ids'), nextval('message_ids'), nextval('delivery_ids')
            """)
    }

    @Test("The database gone: answered 503; there again: stored")
    func outage() async throws {
        let cluster = try TestCluster()
        try await TestLedger.run(on: cluster) { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            #expect(await daemon.record([.sample("A")]) == [.stored])
            try cluster.stop(mode: "immediate")
            let body = QuarantinedBody(source: "shop", reason: "x", body: [1])
            for item in [RecordQueue.Item.event(.sample("B")), .quarantine(body)] {
                #expect(await daemon.recordOnce([item]) == [.unavailable])
            }
            try cluster.start()
            var states = daemon.poolStates.makeAsyncIterator()
            while let state = await states.next() { if case .recovered = state { break } }
            #expect(await daemon.record([.sample("B")]) == [.stored])
            #expect(try ledger.psql("SELECT string_agg(name, ',' ORDER BY id) FROM events") == "A,B")
        }
    }

    @Test("Two daemons that meet on the same new purchases: one purchase, the whole truth, again and again")
    func race() async throws {
        try await TestLedger.run { ledger in
            let left = try await ledger.daemon([.named("all")])
            let right = try await ledger.daemon([.named("all")])
            let rounds = 40
            let together = login + [Fact.transferred(anonymous, to: user, seconds(100), until: seconds(10_000))]
            for round in 0..<rounds {
                // Three purchases in opposite order: what one holds the other wants.
                let purchases = (0..<3).map { "subs_\(round)_\($0)" }
                func events(_ facts: [Fact], _ purchases: [String]) -> [Event] {
                    purchases.flatMap { purchase in
                        facts.map { .stating($0, purchase: purchase, transaction: purchase) }
                    }
                }
                async let one = left.record(events([together[0], together[2]], purchases))
                async let other = right.record(events([together[1], together[3], together[2]], purchases.reversed()))
                let answers = await one + other
                #expect(answers.allSatisfy { $0 == .stored })
            }
            #expect(left.log.warnings + right.log.warnings == [])
            #expect(try ledger.psql("SELECT count(*) FROM purchases") == "\(rounds * 3)")
            #expect(try ledger.psql("SELECT count(*) FROM events") == "\(rounds * 3 * 4)")
            // The same state that any order gives, byte for byte.
            let truth = Identifier.hex(of: Playback(together).state.bytes)
            #expect(try ledger.psql("SELECT DISTINCT encode(state, 'hex') FROM purchases") == truth)
            #expect(
                try ledger.psql("SELECT count(*), count(DISTINCT purchase) FROM transfers")
                    == "\(rounds * 3)|\(rounds * 3)")
            #expect(try ledger.psql("SELECT count(*) FROM entitlements WHERE active AND holder <> 'user:jeff'") == "0")
            // Of each ordering key exactly the first delivery is unblocked.
            #expect(
                try ledger.psql(
                    """
                    SELECT count(*) FROM deliveries d WHERE blocked = (id = (
                        SELECT min(id) FROM deliveries e WHERE e.purchase = d.purchase AND e.integration = d.integration))
                    """) == "0")
        }
    }

    @Test("Every order of a transfer's webhooks, each twice, leaves the same tables (I1, I2)")
    func confluence() async throws {
        let until = seconds(10_000)
        let facts =
            login + [
                .transferred(anonymous, to: user, seconds(100), until: until),
                .received(user, from: anonymous, seconds(100), until: until),
            ]
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let orders = permutations(facts)
            // Each order is an app of its own; one place of every order is one batch.
            for place in facts.indices {
                let events = orders.enumerated().map { index, order in
                    Event.stating(order[place], app: "order \(index)")
                }
                #expect(await daemon.record(events + events).count == orders.count * 2)
            }
            let columns = """
                SELECT string_agg(holder || active || as_of_ms, ',' ORDER BY holder) FROM \(TestLedger.access) e
                WHERE e.purchase = p.id
                --
                SELECT string_agg(from_holder || to_holder || ordinal, ',') FROM transfers t WHERE t.purchase = p.id
                --
                SELECT string_agg(store_transaction_id || as_of_ms, ',') FROM transactions t WHERE t.purchase = p.id
                --
                SELECT string_agg(m.type || (m.transfer IS NOT NULL), ',' ORDER BY m.type)
                FROM messages m JOIN events v ON v.id = m.event WHERE v.purchase = p.id
                --
                SELECT string_agg(user_id, ',') FROM holder_links l WHERE l.app = p.app
                --
                SELECT count(*) FROM deliveries d WHERE d.purchase = p.id
                --
                SELECT encode(p.state, 'hex')
                """
                .components(separatedBy: "--").map { "(\($0))" }.joined(separator: ", ")
            let distinct = try ledger.psql("SELECT count(*), \(columns) FROM purchases p GROUP BY 2, 3, 4, 5, 6, 7, 8")
            #expect(distinct.split(separator: "\n").count == 1, "\(distinct)")
            #expect(distinct.hasPrefix("120|\(anonymous.storageKey)false"))
            #expect(
                distinct.contains(
                    "ACTIVATEfalse,ACTIVATEfalse,DEACTIVATEfalse,SUBSCRIPTION_RECEIVEDtrue,SUBSCRIPTION_TRANSFERREDtrue"
                ))
        }
    }

    @Test("Batches of 500, and more than one of them")
    func wide() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a"), .named("b", order: .none)])
            let events = (0..<1_300).map {
                Event.sample("EVENT_\($0 / 130)", purchase: "subs_\($0 % 130)", transaction: "tx_\($0 % 130)")
            }
            let answers = await daemon.record(events)
            #expect(answers.count == 1_300 && answers.allSatisfy { $0 == .stored })
            #expect(try ledger.psql("SELECT count(*) FROM events") == "1300")
            #expect(try ledger.psql("SELECT count(*), count(DISTINCT purchase) FROM deliveries") == "2600|130")
            #expect(try ledger.psql("SELECT count(*) FROM deliveries WHERE NOT blocked") == "\(130 + 1_300)")
            #expect(daemon.log.warnings == [])
        }
    }
}
