package import Vocabulary

// Whether a person may have a store's offer, decided from what the store tells of their transactions. Pure: the
// server's clock is passed in, for the device's may be wrong, and nothing here guesses. An algorithm that answers "yes"
// where a receipt is missing shows offers that the store then refuses; here that is `unknown`.

/// What is offered.
package enum Offer: String, Sendable, CaseIterable {
    /// A free trial or an introductory price: once per subscription group.
    case introductory
    /// For those who subscribe or once did.
    case promotional
}

/// One transaction of a person, as a receipt or the ledger has it.
package struct StoreTransaction: Sendable, Hashable {
    package let product: String?
    /// The store's own identifier of the subscription group, where it tells it.
    package let group: String?
    /// End of the paid period; nil: none that can be read.
    package let expiresAt: Timestamp?
    /// It was taken back: refunded, or revoked.
    package let isRefunded: Bool
    package let isTrial: Bool
    /// Bought at an introductory price.
    package let isIntroductory: Bool

    package init(
        product: String?, group: String? = nil, expiresAt: Timestamp?, isRefunded: Bool = false, isTrial: Bool = false,
        isIntroductory: Bool = false
    ) {
        self.product = product
        self.group = group
        self.expiresAt = expiresAt
        self.isRefunded = isRefunded
        self.isTrial = isTrial
        self.isIntroductory = isIntroductory
    }
}

/// What is to become of one subscription, active or expired: there is one for each that a person ever had.
package struct PendingRenewal: Sendable, Hashable {
    package let product: String
    package let group: String?
    /// Until then the store lets a person whose payment failed keep what they have.
    package let graceExpiresAt: Timestamp?

    package init(product: String, group: String? = nil, graceExpiresAt: Timestamp? = nil) {
        self.product = product
        self.group = group
        self.graceExpiresAt = graceExpiresAt
    }
}

package struct EligibilityQuestion: Sendable, Hashable {
    package let group: String
    /// Those that are configured for the group; empty: it is not configured.
    package let products: Set<String>
    package let offer: Offer

    package init(group: String, products: Set<String>, offer: Offer) {
        self.group = group
        self.products = products
        self.offer = offer
    }
}

/// The answer, and why.
package struct Eligibility: Sendable, Hashable {
    package enum Answer: String, Sendable, CaseIterable {
        case eligible = "ELIGIBLE"
        case notEligible = "NOT_ELIGIBLE"
        /// They have access: let them in, show no offer and look no further.
        case entitled = "ENTITLED"
        /// It cannot be verified.
        case unknown = "UNKNOWN"
    }

    package let answer: Answer
    /// A short sentence for a person, the same for the same ground.
    package let reason: String

    /// The rules in their order, the first that applies decides; the order of the transactions never matters.
    ///
    /// For both offers: a group that neither the configuration nor the receipt knows is UNKNOWN, and a grace period in
    /// the future is ENTITLED. That goes for promotional offers, too: whoever is in grace has access and a payment to
    /// mend, and an offer would sell them a second subscription instead.
    ///
    /// Introductory, after that: any refund, any trial or introductory price, then a paid period that lasts beyond
    /// `now` make NOT_ELIGIBLE; an end exactly at `now` is over. Promotional: ELIGIBLE exactly where the group has a
    /// pending renewal, which stands for a subscription that is active or has expired.
    package static func decide(
        _ question: EligibilityQuestion, transactions: [StoreTransaction], renewals: [PendingRenewal], now: Timestamp
    ) -> Eligibility {
        let ofGroup = transactions.filter { question.concerns($0) }
        let products = question.products.union(ofGroup.compactMap(\.product))
        let pending = renewals.filter { $0.group == question.group || products.contains($0.product) }
        if question.products.isEmpty, ofGroup.isEmpty, pending.isEmpty { return Ground.groupIsUnknown.eligibility }
        if pending.contains(where: { $0.graceExpiresAt.map { $0 > now } ?? false }) { return Ground.grace.eligibility }
        switch question.offer {
        case .introductory: return introductory(ofGroup, now).eligibility
        case .promotional: return (pending.isEmpty ? Ground.neverSubscribed : .hasSubscribed).eligibility
        }
    }

    private static func introductory(_ transactions: [StoreTransaction], _ now: Timestamp) -> Ground {
        if transactions.isEmpty { return .nothingBought }
        if transactions.contains(where: \.isRefunded) { return .refunded }
        if transactions.contains(where: { $0.isTrial || $0.isIntroductory }) { return .offerUsed }
        let ends = transactions.compactMap(\.expiresAt)
        if let last = ends.max(), last > now { return .active }
        return ends.count < transactions.count ? .endIsUnknown : .expired
    }
}

extension EligibilityQuestion {
    /// By the store's word or by the configuration's: either is enough, for the ledger knows no groups of the store and
    /// a receipt may hold products that nobody lists any more.
    fileprivate func concerns(_ transaction: StoreTransaction) -> Bool {
        transaction.group == group || transaction.product.map(products.contains) ?? false
    }
}

/// Why an answer is as it is: each ground has one answer and one sentence.
enum Ground: Sendable, CaseIterable {
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
    fileprivate init(_ answer: Answer, _ reason: String) {
        self.answer = answer
        self.reason = reason
    }

    /// For a receipt that cannot be read as a whole: whatever it hides might decide.
    init(unreadable fault: ReceiptFault) {
        self.init(.unknown, "The receipt cannot be read: \(fault).")
    }
}
