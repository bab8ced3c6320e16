internal import Vocabulary

/// What an event about a subscription states: `customer.subscription.…`.
struct StripeSubscription {
    private let snapshot: StripeSnapshot
    private let items: [BodyFields]
    private let prices: [StripePrice]
    private let status: StripeStatus?

    init(_ snapshot: StripeSnapshot) throws(Unreadable) {
        self.snapshot = snapshot
        items = StripePrice.items(of: snapshot.object)
        prices = try StripePrice.prices(of: items)
        let stated = try snapshot.object.text("status").flatMap { StripeStatus(rawValue: $0) }
        switch snapshot.name {
        case StripeNames.deleted: status = stated == .incompleteExpired ? stated : .canceled
        case StripeNames.paused: status = .paused
        default: status = stated
        }
    }

    private var fields: BodyFields { snapshot.object }

    func statement() throws(Unreadable) -> StripeStatement {
        let party = StripeParty(user: try snapshot.user(in: fields), anonymousID: try snapshot.customer(of: fields))
        let details = try details()
        let meaning = StripeNames.meaning(of: snapshot.name, details)
        var statement = StripeStatement(type: meaning.type, holder: party.holder)
        // Who the customer is. Its other subscriptions may be of other users, so this moves none of them.
        if let user = party.user, let customer = party.anonymousID {
            statement.links = [HolderLink(anonymousID: customer, userID: user)]
        }
        guard let id = try fields.text("id") else { return statement }
        statement.purchase = Purchase(
            key: id, kind: .subscription, store: SharedVocabulary.stripe, product: prices.first?.product,
            plan: prices.first?.id, subscriptionID: id)
        let kind = meaning.fact ?? gain(of: party)
        if !isOfUnpaidPeriod(details) {
            statement.transaction = try transaction(of: id, meaning, details)
        } else if kind == .gain {
            statement.transaction = unpaidTransaction(of: id, meaning)
            statement.yieldsTransaction = true
        }
        if let kind, let status {
            let isChange = kind == .gain && (details.priceChange != nil || snapshot.hasNewUser)
            let rank: StripeRank = isChange ? .change : status.rank
            statement.facts = facts(kind, of: party, at: snapshot.createdAt.ranked(rank))
        }
        return statement
    }

    /// What ends or goes on is the subscription, for whoever has it: a restore may have passed it on, of which Stripe
    /// knows nothing, and the event by which the metadata name another user may come later. One that is new, or has
    /// another user just now, is that user's.
    private func facts(_ kind: Fact.Kind, of party: StripeParty, at time: Timestamp) -> [Fact] {
        let whoever = StripeParty(user: nil, anonymousID: party.anonymousID).fact(kind, at: time, until: end)
        let stated = party.fact(kind, at: time, until: end)
        guard let user = party.user, let whoever else { return [stated].compactMap { $0 } }
        if kind == .loss { return [Fact(kind: .naming, holder: .user(user), at: time), whoever] }
        let isNew = snapshot.name == StripeNames.created || snapshot.hasNewUser
        return [Fact(kind: .said, holder: .user(user), at: time), isNew ? stated : whoever].compactMap { $0 }
    }

    /// While a payment is retried the subscription has its access still: another user in its metadata gets it, to the
    /// end that is known (`unpaidTransaction`).
    private func gain(of party: StripeParty) -> Fact.Kind? {
        snapshot.name == StripeNames.updated && status == .pastDue && party.user != nil && snapshot.hasNewUser
            ? .gain : nil
    }

    /// A subscription that is past due goes on making invoices and periods, which nobody has paid
    /// (docs.stripe.com/billing/subscriptions/overview, "past_due"): only the event by which it becomes past due has
    /// the period whose end holds, whatever others are called. `invoice.paid` states a later one.
    private func isOfUnpaidPeriod(_ details: StripeNames.Details) -> Bool {
        let becomesPastDue =
            details.isStatusChanged || [StripeNames.created, StripeNames.resumed].contains(snapshot.name)
        return status == .pastDue && !becomesPastDue
    }

