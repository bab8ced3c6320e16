import Foundation
import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// What is written while daemons of two versions live, and found afterwards. Oracle: SQL.
@Suite("The forms of the ledger", .serialized, .timeLimit(.minutes(30)))
struct LedgerFormTests {
    private static let older = "INSERT INTO daemons (version, expires_at, state_form) VALUES ('old', now(), 2)"

    private static let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))

    @Test("A message that passes an event on has its own key while an older daemon lives, and the event's afterwards")
    func messageKeys() async throws {
        try await TestLedger.run { ledger in
            try ledger.writeWithoutTimedKeys()
            try ledger.psql(Self.older)
            let daemon = try await ledger.daemon([.named("all")])
            daemon.open("all")
            await daemon.record([.sample("A", at: Self.now, purchase: "a", transaction: "t-a")])
            let before = try #require(daemon.inbox.take().first)
            #expect(try ledger.psql("SELECT 'msg_' || replace(key::text, '-', '') FROM messages") == before.message.id)

            try ledger.psql("DELETE FROM daemons WHERE version = 'old'")
            #expect(try await daemon.registration.renew())
            await daemon.record([.sample("B", at: Self.now, purchase: "b", transaction: "t-b")])
            let after = try #require(daemon.inbox.take().first)
            #expect(try ledger.psql("SELECT key IS NULL FROM messages ORDER BY id DESC LIMIT 1") == "t")
            let key = "SELECT 'msg_' || replace(key::text, '-', '') FROM events WHERE name = 'B'"
            #expect(try ledger.psql(key) == after.message.id)

            // Whoever reads them finds both by the id that the receivers know, with the same id.
            for (name, delivery) in [("A", before), ("B", after)] {
                let id = delivery.message.id
                let trace = try #require(try await Trace.read(EventHandle(nil, id), from: daemon.pool))
                #expect(trace.kind == .message && trace.webhooks.map(\.name) == [name])
                #expect(trace.webhooks.flatMap(\.messages).map(\.id) == [id])
                let key = try #require(Identifier(written: id))
                let row = try await daemon.pool.withSession { session throws(DatabaseError) in
                    try session.run(ReplayStatements.message, key)
                }
                #expect(row == [delivery.message.row])
            }
            let listed = try #require(try await ListedDelivery.read(.waiting, from: daemon.pool))
            #expect(Set(listed.map(\.message)) == [before.message.id, after.message.id])
            let other = try await ledger.daemon([.named("all")])
            try ledger.expire(daemon)
            try await other.endExpiredLeases()
            other.open("all")
            let claimed = try await other.claimAll("all").map(\.message.id)
            #expect(Set(claimed) == [before.message.id, after.message.id])
        }
    }

    @Test("Before its migration nothing is written in the newest form: a version before may be started again")
    func notMigrated() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            func form() async throws -> LedgerForm {
                try await daemon.pool.withSession { session throws(DatabaseError) in
                    try LedgerForm.readByAll(on: session)
                }
            }
            try ledger.psql("DELETE FROM daemons")
            #expect(try await form() == .current)
            try ledger.psql("DELETE FROM schema_migrations WHERE version >= \(LedgerForm.migration)")
            #expect(try await form() == .sparseEntitlements)
        }
    }

    @Test("Each event of each holder is found, whatever led to it: by its holder, or by what the holder has")
    func eventsOfHolders() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let (user, device) = (Holder.user("u"), Holder.anonymous("d"))
            func gain(_ holder: Holder, _ at: Int64, _ purchase: String) -> Event {
                .sample(
                    "ACTIVATE", holder: holder, at: seconds(at), purchase: purchase, transaction: "t\(at)",
                    fact: Fact(kind: .gain, holder: holder, at: seconds(at)))
            }
            await daemon.record([
                gain(user, 1, "a"), gain(user, 2, "a"), gain(device, 3, "b"), gain(user, 4, "b"),
                // Says nothing about access: nothing leads from its holder to its purchase.
                .sample("NOTE", holder: .user("other"), at: seconds(5), purchase: "a", transaction: "t5"),
                .sample("LOGIN", holder: user, at: seconds(6), purchase: nil, transaction: nil),
                .sample("LOOSE", holder: user, at: seconds(7), purchase: nil, transaction: "t7"),
            ])
            let stray = "SELECT string_agg(name, ' ' ORDER BY id) FROM events WHERE stray"
            #expect(try ledger.psql(stray) == "NOTE LOGIN LOOSE")
            // As the version before left them: of those nobody knows.
            await daemon.record([gain(user, 8, "c"), gain(device, 9, "a")])
            try ledger.psql("UPDATE events SET stray = true WHERE id > 7")
            for holder in try ledger.psql("SELECT DISTINCT holder FROM events").split(separator: "\n") {
                let wanted = try ledger.psql("SELECT id FROM events WHERE holder = '\(holder)' ORDER BY id DESC")
                let found = try await daemon.pool.withSession { session throws(DatabaseError) in
                    try session.run(EventHandleStatements.byHolder, (String(holder), 100))
                }
                let transfers = try ledger.psql(
                    "SELECT event FROM transfers WHERE '\(holder)' IN (from_holder, to_holder)")
                let all = Set((wanted + "\n" + transfers).split(separator: "\n").compactMap { Int64($0) })
                #expect(found == all.sorted(by: >), "\(holder)")
                let dry = try await Erasure.start(
                    try #require(Holder(storageKey: String(holder))), source: nil, isDry: true, in: daemon.pool)
                let tally = try await dry.run(in: daemon.pool) { _ in }
                // A user is erased with its anonymous ids.
                let names = dry.holders.map { "'\($0.storageKey)'" }.joined(separator: ", ")
                let own = try ledger.psql("SELECT count(*) FROM events WHERE holder IN (\(names))")
                #expect(String(tally.events) == own, "\(holder)")
            }
            let transactions = try ledger.psql("SELECT DISTINCT store_transaction_id FROM events")
            for transaction in transactions.split(separator: "\n") {
                let wanted = try ledger.psql(
                    "SELECT id FROM events WHERE store_transaction_id = '\(transaction)' ORDER BY id DESC")
                let found = try await daemon.pool.withSession { session throws(DatabaseError) in
                    try session.run(EventHandleStatements.byTransaction, (String(transaction), 100))
                }
                // And those that moved its purchase.
                #expect(Set(found).isSuperset(of: wanted.split(separator: "\n").compactMap { Int64($0) }))
                #expect(found == found.sorted(by: >))
            }
        }
    }
}
