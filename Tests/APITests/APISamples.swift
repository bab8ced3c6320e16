import Vocabulary

extension Source {
    static func named(
        _ name: String, kind: SourceKind? = nil, ownership: Ownership = .exclusive, app: String? = nil,
        environment: String = "PRODUCTION", restore: RestoreStrategy = .transfer, merges: Bool = false
    ) -> Source {
        Source(
            name: name, kind: kind ?? SourceKind.allCases.first { $0.traits.ownerships.contains(ownership) } ?? .usual,
            authentication: .none, secrets: [], app: app, defaultEnvironment: environment,
            freshness: nil, ownership: ownership, restore: restore, merges: merges)
    }
}

/// Milliseconds of an event time: a number of seconds after 2024-01-01T00:00:00Z.
func at(_ seconds: Int64) -> Timestamp { Timestamp(milliseconds: 1_704_067_200_000 + seconds * 1_000) }

/// Past every test.
let farAway = Timestamp(milliseconds: 4_102_444_800_000)

extension Event {
    /// A webhook about one purchase; what is not said is the same for all. `holders` come by it (or lose it).
    static func stating(
        _ name: String = "ACTIVATE", of holders: Holder..., kind: Fact.Kind? = .gain, at time: Timestamp = at(0),
        purchase: String = "p1", transaction: String? = nil, product: String = "gold", source: String = "shop",
        app: String = "", environment: String = "PRODUCTION", until: Timestamp? = farAway, status: String? = nil,
        offerType: String? = "NONE", isOneTime: Bool = false, change: HolderChange? = nil, links: [HolderLink] = [],
        body: String? = nil
    ) -> Event {
        Event(
            scope: Scope(source: source, app: app, environment: environment), vendorEventID: nil, name: name,
            type: name, holder: holders[0], occurredAt: time,
            purchase: Purchase(
                key: purchase, kind: isOneTime ? .oneTime : .subscription, store: "APPLE_APP_STORE", product: product,
                plan: "monthly", subscriptionID: nil),
            transaction: Transaction(
                storeTransactionID: transaction ?? "t-" + purchase, storeOriginalTransactionID: nil,
                purchasedAt: time, effectiveNextRenewalAt: until, offerType: offerType, status: status),
            facts: kind.map { kind in holders.map { Fact(kind: kind, holder: $0, at: time, until: until) } } ?? [],
            change: change, links: links, body: Array((body ?? "{\"event_name\":\"\(name)\"}").utf8))
    }

    /// A webhook about holders alone.
    static func about(
        _ holder: Holder, _ name: String = "LINKED", at time: Timestamp = at(0), source: String = "shop",
        environment: String = "PRODUCTION", change: HolderChange? = nil, links: [HolderLink] = []
    ) -> Event {
        Event(
            scope: Scope(source: source, app: "", environment: environment),
            vendorEventID: "ev-\(name)-\(time.milliseconds)",
            name: name, type: name, holder: holder, occurredAt: time, purchase: nil, transaction: nil, change: change,
            links: links, body: Array("{}".utf8))
    }

    /// A purchase by an install of the source `shared`, as its webhook states it.
    static func bought(
        _ product: String, by install: String, as identity: String? = nil, at time: Timestamp = at(0),
        purchase: String? = nil
    ) -> Event {
        let holder = Holder.anonymous(install)
        var facts = [Fact(kind: .gain, holder: holder, at: time, until: farAway)]
        if let identity { facts.append(Fact(kind: .gain, holder: .user(identity), at: time, until: farAway)) }
        let key = purchase ?? "\(install)-\(product)"
        return Event(
            scope: Scope(source: "shared", app: "", environment: "PRODUCTION"), vendorEventID: nil,
            name: "subscription_started", type: "SUBSCRIPTION_STARTED", holder: holder, occurredAt: time,
            purchase: Purchase(
                key: key, kind: .subscription, store: "APPLE_APP_STORE", product: product, plan: nil,
                subscriptionID: nil),
            transaction: Transaction(
                storeTransactionID: "t-" + key, storeOriginalTransactionID: nil, purchasedAt: time,
                effectiveNextRenewalAt: farAway, offerType: "NONE", status: "AUTO_RENEWING"),
            facts: facts, links: identity.map { [HolderLink(anonymousID: install, userID: $0)] } ?? [],
            body: Array("{}".utf8))
    }
}
