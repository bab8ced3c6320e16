import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Webhooks of a store that may name nobody, and links of its customers, recorded in any order and any batches.
/// Oracles: psql and `NamelessModel`; each order is played in an environment of its own (I4).
@Suite("Recording facts that name nobody", .serialized, .timeLimit(.minutes(30)))
struct NamelessRecordingTests {
    private static let own = Holder.anonymous("cus_1")
    private static let hour: Int64 = 3_600

    private static func event(_ statement: PurchaseStatement, _ environment: String) -> Event {
        switch statement {
        case .fact(let fact):
            return .sample(
                fact.kind == .gain ? "RENEWED" : "EXPIRED", holder: fact.holder, at: fact.at, source: "store",
                environment: environment, fact: fact)
        case .link(let from, let to, let at):
            return Event(
                scope: Scope(source: "store", app: "app.one", environment: environment), vendorEventID: nil,
                name: "LINK", type: "LINK", holder: to, occurredAt: at, purchase: nil, transaction: nil,
                change: .move(from: [from], to: to, isNative: false), body: Array("{}".utf8))
        }
    }

    private static func random(_ dice: inout Dice) -> [PurchaseStatement] {
        var (at, history): (Int64, [PurchaseStatement]) = (0, [])
        for _ in 0..<Int.random(in: 3...6, using: &dice) {
            let somebody = dice.chance(50) ? user : otherUser
            let until = seconds(at + 24 * hour)
            switch Int.random(in: 0..<8, using: &dice) {
            case 0...2:
                let gain = Fact(kind: .gain, holder: own, at: seconds(at), until: until, isNamed: false)
                history.append(.fact(gain))
            case 3: history.append(.fact(Fact(kind: .loss, holder: own, at: seconds(at), isNamed: false)))
            case 4: history.append(.fact(.activate(somebody, seconds(at), until: until)))
            case 5: history.append(.fact(.deactivate(somebody, seconds(at), revoked: dice.chance(50))))
            default: history.append(.link(own, to: somebody, at: seconds(at)))
            }
            at += [6 * hour, 24 * hour + 5, 49 * hour].randomElement(using: &dice) ?? hour
        }
        return history
    }

    @Test("Every order and every cut into batches gives the access of the model, and its transfers, each once")
    func orders() async throws {
        try await TestLedger.run { ledger in
            var dice = Dice(state: 97)
            let daemon = try await ledger.daemon([.named("all")])
            var models: [String: NamelessModel] = [:]
            for number in 0..<50 {
                let history = Self.random(&dice)
                for round in 0..<4 {
                    let environment = "h\(number)-\(round)"
                    models[environment] = NamelessModel(history, isStore: true)
                    let order = round == 0 ? history : history.shuffled(using: &dice)
                    let events = order.map { Self.event($0, environment) }
                    let cut = round == 1 ? events.count : Int.random(in: 1...events.count, using: &dice)
                    await daemon.record(Array(events.prefix(cut)))
                    for event in events.dropFirst(cut) { await daemon.record([event]) }
                }
            }
            #expect(daemon.log.warnings == [])
            let active = try ledger.pairs(
                """
                SELECT environment, string_agg(holder, ' ' ORDER BY holder COLLATE "C")
                FROM entitlements e JOIN purchases p ON p.id = e.purchase WHERE active GROUP BY 1
                """)
            let transfers = try ledger.pairs(
                """
                SELECT environment, string_agg(from_holder || '>' || to_holder || ordinal, ' '
                    ORDER BY from_holder COLLATE "C", to_holder COLLATE "C", ordinal)
                FROM transfers t JOIN purchases p ON p.id = t.purchase GROUP BY 1
                """)
            let voided = Set(daemon.log.all { if case .transferVoided(let trail, _) = $0 { trail.event } else { nil } })
            #expect(!models.isEmpty && !transfers.isEmpty)
            for (environment, model) in models {
                let having = model.access.filter(\.value.isActive).map(\.key.storageKey).sorted()
                #expect(active[environment] ?? "" == having.joined(separator: " "), "\(environment)")
                let wanted = model.numbers.flatMap { pair, number in
                    (1...number).map { "\(pair.from.storageKey)>\(pair.to.storageKey)\($0)" }
                }.sorted()
                let announced = (transfers[environment] ?? "").split(separator: " ").map(String.init).sorted()
                #expect(Set(announced).count == announced.count)
                // In another order a transfer may be announced that a later webhook voids.
                if environment.hasSuffix("-0") || voided.isEmpty {
                    #expect(announced == wanted, "\(environment)")
                } else {
                    #expect(Set(announced).isSuperset(of: wanted), "\(environment)")
                }
            }
        }
    }

