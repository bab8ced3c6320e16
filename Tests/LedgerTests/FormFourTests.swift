import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// The switch from keys and ids that are hashes to those that begin with a time. Oracles: psql, and a ledger that was
/// never switched.
@Suite("The switch to timed keys", .serialized, .timeLimit(.minutes(30)))
struct FormFourTests {
    private static func webhook(
        _ name: String, _ purchase: String, holder: Holder = user, at: Int64, id: String? = nil, fact: Fact? = nil
    ) -> Event {
        .sample(
            name, holder: holder, at: seconds(at), purchase: purchase, transaction: "t-\(purchase)-\(at)",
            vendorEventID: id, isTimeRepeated: id != nil, fact: fact)
    }

    private func keys(_ ledger: TestLedger) throws -> String {
        try ledger.psql("SELECT string_agg(left(key::text, 2), ' ' ORDER BY event) FROM identities")
    }

    @Test("An event is known by either key, whichever it was stored under and whoever repeats it")
    func repeated() async throws {
        try await TestLedger.run { ledger in
            try ledger.writeWithoutTimedKeys()
            let early = Self.webhook("EARLY", "a", at: 1, id: "e1")
            let unnamed = Self.webhook("UNNAMED", "a", at: 2)
            let late = Self.webhook("LATE", "b", at: 3, id: "e2")
            let (one, two) = (try await ledger.daemon(), try await ledger.daemon())
            await one.record([early, unnamed])
            try ledger.switchToTimedKeys()
            #expect(try await one.registration.renew())
            await one.record([early, late, unnamed, early])
            #expect(one.log.recorded(duplicate: true).count == 3)
            // Has not heard of the switch.
            #expect(two.registration.ledgerForm == .keylessMessages)
            await two.record([late, early, unnamed, late])
            #expect(two.log.recorded(duplicate: true).count == 4 && two.log.recorded(duplicate: false).isEmpty)
            #expect(two.registration.ledgerForm == .timedKeys)
            #expect(try ledger.psql("SELECT string_agg(name, ' ' ORDER BY id) FROM events") == "EARLY UNNAMED LATE")
            #expect(try keys(ledger).hasSuffix(" 00"))
            // With other bytes, in the key's other form.
            let other = Event.sample(
                "EARLY", at: seconds(1), purchase: "a", transaction: "t-a-1", vendorEventID: "e1", isTimeRepeated: true,
                body: "{}")
            await two.record([other, other])
            #expect(try ledger.psql("SELECT count(*) FROM identities WHERE differs") == "1")
        }
    }

