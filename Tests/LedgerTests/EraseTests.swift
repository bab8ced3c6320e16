import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL, which searches every text and bytea column of every table for the ids, whatever it may hold.
@Suite("Erasing a person", .serialized)
struct EraseTests {
    private static let jeff = Holder.user("jeff-9f3c")
    private static let device = Holder.anonymous("device-77aa")
    private static let ann = Holder.user("ann")
    private static let bob = Holder.user("bob")

    /// The columns in which either id is.
    private func places(_ ledger: TestLedger) throws -> Set<String> {
        let columns = try ledger.psql(
            """
            SELECT c.table_name || '.' || c.column_name || '.' || c.data_type FROM information_schema.columns c
            JOIN information_schema.tables t USING (table_schema, table_name)
            WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.data_type <> 'ARRAY'
              AND (c.data_type IN ('bytea', 'text', 'character varying', 'json', 'jsonb') OR c.data_type LIKE '%char%')
            """
        ).split(separator: "\n").map { $0.split(separator: ".").map(String.init) }
        #expect(columns.count > 40)
        let searches = columns.map { column in
            let text = column[2] == "bytea" ? "encode(\(column[1]), 'escape')" : "\(column[1])::text"
            let hits = [Self.jeff, Self.device].map { "\(text) LIKE '%\($0.id)%'" }.joined(separator: " OR ")
            return "SELECT '\(column[0]).\(column[1])' WHERE EXISTS (SELECT FROM \(column[0]) WHERE \(hits))"
        }
        return Set(try ledger.psql(searches.joined(separator: " UNION ALL ")).split(separator: "\n").map(String.init))
    }

