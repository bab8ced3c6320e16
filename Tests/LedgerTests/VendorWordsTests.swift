import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// Histories as a vendor's webhooks state them, in every order. Oracle: the vendor's pages, as far as each test says.
@Suite("Recording: what a vendor's events mean together", .serialized)
struct VendorWordsTests {
    private static let end = seconds(1_000)
    private static let graceEnd = seconds(2_000)

    /// A failed charge in RevenueCat's words: the grace period, and a cancellation of the same time that lacks it.
    private static func failedCharge(cancelledAt: Int64, of number: Int = 0) -> [Event] {
        let (purchase, transaction) = ("subs_\(number)", "tx_\(number)")
        return [
            .sample(
                "RENEWAL", at: seconds(10), purchase: purchase, transaction: transaction, status: "AUTO_RENEWING",
                fact: .activate(user, seconds(10), until: end), until: end),
            .sample(
                "BILLING_ISSUE", at: seconds(990), purchase: purchase, transaction: transaction,
                status: "IN_GRACE_PERIOD", fact: .activate(user, seconds(990), until: graceEnd), until: graceEnd),
            .sample(
                "CANCELLATION", at: seconds(cancelledAt), purchase: purchase, transaction: transaction,
                status: "AUTO_RENEWING_CANCELED", yieldsTransaction: true, until: end),
        ]
    }

    @Test("A cancellation for a billing error takes no grace period away, in one batch or in three")
    func billingError() async throws {
        let times: [Int64] = [989, 990, 991]
        for order in times.flatMap({ permutations(Self.failedCharge(cancelledAt: $0)) }) {
            let plan = Self.plan(order)
            #expect(plan.transactions.values.map(\.transaction.status) == ["IN_GRACE_PERIOD"])
            #expect(plan.transactions.values.map(\.transaction.effectiveNextRenewalAt) == [Self.graceEnd])
        }
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            // Eighteen purchases, and of each one event in a batch.
            let orders = (0..<18).map { number in
                permutations(Self.failedCharge(cancelledAt: times[number / 6], of: number))[number % 6]
            }
            for step in 0..<3 {
                let answers = await daemon.record(orders.map { $0[step] })
                #expect(answers.allSatisfy { $0 == .stored })
            }
            #expect(
                try ledger.psql("SELECT status, effective_next_renewal_at_ms, count(*) FROM transactions GROUP BY 1, 2")
                    == "IN_GRACE_PERIOD|\(Self.graceEnd.milliseconds)|\(orders.count)")
        }
    }

    @Test("Of a transaction of which nothing else is known, such a cancellation is the word")
    func onlyBillingError() {
        let plan = Self.plan(Self.failedCharge(cancelledAt: 990).suffix(1))
        #expect(plan.transactions.values.map(\.transaction.status) == ["AUTO_RENEWING_CANCELED"])
        #expect(plan.transactions.values.map(\.transaction.effectiveNextRenewalAt) == [Self.end])
    }

    /// A subscription of Stripe whose items have periods of their own: its invoice is of one of them, and the coming
    /// invoice has the plan to which it is to change.
    private static let invoiced: [Event] = [
        .sample(
            "customer.subscription.updated", at: seconds(10), product: "plus",
            fact: .activate(user, seconds(10), until: graceEnd), until: graceEnd),
        .sample(
            "invoice.paid", at: seconds(10), product: "support", yieldsTransaction: true, yieldsProduct: true,
            until: end),
        .sample("invoice.upcoming", at: seconds(900), transaction: nil, product: "basic", yieldsProduct: true),
    ]

    @Test("An invoice changes neither product nor period that the subscription has stated, in any order")
    func invoices() {
        let plans = permutations(Self.invoiced).map { Self.plan($0) }
        for plan in plans {
            #expect(plan.purchases.values.map(\.purchase.product) == ["plus"])
            #expect(plan.transactions.values.map(\.transaction.effectiveNextRenewalAt) == [Self.graceEnd])
            #expect(plan.messages.map(\.fields.subject.purchase?.product).contains("basic"), "of its own message")
        }
        #expect(Set(plans.flatMap { $0.purchases.values.map(\.state.bytes) }).count == 1)
        #expect(Set(plans.flatMap { $0.purchases.values.map(\.asOf) }) == [seconds(900)])
        let first = Self.plan(Self.invoiced.dropFirst().prefix(1))
        #expect(first.purchases.values.map(\.purchase.product) == ["support"], "while nothing else is known")
        let later = Event.sample("customer.subscription.updated", at: seconds(20), product: "basic")
        #expect(Self.plan(Self.invoiced + [later]).purchases.values.map(\.purchase.product) == ["basic"])
    }

    /// Adapty sends the same event for each profile that shares access, and each names the others.
    private static func sharing(at time: Int64) -> [Event] {
        let holders = [Holder.user("a"), .user("b")]
        return holders.map { own in
            .sample(
                "access_level_updated", holder: own, at: seconds(time), vendorEventID: "\(own)-\(time)",
                facts: ([own] + holders.filter { $0 != own }).map {
                    Fact(kind: .gain, holder: $0, at: seconds(time), until: seconds(time + 500), isFamilyShared: true)
                })
        }
    }

    @Test("Profiles that share access have it beside each other, in every order and period, and pass it to nobody")
    func sharedAccess() {
        for order in permutations(Self.sharing(at: 0) + Self.sharing(at: 400)) {
            let plan = Self.plan(order + order)
            #expect(plan.transfers.isEmpty)
            #expect(plan.messages.count == 4)
            #expect(plan.entitlements.values.filter(\.access.isActive).count == 2)
        }
    }

    @Test("Who had it alone before it was shared is the one from whom the next passes it on")
    func sharedLater() {
        let alone = Event.sample(
            "subscription_started", holder: .user("a"), at: seconds(0),
            fact: .activate(.user("a"), seconds(0), until: seconds(500)))
        let last = Event.sample(
            "access_level_updated", holder: .user("c"), at: seconds(450),
            fact: .activate(.user("c"), seconds(450), until: seconds(950)))
        for order in permutations([alone] + Self.sharing(at: 100) + [last]) {
            let plan = Self.plan(order)
            #expect(plan.transfers.map(\.from) == [.user("a")])
            #expect(plan.transfers.map(\.to) == [.user("c")])
        }
    }

    private static func plan(_ events: some Sequence<Event>) -> BatchPlan {
        var plan = BatchPlan(purchases: [:], rules: Daemon.rules)
        for (row, arrival) in EventBatch(Array(events), in: .timedKeys).firsts.enumerated() {
            plan.add(BatchPlan.PlannedEvent(arrival, row: Int64(row + 1), purchase: arrival.purchaseHash))
        }
        return plan
    }
}
