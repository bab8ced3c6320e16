import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: SQL, and the same words in other orders.
@Suite("Import", .serialized)
struct ImportTests {
    private static let a = Holder.anonymous("device")
    private static let ann = Holder.user("ann")

    private static func line(
        _ holder: Holder, at: Int64, until: Int64?, isActive: Bool? = true, purchase: String = "subs_1",
        app: String = "app.one", transaction: String? = "tx_1", source: String = "shop",
        kind: Purchase.Kind = .subscription, links: [String] = []
    ) -> ImportLine {
        var stated = ImportLine.Stated(
            purchase: Purchase(
                key: purchase, kind: kind, store: "APPLE_APP_STORE", product: "gold", plan: "monthly",
                subscriptionID: nil),
            isActive: isActive)
        stated.transactionID = transaction
        stated.originalTransactionID = transaction.map { _ in "tx_0" }
        stated.links = links
        return ImportLine(
            scope: Scope(source: source, app: app, environment: "PRODUCTION"), holder: holder, asOf: seconds(at),
            until: until.map { seconds($0) }, subject: .purchase(stated))
    }

    private static func importer(_ daemon: Daemon, announcingTo name: String? = nil) -> Importer {
        Importer(
            rules: Daemon.rules,
            announcingTo: name.map { RoutedIntegration(row: daemon.row($0), integration: .named($0)) },
            in: daemon.pool)
    }

    /// Who has what, what is known of transactions and links, and which transfers there are, by app.
    private static func pictures(_ ledger: TestLedger, withTransfers: Bool = true) throws -> [String: [String]] {
        let access = """
            SELECT p.app, p.source, p.key, p.kind, p.product, a.holder, a.active, a.as_of_ms
            FROM \(TestLedger.access) AS a JOIN purchases p ON p.id = a.purchase ORDER BY 2, 3, 6
            """
        let transactions = """
            SELECT p.app, p.key, t.store_transaction_id, t.effective_next_renewal_at_ms, t.as_of_ms
            FROM transactions t JOIN purchases p ON p.id = t.purchase ORDER BY 2, 3
            """
        let links = "SELECT app, anonymous_user_id, user_id FROM holder_links ORDER BY 2"
        let transfers = """
            SELECT p.app, p.key, t.from_holder, t.to_holder, t.ordinal
            FROM transfers t JOIN purchases p ON p.id = t.purchase ORDER BY 2, 3, 4, 5
            """
        var pictures: [String: [String]] = [:]
        for question in [access, transactions] + (withTransfers ? [links, transfers] : []) {
            for row in try ledger.psql(question).split(separator: "\n") {
                let parts = row.split(separator: "|", maxSplits: 1)
                pictures[String(parts[0]), default: []].append(String(parts[1]))
            }
        }
        return pictures
    }

    private static func picture(_ ledger: TestLedger) throws -> [String] {
        try pictures(ledger)["app.one"] ?? []
    }

    private enum Word {
        case webhook(Event)
        case line(ImportLine)
    }

    /// What is said of one purchase, in one app: a device buys, a user logs in and renews; two lines say so, too.
    private static func history(in app: String) -> [Word] {
        func webhook(_ fact: Fact, _ transaction: String) -> Word {
            .webhook(.stating(fact, transaction: transaction, app: app))
        }
        return [
            webhook(.activate(a, seconds(0), until: seconds(1_000)), "tx_1"),
            .line(line(a, at: 100, until: 1_000, app: app)),
            webhook(.deactivate(a, seconds(505), until: seconds(1_000)), "tx_1"),
            .line(line(ann, at: 600, until: 2_000, app: app, transaction: "tx_2")),
            webhook(.activate(ann, seconds(800), until: seconds(2_000)), "tx_2"),
        ]
    }

