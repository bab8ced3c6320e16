import Vocabulary

@testable import Inbound

/// Bodies in the shape of the vendor's one published webhook, with values of our own.
enum ApphudFixtures {
    /// The first transaction of a Google purchase is its purchase token.
    static let token = "abcdefghijklmnop.AO-J1OzExampleTokenExampleTokenExampleToken"

    static let started = """
        {
          "app": {"uid": "89a4b2c1", "bundle_id": "com.example.ios", "package_name": "com.example.android"},
          "event": {
            "id": "a2472593-0000-4000-8000-000000000001",
            "created_at": "2024-05-05T07:24:02.123Z",
            "properties": {
              "currency": "USD", "usd_price": 2.49, "product_id": "com.example.monthly", "family_shared": false
            },
            "store": "play_store",
            "name": "subscription_started",
            "receipt": {
              "id": "106103fc-0000-4000-8000-000000000001",
              "intro_period": false,
              "purchased_at": "2024-05-05T07:24:00.000Z",
              "transaction_id": "GPA.1111-2222-3333-44444",
              "original_transaction_id": "\(token)",
              "trial_period": false,
              "proceeds_usd": 2.1165000000000003,
              "product_id": "com.example.monthly"
            }
          },
          "user": {
            "user_id": "user-1",
            "uid": "36c21695",
            "email": "someone@example.com",
            "subscriptions": [
              {
                "id": "line-0", "status": "expired", "environment": "production", "store": "app_store",
                "original_transaction_id": "1000000001", "expires_at": "2020-01-01T00:00:00.000Z",
                "product_id": "com.example.monthly"
              },
              {
                "id": "line-1", "status": "regular", "environment": "sandbox", "store": "play_store",
                "original_transaction_id": "\(token)", "expires_at": "2024-06-05T07:24:00.000Z",
                "autorenew_enabled": true, "product_id": "com.example.monthly"
              }
            ],
            "devices": [{"id": "c4c0613b", "platform": "android"}]
          }
        }
        """

    static let source = source()

    static func source(
        authentication: Source.Authentication = .token, secrets: [String] = ["abc"], app: String? = nil,
        defaultEnvironment: String? = "PRODUCTION"
    ) -> Source {
        Source(
            name: "apphud", kind: .apphud, authentication: authentication,
            secrets: secrets.map { Secret(Array($0.utf8)) }, app: app, defaultEnvironment: defaultEnvironment,
            freshness: nil)
    }

    static func named(_ name: String) -> String { event([("name", "\"\(name)\"")]) }

    static func event(_ fields: BodyEdit.Fields, of body: String = started) -> String {
        BodyEdit.edit(body, in: "event", set: fields)
    }

    static func receipt(_ fields: BodyEdit.Fields, of body: String = started) -> String {
        BodyEdit.edit(body, in: "event", "receipt", set: fields)
    }

    static func user(_ fields: BodyEdit.Fields, of body: String = started) -> String {
        BodyEdit.edit(body, in: "user", set: fields)
    }
}
