internal import JSONText
internal import Ledger
internal import Vocabulary

/// An entitlement as version 3 shows it.
struct Version3Entitlement {
    /// The product of an entitlement; nil for grants made by hand.
    struct Product {
        let id: String
        /// nil for a one-time purchase.
        let subscription: (renewState: String, periodType: String)?
    }

    let id: String
    let isActive: Bool
    /// Its end has passed, and no webhook has said what became of it.
    let isOverdue: Bool
    let started: Timestamp?
    /// nil: no known end.
    let expires: Timestamp?
    /// appstore, playstore, stripe, manual, unknown.
    let source: String
    let product: Product?
}

extension Version3Entitlement {
    init(_ held: HeldPurchase) {
        let transaction = held.newestTransaction
        let isManual = held.purchase.store == Purchase.manualStore
        id = held.purchase.product ?? held.purchase.key
        isActive = held.isActive
        isOverdue = held.isOverdue
        started = isManual ? transaction?.purchasedAt : held.startedAt ?? held.asOf
        expires = held.until
        source = Self.source(ofStore: held.purchase.store)
        product = isManual ? nil : Product(held)
    }

    /// A grant made by hand, over all of its holders.
    init(id: String, holdings: [GrantHolding]) {
        let transaction = holdings.first?.transaction
        self.id = id
        isActive = holdings.contains(where: \.isActive)
        isOverdue = false
        started = transaction?.purchasedAt
        expires = transaction?.effectiveNextRenewalAt
        source = Self.source(ofStore: Purchase.manualStore)
        product = nil
    }

    private static func source(ofStore store: String) -> String {
        switch store {
        case "APPLE_APP_STORE": "appstore"
        case "GOOGLE_PLAY_STORE": "playstore"
        case "STRIPE": "stripe"
        case Purchase.manualStore: "manual"
        default: "unknown"
        }
    }
}

extension Version3Entitlement.Product {
    fileprivate init(_ held: HeldPurchase) {
        id = held.purchase.product ?? held.purchase.key
        guard held.purchase.kind == .subscription else {
            subscription = nil
            return
        }
        // The status may be older than the event that ended access, or be that of another holder.
        let isGranted = held.isActive || held.isOverdue
        let renewState =
            switch held.newestTransaction?.status {
            case "ON_HOLD", "UNPAID": "billing_issue"
            case "IN_GRACE_PERIOD": isGranted ? "billing_issue" : "canceled"
            case "AUTO_RENEWING": isGranted ? "will_renew" : "canceled"
            case nil: held.isActive ? "will_renew" : "canceled"
            default: "canceled"
            }
        let periodType =
            switch held.newestTransaction?.offerType {
            case "FREE_TRIAL": "trial"
            case "INTRO_OFFER": "intro"
            default: "normal"
            }
        subscription = (renewState, periodType)
    }
}

extension JSONWriter {
    /// Writes the members of an entitlement.
    mutating func write(_ entitlement: Version3Entitlement) {
        member("id", entitlement.id)
        member("active", entitlement.isActive)
        member("started", entitlement.started?.wholeSeconds)
        member("expires", entitlement.expires?.wholeSeconds)
        member("until", entitlement.expires?.wholeSeconds)
        member("overdue", entitlement.isOverdue)
        member("source", entitlement.source)
        member("product", object: entitlement.product) { product, json in
            json.member("product_id", product.id)
            json.member("subscription", object: product.subscription) { subscription, json in
                json.member("renew_state", subscription.renewState)
                json.member("current_period_type", subscription.periodType)
            }
        }
    }
}
