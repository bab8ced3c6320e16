internal import JSONText
package import Vocabulary

/// An app that manages its sessions, and perhaps its purchases, itself. Its server signs after Standard Webhooks and
/// posts `{"type": …, "timestamp": ISO 8601, "data": {…}}`; the members of `data` may also be beside it.
///
/// | type | data | effect |
/// |--|--|--|
/// | SESSION_ANONYMOUS_STARTED | `anonymous_id`, `reason` | it is passed on |
/// | SESSION_LOGIN | `user_id`, `anonymous_id`, `expires_at` | until then the anonymous holder is this user |
/// | SESSION_LOGOUT, SESSION_EXPIRED | `user_id` and / or `anonymous_id` | the anonymous holder is no known user |
/// | DATA_RESET | the same, `scope` | the same; nothing is merged and nothing deleted |
/// | ACTIVATE, DEACTIVATE | a purchase | its holder has it, or no longer has it |
/// | any other | a purchase or none | it is passed on |
///
/// `anonymous_user_id` is the same as `anonymous_id`. A login also moves the subscriptions of the anonymous holder if
/// the source's `merge` is set. `expires_at` is an instant, not a number of seconds from now: ISO 8601, seconds since
/// 1970, or `expires_at_ms`.
///
/// A purchase belongs to exactly one of `user_id` and `anonymous_user_id` and has flat fields: `purchase_id`,
/// `product`, `plan`, `store` (default APP), `purchase_type` (CONSUMABLE and NON_CONSUMABLE are one-time purchases),
/// `store_transaction_id`, `store_original_transaction_id`, `purchased_at`, `effective_next_renewal_at` (both also with
/// `_ms`; without the latter it has no end), `offer_type`, `status`, `is_family_shared`. The native names of a transfer
/// (SUBSCRIPTION_TRANSFERRED, SUBSCRIPTION_RECEIVED and their ONE_TIME_PURCHASE_ twins) have their usual meaning, with
/// `transferred_to_…` and `transferred_from_…`.
///
/// Every event may have `event_id` (else the `webhook-id` header), `environment`, `app`.
package struct Sessions: SourceAdapter {
    package init() {}

    package var knownEventNames: [String] { SessionsNames.all }

    package let signature: KeyedSignature? = KeyedSignature(StandardWebhooksSignature.self)

    package var idHeader: String? { StandardWebhooksSignature.idHeader }

    package func normalise(
        _ body: [UInt8], header: (String) -> String?, from source: Source
    ) throws(Unreadable) -> Event {
        let fields = try SessionsFields(body)
        let name = try fields.name()
        let statement = try SessionsStatement(name: name, fields: fields, merges: source.merges)
        let occurredAt = try fields.occurredAt()
        let isOfSession = SessionsNames.sessions.contains(name)
        let purchase = isOfSession ? nil : try purchase(in: fields, eventName: name)
        let app = if let app = source.app { app } else { try fields.text("app") ?? "" }
        let environment = try fields.text("environment").map(SharedVocabulary.environment)
        let eventID = try fields.text("event_id")
        let messageID = try messageID(header)
        return Event(
            scope: Scope(source: source.name, app: app, environment: environment ?? source.defaultEnvironment),
            vendorEventID: eventID ?? messageID,
            name: name,
            type: name,
            holder: statement.holder,
            occurredAt: occurredAt,
            purchase: purchase,
            transaction: isOfSession ? nil : try transaction(in: fields, eventName: name),
            facts: purchase == nil ? [] : try facts(in: fields, eventName: name, statement.holder, at: occurredAt),
            change: statement.change,
            links: statement.links,
            body: body)
    }

    private func messageID(_ header: (String) -> String?) throws(Unreadable) -> String? {
        guard let id = StandardWebhooksSignature.messageID(header) else { return nil }
        guard id.utf8.count <= Limits.identifierBytesMax else {
            throw Unreadable(reason: "webhook-id is longer than \(Limits.identifierBytesMax) bytes")
        }
        return id
    }

    /// Defines the purchase key: the app's own id of it, else the store's.
    private func purchase(in fields: SessionsFields, eventName: String) throws(Unreadable) -> Purchase? {
        let own = try fields.text("purchase_id")
        let original = try fields.text("store_original_transaction_id")
        let transaction = try fields.text("store_transaction_id")
        guard let key = own ?? original ?? transaction else { return nil }
        let kind: Purchase.Kind =
            switch try fields.text("purchase_type")?.uppercased() {
            case "CONSUMABLE", "NON_CONSUMABLE", "ONE_TIME": .oneTime
            case nil: eventName.hasPrefix(PurchaselyNames.oneTimePrefix) ? .oneTime : .subscription
            default: .subscription
            }
        return Purchase(
            key: key, kind: kind, store: try fields.text("store").map(SharedVocabulary.store) ?? SessionsNames.store,
            product: try fields.text("product"), plan: try fields.text("plan"),
            subscriptionID: kind == .subscription ? own : nil)
    }

    /// Of what takes access away an end says nothing more: an unreadable one must not keep it.
    private func end(in fields: SessionsFields, eventName: String) throws(Unreadable) -> Timestamp? {
        let isLoss = PurchaselyNames.factKind(of: eventName) == .loss
        return isLoss ? fields.time(Self.endField) : try fields.end(Self.endField)
    }

    static let endField = "effective_next_renewal_at"

    private func transaction(in fields: SessionsFields, eventName: String) throws(Unreadable) -> Transaction? {
        guard let id = try fields.text("store_transaction_id") else { return nil }
        return Transaction(
            storeTransactionID: id,
            storeOriginalTransactionID: try fields.text("store_original_transaction_id"),
            purchasedAt: fields.time("purchased_at"),
            effectiveNextRenewalAt: try end(in: fields, eventName: eventName),
            offerType: try fields.text("offer_type"),
            status: try fields.text("status", "subscription_status"))
    }

    private func facts(
        in fields: SessionsFields, eventName: String, _ holder: Holder, at occurredAt: Timestamp
    ) throws(Unreadable) -> [Fact] {
        guard let kind = PurchaselyNames.factKind(of: eventName) else { return [] }
        let counterpart: Holder? =
            switch kind {
            case .gain, .loss, .naming, .said, .passed: nil
            case .transferred: try fields.counterpart("transferred_to_")
            case .received: try fields.counterpart("transferred_from_")
            }
        let fact = Fact(
            kind: kind, holder: holder, counterpart: counterpart, at: occurredAt,
            until: try end(in: fields, eventName: eventName),
            isRevoked: try fields.text("status", "subscription_status") == SharedVocabulary.Status.revoked,
            isFamilyShared: fields.flag("is_family_shared"))
        return [fact]
    }
}
