/// A field of the standard payload that `where` can name: a text or a number that every source fills in the same way
/// (posthouse-messages(7), "Filters"). The raw value is its name in the configuration.
package enum MessageField: String, Sendable, CaseIterable {
    case type
    case timestamp
    case eventID = "event_id"
    case eventName = "event_name"
    case source
    case environment
    case holderUser = "holder.user_id"
    case holderAnonymous = "holder.anonymous_user_id"
    case resolvedUser = "resolved_user_id"
    case transferID = "transfer.id"
    case transferFromUser = "transfer.from.user_id"
    case transferFromAnonymous = "transfer.from.anonymous_user_id"
    case transferToUser = "transfer.to.user_id"
    case transferToAnonymous = "transfer.to.anonymous_user_id"
    case purchaseKey = "purchase.key"
    case purchaseKind = "purchase.kind"
    case product = "purchase.product"
    case plan = "purchase.plan"
    case store = "purchase.store"
    case app = "purchase.app"
    case subscriptionID = "purchase.subscription_id"
    case storeTransactionID = "transaction.store_transaction_id"
    case storeOriginalTransactionID = "transaction.store_original_transaction_id"
    case purchasedAt = "transaction.purchased_at_ms"
    case effectiveNextRenewalAt = "transaction.effective_next_renewal_at_ms"
    case offerType = "transaction.offer_type"
    case status = "transaction.status"

    /// Members of `data` that `where` cannot name: the platform's own words and figures, and what is looked up beside
    /// the message.
    package static let unnameable = ["original", "decoded", "access", "money"]

    /// Fields of which a message has one or the other: a holder is a user, or is anonymous.
    package static let exclusive: [(MessageField, MessageField)] = [
        (.holderUser, .holderAnonymous), (.transferFromUser, .transferFromAnonymous),
        (.transferToUser, .transferToAnonymous),
    ]

    /// Whether the payload has a number there, otherwise a text.
    package var isNumber: Bool {
        switch self {
        case .purchasedAt, .effectiveNextRenewalAt: true
        case .type, .timestamp, .eventID, .eventName, .source, .environment, .holderUser, .holderAnonymous,
            .resolvedUser, .transferID, .transferFromUser, .transferFromAnonymous, .transferToUser,
            .transferToAnonymous, .purchaseKey, .purchaseKind, .product, .plan, .store, .app, .subscriptionID,
            .storeTransactionID, .storeOriginalTransactionID, .offerType, .status:
            false
        }
    }

    /// The keys that lead to it in the standard payload, outermost first.
    package var path: [String] {
        switch self {
        case .type, .timestamp: [rawValue]
        default: ["data"] + rawValue.split(separator: ".").map(String.init)
        }
    }
}
