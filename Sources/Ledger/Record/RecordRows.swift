import Vocabulary

/// The rows of a plan.
extension RecordPlan {
    /// An event that the identities let through.
    struct New {
        /// Row of `events`.
        var row: Int64
        var key: Identifier
        var event: Event
        /// Level two of the identity, where the event names a purchase.
        var purchase: Identifier?

        init(_ arrival: RecordQuestions.Arrival, row: Int64) {
            self.row = row
            key = arrival.key
            event = arrival.event
            purchase = arrival.purchase
        }

        /// One that is stored.
        init(_ event: Event, key: Identifier, row: Int64) {
            self.row = row
            self.key = key
            self.event = event
            purchase = nil
        }
    }

    /// A purchase as the table has it; of a new one everything is empty.
    struct PurchaseRow {
        var scope: Scope
        var purchase: Purchase
        var asOf: Timestamp
        var state: PurchaseState
        var isNew: Bool
    }

    struct TransactionRow {
        var purchase: Identifier
        var transaction: Transaction
        var asOf: Timestamp
        var asOfEvent: Identifier
    }

    struct EntitlementKey: Hashable {
        var holder: Holder
        var purchase: Identifier
    }

    struct EntitlementRow {
        var access: Access
        /// Row of the event that it is as of.
        var event: Int64
    }

    struct TransferRow {
        var id: Identifier
        var purchase: Identifier
        var from: Holder
        var to: Holder
        var ordinal: Int
        var event: Int64
        var storeTransactionID: String?
        var trail: TransferTrail
    }

    struct TransactionKey: Hashable {
        var purchase: Identifier
        /// As bytes: Swift's strings take different spellings of a letter for the same.
        var storeTransactionID: [UInt8]
    }

    struct MessageRow {
        var key: Identifier
        /// Index into `events`.
        var cause: Int
        var type: String
        /// Of the event that is passed on, or the one that a transfer is about.
        var purchase: Identifier?
        var purchaseKey: String?
        var storeTransactionID: String?
        var transfer: Identifier?
        var eventID: String
        var envelope: [UInt8]
        var derivedBody: [UInt8]?
    }
}
