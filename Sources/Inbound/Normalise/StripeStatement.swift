internal import Vocabulary

/// What one event states, in the shared vocabulary.
struct StripeStatement {
    var type: String
    /// `Event.typeIfKnown`.
    var typeIfKnown: String?
    /// Nil: the event names nobody.
    var holder: Holder?
    var purchase: Purchase?
    var transaction: Transaction?
    /// `Event.yieldsTransaction`.
    var yieldsTransaction = false
    /// `Event.yieldsProduct`.
    var yieldsProduct = false
    /// What was paid or given back; nil: nothing is said of it. A price is no payment.
    var money: Money?
    var facts: [Fact] = []
    var links: [HolderLink] = []
    /// Whether the links are about every purchase of the customer, and not only what is known of who it is.
    var movesPurchases = false
}
