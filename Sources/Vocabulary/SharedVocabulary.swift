/// The common words of all sources for what each vendor spells its own way (Domain.md, "Messages"). They are
/// Purchasely's, api_version 3.
package enum SharedVocabulary {
    // MARK: Stores

    package static let apple = "APPLE_APP_STORE"
    package static let google = "GOOGLE_PLAY_STORE"
    package static let amazon = "AMAZON_APPSTORE"
    package static let huawei = "HUAWEI_APPGALLERY"
    package static let stripe = "STRIPE"

    package static let stores = [apple, google, amazon, huawei, stripe]

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

    package static let production = "PRODUCTION"
    package static let sandbox = "SANDBOX"

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
    package static func upperCased(_ word: String) -> String {
        let bytes = word.utf8.map { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) ? $0 - 32 : $0 }
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: Transactions

    /// `offer_type`: the offer under which the current period was bought.
    package enum Offer {
        package static let none = "NONE"
        package static let freeTrial = "FREE_TRIAL"
        package static let intro = "INTRO_OFFER"
        package static let promotional = "PROMOTIONAL_OFFER"
        package static let promoCode = "PROMO_CODE"

        /// Those that are known; a platform may send others, which are passed on.
        package static let all = [none, freeTrial, intro, promotional, promoCode]
    }

    /// `status` of a subscription. Access never follows it, only the event's name.
    package enum Status {
        package static let renewing = "AUTO_RENEWING"
        package static let canceled = "AUTO_RENEWING_CANCELED"
        package static let inGracePeriod = "IN_GRACE_PERIOD"
        package static let onHold = "ON_HOLD"
        package static let paused = "PAUSED"
        package static let deactivated = "DEACTIVATED"
        package static let revoked = "REVOKED"
        /// Purchasely's and Stripe's alone.
        package static let unpaid = "UNPAID"

        /// Those that are known; a platform may send others, which are passed on.
        package static let all = [renewing, canceled, inGracePeriod, onHold, paused, deactivated, revoked, unpaid]
    }
}
