/// Bodies in the shapes that Purchasely publishes (its samples of webhooks), with values of our own. The comments say
/// what is particular about each shape.
enum PurchaselyFixtures {
    /// "Anonymous user" page, first sample: no event_id, no purchase_type, no renewal; a one-time purchase.
    static let oneTimeActivate = """
        {
          "api_version": 3,
          "content_id": "content-1",
          "environment": "SANDBOX",
          "event_created_at": "2021-11-22T09:23:38.559Z",
          "event_created_at_ms": 1637573018559,
          "event_name": "ACTIVATE",
          "is_family_shared": false,
          "offer_type": "NONE",
          "original_purchased_at": "2021-11-22T09:23:36.000Z",
          "original_purchased_at_ms": 1637573016000,
          "plan": "lifetime",
          "product": "premium",
          "purchased_at": "2021-11-22T09:23:36.000Z",
          "purchased_at_ms": 1637573016000,
          "purchasely_one_time_purchase_id": "otp_lifetime0001",
          "store": "APPLE_APP_STORE",
          "store_app_bundle_id": "com.example.app",
          "store_country": "US",
          "store_original_transaction_id": "400000011112222",
          "store_product_id": "com.example.app.lifetime",
          "store_transaction_id": "400000011112222",
          "anonymous_user_id": "anon-1"
        }
        """

