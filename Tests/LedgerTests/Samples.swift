import Vocabulary

@testable import Ledger

extension Integration {
    static func named(
        _ name: String, events: [String] = ["*"], order: Order = .purchase, environments: [String] = [],
        sources: [String] = [], filter: MessageFilter? = nil, include: Set<Inclusion> = [],
        confirmTimeout: Duration? = nil
    ) -> Integration {
        Integration(
            name: name, url: EndpointURL(isTLS: false, host: "receiver.test", port: 80, target: "/"),
            events: events.map { Glob($0) }, environments: environments, sources: sources,
            filter: filter, format: .standard, include: include,
            signingKeys: [], headers: [], timeout: .seconds(15),
            schedule: RetrySchedule(gaps: RetrySchedule.defaultGaps, jitter: 0, giveUpAfter: nil),
            permanentStatuses: [], concurrency: 4, order: order, confirmTimeout: confirmTimeout,
            allowsPrivateAddresses: false, certificateAuthorityFile: nil)
    }
}

extension MessageFilter {
    /// Each field with its patterns.
    init(_ fields: KeyValuePairs<MessageField, [String]>) {
        self.init(
            fields.map { field, patterns in
                Condition(field, patterns.compactMap { FieldPattern($0) })
            })
    }
}

extension Event {
    /// A webhook of the source `shop`; what is not said is the same for all.
    static func sample(
        _ name: String = "RENEWED", holder: Holder = user, at: Timestamp = seconds(0), purchase: String? = "subs_1",
        kind: Purchase.Kind = .subscription, transaction: String? = "tx_1", vendorEventID: String? = nil,
        source: String = "shop", app: String = "app.one", environment: String = "PRODUCTION", status: String? = nil,
        isTimeRepeated: Bool = false, product: String? = "gold", money: String? = nil, fact: Fact? = nil,
        facts: [Fact] = [], yieldsTransaction: Bool = false, yieldsProduct: Bool = false, until: Timestamp? = nil,
        body: String? = nil
    ) -> Event {
        Event(
            scope: Scope(source: source, app: app, environment: environment), vendorEventID: vendorEventID, name: name,
            type: name, holder: holder, occurredAt: at, isTimeRepeated: isTimeRepeated,
            yieldsTransaction: yieldsTransaction, yieldsProduct: yieldsProduct,
            purchase: purchase.map {
                Purchase(
                    key: $0, kind: kind, store: "APPLE_APP_STORE", product: product, plan: "monthly",
                    subscriptionID: $0)
            },
            transaction: transaction.map {
                Transaction(
                    storeTransactionID: $0, storeOriginalTransactionID: "tx_0", purchasedAt: at,
                    effectiveNextRenewalAt: until, offerType: nil, status: status)
            },
            money: money.map { Array($0.utf8) },
            facts: fact.map { [$0] } ?? facts, body: Array((body ?? #"{"event_name":"\#(name)"}"#).utf8))
    }

    /// The same event with another purchase or another transaction.
    func with(purchase: Purchase? = nil, transaction: Transaction? = nil) -> Event {
        replacing(purchase: purchase ?? self.purchase, transaction: transaction ?? self.transaction, facts: facts)
    }

    /// The webhook that states `fact`, under Purchasely's name for it.
    static func stating(
        _ fact: Fact, purchase: String = "subs_1", kind: Purchase.Kind = .subscription, transaction: String = "tx_1",
        app: String = "app.one", environment: String = "PRODUCTION", source: String = "shop",
        money: String? = nil
    ) -> Event {
        let prefix = kind == .oneTime ? "ONE_TIME_PURCHASE_" : "SUBSCRIPTION_"
        let name =
            switch fact.kind {
            case .gain: "ACTIVATE"
            case .loss: "DEACTIVATE"
            case .transferred: prefix + "TRANSFERRED"
            case .received: prefix + "RECEIVED"
            case .naming, .said: "NAMED"
            case .passed: Event.importName
            }
        return .sample(
            name, holder: fact.holder, at: fact.at, purchase: purchase, kind: kind, transaction: transaction,
            source: source, app: app, environment: environment, money: money, fact: fact)
    }
}

extension Delivery {
    /// A delivery that no table knows.
    static func sample(_ id: Int64, integration: Int32 = 1, bytes: Int = 0, lease: Int64 = 1) -> Delivery {
        Delivery(
            id: id, lease: lease, integration: integration,
            message: Message(
                row: id, id: "msg_\(id)", eventID: "evt_\(id)", type: "RENEWED", source: "shop",
                transaction: nil, purchase: nil, purchaseKey: nil, transferID: nil, envelope: [],
                original: [UInt8](repeating: 0, count: bytes), derivedBody: nil),
            attemptsMade: 0, createdAt: seconds(0))
    }

    func settled(
        _ verdict: Settlement.Verdict, status: Int? = 200, latency: Int = 12, failure: String? = nil
    ) -> Settlement {
        Settlement(delivery: self, verdict: verdict, httpStatus: status, latencyMilliseconds: latency, failure: failure)
    }
}

extension Holder {
    static let device = Holder.anonymous("device-2")
}

/// A login: an anonymous purchase passes to `user` while its paid period lasts.
let login: [Fact] = [
    .activate(anonymous, seconds(0), until: seconds(10_000)),
    .deactivate(anonymous, seconds(100), until: seconds(10_000)),
    .activate(user, seconds(100), until: seconds(10_000)),
]

extension KeyHash {
    /// The event key that a new event gets.
    static func event(_ event: Event) -> Identifier { eventKey(event, hash: eventHash(event)) }
}
