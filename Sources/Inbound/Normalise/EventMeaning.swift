internal import Vocabulary

/// What one event of a vendor says, in the shared vocabulary: the vendor's own file makes it of the name and of what
/// else the meaning depends on.
struct EventMeaning: Hashable, Sendable {
    /// Purchasely's v3 name for it, or the vendor's own where there is none.
    let type: String
    /// What it says of its holder's access; nil: nothing.
    let fact: Fact.Kind?
    let status: String?

    init(_ type: String, _ fact: Fact.Kind? = nil, status: String? = nil) {
        self.type = type
        self.fact = fact
        self.status = status
    }

    /// The paid period is taken back, not only not renewed.
    var isRevoked: Bool { fact == .loss && status == SharedWords.Status.revoked }

    static let refunded = EventMeaning("SUBSCRIPTION_REFUNDED_REVOKED", .loss, status: SharedWords.Status.revoked)

    /// v3 has no name for a one-time purchase that was refunded: what it sends is the end of access.
    static let oneTimeRefunded = EventMeaning("DEACTIVATE", .loss, status: SharedWords.Status.revoked)
}
