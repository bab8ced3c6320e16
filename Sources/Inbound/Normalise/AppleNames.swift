internal import Vocabulary

/// The name of a notification: its type, and its subtype where it has one.
struct AppleName: Hashable {
    let type: String
    let subtype: String?

    /// `DID_RENEW`, `DID_RENEW/BILLING_RECOVERY`.
    var text: String { subtype.map { "\(type)/\($0)" } ?? type }

    init(_ type: String, _ subtype: String? = nil) {
        self.type = type
        self.subtype = subtype
    }

    /// Reads what `text` writes.
    init(text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        self.init(String(parts[0]), parts.count > 1 ? String(parts[1]) : nil)
    }
}

/// Apple's notification types and subtypes (developer.apple.com/documentation/appstoreservernotifications/
/// notificationtype, …/subtype), and what each states about access.
///
/// | type / subtype | here | access |
/// |--|--|--|
/// | SUBSCRIBED / INITIAL_BUY | TRIAL_, INTRO_OFFER_, PROMOTIONAL_OFFER_, PROMO_CODE_ or SUBSCRIPTION_STARTED | gain |
/// | SUBSCRIBED / RESUBSCRIBE | SUBSCRIPTION_REACTIVATED | gain |
/// | DID_RENEW | SUBSCRIPTION_RENEWED; TRIAL_CONVERTED if the ledger knows of the trial | gain |
/// | DID_RENEW / BILLING_RECOVERY | SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY | gain |
/// | DID_CHANGE_RENEWAL_PREF / UPGRADE, OFFER_REDEEMED / UPGRADE | SUBSCRIPTION_UPGRADED: in force at once | gain |
/// | DID_CHANGE_RENEWAL_PREF / DOWNGRADE | SUBSCRIPTION_DOWNGRADED: in force at the next renewal | none |
/// | DID_CHANGE_RENEWAL_STATUS / AUTO_RENEW_DISABLED | RENEWAL_DISABLED | unchanged until EXPIRED |
/// | DID_CHANGE_RENEWAL_STATUS / AUTO_RENEW_ENABLED | RENEWAL_ENABLED | gain, while it runs |
/// | DID_FAIL_TO_RENEW / GRACE_PERIOD | GRACE_PERIOD_STARTED | gain until the grace period ends |
/// | DID_FAIL_TO_RENEW | ENTERED_BILLING_RETRY: "you can stop providing service" | loss, once the period is over |
/// | GRACE_PERIOD_EXPIRED | GRACE_PERIOD_TERMINATED | loss |
/// | EXPIRED / any | SUBSCRIPTION_TERMINATED; of a free trial TRIAL_NOT_CONVERTED | loss |
/// | REFUND of a subscription | SUBSCRIPTION_REFUNDED_REVOKED | by `status`: it may be about a period long past |
/// | REFUND of anything else | DEACTIVATE, if the transaction has a `revocationDate` | loss |
/// | REFUND_REVERSED | SUBSCRIPTION_REACTIVATED, while the period runs; one-time: PURCHASE_VALIDATED | gain |
/// | REVOKE | FAMILY_SHARED_REVOKED; of a seat that was assigned: itself | loss |
/// | ONE_TIME_CHARGE | PURCHASE_VALIDATED | gain |
/// | RENEWAL_EXTENDED | SUBSCRIPTION_DEFERRED | gain |
/// | any other | itself | none |
///
/// A transaction with `isUpgraded` was replaced by another one and states nothing, whatever it is called.
enum AppleNames {
    static let test = "TEST"
    static let summary = AppleName("RENEWAL_EXTENSION", "SUMMARY")
    static let externalPurchase = "EXTERNAL_PURCHASE_TOKEN"
    static let rescindConsent = "RESCIND_CONSENT"
    static let oneTimeCharge = "ONE_TIME_CHARGE"
    static let refund = "REFUND"
    /// The type here of a renewal, which may convert a trial.
    static let renewed = "SUBSCRIPTION_RENEWED"

