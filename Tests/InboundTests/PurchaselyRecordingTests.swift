import Testing
import Vocabulary

@testable import Inbound
@testable import Ledger

/// What Purchasely's webhooks of one subscription mean together, read and recorded in every order. Oracle: Domain.md,
/// "A change of plan" and "Ends by the clock".
@Suite("Purchasely's webhooks, recorded together")
struct PurchaselyRecordingTests {
    private static let begin: Int64 = 1_636_307_015_225
    private static let monthlyEnd = begin + 30 * 86_400_000
    private static let yearlyEnd = begin + 365 * 86_400_000

    /// Of the subscription's only transaction.
    private static func webhook(
        _ name: String, plan: String, at time: Int64 = begin, status: String, until: Int64,
        _ more: [(String, String?)] = []
    ) throws -> Event {
        let fields: [(String, String?)] = [
            ("event_name", "\"\(name)\""), ("product", "\"\(plan)\""), ("plan", "\"\(plan)\""),
            ("event_created_at_ms", "\(time)"), ("subscription_status", "\"\(status)\""),
            ("effective_next_renewal_at_ms", "\(until)"),
        ]
        return try event(body(fields + more))
    }

    private static func recorded(_ events: [Event]) -> BatchPlan {
        var plan = BatchPlan(purchases: [:], rules: [:])
        for (row, arrival) in EventBatch(events, in: .timedKeys).firsts.enumerated() {
            plan.add(BatchPlan.PlannedEvent(arrival, row: Int64(row + 1), purchase: arrival.purchaseHash))
        }
        return plan
    }

    private static func ends(_ plan: BatchPlan) -> [Int64?] {
        plan.transactions.values.map { $0.transaction.effectiveNextRenewalAt?.milliseconds }
    }

    @Test(
        "The end of a plan that was left takes nothing off the new plan's end, in either order, unless it is REVOKED",
        arguments: [(0, "DEACTIVATED"), (1, "DEACTIVATED"), (1, "REVOKED")] as [(Int64, String)])
    func leftPlan(_ delay: Int64, _ status: String) throws {
        let events = try [
            Self.webhook("ACTIVATE", plan: "yearly", status: "AUTO_RENEWING", until: Self.yearlyEnd),
            Self.webhook(
                "DEACTIVATE", plan: "monthly", at: Self.begin + delay, status: status, until: Self.monthlyEnd),
        ]
        let isRevoked = status == "REVOKED"
        for order in [events, Array(events.reversed())] {
            let plan = Self.recorded(order)
            #expect(Self.ends(plan) == [isRevoked ? Self.monthlyEnd : Self.yearlyEnd])
            #expect(plan.transactions.values.map(\.transaction.status) == [isRevoked ? "REVOKED" : "AUTO_RENEWING"])
            #expect(plan.purchases.values.map(\.purchase.product) == ["yearly"])
            #expect(plan.entitlements.values.map(\.access.isActive) == [true], "only the clock ends it")
        }
    }

    @Test(
        "A subscription that passes on keeps its status, whatever its old holder's webhook calls it, in either order",
        arguments: [0, 5_000] as [Int64])
    func transferred(_ delay: Int64) throws {
        let old: [(String, String?)] = [
            ("user_id", nil), ("anonymous_user_id", "\"a1\""), ("transferred_to_user_id", "\"u1\""),
        ]
        let events = try [
            Self.webhook("ACTIVATE", plan: "monthly", status: "AUTO_RENEWING", until: Self.monthlyEnd),
            Self.webhook(
                "SUBSCRIPTION_TRANSFERRED", plan: "monthly", at: Self.begin + delay, status: "DEACTIVATED",
                until: Self.monthlyEnd, old),
        ]
        for order in [events, Array(events.reversed())] {
            let plan = Self.recorded(order)
            #expect(plan.transactions.values.map(\.transaction.status) == ["AUTO_RENEWING"])
            #expect(plan.entitlements.values.filter(\.access.isActive).map(\.holder) == [.user("u1")])
        }
        #expect(Self.ends(Self.recorded([events[1]])) == [Self.monthlyEnd])
    }
}
