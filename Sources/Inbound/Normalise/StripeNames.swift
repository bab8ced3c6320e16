internal import Vocabulary

/// Stripe's event types (docs.stripe.com/api/events/types) and what each states about access.
///
/// | type | here | access |
/// |--|--|--|
/// | customer.subscription.created | SUBSCRIPTION_STARTED, TRIAL_STARTED; unpaid still: itself | by the status |
/// | …updated | what has changed: status, else price, else cancellation; otherwise itself | by the status |
/// | …paused | SUBSCRIPTION_PAUSED; at the end of a trial TRIAL_NOT_CONVERTED | loss |
/// | …resumed | SUBSCRIPTION_UNPAUSED | by the status |
/// | …deleted | SUBSCRIPTION_TERMINATED; in its trial TRIAL_NOT_CONVERTED | loss |
/// | invoice.paid of a cycle that is not over | SUBSCRIPTION_RENEWED | gain to its end, as of the invoice |
/// | checkout.session.completed, `payment`, paid; …async_payment_succeeded | PURCHASE_VALIDATED | gain |
/// | charge.refunded, all of it, one-time | DEACTIVATE if the ledger knows the purchase, else itself | loss, revoked |
/// | any other | itself | none |
///
/// By the status: active and trialing are a gain to the end of the period; unpaid, paused, canceled and
/// incomplete_expired are a loss; past_due and incomplete state nothing. A renewal in time is first a period that has
/// moved (`updated`, itself), and an hour later a payment (`invoice.paid`): so one renewal has one name.
enum StripeNames {
    static let subscriptionPrefix = "customer.subscription."
    static let invoicePrefix = "invoice."
    static let sessionPrefix = "checkout.session."

    static let created = subscriptionPrefix + "created"
    static let updated = subscriptionPrefix + "updated"
    static let paused = subscriptionPrefix + "paused"
    static let resumed = subscriptionPrefix + "resumed"
    static let deleted = subscriptionPrefix + "deleted"
    static let trialWillEnd = subscriptionPrefix + "trial_will_end"
    static let invoicePaid = invoicePrefix + "paid"
    static let invoicePaymentSucceeded = invoicePrefix + "payment_succeeded"
    static let invoiceUpcoming = invoicePrefix + "upcoming"
    static let sessionCompleted = sessionPrefix + "completed"
    static let sessionPaidLater = sessionPrefix + "async_payment_succeeded"
    static let sessionExpired = sessionPrefix + "expired"
    static let customerCreated = "customer.created"
    static let customerUpdated = "customer.updated"
    static let customerDeleted = "customer.deleted"
    static let chargeRefunded = "charge.refunded"

    /// The dashboard's test of a connection.
    static let ping = "v2.core.event_destination.ping"

    /// The `billing_reason` of an invoice for a further period.
    static let cycle = "subscription_cycle"

    /// Of some 250 types those about subscriptions, their payments and customers.
    static let all: [String] = subscriptions + invoices + sessions + customers + money + others

    private static let subscriptions = [
        created, updated, paused, resumed, deleted, trialWillEnd, subscriptionPrefix + "pending_update_applied",
        subscriptionPrefix + "pending_update_expired",
    ]
    private static let invoices = [
        "created", "finalized", "finalization_failed", "paid", "payment_succeeded", "payment_failed",
        "payment_action_required", "payment_attempt_required", "upcoming", "overdue", "voided",
        "marked_uncollectible", "sent", "updated", "deleted",
    ].map { invoicePrefix + $0 }
    private static let sessions = [
        sessionCompleted, sessionPaidLater, sessionPrefix + "async_payment_failed", sessionExpired,
    ]
    private static let customers = [customerCreated, customerUpdated, customerDeleted]
    private static let money = [
        chargeRefunded, "charge.refund.updated", "refund.created", "refund.updated", "refund.failed",
        "charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed",
        "charge.dispute.funds_withdrawn", "charge.dispute.funds_reinstated", "radar.early_fraud_warning.created",
    ]
    private static let others = [
        "entitlements.active_entitlement_summary.updated", "subscription_schedule.created",
        "subscription_schedule.updated", "subscription_schedule.released", "subscription_schedule.completed",
        "subscription_schedule.canceled", "subscription_schedule.aborted", "subscription_schedule.expiring",
    ]

    // MARK: Payments

    /// The two events of an invoice that was paid.
    static let paidInvoices = [invoicePaid, invoicePaymentSucceeded]

    // MARK: Subscriptions

    /// What an event says of a subscription beyond its name.
    struct Details {
        var status: StripeStatus?
        /// Whether it is to end at a known time.
        var isCanceling = false
        /// Whether it has ended, or was paused, because its trial was over.
        var isTrialOver = false

        // What has changed, for `updated` alone.
        var isStatusChanged = false
        /// Nil also for a status that is unknown here.
        var previousStatus: StripeStatus?
        var priceChange: StripePriceChange?
        var wasCanceling = false
    }

    static func meaning(of name: String, _ details: Details) -> EventMeaning {
        let access = details.status?.access
        let status = details.status?.word(isCanceling: details.isCanceling)
        return switch name {
        case created: EventMeaning(started(details.status), access, status: status)
        case updated: EventMeaning(changed(details), access, status: status)
        case paused: EventMeaning(details.isTrialOver ? notConverted : "SUBSCRIPTION_PAUSED", access, status: status)
        case resumed: EventMeaning("SUBSCRIPTION_UNPAUSED", access, status: status)
        case deleted: EventMeaning(details.isTrialOver ? notConverted : terminated, access, status: status)
        default: EventMeaning(name, status: status)
        }
    }

    private static let notConverted = "TRIAL_NOT_CONVERTED"
    private static let terminated = "SUBSCRIPTION_TERMINATED"

    private static func started(_ status: StripeStatus?) -> String {
        switch status {
        case .active?: "SUBSCRIPTION_STARTED"
        case .trialing?: "TRIAL_STARTED"
        default: created
        }
    }

    /// The type by the first that holds: status, price, cancellation. A moved period and other metadata have no name of
    /// their own.
    private static func changed(_ details: Details) -> String {
        if details.isStatusChanged { return changed(from: details.previousStatus, to: details.status) }
        switch details.priceChange {
        case .upgraded?: return "SUBSCRIPTION_UPGRADED"
        case .downgraded?: return "SUBSCRIPTION_DOWNGRADED"
        case .crossgraded?: return "SUBSCRIPTION_CROSSGRADED"
        case nil: break
        }
        if details.isCanceling == details.wasCanceling { return updated }
        return details.isCanceling ? "RENEWAL_DISABLED" : "RENEWAL_ENABLED"
    }

    /// A pause and its end have events of their own, which name them.
    private static func changed(from before: StripeStatus?, to status: StripeStatus?) -> String {
        switch (before, status) {
        case (.incomplete?, .active?): "SUBSCRIPTION_STARTED"
        case (.incomplete?, .trialing?): "TRIAL_STARTED"
        case (.trialing?, .active?): "TRIAL_CONVERTED"
        case (.pastDue?, .active?): "SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY"
        case (.unpaid?, .active?): "SUBSCRIPTION_REACTIVATED"
        case (_, .pastDue?): "ENTERED_BILLING_RETRY"
        case (_, .unpaid?): terminated
        default: updated
        }
    }
}