    /// The names that Apple documents, types alone and with each of their subtypes.
    static let all: [String] = documented.flatMap { entry in
        let alone = entry.isAlone ? [entry.type] : []
        return alone + entry.subtypes.map { AppleName(entry.type, $0).text }
    }

    /// Whether a type occurs without a subtype, and with which it does.
    private static let documented: [(type: String, isAlone: Bool, subtypes: [String])] = [
        (test, true, []),
        ("SUBSCRIBED", false, ["INITIAL_BUY", "RESUBSCRIBE"]),
        ("DID_RENEW", true, ["BILLING_RECOVERY"]),
        ("DID_CHANGE_RENEWAL_PREF", true, ["UPGRADE", "DOWNGRADE"]),
        ("DID_CHANGE_RENEWAL_STATUS", false, ["AUTO_RENEW_DISABLED", "AUTO_RENEW_ENABLED"]),
        ("DID_FAIL_TO_RENEW", true, ["GRACE_PERIOD"]),
        ("GRACE_PERIOD_EXPIRED", true, []),
        ("EXPIRED", true, ["VOLUNTARY", "BILLING_RETRY", "PRICE_INCREASE", "PRODUCT_NOT_FOR_SALE"]),
        ("OFFER_REDEEMED", true, ["UPGRADE", "DOWNGRADE"]),
        (refund, true, []),
        ("REFUND_REVERSED", true, []),
        ("REFUND_DECLINED", true, []),
        ("REVOKE", true, []),
        (oneTimeCharge, true, []),
        ("PRICE_INCREASE", false, ["PENDING", "ACCEPTED"]),
        ("PRICE_CHANGE", true, []),
        ("RENEWAL_EXTENDED", true, []),
        ("RENEWAL_EXTENSION", false, ["FAILURE", "SUMMARY"]),
        ("CONSUMPTION_REQUEST", true, []),
        (externalPurchase, false, ["UNREPORTED", "CREATED", "ACTIVE_TOKEN_REMINDER"]),
        (rescindConsent, true, []),
        ("METADATA_UPDATE", true, []),
        ("MIGRATION", true, []),
    ]

    /// `data.status`: the state of a subscription as of `signedDate`.
    enum Status: String {
        case active = "1"
        case expired = "2"
        case billingRetry = "3"
        case gracePeriod = "4"
        case revoked = "5"
    }

    /// The other members of the notification on which its meaning depends.
    struct Details {
        var isSubscription = true
        /// Of the transaction.
        var offerType: String?
        var offerDiscountType: String?
        var isUpgraded = false
        /// The transaction has a `revocationDate`.
        var isRevoked = false
        /// The transaction's period had ended at the event time.
        var isOver = false
        /// Nil: of a one-time purchase, or one that is not documented.
        var status: Status?
        /// `autoRenewStatus`; nil where it is absent.
        var renews: Bool?
        /// `inAppOwnershipType`: a member of a family has it.
        var isFamilyShared = false

        /// Whether the subscription as a whole gives access, as far as its status says.
        var isRunning: Bool { status == nil || status == .active || status == .gracePeriod }

        /// The status in the shared words.
        var word: String? {
            switch status {
            case .active: renews == false ? SharedVocabulary.Status.canceled : SharedVocabulary.Status.renewing
            case .expired: SharedVocabulary.Status.deactivated
            case .billingRetry: SharedVocabulary.Status.onHold
            case .gracePeriod: SharedVocabulary.Status.inGracePeriod
            case .revoked: SharedVocabulary.Status.revoked
            case nil: nil
            }
        }
    }

    static func meaning(of name: AppleName, _ details: Details) -> EventMeaning {
        let meaning = stated(by: name, details)
        return details.isUpgraded ? EventMeaning(meaning.type, status: details.word) : meaning
    }

