import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: what psql finds in the tables before and after.
@Suite("Repair: what becomes of one purchase", .serialized)
struct RepairTests {
    private static let device = Holder.anonymous("device")

    @Test("Damaged, quarantined, repaired, tried again: as if nothing had been damaged")
    func wholeWay() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let readings = Readings()
            await ledger.record(login.dropLast().map { .stating($0) }, by: daemon, readings)
            let before = try ledger.picture()
            try ledger.damage()
            let late = Event.stating(login[2])
            #expect(await daemon.record([late]) == [.stored])
            readings.remember([late])
            let reason = try ledger.psql("SELECT reason FROM quarantine")
            #expect(reason.contains("posthouse repair"), "\(reason)")

            let report = try await ledger.repair("subs_1", readings, by: daemon)
            #expect(report.verdict == .rebuilt && !report.wasReadable && !report.isPartial, "\(report)")
            #expect(report.webhooks == 2 && report.transfers.isEmpty && report.access.isEmpty, "\(report)")
            #expect(try ledger.picture() == before)
            #expect(report.waiting.map(String.init) == [try ledger.psql("SELECT id FROM quarantine")])

            let row = try #require(report.waiting.first)
            let outcome = try await Quarantine.record(
                row, as: late, routes: [], rules: Daemon.rules, in: daemon.pool)
            guard case .recorded(let trail, _) = outcome else {
                throw DatabaseError.protocolViolation(reason: "\(outcome)")
            }
            #expect(trail.messages == 3)
            #expect(try ledger.psql("SELECT count(*) FROM transfers") == "1")
            #expect(try ledger.psql("SELECT holder FROM entitlements WHERE active") == "user:jeff")
            let again = try await ledger.repair("tx_1", readings, by: daemon)
            #expect(again.verdict == .sound && again.waiting.isEmpty && again.webhooks == 3, "\(again)")
        }
    }

    @Test("What waits of a source that has logins is recorded when it is tried again")
    func changingSource() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let readings = Readings()
            let login = HolderChange.move(from: [Self.device], to: user, isNative: false)
            let events: [Event] = [
                .stating(.activate(Self.device, seconds(0), until: seconds(1_000)), source: "moving"),
                .change(login, by: user, at: 100, source: "moving"),
            ]
            await ledger.record(events, by: daemon, readings)
            try ledger.damage()
            let late = Event.stating(.activate(user, seconds(200), until: seconds(1_000)), source: "moving")
            #expect(await daemon.record([late]) == [.stored])
            readings.remember([late])
            let report = try await ledger.repair("subs_1", readings, by: daemon)
            let row = try #require(report.waiting.first, "\(report)")
            let outcome = try await Quarantine.record(row, as: late, routes: [], rules: Daemon.rules, in: daemon.pool)
            guard case .recorded = outcome else { throw DatabaseError.protocolViolation(reason: "\(outcome)") }
            #expect(try ledger.psql("SELECT holder FROM entitlements WHERE active") == "user:jeff")
        }
    }

    @Test("A dry run says the same and changes nothing")
    func dryRun() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let readings = Readings()
            await ledger.record(login.map { .stating($0) }, by: daemon, readings)
            try ledger.psql("UPDATE entitlements SET active = false")
            try ledger.damage()
            let damaged = try ledger.psql("SELECT xmin, state FROM purchases")
            let dry = try await ledger.repair("subs_1", readings, isDry: true, by: daemon)
            #expect(dry.verdict == .rebuilt)
            #expect(dry.access == [.init(holder: user, before: false, after: true)])
            #expect(try ledger.psql("SELECT xmin, state FROM purchases") == damaged)
            #expect(try ledger.psql("SELECT count(*) FROM entitlements WHERE active") == "0")
            let real = try await ledger.repair("subs_1", readings, by: daemon)
            #expect(real.access == dry.access && real.verdict == dry.verdict)
            #expect(try ledger.psql("SELECT holder FROM entitlements WHERE active") == "user:jeff")
        }
    }

    @Test("A transfer that was never announced is listed, counted, and not announced")
    func neverAnnounced() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let readings = Readings()
            await ledger.record(login.map { .stating($0) }, by: daemon, readings)
            let lost = try ledger.psql("SELECT 'trf_' || replace(id::text, '-', '') FROM transfers")
            try ledger.psql("DELETE FROM transfers")
            let messages = try ledger.psql("SELECT count(*) FROM messages")
            let sound = try await ledger.repair("subs_1", readings, by: daemon)
            #expect(sound.verdict == .sound)
            try ledger.damage()
            let report = try await ledger.repair("subs_1", readings, by: daemon)
            for report in [sound, report] {
                #expect(report.transfers == [.init(id: lost, from: anonymous, to: user, ordinal: 1)])
            }
            #expect(report.verdict == .rebuilt && !report.isPartial)
            // The next webhook of the pair announces nothing: the number counts it.
            await daemon.record([.stating(.received(user, from: anonymous, seconds(101), until: seconds(10_000)))])
            #expect(try ledger.psql("SELECT count(*) FROM messages") == messages)
            #expect(try ledger.psql("SELECT count(*) FROM transfers") == "0")
        }
    }

    @Test("A change that left a damaged purchase out is applied by its repair, and its transfer is listed")
    func leftOut() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let readings = Readings()
            let gain = Event.sample(
                "ACTIVATE", holder: Self.device, source: "moving",
                fact: .activate(Self.device, seconds(0), until: seconds(10_000)))
            await ledger.record([gain], by: daemon, readings)
            try ledger.damage()
            let moved = Event.change(
                .move(from: [Self.device], to: user, isNative: false), by: user, at: 100, source: "moving")
            await ledger.record([moved], by: daemon, readings)
            let warning = try #require(daemon.log.warnings.first)
            #expect(warning.contains("posthouse repair"))
            let report = try await ledger.repair("subs_1", readings, by: daemon)
            #expect(report.verdict == .rebuilt && !report.isPartial, "\(report)")
            #expect(report.transfers.map(\.to) == [user])
            #expect(
                report.access == [
                    .init(holder: Self.device, before: true, after: false),
                    .init(holder: user, before: nil, after: true),
                ])
            #expect(try ledger.psql("SELECT holder FROM entitlements WHERE active") == "user:jeff")
        }
    }

    @Test(
        "Who a restoring install was by another purchase's webhook is known again once its row is pruned",
        arguments: ["moving", "shared"])
    func linkedElsewhere(source: String) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let readings = Readings()
            let (old, install) = (Holder.user("old"), Holder.anonymous("new-device"))
            let elsewhere = Event.stating(
                .activate(user, seconds(10), until: seconds(10_000)), purchase: "p2", transaction: "t2", source: source)
            let linking = Event(
                scope: elsewhere.scope, vendorEventID: nil, name: elsewhere.name, type: elsewhere.type, holder: user,
                occurredAt: seconds(10), purchase: elsewhere.purchase, transaction: elsewhere.transaction,
                facts: elsewhere.facts, links: [HolderLink(anonymousID: install.id, userID: user.id)],
                body: elsewhere.body)
            await ledger.record(
                [
                    .stating(
                        .activate(old, seconds(0), until: seconds(10_000)), purchase: "p1", transaction: "t1",
                        source: source),
                    linking,
                    .change(
                        .restore(install: install.id, transactions: ["t1"], strategy: .transfer), by: install, at: 100,
                        source: source),
                ], by: daemon, readings)
            let before = try ledger.picture()
            #expect(before.contains("user:jeff"))
            try ledger.forgetChanges()
            try ledger.damage("key = 'p1'")
            let report = try await ledger.repair("p1", readings, by: daemon)
            #expect(report.verdict == .rebuilt && !report.isPartial && report.transfers.isEmpty, "\(report)")
            #expect(try ledger.picture() == before)
        }
    }

    @Test("Who got another purchase of an install by a restore is not that install, for a repair either")
    func restoredElsewhere() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let readings = Readings()
            let (old, install, phone) = (Holder.user("old"), Holder.anonymous("install"), Holder.anonymous("phone"))
            func restored(_ transaction: String, on holder: Holder, at: Int64, _ links: [HolderLink] = []) -> Event {
                Event(
                    scope: Scope(source: "moving", app: "app.one", environment: "PRODUCTION"), vendorEventID: nil,
                    name: "RESTORED", type: "RESTORED", holder: holder, occurredAt: seconds(at), purchase: nil,
                    transaction: nil,
                    change: .restore(install: holder.id, transactions: [transaction], strategy: .transfer),
                    links: links, body: Array("{}".utf8))
            }
            func bought(_ holder: Holder, _ number: Int) -> Event {
                .stating(
                    .activate(holder, seconds(0), until: seconds(10_000)), purchase: "p\(number)",
                    transaction: "t\(number)", source: "moving")
            }
            await ledger.record(
                [
                    bought(old, 1), bought(install, 2),
                    restored("t2", on: phone, at: 50, [HolderLink(anonymousID: phone.id, userID: user.id)]),
                    restored("t1", on: install, at: 100),
                ], by: daemon, readings)
            let holder = """
                SELECT holder FROM entitlements e JOIN purchases p ON p.id = e.purchase WHERE active AND key = 'p1'
                """
            #expect(try ledger.psql(holder) == install.storageKey)
            let before = try ledger.picture()
            try ledger.forgetChanges()
            try ledger.damage("key = 'p1'")
            let report = try await ledger.repair("p1", readings, by: daemon)
            #expect(report.verdict == .rebuilt && !report.isPartial && report.transfers.isEmpty, "\(report)")
            #expect(try ledger.picture() == before)
        }
    }

    @Test("What moved to a person who was erased is sound: no transfer is missing, and nobody is given the access")
    func movedToErased() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let readings = Readings()
            let move = HolderChange.move(from: [otherUser], to: user, isNative: true)
            await ledger.record(
                [
                    .stating(.activate(otherUser, seconds(0), until: seconds(10_000)), source: "moving"),
                    .change(move, by: otherUser, at: 100, source: "moving"),
                ], by: daemon, readings)
            #expect(try ledger.psql("SELECT count(*) FROM transfers") == "1")
            let erasure = try await Erasure.start(user, source: nil, isDry: false, in: daemon.pool)
            _ = try await erasure.run(in: daemon.pool) { _ in }
            let before = try ledger.picture()
            #expect(before.contains("anon:erased-"))
            for isDamaged in [false, true] {
                if isDamaged { try ledger.damage() }
                let report = try await ledger.repair("subs_1", readings, by: daemon)
                let expected: RepairReport.Verdict = isDamaged ? .rebuilt : .sound
                #expect(report.verdict == expected && !report.isPartial, "\(report)")
                #expect(report.transfers.isEmpty && report.access.isEmpty, "\(report)")
                #expect(try ledger.picture() == before)
            }
            #expect(try ledger.psql("SELECT holder, active FROM entitlements") == "\(otherUser.storageKey)|f")
        }
    }

    @Test("Webhooks are missing: a readable state stays; a damaged one keeps access and ordinals")
    func partial() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let readings = Readings()
            let until = seconds(100_000)
            await ledger.record(login.map { .stating($0) }, by: daemon, readings)
            await ledger.record(
                [.stating(.transferred(user, to: otherUser, seconds(200), until: until))], by: daemon, readings)
            let before = try ledger.picture()
            try ledger.psql("DELETE FROM events WHERE name IN ('ACTIVATE', 'DEACTIVATE')")
            let kept = try await ledger.repair("subs_1", readings, by: daemon)
            #expect(kept.verdict == .leftUnchanged && kept.missing.contains(.state), "\(kept)")
            #expect(kept.missing.contains(.transfers))
            #expect(try ledger.picture() == before)

            try ledger.damage()
            let access = "SELECT holder, active FROM entitlements ORDER BY holder"
            let held = try ledger.psql(access)
            let report = try await ledger.repair("subs_1", readings, by: daemon)
            #expect(report.verdict == .rebuilt && report.isPartial && report.transfers.isEmpty, "\(report)")
            #expect(report.missing.contains(.transfers) && report.missing.contains(.entitlements))
            #expect(try ledger.psql(access) == held)
            // What was announced is not announced again; what is new has the next number.
            let transfers = "SELECT from_holder, to_holder, max(ordinal) FROM transfers GROUP BY 1, 2 ORDER BY 1, 2"
            let announced = try ledger.psql(transfers)
            await daemon.record([.stating(.received(otherUser, from: user, seconds(200), until: until))])
            #expect(try ledger.psql(transfers) == announced)
            await daemon.record([.stating(.activate(user, seconds(900), until: until))])
            await daemon.record([.stating(.activate(otherUser, seconds(1_900), until: until))])
            #expect(try ledger.psql(transfers).contains("user:jeff|user:toto|2"))
            #expect(try ledger.psql("SELECT holder FROM entitlements WHERE active") == "user:toto")
        }
    }

    @Test(
        "Nothing but the tables is left: who had access has it, whoever had none has none",
        arguments: ["shop", "shared"])
    func nothingLeft(source: String) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let readings = Readings()
            let end = seconds(10_000)
            let events: [Event] = [
                .stating(.activate(Self.device, seconds(0), until: end), purchase: "on", source: source),
                .stating(.transferred(Self.device, to: user, seconds(50), until: end), purchase: "on", source: source),
                .stating(.activate(user, seconds(60), until: end), purchase: "on", source: source),
                .stating(.activate(user, seconds(0), until: end), purchase: "off", source: source),
                .stating(.deactivate(user, seconds(70), until: end), purchase: "off", source: source),
                .stating(.activate(user, seconds(0), until: nil), purchase: "once", kind: .oneTime, source: source),
            ]
            await ledger.record(events, by: daemon, readings)
            let access = "SELECT purchase, holder, active, as_of_ms FROM \(TestLedger.access) AS a ORDER BY 1, 2"
            let before = try ledger.psql(access)
            try ledger.psql("DELETE FROM events")
            try ledger.damage()
            let reports = try await ledger.repairAll(readings, by: daemon)
            #expect(reports.count == 3 && reports.allSatisfy { $0.isPartial && $0.missing.contains(.webhooks) })
            #expect(try ledger.psql(access) == before)
            #expect(try ledger.psql("SELECT kind FROM purchases WHERE key = 'once'") == "one_time")
            // The states can be read, and the next webhooks go on from them.
            #expect(try await ledger.repairAll(readings, by: daemon).allSatisfy { $0.verdict == .leftUnchanged })
            await daemon.record([.stating(.activate(user, seconds(500), until: end), purchase: "off", source: source)])
            let active = """
                SELECT holder FROM entitlements e JOIN purchases p ON p.id = e.purchase WHERE p.key = 'off' AND active
                """
            #expect(try ledger.psql(active) == "user:jeff")
        }
    }

    @Test("A state that says otherwise than all of its webhooks is replaced; others are not written")
    func different() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let readings = Readings()
            let end = seconds(10_000)
            await ledger.record(
                ["p1", "p2", "p3"].map { .stating(.activate(user, seconds(0), until: end), purchase: $0) }, by: daemon,
                readings)
            let before = try ledger.picture()
            try ledger.psql(
                """
                UPDATE purchases
                SET state = convert_to(
                    regexp_replace(replace(convert_from(state, 'UTF8'), E'\\ton\\t', E'\\toff\\t'), '^2[^\n]*', '1'), 'UTF8')
                WHERE key = 'p2'
                """)
            try ledger.damage("key = 'p3'")
            let untouched = try ledger.psql("SELECT xmin FROM purchases WHERE key = 'p1'")
            let dry = try await ledger.repairAll(readings, isDry: true, by: daemon)
            let real = try await ledger.repairAll(readings, by: daemon)
            for reports in [dry, real] {
                let found = Dictionary(uniqueKeysWithValues: reports.map { ($0.key, $0) })
                #expect(found["p1"]?.verdict == .sound && found["p2"]?.verdict == .rebuilt)
                #expect(found["p2"]?.wasReadable == true && found["p3"]?.wasReadable == false)
            }
            #expect(try ledger.picture() == before)
            #expect(try ledger.psql("SELECT xmin FROM purchases WHERE key = 'p1'") == untouched)
            #expect(try await ledger.repairAll(readings, by: daemon).allSatisfy { $0.verdict == .sound })
        }
    }

    @Test("A webhook that cannot be read any more is missing; a source without rules cannot be checked")
    func unreadable() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await ledger.record([.stating(login[0])], by: daemon, Readings())
            try ledger.damage()
            let report = try await ledger.repair("subs_1", Readings(), isDry: true, by: daemon)
            #expect(report.isPartial && report.missing.contains(.unreadable), "\(report)")
            let nobody = Repair(rules: [:], eventsKept: .seconds(1)) { _ in nil }
            let id = try await Repair.page(after: nil, source: "shop", in: daemon.pool)[0]
            let refused = try await nobody.run(id, isDry: false, in: daemon.pool)
            guard case .impossible = refused?.verdict else {
                throw DatabaseError.protocolViolation(reason: "\(report)")
            }
            #expect(try ledger.psql("SELECT encode(state, 'hex') FROM purchases") == "ff")
        }
    }

    @Test("A purchase is found by its key, a transaction and the relay's own id, in one source")
    func named() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([.sample(), .sample(source: "kiosk"), .sample(purchase: "other", transaction: "tx_2")])
            func count(_ name: String, _ source: String? = nil) async throws -> Int {
                try await Repair.named(name, source: source, in: daemon.pool).count
            }
            #expect(try await count("subs_1") == 2)
            #expect(try await count("subs_1", "kiosk") == 1)
            #expect(try await count("tx_2") == 1)
            let id = try await Repair.named("other", source: nil, in: daemon.pool)[0]
            #expect(try await count(id.hex) == 1)
            #expect(try await count("nobody") == 0)
            let first = try await Repair.page(after: nil, source: nil, in: daemon.pool)
            #expect(first.count == 3 && first == first.sorted())
            #expect(try await Repair.page(after: first[0], source: nil, in: daemon.pool) == Array(first.dropFirst()))
        }
    }

    @Test("Those of one source are found page by page among as many of another")
    func ofOneSource() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try ledger.psql(
                """
                INSERT INTO purchases (id, source, app, environment, store, key, kind, as_of_ms, state)
                SELECT md5(n::text)::uuid, CASE WHEN n % 1000 = 0 THEN 'shop' ELSE 'other' END, '', 'PRODUCTION', 'S',
                    n::text, 'subscription', n, '' FROM generate_series(1, \(Int(Repair.pageRows) * 5)) AS n
                """)
            var found: [Identifier] = []
            while case let page = try await Repair.page(after: found.last, source: "shop", in: daemon.pool),
                !page.isEmpty
            {
                found += page
            }
            let ids = "SELECT replace(id::text, '-', '') FROM purchases WHERE source = 'shop' ORDER BY id"
            #expect(try found.map(\.hex) == ledger.psql(ids).split(separator: "\n").map(String.init))
            #expect(found.count == 5)
        }
    }

    @Test("Among many, what waits in quarantine is looked up for what is worth listing alone")
    func waiting() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let readings = Readings()
            await ledger.record([.stating(login[0])], by: daemon, readings)
            try ledger.damage()
            let late = Event.stating(login[1])
            #expect(await daemon.record([late]) == [.stored])
            readings.remember([late])
            let id = try await Repair.named("subs_1", source: nil, in: daemon.pool)[0]
            let waiting = [try #require(Int64(try ledger.psql("SELECT id FROM quarantine")))]
            func check() async throws -> RepairReport? {
                let outcome = try await readings.repair.check(id, isDry: false, in: daemon.pool)
                if case .checked(let report) = outcome { return report }
                return nil
            }
            let damaged = try await check()
            #expect(damaged?.verdict == .rebuilt && damaged?.waiting == waiting, "\(String(describing: damaged))")
            let sound = try await check()
            #expect(sound?.verdict == .sound && sound?.waiting == [], "\(String(describing: sound))")
            let named = try await readings.repair.run(id, isDry: false, in: daemon.pool)
            #expect(named?.waiting == waiting)
        }
    }

    @Test("While the repair runs, a webhook of the purchase waits for it")
    func locks() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let readings = Readings()
            await ledger.record([.stating(login[0])], by: daemon, readings)
            try ledger.damage()
            let id = try await Repair.named("subs_1", source: nil, in: daemon.pool)[0]
            let repair = readings.repair
            let answers = try await ledger.holding(
                { session throws(DatabaseError) in _ = try repair.run(id, isDry: false, on: session) },
                { await daemon.record([.stating(login[1])]) })
            #expect(answers == [.stored])
            #expect(try ledger.psql("SELECT (SELECT count(*) FROM quarantine), count(*) FROM events") == "0|2")
        }
    }
}
