/// What only sources of one kind are told.
package enum KindSettings: Hashable, Sendable {
    case none
    case apple(AppleSettings)
    case googlePlay(GooglePlaySettings)
    case stripe(StripeSettings)
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
    /// `api`: the state of a purchase is asked for before an event is recorded.
    package let asksAPI: Bool

    package init(
        packages: [String], audiences: [String], sender: String, accountID: AccountNaming = .user, asksAPI: Bool
    ) {
        self.packages = packages
        self.audiences = audiences
        self.sender = sender
        self.accountID = accountID
        self.asksAPI = asksAPI
    }
}

package struct StripeSettings: Hashable, Sendable {
    /// `user_key`: the key in the metadata that names the user; `client_reference_id` names a checkout session's own.
    package let userKey: String

    package init(userKey: String = Self.usualUserKey) { self.userKey = userKey }

    package static let usualUserKey = "user_id"
}
