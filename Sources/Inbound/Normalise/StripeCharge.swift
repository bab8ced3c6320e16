internal import Vocabulary

/// What a refund states: `charge.refunded`.
///
/// A charge names its payment and, since API version 2025-03-31.basil, no invoice: whether it paid a one-time purchase
/// or a subscription's invoice, nobody can see in it. Stripe does not end a subscription for a refund. Therefore a
/// charge that was refunded as a whole states a loss of the one-time purchase that has its payment as key, which a
/// subscription's payment never is, and keeps its own name: DEACTIVATE is the name only for who knows that purchase.
enum StripeCharge {
    static func statement(of snapshot: StripeSnapshot) throws(Unreadable) -> StripeStatement {
        let charge = snapshot.object
        let intent = try charge.text("payment_intent")
        let customer = try snapshot.customer(of: charge)
        let party = StripeParty(user: nil, anonymousID: customer ?? intent)
        var statement = StripeStatement(type: snapshot.name, holder: party.holder)
        // `refunded` is true only when nothing is left of the amount.
        guard let intent, charge.flag("refunded") else { return statement }
        statement.purchase = Purchase(
            key: intent, kind: .oneTime, store: SharedWords.stripe, product: nil, plan: nil, subscriptionID: nil)
        statement.transaction = Transaction(
            storeTransactionID: intent, storeOriginalTransactionID: nil, purchasedAt: charge.epoch("created"),
            effectiveNextRenewalAt: nil, offerType: SharedWords.Offer.none, status: SharedWords.Status.revoked)
        let fact = party.fact(.loss, at: snapshot.createdAt.ranked(.end), until: nil, isRevoked: true)
        if let fact { statement.facts = [fact] }
        return statement
    }
}
