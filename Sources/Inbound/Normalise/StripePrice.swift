internal import Vocabulary

/// The price of one item of a subscription.
struct StripePrice {
    /// Items of a subscription that are read; Stripe allows fewer.
    private static let itemsMax = 100

    /// `price_…`; of older ones `plan_…`, or what the merchant chose.
    let id: String
    /// `prod_…`.
    let product: String?
    /// Of one piece, in the smallest unit of the currency; nil where the price has tiers or fractions of that unit.
    let unitAmount: Int64?
    let currency: String?
    /// `month`, with their number.
    let interval: String?
    let intervalCount: String?
    let quantity: String?

    /// Nil if the item names no price.
    init?(_ item: BodyFields) throws(Unreadable) {
        // API versions before 2020-08-27 have the plan alone.
        let isPrice = item.object("price") != nil
        guard let price = isPrice ? item.object("price") : item.object("plan"), let id = try price.text("id") else {
            return nil
        }
        let period = isPrice ? price.object("recurring") ?? BodyFields.none : price
        self.id = id
        product = try price.text("product")
        unitAmount = try price.text(isPrice ? "unit_amount" : "amount").flatMap { Int64($0) }
        currency = try price.text("currency")
        interval = try period.text("interval")
        intervalCount = try period.text("interval_count")
        quantity = try item.text("quantity")
    }

    /// The items of a subscription, or of its previous attributes.
    static func items(of fields: BodyFields) -> [BodyFields] {
        let items = fields.object("items")?.objects("data") ?? []
        return Array(items.prefix(itemsMax))
    }

    static func prices(of items: [BodyFields]) throws(Unreadable) -> [StripePrice] {
        var prices: [StripePrice] = []
        for item in items {
            if let price = try StripePrice(item) { prices.append(price) }
        }
        return prices
    }
}

/// What has become of a subscription's prices.
enum StripePriceChange {
    case upgraded
    case downgraded
    case crossgraded

    /// Nil if they are the same. One price in place of another is an upgrade or a downgrade only if the amounts can be
    /// compared: of the same interval, currency and quantity.
    init?(from old: [StripePrice], to new: [StripePrice]) {
        var gone = old
        var come: [StripePrice] = []
        for price in new {
            if let kept = gone.firstIndex(where: { $0.id.hasSameBytes(as: price.id) }) {
                gone.remove(at: kept)
            } else {
                come.append(price)
            }
        }
        if gone.isEmpty, come.isEmpty { return nil }
        guard gone.count == 1, come.count == 1, let before = gone[0].unitAmount, let after = come[0].unitAmount,
            before != after, gone[0].isComparable(to: come[0])
        else {
            self = .crossgraded
            return
        }
        self = before < after ? .upgraded : .downgraded
    }
}

extension StripePrice {
    fileprivate func isComparable(to other: StripePrice) -> Bool {
        interval == other.interval && intervalCount == other.intervalCount && currency == other.currency
            && quantity == other.quantity
    }
}
