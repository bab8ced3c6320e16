internal import Vocabulary

/// What the Google Play Developer API says of a purchase at the time of the request, from an answer of
/// purchases.subscriptionsv2.get or purchases.productsv2.getproductpurchasev2
/// (developers.google.com/android-publisher/api-ref/rest).
struct GooglePlayState: Sendable {
    enum Access: Hashable, Sendable {
        /// The user has the purchase. A cancelled subscription runs on to its end.
        case held
        case lost
        /// Nothing was bought: a payment is pending, or was called off.
        case neverHeld
        /// A state that is not documented.
        case unknown
    }

    let access: Access
    /// A word of `SharedVocabulary.Status`.
    private(set) var status: String?
    /// The end of the paid period, grace included; nil: no known end.
    private(set) var until: Timestamp?
    private(set) var product: String?
    private(set) var plan: String?
    /// A word of `SharedVocabulary.Offer`; nil: not known.
    private(set) var offer: String?
    /// The newest payment.
    private(set) var orderID: String?
    /// When the purchase began, which is the time of its first payment.
    private(set) var boughtAt: Timestamp?
    /// `obfuscatedExternalAccountId`: what the app gave at purchase.
    private(set) var accountID: String?
    /// A licence tester's purchase is of the sandbox.
    let environment: String
    /// Another purchase has taken its place: this one's end says nothing.
    private(set) var isReplaced = false
    /// The purchase whose place this one has taken.
    private(set) var linkedToken: GooglePlayToken?

    // MARK: Subscriptions

    /// - Parameter askedAt: when the request was sent: which of several products is the current one goes by it, and
    ///   whether a cancelled subscription is over.
    init(subscription fields: BodyFields, askedAt: Timestamp) throws(Unreadable) {
        let state = try fields.requiredName("subscriptionState")
        environment = fields.object("testPurchase") == nil ? SharedVocabulary.production : SharedVocabulary.sandbox
        isReplaced = fields.object("canceledStateContext")?.object("replacementCancellation") != nil
        linkedToken = try fields.text("linkedPurchaseToken").map { GooglePlayToken($0) }
        boughtAt = fields.time(.iso8601("startTime"))
        accountID = try Self.accountID(in: fields)

        let items = try GooglePlayLineItem.items(in: fields)
        let item = GooglePlayLineItem.main(of: items, at: askedAt)
        let end = items.compactMap(\.expiry).max()
        // One that is cancelled during account hold, or by the end of it, has lost access already: Google's page
        // "Subscription lifecycle", "Cancellations".
        let isOver = state == Self.canceled && end.map { $0 <= askedAt } ?? false
        access = isOver ? .lost : Self.access(ofSubscriptionState: state)
        status =
            isOver ? SharedVocabulary.Status.deactivated : Self.status(ofSubscriptionState: state, renews: item?.renews)
        until = end
        // Without its end a running subscription would never end here.
        if access == .held, until == nil { throw Unreadable(reason: "lineItems has no expiryTime") }
        product = item?.product
        plan = item?.plan
        offer = item?.offer
        let latest = try fields.text("latestOrderId")
        orderID = item?.orderID ?? latest
    }

    private static func access(ofSubscriptionState state: String) -> Access {
        switch state {
        case active, "SUBSCRIPTION_STATE_IN_GRACE_PERIOD", canceled: .held
        case "SUBSCRIPTION_STATE_ON_HOLD", "SUBSCRIPTION_STATE_PAUSED", "SUBSCRIPTION_STATE_EXPIRED": .lost
        case "SUBSCRIPTION_STATE_PENDING", "SUBSCRIPTION_STATE_PENDING_PURCHASE_CANCELED": .neverHeld
        default: .unknown
        }
    }

    /// - Parameter renews: nil for a prepaid plan, which renews only by another purchase.
    private static func status(ofSubscriptionState state: String, renews: Bool?) -> String? {
        switch state {
        case active: renews.map { $0 ? SharedVocabulary.Status.renewing : SharedVocabulary.Status.canceled }
        case "SUBSCRIPTION_STATE_IN_GRACE_PERIOD": SharedVocabulary.Status.inGracePeriod
        case canceled: SharedVocabulary.Status.canceled
        case "SUBSCRIPTION_STATE_ON_HOLD": SharedVocabulary.Status.onHold
        case "SUBSCRIPTION_STATE_PAUSED": SharedVocabulary.Status.paused
        case "SUBSCRIPTION_STATE_EXPIRED": SharedVocabulary.Status.deactivated
        default: nil
        }
    }