    @Test("A purchase of either form is one purchase, and its transfers have the ids that they would have had")
    func purchases() async throws {
        let facts: [[Event]] = (0..<4).map { number in
            let purchase = "p\(number)"
            let until = seconds(1_000_000)
            return [
                Self.webhook(
                    "ACTIVATE", purchase, holder: anonymous, at: 10,
                    fact: .activate(anonymous, seconds(10), until: until)),
                Self.webhook(
                    "DEACTIVATE", purchase, holder: anonymous, at: 20,
                    fact: .deactivate(anonymous, seconds(20), until: until)),
                Self.webhook("ACTIVATE", purchase, at: 20, fact: .activate(user, seconds(20), until: until)),
                Self.webhook(
                    "DEACTIVATE", purchase, at: 30, fact: .deactivate(user, seconds(30), until: until)),
                Self.webhook(
                    "ACTIVATE", purchase, holder: otherUser, at: 30,
                    fact: .activate(otherUser, seconds(30), until: until)),
            ]
        }
        var found: [String] = []
        for isSwitched in [false, true] {
            try await TestLedger.run { ledger in
                if isSwitched { try ledger.writeWithoutTimedKeys() }
                let daemon = try await ledger.daemon([.named("all", order: .purchase)])
                // Of each purchase another part comes before the switch.
                for (number, facts) in facts.enumerated() { await daemon.record(Array(facts[..<(number + 1)])) }
                if isSwitched {
                    try ledger.switchToTimedKeys()
                    #expect(try await daemon.registration.renew())
                }
                for (number, facts) in facts.enumerated() { await daemon.record(Array(facts[(number + 1)...])) }
                await daemon.record(facts.flatMap { $0 })
                await daemon.record([Self.webhook("NEW", "new", at: 1)])
                found.append(
                    try ledger.psql(
                        """
                        SELECT p.key, t.id, t.ordinal, t.from_holder, t.to_holder
                        FROM transfers t JOIN purchases p ON p.id = t.purchase ORDER BY 1, t.event, 2;
                        SELECT p.key, e.holder, e.active, e.as_of_ms FROM \(TestLedger.access) e
                        JOIN purchases p ON p.id = e.purchase ORDER BY 1, 2;
                        SELECT count(*), count(DISTINCT purchase), count(*) FILTER (WHERE blocked) FROM deliveries;
                        SELECT count(*) FROM messages WHERE transfer IS NOT NULL;
                        SELECT count(*) FROM events;
                        SELECT p.key, count(*) FROM transactions t JOIN purchases p ON p.id = t.purchase
                        GROUP BY 1 ORDER BY 1
                        """))
                #expect(try ledger.psql("SELECT count(*) FROM purchases") == "5")
                let form = "SELECT count(*) FROM purchases WHERE hash IS NOT NULL AND left(id::text, 2) = '00'"
                #expect(try ledger.psql(form) == (isSwitched ? "1" : "5"))
            }
        }
        #expect(found[0] == found[1])
        // Two transfers of each purchase, each announced to both sides.
        #expect(found[0].split(separator: "\n").contains("16"))
    }

    @Test("A version before cannot record what it would not find again, and nothing without the unique indexes")
    func fence() async throws {
        try await TestLedger.run { ledger in
            // What versions before send.
            let before = """
                INSERT INTO identities (key, body_digest, event)
                VALUES (gen_random_uuid(), gen_random_uuid(), nextval('event_ids')) ON CONFLICT (key) DO NOTHING
                """
            let refusal = #expect(throws: (any Error).self) { try ledger.psql(before) }
            #expect("\(refusal as Any)".contains("no unique or exclusion constraint matching the ON CONFLICT"))
            for index in ["identities_key", "purchases_hash"] {
                try ledger.psql("ALTER INDEX \(index) RENAME TO set_aside")
                let daemon = try await ledger.daemon()
                #expect(await daemon.recordOnce([.event(.sample())]) == [.unavailable])
                try ledger.psql("ALTER INDEX set_aside RENAME TO \(index)")
                #expect(try await daemon.registration.renew())
                #expect(await daemon.record([.sample()]) == [.stored])
            }
            #expect(try ledger.psql("SELECT count(*) FROM events") == "1")
            // Whatever it is called, such a constraint opens the ledger to versions before.
            try ledger.psql("ALTER TABLE identities ADD CONSTRAINT by_hand UNIQUE (key)")
            #expect(try await ledger.daemon().registration.ledgerForm == .keylessMessages)
            try ledger.psql(before)
        }
    }

    @Test("An event is found by the vendor's id, whatever its time and the form of its key")
    func vendorIDs() async throws {
        try await TestLedger.run { ledger in
            try ledger.writeWithoutTimedKeys()
            let daemon = try await ledger.daemon()
            await daemon.record([Self.webhook("OLD", "a", at: 1, id: "old")])
            try ledger.switchToTimedKeys()
            #expect(try await daemon.registration.renew())
            let times: [Int64] = [0, 1, 1_100, 86_400, 4_000_000_000]
            await daemon.record(times.map { Self.webhook("NEW", "a", at: $0, id: "new-\($0)") })
            await daemon.record([.sample("PLAIN", at: seconds(5), vendorEventID: "plain")])
            for id in ["old", "plain"] + times.map({ "new-\($0)" }) {
                let rows = try await daemon.pool.withSession { session throws(DatabaseError) in
                    try session.run(
                        EventHandleStatements.byEventHash, [KeyHash.eventHash(.sample(vendorEventID: id))])
                }
                let wanted = try ledger.psql("SELECT id FROM events WHERE vendor_event_id = '\(id)'")
                #expect(rows.map { String($0) } == [wanted], "\(id)")
                let trace = try await Trace.read(EventHandle(.event, id), from: daemon.pool)
                #expect(trace?.webhooks.map(\.eventID) == [id])
            }
        }
    }

