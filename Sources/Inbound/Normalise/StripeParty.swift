internal import Vocabulary

/// Whom an object names: the app's user, the customer, or both.
struct StripeParty {
    let user: String?
    /// The customer, or the payment of a guest.
    let anonymousID: String?

    var holder: Holder? {
        if let user { return .user(user) }
        return anonymousID.map { .anonymous($0) }
    }

    /// A fact about the holder, nameless without a user; nil if nobody is named.
    func fact(_ kind: Fact.Kind, at time: Timestamp, until: Timestamp?, isRevoked: Bool = false) -> Fact? {
        guard let holder else { return nil }
        return Fact(
            kind: kind, holder: holder, at: time, until: until, isRevoked: isRevoked, isNamed: user != nil)
    }
}
