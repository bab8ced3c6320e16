internal import Vocabulary

/// RevenueCat's event types (revenuecat.com/docs/integrations/webhooks/event-types-and-fields), what each states about
/// access, and its ids of customers.
///
/// | type | here | access |
/// |--|--|--|
/// | INITIAL_PURCHASE | TRIAL_, INTRO_OFFER_, PROMOTIONAL_OFFER_ or SUBSCRIPTION_STARTED, by `period_type` | gain |
/// | RENEWAL | SUBSCRIPTION_RENEWED, TRIAL_CONVERTED | gain |
/// | UNCANCELLATION | RENEWAL_ENABLED | gain: it is sent for subscriptions that have not expired |
/// | CANCELLATION | RENEWAL_DISABLED | unchanged until EXPIRATION |
/// | CANCELLATION, BILLING_ERROR | RENEWAL_DISABLED | unchanged: BILLING_ISSUE, sent with it, has the period |
/// | CANCELLATION, CUSTOMER_SUPPORT | SUBSCRIPTION_REFUNDED_REVOKED | loss: a refund |
/// | CANCELLATION, CUSTOMER_SUPPORT before its end | SUBSCRIPTION_REFUNDED_REVOKED | unchanged until EXPIRATION |
/// | CANCELLATION of a one-time purchase, but for a renewal's reasons | DEACTIVATE | loss: no EXPIRATION follows |
/// | EXPIRATION | SUBSCRIPTION_TERMINATED, TRIAL_NOT_CONVERTED, SUBSCRIPTION_PAUSED | loss |
/// | BILLING_ISSUE | GRACE_PERIOD_STARTED | gain until the grace period ends |
/// | BILLING_ISSUE without a grace date | ENTERED_BILLING_RETRY | EXPIRATION says whether it ends |
/// | PRODUCT_CHANGE | SUBSCRIPTION_CROSSGRADED | none: "does not mean the new one is in effect"; a purchase follows |
/// | SUBSCRIPTION_PAUSED | SUBSCRIPTION_WILL_PAUSE | unchanged until EXPIRATION |
/// | SUBSCRIPTION_EXTENDED | SUBSCRIPTION_DEFERRED | gain |
/// | REFUND_REVERSED | SUBSCRIPTION_REACTIVATED, while the period runs; one-time: PURCHASE_VALIDATED | gain |
/// | NON_RENEWING_PURCHASE | PURCHASE_VALIDATED | gain |
/// | TEMPORARY_ENTITLEMENT_GRANT | itself | none: its transaction may be another than the purchase's, and have no end |
/// | VIRTUAL_CURRENCY_TRANSACTION | itself | none: the purchase that changed a balance has its own event |
/// | TRANSFER | itself | moves everything that its customers hold |
/// | PURCHASE_REDEEMED | itself | the same, if its outcome is `alias` or `transfer` |
/// | SUBSCRIBER_ALIAS, TEST, any other | itself | none |
enum RevenueCatNames {
    static let transfer = "TRANSFER"
    /// Names customers only, as TRANSFER does.
    static let redeemed = "PURCHASE_REDEEMED"
    static let test = "TEST"
    static let alias = "SUBSCRIBER_ALIAS"
    /// Names the product that the customer leaves, at or after the time of the event that names the new one.
    static let productChange = "PRODUCT_CHANGE"
    /// Names a store transaction, and neither the first one of its purchase nor its period
    /// (revenuecat.com/docs/offerings/virtual-currency/events).
    static let virtualCurrency = "VIRTUAL_CURRENCY_TRANSACTION"
    private static let temporaryGrant = "TEMPORARY_ENTITLEMENT_GRANT"
    /// Their transactions are none of a purchase.
    static let notOfPurchases: Set<String> = [virtualCurrency, temporaryGrant]

    static let all = [
        test, "INITIAL_PURCHASE", "RENEWAL", "CANCELLATION", "UNCANCELLATION", "NON_RENEWING_PURCHASE",
        "SUBSCRIPTION_PAUSED", "EXPIRATION", "BILLING_ISSUE", productChange, transfer, "SUBSCRIPTION_EXTENDED",
        temporaryGrant, "REFUND_REVERSED", alias, virtualCurrency, redeemed,
    ]

    /// The other members of the body on which an event's meaning depends.
    struct Details {
        var periodType: String?
        var cancelReason: String?
        var expirationReason: String?
        var isTrialConversion = false
        var hasGracePeriod = false
        /// Whether the purchase never ends by itself.
        var isOneTime = false
        /// Whether the period that the event states ends after it.
        var isRunning = false
    }

