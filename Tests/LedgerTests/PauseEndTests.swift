import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// A recovery that ends a pause and does not say so. Oracle: the status that was recorded last before it.
@Suite("Recording: the end of a pause", .serialized)
struct PauseEndTests {
    private static let recovered = "SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY"
    private static let unpaused = "SUBSCRIPTION_UNPAUSED"

    /// - Parameter order: of the payment: one that begins with the end of a pause is another than the one before it.
    private static func event(
        _ name: String, _ status: String?, order: String, at time: Int64, purchase: String = "token-1"
    ) -> Event {
        let fact = Fact(kind: status == "AUTO_RENEWING" ? .gain : .loss, holder: user, at: seconds(time))
        return Event(
            scope: Scope(source: "sealed", app: "app.one", environment: "PRODUCTION"),
            vendorEventID: "\(purchase)-\(time)", name: name, type: name == "RECOVERED" ? recovered : name,
            holder: user, occurredAt: seconds(time),
            purchase: Purchase(
                key: purchase, kind: .subscription, store: "GOOGLE_PLAY_STORE", product: "gold", plan: nil,
                subscriptionID: nil),
            transaction: Transaction(
                storeTransactionID: order, storeOriginalTransactionID: nil, purchasedAt: nil,
                effectiveNextRenewalAt: nil, offerType: nil, status: status),
            typeIfPaused: name == "RECOVERED" ? unpaused : nil, facts: [fact],
            body: Array(#"{"is":"\#(purchase)-\#(time)"}"#.utf8))
    }

    private static let bought = event("BOUGHT", "AUTO_RENEWING", order: "o", at: 0)
    private static let paused = event("PAUSED", "PAUSED", order: "o", at: 10)
    private static let held = event("HELD", "ON_HOLD", order: "o", at: 20)
    /// Says nothing of the status, like a notification about an older payment.
    private static let silent = event("SILENT", nil, order: "older", at: 25)
    private static let resumed = event("RECOVERED", "AUTO_RENEWING", order: "o..0", at: 30)
    private static let again = event("RECOVERED", "AUTO_RENEWING", order: "o..0", at: 40)
    private static let others = event("PAUSED", "PAUSED", order: "p", at: 29, purchase: "token-2")

    /// What arrives, in this order, and the types of the recoveries.
    private static let histories: [(arrivals: [Event], types: String)] = [
        ([bought, paused, resumed], unpaused),
        ([bought, paused, silent, resumed, again], "\(unpaused) \(recovered)"),
        ([bought, held, resumed], recovered),
        ([bought, paused, held, resumed], recovered),
        // The pause is older than what is known.
        ([bought, held, paused, resumed], recovered),
        ([bought, others, resumed], recovered),
        // It comes too late to name the recovery.
        ([resumed, paused], recovered),
    ]

    @Test("A recovery has the name of a pause's end if the newest known status is a pause, and its own otherwise")
    func newestStatus() async throws {
        for (index, history) in Self.histories.enumerated() {
            // One batch each, so that the later read what the earlier wrote; then all in one.
            for isOneBatch in [false, true] {
                try await TestLedger.run { ledger in
                    let daemon = try await ledger.daemon()
                    let batches = isOneBatch ? [history.arrivals] : history.arrivals.map { [$0] }
                    for batch in batches { await daemon.record(batch) }
                    for table in ["events", "messages"] {
                        let types = try ledger.psql(
                            """
                            SELECT string_agg(type, ' ' ORDER BY id) FROM \(table)
                            WHERE type IN ('\(Self.recovered)', '\(Self.unpaused)')
                            """)
                        #expect(types == history.types, "history \(index), one batch: \(isOneBatch), \(table)")
                    }
                }
            }
        }
    }
}
