import Testing
import Vocabulary

@testable import Inbound

/// Oracle: Qonversion's pages "Webhooks" and "User Identifiers", and posthouse-sources(7), "Vocabulary".
@Suite struct QonversionTests {
    static let source = QonversionFixtures.source()

    @Test func readsTheDocumentedSample() throws {
        let event = try event(QonversionFixtures.documented, from: Self.source)
        let at = Timestamp(milliseconds: 1_700_000_000_000)
        let until = Timestamp(milliseconds: 1_702_592_000_000)
        #expect(event.scope == Scope(source: "qonversion", app: "", environment: "PRODUCTION"))
        #expect(event.vendorEventID == nil)
        #expect(event.name == "trial_converted")
        #expect(event.type == "TRIAL_CONVERTED")
        #expect(event.holder == .anonymous("QON_install-1"))
        #expect(event.occurredAt == at)
        #expect(
            event.purchase
                == Purchase(
                    key: "9007199254740992", kind: .subscription, store: "APPLE_APP_STORE",
                    product: "com.example.app.trial", plan: nil, subscriptionID: nil))
        #expect(
            event.transaction
                == Transaction(
                    storeTransactionID: "9007199254740993", storeOriginalTransactionID: "9007199254740992",
                    purchasedAt: nil, effectiveNextRenewalAt: until, offerType: "NONE", status: "AUTO_RENEWING"))
        #expect(event.facts == [Fact(kind: .gain, holder: .anonymous("QON_install-1"), at: at, until: until)])
        #expect(event.links.isEmpty)
        #expect(event.change == nil)
        #expect(event.body == Array(QonversionFixtures.documented.utf8))
    }

    @Test func readsTheNewerFields() throws {
        let event = try event(QonversionFixtures.newer, from: QonversionFixtures.source(app: "mine"))
        #expect(event.scope == Scope(source: "qonversion", app: "mine", environment: "SANDBOX"))
        #expect(event.type == "SUBSCRIPTION_UPGRADED")
        #expect(event.purchase?.store == "GOOGLE_PLAY_STORE")
        #expect(event.purchase?.product == "yearly")
        #expect(event.purchase?.key == "GPA.1-2")
        #expect(event.transaction?.purchasedAt == Timestamp(milliseconds: 1_699_999_000_000))
        #expect(event.transaction?.effectiveNextRenewalAt == Timestamp(milliseconds: 1_731_536_000_000))
        #expect(event.links == [HolderLink(anonymousID: "QON_install-2", userID: "u-2")])
        #expect(event.facts.map(\.holder) == [.anonymous("QON_install-2"), .user("u-2")])
    }

    // MARK: Names

    struct Row: Sendable {
        let name: String
        let type: String
        let fact: Fact.Kind?
        let status: String?
        let offer: String
        var kind = Purchase.Kind.subscription
        var isRevoked = false
    }

    static let rows = [
        Row(name: "trial_started", type: "TRIAL_STARTED", fact: .gain, status: "AUTO_RENEWING", offer: "FREE_TRIAL"),
        Row(name: "trial_converted", type: "TRIAL_CONVERTED", fact: .gain, status: "AUTO_RENEWING", offer: "NONE"),
        Row(
            name: "trial_canceled", type: "RENEWAL_DISABLED", fact: nil, status: "AUTO_RENEWING_CANCELED",
            offer: "FREE_TRIAL"),
        Row(
            name: "trial_cancelled", type: "RENEWAL_DISABLED", fact: nil, status: "AUTO_RENEWING_CANCELED",
            offer: "FREE_TRIAL"),
        Row(
            name: "trial_expired", type: "TRIAL_NOT_CONVERTED", fact: .loss, status: "DEACTIVATED",
            offer: "FREE_TRIAL"),
        Row(
            name: "trial_still_active", type: "trial_still_active", fact: .gain, status: "AUTO_RENEWING",
            offer: "FREE_TRIAL"),
        Row(
            name: "trial_billing_retry_entered", type: "ENTERED_BILLING_RETRY", fact: nil, status: "ON_HOLD",
            offer: "FREE_TRIAL"),
        Row(
            name: "subscription_started", type: "SUBSCRIPTION_STARTED", fact: .gain, status: "AUTO_RENEWING",
            offer: "NONE"),
        Row(
            name: "subscription_renewed", type: "SUBSCRIPTION_RENEWED", fact: .gain, status: "AUTO_RENEWING",
            offer: "NONE"),
        Row(
            name: "subscription_canceled", type: "RENEWAL_DISABLED", fact: nil, status: "AUTO_RENEWING_CANCELED",
            offer: "NONE"),
        Row(
            name: "subscription_refunded", type: "SUBSCRIPTION_REFUNDED_REVOKED", fact: .loss, status: "REVOKED",
            offer: "NONE", isRevoked: true),
        Row(
            name: "subscription_expired", type: "SUBSCRIPTION_TERMINATED", fact: .loss, status: "DEACTIVATED",
            offer: "NONE"),
        Row(
            name: "subscription_upgraded", type: "SUBSCRIPTION_UPGRADED", fact: .gain, status: "AUTO_RENEWING",
            offer: "NONE"),
        Row(
            name: "subscription_downgraded", type: "SUBSCRIPTION_DOWNGRADED", fact: .gain, status: "AUTO_RENEWING",
            offer: "NONE"),
        Row(
            name: "subscription_product_changed", type: "SUBSCRIPTION_CROSSGRADED", fact: .gain,
            status: "AUTO_RENEWING", offer: "NONE"),
        Row(
            name: "subscription_billing_retry_entered", type: "ENTERED_BILLING_RETRY", fact: nil, status: "ON_HOLD",
            offer: "NONE"),
        Row(
            name: "in_app_purchase", type: "PURCHASE_VALIDATED", fact: .gain, status: nil, offer: "NONE", kind: .oneTime
        ),
        Row(
            name: "in_app_refunded", type: "DEACTIVATE", fact: .loss, status: "REVOKED", offer: "NONE", kind: .oneTime,
            isRevoked: true),
        Row(name: "refund_consumption", type: "refund_consumption", fact: nil, status: nil, offer: "NONE"),
        Row(name: "refund_declined", type: "refund_declined", fact: nil, status: nil, offer: "NONE"),
    ]

    @Test(arguments: rows) func everyDocumentedNameMeansWhatTheTableSays(_ row: Row) throws {
        let event = try event(QonversionFixtures.named(row.name), from: Self.source)
        #expect(event.name == row.name)
        #expect(event.type == row.type)
        #expect(event.facts.map(\.kind) == (row.fact.map { [$0] } ?? []))
        #expect(event.facts.allSatisfy { $0.isRevoked == row.isRevoked })
        #expect(event.transaction?.status == row.status)
        #expect(event.transaction?.offerType == row.offer)
        #expect(event.purchase?.kind == row.kind)
    }

    @Test func theTableIsTheCatalogue() {
        let names = SourceAdapters.adapter(for: .qonversion).knownEventNames
        #expect(names.count == Set(names).count)
        #expect(Set(names) == Set(Self.rows.map(\.name)))
    }

    @Test func namesOfThePagesAreFoundAndOthersPassedOn() throws {
        let display = try event(QonversionFixtures.named("In-App Refunded"), from: Self.source)
        #expect(display.name == "In-App Refunded")
        #expect(display.type == "DEACTIVATE")
        #expect(display.purchase?.kind == .oneTime)
        let unknown = try event(QonversionFixtures.named("Something Nëw"), from: Self.source)
        #expect(unknown.type == "Something Nëw")
        #expect(unknown.facts.isEmpty)
        #expect(unknown.purchase?.kind == .subscription)
    }

    @Test func renamedEventsKeepTheirMeaning() throws {
        let source = QonversionFixtures.source(renamed: ["af_trial": "trial_started", "ping": "trial_still_active"])
        let started = try event(QonversionFixtures.named("af_trial"), from: source)
        #expect(started.name == "af_trial")
        #expect(started.type == "TRIAL_STARTED")
        #expect(started.facts.map(\.kind) == [.gain])
        #expect(started.transaction?.offerType == "FREE_TRIAL")
        let active = try event(QonversionFixtures.named("ping"), from: source)
        #expect(active.name == "ping")
        #expect(active.type == "trial_still_active")
        let untouched = try event(QonversionFixtures.named("trial_expired"), from: source)
        #expect(untouched.type == "TRIAL_NOT_CONVERTED")
    }

    // MARK: Purchase and transaction

    @Test(arguments: [
        ("iOS", "APPLE_APP_STORE"), ("macOS", "APPLE_APP_STORE"), ("Android", "GOOGLE_PLAY_STORE"),
        ("android", "GOOGLE_PLAY_STORE"), ("stripe", "STRIPE"), ("Web", "WEB"), ("", ""),
    ])
    func thePlatformShowsTheStore(_ platform: String, _ store: String) throws {
        let body = BodyEdit.edit(QonversionFixtures.documented, [("platform", "\"\(platform)\"")])
        #expect(try event(body, from: Self.source).purchase?.store == store)
    }

    @Test func theKeyIsTheFirstTransaction() throws {
        let alone = BodyEdit.edit(
            QonversionFixtures.documented, in: "transaction", set: [("original_transaction_id", "\"\"")])
        #expect(try event(alone, from: Self.source).purchase?.key == "9007199254740993")
        let none = BodyEdit.edit(QonversionFixtures.documented, [("transaction", "null")])
        let event = try event(none, from: Self.source)
        #expect(event.purchase == nil && event.transaction == nil && event.facts.isEmpty)
    }

    @Test(
        arguments: [
            ("1702592000", "null", 1_702_592_000_000), ("1702592000", "1702692000", 1_702_692_000_000),
            ("1702592000", "1702492000", 1_702_592_000_000), ("1702592000000", "0", 1_702_592_000_000),
            ("0", "null", nil), ("\"\"", "\"\"", nil), ("null", "1702692000", 1_702_692_000_000),
            ("99999999999999999999", "null", nil), ("9223372036854775807", "null", 253_402_300_799_999),
        ] as [(String, String, Int64?)])
    func thePaidPeriodEndsWithItsGrace(_ expires: String, _ grace: String, _ until: Int64?) throws {
        let body = BodyEdit.edit(
            QonversionFixtures.documented, in: "transaction",
            set: [("expires", expires), ("grace_period_expires", grace)])
        let event = try event(body, from: Self.source)
        #expect(event.facts.first?.until?.milliseconds == until)
        #expect(event.transaction?.effectiveNextRenewalAt?.milliseconds == until)
    }

    /// Grace lasts until its end; an old date is none.
    @Test(arguments: [("null", "ON_HOLD"), ("1700000001", "IN_GRACE_PERIOD"), ("1700000000", "ON_HOLD")])
    func aBillingRetryIsInGraceWhileThereIsOne(_ grace: String, _ status: String) throws {
        let body = BodyEdit.edit(
            QonversionFixtures.named("subscription_billing_retry_entered"), in: "transaction",
            set: [("grace_period_expires", grace)])
        #expect(try event(body, from: Self.source).transaction?.status == status)
    }

    /// The documented sample is of second 1,700,000,000.
    @Test(arguments: [("1699913600", true), ("1699913601", false), ("1702592000", false), ("null", false)])
    func aRefundOfAPastPeriodEndsNothing(_ expires: String, _ isPast: Bool) throws {
        func refund(_ name: String) throws -> Event {
            try event(
                BodyEdit.edit(QonversionFixtures.named(name), in: "transaction", set: [("expires", expires)]),
                from: Self.source)
        }
        let subscription = try refund("subscription_refunded")
        #expect(subscription.facts.isEmpty == isPast && subscription.yieldsProduct == isPast)
        #expect(subscription.type == "SUBSCRIPTION_REFUNDED_REVOKED" && subscription.money?.isEmpty == false)
        // Of a one-time purchase there is no other period.
        let oneTime = try refund("in_app_refunded")
        #expect(!oneTime.facts.isEmpty && !oneTime.yieldsProduct)
    }

    @Test func aRequestForARefundWithoutAPaidPeriodIsOfAOneTimePurchase() throws {
        let body = BodyEdit.edit(
            QonversionFixtures.named("refund_declined"), in: "transaction", set: [("expires", "null")])
        #expect(try event(body, from: Self.source).purchase?.kind == .oneTime)
    }

    @Test(arguments: [("prod", "PRODUCTION"), ("sandbox", "SANDBOX"), ("", "PRODUCTION")])
    func environments(_ word: String, _ environment: String) throws {
        let body = BodyEdit.edit(QonversionFixtures.documented, [("environment", "\"\(word)\"")])
        #expect(try event(body, from: Self.source).scope.environment == environment)
    }
}
