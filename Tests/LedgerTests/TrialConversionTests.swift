import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// A renewal that converts a trial and does not say so, and a refund that does not say of what it is. Oracle: the rule
/// over the whole list of what arrived before.
@Suite("Recording: names that need a memory of the purchase", .serialized)
struct TrialConversionTests {
    private static let day: Int64 = 86_400
    private static let purchase = Identifier(high: 1, low: 1)

    /// One notification of a period of the purchase.
    private struct Stated: Equatable {
        var name: String
        var period: String
        var begins: Int64
        var ends: Int64
        var offer: String? = "NONE"
        /// Seconds after the period began.
        var after: Int64 = 5

        var event: Event {
            let at = seconds(begins + after)
            return Event(
                scope: Scope(source: "sealed", app: "app.one", environment: "PRODUCTION"),
                vendorEventID: "\(name)-\(period)-\(after)", name: name,
                type: name == "DID_RENEW" ? "SUBSCRIPTION_RENEWED" : name, holder: user, occurredAt: at,
                purchase: Purchase(
                    key: "2001", kind: .subscription, store: "APPLE_APP_STORE", product: "gold", plan: nil,
                    subscriptionID: nil),
                transaction: Transaction(
                    storeTransactionID: period, storeOriginalTransactionID: "2001", purchasedAt: seconds(begins),
                    effectiveNextRenewalAt: seconds(ends), offerType: offer, status: nil),
                mayConvertTrial: name == "DID_RENEW", facts: [.activate(user, at, until: seconds(ends))],
                decoded: Array("{}".utf8), body: Array(#"{"is":"\#(name)-\#(period)-\#(after)"}"#.utf8))
        }
    }

    private static let life = [
        Stated(name: "SUBSCRIBED", period: "t0", begins: 0, ends: 7 * day, offer: "FREE_TRIAL"),
        Stated(name: "PREFERENCE", period: "t0", begins: 0, ends: 7 * day, offer: "FREE_TRIAL", after: 1_000),
        Stated(name: "DID_RENEW", period: "t1", begins: 7 * day, ends: 37 * day),
        Stated(name: "DID_RENEW", period: "t2", begins: 37 * day, ends: 67 * day),
        Stated(name: "DID_RENEW", period: "t3", begins: 67 * day, ends: 97 * day),
    ]

    private static func orders<Element>(of list: [Element]) -> [[Element]] {
        if list.count < 2 { return [list] }
        return list.indices.flatMap { index in
            var rest = list
            let first = rest.remove(at: index)
            return orders(of: rest).map { [first] + $0 }
        }
    }

    private static func plan(_ stated: [Stated]) -> BatchPlan {
        var plan = BatchPlan(purchases: [:], rules: Daemon.rules)
        for (index, stated) in stated.enumerated() {
            let batch = EventBatch([stated.event], in: .timedKeys)
            guard let arrival = batch.firsts.first else { continue }
            plan.add(BatchPlan.PlannedEvent(arrival, row: Int64(index + 1), purchase: purchase))
        }
        return plan
    }

    @Test("In every order the first renewal converts if anything of the trial was known, and no other ever does")
    func everyOrder() {
        let orders = Self.orders(of: Self.life)
        #expect(orders.count == 120)
        let usual = Self.plan(Self.life)
        #expect(
            usual.events.map(\.type).suffix(3)
                == ["TRIAL_CONVERTED", "SUBSCRIPTION_RENEWED", "SUBSCRIPTION_RENEWED"])
        for order in orders {
            let plan = Self.plan(order)
            for (index, stated) in order.enumerated() where stated.name == "DID_RENEW" {
                let isKnown = order[..<index].contains { $0.offer == "FREE_TRIAL" }
                let expected = stated.period == "t1" && isKnown ? "TRIAL_CONVERTED" : "SUBSCRIPTION_RENEWED"
                #expect(plan.events[index].type == expected, "\(order.map(\.name)) \(stated.period)")
            }
            // The name is all that may depend on it.
            #expect(plan.purchases.mapValues(\.state) == usual.purchases.mapValues(\.state))
            #expect(plan.entitlements.mapValues(\.access) == usual.entitlements.mapValues(\.access))
            #expect(plan.transfers.isEmpty)
            for (message, event) in zip(plan.messages, plan.events) { #expect(message.type == event.type) }
        }
    }

    @Test("What is no renewal of a free trial keeps its name")
    func others() {
        func period(
            _ id: String, _ begins: Int64, _ ends: Int64?, _ offer: String?, asOf: Int64 = 0
        ) -> PurchasePeriod {
            PurchasePeriod(
                purchase: Self.purchase, id: Array(id.utf8), purchasedAt: seconds(begins),
                end: ends.map { seconds($0) }, offerType: offer, asOf: seconds(asOf),
                asOfEvent: Identifier(high: 0, low: 0))
        }
        func renewal(_ begins: Int64? = 100, offer: String? = "NONE") -> Transaction {
            Transaction(
                storeTransactionID: "own", storeOriginalTransactionID: nil, purchasedAt: begins.map { seconds($0) },
                effectiveNextRenewalAt: nil, offerType: offer, status: nil)
        }
        let trial = period("t", 0, 100, "FREE_TRIAL")
        /// - Parameter time: of the event.
        func isConversion(_ renewal: Transaction, at time: Int64 = 100, _ known: PurchasePeriod...) -> Bool {
            let answers = Set(
                Self.orders(of: known).map { TrialConversion.isConversion(by: renewal, at: seconds(time), after: $0) })
            #expect(answers.count == 1)
            return answers.contains(true)
        }
        #expect(isConversion(renewal(), trial))
        #expect(isConversion(renewal(offer: nil), trial) && isConversion(renewal(offer: "PROMOTIONAL_OFFER"), trial))
        #expect(isConversion(renewal(), trial, period("own", 100, 200, "NONE")))
        #expect(isConversion(renewal(), trial, period("next", 101, 200, "NONE")))
        #expect(isConversion(renewal(), trial, period("before", -50, 0, "NONE")))
        #expect(isConversion(renewal(), period("t", 0, nil, "FREE_TRIAL")))
        // A day either way, and not more.
        #expect(isConversion(renewal(100 - Self.day / 2), period("t", -2 * Self.day, 100, "FREE_TRIAL")))
        #expect(isConversion(renewal(100 + Self.day), trial) && !isConversion(renewal(101 + Self.day), trial))

        #expect(!isConversion(renewal()))
        // Google does not say when the period of a renewal began.
        #expect(isConversion(renewal(nil), trial) && !isConversion(renewal(nil), at: 101 + Self.day, trial))
        #expect(isConversion(renewal(), at: 101 + Self.day, trial), "it began before")
        #expect(!isConversion(renewal(offer: "FREE_TRIAL"), trial))
        #expect(!isConversion(renewal(), period("t", 0, 100, "INTRO_OFFER")))
        #expect(!isConversion(renewal(), period("t", 0, 100, nil)))
        #expect(!isConversion(renewal(), trial, period("between", 50, 100, "NONE")))
        #expect(!isConversion(renewal(), period("own", 0, 100, "FREE_TRIAL")))
        #expect(!isConversion(renewal(0), trial))
        // What the newest webhook says of a period counts.
        #expect(!isConversion(renewal(), trial, period("t", 0, 100, "NONE", asOf: 1)))
        #expect(isConversion(renewal(), trial, period("t", 0, 100, "NONE", asOf: -1)))
    }

    @Test("A refund has the name for a known purchase if that is known when it comes, and its own otherwise")
    func known() {
        func event(_ name: String, _ kind: Fact.Kind, at time: Int64) -> Event {
            let fact = Fact(kind: kind, holder: user, at: seconds(time), isRevoked: kind == .loss)
            return Event(
                scope: Scope(source: "sealed", app: "app.one", environment: "PRODUCTION"), vendorEventID: name,
                name: name, type: name, holder: user, occurredAt: seconds(time),
                purchase: Purchase(
                    key: "pi_1", kind: .oneTime, store: "STRIPE", product: nil, plan: nil, subscriptionID: nil),
                transaction: nil, typeIfKnown: kind == .loss ? "DEACTIVATE" : nil, facts: [fact],
                body: Array(#"{"is":"\#(name)"}"#.utf8))
        }
        let (bought, refunded) = (event("bought", .gain, at: 0), event("refunded", .loss, at: 60))
        for (order, types) in [
            ([bought, refunded], ["bought", "DEACTIVATE"]), ([refunded, bought], ["refunded", "bought"]),
        ] {
            var plan = BatchPlan(purchases: [:], rules: Daemon.rules)
            for (index, event) in order.enumerated() {
                guard let arrival = EventBatch([event], in: .timedKeys).firsts.first else { continue }
                plan.add(BatchPlan.PlannedEvent(arrival, row: Int64(index + 1), purchase: Self.purchase))
            }
            #expect(plan.events.map(\.type) == types && plan.messages.map(\.type) == types)
            #expect(plan.entitlements.values.map(\.access.isActive) == [false])
        }
    }

    @Test("What was sent stands: in the tables, for receivers that select it, in repeats and after a repair")
    func stands() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("converted", events: ["TRIAL_CONVERTED"])])
            let (trial, renewals) = (Self.life[0], Array(Self.life[2...]))
            let readings = Readings()
            // One batch each, so that the second reads what the first wrote.
            await ledger.record([trial, renewals[0], renewals[1]].map(\.event), by: daemon, readings)
            let types = "SELECT string_agg(type, ' ' ORDER BY id) FROM events"
            let named = "SUBSCRIBED TRIAL_CONVERTED SUBSCRIPTION_RENEWED"
            #expect(try ledger.psql(types) == named)
            #expect(try ledger.psql("SELECT string_agg(type, ' ' ORDER BY id) FROM messages") == named)
            daemon.open("converted")
            let claimed = try await daemon.claimAll("converted").map(\.message)
            #expect(claimed.map(\.type) == ["TRIAL_CONVERTED"])
            let sent = String(decoding: try #require(claimed.first).envelope, as: UTF8.self)
            #expect(sent.hasPrefix(#"{"type":"TRIAL_CONVERTED","#) && sent.contains(#""event_name":"DID_RENEW""#))

            await daemon.record([renewals[0].event, trial.event])
            #expect(daemon.log.recorded(duplicate: true).count == 2)
            #expect(try ledger.psql(types) == named)
            let picture = try ledger.picture()
            try ledger.damage()
            _ = try await ledger.repair("2001", readings, by: daemon)
            #expect(try ledger.picture() == picture)
            #expect(try ledger.psql(types) == named)
            #expect(try ledger.psql("SELECT string_agg(type, ' ' ORDER BY id) FROM messages") == named)
        }
        // The trial comes too late to name the renewal.
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("converted", events: ["TRIAL_CONVERTED"])])
            await daemon.record([Self.life[2].event])
            await daemon.record([Self.life[0].event])
            #expect(
                try ledger.psql("SELECT string_agg(type, ' ' ORDER BY id) FROM messages")
                    == "SUBSCRIPTION_RENEWED SUBSCRIBED")
            daemon.open("converted")
            #expect(try await daemon.claimAll("converted").isEmpty)
        }
        // In one batch.
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            await daemon.record(Self.life.map(\.event))
            #expect(
                try ledger.psql("SELECT string_agg(type, ' ' ORDER BY id) FROM messages")
                    == "SUBSCRIBED PREFERENCE TRIAL_CONVERTED SUBSCRIPTION_RENEWED SUBSCRIPTION_RENEWED")
        }
    }
}
