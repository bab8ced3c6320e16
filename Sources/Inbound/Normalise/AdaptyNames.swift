internal import Vocabulary

/// Adapty's 18 event types (adapty.io/docs/webhook-event-types-and-fields), what each states about access (its page
/// "Event flows"), and its spelling of times.
///
/// | type | here | access |
/// |--|--|--|
/// | subscription_started | SUBSCRIPTION_, INTRO_OFFER_, PROMOTIONAL_OFFER_, PROMO_CODE_STARTED, by the offer | gain |
/// | subscription_renewed | SUBSCRIPTION_RENEWED | gain, also after a pause or a gap |
/// | subscription_renewal_cancelled, trial_renewal_cancelled | RENEWAL_DISABLED | stays to the period's end |
/// | subscription_renewal_reactivated, trial_renewal_reactivated | RENEWAL_ENABLED | gain |
/// | subscription_expired | SUBSCRIPTION_TERMINATED | loss |
/// | subscription_paused | SUBSCRIPTION_PAUSED | loss |
/// | subscription_paused before the period ends | SUBSCRIPTION_WILL_PAUSE | stays to the period's end |
/// | subscription_deferred | SUBSCRIPTION_DEFERRED | gain |
/// | subscription_refunded | SUBSCRIPTION_REFUNDED_REVOKED | loss |
/// | subscription_refunded of a profile that has access | SUBSCRIPTION_REFUNDED_REVOKED | stays |
/// | non_subscription_purchase | PURCHASE_VALIDATED | gain |
/// | non_subscription_purchase_refunded | DEACTIVATE | loss |
/// | trial_started, trial_converted | TRIAL_STARTED, TRIAL_CONVERTED | gain |
/// | trial_expired | TRIAL_NOT_CONVERTED | loss |
/// | entered_grace_period | GRACE_PERIOD_STARTED | gain |
/// | billing_issue_detected | ENTERED_BILLING_RETRY | a grace period may follow, or an end |
/// | access_level_updated | itself | gain or loss, as it states |
///
/// Only access_level_updated reports that access passes from one profile to another: a loss of the one and a gain of
/// the other. The profile that bought the subscription goes on to get its events (`isOfAnotherProfile`).
enum AdaptyNames {
    static let accessLevel = "access_level_updated"
    static let oneTimePrefix = "non_subscription_purchase"
    static let refundedSuffix = "_refunded"

    static let all =
        ["started", "renewed", "renewal_cancelled", "renewal_reactivated", "expired", "paused", "deferred", "refunded"]
        .map { "subscription_" + $0 }
        + [oneTimePrefix, oneTimePrefix + "_refunded"]
        + ["started", "converted", "renewal_cancelled", "renewal_reactivated", "expired"].map { "trial_" + $0 }
        + ["entered_grace_period", "billing_issue_detected", accessLevel]

    /// - Parameter isOver: whether the paid period has ended, or has no end. A pause is requested before it begins; the
    ///   page "Event flows" says of its older and its newer version that the event is sent at the one or the other.
    static func meaning(of name: String, offer: String, isOver: Bool) -> EventMeaning {
        switch name {
        case "subscription_started": EventMeaning(started(offer), .gain, status: Status.renewing)
        case "subscription_renewed": EventMeaning("SUBSCRIPTION_RENEWED", .gain, status: Status.renewing)
        case "subscription_renewal_cancelled", "trial_renewal_cancelled":
            EventMeaning("RENEWAL_DISABLED", status: Status.canceled)
        case "subscription_renewal_reactivated", "trial_renewal_reactivated":
            EventMeaning("RENEWAL_ENABLED", .gain, status: Status.renewing)
        case "subscription_expired": EventMeaning("SUBSCRIPTION_TERMINATED", .loss, status: Status.deactivated)
        case "subscription_paused" where !isOver: EventMeaning("SUBSCRIPTION_WILL_PAUSE")
        case "subscription_paused": EventMeaning("SUBSCRIPTION_PAUSED", .loss, status: Status.paused)
        case "subscription_deferred": EventMeaning("SUBSCRIPTION_DEFERRED", .gain, status: Status.renewing)
        case "subscription_refunded": .refunded
        case "non_subscription_purchase_refunded": .oneTimeRefunded
        case "non_subscription_purchase": EventMeaning("PURCHASE_VALIDATED", .gain)
        case "trial_started": EventMeaning("TRIAL_STARTED", .gain, status: Status.renewing)
        case "trial_converted": EventMeaning("TRIAL_CONVERTED", .gain, status: Status.renewing)
        case "trial_expired": EventMeaning("TRIAL_NOT_CONVERTED", .loss, status: Status.deactivated)
        case "entered_grace_period": EventMeaning("GRACE_PERIOD_STARTED", .gain, status: Status.inGracePeriod)
        case "billing_issue_detected": EventMeaning("ENTERED_BILLING_RETRY", status: Status.onHold)
        default: EventMeaning(name)
        }
    }

    /// Whether the event says what the customer wants of the next period. After the paid period it comes within a grace
    /// period, the end of which such an event may lack (the page "Webhook event types and fields"). Its product is that
    /// of the period before, also if the customer wants another one.
    static func changesRenewal(_ name: String) -> Bool {
        name.hasSuffix("_renewal_cancelled") || name.hasSuffix("_renewal_reactivated")
    }

    private typealias Status = SharedVocabulary.Status

