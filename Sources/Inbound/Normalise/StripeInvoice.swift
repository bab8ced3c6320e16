internal import Vocabulary

/// What an event about an invoice states: `invoice.…`.
///
/// Only the payment of a cycle says something of access: the period that the invoice is for was due from the invoice's
/// `created` on, and the gain is stated as of then. It is a draft for about an hour; the payment comes when that is
/// finalised, and sometimes weeks later. By then the subscription may be unpaid, paused or canceled: those later losses
/// stand. Stripe says by an event of the subscription that an unpaid one is active again; nothing comes after a
/// canceled one.
///
/// The invoice has a copy of the subscription's metadata as they were when it was finalised
/// (docs.stripe.com/api/invoices/object, `parent.subscription_details.metadata`). Events of the subscription say them,
/// too, and when the user was changed: so the copy is a naming, which takes the purchase from nobody whom they have
/// named.
///
/// The lines of an invoice need not be what the subscription is now: an upgrade may wait for the payment, a coming
/// invoice has the next plan, and of items with periods of their own one alone may be due. So product, plan and period
/// count only where no event of the subscription has said them.
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
            type: meaning.type, holder: StripeParty(user: user, anonymousID: customer).holder, yieldsTransaction: true,
            yieldsProduct: true)
        guard let subscription else { return statement }
        // `invoice.payment_succeeded` says it again. A session that makes an invoice of no subscription says it itself.
        if snapshot.name == StripeNames.invoicePaid { statement.money = StripeMoney.ofInvoice(fields) }
        // The lines of a subscription's items come in reverse order (docs.stripe.com/api/invoices/object, `lines`).
        statement.purchase = Purchase(
            key: subscription, kind: .subscription, store: SharedVocabulary.stripe, product: lines.last?.product,
            plan: lines.last?.price, subscriptionID: subscription)
        // Others are not paid, or pay for what the subscription's own events state.
        guard meaning.fact != nil, let end else { return statement }
        if let id = try fields.text("id") {
            statement.transaction = Transaction(
                storeTransactionID: id, storeOriginalTransactionID: subscription,
                purchasedAt: lines.compactMap(\.start).max(), effectiveNextRenewalAt: end,
                offerType: SharedVocabulary.Offer.none, status: meaning.status)
        }
        statement.facts = facts(customer: customer, until: end)
        return statement
    }

    /// - Parameter end: of the paid period; nil: the invoice does not say. Who pays for a period that is over pays a
    ///   debt, and renews nothing.
    private func meaning(until end: Timestamp?) throws(Unreadable) -> EventMeaning {
        let isOver = end.map { $0 <= snapshot.createdAt } ?? false
        guard snapshot.name == StripeNames.invoicePaid, subscription != nil, !isOver,
            try fields.text("billing_reason") == StripeNames.cycle
        else { return EventMeaning(snapshot.name) }
        return EventMeaning("SUBSCRIPTION_RENEWED", .gain, status: SharedVocabulary.Status.renewing)
    }

    /// A gain of whoever has the purchase when the invoice is made; if nobody was given it, of whom the metadata name.
    /// Without that time they are of no time, and name nobody.
    private func facts(customer: String?, until end: Timestamp) -> [Fact] {
        let invoicedAt = fields.epoch("created")
        let dueAt = min(invoicedAt ?? snapshot.createdAt, snapshot.createdAt)
        let whoever = StripeParty(user: nil, anonymousID: customer)
        guard let gain = whoever.fact(.gain, at: dueAt.ranked(.gain), until: end) else { return [] }
        guard invoicedAt != nil, let user else { return [gain] }
        return [gain, Fact(kind: .naming, holder: .user(user), at: dueAt)]
    }
}