    @Test("A link finds the purchases of its customer, also one whose first webhook comes afterwards")
    func customers() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            func gain(_ purchase: String, _ at: Int64) -> Event {
                let fact = Fact(kind: .gain, holder: Self.own, at: seconds(at), isNamed: false)
                return .sample(
                    holder: Self.own, at: seconds(at), purchase: purchase, transaction: "t-\(purchase)",
                    source: "store", fact: fact)
            }
            await daemon.record([gain("before", 0)])
            await daemon.record([Self.event(.link(Self.own, to: user, at: seconds(100)), "PRODUCTION")])
            await daemon.record([gain("after", 60 * 24 * Self.hour)])
            let active = try ledger.psql(
                """
                SELECT string_agg(key || ':' || holder, ' ' ORDER BY key)
                FROM entitlements e JOIN purchases p ON p.id = e.purchase WHERE active
                """)
            #expect(active == "after:user:jeff before:user:jeff")
            #expect(try ledger.psql("SELECT count(*) FROM transfers") == "1")
        }
    }

    @Test("A link is kept for purchases that begin when it is older than any webhook that can still come")
    func pruning() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            for (at, user) in [(0, otherUser), (100, user)] as [(Int64, Holder)] {
                await daemon.record([Self.event(.link(Self.own, to: user, at: seconds(at)), "PRODUCTION")])
            }
            try ledger.psql("UPDATE holder_changes SET received_at = now() - interval '22 days'")
            let day = Duration.seconds(86_400)
            let retention = Retention(attempts: day, events: day, duplicates: day)
            let upkeep = Upkeep(
                pool: daemon.pool, retention: retention, alwaysNaming: ["shop"], mayLackName: ["store"])
            try await upkeep.prune()
            #expect(try ledger.psql("SELECT string_agg(target, ' ') FROM holder_changes") == user.storageKey)
            let fact = Fact(kind: .gain, holder: Self.own, at: seconds(60 * 24 * Self.hour), isNamed: false)
            await daemon.record([
                .sample(
                    holder: Self.own, at: fact.at, purchase: "p", transaction: "t", source: "store", fact: fact)
            ])
            #expect(try ledger.psql("SELECT holder FROM entitlements WHERE active") == user.storageKey)
            // A newer link is no reason to drop it, as long as what happened before that one may still come.
            let time = try ledger.psql("SELECT (extract(epoch FROM now()) * 1000)::bigint")
            let now = Timestamp(milliseconds: try #require(Int64(time)))
            await daemon.record([Self.event(.link(Self.own, to: otherUser, at: now), "PRODUCTION")])
            try await upkeep.prune()
            #expect(try ledger.psql("SELECT count(*) FROM holder_changes") == "2")
            try await Upkeep(pool: daemon.pool, retention: retention, alwaysNaming: ["shop", "store"]).prune()
            #expect(try ledger.psql("SELECT count(*) FROM holder_changes") == "1")
        }
    }

    @Test("A message of an event that names nobody says who has the purchase then, also if it states nothing")
    func resolvedUser() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            func record(_ kind: Fact.Kind?, _ at: Int64, _ holder: Holder = Self.own) async {
                let fact = kind.map { Fact(kind: $0, holder: holder, at: seconds(at), isNamed: holder != Self.own) }
                await daemon.record([
                    .sample(
                        holder: holder, at: seconds(at), purchase: "p", transaction: "t\(at)", source: "store",
                        fact: fact)
                ])
            }
            await record(.gain, 0)
            await record(.gain, 100, user)
            await record(nil, 200)
            await record(.loss, 300)
            let resolved = """
                SELECT string_agg(coalesce(convert_from(envelope || convert_to('null}}', 'UTF8'), 'UTF8')::jsonb
                    #>> '{data,resolved_user_id}', '-'), ' ' ORDER BY id)
                FROM messages WHERE transfer IS NULL
                """
            #expect(try ledger.psql(resolved) == "- - jeff jeff")
        }
    }

    @Test("A message of an event that repeats the account of a purchase which has passed on says who has it")
    func resolvedFromAccount() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            func record(_ facts: [Fact], of holder: Holder, at: Int64) async {
                let event = Event.sample(
                    holder: holder, at: seconds(at), purchase: "p", transaction: "t\(at)", source: "store",
                    facts: facts)
                await daemon.record([event])
            }
            func goesOn(_ kind: Fact.Kind, _ at: Int64, _ how: Fact.Kind = .said) async {
                await record(
                    [
                        Fact(kind: how, holder: user, at: seconds(at)),
                        Fact(kind: kind, holder: Self.own, at: seconds(at), isNamed: false),
                    ], of: user, at: at)
            }
            let bought = [Fact(kind: .said, holder: user, at: seconds(0)), .activate(user, seconds(0))]
            await record(bought, of: user, at: 0)
            await record([.activate(otherUser, seconds(50))], of: otherUser, at: 50)
            // Nothing came yet that names nobody.
            await record([], of: user, at: 100)
            await goesOn(.gain, 200)
            await record([], of: user, at: 300)
            await goesOn(.loss, 400, .naming)
            let shown = """
                SELECT string_agg(j #>> '{data,holder,user_id}' || '>' || coalesce(j #>> '{data,resolved_user_id}', '-'),
                    ' ' ORDER BY id)
                FROM messages, LATERAL (
                    SELECT convert_from(envelope || convert_to('null}}', 'UTF8'), 'UTF8')::jsonb) AS e (j)
                WHERE transfer IS NULL
                """
            let (first, second) = (user.id, otherUser.id)
            #expect(
                try ledger.psql(shown)
                    == "\(first)>- \(second)>-" + String(repeating: " \(first)>\(second)", count: 4))
            #expect(try ledger.psql("SELECT count(*) FROM entitlements WHERE active") == "0")
            #expect(try ledger.psql("SELECT count(*) FROM transfers") == "1")
        }
    }
}

extension TestLedger {
    /// Rows of two columns, by the first.
    fileprivate func pairs(_ sql: String) throws -> [String: String] {
        var rows: [String: String] = [:]
        for line in try psql(sql).split(separator: "\n") {
            let fields = line.split(separator: "|", maxSplits: 1).map(String.init)
            if fields.count == 2 { rows[fields[0]] = fields[1] }
        }
        return rows
    }
}
