/// Products of which a store gives a person one introductory offer together: one `[[subscription_group]]`, checked.
package struct SubscriptionGroup: Sendable, Hashable {
    /// What `group=` names. Where it is the store's own identifier of the group, a receipt is understood even of
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
        /// Looking things up.
        case read
        /// Everything that changes what a holder has.
        case write
    }

    /// Of the token's owner, for the journal.
    package let name: String
    /// Visible ASCII characters. No two tokens have the same.
    package let token: Secret
    /// At least one.
    package let scopes: Set<Scope>
    /// The name of the one source that it sees and changes; nil: all.
    package let source: String?

    package init(name: String, token: Secret, scopes: Set<Scope>, source: String?) {
        self.name = name
        self.token = token
        self.scopes = scopes
        self.source = source
    }
}
