import Foundation
import Postgres
import Synchronization
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: what the API reads of the same holder, and psql.
@Suite("What a holder has, in its messages", .serialized, .timeLimit(.minutes(30)))
struct AccessInMessageTests {
    private static let hour: Int64 = 3_600_000

    private static let stored = Statement<Int64, (Int64, String?)>(
        "test_access_stored", "SELECT id, convert_from(access, 'UTF8') FROM messages WHERE id > $1 ORDER BY id")

    /// `data.access` of the messages behind one, in their order; nil: it is not stored.
    private func access(_ daemon: Daemon, after id: inout Int64) async throws -> [[Listed]?] {
        let last = id
        let rows = try await daemon.pool.withSession { session throws(DatabaseError) in
            try session.run(Self.stored, last)
        }
        id = rows.last?.0 ?? id
        return try rows.map { _, text in try text.map { try Listed.read($0) } }
    }

    private func access(_ daemon: Daemon) async throws -> [[Listed]?] {
        var id: Int64 = 0
        return try await access(daemon, after: &id)
    }

    private func entries(
        of holder: Holder, source: String, environment: String, leeways: Leeways = .off, _ daemon: Daemon
    ) async throws -> [Listed.Entry] {
        let lookup = HolderLookup(pool: daemon.pool, leeways: leeways)
        let scope = LookupScope(environment: environment, source: source)
        return try await lookup.entitlements(of: .holder(holder), in: scope).entries.map(Listed.Entry.init)
    }

    // MARK: The list

