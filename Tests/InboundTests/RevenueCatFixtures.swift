import JSONText
import Vocabulary

@testable import Inbound

func revenueCatSource(
    authentication: Source.Authentication = .token, secrets: [String] = ["rc-secret"], app: String? = nil,
    defaultEnvironment: String = "PRODUCTION", freshness: Duration? = nil
) -> Source {
    Source(
        name: "rc", kind: .revenuecat, authentication: authentication, secrets: secrets.map { Secret(Array($0.utf8)) },
        app: app, defaultEnvironment: defaultEnvironment, freshness: freshness)
}

/// Bodies in the shapes that RevenueCat publishes ("Sample events"), with values of our own.
enum RevenueCatFixtures {
    static let anonymous = "$RCAnonymousID:0f1e2d3c4b5a69788796a5b4c3d2e1f0"
    static let otherAnonymous = "$RCAnonymousID:ffffffff4b5a69788796a5b4c3d2e1f0"

    /// A subscription's event, the field set of every type but TRANSFER and PURCHASE_REDEEMED.
    static let initialPurchase = """
        {
          "event": {
            "event_timestamp_ms": 1658726378679,
            "product_id": "com.example.weekly",
            "period_type": "NORMAL",
            "purchased_at_ms": 1658726374000,
            "expiration_at_ms": 1659331174000,
            "environment": "PRODUCTION",
            "entitlement_id": null,
            "entitlement_ids": [
              "pro"
            ],
            "presented_offering_id": null,
            "transaction_id": "400000000000002",
            "original_transaction_id": "400000000000001",
            "is_family_share": false,
            "country_code": "US",
            "app_user_id": "user-1",
            "aliases": [
              "\(anonymous)"
            ],
            "original_app_user_id": "\(otherAnonymous)",
            "currency": "USD",
            "price": 4.99,
            "price_in_purchased_currency": 4.99,
            "subscriber_attributes": {
              "$email": {
                "updated_at_ms": 1662955084635,
                "value": "somebody@example.com"
              }
            },
            "store": "APP_STORE",
            "takehome_percentage": 0.7,
            "offer_code": null,
            "type": "INITIAL_PURCHASE",
            "id": "0a1b2c3d-0000-4000-8000-000000000001",
            "app_id": "app0123456789"
          },
          "api_version": "1.0"
        }
        """

    /// No `app_user_id`, no product, no transaction.
    static let transfer = """
        {
          "event": {
            "app_id": "app0123456789",
            "event_timestamp_ms": 1658726378679,
            "id": "0a1b2c3d-0000-4000-8000-000000000002",
            "store": "APP_STORE",
            "transferred_from": [
              "user-old"
            ],
            "transferred_to": [
              "user-new"
            ],
            "type": "TRANSFER",
            "environment": "PRODUCTION"
          },
          "api_version": "1.0"
        }
        """

    /// No `app_user_id`, no product, no transaction.
    static let redemption = """
        {
          "event": {
            "app_id": "app0123456789",
            "event_timestamp_ms": 1658726378679,
            "id": "0a1b2c3d-0000-4000-8000-000000000003",
            "redeemed_from": [
              "\(anonymous)"
            ],
            "redeemed_by": [
              "user-new"
            ],
            "redemption_outcome": "alias",
            "type": "PURCHASE_REDEEMED",
            "environment": "PRODUCTION"
          },
          "api_version": "1.0"
        }
        """

    /// Another type with what is particular about its sample.
    static func event(_ type: String, _ fields: [(String, String?)] = []) -> String {
        let shape =
            switch type {
            case "TRANSFER": transfer
            case "PURCHASE_REDEEMED": redemption
            default: initialPurchase
            }
        return setting([("type", "\"\(type)\"")] + fields, in: shape)
    }

    /// `fields` (raw JSON values) set in the body's event or, where nil, taken out of it.
    static func setting(_ fields: [(String, String?)], in body: String) -> String {
        let object = DerivedBody.object(Array(body.utf8))
        let changes = fields.map { (key: $0, change: $1.map { .set(Array($0.utf8)) } ?? JSONEdit.Change.remove) }
        let event = DerivedBody.changing("event", of: object, changes)
        return String(decoding: JSONEdit.apply([("event", event)], to: object), as: UTF8.self)
    }

    /// The page "Virtual Currency Events": no `environment`, no first transaction, no period.
    static let virtualCurrency = event(
        "VIRTUAL_CURRENCY_TRANSACTION",
        [
            ("environment", nil), ("purchase_environment", "\"SANDBOX\""), ("original_transaction_id", nil),
            ("period_type", nil), ("purchased_at_ms", nil), ("expiration_at_ms", nil), ("price", nil),
            ("source", "\"in_app_purchase\""), ("virtual_currency_transaction_id", "\"vatx400000000000002\""),
            ("adjustments", #"[{"amount": 100, "currency": {"code": "CRD", "name": "Credits"}}]"#),
        ])

    /// What RevenueCat publishes a sample of, each in its own particulars.
    static let published: [String] = [
        initialPurchase,
        transfer,
        redemption,
        event("INITIAL_PURCHASE", [("period_type", "\"TRIAL\""), ("store", "\"PLAY_STORE\"")]),
        event("RENEWAL", [("is_trial_conversion", "false")]),
        event("CANCELLATION", [("cancel_reason", "\"UNSUBSCRIBE\"")]),
        event("CANCELLATION", [("cancel_reason", "\"CUSTOMER_SUPPORT\""), ("price", "-9.99")]),
        event("CANCELLATION", [("cancel_reason", "\"UNSUBSCRIBE\""), ("period_type", "\"TRIAL\"")]),
        event("UNCANCELLATION"),
        event("NON_RENEWING_PURCHASE", [("expiration_at_ms", "null"), ("product_id", "\"2100_tokens\"")]),
        event("SUBSCRIPTION_PAUSED", [("auto_resume_at_ms", "1657951448845"), ("store", "\"PLAY_STORE\"")]),
        event("EXPIRATION", [("expiration_reason", "\"UNSUBSCRIBE\"")]),
        event("BILLING_ISSUE", [("app_user_id", "\"\(anonymous)\"")]),
        event("PRODUCT_CHANGE", [("new_product_id", "\"com.example.yearly\"")]),
        event("SUBSCRIPTION_EXTENDED"),
    ]
}

func revenueCat(_ body: String, from source: Source = revenueCatSource()) throws -> Event {
    try event(body, from: source)
}

/// The smallest change to a purchase: another type, other fields.
func revenueCat(
    _ type: String, _ fields: [(String, String?)], from source: Source = revenueCatSource()
) throws -> Event {
    try event(RevenueCatFixtures.event(type, fields), from: source)
}