    @Test("What was erased in one form is not recorded again in the other")
    func erased() async throws {
        try await TestLedger.run { ledger in
            try ledger.writeWithoutTimedKeys()
            let daemon = try await ledger.daemon()
            let event = Self.webhook("GONE", "a", holder: otherUser, at: 1, id: "gone")
            await daemon.record([event])
            let erasure = try await Erasure.start(otherUser, source: nil, isDry: false, in: daemon.pool)
            _ = try await erasure.run(in: daemon.pool) { _ in }
            try ledger.switchToTimedKeys()
            #expect(try await daemon.registration.renew())
            #expect(await daemon.record([event]) == [.stored])
            #expect(try ledger.psql("SELECT count(*) FROM events WHERE name = 'GONE'") == "0")
        }
    }

    @Test("Two batches that create a purchase in two steps of time create one", arguments: [1, 1_000])
    func created(copiedEventsMin: Int) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon(copiedEventsMin: copiedEventsMin)
            await daemon.record([Self.webhook("OTHER", "b", at: 1)])
            let event = Self.webhook("ACTIVATE", "a", at: 2, fact: .activate(user, seconds(2)))
            let hash = KeyHash.purchase(try #require(event.purchase), in: event.scope).hex
            _ = try await ledger.holding { session throws(DatabaseError) in
                try session.script(
                    """
                    INSERT INTO purchases (id, hash, source, app, environment, store, key, kind, as_of_ms, state)
                    SELECT '00000001000000000000000000000000', '\(hash)', source, app, environment, store, 'a',
                        kind, 0, state
                    FROM purchases
                    """)
            } _: {
                await daemon.record([event])
            }
            #expect(
                try ledger.psql("SELECT id FROM purchases WHERE key = 'a'") == "00000001-0000-0000-0000-000000000000")
            let joined = """
                SELECT count(*) FROM events e JOIN purchases p ON p.id = e.purchase
                JOIN entitlements t ON t.purchase = p.id JOIN transactions x ON x.purchase = p.id
                WHERE p.key = 'a' AND t.active
                """
            #expect(try ledger.psql(joined) == "1")
        }
    }

    @Test("A ledger with timed keys that is taken for one without records nothing twice and creates nothing anew")
    func mistaken() async throws {
        try await TestLedger.run { ledger in
            let first = try await ledger.daemon()
            let (old, new) = (Self.webhook("OLD", "a", at: 1, id: "e1"), Self.webhook("NEW", "a", at: 2, id: "e2"))
            await first.record([old])
            try ledger.psql("ALTER TABLE identities ADD PRIMARY KEY (key)")
            let second = try await ledger.daemon()
            #expect(second.registration.ledgerForm == .keylessMessages)
            #expect(await second.record([old]) == [.stored])
            #expect(second.log.recorded(duplicate: true).count == 1)
            #expect(await second.recordOnce([.event(new)]) == [.unavailable])
            #expect(try ledger.psql("SELECT count(*) FROM events") == "1")
            #expect(try ledger.psql("SELECT count(*) FROM purchases") == "1")
        }
    }

    @Test("New purchases get ids that rise with the database's time")
    func rising() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record((0..<20).map { Self.webhook("NEW", "p\($0)", at: $0) })
            let now = try ledger.psql("SELECT left(id::text, 8) FROM purchases GROUP BY 1")
            let step = try ledger.psql(
                """
                SELECT lpad(to_hex((extract(epoch FROM received_at) * 1000)::bigint >> 20), 8, '0')
                FROM events GROUP BY 1
                """)
            #expect(now == step)
            let rest = """
                SELECT count(*) FROM purchases
                WHERE substr(replace(id::text, '-', ''), 9) = left(replace(hash::text, '-', ''), 24)
                """
            #expect(try ledger.psql(rest) == "20")
        }
    }
}
