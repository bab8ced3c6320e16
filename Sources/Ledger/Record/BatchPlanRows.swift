import Vocabulary

/// The rows of a plan.
extension BatchPlan {
    /// An event of a plan: its event key is new, or it is stored already and its change is applied further. A class for
    /// the same reason as `EventBatch.Arrival`.
    final class PlannedEvent: Sendable {
        /// Row of `events`.
        let row: Int64
        let key: Identifier
        /// `KeyHash.eventHash`.
        let hash: Identifier
        let event: Event
        /// The event's own, or the one that is known for it (`named`).
        let type: String
        /// The purchase id, if the event names a purchase.
        let purchase: Identifier?
        let purchaseHash: Identifier?

        init(_ arrival: EventBatch.Arrival, row: Int64, purchase: Identifier?) {
            self.row = row
            key = arrival.key
            hash = arrival.hash
            event = arrival.event
            type = arrival.event.type
            self.purchase = purchase
            purchaseHash = arrival.purchaseHash
        }

        /// An event that is stored already, and is not passed on again.
        init(
            _ event: Event, key: Identifier, row: Int64, purchase: Identifier? = nil, purchaseHash: Identifier? = nil
        ) {
            self.row = row
            self.key = key
            hash = key
            self.event = event
            type = event.type
            self.purchase = purchase
            self.purchaseHash = purchaseHash
        }

        private init(_ other: PlannedEvent, type: String) {
            row = other.row
            key = other.key
            hash = other.hash
            event = other.event
            self.type = type
            purchase = other.purchase
            purchaseHash = other.purchaseHash
        }

        /// The same under another type.
        func named(_ type: String) -> PlannedEvent { PlannedEvent(self, type: type) }

        /// Whether an app may be waiting for this event's acknowledgement before it uses the changed access.
        var grantsOrEndsAccess: Bool { type == "ACTIVATE" || type == "DEACTIVATE" }
    }

    /// A purchase as the table has it; the state of a new one is empty.
    struct PurchaseRow {
        /// What its transfers' ids are made of (`KeyHash.purchase`).
        var hash: Identifier
        var scope: Scope
        var purchase: Purchase
        var asOf: Timestamp
        var state: PurchaseState
        /// As stored, before this batch.
        var known = KnownAccess()
    }

    /// A purchase that a change of its holder would have moved, had it come in time.
    struct Unmoved: Hashable {
        /// The event that states the change, as an index of the batch.
        let cause: Int
        /// The purchase's key.
        let purchase: String
    }

    struct TransactionRow {
        var purchase: Identifier
        var transaction: Transaction
        var asOf: Timestamp
        var asOfEvent: Identifier
        /// `AccessEnd.isVoided`
        var isVoided: Bool

        /// Whether it is the newer one of its purchase, as `HolderStatements.newestTransactions` orders them; or the
        /// later statement about the same one, as it is stored.
        func isNewer(than other: TransactionRow) -> Bool {
            let isSame = transaction.storeTransactionID.hasSameBytes(as: other.transaction.storeTransactionID)
            if !isSame, isVoided != other.isVoided { return other.isVoided }
            if !isSame, began != other.began { return began > other.began }
            return (asOf, asOfEvent) > (other.asOf, other.asOfEvent)
        }

        /// Nearly as `AccessEnd` has it, which also looks at the other renewals.
        private var began: Timestamp {
            transaction.purchasedAt ?? transaction.effectiveNextRenewalAt.map { min($0, asOf) } ?? asOf
        }
    }

    struct EntitlementKey: Hashable {
        var holder: Holder
        var purchase: Identifier
    }

    struct EntitlementRow {
        var holder: Holder
        var purchase: Identifier
        var access: Access
        /// Row of the event that stated it.
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
        /// As bytes, because Swift's strings treat different encodings of a letter as equal.
        var storeTransactionID: [UInt8]
    }

    /// A class for the same reason as `EventBatch.Arrival`.
    final class MessageRow: Sendable {
        /// Of a transfer's message; nil: it passes an event on (`BatchWrite.ownKey`).
        let key: Identifier?
        /// Index into `events`.
        let cause: Int
        let fields: MessageFields
        let transfer: Identifier?
        let envelope: [UInt8]
        let derivedBody: [UInt8]?

        init(
            key: Identifier?, cause: Int, fields: MessageFields, transfer: Identifier?, envelope: [UInt8],
            derivedBody: [UInt8]?
        ) {
            self.key = key
            self.cause = cause
            self.fields = fields
            self.transfer = transfer
            self.envelope = envelope
            self.derivedBody = derivedBody
        }

        var type: String { fields.statement.type }
        var eventID: String { fields.statement.eventID }
        /// The purchase of the event that is passed on, or the one that a transfer is about.
        var purchase: Identifier? { fields.subject.id }
        var purchaseKey: String? { fields.subject.purchase?.key }
        var storeTransactionID: String? { fields.subject.transaction?.storeTransactionID }
    }
}
