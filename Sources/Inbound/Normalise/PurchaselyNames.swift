internal import Vocabulary

/// Purchasely's event catalogue of api_version 3 (docs.purchasely.com/docs/server-events, /transactional-event), and
/// its spellings of stores.
enum PurchaselyNames {
    static let activate = "ACTIVATE"
    static let deactivate = "DEACTIVATE"
    static let oneTimePrefix = "ONE_TIME_PURCHASE_"

    static let all: [String] =
        [activate, deactivate] + lifecycle + billing + pause + transfer + offers + money + legacy

    private static let lifecycle = [
        "SUBSCRIPTION_STARTED", "SUBSCRIPTION_RENEWED", "SUBSCRIPTION_REACTIVATED", "SUBSCRIPTION_DEFERRED",
        "SUBSCRIPTION_CROSSGRADED", "SUBSCRIPTION_DOWNGRADED", "SUBSCRIPTION_UPGRADED", "RENEWAL_DISABLED",
        "RENEWAL_ENABLED", "RETENTION_MESSAGE_REQUESTED", "SUBSCRIPTION_TERMINATED", "FAMILY_SHARED_REVOKED",
        "SUBSCRIPTION_REFUNDED_REVOKED",
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
    /// Names of api_version 2, still on the pages of some of Purchasely's integrations.
    private static let legacy = ["SUBSCRIPTION_EXPIRED", "PURCHASE_VALIDATED"]

    /// The v3 name of `name`; only the v2 name of the end of access differs.
    static func type(of name: String) -> String {
        name == "SUBSCRIPTION_EXPIRED" ? "SUBSCRIPTION_TERMINATED" : name
    }

    /// What a webhook of this name states about holders; nil if it is not about access.
    static func factKind(of name: String) -> Fact.Kind? {
        switch name {
        case activate: .gain
        case deactivate: .loss
        case "SUBSCRIPTION_TRANSFERRED", "ONE_TIME_PURCHASE_TRANSFERRED": .transferred
        case "SUBSCRIPTION_RECEIVED", "ONE_TIME_PURCHASE_RECEIVED": .received
        default: nil
        }
    }

    /// One spelling of a store. The attribute table spells Amazon and Huawei differently from the v3 DTO and the sample
    /// code, and one purchase must not have two keys.
    static func store(_ spelling: String) -> String {
        switch spelling {
        case "AMAZON_APP_STORE": "AMAZON_APPSTORE"
        case "HUAWEI_APP_GALLERY": "HUAWEI_APPGALLERY"
        default: spelling
        }
    }
}
