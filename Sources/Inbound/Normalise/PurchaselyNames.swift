internal import Vocabulary

/// What Purchasely's events state (api_version 3, docs.purchasely.com/docs/server-events, /transactional-event), and
/// its spellings of stores. The names are `StandardTypes`.
enum PurchaselyNames {
    static let activate = "ACTIVATE"
    static let deactivate = "DEACTIVATE"
    static let oneTimePrefix = "ONE_TIME_PURCHASE_"
    /// The event of one payment, in either direction.
    static let transactionProcessed = "TRANSACTION_PROCESSED"
    /// The events that are refunds by their name.
    static let refunds = ["SUBSCRIPTION_REFUNDED_REVOKED", "INSTALLMENT_REFUNDED"]

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
