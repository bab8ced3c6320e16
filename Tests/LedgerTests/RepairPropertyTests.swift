import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: the state that the webhooks gave one by one, as they came.
@Suite("Repair: rebuilding from all webhooks", .serialized)
struct RepairPropertyTests {
    private static let histories = 20
    private static let installs = ["i1", "i2", "i3"]
    private static let users = ["u1", "u2", "u3"]

    private static func holder(_ dice: inout Dice) -> Holder {
        dice.chance(50)
            ? .anonymous(installs.randomElement(using: &dice) ?? "i1")
            : .user(users.randomElement(using: &dice) ?? "u1")
    }

    /// What names no account, and who it is (`SourceRules.mayLackName`).
    private static let own = Holder.anonymous("own")

    private static func change(_ source: String, _ dice: inout Dice) -> (HolderChange, Holder) {
        if source == "store" {
            let user = Holder.user(users.randomElement(using: &dice) ?? "u1")
            return (.move(from: [own], to: user, isNative: false), user)
        }
        let install = installs.randomElement(using: &dice) ?? "i1"
        let user = users.randomElement(using: &dice) ?? "u1"
        switch Int.random(in: 0..<4, using: &dice) {
        case 0: return (.identify(install: install, identity: user), .anonymous(install))
        case 1: return (.endSessions(user: user), .user(user))
        case 2:
            let strategy = dice.chance(50) ? RestoreStrategy.transfer : .copy
            return (.restore(install: install, transactions: ["t-p1"], strategy: strategy), .anonymous(install))
        default:
            let from = [holder(&dice), holder(&dice)]
            let to = holder(&dice)
            return (.move(from: from, to: to, isNative: dice.chance(50)), to)
        }
    }

    /// Webhooks of two purchases and statements about their holders, in an order of arrival that is not that of their
    /// times.
    /// - Parameter says: whether a store says whose purchases are, which an older version reads as what it was given.
    static func history(
        _ source: String, _ environment: String, _ dice: inout Dice, says: Bool = true
    ) -> [Event] {
        let isOneTime = dice.chance(20)
        return (0..<Int.random(in: 3...14, using: &dice)).map { number in
            let at = Int64.random(in: 0...2_000, using: &dice) * 60 + Int64(number)
            if source != "shop", dice.chance(35) {
                let (change, holder) = change(source, &dice)
                return .change(change, by: holder, at: at, source: source, environment: environment)
            }
            let purchase = dice.chance(75) ? "p1" : "p2"
            let (one, other) = (holder(&dice), holder(&dice))
            let until = seconds(at + Int64.random(in: -100...50_000, using: &dice))
            let fact: Fact =
                switch Int.random(in: 0..<(source == "store" ? (says ? 17 : 14) : 8), using: &dice) {
                case 8...11: Fact(kind: .gain, holder: own, at: seconds(at), until: until, isNamed: false)
                case 14...: Fact(kind: .said, holder: one, at: seconds(at))
                case 12...13:
                    Fact(kind: .loss, holder: own, at: seconds(at), isRevoked: dice.chance(20), isNamed: false)
                case 0...3: .activate(one, seconds(at), until: dice.chance(80) ? until : nil)
                case 4...5: .deactivate(one, seconds(at), until: until, revoked: dice.chance(20))
                case 6: .transferred(one, to: other, seconds(at), until: until)
                default: .received(one, from: other, seconds(at), until: until)
                }
            let kind: Purchase.Kind = isOneTime && dice.chance(70) ? .oneTime : .subscription
            return .stating(
                fact, purchase: purchase, kind: kind, transaction: "t-\(purchase)", environment: environment,
                source: source)
        }
    }

    @Test(
        "A rebuilt state is the state that the webhooks gave one by one",
        arguments: ["shop", "moving", "shared", "store"])
    func equal(source: String) async throws {
        try await TestLedger.run { ledger in
            var dice = Dice(state: 71 + UInt64(source.utf8.count))
            let daemon = try await ledger.daemon([.named("all")])
            let readings = Readings()
            for number in 0..<Self.histories {
                let events = Self.history(source, "history\(number)", &dice)
                await ledger.record(events, by: daemon, readings)
            }
            let before = try ledger.picture()
            let messages = try ledger.psql("SELECT count(*) FROM messages")
            for report in try await ledger.repairAll(readings, by: daemon) {
                #expect(report.verdict == .sound && report.transfers.isEmpty, "\(report)")
            }
            #expect(try ledger.picture() == before)

            try ledger.damage()
            for report in try await ledger.repairAll(readings, by: daemon) {
                #expect(report.verdict == .rebuilt && !report.isPartial && report.transfers.isEmpty, "\(report)")
                #expect(report.access.isEmpty, "\(report)")
            }
            #expect(try ledger.picture() == before)
            #expect(try ledger.psql("SELECT count(*) FROM messages") == messages)
            #expect(daemon.log.warnings == [])
        }
    }

    @Test("A state that was written beside an older daemon, without what the store said, is sound")
    func besideOlder() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("all")])
            let readings = Readings()
            try ledger.psql("INSERT INTO daemons (version, expires_at, state_form) VALUES ('old', now(), 6)")
            #expect(try await daemon.registration.renew())
            let facts = [
                Fact(kind: .said, holder: user, at: seconds(0)),
                Fact(kind: .gain, holder: Self.own, at: seconds(0), isNamed: false),
            ]
            await ledger.record(facts.map { .stating($0, source: "store") }, by: daemon, readings)
            #expect(try ledger.psql("SELECT convert_from(state, 'UTF8') FROM purchases").contains("\tsaid\t") == false)
            try ledger.psql("DELETE FROM daemons WHERE version = 'old'")
            #expect(try await ledger.repairAll(readings, by: daemon).map(\.verdict) == [.sound])
        }
    }

    @Test(
        "So it is after the rows of holder_changes are pruned: statements are read back from their webhooks",
        arguments: ["moving", "shared", "store"])
    func prunedChanges(source: String) async throws {
        try await TestLedger.run { ledger in
            var dice = Dice(state: 5 + UInt64(source.utf8.count))
            let daemon = try await ledger.daemon([.named("all")])
            let readings = Readings()
            for number in 0..<Self.histories {
                await ledger.record(Self.history(source, "history\(number)", &dice), by: daemon, readings)
            }
            let before = try ledger.settledPicture()
            try ledger.forgetChanges()
            try ledger.damage()
            for report in try await ledger.repairAll(readings, by: daemon) {
                #expect(report.verdict == .rebuilt && !report.isPartial && report.access.isEmpty, "\(report)")
            }
            #expect(try ledger.settledPicture() == before)
        }
    }
}