    /// The newest invoice is the transaction of the current period; before there is one, the subscription is it.
    private func transaction(
        of id: String, _ meaning: EventMeaning, _ details: StripeNames.Details
    ) throws(Unreadable) -> Transaction {
        let invoice = try fields.text("latest_invoice")
        let isTrial = status == .trialing || details.isTrialOver
        return Transaction(
            storeTransactionID: invoice ?? id,
            storeOriginalTransactionID: id,
            purchasedAt: periodStart,
            effectiveNextRenewalAt: end,
            offerType: isTrial ? SharedVocabulary.Offer.freeTrial : SharedVocabulary.Offer.none,
            status: meaning.status)
    }

    /// The end of an unpaid period, for a user who gets the subscription in it: without any, access would have no end.
    /// It counts only where nothing else is known: it is as old as the subscription, and yields.
    private func unpaidTransaction(of id: String, _ meaning: EventMeaning) -> Transaction {
        Transaction(
            storeTransactionID: id,
            storeOriginalTransactionID: id,
            // API versions before 2019-10-17 have no `start_date`.
            purchasedAt: fields.epoch("start_date") ?? fields.epoch("created"),
            effectiveNextRenewalAt: end,
            offerType: nil,
            status: meaning.status)
    }

    // MARK: Times

    /// The period stands with the items since API version 2025-03-31.basil, before with the subscription. Items may
    /// have different periods: the purchase has the latest.
    private var periodStart: Timestamp? { ([fields] + items).compactMap { $0.epoch("current_period_start") }.max() }

    private var periodEnd: Timestamp? { ([fields] + items).compactMap { $0.epoch("current_period_end") }.max() }

    /// The end of what is known: of the trial, of the period, or of the whole subscription.
    private var end: Timestamp? {
        switch status {
        case .trialing?: fields.epoch("trial_end") ?? periodEnd
        case .canceled?, .incompleteExpired?: fields.epoch("ended_at")
        default: periodEnd
        }
    }

    // MARK: Details

    private func details() throws(Unreadable) -> StripeNames.Details {
        var details = StripeNames.Details()
        details.status = status
        details.isCanceling = isCanceling(fields, fields)
        details.isTrialOver = try isTrialOver()
        details.wasCanceling = details.isCanceling
        guard snapshot.name == StripeNames.updated, let previous = snapshot.previous else { return details }
        if let before = try previous.text("status"), try before != fields.text("status") {
            details.isStatusChanged = true
            details.previousStatus = StripeStatus(rawValue: before)
        }
        // Of a list that has changed, the previous attributes hold all of its old elements.
        let prices = try StripePrice.prices(of: StripePrice.items(of: previous))
        if !prices.isEmpty { details.priceChange = StripePriceChange(from: prices, to: self.prices) }
        details.wasCanceling = isCanceling(previous, fields)
        return details
    }

    /// Whether the subscription is to end at a known time. The portal sets `cancel_at` for subscriptions with flexible
    /// billing, and `cancel_at_period_end` for others.
    ///
    /// - Parameters:
    ///   - fields: where each of the two is looked for first.
    ///   - others: where it is looked for if it is absent there.
    private func isCanceling(_ fields: BodyFields, _ others: BodyFields) -> Bool {
        let atPeriodEnd = fields.contains("cancel_at_period_end") ? fields : others
        let atTime = fields.contains("cancel_at") ? fields : others
        return atPeriodEnd.flag("cancel_at_period_end") || atTime.epoch("cancel_at") != nil
    }

    /// Whether it has ended, or was paused, because its trial was over.
    private func isTrialOver() throws(Unreadable) -> Bool {
        let trialEnd = fields.epoch("trial_end")
        switch snapshot.name {
        case StripeNames.deleted:
            guard let trialEnd else { return false }
            return (fields.epoch("ended_at") ?? snapshot.createdAt) <= trialEnd
        case StripeNames.paused:
            let pause = fields.object("status_details")?.object("paused")?.object("subscription")
            if let reason = try pause?.text("type") { return reason == "trial_end_without_payment_method" }
            // Older API versions do not say why: the period that was paused is the trial.
            guard let trialEnd, let periodStart else { return false }
            return periodStart < trialEnd
        default: return false
        }
    }
}
