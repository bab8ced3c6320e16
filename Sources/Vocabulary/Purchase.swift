/// A source, app and environment together. Nothing in one scope is ever matched with another. Part of every key
/// (Domain.md, "Invariants": I4).
package struct Scope: Hashable, Sendable {
    /// The configured name of the source.
    package let source: String
    /// The source's `app` key, else the vendor's bundle id, else empty.
    package let app: String
    /// `PRODUCTION`, `SANDBOX` or another name sent by the vendor.
    package let environment: String

    package init(source: String, app: String, environment: String) {
        self.source = source
        self.app = app
        self.environment = environment
    }
}

/// One subscription or one one-time purchase; its life spans many store transactions.
package struct Purchase: Hashable, Sendable {
    package enum Kind: String, Sendable, CaseIterable {
        case subscription
        case oneTime = "one_time"
    }

    /// The store of what the app's backend granted through the API.
    package static let manualStore = "MANUAL"

    /// Unique within scope and store; each source defines its rule in one place.
    package let key: String
    package var kind: Kind
    package let store: String
    package var product: String?
    package var plan: String?
    /// The vendor's own id of the subscription (`subs_…`), where it sends one.
    package var subscriptionID: String?

    package init(key: String, kind: Kind, store: String, product: String?, plan: String?, subscriptionID: String?) {
        self.key = key
        self.kind = kind
        self.store = store
        self.product = product
        self.plan = plan
        self.subscriptionID = subscriptionID
    }
}

/// One store transaction of a purchase. The row is mutable: a store may restate it (Domain.md, "Glossary").
package struct Transaction: Hashable, Sendable {
    package let storeTransactionID: String
    package let storeOriginalTransactionID: String?
    package let purchasedAt: Timestamp?
    /// End of the paid period, including grace and deferral; absent: no known end.
    package let effectiveNextRenewalAt: Timestamp?
    package let offerType: String?
    package let status: String?

    package init(
        storeTransactionID: String, storeOriginalTransactionID: String?, purchasedAt: Timestamp?,
        effectiveNextRenewalAt: Timestamp?, offerType: String?, status: String?
    ) {
        self.storeTransactionID = storeTransactionID
        self.storeOriginalTransactionID = storeOriginalTransactionID
        self.purchasedAt = purchasedAt
        self.effectiveNextRenewalAt = effectiveNextRenewalAt
        self.offerType = offerType
        self.status = status
    }
}
