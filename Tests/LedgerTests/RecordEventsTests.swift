import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: what psql finds in the tables, and the sources' answers.
@Suite("Recording: what one batch writes", .serialized)
struct RecordEventsTests {
    @Test("New, again in the same batch, again later: one row, one message, always 200")
    func duplicates() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let event = Event.sample()
            #expect(await daemon.record([event, event, event]) == [.stored, .stored, .stored])
            #expect(await daemon.record([event]) == [.stored])
            #expect(daemon.log.recorded(duplicate: false).count == 1)
            #expect(daemon.log.recorded(duplicate: true).count == 3)
            let counts =
                "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM messages), count(*) FROM deliveries"
            #expect(try ledger.psql(counts) == "1|1|1")
            let trail = try #require(daemon.log.recorded(duplicate: false).first)
            #expect(trail.messages == 1 && trail.deliveries == 1 && trail.source == "shop")
            #expect(trail.event == KeyHash.event(event).eventID)
        }
    }

    @Test("A vendor's event id is the event key; without one the parts are")
    func identities() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([
                .sample(vendorEventID: "e1"), .sample("OTHER", vendorEventID: "e1"), .sample(vendorEventID: "e2"),
                .sample(), .sample(at: seconds(1)), .sample("OTHER"), .sample(holder: otherUser),
                .sample(purchase: "subs_2"), .sample(transaction: "tx_2"), .sample(environment: "SANDBOX"),
                .sample(app: "app.two"), .sample(source: "kiosk"),
            ])
            #expect(try ledger.psql("SELECT count(*) FROM events") == "11")
        }
    }

    @Test("The same event key with other bytes is a duplicate, reported once and never again")
    func differing() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let event = Event.sample(vendorEventID: "e1", body: "one")
            let other = Event.sample(vendorEventID: "e1", body: "two")
            await daemon.record([event, event, other, other])
            #expect(daemon.log.differing.count == 1)
            await daemon.record([other])
            await daemon.record([.sample(vendorEventID: "e1", body: "three"), event])
            #expect(daemon.log.differing.count == 1)
            #expect(try ledger.psql("SELECT convert_from(body, 'UTF8') FROM events") == "one")
            // Found in a later batch, among equal ones: the one that differs is the one that is named.
            let late = Event.sample(transaction: "tx_9", vendorEventID: "e9", body: "nine")
            await daemon.record([late])
            await daemon.record([late, .sample(transaction: "tx_9b", vendorEventID: "e9", body: "ten"), late])
            #expect(daemon.log.differing.map(\.transaction) == ["tx_1", "tx_9b"])
        }
    }

    @Test("Bodies are kept byte for byte, whatever they are")
    func bytes() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let body = (0...255).map { UInt8($0) } + [0, 0]
            let event = Event.sample()
            await daemon.record([
                Event(
                    scope: event.scope, vendorEventID: nil, name: "X", type: "X", holder: user, occurredAt: seconds(0),
                    purchase: nil, transaction: nil, body: body)
            ])
            #expect(try ledger.psql("SELECT encode(body, 'hex') FROM events") == Identifier.hex(of: body))
        }
    }

    @Test("Two purchases on one transaction id both survive, and transfer apart")
    func sharedTransaction() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let events =
                login.map { Event.stating($0, purchase: "subs_1") }
                + login.map { Event.stating($0, purchase: "otp_1", kind: .oneTime) }
            #expect(await daemon.record(events).allSatisfy { $0 == .stored })
            #expect(try ledger.psql("SELECT count(*) FROM events") == "6")
            #expect(
                try ledger.psql(
                    "SELECT p.key, p.kind FROM transactions t JOIN purchases p ON p.id = t.purchase ORDER BY 1")
                    == "otp_1|one_time\nsubs_1|subscription")
            // Invariant I3: the one-time purchase never moves by the relay's own resolution.
            #expect(
                try ledger.psql("SELECT p.key FROM transfers t JOIN purchases p ON p.id = t.purchase") == "subs_1")
        }
    }

    @Test("A webhook's own message says what the webhook says of money, those of a derived transfer nothing")
    func money() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            await daemon.record(login.map { Event.stating($0, money: #"{"amount":"9.99"}"#) })
            let said = try ledger.psql(
                """
                SELECT type, (convert_from(envelope, 'UTF8') || 'null}}')::json -> 'data' -> 'money' ->> 'amount'
                FROM messages ORDER BY id
                """)
            let own = "ACTIVATE|9.99\nDEACTIVATE|9.99\nACTIVATE|9.99"
            #expect(said == own + "\nSUBSCRIPTION_TRANSFERRED|\nSUBSCRIPTION_RECEIVED|")
        }
    }

    @Test("Environments, apps and sources never touch (I4)")
    func scopes() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            // Each scope has one half of a transfer.
            await daemon.record([
                .stating(login[0], environment: "PRODUCTION"), .stating(login[2], environment: "SANDBOX"),
                .stating(login[0], app: "app.two"), .stating(login[2], app: "app.three"),
                .stating(login[0], source: "kiosk"), .stating(login[2], source: "stall"),
            ])
            #expect(try ledger.psql("SELECT count(*), count(DISTINCT id) FROM purchases") == "6|6")
            #expect(try ledger.psql("SELECT count(*) FROM transfers") == "0")
            #expect(try ledger.psql("SELECT count(*) FROM entitlements WHERE active") == "6")
        }
    }

    @Test("A transfer: entitlements, its row, its two messages, the link it teaches, and what later events say of it")
    func transfer() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record(login.map { Event.stating($0) })
            #expect(
                try ledger.psql("SELECT holder, active FROM entitlements ORDER BY active")
                    == "\(anonymous.storageKey)|f\nuser:jeff|t")
            #expect(
                try ledger.psql("SELECT from_holder, to_holder, ordinal FROM transfers")
                    == "\(anonymous.storageKey)|user:jeff|1")
            #expect(try ledger.psql("SELECT anonymous_user_id, user_id FROM holder_links") == "\(anonymous.id)|jeff")
            let announced = try #require(daemon.log.transfers.first)
            #expect(daemon.log.transfers.count == 1 && announced.from == anonymous && announced.to == user)

            let types = try ledger.psql("SELECT type, transfer IS NOT NULL FROM messages ORDER BY id")
            #expect(
                types == "ACTIVATE|f\nDEACTIVATE|f\nACTIVATE|f\nSUBSCRIPTION_TRANSFERRED|t\nSUBSCRIPTION_RECEIVED|t")
            let envelope = "SELECT convert_from(envelope, 'UTF8') FROM messages WHERE type = 'SUBSCRIPTION_TRANSFERRED'"
            #expect(
                try ledger.psql(envelope).contains(
                    #""id":"\#(announced.transfer ?? "?")","from":{"anonymous_user_id":"#)
            )
            #expect(
                try ledger.psql(
                    "SELECT convert_from(derived_body, 'UTF8') FROM messages WHERE type = 'SUBSCRIPTION_RECEIVED'"
                ).hasPrefix(#"["SUBSCRIPTION_RECEIVED","\#(anonymous.id)","jeff","evt_"#))

            // I5: an event that still carries the anonymous id names the user; in another scope it does not.
            await daemon.record([
                .sample("LATE", holder: anonymous, at: seconds(500)),
                .sample("ELSEWHERE", holder: anonymous, at: seconds(500), environment: "SANDBOX"),
            ])
            let resolved = try ledger.psql(
                """
                SELECT type, (convert_from(envelope, 'UTF8') || 'null}}')::json -> 'data' ->> 'resolved_user_id'
                FROM messages WHERE type IN ('LATE', 'ELSEWHERE') ORDER BY id
                """)
            #expect(resolved == "LATE|jeff\nELSEWHERE|")
        }
    }

    @Test("A native transfer webhook is its own message; one that announces nothing new is stored and none")
    func native() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let until = seconds(10_000)
            await daemon.record([
                .stating(login[0]), .stating(.transferred(anonymous, to: user, seconds(100), until: until)),
                .stating(.received(user, from: anonymous, seconds(100), until: until)), .stating(login[1]),
                .stating(login[2]),
            ])
            #expect(try ledger.psql("SELECT count(*) FROM transfers") == "1")
            #expect(
                try ledger.psql(
                    "SELECT type, derived_body IS NULL FROM messages WHERE transfer IS NOT NULL ORDER BY id")
                    == "SUBSCRIPTION_TRANSFERRED|t\nSUBSCRIPTION_RECEIVED|f")
            #expect(try ledger.psql("SELECT count(*) FROM events") == "5")
            #expect(try ledger.psql("SELECT count(*) FROM messages") == "5")
            #expect(daemon.log.recorded(duplicate: false).map(\.messages).sorted() == [0, 1, 1, 1, 2])
        }
    }

    @Test("The transaction's row follows event time, not arrival")
    func restated() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([.sample("B", at: seconds(20), status: "newer", product: "gold")])
            await daemon.record([.sample("A", at: seconds(10), status: "older", product: "tin")])
            let rows = "SELECT status, as_of_ms - \(seconds(0).milliseconds), product FROM transactions, purchases"
                .replacing("as_of_ms", with: "transactions.as_of_ms")
            #expect(try ledger.psql(rows) == "newer|20000|gold")
            await daemon.record([
                .sample("C", at: seconds(30), status: "newest", product: "iron"), .sample("A2", at: seconds(5)),
            ])
            #expect(try ledger.psql(rows) == "newest|30000|iron")
        }
    }

    @Test(
        "Message ids are stable: a webhook that comes again after its event key was pruned is announced and sent only once"
    )
    func stableIDs() async throws {
        var keys: [String] = []
        for _ in 0..<2 {
            try await TestLedger.run { ledger in
                let daemon = try await ledger.daemon([.named("all")])
                await daemon.record(login.map { Event.stating($0) })
                let messages = "SELECT string_agg(key::text, ' ' ORDER BY key) FROM messages"
                keys.append(try ledger.psql(messages))
                try ledger.psql("DELETE FROM identities")
                let answers = await daemon.record(login.map { Event.stating($0) })
                #expect(answers == [.stored, .stored, .stored])
                #expect(try ledger.psql(messages) == keys.last)
                #expect(try ledger.psql("SELECT count(*) FROM deliveries") == "5")
                #expect(try ledger.psql("SELECT count(*) FROM transfers") == "1")
            }
        }
        #expect(keys[0] == keys[1])
    }

    @Test("Deliveries: one for each integration that selects it; of a purchase in order only the first is not blocked")
    func deliveries() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([
                .named("ordered"), .named("loose", order: .none), .named("renewals", events: ["REN*"]),
                .named("sandbox", environments: ["SANDBOX"]), .named("kiosk", sources: ["kiosk"]),
            ])
            await daemon.record([.sample("RENEWED"), .sample("CANCELLED"), .sample("OTHER", purchase: nil)])
            let rows = try ledger.psql(
                """
                SELECT m.type, i.name, d.blocked, d.leased_by IS NULL FROM deliveries d
                JOIN messages m ON m.id = d.message JOIN integrations i ON i.id = d.integration ORDER BY 1, 2
                """)
            #expect(
                rows == """
                    CANCELLED|loose|f|t
                    CANCELLED|ordered|t|t
                    OTHER|loose|f|t
                    OTHER|ordered|f|t
                    RENEWED|loose|f|t
                    RENEWED|ordered|f|t
                    RENEWED|renewals|f|t
                    """)
            await daemon.record([.sample("AGAIN")])
            #expect(
                try ledger.psql(
                    """
                    SELECT d.blocked FROM deliveries d JOIN messages m ON m.id = d.message WHERE m.type = 'AGAIN'
                    ORDER BY d.blocked DESC
                    """) == "t\nf")
        }
    }

    @Test("An open lane gets its deliveries in memory, leased, up to its slots; the rest waits in the table")
    func dispatched() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")], slotsPerLane: 3)
            daemon.open("all")
            await daemon.record((0..<5).map { .sample(purchase: "subs_\($0)") })
            let handed = daemon.inbox.take()
            #expect(handed.count == 3 && daemon.dispatchBuffer.heldCount == 3)
            #expect(
                try ledger.psql(
                    "SELECT string_agg(id::text, ',' ORDER BY id) FROM deliveries WHERE leased_by = \(daemon.lease)")
                    == handed.map { "\($0.id)" }.joined(separator: ","))
            #expect(try ledger.psql("SELECT count(*) FROM deliveries WHERE leased_by IS NULL AND NOT blocked") == "2")
            let first = try #require(handed.first)
            #expect(first.attemptsMade == 0 && first.message.type == "RENEWED" && first.message.purchaseKey == "subs_0")
            let created = Int64(
                try ledger.psql("SELECT (extract(epoch FROM min(created_at)) * 1000)::bigint FROM deliveries"))
            #expect(first.createdAt.milliseconds == created)
        }
    }
}
