import Testing
import Vocabulary

@testable import Inbound

/// Oracle: RevenueCat's pages "Event types and fields" and "Sample events", and posthouse-sources(7), "Vocabulary".
@Suite struct RevenueCatTests {
    static let occurredAt = Timestamp(milliseconds: 1_658_726_378_679)
    static let expiresAt = Timestamp(milliseconds: 1_659_331_174_000)

    @Test func readsEveryField() throws {
        let event = try revenueCat(RevenueCatFixtures.initialPurchase)
        #expect(event.scope == Scope(source: "rc", app: "app0123456789", environment: "PRODUCTION"))
        #expect(event.vendorEventID == "0a1b2c3d-0000-4000-8000-000000000001")
        #expect(event.name == "INITIAL_PURCHASE")
        #expect(event.type == "SUBSCRIPTION_STARTED")
        #expect(event.holder == .user("user-1"))
        #expect(event.occurredAt == Self.occurredAt)
        #expect(
            event.purchase
                == Purchase(
                    key: "400000000000001", kind: .subscription, store: "APPLE_APP_STORE",
                    product: "com.example.weekly", plan: nil, subscriptionID: nil))
        #expect(
            event.transaction
                == Transaction(
                    storeTransactionID: "400000000000002", storeOriginalTransactionID: "400000000000001",
                    purchasedAt: Timestamp(milliseconds: 1_658_726_374_000), effectiveNextRenewalAt: Self.expiresAt,
                    offerType: "NONE", status: "AUTO_RENEWING"))
        #expect(
            event.facts == [
                Fact(kind: .gain, holder: .user("user-1"), at: Self.occurredAt, until: Self.expiresAt)
            ])
        #expect(event.change == nil)
        #expect(
            event.links == [
                HolderLink(anonymousID: RevenueCatFixtures.otherAnonymous, userID: "user-1"),
                HolderLink(anonymousID: RevenueCatFixtures.anonymous, userID: "user-1"),
            ])
        #expect(event.body == Array(RevenueCatFixtures.initialPurchase.utf8))
    }

    @Test(arguments: RevenueCatFixtures.published) func everyPublishedShapeIsRead(_ body: String) throws {
        let event = try revenueCat(body)
        let isOfCustomers = ["TRANSFER", "PURCHASE_REDEEMED"].contains(event.name)
        #expect((event.purchase == nil) == isOfCustomers)
        #expect((event.change != nil) == isOfCustomers)
    }

    /// Oracle: the pages "Event flows" and "Event types and fields": BILLING_ISSUE alone has the end of a grace period.
    @Test(
        arguments: [
            ("CANCELLATION", "\"BILLING_ERROR\"", true, true), ("CANCELLATION", "\"UNSUBSCRIBE\"", false, true),
            ("CANCELLATION", "\"CUSTOMER_SUPPORT\"", false, false), ("CANCELLATION", nil, false, true),
            ("UNCANCELLATION", nil, false, true), ("PRODUCT_CHANGE", nil, false, true),
            ("SUBSCRIPTION_PAUSED", nil, false, true), ("RENEWAL", nil, false, false),
            ("EXPIRATION", "\"BILLING_ERROR\"", false, false), ("BILLING_ISSUE", "\"BILLING_ERROR\"", false, false),
            ("SUBSCRIPTION_EXTENDED", nil, false, false),
        ] as [(String, String?, Bool, Bool)])
    func whatLacksTheGracePeriodYields(
        _ type: String, _ reason: String?, _ yields: Bool, _ yieldsAfterThePeriod: Bool
    ) throws {
        let event = try revenueCat(type, [("cancel_reason", reason)])
        #expect(event.yieldsTransaction == yields)
        #expect(event.transaction?.effectiveNextRenewalAt == Self.expiresAt)
        let over = String(Self.occurredAt.milliseconds)
        let later = try revenueCat(type, [("cancel_reason", reason), ("expiration_at_ms", over)])
        #expect(later.yieldsTransaction == yieldsAfterThePeriod)
    }

    // MARK: Types and access

    struct Row: Sendable, CustomStringConvertible {
        let type: String
        let fields: [(String, String?)]
        let means: String
        let fact: Fact.Kind?
        let status: String?

        init(
            _ type: String, _ fields: [(String, String?)], _ means: String, _ fact: Fact.Kind?, _ status: String?
        ) {
            self.type = type
            self.fields = fields
            self.means = means
            self.fact = fact
            self.status = status
        }

        init(_ type: String, _ means: String, _ fact: Fact.Kind?, _ status: String?) {
            self.init(type, [], means, fact, status)
        }

        var description: String { "\(type) \(fields.map { "\($0)=\($1 ?? "-")" })" }
    }

    static let rows: [Row] = [
        Row("INITIAL_PURCHASE", "SUBSCRIPTION_STARTED", .gain, "AUTO_RENEWING"),
        Row("INITIAL_PURCHASE", [("period_type", "\"TRIAL\"")], "TRIAL_STARTED", .gain, "AUTO_RENEWING"),
        Row("INITIAL_PURCHASE", [("period_type", "\"INTRO\"")], "INTRO_OFFER_STARTED", .gain, "AUTO_RENEWING"),
        Row("INITIAL_PURCHASE", [("period_type", "\"PREPAID\"")], "SUBSCRIPTION_STARTED", .gain, nil),
        Row(
            "INITIAL_PURCHASE", [("period_type", "\"PROMOTIONAL\"")], "PROMOTIONAL_OFFER_STARTED", .gain,
            "AUTO_RENEWING"),
        Row("RENEWAL", "SUBSCRIPTION_RENEWED", .gain, "AUTO_RENEWING"),
        Row("RENEWAL", [("is_trial_conversion", "true")], "TRIAL_CONVERTED", .gain, "AUTO_RENEWING"),
        Row("CANCELLATION", "RENEWAL_DISABLED", nil, "AUTO_RENEWING_CANCELED"),
        Row(
            "CANCELLATION", [("cancel_reason", "\"UNSUBSCRIBE\"")], "RENEWAL_DISABLED", nil, "AUTO_RENEWING_CANCELED"),
        Row(
            "CANCELLATION", [("cancel_reason", "\"BILLING_ERROR\"")], "RENEWAL_DISABLED", nil,
            "AUTO_RENEWING_CANCELED"),
        Row(
            "CANCELLATION", [("cancel_reason", "\"CUSTOMER_SUPPORT\""), ("expiration_at_ms", "1658726378679")],
            "SUBSCRIPTION_REFUNDED_REVOKED", .loss, "REVOKED"),
        // Its period lasts: it was refunded without being cancelled.
        Row(
            "CANCELLATION", [("cancel_reason", "\"CUSTOMER_SUPPORT\""), ("expiration_at_ms", "1658726378680")],
            "SUBSCRIPTION_REFUNDED_REVOKED", nil, nil),
        Row("UNCANCELLATION", "RENEWAL_ENABLED", .gain, "AUTO_RENEWING"),
        Row("NON_RENEWING_PURCHASE", "PURCHASE_VALIDATED", .gain, nil),
        Row("SUBSCRIPTION_PAUSED", "SUBSCRIPTION_WILL_PAUSE", nil, nil),
        Row("EXPIRATION", "SUBSCRIPTION_TERMINATED", .loss, "DEACTIVATED"),
        Row("EXPIRATION", [("period_type", "\"TRIAL\"")], "TRIAL_NOT_CONVERTED", .loss, "DEACTIVATED"),
        Row("EXPIRATION", [("expiration_reason", "\"SUBSCRIPTION_PAUSED\"")], "SUBSCRIPTION_PAUSED", .loss, "PAUSED"),
        Row(
            "EXPIRATION", [("expiration_reason", "\"CUSTOMER_SUPPORT\"")], "SUBSCRIPTION_TERMINATED", .loss,
            "REVOKED"),
        Row("BILLING_ISSUE", "ENTERED_BILLING_RETRY", nil, "ON_HOLD"),
        Row(
            "BILLING_ISSUE", [("grace_period_expiration_at_ms", "1659931174000")], "GRACE_PERIOD_STARTED", .gain,
            "IN_GRACE_PERIOD"),
        Row("BILLING_ISSUE", [("grace_period_expiration_at_ms", "null")], "ENTERED_BILLING_RETRY", nil, "ON_HOLD"),
        Row("PRODUCT_CHANGE", "SUBSCRIPTION_CROSSGRADED", nil, nil),
        Row("SUBSCRIPTION_EXTENDED", "SUBSCRIPTION_DEFERRED", .gain, "AUTO_RENEWING"),
        Row("REFUND_REVERSED", "SUBSCRIPTION_REACTIVATED", .gain, "AUTO_RENEWING"),
        Row(
            "REFUND_REVERSED", [("expiration_at_ms", "1658726378680")], "SUBSCRIPTION_REACTIVATED", .gain,
            "AUTO_RENEWING"),
        // Its period is over: nothing is given back but the money.
        Row("REFUND_REVERSED", [("expiration_at_ms", "1658726378679")], "SUBSCRIPTION_REACTIVATED", nil, nil),
        Row("REFUND_REVERSED", [("expiration_at_ms", "null")], "PURCHASE_VALIDATED", .gain, nil),
        Row(
            "CANCELLATION", [("cancel_reason", "\"CUSTOMER_SUPPORT\""), ("expiration_at_ms", nil)], "DEACTIVATE", .loss,
            "REVOKED"),
        // A one-time purchase has no EXPIRATION, whatever the reason.
        Row(
            "CANCELLATION", [("cancel_reason", "\"UNKNOWN\""), ("expiration_at_ms", "null")], "DEACTIVATE", .loss,
            "REVOKED"),
        Row(
            "CANCELLATION", [("cancel_reason", "\"DEVELOPER_INITIATED\""), ("expiration_at_ms", nil)], "DEACTIVATE",
            .loss, "REVOKED"),
        Row("CANCELLATION", [("cancel_reason", nil), ("expiration_at_ms", nil)], "DEACTIVATE", .loss, "REVOKED"),
        // A subscription's, the end of which cannot be read.
        Row(
            "CANCELLATION", [("cancel_reason", "\"UNSUBSCRIBE\""), ("expiration_at_ms", "\"soon\"")],
            "RENEWAL_DISABLED", nil, "AUTO_RENEWING_CANCELED"),
        Row("TEMPORARY_ENTITLEMENT_GRANT", "TEMPORARY_ENTITLEMENT_GRANT", nil, nil),
        Row("SUBSCRIBER_ALIAS", "SUBSCRIBER_ALIAS", nil, nil),
        Row("VIRTUAL_CURRENCY_TRANSACTION", "VIRTUAL_CURRENCY_TRANSACTION", nil, nil),
        Row("TEST", "TEST", nil, nil),
        Row("EXPERIMENT_ENROLLMENT", "EXPERIMENT_ENROLLMENT", nil, nil),
    ]

    @Test(arguments: rows) func everyTypeMeansWhatIsDocumented(_ row: Row) throws {
        let event = try revenueCat(row.type, row.fields)
        #expect(event.name == row.type)
        #expect(event.type == row.means)
        // A loss is also one of the customer's anonymous ids.
        let own = event.ownFacts
        #expect(own.map(\.kind) == (row.fact.map { [$0] } ?? []))
        #expect(event.transaction?.status == row.status)
        #expect(event.facts.allSatisfy { $0.isRevoked == (row.status == "REVOKED") })
        #expect(own.allSatisfy { $0.holder == event.holder && $0.at == event.occurredAt })
    }

    @Test func theTableHoldsEveryKnownName() {
        let known = SourceAdapters.adapter(for: .revenuecat).knownEventNames
        #expect(Set(known).count == known.count && known.count == 17)
        #expect(Set(known).subtracting(Self.rows.map(\.type)) == ["TRANSFER", "PURCHASE_REDEEMED"])
    }

    // MARK: Purchase and transaction

    /// Oracle: the page "Virtual Currency Events": it names neither the first transaction of a purchase nor a period.
    @Test func virtualCurrencyIsOfNoPurchase() throws {
        let event = try revenueCat(RevenueCatFixtures.virtualCurrency)
        #expect(event.type == "VIRTUAL_CURRENCY_TRANSACTION" && event.holder == .user("user-1"))
        #expect(event.scope.environment == "SANDBOX")
        #expect(event.purchase == nil && event.transaction == nil)
        #expect(event.facts.isEmpty && event.money == nil)
    }

    /// Oracle: RevenueCat's sample of the type: it names a product and an end, and neither a transaction nor an
    /// environment.
    @Test func aTemporaryGrantIsOfNoPurchase() throws {
        let absent = [
            "transaction_id", "original_transaction_id", "environment", "original_app_user_id", "aliases",
            "period_type", "currency", "price", "price_in_purchased_currency", "is_family_share",
        ]
        let event = try revenueCat("TEMPORARY_ENTITLEMENT_GRANT", absent.map { ($0, nil) })
        #expect(event.type == "TEMPORARY_ENTITLEMENT_GRANT" && event.holder == .user("user-1"))
        #expect(event.scope.environment == "PRODUCTION", "that of the source")
        #expect(event.purchase == nil && event.transaction == nil && event.facts.isEmpty)
        // The current page says that it names a transaction, perhaps another than the purchase's.
        let named = try revenueCat("TEMPORARY_ENTITLEMENT_GRANT", [("original_transaction_id", nil)])
        #expect(named.purchase == nil && named.transaction == nil && named.facts.isEmpty)
    }

    /// Oracle: the page "Common Webhook Flows": PRODUCT_CHANGE is sent with the renewal that names the new product, or
    /// before it.
    @Test(arguments: RevenueCat().knownEventNames) func aChangeOfProductNamesTheOneBefore(_ type: String) throws {
        #expect(try revenueCat(type, []).yieldsProduct == (type == "PRODUCT_CHANGE"))
        let change = try revenueCat("PRODUCT_CHANGE", [("new_product_id", "\"com.example.yearly\"")])
        #expect(change.purchase?.product == "com.example.weekly")
    }

    @Test(
        arguments: [
            ("\"t\"", "\"o\"", "o", "t"), ("\"t\"", "null", "t", "t"), ("\"t\"", nil, "t", "t"),
            ("\"t\"", "\"\"", "t", "t"), (nil, "\"o\"", "o", nil), ("null", "null", nil, nil),
            ("9007199254740993", nil, "9007199254740993", "9007199254740993"), ("{}", "[]", nil, nil),
        ] as [(String?, String?, String?, String?)])
    func theKeyIsTheFirstTransaction(
        _ transaction: String?, _ original: String?, _ key: String?, _ transactionID: String?
    ) throws {
        let event = try revenueCat(
            "RENEWAL", [("transaction_id", transaction), ("original_transaction_id", original)])
        #expect(event.purchase?.key == key)
        #expect(event.transaction?.storeTransactionID == transactionID)
        #expect(event.facts.count == (key == nil ? 0 : 1), "a fact needs a purchase")
    }

    @Test(
        arguments: RevenueCat().knownEventNames.filter {
            !["TRANSFER", "PURCHASE_REDEEMED", "VIRTUAL_CURRENCY_TRANSACTION", "TEMPORARY_ENTITLEMENT_GRANT"].contains(
                $0)
        })
    func whatNeverEndsIsAOneTimePurchase(_ type: String) throws {
        let mayBeOneTime = ["NON_RENEWING_PURCHASE", "CANCELLATION", "REFUND_REVERSED"].contains(type)
        let without = try revenueCat(type, [("expiration_at_ms", "null")])
        #expect(without.purchase?.kind == (mayBeOneTime ? .oneTime : .subscription))
        #expect(without.facts.allSatisfy { $0.until == nil })
        #expect(try revenueCat(type, []).purchase?.kind == .subscription)
    }

    @Test(
        arguments: [
            ("APP_STORE", "APPLE_APP_STORE"), ("MAC_APP_STORE", "APPLE_APP_STORE"), ("PLAY_STORE", "GOOGLE_PLAY_STORE"),
            ("AMAZON", "AMAZON_APPSTORE"), ("STRIPE", "STRIPE"), ("PROMOTIONAL", "PROMOTIONAL"),
            ("RC_BILLING", "RC_BILLING"), ("roku", "ROKU"),
        ])
    func theStoreIsOfTheSharedVocabulary(_ store: String, _ shared: String) throws {
        #expect(try revenueCat("RENEWAL", [("store", "\"\(store)\"")]).purchase?.store == shared)
    }

    @Test(
        arguments: [
            ("PLAY_STORE", "premium:monthly-base", "premium", "monthly-base"),
            ("PLAY_STORE", "premium", "premium", nil),
            ("PLAY_STORE", "premium:", "premium:", nil), ("PLAY_STORE", ":monthly", ":monthly", nil),
            ("PLAY_STORE", "a:b:c", "a", "b:c"), ("APP_STORE", "premium:monthly", "premium:monthly", nil),
        ] as [(String, String, String, String?)])
    func aGoogleProductHoldsItsBasePlan(_ store: String, _ id: String, _ product: String, _ plan: String?) throws {
        let purchase = try revenueCat("RENEWAL", [("store", "\"\(store)\""), ("product_id", "\"\(id)\"")]).purchase
        #expect(purchase?.product == product)
        #expect(purchase?.plan == plan)
    }

    @Test(
        arguments: [
            ("TRIAL", "FREE_TRIAL"), ("INTRO", "INTRO_OFFER"), ("PROMOTIONAL", "PROMOTIONAL_OFFER"), ("NORMAL", "NONE"),
            ("PREPAID", "NONE"), ("WINBACK", "WINBACK"), ("", nil),
        ] as [(String, String?)])
    func thePeriodShowsTheOffer(_ period: String, _ offer: String?) throws {
        #expect(try revenueCat("RENEWAL", [("period_type", "\"\(period)\"")]).transaction?.offerType == offer)
    }

    @Test(
        arguments: [
            ("1000", "2000", 2000), ("2000", "1000", 2000), ("1000", nil, 1000), ("null", "2000", 2000),
            (nil, nil, nil), ("\"soon\"", "1000", 1000), ("9999999999999999", nil, 253_402_300_799_999),
        ] as [(String?, String?, Int64?)])
    func thePeriodEndsWithItsGrace(_ expires: String?, _ grace: String?, _ end: Int64?) throws {
        let event = try revenueCat(
            "RENEWAL", [("expiration_at_ms", expires), ("grace_period_expiration_at_ms", grace)])
        #expect(event.facts.first?.until?.milliseconds == end)
        #expect(event.transaction?.effectiveNextRenewalAt?.milliseconds == end)
    }

    @Test func readsFamilySharing() throws {
        #expect(try revenueCat("RENEWAL", [("is_family_share", "true")]).facts.first?.isFamilyShared == true)
        #expect(try revenueCat("RENEWAL", [("is_family_share", nil)]).facts.first?.isFamilyShared == false)
    }

    // MARK: Scope

    @Test func theSourceAndTheBodyShowTheScope() throws {
        #expect(try revenueCat("RENEWAL", [("app_id", nil)]).scope.app == "")
        #expect(try revenueCat("RENEWAL", [], from: revenueCatSource(app: "mine")).scope.app == "mine")
        #expect(try revenueCat("RENEWAL", [("environment", "\"sandbox\"")]).scope.environment == "SANDBOX")
        let both = try revenueCat("RENEWAL", [("purchase_environment", "\"SANDBOX\"")])
        #expect(both.scope.environment == "PRODUCTION")
        let source = revenueCatSource(defaultEnvironment: "STAGING")
        #expect(try revenueCat("RENEWAL", [("environment", "null")], from: source).scope.environment == "STAGING")
        #expect(try revenueCat("TRANSFER", [("environment", "\"Sandbox\"")]).scope.environment == "SANDBOX")
    }
}
