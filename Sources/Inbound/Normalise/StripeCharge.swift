internal import Vocabulary

/// What a refund states: `charge.refunded`.
///
/// A charge that was refunded as a whole states a loss of the one-time purchase that has its payment as key. It is
/// DEACTIVATE if the ledger knows that purchase, and keeps its own name otherwise.
///
/// Stripe does not end a subscription for a refund, so a charge for one states nothing. A charge names no subscription,
/// and since API version 2025-03-31.basil no invoice; before, the invoice may also be that of a session in mode
/// `payment`. In every version they differ by the description that Stripe gives to a subscription's payments. An app
/// can write another one over it: then the loss is of a purchase that nobody ever had, and nothing in the charge
/// says so. It is kept all the same, because the session that bought it may come later, and that one must give no
/// access (I1).
enum StripeCharge {
    /// Of the first payment, and of all others.
    private static let subscriptionDescriptions = ["Subscription creation", "Subscription update"]

    static func statement(of snapshot: StripeSnapshot) throws(Unreadable) -> StripeStatement {
        let charge = snapshot.object
        let intent = try charge.text("payment_intent")
        let customer = try snapshot.customer(of: charge)
        let party = StripeParty(user: nil, anonymousID: customer ?? intent)
        var statement = StripeStatement(
            type: snapshot.name, holder: party.holder,
            money: StripeMoney.ofRefund(of: charge, previous: snapshot.previous))
        // `refunded` is true only when nothing is left of the amount.
        guard let intent, charge.flag("refunded"), !isOfSubscription(charge) else { return statement }
        statement.purchase = Purchase(
            key: intent, kind: .oneTime, store: SharedVocabulary.stripe, product: nil, plan: nil, subscriptionID: nil)
        statement.transaction = Transaction(
            storeTransactionID: intent, storeOriginalTransactionID: nil, purchasedAt: charge.epoch("created"),
            effectiveNextRenewalAt: nil, offerType: SharedVocabulary.Offer.none,
            status: SharedVocabulary.Status.revoked)
        statement.typeIfKnown = EventMeaning.oneTimeRefunded.type
        let fact = party.fact(.loss, at: snapshot.createdAt.ranked(.end), until: nil, isRevoked: true)
        if let fact { statement.facts = [fact] }
        return statement
    }

    /// A description too long for an id is another one.
    private static func isOfSubscription(_ charge: BodyFields) -> Bool {
        guard let description = try? charge.text("description") else { return false }
        return subscriptionDescriptions.contains { description.hasSameBytes(as: $0) }
    }
}
