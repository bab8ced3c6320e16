import Vocabulary

extension PurchaseState {
    /// A value that a webhook may name or leave out.
    package enum Value: String, Sendable, CaseIterable {
        case plan
        case product
        case subscription
    }
}

extension BatchPlan.PurchaseRow {
    /// Takes what a webhook says of the purchase itself: of each value the newest that a webhook named, whichever
    /// arrived first (I1); on equal times the greater one, by bytes. A product and a plan that yield are older than any
    /// others.
    mutating func update(_ stated: Purchase, of event: Event) {
        let newest = max(asOf, event.asOf)
        // An export says of each when it was named.
        let valueTimes = event.history.flatMap { try? PurchaseState(bytes: $0.state) }?.valueTimes ?? [:]
        func choose(_ known: String?, _ new: String?, _ value: PurchaseState.Value) -> String? {
            let statedAt = value == .subscription ? event.asOf : event.productAsOf
            let (time, knownAt) = (valueTimes[value] ?? statedAt, state.valueTimes[value] ?? asOf)
            var (chosen, chosenAt) = (known, knownAt)
            if let new, known == nil || time > knownAt || time == knownAt && new.isGreater(than: known ?? "") {
                (chosen, chosenAt) = (new, time)
            }
            state.valueTimes[value] = chosen == nil || chosenAt == newest ? nil : chosenAt
            return chosen
        }
        purchase.product = choose(purchase.product, stated.product, .product)
        purchase.plan = choose(purchase.plan, stated.plan, .plan)
        purchase.subscriptionID = choose(purchase.subscriptionID, stated.subscriptionID, .subscription)
        asOf = newest
    }
}

extension Purchase {
    /// The same purchase, of which nobody named a value.
    var withoutValues: Purchase {
        Purchase(key: key, kind: kind, store: store, product: nil, plan: nil, subscriptionID: nil)
    }
}

extension String {
    fileprivate func isGreater(than other: String) -> Bool { other.utf8.lexicographicallyPrecedes(utf8) }
}
