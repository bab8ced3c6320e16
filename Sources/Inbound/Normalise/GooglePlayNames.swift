internal import Vocabulary

/// Google Play's notifications (developer.android.com/google/play/billing/rtdn-reference), their names and what each
/// states. Google sends numbers; the names are its constants, and the number itself where it is not documented.
///
/// The third column is what the name alone states. Where the API was asked, the state that it answered decides.
///
/// | name | here | access |
/// |--|--|--|
/// | SUBSCRIPTION_RECOVERED | SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY | gain: out of hold |
/// | the same | SUBSCRIPTION_UNPAUSED if the ledger knows of the pause, by the API | gain: resumed |
/// | SUBSCRIPTION_RENEWED | SUBSCRIPTION_RENEWED; TRIAL_CONVERTED if the ledger knows of the trial, by the API | gain |
/// | SUBSCRIPTION_CANCELED | RENEWAL_DISABLED | none: access goes on to the end of the period |
/// | SUBSCRIPTION_PURCHASED | SUBSCRIPTION_, TRIAL_ or INTRO_OFFER_STARTED, by the API's offer | gain |
/// | SUBSCRIPTION_ON_HOLD | ENTERED_BILLING_RETRY | loss |
/// | SUBSCRIPTION_IN_GRACE_PERIOD | GRACE_PERIOD_STARTED | gain |
/// | SUBSCRIPTION_RESTARTED | RENEWAL_ENABLED | gain |
/// | SUBSCRIPTION_DEFERRED | SUBSCRIPTION_DEFERRED | gain |
/// | SUBSCRIPTION_PAUSED | SUBSCRIPTION_PAUSED | loss |
/// | SUBSCRIPTION_PAUSE_SCHEDULE_CHANGED | SUBSCRIPTION_WILL_PAUSE | none; a dropped plan looks the same |
/// | SUBSCRIPTION_REVOKED | SUBSCRIPTION_REFUNDED_REVOKED | loss |
/// | SUBSCRIPTION_EXPIRED | SUBSCRIPTION_TERMINATED, TRIAL_NOT_CONVERTED by the API's offer | loss |
/// | ONE_TIME_PRODUCT_PURCHASED | PURCHASE_VALIDATED | gain |
/// | VOIDED_PURCHASE, the whole of a one-time purchase | DEACTIVATE | loss |
/// | VOIDED_PURCHASE of a subscription or a part | itself | none: one payment; what follows has its own name |
/// | any other | itself | none |
enum GooglePlayNames {
    static let voidedPurchase = "VOIDED_PURCHASE"
    static let pendingRefundReview = "PENDING_REFUND_REVIEW"
    static let test = "TEST"

    private static let subscriptionPrefix = "SUBSCRIPTION_"
    private static let oneTimePrefix = "ONE_TIME_PRODUCT_"

    /// Google's constants without their prefix. It documents no others.
    private static let subscriptions: [(number: Int64, constant: String)] = [
        (1, "RECOVERED"), (2, "RENEWED"), (3, "CANCELED"), (4, "PURCHASED"), (5, "ON_HOLD"), (6, "IN_GRACE_PERIOD"),
        (7, "RESTARTED"), (8, "PRICE_CHANGE_CONFIRMED"), (9, "DEFERRED"), (10, "PAUSED"),
        (11, "PAUSE_SCHEDULE_CHANGED"), (12, "REVOKED"), (13, "EXPIRED"), (17, "ITEMS_CHANGED"),
        (18, "CANCELLATION_SCHEDULED"), (19, "PRICE_CHANGE_UPDATED"), (20, "PENDING_PURCHASE_CANCELED"),
        (22, "PRICE_STEP_UP_CONSENT_UPDATED"),
    ]
    private static let oneTimeProducts: [(number: Int64, constant: String)] = [(1, "PURCHASED"), (2, "CANCELED")]

    static let all: [String] =
        subscriptions.map { subscriptionPrefix + $0.constant } + oneTimeProducts.map { oneTimePrefix + $0.constant }
        + [voidedPurchase, pendingRefundReview]

    // MARK: Names

    static func name(of subject: GooglePlayNotice.Subject) -> String {
        switch subject {
        case .subscription(let number): subscriptionPrefix + constant(number, among: subscriptions)
        case .oneTimeProduct(let number): oneTimePrefix + constant(number, among: oneTimeProducts)
        case .voidedPurchase: voidedPurchase
        case .pendingRefundReview: pendingRefundReview
        case .test: test
        case .unknown(let member): member
        }
    }

    /// The notification with this name, for samples; `VOIDED_PURCHASE` is of a one-time purchase.
    static func subject(named name: String) -> GooglePlayNotice.Subject {
        if let number = number(name, prefix: subscriptionPrefix, among: subscriptions) { return .subscription(number) }
        if let number = number(name, prefix: oneTimePrefix, among: oneTimeProducts) { return .oneTimeProduct(number) }
        return switch name {
        case voidedPurchase: .voidedPurchase(.oneTime, isWhole: true)
        case pendingRefundReview: .pendingRefundReview
        case test: .test
        default: .unknown(name)
        }
    }