    private static let active = "SUBSCRIPTION_STATE_ACTIVE"
    private static let canceled = "SUBSCRIPTION_STATE_CANCELED"

    /// The account of this purchase. One that was made outside the app, after an earlier one had expired, names the
    /// account of the earlier one until the developer acknowledges it.
    private static func accountID(in fields: BodyFields) throws(Unreadable) -> String? {
        if let id = try fields.object("externalAccountIdentifiers")?.text(accountKey) { return id }
        return try fields.object("outOfAppPurchaseContext")?.object("expiredExternalAccountIdentifiers")?
            .text(accountKey)
    }

    private static let accountKey = "obfuscatedExternalAccountId"

    // MARK: One-time products

    init(oneTimeProduct fields: BodyFields) throws(Unreadable) {
        switch try fields.requiredObject("purchaseStateContext").requiredName("purchaseState") {
        case "PURCHASED": access = .held
        case "CANCELLED":
            access = .lost
            status = SharedVocabulary.Status.revoked
        case "PENDING": access = .neverHeld
        default: access = .unknown
        }
        environment =
            fields.object("testPurchaseContext") == nil ? SharedVocabulary.production : SharedVocabulary.sandbox
        product = try fields.objects("productLineItem").first?.text("productId")
        orderID = try fields.text("orderId")
        boughtAt = fields.time(.iso8601("purchaseCompletionTime"))
        accountID = try fields.text(Self.accountKey)
    }
}

/// One product of a subscription.
private struct GooglePlayLineItem {
    let product: String?
    let plan: String?
    let expiry: Timestamp?
    /// Whether it renews by itself; nil for a prepaid plan.
    let renews: Bool?
    let offer: String?
    let orderID: String?
    /// The product that takes its place at its end.
    private let successor: String?

    private init(_ fields: BodyFields) throws(Unreadable) {
        product = try fields.text("productId")
        expiry = fields.time(.iso8601("expiryTime"))
        renews = fields.object("autoRenewingPlan")?.flag("autoRenewEnabled")
        orderID = try fields.text("latestSuccessfulOrderId")
        successor = try fields.object("deferredItemReplacement")?.text("productId")
        let details = fields.object("offerDetails")
        plan = try details?.text("basePlanId")
        offer = try Self.offer(fields.object("offerPhase"), offerID: details?.text("offerId"))
    }

    /// Without a phase, which older answers lack, only a plan without an offer is known to have none.
    private static func offer(_ phase: BodyFields?, offerID: String?) -> String? {
        guard let phase else { return offerID == nil ? SharedVocabulary.Offer.none : nil }
        if phase.object("freeTrial") != nil { return SharedVocabulary.Offer.freeTrial }
        if phase.object("introductoryPrice") != nil { return SharedVocabulary.Offer.intro }
        return phase.object("basePrice") != nil ? SharedVocabulary.Offer.none : nil
    }

    /// The items of an answer, in its order, without those that begin later: they are listed beside the ones whose
    /// place they take.
    static func items(in fields: BodyFields) throws(Unreadable) -> [GooglePlayLineItem] {
        var items: [GooglePlayLineItem] = []
        for item in fields.objects("lineItems") { items.append(try GooglePlayLineItem(item)) }
        let successors = items.compactMap { item in item.successor == item.product ? nil : item.successor }
        let current = items.filter { item in !successors.contains { $0 == item.product } }
        return current.isEmpty ? items : current
    }

    /// The item that names the product of the whole purchase: one whose period lasts, of these the one with the latest
    /// end. After a deferred change the product that was replaced is still listed, with the same end: so then one that
    /// renews, then one that has a plan. Of these the first by its product: Google defines no order.
    static func main(of items: [GooglePlayLineItem], at time: Timestamp) -> GooglePlayLineItem? {
        items.max { left, right in
            let (leftEnd, rightEnd) = (left.expiry ?? .distantPast, right.expiry ?? .distantPast)
            if (leftEnd > time) != (rightEnd > time) { return rightEnd > time }
            if leftEnd != rightEnd { return leftEnd < rightEnd }
            if (left.renews == true) != (right.renews == true) { return right.renews == true }
            if (left.plan == nil) != (right.plan == nil) { return right.plan != nil }
            return (right.product ?? "").utf8.lexicographicallyPrecedes((left.product ?? "").utf8)
        }
    }
}
