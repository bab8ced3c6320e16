import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL, and what the test recorded, by hand.
@Suite("Access that lapsed", .serialized)
struct LapseTests {
    private static let hour: Int64 = 3_600_000
    private static let leeways = Leeways([
        .leaving("shop", .lasting(10 * hour)), .leaving("store", .lasting(10 * hour)), .leaving("moving", .off),
    ])
    private static let byIntegration = """
        SELECT i.name, count(*) FROM deliveries d JOIN integrations i ON i.id = d.integration
            JOIN messages m ON m.id = d.message
        WHERE m.type = 'posthouse.access.lapsed' GROUP BY i.name ORDER BY i.name
        """

    private func lapses(_ daemon: Daemon) -> Lapses {
        Lapses(pool: daemon.pool, routes: daemon.routes, leeways: Self.leeways)
    }

    /// As if all integrations had been configured for long, but some since so many hours.
    private func age(_ ledger: TestLedger, _ hours: [String: Int] = [:]) throws {
        try ledger.psql("UPDATE integrations SET created_at = now() - interval '30 days'")
        for (name, hours) in hours {
            try ledger.psql(
                "UPDATE integrations SET created_at = now() - interval '\(hours) hours' WHERE name = '\(name)'")
        }
    }

    @Test("The configuration knows the type of every relay message")
    func types() {
        #expect(RelayMessage.Kind.allCases.map(\.rawValue) + [Lapses.type] == StandardTypes.relay)
    }

    @Test("A lapse is sent once for each end, to whom it is of and who names it, and access stays as stored")
    func once() async throws {
        try await TestLedger.run { ledger in
            let named = ["posthouse.access.lapsed"]
            let daemon = try await ledger.daemon([
                .named("a", events: named), .named("all"), .named("ops", events: ["posthouse.*"]),
                .named("late", events: ["posthouse.access.*"]),
                .named("sandbox", events: named, environments: ["SANDBOX"]),
                .named("moving", events: named, sources: ["moving"]),
            ])
            try age(ledger, ["late": 9])
            let now = try ledger.now()
            func at(_ hours: Int64) -> Timestamp { now.advanced(byMilliseconds: hours * Self.hour) }
            let restore = Event(
                scope: Scope(source: "store", app: "app.one", environment: "PRODUCTION"), vendorEventID: nil,
                name: "RESTORED", type: "RESTORED", holder: .device, occurredAt: at(-25), purchase: nil,
                transaction: nil,
                change: .restore(install: Holder.device.id, transactions: ["g"], strategy: .transfer),
                body: Array("{}".utf8))
            await daemon.record([
                .paying(
                    otherUser, from: at(-90), until: at(-30), transaction: "g", purchase: "restored", source: "store"),
                restore,
                .paying(user, from: at(-90), until: at(-20), transaction: "a", purchase: "lapsed"),
                .paying(user, from: at(-90), until: at(-5), transaction: "b", purchase: "active"),
                .paying(user, from: at(-90), until: at(5), transaction: "c", purchase: "running"),
                .paying(user, from: at(-90), until: at(-40), transaction: "d", purchase: "off", source: "moving"),
                .paying(
                    user, from: at(-90), until: at(-30), transaction: "e", purchase: "test", environment: "SANDBOX"),
                .paying(user, from: at(-90), until: at(-50), transaction: "f", purchase: "ended"),
                .stating(.deactivate(user, at(-49)), purchase: "ended", transaction: "f"),
            ])
            let rows = try ledger.psql("SELECT * FROM entitlements ORDER BY purchase, holder")
            #expect(try await lapses(daemon).announce() == 3)
            #expect(try await lapses(daemon).announce() == 0)
            #expect(try ledger.psql(Self.byIntegration) == "a|3\nsandbox|1")
            #expect(try ledger.psql("SELECT * FROM entitlements ORDER BY purchase, holder") == rows)

            daemon.open("a")
            let messages = try await daemon.claimAll("a").map(\.message)
            let texts = messages.map { String(decoding: $0.envelope, as: UTF8.self) }
            #expect(texts.count == 3 && texts.count { $0.contains(#""user_id":"jeff""#) } == 2)
            // Whoever restored it while it was overdue.
            let restored = try #require(texts.first { $0.contains(#""key":"restored""#) })
            #expect(restored.contains(#""anonymous_user_id":"\#(Holder.device.id)""#))
            let text = try #require(texts.first { $0.contains(#""key":"lapsed""#) })
            #expect(text.hasPrefix(#"{"type":"posthouse.access.lapsed","timestamp":"\#(at(-10).iso8601)""#))
            #expect(text.contains(#""store_transaction_id":"a""#) && text.contains(#""environment":"PRODUCTION""#))
            let message = try #require(messages.first { $0.purchaseKey == "lapsed" })
            #expect(message.source == "shop" && message.type == Lapses.type)
            let body = String(decoding: message.original, as: UTF8.self)
            #expect(body.contains(at(-20).iso8601) && body.contains(#""leeway_ms":36000000"#))

            // It proves wrong; then the next end lapses, too.
            await daemon.record([.paying(user, from: at(-20), until: at(20), transaction: "a2", purchase: "lapsed")])
            #expect(try await lapses(daemon).announce() == 0)
            await daemon.record([.paying(user, from: at(-19), until: at(-11), transaction: "a3", purchase: "lapsed")])
            #expect(try await lapses(daemon).announce() == 1)
            #expect(try ledger.psql(Self.byIntegration) == "a|4\nlate|1\nsandbox|1")
        }
    }

