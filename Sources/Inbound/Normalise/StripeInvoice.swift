internal import Vocabulary

/// What an event about an invoice states: `invoice.…`.
///
/// Only the payment of a cycle says something of access: the period that the invoice is for was due from the invoice's
/// `created` on, and the gain is stated as of then. The payment comes an hour later and sometimes weeks. By then the
/// subscription may be unpaid or canceled: those later losses stand. Stripe says by an event of the subscription that
/// an unpaid one is active again; nothing comes after a canceled one.
///
/// An invoice copies the subscription's metadata when it is made, so the copy names who had the purchase then.
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
        let lines: [StripeLine] =
            if let subscription { try StripeLine.paidAhead(of: subscription, in: fields) } else { [] }
        let end = lines.compactMap(\.end).max()
        let meaning = try meaning(until: end)
        var statement = StripeStatement(
            type: meaning.type, holder: StripeParty(user: user, anonymousID: customer).holder)
        guard let subscription else { return statement }
        // `invoice.payment_succeeded` says it again. A session that makes an invoice of no subscription says it itself.
        if snapshot.name == StripeNames.invoicePaid { statement.money = StripeMoney.ofInvoice(fields) }
        statement.purchase = Purchase(
            key: subscription, kind: .subscription, store: SharedWords.stripe, product: lines.first?.product,
            plan: lines.first?.price, subscriptionID: subscription)
        // Others would put their rows in place of what the subscription's events say of the same invoice.
        guard meaning.fact != nil, let end else { return statement }
        if let id = try fields.text("id") {
            statement.transaction = Transaction(
                storeTransactionID: id, storeOriginalTransactionID: subscription,
                purchasedAt: lines.compactMap(\.start).max(), effectiveNextRenewalAt: end,
                offerType: SharedWords.Offer.none, status: meaning.status)
        }
        if let fact = gain(customer: customer, until: end) { statement.facts = [fact] }
        return statement
    }

    /// - Parameter end: of the paid period; nil: the invoice does not say. Who pays for a period that is over pays a
    ///   debt, and renews nothing.
    private func meaning(until end: Timestamp?) throws(Unreadable) -> EventMeaning {
        let isOver = end.map { $0 <= snapshot.createdAt } ?? false
        guard snapshot.name == StripeNames.invoicePaid, subscription != nil, !isOver,
            try fields.text("billing_reason") == StripeNames.cycle
        else { return EventMeaning(snapshot.name) }
        return EventMeaning("SUBSCRIPTION_RENEWED", .gain, status: SharedWords.Status.renewing)
    }

    /// Without the invoice's time the copied metadata are of no time, and name nobody.
    private func gain(customer: String?, until end: Timestamp) -> Fact? {
        let invoicedAt = fields.epoch("created")
        let party = StripeParty(user: invoicedAt == nil ? nil : user, anonymousID: customer)
        let dueAt = min(invoicedAt ?? snapshot.createdAt, snapshot.createdAt)
        return party.fact(.gain, at: dueAt.ranked(.gain), until: end)
    }
}