    @Test(
        "Random histories: each message has what the API answers then of its holder, and of both sides of a transfer",
        arguments: ["shop", "moving", "shared", "store"])
    func histories(source: String) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("state", order: .none, include: [.access])])
            var dice = Dice(state: 15)
            var last: Int64 = 0
            var (lists, purchases) = (0, 0)
            for number in 0..<15 {
                let environment = "E\(number)"
                // Of each holder the list of the highest version, as a receiver keeps it.
                var kept: [Holder: Listed] = [:]
                for event in RepairPropertyTests.history(source, environment, &dice) {
                    await daemon.record([event])
                    let messages = try await access(daemon, after: &last)
                    // Of a native that announces nothing new there is no message.
                    if messages.isEmpty { kept = [:] }
                    for access in messages {
                        for listed in try #require(access) {
                            let expected = try await entries(
                                of: listed.who, source: source, environment: environment, daemon)
                            #expect(Set(listed.purchases) == Set(expected) && listed.purchases.count == expected.count)
                            #expect(!listed.more)
                            lists += 1
                            purchases += expected.count
                            if kept[listed.who].map({ $0.version < listed.version }) ?? true {
                                kept[listed.who] = listed
                            }
                        }
                    }
                    for (holder, listed) in kept {
                        let expected = try await entries(
                            of: holder, source: source, environment: environment, daemon)
                        #expect(
                            Set(listed.purchases.filter(\.active)) == Set(expected.filter(\.active)),
                            "\(holder) after \(event.name) of \(environment)")
                    }
                }
            }
            #expect(lists > 50 && purchases > 30)
        }
    }

    @Test("By the clock: of ends and leeways it says what the API says, and the lists are active first")
    func byTheClock() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let leeways = Leeways([.leaving("shop", .lasting(10 * Self.hour))])
            let now = try ledger.now()
            let ends: [Int64?] = [-20, -5, 5, nil, -30, 40]
            await daemon.record(
                ends.enumerated().map { index, hours in
                    .paying(
                        user, from: now.advanced(byMilliseconds: -100 * Self.hour),
                        until: hours.map { now.advanced(byMilliseconds: $0 * Self.hour) }, transaction: "t\(index)",
                        purchase: "p\(index)")
                })
            let subject = MessageAccess.Subject(source: "shop", environment: "PRODUCTION", holder: user)
            let text = try await daemon.pool.withSession { session throws(DatabaseError) in
                try session.transaction { session throws(DatabaseError) in
                    try MessageAccess(of: [subject], leeways: leeways, on: session).text(of: [subject])
                }
            }
            let listed = try #require(try Listed.read(String(decoding: text, as: UTF8.self)).first)
            #expect(listed.purchases.map(\.purchase) == ["p3", "p5", "p2", "p1", "p0", "p4"])
            #expect(listed.purchases.map(\.active) == [true, true, true, true, false, false])
            #expect(listed.purchases.map(\.overdue) == [false, false, false, true, true, true])
            let expected = try await entries(
                of: user, source: "shop", environment: "PRODUCTION", leeways: leeways, daemon)
            #expect(Set(listed.purchases) == Set(expected))
        }
    }

    @Test("Both messages of a transfer have both sides: the holder first, the old one without access")
    func transfer() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("state", include: [.access])])
            for fact in login { await daemon.record([.stating(fact)]) }
            let types = try ledger.psql("SELECT type FROM messages WHERE transfer IS NOT NULL ORDER BY id")
            #expect(types == "SUBSCRIPTION_TRANSFERRED\nSUBSCRIPTION_RECEIVED")
            let sides = try await access(daemon).suffix(2).compactMap(\.self)
            #expect(sides.map { $0.map(\.who) } == [[anonymous, user], [user, anonymous]])
            #expect(sides.map { $0.map { $0.purchases.map(\.active) } } == [[[false], [true]], [[true], [false]]])
            #expect(Set(sides.flatMap(\.self).map(\.version)).count == 1)
        }
    }

    @Test("20 are listed, active ones first, and a flag says that there are more", arguments: [20, 25])
    func many(count: Int) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("state", include: [.access])])
            let gains = (0..<count).map {
                Event.stating(.activate(user, seconds(0)), purchase: "p\($0)", transaction: "t\($0)")
            }
            let losses = (0..<5).map {
                Event.stating(.deactivate(user, seconds(10)), purchase: "p\($0)", transaction: "t\($0)")
            }
            // One batch: each message has what the whole of it leaves.
            await daemon.record(gains + losses)
            let lists = try await access(daemon).compactMap { $0?.first }
            #expect(lists.count == count + 5 && Set(lists.map(\.version)).count == 1)
            for listed in lists {
                #expect(listed.purchases.count == 20 && listed.more == (count > 20))
                #expect(listed.purchases.map(\.active) == (0..<20).map { $0 < count - 5 })
            }
        }
    }

    @Test("A message that is about nobody has an empty list; one about a lapse has it without access")
    func nobodyAndLapse() async throws {
        try await TestLedger.run { ledger in
            let events = ["*", "posthouse.access.lapsed"]
            let daemon = try await ledger.daemon([.named("state", events: events, order: .none, include: [.access])])
            try ledger.psql("UPDATE integrations SET created_at = now() - interval '30 days'")
            let end = try ledger.now().advanced(byMilliseconds: -20 * Self.hour)
            let paid = Event.paying(user, from: seconds(0), until: end, transaction: "t")
            let nobody = Event(
                scope: paid.scope, vendorEventID: "n", name: "N", type: "N", holder: nil, occurredAt: seconds(0),
                purchase: nil, transaction: nil, body: Array("{}".utf8))
            await daemon.record([nobody])
            await daemon.record([paid])
            let leeways = Leeways([.leaving("shop", .lasting(10 * Self.hour))])
            #expect(try await Lapses(pool: daemon.pool, routes: daemon.routes, leeways: leeways).announce() == 1)
            let access = try await access(daemon).map { try #require($0) }
            #expect(access.map(\.count) == [0, 1, 1])
            // Recording knows no leeway for this source here.
            #expect(access.dropFirst().map { $0[0].purchases.map(\.active) } == [[true], [false]])
            #expect(access[2][0].version > access[1][0].version && access[2][0].purchases[0].overdue)
        }
    }

    // MARK: Versions and locks

    @Test("Two daemons at once: of two lists of a holder the one with the higher version lacks nothing")
    func versions() async throws {
        try await TestLedger.run { ledger in
            let integrations = [Integration.named("state", order: .none, include: [.access])]
            let (one, two) = (try await ledger.daemon(integrations), try await ledger.daemon(integrations))
            @Sendable func record(_ numbers: Range<Int>, by daemon: Daemon) async {
                for number in numbers {
                    let fact = Fact.activate(user, seconds(Int64(number)))
                    await daemon.record([.stating(fact, purchase: "p\(number)", transaction: "t\(number)")])
                }
            }
            async let first: Void = record(0..<10, by: one)
            async let second: Void = record(10..<20, by: two)
            _ = await (first, second)
            let lists = try await access(one).compactMap { $0?.first }.sorted { $0.version < $1.version }
            #expect(lists.count == 20 && Set(lists.map(\.version)).count == 20)
            for (older, newer) in zip(lists, lists.dropFirst()) {
                #expect(Set(older.purchases).isStrictSubset(of: newer.purchases))
            }
            #expect(lists.last?.purchases.count == 20)
        }
    }

    @Test("A batch waits for whoever has the holder, or has all, and its version is higher", arguments: [1, 501])
    func waits(count: Int) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("state", include: [.access])])
            #expect(count == 1 || count > Limits.accessLocksMax)
            // Behind 500 others the batch's own holder is not among them.
            let subjects = (0..<count).map { number in
                let holder = count == 1 ? user : Holder.user("other-\(number)")
                return MessageAccess.Subject(source: "shop", environment: "PRODUCTION", holder: holder)
            }
            let former = Mutex<[UInt8]>([])
            let answers = try await ledger.holding { session throws(DatabaseError) in
                let access = try MessageAccess(of: subjects, leeways: .off, on: session)
                former.withLock { $0 = access.text(of: [subjects[0]]) }
            } _: {
                await daemon.record([.stating(.activate(user, seconds(0)))])
            }
            #expect(answers == [.stored])
            let text = former.withLock { String(decoding: $0, as: UTF8.self) }
            let before = try #require(try Listed.read(text).first)
            let listed = try #require(try await access(daemon).first??.first)
            #expect(listed.version > before.version && listed.purchases.map(\.active) == [true])
        }
    }

    @Test("Without include, or for a message that goes to others, nothing is locked, drawn or stored")
    func others() async throws {
        try await TestLedger.run { ledger in
            // Whatever draws a version now fails, and with it whatever is sent in the same round trip.
            try ledger.psql("ALTER SEQUENCE access_versions RENAME TO hidden")
            let daemon = try await ledger.daemon([
                .named("all"), .named("state", events: ["SUBSCRIPTION_*"], include: [.access]),
            ])
            #expect(await daemon.record([.stating(.activate(user, seconds(0)))]) == [.stored])
            #expect(try ledger.psql("SELECT type, access IS NULL FROM messages") == "ACTIVATE|t")
            #expect(daemon.log.warnings == [])
        }
    }

    // MARK: As of recording

    @Test("A replay repeats the list byte for byte; a backfill sends a message without one as it was stored")
    func again() async throws {
        try await TestLedger.run { ledger in
            let before = try await ledger.daemon([.named("plain", order: .none)])
            await before.record([.sample("OLD", purchase: "p0", transaction: "t0")])
            let daemon = try await ledger.daemon([.named("state", order: .none, include: [.access])])
            daemon.open("state")
            await daemon.record([.stating(.activate(user, seconds(0)))])
            let first = daemon.inbox.take()
            let access = try #require(first.first?.message.access)
            _ = try await daemon.queue.settle(first.map { $0.settled(.accepted) })
            await daemon.record([.stating(.deactivate(user, seconds(10)))])
            let second = daemon.inbox.take()
            #expect(second.first?.message.access != access)
            _ = try await daemon.queue.settle(second.map { $0.settled(.accepted) })

            let filter = Replay.Filter(integrations: [daemon.row("state")], event: Glob("ACTIVATE"))
            var replay = try #require(
                await Replay.start(filter, routes: daemon.routes.current.all, in: daemon.pool))
            while !replay.isDone { _ = try await replay.step(in: daemon.pool) }
            let replayed = try await daemon.claimAll("state")
            #expect(replayed.map(\.message.access) == [access])
            let member = try #require(replayed.first?.message.accessMember)
            #expect(member == Array(#","access":"#.utf8) + access)
            _ = try await daemon.queue.settle(replayed.map { $0.settled(.accepted) })

            let route = try #require(daemon.routes.current.all.first)
            var backfill = try await Backfill.start(
                route, since: Timestamp(milliseconds: 0), until: nil, in: daemon.pool)
            while !backfill.isDone { _ = try await backfill.step(isDry: false, in: daemon.pool) }
            let old = try await daemon.claimAll("state")
            #expect(old.map(\.message.type) == ["OLD"] && old.map(\.message.access) == [nil])
            #expect(old.first?.message.accessMember == Array(#","access":null"#.utf8))
        }
    }
}

/// One holder in `data.access`, read as a receiver would.
private struct Listed: Decodable {
    struct Entry: Decodable, Hashable {
        let product: String?
        let plan: String?
        let active: Bool
        let until: String?
        let overdue: Bool
        let app: String
        let store: String
        let purchase: String
        let kind: String
    }

    let holder: [String: String]
    let version: Int64
    let purchases: [Entry]
    let more: Bool

    var who: Holder {
        holder["user_id"].map { .user($0) } ?? .anonymous(holder["anonymous_user_id"] ?? "")
    }

    static func read(_ text: String) throws -> [Listed] {
        try JSONDecoder().decode([Listed].self, from: Data(text.utf8))
    }
}

extension Listed.Entry {
    init(_ held: HeldPurchase) {
        self.init(
            product: held.purchase.product, plan: held.purchase.plan, active: held.isActive,
            until: held.until?.iso8601, overdue: held.isOverdue, app: held.scope.app, store: held.purchase.store,
            purchase: held.purchase.key, kind: held.purchase.kind.rawValue)
    }
}
