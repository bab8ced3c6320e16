package import Vocabulary

/// What was found of one purchase, and what became of it.
package struct RepairReport: Sendable {
    package enum Verdict: Sendable, Equatable {
        /// State and access are what the webhooks give.
        case sound
        /// They differ, but webhooks are missing, so that nobody can say which is right: the stored state stays.
        case leftUnchanged
        /// State and access were replaced, or would be.
        case rebuilt
        /// It could not be checked, for this reason.
        case impossible(String)
    }

    /// Whether somebody has access, where that changes; nil: nothing was known of the holder.
    package struct AccessChange: Sendable, Equatable {
        package let holder: Holder
        package let before: Bool?
        package let after: Bool
    }

    /// A transfer that the webhooks show and that was never announced.
    package struct FoundTransfer: Sendable, Equatable {
        package let id: String
        package let from: Holder
        package let to: Holder
        package let ordinal: Int
    }

    package let purchase: Identifier
    package let source: String
    package let app: String
    package let environment: String
    package let store: String
    package let key: String
    package let wasReadable: Bool
    package internal(set) var verdict = Verdict.sound
    /// Why the webhooks are not all that the purchase ever had; empty: nothing shows that one is missing.
    package internal(set) var missing: [MissingHistory] = []
    /// Stored webhooks of the purchase that could be read.
    package internal(set) var webhooks = 0
    package internal(set) var access: [AccessChange] = []
    package internal(set) var transfers: [FoundTransfer] = []
    /// Webhooks in quarantine that wait for this purchase, by id; empty, too, where they were not looked up.
    package internal(set) var waiting: [Int64] = []

    /// Whether the state was rebuilt from less than all webhooks.
    package var isPartial: Bool { verdict == .rebuilt && !missing.isEmpty }

    /// Whether there is something to say of it among many.
    package var isWorthListing: Bool { verdict != .sound || !transfers.isEmpty }

    init(
        purchase: Identifier, source: String, app: String, environment: String, store: String, key: String,
        wasReadable: Bool
    ) {
        self.purchase = purchase
        self.source = source
        self.app = app
        self.environment = environment
        self.store = store
        self.key = key
        self.wasReadable = wasReadable
    }

    mutating func fill(_ decision: RepairDecision, _ history: PurchaseHistory) {
        verdict = decision.verdict
        missing = decision.missing
        webhooks = history.items.count(where: \.isOwn)
        let known = Dictionary(firstOf: history.entitlements.map { ($0.holder, $0.access.isActive) })
        access = decision.entitlements.compactMap { row in
            let before = known[row.holder]
            guard before ?? false != row.access.isActive else { return nil }
            return AccessChange(holder: row.holder, before: before, after: row.access.isActive)
        }
        transfers = decision.transfers.map {
            FoundTransfer(id: $0.id.transferID, from: $0.from, to: $0.to, ordinal: $0.ordinal)
        }
    }
}
