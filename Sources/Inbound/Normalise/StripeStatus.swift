internal import Vocabulary

/// The status of a subscription (docs.stripe.com/billing/subscriptions/overview, "Subscription statuses").
enum StripeStatus: String {
    /// The first payment is open, for at most 23 hours.
    case incomplete
    case incompleteExpired = "incomplete_expired"
    case trialing
    case active
    /// A payment has failed and is retried.
    case pastDue = "past_due"
    /// The retries are over; the subscription is kept.
    case unpaid
    case paused
    /// The end: nothing comes after it.
    case canceled

    /// What it states about access; nil: nothing. While a payment is retried, the stated end stays.
    var access: Fact.Kind? {
        switch self {
        case .active, .trialing: .gain
        case .unpaid, .paused, .canceled, .incompleteExpired: .loss
        case .incomplete, .pastDue: nil
        }
    }

    var rank: StripeRank {
        switch self {
        case .unpaid, .paused: .interruption
        case .active, .trialing, .incomplete, .pastDue: .gain
        case .canceled, .incompleteExpired: .end
        }
    }

    /// The shared word for it; `UNPAID` is Stripe's own.
    ///
    /// - Parameter isCanceling: whether the subscription is to end at a known time.
    func word(isCanceling: Bool) -> String? {
        switch self {
        case .active, .trialing: isCanceling ? SharedVocabulary.Status.canceled : SharedVocabulary.Status.renewing
        case .pastDue: SharedVocabulary.Status.onHold
        case .unpaid: SharedVocabulary.Status.unpaid
        case .paused: SharedVocabulary.Status.paused
        case .canceled, .incompleteExpired: SharedVocabulary.Status.deactivated
        case .incomplete: nil
        }
    }
}

/// The place of a fact within its second, in milliseconds: `created` has whole seconds, and of two facts of one time a
/// loss would win whatever came first.
enum StripeRank: Int64 {
    /// A subscription that is unpaid or paused and active within one second is active.
    case interruption = 0
    case gain = 1
    /// The price or the user has changed: an event of the same second that names the former ones is older.
    case change = 2
    /// Nothing comes after the end of a subscription.
    case end = 999
}

extension Timestamp {
    /// The time of a fact that an event of this second states.
    func ranked(_ rank: StripeRank) -> Timestamp { advanced(byMilliseconds: rank.rawValue).nearestWritable }
}
