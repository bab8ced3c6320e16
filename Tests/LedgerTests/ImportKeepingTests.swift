import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// What becomes of lines of an import, and of an export's, once they are stored. Oracle: SQL.
@Suite("Lines that are kept", .serialized, .timeLimit(.minutes(30)))
struct ImportKeepingTests {
    private static let device = Holder.anonymous("device-77aa")
    private static let ann = Holder.user("ann")
    private static let jeff = Holder.user("jeff-9f3c")
    private static let bob = Holder.user("bob")

    /// A target must keep what it acknowledges.
    private static let durable = Result { try TestCluster(durable: true) }

    /// A purchase that passes from a device to ann, to the person and to bob; one of the person alone; a login.
    private static let events: [Event] =
        [(device, 0), (ann, 100), (jeff, 200), (bob, 300)].map { holder, at in
            .stating(
                .activate(holder, seconds(Int64(at)), until: seconds(10_000)), purchase: "passed",
                transaction: "tx_1", source: "moving")
        } + [
            .stating(
                .activate(jeff, seconds(50), until: seconds(10_000)), purchase: "own", transaction: "tx_2",
                source: "moving"),
            .change(
                .move(from: [device], to: ann, isNative: false), by: ann, at: 90, source: "moving",
                links: [HolderLink(anonymousID: device.id, userID: ann.id)]),
        ]

    private static func lines(of events: [Event]) async throws -> [ImportLine] {
        var lines: [ImportLine] = []
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            for event in events { #expect(await daemon.record([event]) == [.stored]) }
            var walk = ExportWalk()
            while !walk.isDone { lines += try await walk.next(in: daemon.pool) }
        }
        return lines
    }

    private static let plain: ImportLine = {
        var stated = ImportLine.Stated(
            purchase: Purchase(
                key: "plain", kind: .subscription, store: "APPLE_APP_STORE", product: "gold", plan: nil,
                subscriptionID: nil),
            isActive: true)
        stated.links = ["tablet-12"]
        stated.transfers = [.init(from: .anonymous("tablet-12"), to: jeff, ordinal: 2)]
        return ImportLine(
            scope: Scope(source: "moving", app: "app.one", environment: "PRODUCTION"), holder: jeff, asOf: seconds(60),
            until: seconds(9_000), subject: .purchase(stated))
    }()

