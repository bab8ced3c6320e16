internal import Vocabulary

/// What an event about a checkout session states: `checkout.session.…`.
///
/// A session in mode `payment` is a one-time purchase. In mode `subscription` the subscription's own events say what
/// happens; in both a session that was completed says which user the customer is. One that was abandoned, or whose
/// payment failed, says it of nobody: whoever opened it may have named any user.
struct StripeSession {
    private let snapshot: StripeSnapshot
    private let id: String?
    /// `pi_…`; none where nothing was to be paid.
    private let intent: String?

    init(_ snapshot: StripeSnapshot) throws(Unreadable) {
        self.snapshot = snapshot
        id = try snapshot.object.text("id")
        intent = try snapshot.object.text("payment_intent")
    }

    private var fields: BodyFields { snapshot.object }

    func statement() throws(Unreadable) -> StripeStatement {
        let user = try snapshot.user(ofSession: fields)
        let customer = try snapshot.customer(of: fields)
        let purchase = try purchase()
        // A guest is known by the payment alone.
        let guest = purchase?.kind == .oneTime ? purchase?.key : nil
        let party = StripeParty(user: user, anonymousID: customer ?? guest)
        let isBought = if purchase?.kind == .oneTime { try isPaid() } else { false }
        let meaning = isBought ? EventMeaning("PURCHASE_VALIDATED", .gain) : EventMeaning(snapshot.name)
        var statement = StripeStatement(type: meaning.type, holder: party.holder, purchase: purchase)
        if purchase?.kind == .oneTime, try isCharged() { statement.money = StripeMoney.ofSession(fields) }
        if isCompleted, let user, let customer {
            statement.links = [HolderLink(anonymousID: customer, userID: user)]
            statement.movesPurchases = true
        }
        // Its subscription stays this user's, also if a later session links the customer to another one.
        if isCompleted, let user, purchase?.kind == .subscription {
            statement.facts = [Fact(kind: .naming, holder: .user(user), at: snapshot.createdAt)]
        }
        guard isBought, let purchase else { return statement }
        statement.transaction = Transaction(
            storeTransactionID: purchase.key, storeOriginalTransactionID: nil, purchasedAt: snapshot.createdAt,
            effectiveNextRenewalAt: nil, offerType: SharedVocabulary.Offer.none, status: meaning.status)
        if let fact = party.fact(.gain, at: snapshot.createdAt.ranked(.gain), until: nil) { statement.facts = [fact] }
        return statement
    }

    /// Defines the purchase key: the subscription, else the payment, by which a refund names it, else the session. One
    /// that has expired bought nothing.
    private func purchase() throws(Unreadable) -> Purchase? {
        let kind: Purchase.Kind
        let key: String?
        switch try fields.text("mode") {
        case "subscription":
            kind = .subscription
            key = try fields.text("subscription")
        case "payment" where snapshot.name != StripeNames.sessionExpired:
            kind = .oneTime
            key = intent ?? id
        default: return nil
        }
        guard let key else { return nil }
        return Purchase(
            key: key, kind: kind, store: SharedVocabulary.stripe, product: nil, plan: nil,
            subscriptionID: kind == .subscription ? key : nil)
    }

    private var isCompleted: Bool {
        snapshot.name == StripeNames.sessionCompleted || snapshot.name == StripeNames.sessionPaidLater
    }

    /// Whether there was money to come, and it came. A session without payment was completed, too. That of a
    /// subscription is followed by its invoice.
    private func isCharged() throws(Unreadable) -> Bool {
        guard isCompleted else { return false }
        return try fields.text("payment_status") == "paid"
    }

    /// Whether the money came: with some methods of payment days after the session.
    private func isPaid() throws(Unreadable) -> Bool {
        switch snapshot.name {
        case StripeNames.sessionPaidLater: return true
        case StripeNames.sessionCompleted:
            let status = try fields.text("payment_status")
            return status == "paid" || status == "no_payment_required"
        default: return false
        }
    }
}
