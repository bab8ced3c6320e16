/// The types of messages that mean the same for all sources: the event names of api_version 3 (Domain.md, "Messages").
package enum StandardTypes {
    /// A refund, or what was taken back otherwise.
    package static let refunded = "SUBSCRIPTION_REFUNDED_REVOKED"

    package static let all: [String] =
        ["ACTIVATE", "DEACTIVATE"] + lifecycle + billing + pause + transfer + offers + money + legacy

    /// Those of Posthouse itself (posthouse-messages(7), "Posthouse's own messages").
    package static let relay: [String] = [
        "posthouse.integration.failing", "posthouse.integration.recovered", "posthouse.integration.paused",
        "posthouse.integration.dead", "posthouse.access.lapsed",
    ]

    private static let lifecycle = [
        "SUBSCRIPTION_STARTED", "SUBSCRIPTION_RENEWED", "SUBSCRIPTION_REACTIVATED", "SUBSCRIPTION_DEFERRED",
        "SUBSCRIPTION_CROSSGRADED", "SUBSCRIPTION_DOWNGRADED", "SUBSCRIPTION_UPGRADED", "RENEWAL_DISABLED",
        "RENEWAL_ENABLED", "RETENTION_MESSAGE_REQUESTED", "SUBSCRIPTION_TERMINATED", "FAMILY_SHARED_REVOKED",
        refunded,
    ]
    private static let billing = [
        "GRACE_PERIOD_STARTED", "GRACE_PERIOD_TERMINATED", "ENTERED_BILLING_RETRY",
        "SUBSCRIPTION_CANCELLED_DURING_GRACE_PERIOD", "SUBSCRIPTION_RECOVERED_FROM_GRACE_PERIOD",
        "SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY",
    ]
    private static let pause = [
        "SUBSCRIPTION_WILL_PAUSE", "SUBSCRIPTION_PAUSED", "SUBSCRIPTION_UNPAUSED",
        "SUBSCRIPTION_CANCELLED_DURING_PAUSE", "SUBSCRIPTION_WILL_NOT_PAUSE",
    ]
    private static let transfer = [
        "SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED", "ONE_TIME_PURCHASE_TRANSFERRED",
        "ONE_TIME_PURCHASE_RECEIVED",
    ]
    private static let offers = ["TRIAL", "INTRO_OFFER", "PROMO_CODE", "PROMOTIONAL_OFFER"].flatMap { offer in
        ["STARTED", "CONVERTED", "NOT_CONVERTED"].map { "\(offer)_\($0)" }
    }
    private static let money = ["TRANSACTION_PROCESSED", "INSTALLMENT_PAID", "INSTALLMENT_REFUNDED"]
    /// Names of api_version 2, still on the pages of some of the platform's integrations.
    private static let legacy = ["SUBSCRIPTION_EXPIRED", "PURCHASE_VALIDATED"]
}
