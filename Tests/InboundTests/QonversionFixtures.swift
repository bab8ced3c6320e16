import Vocabulary

@testable import Inbound

/// Bodies in the shape of the vendor's page "Webhooks", with values of our own.
enum QonversionFixtures {
    /// The documented sample: ids as numbers, "" for what is absent, seconds.
    static let documented = """
        {
          "event_name": "trial_converted",
          "user_id": "QON_install-1",
          "custom_user_id": "",
          "identity_id": "",
          "advertiser_id": "00000000-0000-0000-0000-000000000000",
          "time": 1700000001,
          "created_at": 1700000000,
          "product_id": "com.example.app.trial",
          "revenue": {"value": 7.99, "value_usd": 9.99, "currency": "GBP", "is_proceed": 0, "proceeds_rate": 70},
          "transaction": {
            "transaction_id": 9007199254740993,
            "original_transaction_id": 9007199254740992,
            "expires": 1702592000,
            "grace_period_expires": null
          },
          "properties": {"_q_email": "someone@example.com"},
          "device_id": "0F6A1C9E-0000-4000-8000-000000000001",
          "environment": "production",
          "platform": "iOS",
          "ip": "192.0.2.1"
        }
        """

    /// A newer one: price, both products, the date of the transaction, an Android install that is logged in.
    static let newer = """
        {"event_name":"subscription_upgraded","user_id":"QON_install-2","custom_user_id":"label","identity_id":"u-2",\
        "time":1700000000,"created_at":1700000000,"product_id":"","old_product_id":"monthly","new_product_id":"yearly",\
        "price":{"value":49.99,"value_usd":49.99,"currency":"USD"},"transaction":{"transaction_id":"GPA.1-2..0",\
        "original_transaction_id":"GPA.1-2","expires":1731536000,"grace_period_expires":0,\
        "transaction_date":1699999000},"entitlements":[{"id":"premium","active":true,"source":"playstore"}],\
        "environment":"sandbox","platform":"android"}
        """

    static func source(
        ownership: Ownership? = nil, authentication: Source.Authentication = .token, secrets: [String] = ["abc"],
        app: String? = nil, renamed: [String: String] = [:]
    ) -> Source {
        Source(
            name: "qonversion", kind: .qonversion, authentication: authentication,
            secrets: secrets.map { Secret(Array($0.utf8)) }, app: app, defaultEnvironment: "PRODUCTION",
            freshness: nil, ownership: ownership, renamedEvents: renamed)
    }

    static func named(_ name: String) -> String {
        BodyEdit.edit(documented, [("event_name", "\"\(name)\"")])
    }

    static func holding(install: String?, identity: String?) -> String {
        BodyEdit.edit(named("trial_started"), [("user_id", install), ("identity_id", identity)])
    }
}