    private static func record(_ lines: [ImportLine], by daemon: Daemon) async throws {
        let importer = Importer(rules: Daemon.rules, in: daemon.pool)
        for outcome in try await importer.record(lines) { #expect(outcome == .recorded) }
    }

    private static var repair: Repair {
        Repair(rules: Daemon.rules, eventsKept: .seconds(400 * 86_400)) { stored in
            ImportLine.stored(stored.body).map { ReadWebhook($0.event) }
        }
    }

    @Test("Erased, a person is in no line any more; others keep what is theirs, and a second import brings nobody back")
    func erased() async throws {
        let lines = try await Self.lines(of: Self.events) + [Self.plain]
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try await Self.record(lines, by: daemon)
            let bodies = "SELECT count(*) FROM events WHERE position('jeff-9f3c'::bytea IN body) > 0"
            #expect(try ledger.psql(bodies) != "0")
            let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool)
            let tally = try await erasure.run(in: daemon.pool) { _ in }
            // Two of the person alone, and the one that passed on.
            #expect(tally.purchases == 3 && !tally.isOvertaken, "\(tally)")
            let left = try await erasure.proof.run(in: daemon.pool) { _ in }
            #expect(left.total == 0, "\(left)")
            for (table, column) in [("events", "body"), ("purchases", "state"), ("purchases", "access::text::bytea")] {
                let found = "SELECT count(*) FROM \(table) WHERE position('jeff-9f3c'::bytea IN \(column)) > 0"
                #expect(try ledger.psql(found) == "0", "\(table)")
            }
            let active = "SELECT holder FROM entitlements WHERE active"
            #expect(try ledger.psql(active) == "user:bob")
            let again = try await Importer(rules: Daemon.rules, in: daemon.pool).record(lines)
            #expect(again.allSatisfy { $0 == .known }, "\(again)")
            #expect(try ledger.psql(active) == "user:bob")
            // What was kept of the person's purchase is still readable, and stays.
            for id in try await Repair.page(after: nil, source: nil, in: daemon.pool) {
                let report = try #require(try await Self.repair.run(id, isDry: false, in: daemon.pool))
                #expect([.sound, .leftUnchanged].contains(report.verdict), "\(report)")
            }
            #expect(try ledger.psql(active) == "user:bob")
        }
    }

    @Test(
        "Whoever of a line's holders is erased, the line can be read, and gives a damaged state back",
        arguments: [[.user("zed")], [.user("zed"), ann], [.anonymous("passed")]] as [[Holder]])
    func erasedHolders(people: [Holder]) async throws {
        // In the order of ids "zed" is the last, and the word that stands for the erased in other bodies is not. The
        // id of the first is the key of the purchase, which the others need.
        let holders: [Holder] = [.anonymous("passed"), Self.ann, .user("zed"), .user("kate")]
        let events: [Event] = holders.enumerated().map { index, holder in
            .stating(
                .activate(holder, seconds(Int64(index) * 100), until: seconds(10_000)), purchase: "passed",
                transaction: "tx_1", source: "moving")
        }
        let lines = try await Self.lines(of: events)
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try await Self.record(lines, by: daemon)
            for person in people {
                let erasure = try await Erasure.start(person, source: nil, isDry: false, in: daemon.pool)
                _ = try await erasure.run(in: daemon.pool) { _ in }
                let left = try await erasure.proof.run(in: daemon.pool) { _ in }
                #expect(left.total == 0, "\(left)")
            }
            let bodies = try ledger.psql("SELECT convert_from(body, 'UTF8') FROM events ORDER BY id")
                .split(separator: "\n")
            // The third is a link of the first to the second, and of the person where it is one of them.
            #expect(bodies.filter { $0.contains(#""holder":{"user_id":"kate"},"as_of""#) }.count == 2)
            for body in bodies {
                #expect(ImportLine.stored(Array(body.utf8)) != nil, "\(body)")
                for person in people { #expect(!body.contains("\"\(person.fieldName)\":\"\(person.id)\""), "\(body)") }
            }
            let before = try ledger.picture()
            for isDamaged in [false, true] {
                if isDamaged { try ledger.damage() }
                let id = try #require(try await Repair.page(after: nil, source: nil, in: daemon.pool).first)
                let report = try #require(try await Self.repair.run(id, isDry: false, in: daemon.pool))
                let expected: RepairReport.Verdict = isDamaged ? .rebuilt : .sound
                #expect(report.verdict == expected && !report.isPartial, "\(report)")
                #expect(report.transfers.isEmpty && report.access.isEmpty, "\(report)")
                #expect(try ledger.picture() == before)
            }
        }
    }

    @Test("Once periods are dropped, the ledger knows as much, and its export, too; lines stored again change nothing")
    func pruned() async throws {
        let lines = try await Self.lines(of: Self.events) + [Self.plain]
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try await Self.record(lines, by: daemon)
            let before = try ledger.picture()
            let month = Duration.seconds(30 * 86_400)
            let upkeep = Upkeep(
                pool: daemon.pool, retention: Retention(attempts: month, events: month, duplicates: month))
            for _ in 0..<2 {
                try ledger.psql(
                    """
                    UPDATE periods SET began_at = began_at - 40 * interval '1 day';
                    UPDATE events SET received_at = received_at - 40 * interval '1 day';
                    UPDATE identities SET received_at = received_at - 40 * interval '1 day'
                    """)
                try await upkeep.beginPeriod()
            }
            try await upkeep.pruneInTheEnd()
            try await upkeep.pruneEventKeys()
            #expect(try ledger.psql("SELECT count(*) FROM events") == "0")
            #expect(try ledger.psql("SELECT count(*) FROM identities") == "0")
            #expect(try ledger.picture() == before)
            var (walk, exported): (ExportWalk, [ImportLine]) = (ExportWalk(), [])
            while !walk.isDone { exported += try await walk.next(in: daemon.pool) }
            try await TestLedger.run { other in
                let reader = try await other.daemon()
                try await Self.record(exported, by: reader)
                let states = "SELECT key, convert_from(state, 'UTF8') FROM purchases ORDER BY key"
                #expect(try other.psql(states) == ledger.psql(states))
            }
            try await Self.record(lines, by: daemon)
            #expect(try ledger.picture() == before)
        }
    }

    @Test("Moved to another database, lines are known there, and webhooks that follow have the same effect")
    func moved() async throws {
        let lines = try await Self.lines(of: Self.events) + [Self.plain]
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try await Self.record(lines, by: daemon)
            let before = try ledger.picture()
            try await daemon.queue.leave()
            let target = try await TestLedger(on: Self.durable.get(), isMigrated: false)
            let move = LedgerMove(
                from: try TestLedger.settings(ledger.connectionString),
                to: try TestLedger.settings(target.connectionString))
            guard case .moved = try await move.run(isMarked: false, beforeCommit: { nil }, goesOn: { _ in true }) else {
                Issue.record("not moved")
                return
            }
            let heir = try await target.daemon()
            #expect(try target.picture() == before)
            let again = try await Importer(rules: Daemon.rules, in: heir.pool).record(lines)
            #expect(again.allSatisfy { $0 == .known }, "\(again)")
            let refund = Event.stating(
                .deactivate(Self.bob, seconds(400), until: seconds(400)), purchase: "passed", transaction: "tx_1",
                source: "moving")
            #expect(await heir.record([refund]) == [.stored])
            let active = "SELECT DISTINCT holder FROM entitlements WHERE active"
            #expect(try target.psql(active) == "user:jeff-9f3c")
            await heir.pool.close()
        }
    }

    @Test("Repair finds lines of an export sound, and gives a damaged state back from them as it was")
    func repaired() async throws {
        let lines = try await Self.lines(of: Self.events) + [Self.plain]
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            try await Self.record(lines, by: daemon)
            let before = try ledger.picture()
            func repairAll() async throws -> [RepairReport.Verdict] {
                var verdicts: [RepairReport.Verdict] = []
                for id in try await Repair.page(after: nil, source: nil, in: daemon.pool) {
                    let report = try #require(try await Self.repair.run(id, isDry: false, in: daemon.pool))
                    #expect(!report.isPartial, "\(report)")
                    verdicts.append(report.verdict)
                }
                return verdicts
            }
            #expect(try await repairAll() == [.sound, .sound, .sound])
            try ledger.damage()
            #expect(try await repairAll() == [.rebuilt, .rebuilt, .rebuilt])
            #expect(try ledger.picture() == before)
        }
    }

    @Test("An export of a purchase whose state cannot be read says so, and has the newest word of each holder")
    func damaged() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            for event in Self.events { #expect(await daemon.record([event]) == [.stored]) }
            try ledger.damage("key = 'passed'")
            var (walk, lines): (ExportWalk, [ImportLine]) = (ExportWalk(), [])
            while !walk.isDone { lines += try await walk.next(in: daemon.pool) }
            #expect(walk.incomplete == 1)
            try await TestLedger.run { other in
                let reader = try await other.daemon()
                try await Self.record(lines, by: reader)
                let active = """
                    SELECT p.key, e.holder FROM entitlements e JOIN purchases p ON p.id = e.purchase WHERE active
                    ORDER BY 1
                    """
                #expect(try other.psql(active) == ledger.psql(active))
            }
        }
    }
}
