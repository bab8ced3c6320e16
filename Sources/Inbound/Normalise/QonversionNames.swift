internal import Vocabulary

/// Qonversion's default event names (documentation.qonversion.io/docs/webhooks, /events-analytics) and their meanings.
/// Names can be changed at the vendor: `Source.renamedEvents` maps them back to these.
///
/// Access follows the names: a subscription that starts, renews, converts or changes its product is held; one that
/// expired or was refunded is not. A cancellation only switches the renewal off, and a billing retry is decided by the
/// following renewal or expiry.
enum QonversionNames {
    static let all: [String] =
        trials + subscriptions + ["in_app_purchase", "in_app_refunded", "refund_consumption", "refund_declined"]

    private static let trials = [
        "trial_started", "trial_converted", "trial_canceled", "trial_cancelled", "trial_expired", "trial_still_active",
        "trial_billing_retry_entered",
    ]
    private static let subscriptions = [
        "subscription_started", "subscription_renewed", "subscription_canceled", "subscription_refunded",
        "subscription_expired", "subscription_upgraded", "subscription_downgraded", "subscription_product_changed",
        "subscription_billing_retry_entered",
    ]

    /// The meaning of a name. The vendor's pages write the same name as `in_app_purchase` and as "In-App Purchase":
    /// both are found.
    static func meaning(of name: String) -> EventMeaning? {
        typealias Status = SharedVocabulary.Status
        return switch canonical(name) {
        case "trial_started": EventMeaning("TRIAL_STARTED", .gain, status: Status.renewing)
        case "trial_converted": EventMeaning("TRIAL_CONVERTED", .gain, status: Status.renewing)
        case "trial_canceled", "trial_cancelled":
            EventMeaning("RENEWAL_DISABLED", status: Status.canceled)
        case "trial_expired": EventMeaning("TRIAL_NOT_CONVERTED", .loss, status: Status.deactivated)
        // Sent while the trial lasts and is not cancelled: the user has it. There is no v3 name for that.
        case "trial_still_active": EventMeaning(name, .gain, status: Status.renewing)
        case "trial_billing_retry_entered", "trial_billing_retry":
            EventMeaning("ENTERED_BILLING_RETRY", status: Status.onHold)
        case "subscription_started": EventMeaning("SUBSCRIPTION_STARTED", .gain, status: Status.renewing)
        case "subscription_renewed": EventMeaning("SUBSCRIPTION_RENEWED", .gain, status: Status.renewing)
        case "subscription_canceled", "subscription_cancelled":
            EventMeaning("RENEWAL_DISABLED", status: Status.canceled)
        case "subscription_refunded": .refunded
        case "subscription_expired": EventMeaning("SUBSCRIPTION_TERMINATED", .loss, status: Status.deactivated)
        case "subscription_upgraded": EventMeaning("SUBSCRIPTION_UPGRADED", .gain, status: Status.renewing)
        case "subscription_downgraded": EventMeaning("SUBSCRIPTION_DOWNGRADED", .gain, status: Status.renewing)
        case "subscription_product_changed": EventMeaning("SUBSCRIPTION_CROSSGRADED", .gain, status: Status.renewing)
        case "subscription_billing_retry_entered", "subscription_billing_retry":
            EventMeaning("ENTERED_BILLING_RETRY", status: Status.onHold)
        case "in_app_purchase": EventMeaning("PURCHASE_VALIDATED", .gain)
        case "in_app_refunded": .oneTimeRefunded
        case "refund_consumption", "refund_declined": EventMeaning(name)
        default: nil
        }
    }

    /// The offer of the period; only the name states it.
    static func offer(of name: String) -> String {
        let name = canonical(name)
        return name.hasPrefix("trial_") && name != "trial_converted"
            ? SharedVocabulary.Offer.freeTrial : SharedVocabulary.Offer.none
    }

    /// - Parameter expires: whether the body names the end of a paid period, which only a subscription has.
    static func purchaseKind(of name: String, expires: Bool) -> Purchase.Kind {
        let name = canonical(name)
        if name.hasPrefix("in_app_") { return .oneTime }
        // Refund requests concern either kind.
        return name.hasPrefix("refund_") && !expires ? .oneTime : .subscription
    }

    static func store(ofPlatform platform: String) -> String {
        switch canonical(platform) {
        case "ios", "ipados", "macos", "tvos", "watchos", "visionos": SharedVocabulary.apple
        default: SharedVocabulary.store(platform)
        }
    }

    private static func canonical(_ name: String) -> String {
        String(name.lowercased().map { $0 == " " || $0 == "-" ? "_" : $0 })
    }
}