    /// The same page's DEACTIVATE of the anonymous holder: the transaction id of the one-time purchase above, an event
    /// time before purchased_at, a status that still says AUTO_RENEWING, a shorter original transaction id.
    static let transferDeactivate = transfer(name: "DEACTIVATE", holder: #""anonymous_user_id": "anon-2""#)

    /// And its ACTIVATE of the user: equal but for name and holder.
    static let transferActivate = transfer(name: "ACTIVATE", holder: #""user_id": "user-2""#)

    private static func transfer(name: String, holder: String) -> String {
        """
        {
          "plan": "premium_monthly",
          "store": "APPLE_APP_STORE",
          "product": "premium",
          \(holder),
          "event_name": "\(name)",
          "offer_type": "NONE",
          "api_version": 3,
          "environment": "SANDBOX",
          "purchased_at": "2021-11-07T17:44:17.000Z",
          "store_country": "FR",
          "next_renewal_at": "2021-11-07T17:47:17.000Z",
          "purchased_at_ms": 1636307057000,
          "event_created_at": "2021-11-07T17:43:35.225Z",
          "is_family_shared": false,
          "store_product_id": "com.example.app.monthly",
          "next_renewal_at_ms": 1636307237000,
          "event_created_at_ms": 1636307015225,
          "previous_offer_type": "NONE",
          "store_app_bundle_id": "com.example.app",
          "subscription_status": "AUTO_RENEWING",
          "store_transaction_id": "400000011112222",
          "original_purchased_at": "2021-11-07T17:41:18.000Z",
          "original_purchased_at_ms": 1636306878000,
          "effective_next_renewal_at": "2021-11-07T17:47:17.000Z",
          "purchasely_subscription_id": "subs_monthly0001",
          "effective_next_renewal_at_ms": 1636307237000,
          "store_original_transaction_id": "40000001111222"
        }
        """
    }

    /// The migration guide's ACTIVATE: keys in alphabetical order, with purchase_type and the paywall's names.
    static let migrationActivate = """
        {
          "ab_test_variant": "variant-b",
          "ab_test": "price-test",
          "api_version": 3,
          "content_id": "content-1",
          "effective_next_renewal_at_ms": 1649065399733,
          "effective_next_renewal_at": "2022-04-04T09:43:19.733Z",
          "environment": "SANDBOX",
          "event_created_at_ms": 1649064988442,
          "event_created_at": "2022-04-04T09:36:28.442Z",
          "event_name": "ACTIVATE",
          "is_family_shared": false,
          "next_renewal_at_ms": 1649065399733,
          "next_renewal_at": "2022-04-04T09:43:19.733Z",
          "offer_type": "NONE",
          "original_purchased_at_ms": 1649064982355,
          "original_purchased_at": "2022-04-04T09:36:22.355Z",
          "placement": "onboarding",
          "plan": "premium_monthly",
          "presentation": "paywall-1",
          "product": "premium",
          "purchase_type": "RENEWING_SUBSCRIPTION",
          "purchased_at_ms": 1649064982355,
          "purchased_at": "2022-04-04T09:36:22.355Z",
          "purchasely_subscription_id": "subs_migration01",
          "store_app_bundle_id": "com.example.app",
          "store_country": "FR",
          "store_original_transaction_id": "0000000000001111",
          "store_product_id": "com.example.app.monthly",
          "store_transaction_id": "0000000000002222",
          "store": "APPLE_APP_STORE",
          "subscription_status": "AUTO_RENEWING",
          "user_id": "user-3"
        }
        """

    /// Google: an order id with dots, an event_id, prices under keys that carry the currency; `store_country` null.
    static let googleActivate = google(
        name: "ACTIVATE", eventID: "0c1a2b3c-1111-4222-8333-444455556666", status: "AUTO_RENEWING",
        purchasedAt: 1_702_390_391_777)

    /// The same order, restated: another purchased_at.
    static let googleDeactivate = google(
        name: "DEACTIVATE", eventID: "0c1a2b3c-7777-4888-8999-aaaabbbbcccc", status: "UNPAID",
        purchasedAt: 1_702_390_691_777)

    private static func google(name: String, eventID: String, status: String, purchasedAt: Int64) -> String {
        """
        {"plan":"monthly","store":"GOOGLE_PLAY_STORE","product":"PREMIUM","user_id":"user-4","event_id":"\(eventID)",\
        "event_name":"\(name)","offer_type":"NONE","api_version":3,"device_type":"PHONE","environment":"SANDBOX",\
        "purchase_type":"RENEWING_SUBSCRIPTION","store_country":null,"event_created_at":"2023-12-12T14:19:26.120Z",\
        "is_family_shared":false,"store_product_id":"com.example.app.monthly","customer_currency":"EUR",\
        "plan_price_in_eur":9.99,"next_renewal_at_ms":1702390991777,"event_created_at_ms":1702390766120,\
        "previous_offer_type":"NONE","store_app_bundle_id":"com.example.app","subscription_status":"\(status)",\
        "store_transaction_id":"GPA.1234-5678-9012-34567..5","purchased_at_ms":\(purchasedAt),\
        "cumulated_revenues_in_eur":69.9,"effective_next_renewal_at":"2023-12-12T14:23:11.777Z",\
        "purchasely_subscription_id":"subs_google00001","effective_next_renewal_at_ms":1702390991777,\
        "store_original_transaction_id":"GPA.1234-5678-9012-34567","plan_price_in_customer_currency":9.99}
        """
    }

    /// gitbook v4's lifecycle events: the shape of `transfer` under another name.
    static let renewalDisabled = transfer(name: "RENEWAL_DISABLED", holder: #""user_id": "user-2""#)
    static let subscriptionRenewed = transfer(name: "SUBSCRIPTION_RENEWED", holder: #""user_id": "user-2""#)
    static let subscriptionStarted = transfer(name: "SUBSCRIPTION_STARTED", holder: #""user_id": "user-2""#)

    /// gitbook v4: about the old holder, naming the new one; the only sample of a native transfer.
    static let subscriptionTransferred = """
        {
          "plan": "premium_monthly",
          "store": "APPLE_APP_STORE",
          "product": "premium",
          "event_id": "5b7c2d10-aaaa-4bbb-8ccc-0123456789ab",
          "placement": "onboarding",
          "event_name": "SUBSCRIPTION_TRANSFERRED",
          "offer_type": "NONE",
          "api_version": 3,
          "environment": "SANDBOX",
          "presentation": "paywall-1",
          "purchased_at": "2022-08-24T09:59:24.000Z",
          "purchase_type": "RENEWING_SUBSCRIPTION",
          "store_country": "FR",
          "next_renewal_at": "2022-08-24T10:04:24.000Z",
          "purchased_at_ms": 1661335164000,
          "event_created_at": "2022-08-24T10:00:18.794Z",
          "is_family_shared": false,
          "store_product_id": "com.example.app.monthly",
          "anonymous_user_id": "9A1B2C3D-0000-4000-8000-000000000001",
          "customer_currency": "EUR",
          "plan_price_in_usd": 83.71,
          "next_renewal_at_ms": 1661335464000,
          "event_created_at_ms": 1661335218794,
          "previous_offer_type": "NONE",
          "store_app_bundle_id": "com.example.app",
          "subscription_status": "DEACTIVATED",
          "store_transaction_id": "2000000111112222",
          "original_purchased_at": "2021-10-13T15:09:25.000Z",
          "transferred_to_user_id": "user-5",
          "original_purchased_at_ms": 1634137765000,
          "effective_next_renewal_at": "2022-08-24T10:04:24.000Z",
          "purchasely_subscription_id": "subs_transfer001",
          "effective_next_renewal_at_ms": 1661335464000,
          "store_original_transaction_id": "1000000111113333",
          "plan_price_in_customer_currency": 83.99
        }
        """

    /// By name, so that a failing test says which.
    static let named = [
        "oneTimeActivate": oneTimeActivate, "transferDeactivate": transferDeactivate,
        "transferActivate": transferActivate, "migrationActivate": migrationActivate,
        "googleActivate": googleActivate, "googleDeactivate": googleDeactivate, "renewalDisabled": renewalDisabled,
        "subscriptionRenewed": subscriptionRenewed, "subscriptionStarted": subscriptionStarted,
        "subscriptionTransferred": subscriptionTransferred,
    ]
    static let names = named.keys.sorted()
}
