import JSONText
import Vocabulary

@testable import Inbound

func adaptySource(
    authentication: Source.Authentication = .token, secrets: [String] = ["adapty-secret"], app: String? = nil,
    defaultEnvironment: String = "PRODUCTION", renamedEvents: [String: String] = [:]
) -> Source {
    Source(
        name: "ad", kind: .adapty, authentication: authentication, secrets: secrets.map { Secret(Array($0.utf8)) },
        app: app, defaultEnvironment: defaultEnvironment, freshness: nil, renamedEvents: renamedEvents)
}

/// Bodies in the shapes that Adapty publishes ("Webhook event types and fields"), with values of our own.
enum AdaptyFixtures {
    /// The field set of most events.
    static let subscriptionStarted = """
        {
          "profile_id": "profile-1",
          "customer_user_id": "user-1",
          "idfv": "00000000-0000-0000-0000-000000000000",
          "profile_install_datetime": "2024-11-15T10:40:00.000000+0000",
          "user_agent": "ExampleUserAgent/1.0 (Device; OS Version) Browser/Engine",
          "email": "somebody@example.com",
          "event_type": "subscription_started",
          "event_datetime": "2024-11-15T10:45:36.181000+0000",
          "event_properties": {
            "store": "play_store",
            "currency": "USD",
            "price_usd": 4.99,
            "profile_id": "profile-1",
            "cohort_name": "All Users",
            "environment": "Production",
            "base_plan_id": "b1",
            "purchase_date": "2024-11-15T10:45:30.500000+0000",
            "store_country": "AR",
            "event_datetime": "2024-11-15T10:45:36.181000+0000",
            "transaction_id": "GPA.1111-2222-3333-44444..1",
            "paywall_revision": "1",
            "profile_event_id": "0a1b2c3d-0000-4000-8000-000000000003",
            "vendor_product_id": "weekly_499",
            "consecutive_payments": 1,
            "original_transaction_id": "GPA.1111-2222-3333-44444",
            "subscription_expires_at": "2024-11-22T10:44:18.594000+0000",
            "profile_has_access_level": true
          },
          "event_api_version": 1,
          "profiles_sharing_access_level": null,
          "user_attributes": {"favourite_colour": "violet"}
        }
        """

    /// A body of another type, with properties and members (raw JSON values) set or, where nil, taken out.
    static func event(
        _ type: String, _ properties: [(String, String?)] = [], top members: [(String, String?)] = []
    ) -> String {
        let object = DerivedBody.object(Array(subscriptionStarted.utf8))
        let inner = DerivedBody.changing("event_properties", of: object, changes(properties))
        let top = [("event_type", JSONEdit.Change.string(type)), ("event_properties", inner)] + changes(members)
        return String(decoding: JSONEdit.apply(top.map { (key: $0.0, change: $0.1) }, to: object), as: UTF8.self)
    }

    private static func changes(_ fields: [(String, String?)]) -> DerivedBody.Changes {
        fields.map { (key: $0, change: $1.map { .set(Array($0.utf8)) } ?? .remove) }
    }

    /// What the access level events of the page have more than others.
    static func accessLevel(_ more: [(String, String?)], top members: [(String, String?)] = []) -> String {
        let own: [(String, String?)] = [
            ("access_level_id", "\"premium\""), ("activated_at", "\"2024-11-15T10:45:30.500000+0000\""),
            ("expires_at", "\"2024-11-22T10:44:18.594000+0000\""), ("profile_has_access_level", nil),
        ]
        return event("access_level_updated", own + more, top: members)
    }

    static let sharing =
        #"[{"profile_id": "profile-2", "customer_user_id": "user-2"}, "#
        + #"{"profile_id": "profile-3", "customer_user_id": null}]"#

    static let published: [String] =
        AdaptyNames.all.map { event($0) } + [
            subscriptionStarted,
            event("subscription_started", [], top: [("customer_user_id", "null")]),
            event("subscription_renewed", [], top: [("profiles_sharing_access_level", sharing)]),
            accessLevel([("is_active", "true"), ("will_renew", "true")]),
            accessLevel([("is_active", "false"), ("is_refund", "true")]),
        ]
}

func adapty(_ body: String, from source: Source = adaptySource()) throws -> Event { try event(body, from: source) }

extension Event {
    /// A loss is also one of the anonymous ids that are a holder's; these are the others.
    var ownFacts: [Fact] { facts.filter { !$0.endsAccessOnly } }
}
