package import Vocabulary

/// A webhook, or a statement of the app's backend, as the table `events` keeps it.
package struct StoredWebhook: Sendable {
    package let row: Int64
    package let key: Identifier
    package let scope: Scope
    package let vendorEventID: String?
    package let name: String
    /// Nil: it names nobody.
    package let holder: Holder?
    package let occurredAt: Timestamp
    package let receivedAt: Timestamp
    package let storeTransactionID: String?
    package let body: [UInt8]
    /// What a vendor's API answered about it; nil: none was asked.
    package let answer: [UInt8]?
}

/// What a stored body states, by the current rules of its source.
package struct ReadWebhook: Sendable {
    package let event: Event
    /// Facts that the body does not hold, because they followed from what was known when it was recorded; nil: the
    /// event has all.
    package let facts: (@Sendable (KnownBefore) -> [Fact])?

    package init(_ event: Event, facts: (@Sendable (KnownBefore) -> [Fact])? = nil) {
        self.event = event
        self.facts = facts
    }
}

/// What the webhooks before one state about its purchase.
package struct KnownBefore: Sendable {
    /// The user that the event's anonymous holder is.
    package let user: String?
    /// All that have or had access, ascending.
    package let holders: [Holder]
    /// Those who have it.
    package let active: [Holder]
}

/// What is stored of one purchase: what its state is rebuilt from, and the tables that show what is missing.
struct PurchaseHistory {
    /// A webhook of the purchase, or a statement about one of its holders.
    struct Item {
        let row: Int64
        let key: Identifier
        /// Without its body.
        let event: Event
        let facts: (@Sendable (KnownBefore) -> [Fact])?
        /// Whether it is a webhook of the purchase.
        let isOwn: Bool
        /// The rows of `holder_changes` that it stated about holders of the purchase; empty: none is kept, they follow
        /// from the event.
        var changes: [HolderChangeRow] = []
        /// Whether it was the first identify ever of its identity.
        var isFirstIdentify = false
    }

    struct Entitlement {
        let holder: Holder
        let access: Access
        /// Row of the event that stated it; nil: unknown.
        let event: Int64?
    }

    struct Transfer {
        let id: Identifier
        let pair: Timeline.Pair
        let ordinal: Int
        let event: Int64
    }

    struct StoreTransaction {
        let id: String
        /// Key of the newest event that states it.
        let asOfEvent: Identifier
        let asOf: Timestamp
        let purchasedAt: Timestamp?
        let effectiveNextRenewalAt: Timestamp?

        /// Whether it was bought, or an event spoke of it, before.
        func isOlder(than horizon: Timestamp) -> Bool {
            let heardAt = asOf == Event.yieldedTransaction ? nil : asOf
            return [purchasedAt, heardAt].compactMap { $0 }.contains { $0 < horizon }
        }
    }

    let purchase: Identifier
    let hash: Identifier
    let scope: Scope
    let key: String
    let kind: Purchase.Kind
    /// In order of arrival.
    var items: [Item] = []
    var entitlements: [Entitlement] = []
    var transfers: [Transfer] = []
    var transactions: [StoreTransaction] = []
    /// Webhooks of the purchase that cannot be read any more.
    var unreadable = 0
    /// Whether the holders have more statements than are read.
    var isCut = false
    /// Webhooks received before this may have been pruned; nil: none was.
    var prunedBefore: Timestamp?
}
