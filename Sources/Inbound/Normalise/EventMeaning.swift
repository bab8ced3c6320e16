internal import Vocabulary

/// The meaning of a vendor's event in the shared vocabulary. The vendor's own file makes it from the name and the other
/// members that matter.
struct EventMeaning: Hashable, Sendable {
    /// Purchasely's v3 name for it, or the vendor's own if there is none.
    let type: String
    /// What it states about its holder's access; nil: nothing.
    let fact: Fact.Kind?
    let status: String?

    init(_ type: String, _ fact: Fact.Kind? = nil, status: String? = nil) {
        self.type = type
        self.fact = fact
        self.status = status
    }

    /// The paid period is revoked, not only not renewed.
    var isRevoked: Bool { fact == .loss && status == SharedVocabulary.Status.revoked }

    static let refunded = EventMeaning("SUBSCRIPTION_REFUNDED_REVOKED", .loss, status: SharedVocabulary.Status.revoked)

    /// v3 has no name for a refunded one-time purchase: it sends the end of access.
    static let oneTimeRefunded = EventMeaning("DEACTIVATE", .loss, status: SharedVocabulary.Status.revoked)
}
