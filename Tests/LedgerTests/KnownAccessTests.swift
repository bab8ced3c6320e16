import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: a ledger in which each webhook writes the rows of `entitlements`, because a daemon of a version before
/// lives; and the same ledger after its rows were written.
@Suite("Access that is known without its entitlement row", .serialized, .timeLimit(.minutes(30)))
struct KnownAccessTests {
    private static let scope = LookupScope(environment: "PRODUCTION", source: nil)
    /// Text that JSON escapes, and a letter of two spellings.
    private static let odd = Holder.user("O'B\"r\\i\ten e\u{301}")

    private static func renewal(_ at: Int64, of holder: Holder, purchase: String = "subs_1") -> Event {
        .stating(
            .activate(holder, seconds(at), until: seconds(at + 1_000)), purchase: purchase, transaction: "t\(at)")
    }

    @Test("A renewal that changes nothing of who has access neither reads nor writes a row", arguments: [1, .max])
    func renewals(copiedFrom: Int) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all", order: .purchase)], copiedEventsMin: copiedFrom)
            await daemon.record([Self.renewal(0, of: Self.odd)])
            let row = try ledger.psql("SELECT xmin, ctid, as_of_ms FROM entitlements")
            // Whatever names the table now fails.
            try ledger.psql("ALTER TABLE entitlements RENAME TO hidden")
            for at in [100, 200, 300] as [Int64] {
                #expect(await daemon.record([Self.renewal(at, of: Self.odd)]) == [.stored])
            }
            // Older than what is known, and two at once.
            let late = [Self.renewal(150, of: Self.odd), Self.renewal(250, of: Self.odd)]
            #expect(await daemon.record(late) == [.stored, .stored])
            try ledger.psql("ALTER TABLE hidden RENAME TO entitlements")
            #expect(try ledger.psql("SELECT count(*) FROM events") == "6")
            #expect(try ledger.psql("SELECT xmin, ctid, as_of_ms FROM entitlements") == row)

            let lookup = HolderLookup(pool: daemon.pool)
            let held = try #require(try await lookup.entitlements(of: .holder(Self.odd), in: Self.scope).entries.first)
            let newest = KeyHash.event(Self.renewal(300, of: Self.odd)).eventID
            #expect(held.isActive && held.asOf == seconds(300) && held.cause?.eventID == newest)