    static func meaning(of name: String, _ details: Details) -> EventMeaning {
        // A prepaid period renews only by another purchase.
        let renewing = details.periodType == "PREPAID" ? nil : SharedVocabulary.Status.renewing
        switch name {
        case "INITIAL_PURCHASE": return EventMeaning(started(details.periodType), .gain, status: renewing)
        case "RENEWAL":
            let type = details.isTrialConversion ? "TRIAL_CONVERTED" : "SUBSCRIPTION_RENEWED"
            return EventMeaning(type, .gain, status: renewing)
        case "UNCANCELLATION": return EventMeaning("RENEWAL_ENABLED", .gain, status: renewing)
        case "CANCELLATION" where details.isOneTime && !ofRenewals.contains(details.cancelReason ?? ""):
            // It has no renewal that could be switched off, and nothing else ends it.
            return .oneTimeRefunded
        case "CANCELLATION":
            if details.cancelReason == refundReason { return refunded(details) }
            return EventMeaning("RENEWAL_DISABLED", status: SharedVocabulary.Status.canceled)
        case "EXPIRATION": return ended(details)
        case "BILLING_ISSUE":
            return details.hasGracePeriod
                ? EventMeaning("GRACE_PERIOD_STARTED", .gain, status: SharedVocabulary.Status.inGracePeriod)
                : EventMeaning("ENTERED_BILLING_RETRY", status: SharedVocabulary.Status.onHold)
        case productChange: return EventMeaning("SUBSCRIPTION_CROSSGRADED")
        case "SUBSCRIPTION_PAUSED": return EventMeaning("SUBSCRIPTION_WILL_PAUSE")
        case "SUBSCRIPTION_EXTENDED": return EventMeaning("SUBSCRIPTION_DEFERRED", .gain, status: renewing)
        case "REFUND_REVERSED" where !details.isOneTime:
            // The money of a period that is over gives no access back.
            return details.isRunning
                ? EventMeaning("SUBSCRIPTION_REACTIVATED", .gain, status: renewing)
                : EventMeaning("SUBSCRIPTION_REACTIVATED")
        case "NON_RENEWING_PURCHASE", "REFUND_REVERSED": return EventMeaning("PURCHASE_VALIDATED", .gain)
        default: return EventMeaning(name)
        }
    }

    /// The reason for a refund, of a cancellation and of an expiration.
    private static let refundReason = "CUSTOMER_SUPPORT"
    /// Reasons that only a subscription has, also one whose end cannot be read
    /// (revenuecat.com/docs/integrations/webhooks/event-types-and-fields).
    private static let ofRenewals: Set = ["UNSUBSCRIBE", "BILLING_ERROR", "PRICE_INCREASE"]

    /// Those that say that somebody paid.
    static let charging: Set<String> = ["INITIAL_PURCHASE", "RENEWAL", "NON_RENEWING_PURCHASE", "REFUND_REVERSED"]

    /// Whether the event is a refund. The expiration that follows it has the same reason, and is none.
    static func isRefund(_ name: String, _ details: Details) -> Bool {
        name == "CANCELLATION" && details.cancelReason == refundReason
    }

    /// Whether the event says nothing of the period that holds now. Only BILLING_ISSUE has the end of a grace period
    /// (revenuecat.com/docs/integrations/webhooks/event-types-and-fields): the cancellation for a billing error that is
    /// sent together with it lacks it, and so does what the customer changes in that time, after the paid period.
    /// - Parameter isOver: whether the period that it states ended before the event.
    static func isWithoutPeriod(_ name: String, _ details: Details, isOver: Bool) -> Bool {
        switch name {
        case "CANCELLATION" where details.cancelReason == refundReason: false
        case "CANCELLATION": isOver || details.cancelReason == "BILLING_ERROR"
        case "UNCANCELLATION", productChange, "SUBSCRIPTION_PAUSED": isOver
        default: false
        }
    }

    private static func started(_ periodType: String?) -> String {
        switch periodType {
        case "TRIAL": "TRIAL_STARTED"
        case "INTRO": "INTRO_OFFER_STARTED"
        case "PROMOTIONAL": "PROMOTIONAL_OFFER_STARTED"
        default: "SUBSCRIPTION_STARTED"
        }
    }

    /// "Refunds can be given without cancelling a subscription", and `expiration_at_ms` says whether it is still active
    /// (revenuecat.com/docs/integrations/webhooks/event-types-and-fields): of one that the refund ended it is not after
    /// the event. Otherwise EXPIRATION ends it, and nothing is known of its renewal.
    private static func refunded(_ details: Details) -> EventMeaning {
        details.isRunning ? EventMeaning(EventMeaning.refunded.type) : .refunded
    }

    private static func ended(_ details: Details) -> EventMeaning {
        if details.expirationReason == "SUBSCRIPTION_PAUSED" {
            return EventMeaning("SUBSCRIPTION_PAUSED", .loss, status: SharedVocabulary.Status.paused)
        }
        let type = details.periodType == "TRIAL" ? "TRIAL_NOT_CONVERTED" : "SUBSCRIPTION_TERMINATED"
        let isRefunded = details.expirationReason == refundReason
        return EventMeaning(
            type, .loss, status: isRefunded ? SharedVocabulary.Status.revoked : SharedVocabulary.Status.deactivated)
    }

    /// `offer_type` of a period.
    static func offer(_ periodType: String?) -> String? {
        switch periodType {
        case "TRIAL": SharedVocabulary.Offer.freeTrial
        case "INTRO": SharedVocabulary.Offer.intro
        case "PROMOTIONAL": SharedVocabulary.Offer.promotional
        case "NORMAL", "PREPAID": SharedVocabulary.Offer.none
        default: periodType
        }
    }

    /// The events that one-time purchases have, too. All others are about subscriptions.
    static let sharedWithOneTime: Set<String> = ["NON_RENEWING_PURCHASE", "CANCELLATION", "REFUND_REVERSED"]

    // MARK: Customers

    /// The prefix of the ids that the vendor's SDK generates (revenuecat.com/docs/customers/user-ids).
    private static let anonymousPrefix = "$RCAnonymousID:"

    static func holder(_ id: String) -> Holder {
        id.utf8.starts(with: anonymousPrefix.utf8) ? .anonymous(id) : .user(id)
    }

    /// The holder's id, with the prefix by which `holder(_:)` recognises an anonymous one.
    static func id(of holder: Holder) -> String {
        holder.isAnonymous && !holder.id.utf8.starts(with: anonymousPrefix.utf8)
            ? anonymousPrefix + holder.id : holder.id
    }
}
