import Testing
import Vocabulary

@testable import Inbound

/// Oracle: Apphud's pages "Webhook" and "Events", and posthouse-sources(7), "Vocabulary".
@Suite struct ApphudTests {
    static let source = ApphudFixtures.source

    @Test func readsThePublishedShape() throws {
        let event = try event(ApphudFixtures.started, from: Self.source)
        let at = Timestamp(milliseconds: 1_714_893_842_123)
        let until = Timestamp(milliseconds: 1_717_572_240_000)
        #expect(event.scope == Scope(source: "apphud", app: "com.example.android", environment: "SANDBOX"))
        #expect(event.vendorEventID == "a2472593-0000-4000-8000-000000000001")
        #expect(event.name == "subscription_started")
        #expect(event.type == "SUBSCRIPTION_STARTED")
        #expect(event.holder == .user("user-1"))
        #expect(event.occurredAt == at)
        #expect(
            event.purchase
                == Purchase(
                    key: ApphudFixtures.token, kind: .subscription, store: "GOOGLE_PLAY_STORE",
                    product: "com.example.monthly", plan: nil, subscriptionID: "line-1"))
        #expect(
            event.transaction
                == Transaction(
                    storeTransactionID: "GPA.1111-2222-3333-44444", storeOriginalTransactionID: ApphudFixtures.token,
                    purchasedAt: Timestamp(milliseconds: 1_714_893_840_000), effectiveNextRenewalAt: until,
                    offerType: "NONE", status: "AUTO_RENEWING"))
        #expect(event.facts == [Fact(kind: .gain, holder: .user("user-1"), at: at, until: until)])
        #expect(event.links.isEmpty && event.change == nil)
        #expect(event.body == Array(ApphudFixtures.started.utf8))
    }

    // MARK: Names

    struct Row: Sendable {
        let type: String
        var fact: Fact.Kind?
        var status: String? = "AUTO_RENEWING"
        var offer = "NONE"
    }

    static let rows: [String: Row] = [
        "trial_started": Row(type: "TRIAL_STARTED", fact: .gain, offer: "FREE_TRIAL"),
        "trial_active": Row(type: "trial_active", fact: .gain, offer: "FREE_TRIAL"),
        "trial_converted": Row(type: "TRIAL_CONVERTED", fact: .gain),
        "trial_canceled": Row(type: "RENEWAL_DISABLED", status: "AUTO_RENEWING_CANCELED", offer: "FREE_TRIAL"),
        "trial_expired": Row(type: "TRIAL_NOT_CONVERTED", fact: .loss, status: "DEACTIVATED", offer: "FREE_TRIAL"),
        "subscription_started": Row(type: "SUBSCRIPTION_STARTED", fact: .gain),
        "subscription_renewed": Row(type: "SUBSCRIPTION_RENEWED", fact: .gain),
        "subscription_canceled": Row(type: "RENEWAL_DISABLED", status: "AUTO_RENEWING_CANCELED"),
        "subscription_expired": Row(type: "SUBSCRIPTION_TERMINATED", fact: .loss, status: "DEACTIVATED"),
        "subscription_refunded": Row(type: "SUBSCRIPTION_REFUNDED_REVOKED", fact: .loss, status: "REVOKED"),
        "intro_started": Row(type: "INTRO_OFFER_STARTED", fact: .gain, offer: "INTRO_OFFER"),
        "intro_renewed": Row(type: "SUBSCRIPTION_RENEWED", fact: .gain, offer: "INTRO_OFFER"),
        "intro_converted": Row(type: "INTRO_OFFER_CONVERTED", fact: .gain),
        "intro_expired": Row(
            type: "INTRO_OFFER_NOT_CONVERTED", fact: .loss, status: "DEACTIVATED", offer: "INTRO_OFFER"),
        "intro_refunded": Row(
            type: "SUBSCRIPTION_REFUNDED_REVOKED", fact: .loss, status: "REVOKED", offer: "INTRO_OFFER"),
        "promo_started": Row(type: "PROMOTIONAL_OFFER_STARTED", fact: .gain, offer: "PROMOTIONAL_OFFER"),
        "promo_renewed": Row(type: "SUBSCRIPTION_RENEWED", fact: .gain, offer: "PROMOTIONAL_OFFER"),
        "promo_converted": Row(type: "PROMOTIONAL_OFFER_CONVERTED", fact: .gain),
        "promo_expired": Row(
            type: "PROMOTIONAL_OFFER_NOT_CONVERTED", fact: .loss, status: "DEACTIVATED", offer: "PROMOTIONAL_OFFER"),
        "promo_refunded": Row(
            type: "SUBSCRIPTION_REFUNDED_REVOKED", fact: .loss, status: "REVOKED", offer: "PROMOTIONAL_OFFER"),
        "autorenew_enabled": Row(type: "RENEWAL_ENABLED"),
        "autorenew_disabled": Row(type: "RENEWAL_DISABLED", status: "AUTO_RENEWING_CANCELED"),
        "billing_issue": Row(type: "ENTERED_BILLING_RETRY", status: "ON_HOLD"),
        "non_renewing_purchase": Row(type: "PURCHASE_VALIDATED", fact: .gain, status: nil),
        "non_renewing_purchase_refunded": Row(type: "DEACTIVATE", fact: .loss, status: "REVOKED"),
    ]
    static let notOfPurchases = [
        "paywall_shown", "paywall_closed", "paywall_checkout_initiated", "paywall_checkout_cancelled", "user_created",
    ]

    @Test(arguments: rows.keys.sorted()) func everyDocumentedNameMeansWhatTheTableSays(_ name: String) throws {
        let row = try #require(Self.rows[name])
        let isRefund = name.hasSuffix("_refunded")
        let body = ApphudFixtures.named(name)
        let event = try event(isRefund ? Self.line("refunded", of: body) : body, from: Self.source)
        #expect(event.name == name)
        #expect(event.type == row.type)
        #expect(event.facts.map(\.kind) == (row.fact.map { [$0] } ?? []))
        #expect(event.facts.allSatisfy { $0.isRevoked == name.hasSuffix("_refunded") })
        #expect(event.transaction?.status == row.status)
        #expect(event.transaction?.offerType == row.offer)
        #expect(event.purchase?.kind == (name.hasPrefix("non_renewing") ? .oneTime : .subscription))
    }

    private static func line(_ status: String, of body: String) -> String {
        body.replacing(#""status": "regular""#, with: #""status": "\#(status)""#)
    }

    /// The line says what is now: the refund is of an earlier period, if the customer has a paid one.
    @Test(
        arguments: [
            ("regular", false), ("trial", false), ("grace", false), ("refunded", true), ("expired", true), ("", true),
        ])
    func aRefundOfAPastPeriodEndsNothing(_ status: String, _ isLoss: Bool) throws {
        let body = Self.line(status, of: ApphudFixtures.named("subscription_refunded"))
        let stated = try event(body, from: Self.source)
        #expect(stated.facts.map(\.kind) == (isLoss ? [.loss] : []))
        #expect(stated.type == "SUBSCRIPTION_REFUNDED_REVOKED" && stated.transaction?.status == "REVOKED")
        #expect(stated.purchase?.product == "com.example.monthly" && stated.yieldsProduct == !isLoss)
        let over = body.replacing("2024-06-05T07:24:00.000Z", with: "2020-06-05T07:24:00.000Z")
        let ended = try event(over, from: Self.source)
        #expect(ended.facts.map(\.kind) == [.loss] && !ended.yieldsProduct)
        let oneTime = try event(
            Self.line(status, of: ApphudFixtures.named("non_renewing_purchase_refunded")), from: Self.source)
        #expect(oneTime.facts.map(\.kind) == [.loss] && !oneTime.yieldsProduct)
    }

    /// Before the app sets its user, the user is the device.
    @Test func aRefundIsAlsoOneOfTheUsersDevices() throws {
        let devices = """
            [{"device_id":"device-1"},{"device_id":"user-1"},{"device_id":"device-1"},{"device_id":2},{"id":"x"},7,\
            {"device_id":null},{"device_id":"\(String(repeating: "x", count: 1_025))"}]
            """
        func stated(_ name: String) throws -> [Fact] {
            let body = Self.line("refunded", of: ApphudFixtures.named(name))
            return try event(ApphudFixtures.user([("devices", devices)], of: body), from: Self.source).facts
        }
        for name in ["non_renewing_purchase_refunded", "subscription_refunded"] {
            let facts = try stated(name)
            #expect(facts.map(\.holder) == [.user("user-1"), .user("device-1"), .user("2")])
            #expect(facts.map(\.endsAccessOnly) == [false, true, true])
            #expect(facts.allSatisfy { $0.kind == .loss && $0.isRevoked })
        }
        for name in ["non_renewing_purchase", "subscription_renewed", "subscription_expired"] {
            #expect(try stated(name).map(\.holder) == [.user("user-1")])
        }
    }

    @Test func ofMoreDevicesThanAnyCustomerHasTheFirstCount() throws {
        let devices = (0..<(Limits.customerDevicesMax + 1)).map { #"{"device_id":"device-\#($0)"}"# }
        let body = ApphudFixtures.user(
            [("devices", "[" + devices.joined(separator: ",") + "]")],
            of: ApphudFixtures.named("non_renewing_purchase_refunded"))
        #expect(try event(body, from: Self.source).facts.count == 1 + Limits.customerDevicesMax)
    }

    /// Even where such an event names a product, or comes with a receipt, it bought nothing.
    @Test(arguments: notOfPurchases) func whatIsNotOfAPurchaseStatesNone(_ name: String) throws {
        let event = try event(ApphudFixtures.named(name), from: Self.source)
        #expect(event.type == name)
        #expect(event.purchase == nil && event.transaction == nil && event.facts.isEmpty)
        #expect(event.holder == .user("user-1"))
    }

    @Test func theTableIsTheCatalogue() {
        let names = SourceAdapters.adapter(for: .apphud).knownEventNames
        #expect(names.count == Set(names).count)
        #expect(Set(names) == Set(Self.rows.keys).union(Self.notOfPurchases))
    }

    @Test func anUnknownNameIsPassedOn() throws {
        let event = try event(ApphudFixtures.named("somethingNëw"), from: Self.source)
        #expect(event.type == "somethingNëw")
        #expect(event.purchase?.key == ApphudFixtures.token)
        #expect(event.facts.isEmpty)
    }

    // MARK: Purchase and line

    @Test func theKeyIsTheFirstTransactionElseThisOne() throws {
        let body = ApphudFixtures.receipt([("original_transaction_id", "null")])
        let event = try event(body, from: Self.source)
        #expect(event.purchase?.key == "GPA.1111-2222-3333-44444")
        #expect(event.purchase?.subscriptionID == nil, "no line has that first transaction")
        #expect(event.scope.environment == "PRODUCTION")
        #expect(event.facts.first?.until == nil)
    }

    /// An expiry that comes without a receipt would otherwise end nothing.
    @Test func withoutAReceiptTheOnlyLineOfTheProductIsMeant() throws {
        let bare = ApphudFixtures.event([("receipt", nil), ("name", "\"subscription_expired\"")])
        #expect(try event(bare, from: Self.source).purchase == nil, "two lines of that product: a guess")
        let line = """
            [{"id":"line-9","original_transaction_id":"900","product_id":"com.example.monthly",\
            "environment":"sandbox","store":"app_store","expires_at":"2024-05-05T07:00:00Z"},\
            {"original_transaction_id":"901","product_id":"com.example.other"}]
            """
        let one = ApphudFixtures.user([("subscriptions", line)], of: ApphudFixtures.event([("store", nil)], of: bare))
        let event = try event(one, from: Self.source)
        #expect(
            event.purchase
                == Purchase(
                    key: "900", kind: .subscription, store: "APPLE_APP_STORE", product: "com.example.monthly",
                    plan: nil,
                    subscriptionID: "line-9"))
        #expect(event.scope.environment == "SANDBOX")
        #expect(event.facts.map(\.kind) == [.loss])
        #expect(event.transaction == nil)
        let unknown = ApphudFixtures.event([("name", "\"something\"")], of: one)
        #expect(try Self.key(unknown) == nil, "of a name that is not known, a product says nothing")
    }

    private static func purchase(_ environments: [String?], of source: Source) throws -> Event {
        let lines = environments.enumerated().map { index, environment in
            let member = environment.map { #","environment":"\#($0)""# } ?? ""
            return #"{"original_transaction_id":"line-\#(index)"\#(member)}"#
        }
        let body = ApphudFixtures.user(
            [("subscriptions", "[" + lines.joined(separator: ",") + "]")],
            of: ApphudFixtures.named("non_renewing_purchase"))
        return try event(body, from: source)
    }

    /// A line of its own is what a one-time purchase never has.
    @Test func withoutALineTheEnvironmentIsTheOneThatAllLinesAgreeOn() throws {
        let silent = ApphudFixtures.source(defaultEnvironment: nil)
        for source in [Self.source, silent] {
            for lines in [["sandbox"], ["sandbox", "SANDBOX", nil]] {
                let event = try Self.purchase(lines, of: source)
                #expect(event.scope.environment == "SANDBOX" && event.facts.map(\.kind) == [.gain])
            }
        }
    }

    @Test(arguments: [[], [nil], ["sandbox", "production"]] as [[String?]])
    func whereNothingSaysItTheConfigurationDoesOrThereIsNoAccess(_ lines: [String?]) throws {
        let silent = try Self.purchase(lines, of: ApphudFixtures.source(defaultEnvironment: nil))
        #expect(silent.facts.isEmpty && silent.purchase != nil && silent.type == "PURCHASE_VALIDATED")
        for environment in ["PRODUCTION", "SANDBOX"] {
            let event = try Self.purchase(lines, of: ApphudFixtures.source(defaultEnvironment: environment))
            #expect(event.scope.environment == environment && event.facts.map(\.kind) == [.gain])
        }
    }

    private static func key(_ body: String) throws -> String? { try event(body, from: source).purchase?.key }

    @Test(
        arguments: [
            ("\"play_store\"", nil, "com.example.android"), ("\"app_store\"", nil, "com.example.ios"),
            (nil, nil, "com.example.android"), ("\"stripe\"", nil, "com.example.ios"),
            ("\"play_store\"", "mine", "mine"),
        ] as [(String?, String?, String)])
    func theStoreShowsTheApp(_ store: String?, _ own: String?, _ app: String) throws {
        // Without a store of its own, the line's counts.
        let body = ApphudFixtures.event([("store", store)])
        #expect(try event(body, from: ApphudFixtures.source(app: own)).scope.app == app)
    }

    @Test func anAppWithOneNameHasThatOne() throws {
        let body = BodyEdit.edit(ApphudFixtures.started, in: "app", set: [("package_name", "null")])
        #expect(try event(body, from: Self.source).scope.app == "com.example.ios")
        let none = BodyEdit.edit(ApphudFixtures.started, [("app", nil)])
        #expect(try event(none, from: Self.source).scope.app == "")
    }

    @Test(arguments: [
        ("true", "false", "FREE_TRIAL"), ("false", "true", "INTRO_OFFER"), ("true", "true", "FREE_TRIAL"),
        ("null", "null", "NONE"),
    ])
    func theReceiptShowsTheOfferWhereTheNameDoesNot(_ trial: String, _ intro: String, _ offer: String) throws {
        let flags: BodyEdit.Fields = [("trial_period", trial), ("intro_period", intro)]
        #expect(try event(ApphudFixtures.receipt(flags), from: Self.source).transaction?.offerType == offer)
        let converted = ApphudFixtures.receipt(flags, of: ApphudFixtures.named("trial_converted"))
        #expect(try event(converted, from: Self.source).transaction?.offerType == "NONE")
    }

    @Test func aBillingIssueOfALineInGraceIsItsStart() throws {
        let line = #"[{"original_transaction_id":"\#(ApphudFixtures.token)","status":"grace"}]"#
        let body = ApphudFixtures.user([("subscriptions", line)], of: ApphudFixtures.named("billing_issue"))
        let event = try event(body, from: Self.source)
        #expect(event.type == "GRACE_PERIOD_STARTED")
        #expect(event.transaction?.status == "IN_GRACE_PERIOD")
        #expect(event.facts.isEmpty)
    }

    /// Access goes on in grace, of which Apphud states no end: 28 days are the longest with Apple, 30 with Google. With
    /// Apple it may begin before the paid end.
    @Test(
        arguments: [
            ("billing_issue", "app_store", "grace", "2024-05-05T07:24:02.123Z", "2024-06-02T07:24:02.123Z"),
            ("billing_issue", "play_store", "grace", "2024-05-05T07:24:02.123Z", "2024-06-04T07:24:02.123Z"),
            ("autorenew_disabled", "app_store", "grace", "2024-05-05T07:00:00.000Z", "2024-06-02T07:00:00.000Z"),
            ("billing_issue", "app_store", "grace", "2024-05-05T07:24:02.124Z", "2024-06-02T07:24:02.124Z"),
            ("billing_issue", "play_store", "grace", "2024-05-05T07:24:02.124Z", "2024-05-05T07:24:02.124Z"),
            ("billing_issue", "app_store", "regular", "2024-05-05T07:00:00.000Z", "2024-05-05T07:00:00.000Z"),
            ("subscription_expired", "app_store", "grace", "2024-05-05T07:00:00.000Z", "2024-05-05T07:00:00.000Z"),
        ])
    func aLineInGraceLastsBehindItsPaidEnd(
        _ name: String, _ store: String, _ status: String, _ paid: String, _ end: String
    ) throws {
        let body = ApphudFixtures.event([("name", "\"\(name)\""), ("store", "\"\(store)\"")])
            .replacing("2024-06-05T07:24:00.000Z", with: paid)
        let event = try event(Self.line(status, of: body), from: Self.source)
        #expect(event.transaction?.effectiveNextRenewalAt?.iso8601 == end)
        #expect(event.facts.map(\.until?.iso8601) == (name == "subscription_expired" ? [end] : []))
    }

    @Test func familySharingIsOfTheEvent() throws {
        let body = BodyEdit.edit(
            ApphudFixtures.started, in: "event", "properties", set: [("family_shared", "true")])
        #expect(try event(body, from: Self.source).facts.map(\.isFamilyShared) == [true])
    }
}
