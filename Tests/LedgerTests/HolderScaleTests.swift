import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// What a change of a holder costs does not grow with the changes before it, nor with the others of its batch. Counts
/// what is read and tried, and no seconds.
@Suite("Many changes of holders", .serialized)
struct HolderScaleTests {
    private static let scope = Scope(source: "moving", app: "app.one", environment: "PRODUCTION")
    private static let (a, b, c) = (Holder.user("a"), Holder.user("b"), Holder.user("c"))

    private static func login(_ from: Holder, _ to: Holder, at: Int64, isNative: Bool = false) -> Event {
        Event(
            scope: scope, vendorEventID: nil, name: "LOGIN \(from) \(to)", type: "LOGIN", holder: to,
            occurredAt: seconds(at), purchase: nil, transaction: nil,
            change: .move(from: [from], to: to, isNative: isNative), body: Array("{}".utf8))
    }

    private static func gain(_ holder: Holder, _ purchase: String, at: Int64) -> Event {
        .sample(
            "ACTIVATE", holder: holder, at: seconds(at), purchase: purchase, transaction: "t-\(purchase)",
            source: "moving", fact: .activate(holder, seconds(at), until: seconds(1_000_000)))
    }

    /// What one more event would read and try, beside what is stored.
    private func cost(of event: Event, _ ledger: TestLedger) async throws -> (read: Int, tried: Int) {
        let connection = try await ledger.connect()
        let cost = try await connection.withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                let recording = BatchRecording(
                    routes: RouteTable(), rules: Daemon.rules, dispatchBuffer: DispatchBuffer(), daemon: nil,
                    ledgerForm: .current, mode: .insertIfAbsent)
                recording.changing.add([event.scope.source])
                var batch = EventBatch([event], in: .current)
                let reads = try BatchReads(batch.firsts, of: recording, on: session)
                let purchases = try reads.loadPurchases(on: session)
                batch.databaseTime = event.occurredAt
                batch.assignIDs(stored: purchases.ids)
                batch.dispositions[batch.all[0].key] = .new(row: 1)
                let (newEvents, named) = (batch.newEvents, batch)
                let holders = try reads.loadHolders(on: session) { named.id(ofPurchase: $0) }
                let plan = try purchases.plan(holders, rules: Daemon.rules, in: .current, on: session) {
                    for new in newEvents { $0.add(new) }
                }
                return (plan.holders.changes.count, plan.changesTried)
            }
        }
        await connection.close()
        return cost
    }

    @Test("Three hundred logins at once are one batch, and each moves what its device holds", .timeLimit(.minutes(30)))
    func logins() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let devices = (0..<300).map { Holder.anonymous("d\($0)") }
            await daemon.record(devices.enumerated().map { Self.gain($1, "s\($0)", at: 0) })
            let answers = await daemon.record(devices.enumerated().map { Self.login($1, .user("u\($0)"), at: 100) })
            #expect(answers == [RecordQueue.Answer](repeating: .stored, count: 300))
            #expect(try ledger.psql("SELECT count(*) FROM transfers") == "300")
            #expect(try ledger.psql("SELECT count(*) FROM entitlements WHERE active AND holder LIKE 'user:%'") == "300")
            #expect(try ledger.psql("SELECT count(DISTINCT xmin::text) FROM holder_changes") == "1")
        }
    }

    @Test("After a thousand logins of one device one more webhook reads and tries what the first one did")
    func oneDevice() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let device = Holder.anonymous("device")
            await daemon.record([Self.gain(device, "s1", at: 0)])
            for start in stride(from: 0, to: 1_000, by: 250) {
                await daemon.record(
                    (start..<start + 250).map { Self.login(device, .user("u\($0)"), at: 100 + Int64($0)) })
            }
            #expect(try ledger.psql("SELECT count(*) FROM holder_changes") == "1000")
            #expect(try ledger.psql("SELECT from_holder, to_holder FROM transfers") == "anon:device|user:u0")
            let renewal = try await cost(of: Self.gain(device, "s1", at: 5_000), ledger)
            #expect(renewal.read == 0 && renewal.tried == 0)
            let bought = try await cost(of: Self.gain(device, "s2", at: 50), ledger)
            #expect(bought.read <= 8 && bought.tried == 1)
            let login = try await cost(of: Self.login(device, .user("last"), at: 6_000), ledger)
            #expect(login.read == 1 && login.tried == 1)
            let late = try await cost(of: Self.login(device, .user("late"), at: 90), ledger)
            #expect(late.read <= 9 && late.tried <= 2)
        }
    }

    @Test("What one webhook moves beyond a limit follows in steps, each purchase once, whoever takes the steps")
    func steps() async throws {
        try await TestLedger.run { ledger in
            let first = try await ledger.daemon([.named("all")], changePurchasesMax: 3)
            let second = try await ledger.daemon([.named("all")], changePurchasesMax: 3)
            first.open("all")
            await first.record((0..<20).map { Self.gain(Self.a, "p\($0)", at: 0) })
            let moves = [
                Self.login(Self.a, Self.b, at: 100, isNative: true),
                Self.login(Self.b, Self.c, at: 200, isNative: true),
            ]
            for move in moves { #expect(await first.record([move]) == [.stored]) }
            // A webhook of a purchase that may not have moved yet.
            #expect(await second.record([Self.gain(Self.c, "p7", at: 300)]) == [.stored])
            @Sendable func finish(_ daemon: Daemon) async -> Int {
                let recorder = daemon.recorder(RecordQueue())
                for step in 0..<100 where await !recorder.continueChange() { return step }
                return 100
            }
            async let one = finish(first)
            async let two = finish(second)
            #expect(await max(one, two) < 100)
            #expect(await finish(first) == 0)
            #expect(try ledger.psql("SELECT count(*), count(applied_through) FROM holder_changes") == "2|0")
            #expect(
                try ledger.psql("SELECT count(DISTINCT holder), max(holder), count(*) FROM entitlements WHERE active")
                    == "1|user:c|20")
            let transfers = """
                SELECT from_holder, to_holder, count(*), max(ordinal), count(DISTINCT event) FROM transfers
                GROUP BY 1, 2 ORDER BY 1
                """
            #expect(
                try ledger.psql(transfers).split(separator: "\n").map { $0.dropLast(2) }
                    == ["user:a|user:b|20|1", "user:b|user:c|20|1"])
            #expect(try ledger.psql("SELECT count(*) FROM messages WHERE transfer IS NOT NULL") == "80")
            #expect(try ledger.psql("SELECT count(*) FROM messages WHERE derived_body IS NOT NULL") == "80")
            let unsettled = "SELECT count(*), count(DISTINCT message) FROM deliveries"
            #expect(try ledger.psql(unsettled) == "103|103")
            #expect(first.log.warnings + second.log.warnings == [])
        }
    }

    @Test("What no webhook can come late enough for is forgotten, in steps; what is not finished stays")
    func pruning() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let age = Limits.retryHorizonMilliseconds / 1_000 + 60
            let times = [("old", age, age), ("late", age, 60), ("ahead", 60, age), ("unfinished", age, age)]
            for (name, event, arrival) in times {
                try ledger.psql(
                    """
                    INSERT INTO holder_changes (source, app, environment, subject, kind, target, at_ms, event,
                                                applied_through, received_at)
                    VALUES ('moving', '', '', 'anon:\(name)', 'login', 'user:u',
                            extract(epoch FROM now() - interval '\(event) s') * 1000, 1,
                            \(name == "unfinished" ? "gen_random_uuid()" : "NULL"), now() - interval '\(arrival) s')
                    """)
            }
            let day = Duration.seconds(86_400)
            let retention = Retention(attempts: day * 30, events: day * 30, duplicates: day * 30)
            try await Upkeep(pool: daemon.pool, retention: retention, alwaysNaming: ["moving"]).prune()
            let left = try ledger.psql("SELECT subject FROM holder_changes ORDER BY id")
            #expect(left == "anon:late\nanon:ahead\nanon:unfinished")
        }
    }
}
