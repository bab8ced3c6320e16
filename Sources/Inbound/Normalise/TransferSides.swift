internal import Vocabulary

/// The two sides of a derived transfer message, for vendors' shapes that name the other side in separate fields.
extension DerivedTransfer {
    private var isReceived: Bool { PurchaselyNames.factKind(of: type) == .received }

    /// The holder that the message is about: the new one for RECEIVED, the old one for TRANSFERRED.
    var messageHolder: Holder { isReceived ? to : from }

    var otherHolder: Holder { isReceived ? from : to }

    /// The prefix of the field that holds the other side.
    var otherPrefix: String { isReceived ? "transferred_from_" : "transferred_to_" }
}