    @Test("Of several daemons at once, each lapse is announced by one")
    func together() async throws {
        try await TestLedger.run { ledger in
            let integrations = [Integration.named("a", events: ["posthouse.access.*"])]
            let (one, two) = (try await ledger.daemon(integrations), try await ledger.daemon(integrations))
            try age(ledger)
            let end = try ledger.now().advanced(byMilliseconds: -20 * Self.hour)
            let count = Int(Lapses.stepMax) + 50
            await one.record(
                (0..<count).map {
                    .paying(user, from: seconds(0), until: end, transaction: "t\($0)", purchase: "subs_\($0)")
                })
            async let first = lapses(one).announce()
            async let second = lapses(two).announce()
            let announced = try await first + second
            #expect(announced == count)
            #expect(try ledger.psql(Self.byIntegration) == "a|\(count)")
            let keys = "SELECT count(DISTINCT key) FROM messages WHERE type = 'posthouse.access.lapsed'"
            #expect(try ledger.psql(keys) == "\(count)")
        }
    }

    @Test("A lapse waits for the purchase's message before it; an erasure removes it")
    func orderAndErasure() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a", events: ["*", "posthouse.access.lapsed"])])
            try age(ledger)
            let end = try ledger.now().advanced(byMilliseconds: -20 * Self.hour)
            await daemon.record([.paying(user, from: seconds(0), until: end, transaction: "t")])
            #expect(try await lapses(daemon).announce() == 1)
            #expect(
                try ledger.psql(
                    """
                    SELECT m.type, d.blocked FROM deliveries d JOIN messages m ON m.id = d.message ORDER BY d.id
                    """) == "ACTIVATE|f\nposthouse.access.lapsed|t")
            let erasure = try await Erasure.start(user, source: nil, isDry: false, in: daemon.pool)
            _ = try await erasure.run(in: daemon.pool) { _ in }
            #expect(try ledger.psql("SELECT count(*) FROM events WHERE holder = 'user:jeff'") == "0")
            #expect(
                try ledger.psql("SELECT count(*) FROM messages WHERE convert_from(envelope, 'UTF8') LIKE '%jeff%'")
                    == "0")
        }
    }

    @Test("A purchase that only somebody erased has is not overdue, and no lapse of it is announced")
    func erased() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a", events: ["posthouse.access.lapsed"])])
            try age(ledger)
            let end = try ledger.now().advanced(byMilliseconds: -20 * Self.hour)
            let events = ["left", "kept"].map {
                Event.paying(user, from: seconds(0), until: end, transaction: "of \($0)", purchase: $0)
            }
            await daemon.record(events)
            // As the next webhook of a purchase that had moved to the person writes it.
            try ledger.psql(
                """
                UPDATE entitlements SET holder = 'anon:erased-0123456789abcdef'
                WHERE purchase = (SELECT id FROM purchases WHERE key = 'left')
                """)
            let overdue = try await OverduePurchase.read(limit: 10, leeways: Self.leeways, from: daemon.pool)
            #expect(overdue.entries.map(\.purchase) == ["kept"])
            let figures = try await OverdueFigures.read(leeways: Self.leeways, from: daemon.pool)
            #expect(
                figures == [OverdueFigures(source: "shop", environment: "PRODUCTION", active: 0, lapsed: 1)])
            #expect(try await lapses(daemon).announce() == 1)
            #expect(try ledger.psql(Self.byIntegration) == "a|1")
        }
    }

    @Test("A repair takes a lapse for no webhook of its purchase")
    func repaired() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a", events: ["posthouse.access.lapsed"])])
            try age(ledger)
            let readings = Readings()
            let end = try ledger.now().advanced(byMilliseconds: -20 * Self.hour)
            await ledger.record(
                [.paying(user, from: seconds(0), until: end, transaction: "t")], by: daemon, readings)
            #expect(try await lapses(daemon).announce() == 1)
            let reports = try await ledger.repairAll(readings, isDry: true, by: daemon)
            #expect(reports.map(\.verdict) == [.sound])
        }
    }

    @Test("A grant of the app's backend lapses at its end, is announced, and is not kept for long")
    func granted() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a", events: ["posthouse.access.lapsed"])])
            try age(ledger)
            let now = try ledger.now()
            let month = Duration.seconds(30 * 86_400)
            let upkeep = Upkeep(
                pool: daemon.pool, retention: Retention(attempts: month, events: month, duplicates: month))
            for (hours, kept) in [(1, "1"), (25, "0")] as [(Int64, String)] {
                try ledger.psql("DELETE FROM purchase_ends")
                let event = Event.paying(
                    user, from: seconds(0), until: now.advanced(byMilliseconds: -hours * Self.hour),
                    transaction: "t\(hours)")
                let granted = Purchase(
                    key: "manual:\(hours)", kind: .oneTime, store: Purchase.manualStore, product: "plus", plan: nil,
                    subscriptionID: nil)
                await daemon.record([event.with(purchase: granted)])
                #expect(try await lapses(daemon).announce() == 1)
                try await upkeep.pruneEnds()
                #expect(try ledger.psql("SELECT count(*) FROM purchase_ends") == kept)
            }
            #expect(try await OverduePurchase.read(limit: 10, leeways: Self.leeways, from: daemon.pool).entries.isEmpty)
        }
    }

    @Test("Nobody asks: nothing is read, written or noted")
    func nobody() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all"), .named("ops", events: ["posthouse.*"])])
            try age(ledger)
            let end = try ledger.now().advanced(byMilliseconds: -20 * Self.hour)
            await daemon.record([.paying(user, from: seconds(0), until: end, transaction: "t")])
            #expect(try await lapses(daemon).announce() == 0)
            #expect(try ledger.psql("SELECT count(lapsed_ms) FROM purchases") == "0")
        }
    }
}

