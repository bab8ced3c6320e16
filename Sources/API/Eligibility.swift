internal import Vocabulary

// Whether a person may have a store's offer, decided from what the store states about their transactions. Pure: the
// server's clock is passed in, because the device's may be wrong, and nothing is guessed. An algorithm that answers
// "yes" without a receipt shows offers that the store then refuses; the answer here is `unknown`.

/// A kind of offer.
enum Offer: String, Sendable, CaseIterable {
    /// A free trial or an introductory price: once per subscription group.
    case introductory
    /// For present and former subscribers.
    case promotional
}

/// One transaction of a person, from a receipt or the ledger.
struct StoreTransaction: Sendable, Hashable {
    let product: String?
    /// The store's own identifier of the subscription group, if it states one.
    var group: String?
    /// End of the paid period; nil: none or unreadable.
    let expiresAt: Timestamp?
    /// Access goes on by it, also behind its end: a renewal may be reported later.
    var isRunning = false
    /// Refunded or revoked.
    var isRefunded = false
    var isTrial = false
    /// Bought at an introductory price.
    var isIntroductory = false
}

/// The renewal state of one subscription, active or expired: there is one for each that a person ever had.
struct PendingRenewal: Sendable, Hashable {
    let product: String
    var group: String?
    /// Until then the store lets a person whose payment failed keep access.
    var graceExpiresAt: Timestamp?
    /// Access goes on by a grace period, also behind its end.
    var isInGrace = false
}

struct EligibilityQuestion: Sendable, Hashable {
    let group: String
    /// The products configured for the group; empty: the group is not configured.
    let products: Set<String>
    let offer: Offer
}

/// The answer and its reason.
struct Eligibility: Sendable, Hashable {
    enum Answer: String, Sendable, CaseIterable {
        case eligible = "ELIGIBLE"
        case notEligible = "NOT_ELIGIBLE"
        /// They have access: let them in, show no offer and check nothing else.
        case entitled = "ENTITLED"
        /// The answer cannot be verified.
        case unknown = "UNKNOWN"
    }

    let answer: Answer
    /// A short sentence for a person, always the same for the same reason.
    let reason: String

    /// Applies the rules in order; the first that applies decides, and the order of the transactions never matters.
    ///
    /// For both offers: a group that neither the configuration nor the receipt knows is UNKNOWN, and a grace period
    /// that runs is ENTITLED. That holds for promotional offers, too: a person in grace has access and an open
    /// payment, and an offer would sell them a second subscription.
    ///
    /// Introductory, after that: any refund, any trial or introductory price, then a purchase that runs or a paid
    /// period that ends after `now` give NOT_ELIGIBLE; an end exactly at `now` is over. Promotional: ELIGIBLE exactly
    /// if the group has a pending renewal, which represents an active or expired subscription.
    static func decide(
        _ question: EligibilityQuestion, transactions: [StoreTransaction], renewals: [PendingRenewal], now: Timestamp
    ) -> Eligibility {
        let ofGroup = transactions.filter { question.concerns($0) }
        let products = question.products.union(ofGroup.compactMap(\.product))
        let pending = renewals.filter { $0.group == question.group || products.contains($0.product) }
        if question.products.isEmpty, ofGroup.isEmpty, pending.isEmpty {
            return EligibilityReason.groupIsUnknown.eligibility
        }
        if pending.contains(where: { $0.isInGrace || ($0.graceExpiresAt.map { $0 > now } ?? false) }) {
            return EligibilityReason.grace.eligibility
        }
        switch question.offer {
        case .introductory: return introductory(ofGroup, now).eligibility
        case .promotional: return (pending.isEmpty ? EligibilityReason.neverSubscribed : .hasSubscribed).eligibility
        }
    }

    private static func introductory(_ transactions: [StoreTransaction], _ now: Timestamp) -> EligibilityReason {
        if transactions.isEmpty { return .nothingBought }
        if transactions.contains(where: \.isRefunded) { return .refunded }
        if transactions.contains(where: { $0.isTrial || $0.isIntroductory }) { return .offerUsed }
        if transactions.contains(where: \.isRunning) { return .active }
        let ends = transactions.compactMap(\.expiresAt)
        if let last = ends.max(), last > now { return .active }
        return ends.count < transactions.count ? .endIsUnknown : .expired
    }
}

extension EligibilityQuestion {
    /// Whether a transaction belongs to the group according to the store or the configuration. Either is enough,
    /// because the ledger does not know the store's groups and a receipt may contain products that are no longer
    /// configured.
    fileprivate func concerns(_ transaction: StoreTransaction) -> Bool {
        transaction.group == group || transaction.product.map(products.contains) ?? false
    }
}

/// The reason for an answer: each has one answer and one sentence.
enum EligibilityReason: Sendable, CaseIterable {
    case groupIsUnknown
    case grace
    case nothingBought
    case refunded
    case offerUsed
    case active
    case endIsUnknown
    case expired
    case hasSubscribed
    case neverSubscribed

    var eligibility: Eligibility {
        switch self {
        case .groupIsUnknown:
            Eligibility(.unknown, "Neither the configuration nor the purchases know this subscription group.")
        case .grace: Eligibility(.entitled, "A payment failed and its grace period still runs: access goes on.")
        case .nothingBought: Eligibility(.eligible, "Nothing of this subscription group was ever bought.")
        case .refunded: Eligibility(.notEligible, "A purchase of this subscription group was refunded or revoked.")
        case .offerUsed: Eligibility(.notEligible, "A trial or an introductory price of this group was used before.")
        case .active: Eligibility(.notEligible, "A subscription of this group is active.")
        case .endIsUnknown: Eligibility(.unknown, "A purchase of this subscription group has no end that can be read.")
        case .expired:
            Eligibility(.eligible, "All subscriptions of this group have ended, none of them a trial or at an offer.")
        case .hasSubscribed: Eligibility(.eligible, "There is or was a subscription of this group.")
        case .neverSubscribed: Eligibility(.notEligible, "There never was a subscription of this group.")
        }
    }
}

extension Eligibility {
    init(_ answer: Answer, _ reason: String) {
        self.answer = answer
        self.reason = reason
    }

    /// For a receipt that cannot be read completely: the unreadable part might decide.
    init(unreadable fault: ReceiptFault) {
        self.init(.unknown, "The receipt cannot be read: \(fault).")
    }
}
