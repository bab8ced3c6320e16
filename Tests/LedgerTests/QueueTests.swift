import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL.
@Suite("The queue: claims and settles", .serialized)
struct QueueTests {
    @Test("A claim takes what is due and free, oldest first, with all that a request needs")
    func due() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all"), .named("other")])
            await daemon.record((0..<6).map { .sample("EVENT_\($0)", purchase: "subs_\($0)", vendorEventID: "e\($0)") })
            let row = daemon.row("all")
            try ledger.psql(
                """
                UPDATE deliveries d SET due_at = now() + interval '1 hour' FROM messages m
                    WHERE m.id = d.message AND m.type = 'EVENT_1';
                UPDATE deliveries d SET blocked = true FROM messages m WHERE m.id = d.message AND m.type = 'EVENT_2';
                UPDATE deliveries d SET leased_by = 999 FROM messages m WHERE m.id = d.message AND m.type = 'EVENT_3';
                UPDATE deliveries d SET due_at = due_at - interval '1 hour', attempts = 3 FROM messages m
                    WHERE m.id = d.message AND m.type = 'EVENT_5'
                """)
            #expect(try await daemon.queue.lanesWithDue([row]) == [row])
            #expect(try await daemon.claimAll("all").isEmpty, "a closed lane takes nothing")
            daemon.open("all")
            let claimed = try await daemon.claimAll("all")
            #expect(claimed.map(\.message.type) == ["EVENT_5", "EVENT_0", "EVENT_4"])
            #expect(claimed.map(\.attemptsMade) == [3, 0, 0] && claimed.allSatisfy { $0.integration == row })
            #expect(try ledger.psql("SELECT count(*) FROM deliveries WHERE leased_by = \(daemon.lease)") == "3")
            let message = try #require(claimed.last).message
            let event = Event.sample("EVENT_4", purchase: "subs_4", vendorEventID: "e4")
            #expect(message.id == KeyHash.message(passingOn: KeyHash.event(event)).messageID)
            #expect(message.eventID == "e4" && message.source == "shop" && message.transaction == "tx_1")
            #expect(message.purchaseKey == "subs_4" && message.original == event.body && message.derivedBody == nil)
            #expect(message.envelope.starts(with: Array(#"{"type":"EVENT_4""#.utf8)))
            #expect(try await daemon.queue.lanesWithDue([row]) == [])
            #expect(try await daemon.queue.lanesWithDue([row, daemon.row("other")]) == [daemon.row("other")])
        }
    }

    @Test("A message that was recorded and one that was claimed are the same, derived ones too")
    func sameMessage() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all", order: .none)])
            daemon.open("all")
            await daemon.record(login.map { .stating($0) })
            let handed = daemon.inbox.take()
            try await daemon.queue.giveBack(handed)
            let claimed = try await daemon.claimAll("all").sorted { $0.id < $1.id }
            #expect(handed.count == 5 && claimed.map(\.id) == handed.map(\.id))
            for (one, other) in zip(handed, claimed) {
                let (left, right) = (one.message, other.message)
                #expect(left.row == right.row && left.id == right.id)
                #expect(left.eventID == right.eventID && left.type == right.type && left.source == right.source)
                #expect(left.transaction == right.transaction && left.purchase == right.purchase)
                #expect(left.purchaseKey == right.purchaseKey && left.transferID == right.transferID)
                #expect(left.envelope == right.envelope && left.original == right.original)
                #expect(left.derivedBody == right.derivedBody)
                #expect(one.createdAt == other.createdAt)
            }
        }
    }

    @Test("A task that has failed for a minute, for want of room for its locks, is logged once, and so is its end")
    func lastingFailure() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            await daemon.record([.sample()])
            daemon.open("all")
            try ledger.psql(
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'out of shared memory' USING ERRCODE = '53200'; END $$;
                CREATE TRIGGER refuse BEFORE UPDATE ON deliveries FOR EACH ROW EXECUTE FUNCTION refuse()
                """)
            let began = ContinuousClock.now
            for (seconds, count) in [(0, 0), (59, 0), (60, 1), (3_600, 1)] {
                do {
                    _ = try await daemon.claimAll("all")
                    Issue.record("it was claimed")
                } catch {
                    daemon.queue.report(error, doing: "claiming", at: began + .seconds(seconds))
                }
                #expect(daemon.log.warnings.count == count, "after \(seconds) s")
            }
            #expect(daemon.log.warnings.first?.contains("claiming has not succeeded") == true)
            #expect(daemon.log.warnings.first?.contains("53200") == true)
            for _ in 1...2 { daemon.queue.succeeded("claiming") }
            #expect(daemon.log.warnings.count == 2)
            #expect(daemon.log.warnings.last == "claiming succeeds again")
        }
    }

    @Test("Unblocking behind a claim ends the failure of the one before, however long it lasted")
    func unblockingSucceedsAgain() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all", order: .purchase)])
            let what = "unblocking the successors of deliveries without a message"
            let error = DatabaseError.refused(Refusal(sqlState: "55P03", message: "canceling statement"))
            let began = ContinuousClock.now
            for seconds in [0, 60] { daemon.queue.report(error, doing: what, at: began + .seconds(seconds)) }
            #expect(daemon.log.warnings.count == 1)
            let head = FanOut.OrderingKey(purchase: Identifier(high: 7, low: 1), integration: daemon.row("all"))
            for heads in [[], [head]] as [Set<FanOut.OrderingKey>] {
                try await daemon.pool.withSession { session throws(DatabaseError) in
                    daemon.queue.unblockSuccessors(of: heads, on: session)
                }
                #expect(daemon.log.warnings.contains("\(what) succeeds again") == !heads.isEmpty)
            }
            #expect(daemon.log.warnings.count == 2)
        }
    }

    @Test("Failures that come long after each other are none that last; those within ten minutes of each other are")
    func failuresAlone() {
        let (failures, began) = (LastingFailures(), ContinuousClock.now)
        func failed(after seconds: Int) -> Bool {
            failures.failed("giving back", grace: .seconds(60), at: began + .seconds(seconds))
        }
        #expect(!failed(after: 0))
        #expect(!failed(after: 3_600))
        #expect(!failures.succeeded("giving back"), "nothing was logged that could end")
        #expect(!failed(after: 7_200))
        #expect(failed(after: 7_800))
        #expect(!failed(after: 14_400), "it has not succeeded since")
        #expect(failures.succeeded("giving back"))
    }

    @Test("The walk over many batches misses nothing and takes nothing twice, due times equal or not")
    func cursor() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            await daemon.record((0..<450).map { .sample(purchase: "subs_\($0)") })
            try ledger.psql("UPDATE deliveries SET due_at = due_at - id % 5 * interval '1 microsecond'")
            daemon.open("all")
            let claimed = try await daemon.claimAll("all", step: 100)
            #expect(claimed.count == 450 && Set(claimed.map(\.id)).count == 450)
            #expect(try await daemon.claimAll("all").isEmpty)
        }
    }

    @Test("A lane full of reservations claims nothing, and says so without an end being reached")
    func noSlots() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")], slotsPerLane: 2)
            await daemon.record((0..<5).map { .sample(purchase: "subs_\($0)") })
            daemon.open("all")
            var cursor = ClaimCursor()
            let first = try await daemon.queue.claim(daemon.row("all"), upTo: 256, cursor: &cursor)
            #expect(first.deliveries.count == 2 && !first.isDrained)
            let second = try await daemon.queue.claim(daemon.row("all"), upTo: 256, cursor: &cursor)
            #expect(second.deliveries.isEmpty && !second.isDrained)
            daemon.dispatchBuffer.release(daemon.row("all"), 2)
            let third = try await daemon.queue.claim(daemon.row("all"), upTo: 256, cursor: &cursor)
            #expect(third.deliveries.map(\.id) == [first.deliveries[1].id + 1, first.deliveries[1].id + 2])
        }
    }

    @Test("A claim of a lane that was opened anew meanwhile leases nothing and takes none of the new opening's room")
    func formerOpening() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")], slotsPerLane: 8)
            await daemon.record([.sample()])
            let row = daemon.row("all")
            let former = daemon.dispatchBuffer.open(row) { _ in }
            daemon.dispatchBuffer.close(row)
            let present = daemon.dispatchBuffer.open(row) { _ in }
            var cursor = ClaimCursor()
            let late = try await daemon.queue.claim(row, in: former, upTo: 256, cursor: &cursor)
            #expect(late.deliveries.isEmpty && !late.isDrained)
            #expect(daemon.dispatchBuffer.reservedSlots(row) == 0)
            let next = try await daemon.queue.claim(row, in: present, upTo: 256, cursor: &cursor)
            #expect(next.deliveries.count == 1)
        }
    }

    @Test("A claim takes as many as fit in bytes, at least one, and leaves the rest as it was")
    func byBytes() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")], bytesPerLane: 10_000)
            let body = String(repeating: "x", count: 4_000)
            await daemon.record((0..<5).map { .sample(purchase: "subs_\($0)", body: body) })
            daemon.open("all")
            var cursor = ClaimCursor()
            var claimed: [[Int64]] = []
            while true {
                let (deliveries, isDrained) = try await daemon.queue.claim(
                    daemon.row("all"), upTo: 256, cursor: &cursor)
                claimed.append(deliveries.map(\.id))
                #expect(
                    try ledger.psql("SELECT count(*) FROM deliveries WHERE leased_by IS NOT NULL")
                        == "\(claimed.joined().count)")
                let bytes = deliveries.reduce(0) { $0 + $1.message.bytes }
                #expect(bytes <= 10_000)
                daemon.dispatchBuffer.release(daemon.row("all"), deliveries.count, bytes: bytes)
                if isDrained || deliveries.isEmpty { break }
            }
            #expect(claimed.map(\.count) == [2, 2, 1])
            #expect(claimed.flatMap(\.self) == claimed.flatMap(\.self).sorted())
        }
    }

    @Test("Successors that are unblocked at once have equal shares of bytes; a larger one is left to a claim")
    func successorsByBytes() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            let large = String(repeating: "x", count: 8_000)
            await daemon.record(
                (0..<4).flatMap { number -> [Event] in
                    let purchase = "subs_\(number)"
                    return [
                        .sample("HEAD", purchase: purchase),
                        .sample("NEXT_\(number)", purchase: purchase, body: number == 2 ? large : nil),
                    ]
                })
            let heads = daemon.inbox.take()
            #expect(heads.map(\.message.type) == ["HEAD", "HEAD", "HEAD", "HEAD"])
            try ledger.psql("DELETE FROM deliveries WHERE NOT blocked")
            let keys = try heads.map { head in
                FanOut.OrderingKey(purchase: try #require(head.message.purchase), integration: head.integration)
            }
            let (dispatchBuffer, lease) = (daemon.dispatchBuffer, daemon.lease)
            let unblocked = try await daemon.pool.withSession { session throws(DatabaseError) in
                try Successors(dispatchBuffer: dispatchBuffer, bytesMax: 16_000)
                    .unblock(keys, leasedBy: lease, on: session)
            }
            #expect(unblocked.map(\.message.type).sorted() == ["NEXT_0", "NEXT_1", "NEXT_3"])
            #expect(
                try ledger.psql("SELECT blocked, leased_by IS NULL, count(*) FROM deliveries GROUP BY 1, 2 ORDER BY 2")
                    == "f|f|3\nf|t|1")
            #expect(try await daemon.claimAll("all").map(\.message.type) == ["NEXT_2"])
        }
    }

    @Test("What a leaving daemon gives back is due anew: the walks of others may have passed its old place")
    func leaving() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record((0..<3).map { .sample(purchase: "subs_\($0)") })
            try ledger.psql("UPDATE deliveries SET due_at = due_at - interval '1 hour'")
            try await daemon.queue.leave()
            #expect(
                try ledger.psql("SELECT count(*) FROM deliveries WHERE leased_by IS NULL AND due_at >= created_at")
                    == "3")
        }
    }

    /// After a restore that it was not stopped for.
    @Test("A daemon that leaves ends no lease of another that has its number, nor what is leased under it")
    func leavingAnothersLease() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record((0..<3).map { .sample(purchase: "subs_\($0)") })
            try ledger.psql("UPDATE daemons SET key = gen_random_uuid()")
            try await daemon.queue.leave()
            #expect(try ledger.psql("SELECT count(*) FROM daemons") == "1")
            #expect(try ledger.psql("SELECT count(*) FROM deliveries WHERE leased_by IS NOT NULL") == "3")
        }
    }

    @Test("A message that cannot be read holds up no other one: it is put off and logged")
    func unreadable() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            await daemon.record((0..<9).map { .sample("E\($0)", purchase: "subs_\($0)") })
            daemon.open("all")
            // As a damaged page would: reading the third is an error.
            let columns = try ledger.psql(
                "SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute "
                    + "WHERE attrelid = 'purchases'::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'key'")
            try ledger.psql(
                """
                ALTER TABLE purchases RENAME TO undamaged;
                CREATE VIEW purchases AS SELECT \(columns),
                    CASE WHEN key = 'subs_2' THEN (1 / (length(key) - length(key)))::text ELSE key END AS key
                FROM undamaged
                """)
            let claimed = try await daemon.claimAll("all") + daemon.claimAll("all")
            #expect(Set(claimed.map(\.message.type)) == Set((0..<9).filter { $0 != 2 }.map { "E\($0)" }))
            let late = "SELECT count(*) FROM deliveries WHERE due_at >= created_at + interval '5 seconds'"
            #expect(try ledger.psql(late) == "1")
            #expect(daemon.log.warnings.first?.contains("is not delivered to all") == true)
            let other: Int64 = 4_711
            let delays = (0..<7).map { _ in daemon.dispatchBuffer.delayOfUnreadable(other) }
            #expect(delays == [5, 20, 80, 320, 1_280, 3_600, 3_600].map { .seconds($0) }, "it may pass, or last")
            try ledger.psql(
                """
                DROP VIEW purchases; ALTER TABLE undamaged RENAME TO purchases;
                UPDATE deliveries SET due_at = now() WHERE leased_by IS NULL
                """)
            #expect(try await daemon.claimAll("all").map(\.message.type) == ["E2"])
        }
    }

    /// An attempt of number 0 would end the daemon, and each one after it.
    @Test("A damaged count of attempts, below zero, counts as none, of what is claimed and of what is unblocked")
    func attemptsBelowZero() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            await daemon.record([.sample("A"), .sample("B")])
            try ledger.psql("UPDATE deliveries SET attempts = -1")
            daemon.open("all")
            let claimed = try await daemon.claimAll("all")
            #expect(claimed.map(\.message.type) == ["A"] && claimed.map(\.attemptsMade) == [0])
            let next = try await daemon.queue.settle(claimed.map { $0.settled(.accepted) }).unblocked
            #expect(next.map(\.message.type) == ["B"] && next.map(\.attemptsMade) == [0])
            _ = try await daemon.queue.settle(next.map { $0.settled(.retry(after: .zero), status: 500) })
            #expect(try ledger.psql("SELECT attempts FROM deliveries") == "1")
        }
    }

    @Test("Two daemons at one lane share it out, and neither waits for the other's locks")
    func skipLocked() async throws {
        try await TestLedger.run { ledger in
            let left = try await ledger.daemon([.named("all")])
            let right = try await ledger.daemon([.named("all")])
            await left.record((0..<400).map { .sample(purchase: "subs_\($0)") })
            left.open("all")
            right.open("all")
            async let one = left.claimAll("all", step: 20)
            async let other = right.claimAll("all", step: 20)
            let (mine, yours) = try await (one.map(\.id), other.map(\.id))
            #expect(Set(mine).isDisjoint(with: yours) && mine.count + yours.count <= 400)
            // What one held in its hands for a moment is left to the next walk.
            let rest = try await left.claimAll("all").map(\.id)
            #expect(Set(mine + yours + rest).count == 400)

            try ledger.psql("UPDATE deliveries SET leased_by = NULL")
            right.dispatchBuffer.dropAll()
            let blocker = try await ledger.connect()
            let lowest = Int64(try ledger.psql("SELECT min(id) FROM deliveries")) ?? 0
            let gate = Gate()
            async let holding: Void = blocker.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    try session.script("SELECT FROM deliveries WHERE id = \(lowest) FOR UPDATE")
                    gate.open()
                    gate.waitForClose()
                }
            }
            await gate.opened()
            let around = try await right.claimAll("all")
            #expect(around.count == 399 && !around.map(\.id).contains(lowest))
            gate.close()
            try await holding
            await blocker.close()
            #expect(try await right.claimAll("all").map(\.id) == [lowest])
        }
    }

    @Test("Accepted, retry, dead and paused, in the tables")
    func outcomes() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all"), .named("gone")])
            daemon.open("all", "gone")
            await daemon.record((0..<4).map { .sample("EVENT_\($0)", purchase: "subs_\($0)") })
            let deliveries = daemon.inbox.take().filter { $0.integration == daemon.row("all") }
            let settled = try await daemon.queue.settle([
                deliveries[0].settled(.accepted, status: 204),
                deliveries[1].settled(.retry(after: .seconds(3_000)), status: 500, failure: "answered 500"),
                deliveries[2].settled(
                    .dead(reason: "answered 400, which is permanent"), status: 400,
                    failure: "answered 400, which is permanent: no such user"),
                deliveries[3].settled(.paused(reason: "answered 410"), status: 410, failure: "answered 410"),
            ])
            #expect(settled.unblocked.isEmpty && settled.paused.map(\.integration) == [daemon.row("all")])
            #expect(
                try ledger.psql(
                    "SELECT attempt, outcome, http_status, latency_ms, failure FROM attempts ORDER BY delivery") == """
                        1|accepted|204|12|
                        1|retry|500|12|answered 500
                        1|dead|400|12|answered 400, which is permanent: no such user
                        1|paused|410|12|answered 410
                        """)
            #expect(
                try ledger.psql(
                    """
                    SELECT m.type, d.attempts, d.leased_by IS NULL, round(extract(epoch FROM d.due_at - now()) / 1e3)
                    FROM deliveries d JOIN messages m ON m.id = d.message WHERE integration = \(daemon.row("all"))
                    ORDER BY 1
                    """) == "EVENT_1|1|t|3\nEVENT_3|0|t|0")
            #expect(
                try ledger.psql(
                    """
                    SELECT m.type, l.attempts, l.reason, l.http_status, l.purchase = v.purchase, l.created_at = m.created_at
                    FROM dead_letters l JOIN messages m ON m.id = l.message JOIN events v ON v.id = m.event
                    """
                ).hasPrefix("EVENT_2|1|answered 400, which is permanent: no such user|400|t|"))
            #expect(try await daemon.queue.pauses() == [daemon.row("all"): "answered 410"])
            #expect(daemon.dispatchBuffer.heldCount == 4, "the other lane's four are still under way")
            // Logged once: the second 410 pauses nothing anew.
            let again = try await daemon.queue.settle([
                deliveries[3].settled(.paused(reason: "answered 410"), status: 410)
            ])
            #expect(again.paused.isEmpty)
        }
    }

    @Test("A 410 under a lease that was lost pauses nothing; the attempt is history")
    func goneUnderALostLease() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record([.sample()])
            let delivery = try #require(daemon.inbox.take().first)
            try ledger.psql("UPDATE deliveries SET leased_by = 999")
            let settled = try await daemon.queue.settle([
                delivery.settled(.paused(reason: "answered 410"), status: 410, failure: "answered 410")
            ])
            #expect(settled.paused.isEmpty)
            #expect(try await daemon.queue.pauses() == [:])
            #expect(try ledger.psql("SELECT outcome, http_status FROM attempts") == "paused|410")
            #expect(try ledger.psql("SELECT leased_by, attempts FROM deliveries") == "999|0")
        }
    }

    @Test("Pausing and resuming by hand")
    func pauses() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all"), .named("other")])
            func change(_ name: String, _ isPaused: Bool) async throws -> String {
                switch try await Pauses.set(name, isPaused: isPaused, routes: [], in: daemon.pool) {
                case .changed: "changed"
                case .unchanged: "unchanged"
                case .unknown: "unknown"
                }
            }
            #expect(try await change("all", true) == "changed")
            #expect(try await change("all", true) == "unchanged")
            #expect(try await daemon.queue.pauses() == [daemon.row("all"): "paused by hand"])
            #expect(try await change("all", false) == "changed")
            #expect(try await change("all", false) == "unchanged")
            #expect(try await daemon.queue.pauses() == [:])
            #expect(try await change("nobody", true) == "unknown")
        }
    }

    @Test("An integration that the database has lost is back under its number; one that cannot be is named")
    func lostIntegration() async throws {
        try await TestLedger.run { ledger in
            let integrations = [Integration.named("all"), .named("crm")]
            let (one, two) = (try await ledger.daemon(integrations), try await ledger.daemon(integrations))
            let rows = "SELECT id, name FROM integrations ORDER BY id"
            let before = try ledger.psql(rows)
            #expect(try await one.queue.keepIntegrations() == [])
            try ledger.psql("DELETE FROM integrations WHERE name = 'crm'")
            async let first = one.queue.keepIntegrations()
            async let second = two.queue.keepIntegrations()
            let lost = try await [first, second]
            #expect(lost == [[], []])
            #expect(try ledger.psql(rows) == before)
            #expect(one.log.warnings.count + two.log.warnings.count == 1)

            try ledger.psql("UPDATE integrations SET name = 'other' WHERE name = 'crm'")
            #expect(try await one.queue.keepIntegrations() == ["crm"], "its number is another's")
            try ledger.psql("DELETE FROM integrations WHERE name = 'other'")
            try ledger.psql("INSERT INTO integrations (name) VALUES ('crm')")
            #expect(try await one.queue.keepIntegrations() == ["crm"], "it has another number")
            #expect(try ledger.psql("SELECT count(*) FROM integrations") == "2")
        }
    }

    @Test("The number of an integration that was put back is drawn for no other; where it is drawn, another one is")
    func numbersOfLostIntegrations() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all"), .named("crm")])
            let number = daemon.row("crm")
            // As a promotion loses them together.
            let restart = "ALTER TABLE integrations ALTER id RESTART WITH \(number)"
            try ledger.psql("DELETE FROM integrations WHERE name = 'crm'; \(restart)")
            #expect(try await daemon.queue.keepIntegrations() == [])
            let added = try await daemon.queue.insert(["all", "crm", "third"].map { .named($0) })
            #expect(added[0].row == daemon.row("all") && added[1].row == number)
            #expect(Set(added.map(\.row)).count == 3)
        }
    }
}
