/// The common words of all sources for what each vendor spells its own way (Domain.md, "Messages"). They are
/// Purchasely's, api_version 3.
package enum SharedWords {
    // MARK: Stores

    static let apple = "APPLE_APP_STORE"
    static let google = "GOOGLE_PLAY_STORE"
    static let amazon = "AMAZON_APPSTORE"
    static let huawei = "HUAWEI_APPGALLERY"
    static let stripe = "STRIPE"

    /// A store by any vendor's spelling, in any case. An unknown store is written in upper case, so that a purchase has
    /// one key however its store is written.
    package static func store(_ spelling: String) -> String {
        let word = upperCased(spelling)
        return switch word {
        case "APP_STORE", "APPLE", "APPSTORE", "IOS", "MAC_APP_STORE", apple: apple
        case "PLAY_STORE", "GOOGLE", "GOOGLE_PLAY", "ANDROID", google: google
        case "AMAZON", "AMAZON_APP_STORE", amazon: amazon
        case "HUAWEI", "HUAWEI_APP_GALLERY", huawei: huawei
        default: word
        }
    }

    // MARK: Environments

    static let production = "PRODUCTION"
    static let sandbox = "SANDBOX"

    /// An environment by any vendor's spelling, in any case. An unknown one is written in upper case.
    package static func environment(_ spelling: String) -> String {
        let word = upperCased(spelling)
        return switch word {
        case "PROD", production: production
        case sandbox: sandbox
        default: word
        }
    }

    /// Converts only ASCII, so that the result does not depend on the version of Unicode.
    static func upperCased(_ word: String) -> String {
        let bytes = word.utf8.map { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) ? $0 - 32 : $0 }
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: Transactions

    /// `offer_type`: the offer under which the current period was bought.
    enum Offer {
        static let none = "NONE"
        static let freeTrial = "FREE_TRIAL"
        static let intro = "INTRO_OFFER"
        static let promotional = "PROMOTIONAL_OFFER"
        static let promoCode = "PROMO_CODE"
    }

    /// `status` of a subscription. Access never follows it, only the event's name.
    enum Status {
        static let renewing = "AUTO_RENEWING"
        static let canceled = "AUTO_RENEWING_CANCELED"
        static let inGracePeriod = "IN_GRACE_PERIOD"
        static let onHold = "ON_HOLD"
        static let paused = "PAUSED"
        static let deactivated = "DEACTIVATED"
        static let revoked = "REVOKED"
    }
}
