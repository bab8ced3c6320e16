internal import Vocabulary

/// What an event about an invoice states: `invoice.…`.
///
/// Only the payment of a cycle says something of access. An invoice copies the subscription's metadata when it is made,
/// often an hour before it is paid and sometimes weeks: the copy names who had the purchase then, and the payment names
/// nobody.
struct StripeInvoice {
    private let snapshot: StripeSnapshot
    private let user: String?
    /// The subscription that it is of; nil: it is of none.
    private let subscription: String?

    init(_ snapshot: StripeSnapshot) throws(Unreadable) {
        self.snapshot = snapshot
        // Since API version 2025-03-31.basil under `parent`, before in the invoice itself.
        let parent = snapshot.object.object("parent")?.object("subscription_details")
        let details = parent ?? snapshot.object.object("subscription_details")
        if let details { user = try snapshot.user(in: details) } else { user = nil }
        let named = try details?.text("subscription")
        let former = try snapshot.object.text("subscription")
        subscription = named ?? former
    }

    private var fields: BodyFields { snapshot.object }

    func statement() throws(Unreadable) -> StripeStatement {
        let customer = try snapshot.customer(of: fields)
        let isCycle = try fields.text("billing_reason") == StripeNames.cycle
        let meaning = Self.meaning(of: snapshot.name, isCycle: isCycle && subscription != nil)
        var statement = StripeStatement(
            type: meaning.type, holder: StripeParty(user: user, anonymousID: customer).holder)
        guard let subscription else { return statement }
        let lines = try StripeLine.paidAhead(of: subscription, in: fields)
        statement.purchase = Purchase(
            key: subscription, kind: .subscription, store: SharedWords.stripe, product: lines.first?.product,
            plan: lines.first?.price, subscriptionID: subscription)
        // Others would put their rows in place of what the subscription's events say of the same invoice.
        guard meaning.fact != nil, let end = lines.compactMap(\.end).max() else { return statement }
        if let id = try fields.text("id") {
            statement.transaction = Transaction(
                storeTransactionID: id, storeOriginalTransactionID: subscription,
                purchasedAt: lines.compactMap(\.start).max(), effectiveNextRenewalAt: end,
                offerType: SharedWords.Offer.none, status: meaning.status)
        }
        statement.facts = facts(customer: customer, until: end)
        return statement
    }

    private static func meaning(of name: String, isCycle: Bool) -> EventMeaning {
        guard name == StripeNames.invoicePaid, isCycle else { return EventMeaning(name) }
        return EventMeaning("SUBSCRIPTION_RENEWED", .gain, status: SharedWords.Status.renewing)
    }

    /// The user as of the invoice's `created`, if it names one, and the payment.
    private func facts(customer: String?, until: Timestamp) -> [Fact] {
        var facts: [Fact?] = []
        if user != nil, let invoicedAt = fields.epoch("created") {
            let named = StripeParty(user: user, anonymousID: customer)
            facts.append(named.fact(.gain, at: invoicedAt.ranked(.gain), until: until))
        }
        let nameless = StripeParty(user: nil, anonymousID: customer)
        facts.append(nameless.fact(.gain, at: snapshot.createdAt.ranked(.gain), until: until))
        return facts.compactMap { $0 }
    }
}