    /// A life: a purchase of the person's own, one that went from ann by way of the person to bob, a move from ann to
    /// the person, and others who mention the person.
    private static let events: [Event] =
        [
            .activate(device, seconds(0), until: seconds(10_000)),
            .deactivate(device, seconds(100), until: seconds(10_000)),
            .activate(jeff, seconds(100), until: seconds(10_000)),
        ].map { .stating($0) }
        + [(ann, 0), (jeff, 100), (bob, 200)].map { holder, at in
            .stating(
                .activate(holder, seconds(Int64(at)), until: seconds(10_000)), purchase: "subs_2", transaction: "tx_2")
        } + [
            .sample(
                "NOTE", holder: bob, purchase: "subs_3", transaction: "tx_3",
                body: #"{"friend":"jeff-9f3c","text":"{\"friend\":\"device-77aa\"}","size":3}"#),
            .sample(
                "OWN", holder: jeff, purchase: nil, transaction: nil, vendorEventID: "vendor-1",
                body: #"{"user_id":"jeff-9f3c"}"#),
            Event(
                scope: Scope(source: "moving", app: "app.one", environment: "PRODUCTION"), vendorEventID: nil,
                name: "MOVED", type: "MOVED", holder: ann, occurredAt: seconds(300), purchase: nil, transaction: nil,
                change: .move(from: [ann], to: jeff, isNative: true), body: Array("{}".utf8)),
        ]

    private static let kept = QuarantinedBody(source: "shop", reason: "odd", body: Array("user=jeff-9f3c!".utf8))

    private func live(_ ledger: TestLedger) async throws -> Daemon {
        let daemon = try await ledger.daemon([
            .named("a"), .named("b", include: [.access]), .named("watch", events: ["posthouse.*"]),
        ])
        daemon.open("a")
        for event in Self.events { await daemon.record([event]) }
        await daemon.record([
            .quarantine(Self.kept),
            .quarantine(QuarantinedBody(source: "shop", reason: "odd", body: Array("jeff-9f3c7".utf8))),
        ])
        var round = 0
        while true {
            let taken = daemon.inbox.take()
            if taken.isEmpty { break }
            round += 1
            let settled = try await daemon.queue.settle(
                taken.enumerated().map { index, delivery in
                    switch (index + round) % 3 {
                    case 0: delivery.settled(.accepted)
                    case 1:
                        delivery.settled(
                            .dead(reason: "answered 400"), status: 400, failure: "answered 400: no jeff-9f3c here")
                    default: delivery.settled(.retry(after: .seconds(60)), status: 500, failure: "who is device-77aa?")
                    }
                })
            daemon.inbox.put(settled.unblocked)
        }
        // Those whose turn never comes in this test.
        try ledger.psql(
            """
            DELETE FROM quarantine WHERE body = 'jeff-9f3c7';
            UPDATE integrations SET paused_at = now(), pause_reason = 'gone: jeff-9f3c' WHERE name = 'b';
            INSERT INTO breakers (integration, reason, next_probe_at) VALUES (1, 'no device-77aa', now());
            INSERT INTO installs (source, app, environment, install) VALUES ('shared', '', 'PRODUCTION', 'device-77aa');
            INSERT INTO install_identities (source, app, environment, identity, install, event)
            VALUES ('shared', '', 'PRODUCTION', 'jeff-9f3c', 'device-77aa', 1)
            """)
        return daemon
    }

    private func erase(_ daemon: Daemon, isDry: Bool = false) async throws -> Erasure.Tally {
        let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: isDry, in: daemon.pool)
        #expect(erasure.holders == [Self.jeff, Self.device])
        return try await erasure.run(in: daemon.pool) { _ in }
    }

    @Test("Found in every place before, in none after; others keep what is theirs; late duplicates are duplicates")
    func everywhere() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await live(ledger)
            let before = try places(ledger)
            for place in [
                "events.holder", "events.body", "purchases.state", "purchases.access", "entitlements.holder",
                "transfers.from_holder", "transfers.to_holder", "holder_links.anonymous_user_id",
                "holder_links.user_id", "messages.envelope", "messages.derived_body", "messages.access",
                "attempts.failure",
                "dead_letters.reason", "quarantine.body",
                "holder_changes.target", "install_identities.identity", "install_identities.install",
                "installs.install", "integrations.pause_reason", "breakers.reason",
            ] { #expect(before.contains(place), "\(place)") }
            #expect(try ledger.psql("SELECT count(*) > 0 FROM events WHERE type = 'posthouse.integration.dead'") == "t")
            let dry = try await erase(daemon, isDry: true)
            #expect(try places(ledger) == before)
            let done = try await erase(daemon)
            #expect(try places(ledger) == [])
            #expect(done.inHand == 0 && done.quarantined == 1 && done.events == 5 && dry.events == 5)
            #expect(dry.messages == done.messages && dry.deliveries == done.deliveries && done.deliveries > 0)
            #expect(dry.purchases == done.purchases && done.purchases == 2 && dry.mentions == done.mentions)
            #expect(dry.records == done.records && done.records > 0)
            let proof = try await Erasure(
                ids: Erasure.start(Self.jeff, source: nil, isDry: true, in: daemon.pool).ids
                    + [ErasedID(holder: Self.device, standIn: .anonymous("x"))], source: nil, isDry: true
            ).run(in: daemon.pool) { _ in }
            #expect(proof.total == 0, "\(proof)")

            // Others keep what is theirs.
            #expect(
                try ledger.psql("SELECT string_agg(holder, ' ' ORDER BY id) FROM events WHERE source <> 'posthouse'")
                    == "user:ann user:bob user:bob user:ann")
            #expect(
                try ledger.psql("SELECT convert_from(body, 'UTF8') FROM events WHERE name = 'NOTE'")
                    == #"{"friend":"erased","text":"{\"friend\":\"erased\"}","size":3}"#)
            #expect(try ledger.psql("SELECT string_agg(key, ' ' ORDER BY key) FROM purchases") == "subs_2 subs_3")
            let active =
                "SELECT string_agg(p.key || ':' || holder, ' ') FROM entitlements JOIN purchases p ON p.id = purchase WHERE active"
            #expect(try ledger.psql(active) == "subs_2:user:bob")
            #expect(
                try ledger.psql("SELECT count(*) FROM deliveries WHERE message NOT IN (SELECT id FROM messages)") == "0"
            )
            #expect(
                try ledger.psql("SELECT count(*) FROM dead_letters WHERE message NOT IN (SELECT id FROM messages)")
                    == "0")

            // Late duplicates: nothing is stored, nothing is announced.
            let counts =
                "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM messages), (SELECT count(*) FROM quarantine)"
            let stored = try ledger.psql(counts)
            for event in Self.events { await daemon.record([event]) }
            #expect(await daemon.record([.quarantine(Self.kept)]).count == 1)
            #expect(daemon.log.recorded(duplicate: true).count == Self.events.count)
            #expect(try ledger.psql(counts) == stored)
            #expect(try places(ledger) == [])
            #expect(try ledger.psql("SELECT count(*) FROM erased_events") == "6")

            // Bob's purchase goes on, and nothing passes anew.
            let transfers = daemon.log.transfers.count
            await daemon.record([
                .stating(
                    .activate(Self.bob, seconds(5_000), until: seconds(20_000)), purchase: "subs_2", transaction: "tx_2"
                )
            ])
            #expect(daemon.log.transfers.count == transfers && daemon.log.warnings == [])
            #expect(try ledger.psql(active) == "subs_2:user:bob")
        }
    }

    @Test(
        "Erased, named again by a late webhook, erased again: the purchase stays readable",
        arguments: ["shop", "shared"])
    func twice(source: String) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            func record(_ holder: Holder, at: Int64) async {
                let fact = Fact.activate(holder, seconds(at), until: seconds(100_000))
                await daemon.record([
                    .stating(fact, purchase: "subs_2", transaction: "tx_2", source: source),
                    .stating(
                        .transferred(holder, to: Self.bob, seconds(at + 50), until: seconds(100_000)),
                        purchase: "subs_2", transaction: "tx_2", source: source),
                ])
            }
            for (round, holder) in [Self.jeff, Self.ann, Self.jeff].enumerated() {
                await record(holder, at: Int64(round) * 100)
                if holder == Self.ann { continue }
                let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool)
                _ = try await erasure.run(in: daemon.pool) { _ in }
                #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            }
            #expect(try places(ledger) == [])
            #expect(
                await daemon.record([
                    .stating(
                        .activate(Self.bob, seconds(5_000), until: seconds(100_000)), purchase: "subs_2",
                        transaction: "tx_2",
                        source: source)
                ]) == [.stored])
            let active = try ledger.psql(
                """
                SELECT string_agg(holder, ' ' ORDER BY holder) FROM entitlements
                WHERE active AND holder LIKE 'user:%'
                """)
            #expect(active == (source == "shared" ? "user:ann user:bob" : "user:bob"))
            #expect(daemon.log.warnings == [])
        }
    }

    @Test("Names that become one are merged: registers, facts, natives and pairs, in order, each once")
    func merged() throws {
        var dice = Dice(state: 71)
        let people = (0..<6).map { Holder.user("u\($0)") }
        for round in 0..<200 {
            let isShared = round % 2 == 1
            var state = PurchaseState()
            for step in 0..<Int.random(in: 1...40, using: &dice) {
                let at = seconds(Int64(step) * 1_000)
                let one = people[Int.random(in: 0..<6, using: &dice)]
                let two = people[Int.random(in: 0..<6, using: &dice)]
                let fact = dice.chance(50) ? Fact.activate(one, at) : .transferred(one, to: two, at)
                if isShared {
                    state = SharedOwnership.resolve(state, [fact]).state
                    let restore = HolderChangeRow.sample(
                        .transfer, "txn:t", to: two, at: at.advanced(byMilliseconds: 1))
                    state = SharedOwnership.apply(restore, to: state)?.state ?? state
                } else {
                    state = TransferResolution.resolve(state, fact, kind: .subscription).state
                }
            }
            let one = [0, 1, 2].map { ErasedID(holder: people[$0], standIn: .anonymous("erased-1")) }
            let renamed = state.renaming(one)
            #expect(try PurchaseState(bytes: renamed.bytes) == renamed)
            #expect(renamed.renaming(one) == renamed)
            #expect(renamed.holders.isDisjoint(with: people.prefix(3)))
            // Nothing is announced again for what has another name now.
            let next = Fact.activate(people[5], seconds(100_000))
            if !isShared {
                let resolution = TransferResolution.resolve(renamed, next, kind: .subscription)
                #expect(resolution.announced.count <= 1 && resolution.voids == [], "\(renamed) \(resolution)")
            }
        }
    }

    @Test("An install's id does not survive inside a key")
    func insideKeys() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            daemon.open("a")
            let key = "manual:\(Self.device.id.utf8.count):\(Self.device.id):pro"
            for (holder, at) in [(Self.device, 0), (Self.bob, 10)] {
                await daemon.record([
                    .stating(
                        .activate(holder, seconds(Int64(at))), purchase: key, kind: .oneTime, transaction: "m1",
                        source: "shared")
                ])
            }
            #expect(try places(ledger).isSuperset(of: ["purchases.key", "messages.envelope"]))
            _ = daemon.inbox.take()
            try ledger.psql("DELETE FROM deliveries")
            let erasure = try await Erasure.start(Self.device, source: nil, isDry: false, in: daemon.pool)
            let dry = try await erasure.proof.run(in: daemon.pool) { _ in }
            let done = try await erasure.run(in: daemon.pool) { _ in }
            #expect(dry.purchases == 1 && done.purchases == 1 && dry.mentions == done.mentions)
            let left = try places(ledger)
            #expect(left == [])
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            // A later grant is of the same purchase.
            await daemon.record([
                .stating(
                    .deactivate(Self.bob, seconds(20)), purchase: key, kind: .oneTime, transaction: "m1",
                    source: "shared")
            ])
            #expect(try ledger.psql("SELECT count(*) FROM purchases") == "1")
        }
    }

    @Test("A newer version's lines that name the person stop the erasure with what to do; others are kept")
    func newerLines() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            for (holder, at) in [(Self.jeff, 0), (Self.bob, 100)] {
                await daemon.record([
                    .stating(
                        .activate(holder, seconds(Int64(at)), until: seconds(10_000)), purchase: "subs_2",
                        transaction: "tx_2")
                ])
            }
            func add(_ lines: String) throws {
                let hex = try ledger.psql("SELECT encode(state, 'hex') FROM purchases")
                let bytes = stride(from: 0, to: hex.utf8.count, by: 2).compactMap { offset in
                    UInt8(hex.dropFirst(offset).prefix(2), radix: 16)
                }
                var state = try PurchaseState(bytes: bytes)
                state.unknownLines = Array(lines.utf8)
                let text = state.bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
                try ledger.psql("UPDATE purchases SET state = '\\x\(text)'")
            }
            let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool)
            try add("seen\t7\tuser:bob\nseen\t8\tuser:jeff-9f3c\n")
            let state = try ledger.psql("SELECT state FROM purchases")
            let rows = "SELECT (SELECT count(*) FROM transfers), (SELECT count(*) FROM entitlements)"
            let before = try ledger.psql(rows)
            let error = await #expect(throws: DatabaseError.self) {
                _ = try await erasure.run(in: daemon.pool) { _ in }
            }
            #expect("\(try #require(error))".contains("newer version"), "\(String(describing: error))")
            #expect(try ledger.psql("SELECT state FROM purchases") == state && ledger.psql(rows) == before)
            await #expect(throws: DatabaseError.self) { _ = try await erasure.proof.run(in: daemon.pool) { _ in } }
            // Lines of others: nobody knows what they mean, so they stay.
            try add("seen\t7\tuser:bob\nseen\t8\tuser:jeff-9f3c7\n")
            _ = try await erasure.run(in: daemon.pool) { _ in }
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            let left = try ledger.psql("SELECT convert_from(state, 'UTF8') FROM purchases")
            #expect(left.hasSuffix("seen\t7\tuser:bob\nseen\t8\tuser:jeff-9f3c7"), "\(left)")
        }
    }

    @Test("What a daemon has in hand ends first; what it blocked for others is unblocked")
    func inHand() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            daemon.open("a")
            await daemon.record([
                .stating(
                    .activate(Self.jeff, seconds(0), until: seconds(10_000)), purchase: "subs_2", transaction: "tx_2")
            ])
            await daemon.record([
                .stating(
                    .activate(Self.bob, seconds(100), until: seconds(10_000)), purchase: "subs_2", transaction: "tx_2")
            ])
            let first = try #require(daemon.inbox.take().first)
            let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool)
            let tally = try await erasure.run(in: daemon.pool) { _ in }
            #expect(tally.inHand == 1 && tally.events == 0)
            #expect(try ledger.psql("SELECT count(*) FROM events") == "2")
            // It fails and waits: now it is given up, and bob's own message is next.
            _ = try await daemon.queue.settle([first.settled(.retry(after: .seconds(60)), status: 500)])
            #expect(try await erasure.run(in: daemon.pool) { _ in }.inHand == 0)
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            let next = try await daemon.claimAll("a")
            #expect(next.map(\.message.type) == ["ACTIVATE"])
            // What he got waits behind it, and no longer for what was said of jeff.
            let rest =
                try await daemon.queue.settle(next.map { $0.settled(.accepted) }).unblocked
                + daemon.claimAll("a")
            #expect(rest.map(\.message.type) == ["SUBSCRIPTION_RECEIVED"])
            #expect(try ledger.psql("SELECT count(*) FROM deliveries WHERE blocked") == "0")
        }
    }

    @Test("Another's message that names the person, and that a daemon has in hand, ends first")
    func mentionInHand() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            daemon.open("a")
            await daemon.record([
                .sample(
                    "NOTE", holder: Self.bob, purchase: nil, transaction: nil, body: #"{"friend":"\#(Self.jeff.id)"}"#)
            ])
            let held = daemon.inbox.take()
            #expect(held.count == 1)
            let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool)
            let tally = try await erasure.run(in: daemon.pool) { _ in }
            #expect(tally.inHand == 1 && tally.mentions == 0)
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.mentions > 0)
            try await daemon.queue.giveBack(held)
            let again = try await erasure.run(in: daemon.pool) { _ in }
            #expect(again.inHand == 0 && again.mentions > 0)
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            let message = try #require(await daemon.claimAll("a").first?.message)
            let sent = String(decoding: message.envelope + message.original, as: UTF8.self)
            #expect(sent.contains("erased") && !sent.contains(Self.jeff.id))
        }
    }

    @Test("Cut short after the anonymous ids' own rows, it is finished by running it again", arguments: ["quarantine"])
    func interrupted(table: String) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await live(ledger)
            try ledger.psql(
                """
                CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'cut short'; END $$;
                CREATE TRIGGER fail BEFORE DELETE ON \(table) FOR EACH ROW EXECUTE FUNCTION fail()
                """)
            await #expect(throws: DatabaseError.self) { _ = try await erase(daemon) }
            #expect(
                try ledger.psql("SELECT count(*) FROM entitlements WHERE holder = '\(Self.device.storageKey)'") == "0")
            try ledger.psql("DROP TRIGGER fail ON \(table)")
            // As somebody who knows the user's id alone: `erase` expects both.
            _ = try await erase(daemon)
            #expect(try places(ledger) == [])
        }
    }

    @Test("An id that is a number is found where others' webhooks have it as one")
    func number() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            let person = Holder.user("88123457")
            await daemon.record([
                .sample("HERS", holder: person, purchase: nil, transaction: nil),
                .sample(
                    "OTHERS", holder: Self.bob, purchase: nil, transaction: nil,
                    body: #"{"inviter_user_id": 88123457,"paid_at":88123457}"#),
            ])
            let erasure = try await Erasure.start(person, source: nil, isDry: false, in: daemon.pool)
            #expect(try await erasure.run(in: daemon.pool) { _ in }.mentions == 1)
            #expect(
                try ledger.psql("SELECT convert_from(body, 'UTF8') FROM events")
                    == #"{"inviter_user_id": 0,"paid_at":88123457}"#)
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
        }
    }

    @Test("One source's person is not another's")
    func ofOneSource() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            await daemon.record(["shop", "moving"].map { .sample("E", holder: Self.jeff, purchase: "p", source: $0) })
            let erasure = try await Erasure.start(Self.jeff, source: "shop", isDry: false, in: daemon.pool)
            #expect(try await erasure.run(in: daemon.pool) { _ in }.events == 1)
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            #expect(try ledger.psql("SELECT string_agg(source, ' ') FROM events") == "moving")
            #expect(try ledger.psql("SELECT string_agg(source, ' ') FROM purchases") == "moving")
        }
    }

    @Test("An install that somebody else has, too, keeps its webhooks, without the user; the others go in any spelling")
    func sharedInstalls() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let small = "6837c35a-9f3c-77aa-8b1e-0123456789ab"
            let shared = Holder.anonymous("tablet-51")
            let both = "0a37c35a-9f3c-77aa-8b1e-0123456789ab"
            func linked(_ install: String, _ user: Holder, _ source: String) -> Event {
                Event(
                    scope: Scope(source: source, app: "app.one", environment: "PRODUCTION"), vendorEventID: nil,
                    name: "LINKED", type: "LINKED", holder: .anonymous(install), occurredAt: seconds(0), purchase: nil,
                    transaction: nil, links: [HolderLink(anonymousID: install, userID: user.id)],
                    body: Array(#"{"user":"\#(user.id)","install":"\#(install)"}"#.utf8))
            }
            for event in [
                linked(small.uppercased(), Self.jeff, "shop"), linked(shared.id, Self.jeff, "shop"),
                linked(shared.id, Self.ann, "moving"), linked(both, Self.jeff, "shop"),
                linked(both.uppercased(), Self.ann, "moving"),
                .sample("OF_BOTH", holder: shared, purchase: nil, transaction: nil, body: #"{"user":"jeff-9f3c"}"#),
                .sample("SMALL", holder: .anonymous(small), purchase: nil, transaction: nil),
            ] { await daemon.record([event]) }
            let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool)
            #expect(erasure.sharedInstalls == [.anonymous(both), shared])
            #expect(erasure.holders == [Self.jeff, .anonymous(small.uppercased()), .anonymous(small)])
            _ = try await erasure.run(in: daemon.pool) { _ in }
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            #expect(try places(ledger) == [])
            let left = [shared.id, shared.id, both, both.uppercased(), shared.id].map { "anon:\($0)" }
            #expect(
                try ledger.psql("SELECT string_agg(holder, ' ' ORDER BY id) FROM events")
                    == left.joined(separator: " "))
            #expect(
                try ledger.psql("SELECT convert_from(body, 'UTF8') FROM events WHERE name = 'OF_BOTH'")
                    == #"{"user":"erased"}"#)
            #expect(try ledger.psql("SELECT string_agg(user_id, ' ') FROM holder_links") == "ann ann")
        }
    }
}