            let end = Fact.deactivate(Self.odd, seconds(400), until: seconds(400))
            await daemon.record([.stating(end, transaction: "t400")])
            #expect(try ledger.psql("SELECT active, as_of_ms FROM entitlements") == "f|\(seconds(400).milliseconds)")
            #expect(daemon.log.warnings == [])
        }
    }

    @Test("So it is with a renewal that names nobody, once somebody is named: of the purchase's own holder, too")
    func namelessRenewals() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let own = Holder.anonymous("cus_1")
            func record(_ at: Int64, _ holder: Holder) async {
                let fact = Fact(
                    kind: .gain, holder: holder, at: seconds(at), until: seconds(at + 1_000), isNamed: holder != own)
                let event = Event.sample(
                    holder: holder, at: fact.at, purchase: "p", transaction: "t\(at)", source: "store", fact: fact)
                #expect(await daemon.record([event]) == [.stored])
            }
            for (at, holder) in [(0, own), (100, user), (200, own)] as [(Int64, Holder)] { await record(at, holder) }
            let rows = try ledger.psql("SELECT holder, active, xmin, as_of_ms FROM entitlements ORDER BY holder")
            #expect(rows.contains("\(own.storageKey)|f|") && rows.contains("\(user.storageKey)|t|"))
            try ledger.psql("ALTER TABLE entitlements RENAME TO hidden")
            for at in [300, 400, 350] as [Int64] { await record(at, own) }
            try ledger.psql("ALTER TABLE hidden RENAME TO entitlements")
            #expect(try ledger.psql("SELECT holder, active, xmin, as_of_ms FROM entitlements ORDER BY holder") == rows)
            let held = try await HolderLookup(pool: daemon.pool).entitlements(of: .holder(user), in: Self.scope)
            #expect(held.entries.map(\.asOf) == [seconds(400)] && held.entries.allSatisfy(\.isActive))
            // Its events are found by the row that its own holder has.
            let events = try await daemon.pool.withSession { session throws(DatabaseError) in
                try session.run(EventHandleStatements.byHolder, (own.storageKey, 100))
            }
            let all = try ledger.psql("SELECT id FROM events WHERE holder = '\(own.storageKey)'").split(separator: "\n")
            #expect(all.count == 5 && Set(events).isSuperset(of: all.compactMap { Int64($0) }))
        }
    }

    // MARK: Answers

    private enum Rows: CaseIterable {
        case atEachWebhook, onChange, byTurns
    }

    /// A history of an environment, cut into what is recorded at once.
    private static func batches(_ source: String, _ environment: String, _ dice: inout Dice) -> [[Event]] {
        var events = RepairPropertyTests.history(source, environment, &dice, says: false)[...]
        var batches: [[Event]] = []
        while !events.isEmpty {
            let batch = events.prefix(Int.random(in: 1...3, using: &dice))
            events = events.dropFirst(batch.count)
            batches.append(Array(batch))
        }
        return batches
    }

    @Test(
        "Each row says what it would say if each webhook wrote it, also where versions take turns",
        arguments: ["shop", "moving", "shared", "store"])
    func rows(source: String) async throws {
        var pictures: [[String]] = []
        for rows in Rows.allCases {
            try await TestLedger.run { ledger in
                var (dice, turns) = (Dice(state: 11 + UInt64(source.utf8.count)), Dice(state: 5))
                let daemon = try await ledger.daemon([.named("all")])
                let older = "INSERT INTO daemons (version, expires_at, state_form) VALUES ('old', now(), 5)"
                if rows == .atEachWebhook { try ledger.psql(older) }
                #expect(try await daemon.registration.renew())
                let histories = (0..<20).map { Self.batches(source, "history\($0)", &dice) }
                // Many side by side: they concern different purchases. Fewer where turns are to fall everywhere.
                let abreast = rows == .byTurns ? 4 : histories.count
                for begin in stride(from: 0, to: histories.count, by: abreast) {
                    let some = histories[begin..<min(begin + abreast, histories.count)]
                    for place in 0..<(some.map(\.count).max() ?? 0) {
                        if rows == .byTurns, turns.chance(30) {
                            try ledger.psql("DELETE FROM daemons WHERE version = 'old'")
                            if turns.chance(50) { try ledger.psql(older) }
                            #expect(try await daemon.registration.renew())
                        }
                        let batch: [Event] = some.flatMap { $0.dropFirst(place).first ?? [] }
                        await daemon.record(batch)
                    }
                }
                let form = daemon.registration.ledgerForm
                #expect(rows == .byTurns || form == (rows == .onChange ? .current : .periods))
                let stale = try ledger.psql(
                    """
                    SELECT count(*) FROM entitlements e JOIN purchases p ON p.id = e.purchase
                    WHERE (p.access -> 'of' -> e.holder ->> 1)::bigint <> e.as_of_ms
                    """)
                #expect((stale == "0") == (rows == .atEachWebhook) || rows == .byTurns)
                let columns = "p.environment, p.key, a.holder, a.active, a.as_of_ms, v.key, p.state"
                let picture = { (columns: String) in
                    try ledger.psql(
                        """
                        SELECT \(columns) FROM \(TestLedger.access) AS a JOIN purchases p ON p.id = a.purchase
                        LEFT JOIN events v ON v.id = a.event ORDER BY 1, 2, 3
                        """
                    ).split(separator: "\n").map(String.init)
                }
                pictures.append(try picture(columns))
                if rows != .byTurns {
                    let recorded = "(extract(epoch FROM v.received_at) * 1000)::bigint"
                    let times = try picture("p.environment, p.key, a.holder, a.changed_ms = \(recorded)")
                    #expect(times.allSatisfy { !$0.hasSuffix("|f") }, "\(times)")
                }
                try await answers(ledger, daemon, source)
            }
        }
        #expect(!pictures[0].isEmpty)
        for picture in pictures {
            let others = zip(picture, pictures[0]).filter { $0 != $1 }
            #expect(picture.count == pictures[0].count && others.isEmpty, "\(others)")
        }
    }

    /// Every reader says the same once the rows are written.
    private func answers(_ ledger: TestLedger, _ daemon: Daemon, _ source: String) async throws {
        func ask() async throws -> [String] {
            let lookup = HolderLookup(pool: daemon.pool)
            var answers: [String] = []
            let named = try ledger.psql(
                "SELECT DISTINCT p.environment, e.holder FROM entitlements e, purchases p ORDER BY 1, 2")
            for line in named.split(separator: "\n").map({ $0.split(separator: "|").map(String.init) }) {
                let scope = LookupScope(environment: line[0], source: nil)
                let holder = try #require(Holder(storageKey: line[1]))
                for subject in [LookupSubject.holder(holder), .install(holder.id)] {
                    let held = try await lookup.entitlements(of: subject, in: scope)
                    let products = try await lookup.products(of: subject, in: scope, limit: 10)
                    answers += (held.entries + products.entries).map { "\($0)" }
                }
                let install = try await lookup.install(
                    holder.id, of: source, app: "app.one", environment: line[0])
                answers.append("\(install as Any)")
                let identifies = ([holder.id], source, "app.one", line[0])
                answers += try await daemon.pool.withSession { session throws(DatabaseError) in
                    try session.run(RepairStatements.firstIdentifies, identifies)
                }.map { "\($0)" }.sorted()
            }
            for id in try await Repair.page(after: nil, source: nil, in: daemon.pool) {
                answers += try await lookup.grant(id).holdings.map { "\($0)" }
                answers += try await daemon.pool.withSession { session throws(DatabaseError) in
                    try session.run(RepairStatements.entitlements, id)
                }.map { "\($0)" }.sorted()
            }
            let handle = EventHandle(.transaction, "t-p1")
            answers += try await Trace.read(handle, from: daemon.pool)?.holdings.map { "\($0)" } ?? []
            return answers
        }
        let before = try await ask()
        let purchases = try await Repair.page(after: nil, source: nil, in: daemon.pool)
        let states = try ledger.psql("SELECT id, state FROM purchases ORDER BY id")
        _ = try await daemon.pool.withSession { session throws(DatabaseError) in
            try session.execute(KnownAccessStatements.write, purchases)
        }
        #expect(try ledger.psql("SELECT count(*) FROM purchases WHERE access IS NOT NULL") == "0")
        #expect(try ledger.psql("SELECT id, state FROM purchases ORDER BY id") == states)
        // Other statistics, other plans.
        try ledger.psql("ANALYZE")
        let after = try await ask()
        let others = zip(before, after).filter { $0 != $1 }
        #expect(before.count > 50 && after.count == before.count && others.isEmpty, "\(others)")
    }

    @Test("What a daemon of a version before writes is read from its rows")
    func older() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let lookup = HolderLookup(pool: daemon.pool)
            func asOf() async throws -> Timestamp? {
                try await lookup.entitlements(of: .holder(user), in: Self.scope).entries.first?.asOf
            }
            for at in [0, 100] as [Int64] { await daemon.record([Self.renewal(at, of: user)]) }
            #expect(try await asOf() == seconds(100))
            let fact = Fact.activate(user, seconds(200), until: seconds(1_200))
            let hex = try ledger.psql("SELECT encode(state, 'hex') FROM purchases")
            let bytes = stride(from: 0, to: hex.count, by: 2).compactMap { offset in
                UInt8(hex.dropFirst(offset).prefix(2), radix: 16)
            }
            let state = TransferResolution.resolve(try PurchaseState(bytes: bytes), fact, kind: .subscription).state
            let text = String(decoding: state.bytes, as: UTF8.self)
            try ledger.psql(
                """
                UPDATE purchases SET state = convert_to('\(text)', 'UTF8');
                UPDATE entitlements SET as_of_ms = \(seconds(200).milliseconds)
                """)
            #expect(try await asOf() == seconds(200))
            // Not newer; then newer.
            await daemon.record([Self.renewal(50, of: user)])
            #expect(try await asOf() == seconds(200))
            await daemon.record([Self.renewal(300, of: user)])
            #expect(try await asOf() == seconds(300))
            // A damaged state takes nothing from what was known last: not its lines, nor its checksum, nor all of it.
            for damaged in [
                #"overlay(state PLACING '\x7a' FROM 30)"#, #"overlay(state PLACING '\x7a' FROM 5)"#, #"'\xff'"#,
            ] {
                try ledger.psql("UPDATE purchases SET state = \(damaged)")
                #expect(try await asOf() == seconds(300), "\(damaged)")
            }
        }
    }

    @Test("A row of a ledger before is read and written once more, then not again")
    func firstRenewal() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([Self.renewal(0, of: user)])
            try ledger.psql("UPDATE purchases SET access = NULL")
            await daemon.record([Self.renewal(100, of: user)])
            #expect(try ledger.psql("SELECT as_of_ms FROM entitlements") == "\(seconds(100).milliseconds)")
            let row = try ledger.psql("SELECT xmin FROM entitlements")
            await daemon.record([Self.renewal(200, of: user)])
            #expect(try ledger.psql("SELECT xmin FROM entitlements") == row)
            let access = "SELECT as_of_ms FROM \(TestLedger.access) AS a"
            #expect(try ledger.psql(access) == "\(seconds(200).milliseconds)")
        }
    }

    @Test("An install stays as old as its first purchase; where no transaction is known, as its last change")
    func changedAt() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            for at in [0, 100] as [Int64] {
                await daemon.record([Self.renewal(at, of: anonymous)])
                try ledger.psql("SELECT pg_sleep(0.01)")
            }
            let heard = "SELECT (extract(epoch FROM max(received_at)) * 1000)::bigint FROM events"
            let wanted = try ledger.psql(heard)
            func created() async throws -> String? {
                let install = try await HolderLookup(pool: daemon.pool)
                    .install(anonymous.id, of: "shop", app: "app.one", environment: nil)
                return install.map { "\($0.createdAt.milliseconds)" }
            }
            #expect(try await created() == "\(seconds(0).milliseconds)")
            try ledger.psql("DELETE FROM events")
            #expect(try await created() == "\(seconds(0).milliseconds)")
            try ledger.psql("DELETE FROM transactions")
            #expect(try await created() == wanted)
        }
    }

    @Test("Erasing one holder leaves what is known of the others, and nothing of the one")
    func erasing() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            for at in [0, 100] as [Int64] { await daemon.record([Self.renewal(at, of: user)]) }
            for at in [200, 300] as [Int64] { await daemon.record([Self.renewal(at, of: otherUser)]) }
            await daemon.record([
                .stating(.deactivate(user, seconds(250), until: seconds(250)), transaction: "t250")
            ])
            let access = """
                SELECT holder, active, as_of_ms, event FROM \(TestLedger.access) AS a
                WHERE holder = '\(otherUser.storageKey)'
                """
            let before = try ledger.psql(access)
            #expect(before.contains("|\(seconds(300).milliseconds)|"))
            let erasure = try await Erasure.start(user, source: nil, isDry: false, in: daemon.pool)
            #expect(try await erasure.run(in: daemon.pool) { _ in }.purchases == 1)
            #expect(try ledger.psql(access) == before)
            #expect(try ledger.psql("SELECT count(*) FROM purchases WHERE access::text LIKE '%\(user.id)%'") == "0")
            await daemon.record([Self.renewal(400, of: otherUser)])
            #expect(try ledger.psql(access).contains("|t|\(seconds(400).milliseconds)|"))
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
        }
    }

    @Test("What still names an erased person where no row does is found, and erased")
    func stale() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([Self.renewal(0, of: user)])
            for at in [100, 200] as [Int64] { await daemon.record([Self.renewal(at, of: otherUser)]) }
            let access = try ledger.psql("SELECT access FROM purchases")
            let erasure = try await Erasure.start(user, source: nil, isDry: false, in: daemon.pool)
            #expect(try await erasure.run(in: daemon.pool) { _ in }.purchases == 1)
            let rows = try ledger.psql("SELECT holder, as_of_ms, event FROM entitlements ORDER BY holder")
            // As an erasure by a version before leaves it.
            try ledger.psql("UPDATE purchases SET access = '\(access)'")
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 1)
            #expect(try await erasure.run(in: daemon.pool) { _ in }.purchases == 1)
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            #expect(try ledger.psql("SELECT count(*) FROM purchases WHERE access IS NULL") == "1")
            #expect(try ledger.psql("SELECT holder, as_of_ms, event FROM entitlements ORDER BY holder") == rows)
        }
    }

    // MARK: The column

    @Test("What is stored is read again beside its state, and beside no other")
    func column() {
        let state = Playback(login).state.bytes
        var known = KnownAccess()
        let rows = [Self.odd, .user("\u{E9}"), .user("e\u{301}"), anonymous].map { holder in
            BatchPlan.EntitlementRow(
                holder: holder, purchase: Identifier(high: 0, low: 1), access: Access(isActive: true, asOf: seconds(1)),
                event: 1)
        }
        for row in rows { #expect(known.update(row, at: seconds(5)) == true) }
        for row in rows { #expect(known.update(row, at: seconds(5)) == false) }
        var renewed = rows[0]
        (renewed.access, renewed.event) = (Access(isActive: true, asOf: seconds(2)), 2)
        #expect(known.update(renewed, at: seconds(6)) == false && known.entries.count == 4)
        #expect(known.entries[Self.odd]?.event == 2 && known.entries[Self.odd]?.changedAt == seconds(6))
        let stored = known.column(of: state)
        #expect(KnownAccess(stored, of: state) == known)
        #expect(KnownAccess(stored, of: PurchaseState().bytes) == KnownAccess())
        #expect(KnownAccess(JSONColumn(text: Array("[1]".utf8)), of: state) == KnownAccess())
        #expect(KnownAccess(nil, of: state) == KnownAccess() && KnownAccess().column(of: state) == nil)
    }

    @Test("Beyond the limit rows are written: first those of holders without access, of these the oldest")
    func limit() {
        var known = KnownAccess()
        let count = KnownAccess.entriesMax + 6
        for (event, at) in [(1, 0), (2, 1_000)] as [(Int64, Int64)] {
            for number in 0..<count {
                _ = known.update(
                    BatchPlan.EntitlementRow(
                        holder: .user("\(number)"), purchase: Identifier(high: 0, low: 1),
                        access: Access(isActive: number < 3, asOf: seconds(at + Int64(number))), event: event),
                    at: seconds(0))
            }
        }
        let dropped = known.dropExcess()
        #expect(known.entries.count == KnownAccess.entriesMax)
        #expect(Set(dropped.keys) == Set((3..<9).map { .user("\($0)") }))
        #expect(dropped.values.allSatisfy { $0.event == 2 } && known.dropExcess().isEmpty)
    }

    @Test("A row that is written for the limit keeps its time of recording, unless the batch states it anew")
    func excess() {
        let id = Identifier(high: 0, low: 1)
        func row(_ number: Int, _ event: Int64) -> BatchPlan.EntitlementRow {
            BatchPlan.EntitlementRow(
                holder: .user("\(number)"), purchase: id, access: Access(isActive: number == 0, asOf: seconds(event)),
                event: event)
        }
        func write(_ stated: [BatchPlan.EntitlementRow], _ form: LedgerForm) -> EntitlementWrite {
            var known = KnownAccess()
            for event in [1, 2] as [Int64] {
                for number in 0..<KnownAccess.entriesMax { _ = known.update(row(number, event), at: seconds(event)) }
            }
            let purchase = BatchPlan.PurchaseRow(
                hash: id, scope: Scope(source: "shop", app: "app.one", environment: "PRODUCTION"),
                purchase: Purchase(
                    key: "p", kind: .subscription, store: "S", product: nil, plan: nil, subscriptionID: nil),
                asOf: seconds(2), state: PurchaseState(), known: known)
            var plan = BatchPlan(purchases: [id: purchase], rules: [:])
            plan.touched = [id]
            for row in stated {
                plan.entitlements[BatchPlan.EntitlementKey(holder: row.holder, purchase: id)] = row
            }
            return EntitlementWrite(plan, in: form, at: seconds(9))
        }
        // One more than the limit: the one that is dropped is as it was stored.
        let new = row(KnownAccess.entriesMax, 3)
        let one = write([new], .sparseEntitlements)
        #expect(one.outdated == [id] && one.rows.map(\.holder) == [new.holder])
        #expect(one.known[id]?.entries.count == KnownAccess.entriesMax)
        // All are stated: what is dropped is written as the batch has it.
        let all = write((0...KnownAccess.entriesMax).map { row($0, 3) }, .sparseEntitlements)
        #expect(all.outdated.isEmpty && all.rows.count == 2 && all.rows.allSatisfy { $0.event == 3 })
        // Before this form all rows are written, behind what is stored.
        let before = write([new], .periods)
        #expect(before.outdated == [id] && before.rows.count == 1 && before.known.isEmpty)
        let unchanged = write([row(0, 2)], .sparseEntitlements)
        #expect(unchanged.rows.isEmpty && unchanged.outdated.isEmpty)
    }
}
