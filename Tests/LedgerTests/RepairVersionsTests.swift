import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Purchases of which an older version recorded something else than this one reads from their webhooks.
@Suite("Repair: what older versions recorded", .serialized)
struct RepairVersionsTests {
    private static let device = Holder.anonymous("device")

    @Test("An end that an older version took for a former holder's ends the access of whoever has the purchase")
    func endOfWhoever() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let readings = Readings()
            func end(_ facts: [Fact]) -> Event {
                .sample(
                    "ENDED", at: seconds(200), transaction: "t1", vendorEventID: "end", source: "moving", facts: facts)
            }
            await ledger.record(
                [
                    .stating(
                        .activate(user, seconds(0), until: seconds(10_000)), transaction: "t1", source: "moving"),
                    .change(
                        .restore(install: Self.device.id, transactions: ["t1"], strategy: .transfer), by: Self.device,
                        at: 100, source: "moving"),
                    end([.deactivate(user, seconds(200), until: seconds(10_000))]),
                ], by: daemon, readings)
            #expect(try ledger.psql("SELECT count(*) FROM entitlements WHERE active") == "1")
            readings.remember([
                end([
                    Fact(kind: .naming, holder: user, at: seconds(200)),
                    Fact(
                        kind: .loss, holder: .anonymous("customer"), at: seconds(200), until: seconds(10_000),
                        isNamed: false),
                ])
            ])
            let report = try await ledger.repair("subs_1", readings, by: daemon)
            #expect(report.verdict == .rebuilt && !report.isPartial, "\(report)")
            #expect(report.access.contains(.init(holder: Self.device, before: true, after: false)))
            #expect(try ledger.psql("SELECT count(*) FROM entitlements WHERE active") == "0")
            #expect(try await ledger.repair("subs_1", readings, by: daemon).verdict == .sound)
        }
    }

    @Test("An end that an earlier version dated as its event is stated by it: the purchase is rebuilt once, then sound")
    func datedOtherwise() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let readings = Readings()
            let begin = Event.stating(.activate(user, seconds(0), until: seconds(1_000)))
            let end = Event.stating(.deactivate(user, seconds(1_000), until: seconds(1_000)))
            await ledger.record([begin, end], by: daemon, readings)
            let fact = Fact.deactivate(user, seconds(1_000).advanced(byMilliseconds: -1), until: seconds(1_000))
            readings.remember([end.replacing(purchase: end.purchase, transaction: end.transaction, facts: [fact])])
            let rebuilt = try await ledger.repair("subs_1", readings, by: daemon)
            #expect(rebuilt.verdict == .rebuilt && !rebuilt.isPartial && rebuilt.missing.isEmpty, "\(rebuilt)")
            #expect(try await ledger.repair("subs_1", readings, by: daemon).verdict == .sound)
            #expect(try ledger.psql("SELECT bool_or(active) FROM entitlements") == "f")
        }
    }

    @Test("A change that an earlier version dated a millisecond earlier is stated by it, too")
    func datedEarlier() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let readings = Readings()
            func change(_ milliseconds: Int64) -> Event {
                let time = seconds(100).advanced(byMilliseconds: milliseconds)
                let gain = Fact(
                    kind: .gain, holder: .anonymous("customer"), at: time, until: seconds(1_000), isNamed: false)
                return .sample(
                    "CHANGED", at: seconds(100), vendorEventID: "change", source: "store",
                    facts: [Fact(kind: .said, holder: user, at: time), gain])
            }
            let begin = Event.stating(.activate(user, seconds(0), until: seconds(1_000)), source: "store")
            await ledger.record([begin, change(1)], by: daemon, readings)
            readings.remember([change(2)])
            let rebuilt = try await ledger.repair("subs_1", readings, by: daemon)
            #expect(rebuilt.verdict == .rebuilt && rebuilt.missing.isEmpty, "\(rebuilt)")
            #expect(rebuilt.access.isEmpty && rebuilt.transfers.isEmpty, "\(rebuilt)")
            #expect(try await ledger.repair("subs_1", readings, by: daemon).verdict == .sound)
        }
    }

    @Test("A change of plan that a version before took for an end is put right; a purchase without one is sound")
    func plans() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let readings = Readings()
            func events(_ old: String?, _ new: String?) -> [Event] {
                func fact(_ kind: Fact.Kind, _ time: Int64, _ plan: String?) -> Fact {
                    Fact(kind: kind, holder: user, at: seconds(time), until: seconds(1_000), plan: plan)
                }
                let begun = fact(.gain, 0, old)
                return [
                    .stating(begun), .stating(fact(.loss, 100, old)), .stating(fact(.gain, 100, new)),
                    .stating(begun, purchase: "subs_2"), .stating(fact(.gain, 100, old), purchase: "subs_2"),
                ]
            }
            // That version kept no plans; the bodies have them. Of subs_2 the renewal came to this version.
            let bodies = events("monthly", "yearly")
            for event in events(nil, nil).dropLast() + bodies.suffix(1) { await daemon.record([event]) }
            readings.remember(bodies)
            let active =
                "SELECT e.active FROM entitlements e JOIN purchases p ON p.id = e.purchase WHERE p.key = 'subs_1'"
            #expect(try ledger.psql(active) == "f")
            let report = try await ledger.repair("subs_1", readings, by: daemon)
            #expect(report.verdict == .rebuilt && !report.isPartial, "\(report)")
            #expect(try ledger.psql(active) == "t")
            for purchase in ["subs_1", "subs_2"] {
                let again = try await ledger.repair(purchase, readings, by: daemon)
                #expect(again.verdict == .sound, "\(again)")
            }
        }
    }
}
