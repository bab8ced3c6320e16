internal import JSONText
package import Vocabulary

/// Purchasely, api_version 3 (docs.purchasely.com/docs/webhook, /server-events-attributes). Body, signature and
/// catalogue as confirmed by its own samples; where its pages contradict one another, a comment says which is right.
package struct Purchasely: SourceAdapter {
    package init() {}

    package var knownEventNames: [String] { StandardTypes.all }

    package let signature: KeyedSignature? = KeyedSignature(PurchaselySignature.self)

    package func normalise(
        _ body: [UInt8], header: (String) -> String?, from source: Source
    ) throws(Unreadable) -> Event {
        let fields = try BodyFields(body)
        let name = try fields.requiredName("event_name")
        let holder = try holder(in: fields)
        let occurredAt = try fields.requiredTime(.milliseconds("event_created_at_ms"), .iso8601("event_created_at"))
        let purchase = try purchase(in: fields, eventName: name)
        let until = fields.purchaselyTime("effective_next_renewal_at_ms", "effective_next_renewal_at")
        let app = if let app = source.app { app } else { try fields.text("store_app_bundle_id") ?? "" }
        let environment = try fields.text("environment") ?? source.defaultEnvironment
        return Event(
            scope: Scope(source: source.name, app: app, environment: environment),
            vendorEventID: try fields.text("event_id"),
            name: name,
            type: PurchaselyNames.type(of: name),
            holder: holder,
            occurredAt: occurredAt,
            // "In case of retry that attribute will still be set with the time at the first try" (Purchasely, "Server
            // Events Attributes").
            isTimeRepeated: true,
            yieldsTransaction: try yieldsTransaction(fields, eventName: name),
            // A plan that is left for another one ends by a DEACTIVATE, too, often at the very time of the new plan's
            // ACTIVATE (docs.purchasely.com/docs/entitlement-events).
            yieldsProduct: name == PurchaselyNames.deactivate,
            purchase: purchase,
            transaction: try transaction(in: fields, until: until),
            money: money(in: fields, eventName: name).json,
            facts: try facts(in: fields, eventName: name, of: purchase, holder: holder, at: occurredAt, until: until),
            body: body)
    }

    /// The holder: exactly one of the two ids.
    private func holder(in fields: BodyFields) throws(Unreadable) -> Holder {
        switch (try fields.strictText("user_id"), try fields.strictText("anonymous_user_id")) {
        case (let user?, nil): return .user(user)
        case (nil, let anonymous?): return .anonymous(anonymous)
        case (nil, nil): throw Unreadable(reason: "neither user_id nor anonymous_user_id is there")
        case (_?, _?): throw Unreadable(reason: "both user_id and anonymous_user_id are there")
        }
    }

    /// Defines the purchase key (Domain.md, "Purchase key").
    private func purchase(in fields: BodyFields, eventName: String) throws(Unreadable) -> Purchase? {
        let subscription = try fields.text("purchasely_subscription_id")
        let oneTime = try fields.text("purchasely_one_time_purchase_id")
        let original = try fields.text("store_original_transaction_id")
        let transaction = try fields.text("store_transaction_id")
        guard let key = subscription ?? oneTime ?? original ?? transaction else { return nil }
        let kind: Purchase.Kind
        switch try fields.text("purchase_type") {
        case "CONSUMABLE", "NON_CONSUMABLE": kind = .oneTime
        case "RENEWING_SUBSCRIPTION", "NON_RENEWING_SUBSCRIPTION": kind = .subscription
        // Absent in 3.x bodies, or a type that Purchasely has added since: the ids decide.
        default:
            let isOneTime = subscription == nil && oneTime != nil
            kind = isOneTime || eventName.hasPrefix(PurchaselyNames.oneTimePrefix) ? .oneTime : .subscription
        }
        return Purchase(
            key: key, kind: kind, store: PurchaselyNames.store(try fields.text("store") ?? ""),
            product: try fields.text("product"), plan: try fields.text("plan"), subscriptionID: subscription)
    }

    private func transaction(in fields: BodyFields, until: Timestamp?) throws(Unreadable) -> Transaction? {
        guard let id = try fields.text("store_transaction_id") else { return nil }
        return Transaction(
            storeTransactionID: id,
            storeOriginalTransactionID: try fields.text("store_original_transaction_id"),
            purchasedAt: fields.purchaselyTime("purchased_at_ms", "purchased_at"),
            effectiveNextRenewalAt: until,
            offerType: try fields.text("offer_type"),
            status: try fields.text("subscription_status"))
    }

    /// Whether what it says of the transaction, its end above all, may be about a plan or a holder that was left, while
    /// the purchase goes on by the same transaction. REVOKED takes the transaction back for everybody.
    private func yieldsTransaction(_ fields: BodyFields, eventName: String) throws(Unreadable) -> Bool {
        switch PurchaselyNames.factKind(of: eventName) {
        case .loss: try !isRevoked(fields)
        case .transferred: true
        case .gain, .received, .naming, .said, .passed, nil: false
        }
    }

    private func isRevoked(_ fields: BodyFields) throws(Unreadable) -> Bool {
        try fields.text("subscription_status") == SharedVocabulary.Status.revoked
    }

    private typealias AmountKeys = (own: String, usd: String, eur: String)

    /// What one payment was, VAT included; only TRANSACTION_PROCESSED has them.
    private static let ofPayment: AmountKeys = ("amount_in_customer_currency", "amount_in_usd", "amount_in_eur")
    /// "The price paid by a customer in the current period of its subscription (so 0 during a free trial)".
    private static let ofPeriod: AmountKeys = (
        "plan_price_in_customer_currency", "plan_price_in_usd", "plan_price_in_eur"
    )

    /// Beside the customer's currency there is that of the app's settings, which is part of the key.
    private func money(in fields: BodyFields, eventName: String) -> Money {
        let keys = eventName == PurchaselyNames.transactionProcessed ? Self.ofPayment : Self.ofPeriod
        return Money(
            amount: fields.decimal(keys.own), currency: fields.currency("customer_currency"),
            amountUSD: fields.decimal(keys.usd), amountEUR: fields.decimal(keys.eur),
            isRefund: PurchaselyNames.refunds.contains(eventName))
    }

    /// What the event states about holders. `until` is only `effective_next_renewal_at`, which includes grace and
    /// deferral; without one there is no end.
    private func facts(
        in fields: BodyFields, eventName: String, of purchase: Purchase?, holder: Holder, at occurredAt: Timestamp,
        until: Timestamp?
    ) throws(Unreadable) -> [Fact] {
        guard let purchase, let kind = PurchaselyNames.factKind(of: eventName) else { return [] }
        let counterpart: Holder? =
            switch kind {
            case .gain, .loss, .naming, .said, .passed: nil
            case .transferred: try counterpart("transferred_to", in: fields)
            case .received: try counterpart("transferred_from", in: fields)
            }
        let plan = kind == .gain || kind == .loss ? purchase.plan : nil
        let fact = Fact(
            kind: kind, holder: holder, counterpart: counterpart, at: occurredAt, until: until,
            isRevoked: try isRevoked(fields),
            isFamilyShared: fields.flag("is_family_shared"),
            plan: plan)
        return [fact]
    }

    /// The other side of a transfer; nil if both ids are there, because choosing one would guess who gets access.
    private func counterpart(_ prefix: String, in fields: BodyFields) throws(Unreadable) -> Holder? {
        switch (try fields.text(prefix + "_user_id"), try fields.text(prefix + "_anonymous_user_id")) {
        case (let user?, nil): .user(user)
        case (nil, let anonymous?): .anonymous(anonymous)
        default: nil
        }
    }
}

extension BodyFields {
    /// Each time has two keys: one in milliseconds, else the other in ISO 8601.
    fileprivate func purchaselyTime(_ milliseconds: String, _ iso8601: String) -> Timestamp? {
        time(.milliseconds(milliseconds)) ?? time(.iso8601(iso8601))
    }
}
