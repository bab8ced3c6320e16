internal import Vocabulary

/// Whom a derived transfer message is about, for the shapes of vendors that name the other side in fields of its own.
extension DerivedTransfer {
    private var isReceived: Bool { PurchaselyNames.factKind(of: type) == .received }

    /// Of a RECEIVED the new holder, of a TRANSFERRED the old one.
    var toldHolder: Holder { isReceived ? to : from }

    var otherHolder: Holder { isReceived ? from : to }

    /// What stands before the name of the field that holds the other side.
    var otherPrefix: String { isReceived ? "transferred_from_" : "transferred_to_" }
}
