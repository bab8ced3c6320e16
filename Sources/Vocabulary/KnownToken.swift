/// What the ledger keeps of a token by which a store names a purchase: written in the transaction that records an
/// event, read before the next is read and again when that is recorded. A token that was recorded keeps its purchase,
/// so `first` and `environment` hold for good as they were written first; `isReplaced` never becomes false again.
package struct KnownToken: Hashable, Sendable {
    /// The first 16 bytes of SHA-256 over the token.
    package let token: Identifier
    /// The name of the first token of its purchase: the purchase key.
    package let first: String
    /// nil: not known.
    package let environment: String?
    /// Whether nothing is stated by it any more: a newer token has taken its place, or its purchase was voided.
    package let isReplaced: Bool

    package init(token: Identifier, first: String, environment: String?, isReplaced: Bool) {
        self.token = token
        self.first = first
        self.environment = environment
        self.isReplaced = isReplaced
    }

    /// With what a later event says of it.
    package func joined(by later: KnownToken) -> KnownToken {
        KnownToken(
            token: token, first: first, environment: environment ?? later.environment,
            isReplaced: isReplaced || later.isReplaced)
    }
}
