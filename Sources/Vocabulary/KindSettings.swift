/// The settings that only sources of one kind have.
package enum KindSettings: Hashable, Sendable {
    case none
    case apple(AppleSettings)
    case googlePlay(GooglePlaySettings)
    case stripe(StripeSettings)
}

extension KindSettings {
    /// The key of the configuration that says whom the webhooks name, and its value; nil: the kind has none. With
    /// another value the same webhook has another holder.
    package var naming: (key: String, value: String)? {
        switch self {
        case .none: nil
        case .apple(let settings): ("account_token", settings.accountToken.rawValue)
        case .googlePlay(let settings): ("account_id", settings.accountID.rawValue)
        case .stripe(let settings): ("user_key", settings.userKey)
        }
    }

    /// The keys of the configuration that decide which authentic webhooks are recorded and how, with their values. None
    /// is secret.
    package var recording: [String: [String]] {
        var values: [String: [String]] = [:]
        if let naming { values[naming.key] = [naming.value] }
        switch self {
        case .none, .stripe: break
        case .apple(let settings): values["bundle_ids"] = settings.bundleIDs
        case .googlePlay(let settings):
            values["packages"] = settings.packages
            values["api"] = settings.api.map { [$0.url.shown] } ?? []
        }
        return values
    }
}

/// Whom an id names that the app gave at a purchase: `account_token`, `account_id`.
package enum AccountNaming: String, Hashable, Sendable, CaseIterable {
    case user
    case anonymous

    package func holder(_ id: String) -> Holder {
        switch self {
        case .user: .user(id)
        case .anonymous: .anonymous(id)
        }
    }
}

package struct AppleSettings: Hashable, Sendable {
    /// `bundle_ids`: the apps whose notifications are taken. Apple signs those of every developer with one key.
    package let bundleIDs: [String]
    /// `roots`: SHA-256 fingerprints of root certificates, each of 32 bytes.
    package let roots: [[UInt8]]
    /// `account_token`: whom a transaction's appAccountToken names.
    package let accountToken: AccountNaming

    /// SHA-256 of Apple Root CA - G3 (apple.com/certificateauthority), which all chains of the App Store lead to.
    package static let appleRoot: [UInt8] = [
        0x63, 0x34, 0x3A, 0xBF, 0xB8, 0x9A, 0x6A, 0x03, 0xEB, 0xB5, 0x7E, 0x9B, 0x3F, 0x5F, 0xA7, 0xBE,
        0x7C, 0x4F, 0x5C, 0x75, 0x6F, 0x30, 0x17, 0xB3, 0xA8, 0xC4, 0x88, 0xC3, 0x65, 0x3E, 0x91, 0x79,
    ]

    package init(bundleIDs: [String], roots: [[UInt8]], accountToken: AccountNaming = .user) {
        self.bundleIDs = bundleIDs
        self.roots = roots
        self.accountToken = accountToken
    }
}

package struct GooglePlaySettings: Hashable, Sendable {
    /// `packages`: the apps whose notifications are taken.
    package let packages: [String]
    /// `audience`: what the push subscription's tokens are made for.
    package let audiences: [String]
    /// `sender`: the address of the service account in whose name Pub/Sub pushes.
    package let sender: String
    /// `account_id`: whom a purchase's obfuscated account id names.
    package let accountID: AccountNaming
    /// `keys`: of the tokens that prove a push.
    package let keys: KeySetLocation
    /// `api`: the state of a purchase is asked for before an event is recorded; nil: nothing is asked.
    package let api: StoreAPI?

    /// Where Google's keys are (its discovery document, accounts.google.com/.well-known/openid-configuration).
    package static let usualKeys = EndpointURL(
        isTLS: true, host: "www.googleapis.com", port: 443, target: "/oauth2/v3/certs")
    /// The Google Play Developer API (developers.google.com/android-publisher).
    package static let usualAPI = EndpointURL(
        isTLS: true, host: "androidpublisher.googleapis.com", port: 443, target: "/")

    package init(
        packages: [String], audiences: [String], sender: String, accountID: AccountNaming = .user,
        keys: KeySetLocation = .url(Self.usualKeys, allowsPrivateAddresses: false), api: StoreAPI? = nil
    ) {
        self.packages = packages
        self.audiences = audiences
        self.sender = sender
        self.accountID = accountID
        self.keys = keys
        self.api = api
    }
}

/// Where the keys of a source's tokens are: a JSON Web Key Set (RFC 7517 section 5).
package enum KeySetLocation: Hashable, Sendable {
    case url(EndpointURL, allowsPrivateAddresses: Bool)
    case file(path: String)
}

/// A store's API that is asked about purchases.
package struct StoreAPI: Hashable, Sendable {
    /// `api`: the service account in whose name it is asked, as the JSON document of its key; nil: it cannot be read
    /// where the configuration was checked, and the daemon may well read it.
    package let account: Secret?
    /// `api_url`: its origin.
    package let url: EndpointURL
    /// `allow_private`: whether it may be at an address inside.
    package let allowsPrivateAddresses: Bool

    package init(account: Secret?, url: EndpointURL, allowsPrivateAddresses: Bool = false) {
        self.account = account
        self.url = url
        self.allowsPrivateAddresses = allowsPrivateAddresses
    }
}

package struct StripeSettings: Hashable, Sendable {
    /// `user_key`: the key in the metadata that names the user; `client_reference_id` names a checkout session's own.
    package let userKey: String

    package init(userKey: String = Self.usualUserKey) { self.userKey = userKey }

    package static let usualUserKey = "user_id"
}
