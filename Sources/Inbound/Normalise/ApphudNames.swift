internal import Vocabulary

/// Apphud's events (docs.apphud.com/docs/events) and their meanings.
///
/// Access follows the names: started, renewed, converted and active give it, expired and refunded end it. A
/// cancellation or a switch of the renewal does not change the paid period, and a billing issue is decided by the
/// following renewal or expiry.
enum ApphudNames {
    static let billingIssue = "billing_issue"

    static let all: [String] = trials + subscriptions + offers + renewals + oneTime + notOfPurchases

    private static let trials = ["active", "canceled", "converted", "expired", "started"].map { "trial_" + $0 }
    private static let subscriptions = ["started", "renewed", "canceled", "expired", "refunded"].map {
        "subscription_" + $0
    }
    private static let offers = ["intro_", "promo_"].flatMap { offer in
        ["started", "renewed", "converted", "expired", "refunded"].map { offer + $0 }
    }
    private static let renewals = ["autorenew_enabled", "autorenew_disabled", billingIssue]
    private static let oneTime = ["non_renewing_purchase", "non_renewing_purchase_refunded"]
    /// Events about what a user does or is; a product in such an event was not bought by it.
    static let notOfPurchases = [
        "paywall_shown", "paywall_closed", "paywall_checkout_initiated", "paywall_checkout_cancelled", "user_created",
    ]

    static func meaning(of name: String) -> EventMeaning? {
        typealias Status = SharedVocabulary.Status
        return switch name {
        case "trial_started": EventMeaning("TRIAL_STARTED", .gain, status: Status.renewing)
        // Sent while the trial lasts and is not cancelled: the user has it. There is no v3 name for that.
        case "trial_active": EventMeaning(name, .gain, status: Status.renewing)
        case "trial_converted": EventMeaning("TRIAL_CONVERTED", .gain, status: Status.renewing)
        case "trial_canceled": EventMeaning("RENEWAL_DISABLED", status: Status.canceled)
        case "trial_expired": EventMeaning("TRIAL_NOT_CONVERTED", .loss, status: Status.deactivated)
        case "subscription_started": EventMeaning("SUBSCRIPTION_STARTED", .gain, status: Status.renewing)
        case "subscription_renewed": EventMeaning("SUBSCRIPTION_RENEWED", .gain, status: Status.renewing)
        case "subscription_canceled", "autorenew_disabled": EventMeaning("RENEWAL_DISABLED", status: Status.canceled)
        case "subscription_expired": EventMeaning("SUBSCRIPTION_TERMINATED", .loss, status: Status.deactivated)
        case "subscription_refunded": .refunded
        case "intro_started": EventMeaning("INTRO_OFFER_STARTED", .gain, status: Status.renewing)
        case "intro_renewed": EventMeaning("SUBSCRIPTION_RENEWED", .gain, status: Status.renewing)
        case "intro_converted": EventMeaning("INTRO_OFFER_CONVERTED", .gain, status: Status.renewing)
        case "intro_expired": EventMeaning("INTRO_OFFER_NOT_CONVERTED", .loss, status: Status.deactivated)
        case "intro_refunded": .refunded
        case "promo_started": EventMeaning("PROMOTIONAL_OFFER_STARTED", .gain, status: Status.renewing)
        case "promo_renewed": EventMeaning("SUBSCRIPTION_RENEWED", .gain, status: Status.renewing)
        case "promo_converted": EventMeaning("PROMOTIONAL_OFFER_CONVERTED", .gain, status: Status.renewing)
        case "promo_expired": EventMeaning("PROMOTIONAL_OFFER_NOT_CONVERTED", .loss, status: Status.deactivated)
        case "promo_refunded": .refunded
        case "autorenew_enabled": EventMeaning("RENEWAL_ENABLED", status: Status.renewing)
        case billingIssue: EventMeaning("ENTERED_BILLING_RETRY", status: Status.onHold)
        case "non_renewing_purchase": EventMeaning("PURCHASE_VALIDATED", .gain)
        case "non_renewing_purchase_refunded": .oneTimeRefunded
        default: nil
        }
    }

    /// Statuses of a line whose customer has access; that of one that was refunded is `refunded`.
    static let paying: Set<String> = ["trial", "intro", "promo", "regular", "grace"]

    /// The offer of the period, if the name states it. A conversion is bought without an offer.
    static func offer(of name: String) -> String? {
        if name.hasSuffix("_converted") { return SharedVocabulary.Offer.none }
        if name.hasPrefix("trial_") { return SharedVocabulary.Offer.freeTrial }
        if name.hasPrefix("intro_") { return SharedVocabulary.Offer.intro }
        return name.hasPrefix("promo_") ? SharedVocabulary.Offer.promotional : nil
    }

    static func purchaseKind(of name: String) -> Purchase.Kind {
        name.hasPrefix("non_renewing_purchase") ? .oneTime : .subscription
    }
}
