internal import Vocabulary

/// What one event states, in the shared vocabulary.
struct StripeStatement {
    var type: String
    /// Nil: the event names nobody.
    var holder: Holder?
    var purchase: Purchase?
    var transaction: Transaction?
    var facts: [Fact] = []
    var links: [HolderLink] = []
}