    @Test("Webhooks before, between and behind the lines give one state in all 120 orders")
    func orders() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let importer = Self.importer(daemon)
            let histories = permutations(Array(0..<5)).enumerated().map { number, order in
                let history = Self.history(in: "app.\(number)")
                return order.map { history[$0] }
            }
            try await Self.play(histories, daemon, importer)
            let found = try Self.pictures(ledger)
            #expect(found.count == 120)
            let pictures = Set(found.values)
            #expect(pictures.count == 1, "\(pictures)")
            let picture = try #require(pictures.first)
            #expect(picture.contains { $0.contains("user:ann|t|") }, "\(picture)")
            #expect(picture.contains { $0.contains("anon:device|f|") }, "\(picture)")
            #expect(picture.contains("subs_1|anon:device|user:ann|1"), "\(picture)")
        }
    }

    /// Records the first words of all histories, then the second ones, and so on: they concern different purchases.
    private static func play(_ histories: [[Word]], _ daemon: Daemon, _ importer: Importer) async throws {
        for round in histories[0].indices {
            var (events, lines): ([Event], [ImportLine]) = ([], [])
            for history in histories {
                switch history[round] {
                case .webhook(let event): events.append(event)
                case .line(let line): lines.append(line)
                }
            }
            #expect(await daemon.record(events).allSatisfy { $0 == .stored })
            #expect(try await importer.record(lines).allSatisfy { $0 == .recorded })
        }
    }

    private typealias Said = (isLine: Bool, isGain: Bool, holder: Holder, at: Int64)

    /// Random words of three holders about one purchase. Which transfers are announced may depend on the order where
    /// a third holder comes late (Domain.md, "Invariants"); who has access never does.
    @Test("Whatever is said, access is the same in every order of webhooks and lines")
    func randomOrders() async throws {
        var dice = Dice(state: 1)
        let sets = (0..<12).map { _ in
            (0..<4).map { number -> Said in
                (
                    isLine: number == 0 || dice.chance(50), isGain: number == 1 || dice.chance(70),
                    holder: [Self.a, Self.ann, .user("bob")].randomElement(using: &dice) ?? Self.a,
                    at: Int64(number) * 500 + Int64.random(in: 0..<400, using: &dice)
                )
            }
        }
        let orders = sets.map { permutations($0) }
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let histories = orders.indices.flatMap { set in
                orders[set].indices.map { order in
                    orders[set][order].map { Self.word($0, in: "app.\(set).\(order)") }
                }
            }
            try await Self.play(histories, daemon, Self.importer(daemon))
            let found = try Self.pictures(ledger, withTransfers: false)
            #expect(found.count == sets.count * 24)
            for (set, words) in sets.enumerated() {
                let pictures = Set(found.filter { $0.key.hasPrefix("app.\(set).") }.values)
                #expect(pictures.count == 1, "\(pictures) of \(words)")
            }
        }
    }

    private static func word(_ said: Said, in app: String) -> Word {
        if said.isLine {
            return .line(line(said.holder, at: said.at, until: 5_000, isActive: said.isGain, app: app))
        }
        let fact = Fact(
            kind: said.isGain ? .gain : .loss, holder: said.holder, at: seconds(said.at), until: seconds(5_000))
        return .webhook(.stating(fact, app: app))
    }

    @Test("Imported twice, in another order and in other batches, nothing changes and nobody is sent anything")
    func twice() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let importer = Self.importer(daemon)
            let lines = (0..<20).map { number in
                Self.line(Self.ann, at: 10, until: 1_000, purchase: "subs_\(number)", links: ["device_\(number)"])
            }
            #expect(try await importer.record(lines) == lines.map { _ in .recorded })
            let before = try Self.picture(ledger)
            #expect(try await importer.record(lines.reversed()) == lines.map { _ in .known })
            #expect(try await importer.record([lines[3], lines[3]]) == [.known, .known])
            let fresh = Self.line(Self.ann, at: 11, until: 1_000)
            #expect(try await importer.record([fresh, lines[0], fresh]) == [.recorded, .known, .known])
            #expect(try ledger.psql("SELECT count(*), count(DISTINCT key) FROM events") == "21|21")
            #expect(try ledger.psql("SELECT count(*) FROM messages") == "0")
            #expect(try ledger.psql("SELECT count(*) FROM deliveries") == "0")
            #expect(before.contains("device_19|ann"), "\(before)")
            let links = before.filter { $0.contains("device_") }
            #expect(try Self.picture(ledger).filter { $0.contains("device_") } == links)
        }
    }

    @Test("A line that is older than what is known takes nothing back")
    func stale() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let day: Int64 = 86_400
            await daemon.record([
                .stating(.activate(Self.ann, seconds(100 * day), until: seconds(130 * day)), transaction: "tx_9")
            ])
            let before = try Self.picture(ledger)
            let old = Self.line(Self.ann, at: 60 * day, until: nil, isActive: false)
            #expect(try await Self.importer(daemon).record([old]) == [.recorded])
            let after = try Self.picture(ledger)
            #expect(after.first == before.first && after.first?.contains("user:ann|t|") == true, "\(after)")
        }
    }

    @Test("A transfer that only a line shows has its ordinal, and is announced only to whom it is asked for")
    func transfer() async throws {
        for announced in [nil, "asked"] {
            try await TestLedger.run { ledger in
                let daemon = try await ledger.daemon([.named("asked"), .named("other")])
                await daemon.record([.stating(.activate(Self.a, seconds(0), until: seconds(1_000)))])
                try ledger.psql("DELETE FROM deliveries; DELETE FROM messages")
                let line = Self.line(Self.ann, at: 500, until: 1_000)
                #expect(try await Self.importer(daemon, announcingTo: announced).record([line]) == [.recorded])
                #expect(
                    try ledger.psql(
                        "SELECT t.ordinal, e.name FROM transfers t JOIN events e ON e.id = t.event")
                        == "1|posthouse.import")
                let row = daemon.row("asked")
                let types = ["SUBSCRIPTION_RECEIVED|\(row)", "SUBSCRIPTION_TRANSFERRED|\(row)"]
                #expect(
                    try ledger.psql("SELECT type, integrations FROM messages ORDER BY type")
                        == (announced == nil ? "" : types.joined(separator: "\n")))
                #expect(
                    try ledger.psql("SELECT DISTINCT integration FROM deliveries")
                        == (announced == nil ? "" : "\(row)"))
                // The webhooks of the same transfer, later: nobody else is told of it.
                await daemon.record([
                    .stating(.received(Self.ann, from: Self.a, seconds(500), until: seconds(1_000)))
                ])
                #expect(try ledger.psql("SELECT count(*) FROM transfers") == "1")
                #expect(
                    try ledger.psql("SELECT count(*) FROM messages WHERE type LIKE 'SUBSCRIPTION_%'")
                        == (announced == nil ? "0" : "2"))
                var backfill = try await Backfill.start(
                    RoutedIntegration(row: daemon.row("other"), integration: .named("other")),
                    since: Timestamp(milliseconds: 0), until: nil, in: daemon.pool)
                let wanted = try await backfill.step(isDry: true, in: daemon.pool)
                #expect(wanted == 0)
            }
        }
    }

    @Test("A stated ordinal numbers the transfers after it, and stating it again changes nothing")
    func ordinals() async throws {
        for source in ["shop", "shared"] {
            try await TestLedger.run { ledger in
                let daemon = try await ledger.daemon()
                let plain = Self.line(Self.a, at: 0, until: 1_000, source: source)
                guard case .purchase(var stated) = plain.subject else { return }
                stated.transfers = [.init(from: Self.a, to: Self.ann, ordinal: 3)]
                func line(_ at: Int64) -> ImportLine {
                    ImportLine(
                        scope: plain.scope, holder: Self.a, asOf: seconds(at), until: seconds(1_000),
                        subject: .purchase(stated))
                }
                #expect(try await Self.importer(daemon).record([line(0)]) == [.recorded])
                #expect(try await Self.importer(daemon).record([line(1)]) == [.recorded])
                #expect(try ledger.psql("SELECT ordinal FROM transfers ORDER BY 1") == "1\n2\n3")
                #expect(try ledger.psql("SELECT holder FROM entitlements WHERE active") == "anon:device")
                if source == "shop" {
                    await daemon.record([
                        .stating(.received(Self.ann, from: Self.a, seconds(500), until: seconds(1_000)))
                    ])
                    #expect(try ledger.psql("SELECT max(ordinal) FROM transfers") == "4")
                }
            }
        }
    }

    @Test("Compared with the ledger: new, the same, different")
    func comparison() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let line = Self.line(Self.ann, at: 0, until: 1_000, links: ["device"])
            let absent = Self.line(Self.ann, at: 0, until: 1_000, purchase: "subs_2")
            #expect(try await ImportComparison.read([line], in: daemon.pool) == [.new])
            _ = try await Self.importer(daemon).record([line])
            let longer = Self.line(Self.ann, at: 5, until: 2_000)
            let ended = Self.line(Self.ann, at: 5, until: 1_000, isActive: false)
            func link(_ user: String) -> ImportLine {
                ImportLine(
                    scope: line.scope, holder: Self.a, asOf: seconds(9), until: nil,
                    subject: .link(user: user, isFirst: false))
            }
            let found = try await ImportComparison.read(
                [longer, link("ann"), line, absent, link("bob"), ended], in: daemon.pool)
            var known = ImportComparison.Known(isActive: true, until: seconds(1_000), product: "gold", plan: "monthly")
            #expect(
                found == [
                    .different(known), .same, .same, .new, .different(.init(user: "ann")), .different(known),
                ])
            known.isActive = nil
            let other = Self.line(.user("bob"), at: 5, until: 1_000)
            #expect(try await ImportComparison.read([other], in: daemon.pool) == [.different(known)])
            #expect(try ledger.psql("SELECT count(*) FROM events") == "1")
        }
    }

    @Test("A line whose purchase somebody holds is left out; those before and behind it are recorded")
    func held() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon(
                settings: TestLedger.settings(ledger.connectionString, lockWait: .milliseconds(200)))
            let importer = Self.importer(daemon)
            func lines(at time: Int64) -> [ImportLine] {
                (0..<3).map { Self.line(Self.ann, at: time, until: 1_000, purchase: "p\($0)", transaction: "t\($0)") }
            }
            #expect(try await importer.record(lines(at: 0)).allSatisfy { $0 == .recorded })
            let reasons = try await ledger.during("SELECT 1 FROM purchases WHERE key = 'p1' FOR UPDATE") {
                var reasons: [String?] = []
                // A busy machine may be slower than the time-outs of what is tried apart.
                for _ in 0..<5 where reasons.count(where: { $0 != nil }) != 1 {
                    reasons = try await importer.record(lines(at: 10)).map { outcome in
                        if case .failed(let reason) = outcome { reason } else { nil }
                    }
                }
                return reasons
            }
            #expect(reasons.map { $0 != nil } == [false, true, false], "\(reasons)")
            #expect(reasons.contains { $0?.contains("55P03") == true }, "\(reasons)")
            #expect(try ledger.psql("SELECT count(*) FROM events") == "5")
            #expect(try await importer.record(lines(at: 10)) == [.known, .recorded, .known])
        }
    }

    @Test("A ledger without a table ends the import: that is of no line")
    func withoutTable() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try ledger.psql("ALTER TABLE purchases RENAME TO elsewhere")
            let lines = (0..<3).map { Self.line(Self.ann, at: 0, until: 1_000, purchase: "p\($0)") }
            let importer = Self.importer(daemon)
            await #expect(throws: DatabaseError.self) { _ = try await importer.record(lines) }
        }
    }

    @Test("A line of a purchase whose state cannot be read waits in quarantine; after a repair all is well")
    func damaged() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let importer = Self.importer(daemon)
            let lines = [Self.line(Self.a, at: 0, until: 1_000), Self.line(Self.ann, at: 500, until: 1_000)]
            _ = try await importer.record(lines)
            let before = try ledger.picture()
            try ledger.damage()
            let late = Self.line(Self.ann, at: 700, until: 2_000)
            let outcomes = try await importer.record([late])
            guard case .setAside = outcomes.first else { throw DatabaseError.protocolViolation(reason: "\(outcomes)") }
            #expect(try ledger.psql("SELECT convert_from(body, 'UTF8') FROM quarantine").contains("posthouse.import"))
            let repair = Repair(rules: Daemon.rules, eventsKept: .seconds(400 * 86_400)) { stored in
                ImportLine.stored(stored.body).map { ReadWebhook($0.event) }
            }
            let id = try #require(try await Repair.named("subs_1", source: nil, in: daemon.pool).first)
            let report = try #require(try await repair.run(id, isDry: false, in: daemon.pool))
            #expect(report.verdict == .rebuilt && !report.isPartial, "\(report)")
            #expect(try ledger.picture() == before)
        }
    }
}