/// Oracle: the manual, case by case (posthouse-messages(7), "Access that lapsed").
@Suite("To whom a lapse is announced")
struct LapseRuleTests {
    struct Case: Sendable {
        var until: Int64? = 800
        var announced: Int64?
        var leeway = Leeway.lasting(100)
        var store = "STRIPE"
        var createdAt: Int64 = 0
        var events = ["posthouse.access.lapsed"]
        var sources: [String] = []
        var environments: [String] = []
        let isSent: Bool
    }

    /// The time is 1,000.
    static let cases = [
        Case(isSent: true),
        Case(until: 900, isSent: true),
        Case(until: 901, isSent: false),
        Case(until: nil, isSent: false),
        Case(leeway: .off, isSent: false),
        Case(until: 999, store: Purchase.manualStore, isSent: true),
        Case(announced: 800, isSent: false),
        Case(announced: 700, isSent: true),
        Case(createdAt: 899, isSent: true),
        Case(createdAt: 900, isSent: false),
        Case(events: ["*"], isSent: false),
        Case(events: ["posthouse.*"], isSent: false),
        Case(events: ["posthouse.integration.*"], isSent: false),
        Case(events: ["*", "posthouse.access.*"], isSent: true),
        Case(sources: ["shop"], environments: ["PRODUCTION"], isSent: true),
        Case(sources: ["other"], isSent: false),
        Case(environments: ["SANDBOX"], isSent: false),
    ]

    @Test("Once for each end, after the leeway, to who was there and names it", arguments: cases)
    func rule(_ row: Case) {
        let access = TimedAccess(
            isGranted: true, until: row.until.map { Timestamp(milliseconds: $0) }, store: row.store, leeway: row.leeway)
        let integration = Integration.named(
            "a", events: row.events, environments: row.environments, sources: row.sources)
        let receiver = LapseReceiver(
            route: RoutedIntegration(row: 1, integration: integration),
            createdAt: Timestamp(milliseconds: row.createdAt))
        let receivers = Lapse.receivers(
            of: access, announced: row.announced.map { Timestamp(milliseconds: $0) },
            scope: Scope(source: "shop", app: "", environment: "PRODUCTION"), at: Timestamp(milliseconds: 1_000),
            among: [receiver])
        #expect(receivers.map(\.row) == (row.isSent ? [1] : []))
    }

    /// posthouse-operate(7), "Backup". Hours since the backup, which is restored after a day.
    @Test("After a restore the source's own leeway and the backup's age hold a lapse back; the age alone does not")
    func restored() {
        let hour: Int64 = 3_600_000
        let own = SourceKind.googlePlay.traits.leeway.milliseconds ?? 0
        // The platform still tried to charge at the backup.
        func isActive(_ leeway: Leeway, store: String = "GOOGLE_PLAY_STORE") -> Bool {
            TimedAccess(
                isGranted: true, until: Timestamp(milliseconds: -30 * hour), store: store, leeway: leeway
            ).isActive(at: Timestamp(milliseconds: 24 * hour))
        }
        #expect(isActive(.lasting(own + 48 * hour)))
        #expect(!isActive(.lasting(48 * hour)), "the age and a day alone are less than what it has")
        #expect(!isActive(.lasting(7 * 24 * hour), store: Purchase.manualStore), "a grant has no leeway")
    }
}
