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
    /// Whether the links are about every purchase of the customer, and not only what is known of who it is.
    var movesPurchases = false
}