    private static func stated(by name: AppleName, _ details: Details) -> EventMeaning {
        let renewing = details.word ?? SharedVocabulary.Status.renewing
        switch (name.type, name.subtype) {
        case ("SUBSCRIBED", "RESUBSCRIBE"): return EventMeaning("SUBSCRIPTION_REACTIVATED", .gain, status: renewing)
        case ("SUBSCRIBED", _): return EventMeaning(started(details), .gain, status: renewing)
        case ("DID_RENEW", "BILLING_RECOVERY"):
            return EventMeaning("SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY", .gain, status: renewing)
        case ("DID_RENEW", _): return EventMeaning(renewed, .gain, status: renewing)
        case ("DID_CHANGE_RENEWAL_PREF", "UPGRADE"), ("OFFER_REDEEMED", "UPGRADE"):
            return EventMeaning("SUBSCRIPTION_UPGRADED", .gain, status: renewing)
        case ("DID_CHANGE_RENEWAL_PREF", "DOWNGRADE"):
            return EventMeaning("SUBSCRIPTION_DOWNGRADED", status: details.word)
        case ("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED"):
            return EventMeaning("RENEWAL_DISABLED", status: details.word ?? SharedVocabulary.Status.canceled)
        case ("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED"):
            return EventMeaning("RENEWAL_ENABLED", details.isRunning ? .gain : nil, status: renewing)
        case ("DID_FAIL_TO_RENEW", "GRACE_PERIOD"):
            return EventMeaning("GRACE_PERIOD_STARTED", .gain, status: SharedVocabulary.Status.inGracePeriod)
        case ("DID_FAIL_TO_RENEW", nil): return enteredRetry(details)
        case ("GRACE_PERIOD_EXPIRED", _):
            return EventMeaning("GRACE_PERIOD_TERMINATED", .loss, status: SharedVocabulary.Status.onHold)
        case ("EXPIRED", _):
            let type = isTrial(details) ? "TRIAL_NOT_CONVERTED" : "SUBSCRIPTION_TERMINATED"
            return EventMeaning(type, .loss, status: SharedVocabulary.Status.deactivated)
        case (refund, _): return refunded(name, details)
        case ("REFUND_REVERSED", _) where details.isSubscription:
            let isGiven = details.isRunning && !details.isOver
            return EventMeaning("SUBSCRIPTION_REACTIVATED", isGiven ? .gain : nil, status: details.word)
        case (oneTimeCharge, _), ("REFUND_REVERSED", _):
            return EventMeaning("PURCHASE_VALIDATED", .gain, status: details.word)
        case ("REVOKE", _):
            let type = details.isFamilyShared ? "FAMILY_SHARED_REVOKED" : name.text
            return EventMeaning(type, .loss, status: SharedVocabulary.Status.revoked)
        case ("RENEWAL_EXTENDED", _): return EventMeaning("SUBSCRIPTION_DEFERRED", .gain, status: renewing)
        default: return EventMeaning(name.text, status: details.word)
        }
    }

    /// Whether the transaction of a notification is that of one payment, which may be of a former period and of the
    /// product before a change of plan.
    static func isOfOnePayment(_ name: AppleName) -> Bool {
        [refund, "REFUND_DECLINED", "REFUND_REVERSED", "CONSUMPTION_REQUEST"].contains(name.type)
    }

    /// Whether somebody bought it just now, with the token of the account that bought it. An upgrade goes on with the
    /// token that there was (developer.apple.com/documentation/appstoreserverapi/set-app-account-token).
    static func isBought(_ name: AppleName) -> Bool { name.type == "SUBSCRIBED" || name.type == oneTimeCharge }

