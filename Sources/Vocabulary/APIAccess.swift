/// Products that share one introductory offer per person in the store: one `[[subscription_group]]`, checked.
package struct SubscriptionGroup: Sendable, Hashable {
    /// The value of `group=`. If it is the store's own identifier of the group, a receipt is understood even for
    /// products that are not listed here.
    package let name: String
    /// In the order of the file, none twice. A product is in one group at most.
    package let products: [String]

    package init(name: String, products: [String]) {
        self.name = name
        self.products = products
    }
}

/// A bearer token (RFC 6750) for the API: one `[[api_token]]`, checked.
package struct APIToken: Sendable, Hashable {
    package enum Scope: String, Sendable, CaseIterable {
        /// Read requests.
        case read
        /// Requests that change what a holder has.
        case write
    }

    /// Name of the token's owner. It is in no journal entry; a reload counts a new one as a change.
    package let name: String
    /// Visible ASCII characters. No two tokens have the same.
    package let token: Secret
    /// At least one.
    package let scopes: Set<Scope>
    /// Name of the only source that the token may read and change; nil: all sources.
    package let source: String?

    package init(name: String, token: Secret, scopes: Set<Scope>, source: String?) {
        self.name = name
        self.token = token
        self.scopes = scopes
        self.source = source
    }
}
