import Postgres
import Synchronization
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Webhooks that come between the stages of an erasure. Oracle: the announced transfers, and psql.
@Suite("Erasing a person while webhooks come", .serialized)
struct EraseRaceTests {
    static let jeff = Holder.user("jeff-9f3c")
    static let ann = Holder.user("ann")
    static let bob = Holder.user("bob")
    private static let end = seconds(100_000)

    static func activate(_ holder: Holder, at: Int64, purchase: String = "subs_2", source: String) -> Event {
        .stating(
            .activate(holder, seconds(at), until: end), purchase: purchase, transaction: "t_\(purchase)",
            source: source)
    }

    /// Jeff had the purchase between ann and bob; it came to him by a statement about everything of ann.
    private static func history(_ source: String) -> [Event] {
        let change: HolderChange =
            source == "shared"
            ? .restore(install: "device-77aa", transactions: ["t_subs_2"], strategy: .transfer)
            : .move(from: [ann], to: jeff, isNative: true)
        return [
            activate(ann, at: 0, source: source),
            .change(
                change, by: jeff, at: 300, source: source,
                links: source == "shared" ? [HolderLink(anonymousID: "device-77aa", userID: jeff.id)] : []),
            activate(jeff, at: 400, source: source), activate(bob, at: 500, source: source),
        ]
    }

    enum Late: String, CaseIterable {
        case ofTheOldHolder, ofThePerson, ofTheNewHolder, ofAnotherPurchase

        func event(_ source: String) -> Event {
            switch self {
            case .ofTheOldHolder: EraseRaceTests.activate(EraseRaceTests.ann, at: 100, source: source)
            case .ofThePerson: EraseRaceTests.activate(EraseRaceTests.jeff, at: 450, source: source)
            case .ofTheNewHolder: EraseRaceTests.activate(EraseRaceTests.bob, at: 600, source: source)
            case .ofAnotherPurchase:
                EraseRaceTests.activate(EraseRaceTests.ann, at: 200, purchase: "subs_9", source: source)
            }
        }
    }

    /// Runs an erasure as often as the command would, and hands in a webhook before one of its stages.
    private func erase(_ daemon: Daemon, recording event: Event, before stage: String) async throws -> Erasure {
        let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool)
        let stages = Mutex<[String]>([])
        for _ in 0..<3 {
            _ = try await erasure.run(in: daemon.pool) { name in
                let known = stages.withLock { stages in
                    defer { stages.append(name) }
                    return stages
                }
                if name == stage, !known.contains(stage) { await daemon.record([event]) }
            }
        }
        #expect(stages.withLock { $0.contains(stage) })
        return erasure
    }

    @Test(
        "A webhook between two stages announces nothing of the person anew; run to its end, nothing is left",
        arguments: ["holders", "purchases"], Late.allCases)
    func between(stage: String, late: Late) async throws {
        for source in ["moving", "shared"] {
            try await TestLedger.run { ledger in
                let daemon = try await ledger.daemon([.named("a")])
                for event in Self.history(source) { await daemon.record([event]) }
                // What it announces where nobody is erased.
                let expected = late == .ofAnotherPurchase && source == "moving" ? 1 : 0
                let before = daemon.log.transfers.count
                let erasure = try await erase(daemon, recording: late.event(source), before: stage)
                let announced = daemon.log.transfers.dropFirst(before)
                #expect(announced.count == expected, "\(source): \(announced)")
                let names = announced.flatMap { [$0.from.id, $0.to.id] }
                #expect(!names.contains { $0.hasPrefix("erased") }, "\(source): \(names)")
                #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
                let active = try ledger.psql(
                    """
                    SELECT string_agg(holder, ' ' ORDER BY holder) FROM entitlements e
                    JOIN purchases p ON p.id = e.purchase
                    WHERE active AND p.key = 'subs_2' AND holder NOT LIKE 'anon:erased%'
                    """)
                if source == "moving" { #expect(active == "user:bob") }
                #expect(daemon.log.warnings == [])
            }
        }
    }

    @Test("An erasure that waits for a purchase holds no event key, which a webhook of that purchase would wait for")
    func order() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record([Self.activate(Self.jeff, at: 0, source: "moving")])
            // As of an event that announces nothing.
            try ledger.psql("DELETE FROM messages")
            let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool)
            try await ledger.holding { session throws(DatabaseError) in
                try session.script("SELECT FROM purchases FOR UPDATE")
            } _: { [pool = daemon.pool] in
                _ = try await erasure.run(in: pool) { _ in }
            } meanwhile: {
                let free = try ledger.psql(
                    "SELECT count(*) FROM (SELECT FROM identities FOR UPDATE SKIP LOCKED) AS free")
                #expect(free == "1")
            }
            #expect(try ledger.psql("SELECT count(*) FROM identities") == "0")
        }
    }
}