    /// Whether the account token of a notification that states nothing of access says whose the running subscription
    /// is: an app may set the token later, and no notification comes of that
    /// (developer.apple.com/documentation/appstoreserverapi/set-app-account-token). Only types that are about the
    /// subscription as a whole: one about a refund may have the transaction of a former period, and its token.
    static func saysWhose(_ name: AppleName, _ details: Details) -> Bool {
        let isOfTheWhole = [
            "DID_CHANGE_RENEWAL_PREF", "DID_CHANGE_RENEWAL_STATUS", "PRICE_INCREASE", "PRICE_CHANGE", "OFFER_REDEEMED",
            "RENEWAL_EXTENSION",
        ].contains(name.type)
        let isRunning = details.status == .active || details.status == .gracePeriod
        let isPaid = isRunning && !details.isOver && !details.isUpgraded && !details.isRevoked
        return isOfTheWhole && details.isSubscription && isPaid
    }

    /// A renewal may fail up to a day before the paid period ends. While that runs, and the status says so, nothing is
    /// lost yet. A loss as of the end would be in force at once, and would outlive a recovery that is signed before it.
    private static func enteredRetry(_ details: Details) -> EventMeaning {
        let isPaid = details.isRunning && !details.isOver
        return EventMeaning(
            "ENTERED_BILLING_RETRY", isPaid ? nil : .loss,
            status: isPaid ? details.word : SharedVocabulary.Status.onHold)
    }

    /// A refund names the refunded transaction, which may be of a past period while a later one is paid: ending access
    /// by the name alone would cut off paying customers.
    private static func refunded(_ name: AppleName, _ details: Details) -> EventMeaning {
        guard details.isSubscription else {
            return details.isRevoked ? .oneTimeRefunded : EventMeaning(name.text, status: details.word)
        }
        let isEnded =
            switch details.status {
            case .revoked, .expired: true
            case .active, .billingRetry, .gracePeriod: false
            case nil: details.isRevoked && !details.isOver
            }
        return isEnded ? .refunded : EventMeaning(EventMeaning.refunded.type, status: details.word)
    }

    private static func started(_ details: Details) -> String {
        switch offer(details.offerType, discount: details.offerDiscountType) {
        case SharedVocabulary.Offer.freeTrial: "TRIAL_STARTED"
        case SharedVocabulary.Offer.intro: "INTRO_OFFER_STARTED"
        case SharedVocabulary.Offer.promotional: "PROMOTIONAL_OFFER_STARTED"
        case SharedVocabulary.Offer.promoCode: "PROMO_CODE_STARTED"
        default: "SUBSCRIPTION_STARTED"
        }
    }

    private static func isTrial(_ details: Details) -> Bool {
        offer(details.offerType, discount: details.offerDiscountType) == SharedVocabulary.Offer.freeTrial
    }

    /// `offer_type` of a period; nil for an offer that is not documented.
    static func offer(_ type: String?, discount: String?) -> String? {
        switch type {
        case nil: SharedVocabulary.Offer.none
        // 1 introductory, 2 promotional, 3 an offer code, 4 to win back, 5 to keep.
        case "1": discount == "FREE_TRIAL" ? SharedVocabulary.Offer.freeTrial : SharedVocabulary.Offer.intro
        case "2", "4", "5": SharedVocabulary.Offer.promotional
        case "3": SharedVocabulary.Offer.promoCode
        default: nil
        }
    }

    /// The account token in its one spelling; nil for what is no UUID (RFC 9562 section 4), which the store never
    /// hands out.
    static func accountToken(_ text: String?) -> String? {
        guard let bytes = text.map({ Array($0.utf8) }), bytes.count == 36 else { return nil }
        let hyphen = UInt8(ascii: "-")
        for (index, byte) in bytes.enumerated() {
            let isHyphen = [8, 13, 18, 23].contains(index)
            guard isHyphen ? byte == hyphen : Identifier.value(ofHexDigit: byte) != nil else { return nil }
        }
        // Lower case: only the letters A to F can be upper case.
        return String(decoding: bytes.map { $0 < UInt8(ascii: "A") ? $0 : $0 | 0x20 }, as: UTF8.self)
    }
}