    private static func started(_ offer: String) -> String {
        switch offer {
        case SharedVocabulary.Offer.freeTrial: "TRIAL_STARTED"
        case SharedVocabulary.Offer.intro: "INTRO_OFFER_STARTED"
        case SharedVocabulary.Offer.promotional: "PROMOTIONAL_OFFER_STARTED"
        case SharedVocabulary.Offer.promoCode: "PROMO_CODE_STARTED"
        default: "SUBSCRIPTION_STARTED"
        }
    }

    /// The meaning of access_level_updated. `is_active` is about this access level, `profile_has_access_level` about
    /// the profile. A profile without any access level has lost this one, too; one with access may have it by another
    /// purchase.
    static func access(_ properties: BodyFields) -> EventMeaning {
        let said = [properties.bool("is_active"), properties.bool("profile_has_access_level")].compactMap { $0 }
        guard !said.isEmpty else { return EventMeaning(accessLevel) }
        if said.contains(false) {
            let status = properties.flag("is_refund") ? Status.revoked : Status.deactivated
            return EventMeaning(accessLevel, .loss, status: status)
        }
        if properties.flag("is_in_grace_period") {
            return EventMeaning(accessLevel, .gain, status: Status.inGracePeriod)
        }
        let status = properties.bool("will_renew").map { $0 ? Status.renewing : Status.canceled }
        return EventMeaning(accessLevel, .gain, status: status)
    }

    /// `offer_type`. Fields without a value are not sent, so a missing offer is none.
    static func offer(of name: String, _ properties: BodyFields) throws(Unreadable) -> String {
        if name == accessLevel {
            if try properties.text("active_promotional_offer_type") != nil { return SharedVocabulary.Offer.promotional }
            guard let type = try properties.text("active_introductory_offer_type") else {
                return SharedVocabulary.Offer.none
            }
            return type == freeTrial ? SharedVocabulary.Offer.freeTrial : SharedVocabulary.Offer.intro
        }
        switch try properties.text("store_offer_category") {
        case "promotional", "winback", "win_back", "retention": return SharedVocabulary.Offer.promotional
        case "offer_code": return SharedVocabulary.Offer.promoCode
        case "introductory":
            let isFree = try properties.text("store_offer_discount_type") == freeTrial
            return isFree ? SharedVocabulary.Offer.freeTrial : SharedVocabulary.Offer.intro
        default:
            // A trial's own events may lack the offer's fields. A converted trial is paid.
            let isTrial = name.hasPrefix("trial_") && name != "trial_converted"
            return isTrial ? SharedVocabulary.Offer.freeTrial : SharedVocabulary.Offer.none
        }
    }

    private static let freeTrial = "free_trial"

    /// Whether a refund of a subscription leaves its profile access. It is of an earlier period then, or the profile
    /// has access by another purchase: ending access by the name alone could cut off a paying customer. Otherwise
    /// access_level_updated ends it, else the end of the refunded period.
    static func isRefundBesideAccess(_ name: String, _ properties: BodyFields) -> Bool {
        name == "subscription_refunded" && properties.flag("profile_has_access_level")
    }

    /// Whether what goes on is that of another profile. Where access passes on to another user, the page "How profiles
    /// work" says, the events of renewals still come under the profile that bought the subscription, which has no
    /// access any more; the one that has it gets access_level_updated. What begins is that of whoever buys it.
    static func isOfAnotherProfile(_ name: String, _ properties: BodyFields) -> Bool {
        guard properties.bool("profile_has_access_level") == false else { return false }
        if goingOn.contains(name) { return true }
        // Begun by a change of plan: the first of a chain has the chain's own id.
        guard begun.contains(name), let transaction = try? properties.text("transaction_id"),
            let original = try? properties.text("original_transaction_id")
        else { return false }
        return transaction != original
    }

    private static let begun: Set<String> = ["subscription_started", "trial_started"]

    /// Where the plan is changed at the end of a period, the end of the old one and the begin of the new one have one
    /// time (the page "Event flows"), and Apple keeps the original transaction: what begins comes after what ends, and
    /// names the product.
    static let ends: Set<String> = ["subscription_expired", "trial_expired"]

    private static let goingOn: Set<String> = [
        "subscription_renewed", "subscription_renewal_reactivated", "subscription_deferred", "trial_converted",
        "trial_renewal_reactivated", "entered_grace_period",
    ]

    /// Whether an event ends a transaction only because another one of the same subscription replaces it. Apple keeps
    /// the original transaction then, so both are one purchase here, and its holder loses nothing; other stores begin a
    /// new one.
    static func isReplaced(_ properties: BodyFields, store: String) throws(Unreadable) -> Bool {
        guard store == SharedVocabulary.apple else { return false }
        return switch try properties.text("cancellation_reason") {
        case "upgraded", "new_subscription_replace": true
        default: false
        }
    }

    /// Reads ISO 8601 with an offset that has no colon, `2024-01-31T10:11:12.123456+0000`, or only hours, and
    /// everything that `Timestamp(iso8601:)` reads.
    static func time(_ text: String) -> Timestamp? {
        if let time = Timestamp(iso8601: text) { return time }
        let bytes = Array(text.utf8)
        guard let sign = bytes.lastIndex(where: { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "-") }) else {
            return nil
        }
        let minutes: [UInt8]
        switch bytes.count - sign - 1 {
        case 4: minutes = Array(bytes[(sign + 3)...])
        case 2: minutes = Array("00".utf8)
        default: return nil
        }
        let spelled = bytes[..<min(sign + 3, bytes.count)] + [UInt8(ascii: ":")] + minutes
        return Timestamp(iso8601: String(decoding: spelled, as: UTF8.self))
    }
}