    private static func constant(_ number: Int64, among names: [(number: Int64, constant: String)]) -> String {
        names.first { $0.number == number }?.constant ?? String(number)
    }

    private static func number(
        _ name: String, prefix: String, among names: [(number: Int64, constant: String)]
    ) -> Int64? {
        guard name.utf8.starts(with: prefix.utf8) else { return nil }
        let rest = String(name.dropFirst(prefix.count))
        return names.first { $0.constant == rest }?.number ?? Int64(rest)
    }

    // MARK: Meanings

    /// What the name alone states.
    static func meaning(of subject: GooglePlayNotice.Subject) -> EventMeaning {
        switch subject {
        case .subscription(let number): subscriptionMeaning(number) ?? EventMeaning(name(of: subject))
        case .oneTimeProduct(1): EventMeaning("PURCHASE_VALIDATED", .gain)
        case .voidedPurchase(.oneTime?, isWhole: true): .oneTimeRefunded
        case .oneTimeProduct, .voidedPurchase, .pendingRefundReview, .test, .unknown: EventMeaning(name(of: subject))
        }
    }

    private static func subscriptionMeaning(_ number: Int64) -> EventMeaning? {
        typealias Status = SharedVocabulary.Status
        return switch number {
        case recovered: EventMeaning("SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY", .gain, status: Status.renewing)
        case renewed: EventMeaning("SUBSCRIPTION_RENEWED", .gain, status: Status.renewing)
        case 3: EventMeaning("RENEWAL_DISABLED", status: Status.canceled)
        case purchased: EventMeaning("SUBSCRIPTION_STARTED", .gain, status: Status.renewing)
        case 5: EventMeaning("ENTERED_BILLING_RETRY", .loss, status: Status.onHold)
        case 6: EventMeaning("GRACE_PERIOD_STARTED", .gain, status: Status.inGracePeriod)
        case 7: EventMeaning("RENEWAL_ENABLED", .gain, status: Status.renewing)
        case 9: EventMeaning("SUBSCRIPTION_DEFERRED", .gain, status: Status.renewing)
        case 10: EventMeaning("SUBSCRIPTION_PAUSED", .loss, status: Status.paused)
        case 11: EventMeaning("SUBSCRIPTION_WILL_PAUSE")
        case 12: .refunded
        case expired: EventMeaning("SUBSCRIPTION_TERMINATED", .loss, status: Status.deactivated)
        default: nil
        }
    }

    static let recovered: Int64 = 1
    static let renewed: Int64 = 2
    private static let purchased: Int64 = 4
    private static let expired: Int64 = 13

    /// What it states together with the state that the API answered.
    static func meaning(of subject: GooglePlayNotice.Subject, in state: GooglePlayState) -> EventMeaning {
        let named = meaning(of: subject)
        // The refund of a whole one-time purchase ends it, even where the API still calls it purchased.
        if case .voidedPurchase(.oneTime?, isWhole: true) = subject { return named }
        let type = offeredType(of: subject, offer: state.offer) ?? named.type
        switch state.access {
        case .held: return EventMeaning(type, .gain, status: state.status)
        case .lost: return lost(subject, type: type, status: named.isRevoked ? named.status : state.status)
        case .neverHeld: return EventMeaning(type, status: state.status)
        case .unknown: return EventMeaning(type, named.fact, status: named.status)
        }
    }

    /// What it states of a purchase that ended so long ago that the API has forgotten it.
    static func meaningOfEnded(_ subject: GooglePlayNotice.Subject) -> EventMeaning {
        let named = meaning(of: subject)
        return lost(
            subject, type: named.type, status: named.isRevoked ? named.status : SharedVocabulary.Status.deactivated)
    }

    /// Whether somebody bought it just now, with the account of who bought it.
    static func isBought(_ subject: GooglePlayNotice.Subject) -> Bool {
        subject == .subscription(purchased) || subject == .oneTimeProduct(1)
    }

    /// A payment that was pending was called off: nothing was bought.
    static func isCalledOff(_ subject: GooglePlayNotice.Subject) -> Bool {
        subject == .subscription(20) || subject == .oneTimeProduct(2)
    }

    /// A loss, but for a payment that was pending and was called off: nothing was ever bought.
    private static func lost(
        _ subject: GooglePlayNotice.Subject, type: String, status: String?
    ) -> EventMeaning {
        isCalledOff(subject) ? EventMeaning(type, status: status) : EventMeaning(type, .loss, status: status)
    }

    /// The type that the offer of the period gives; nil: the offer changes nothing.
    private static func offeredType(of subject: GooglePlayNotice.Subject, offer: String?) -> String? {
        let isTrial = offer == SharedVocabulary.Offer.freeTrial
        return switch subject {
        case .subscription(purchased) where isTrial: "TRIAL_STARTED"
        case .subscription(purchased) where offer == SharedVocabulary.Offer.intro: "INTRO_OFFER_STARTED"
        case .subscription(expired) where isTrial: "TRIAL_NOT_CONVERTED"
        default: nil
        }
    }
}
