import Testing
import Vocabulary

@testable import Inbound

/// Oracle: Adapty's pages "Webhook event types and fields" and "Event flows", and posthouse-sources(7), "Vocabulary".
@Suite struct AdaptyTests {
    static let occurredAt = Timestamp(milliseconds: 1_731_667_536_181)
    static let expiresAt = Timestamp(milliseconds: 1_732_272_258_594)

    @Test func readsEveryField() throws {
        let event = try adapty(AdaptyFixtures.subscriptionStarted)
        #expect(event.scope == Scope(source: "ad", app: "", environment: "PRODUCTION"))
        #expect(event.vendorEventID == "0a1b2c3d-0000-4000-8000-000000000003")
        #expect(event.name == "subscription_started")
        #expect(event.type == "SUBSCRIPTION_STARTED")
        #expect(event.holder == .user("user-1"))
        #expect(event.occurredAt == Self.occurredAt)
        #expect(
            event.purchase
                == Purchase(
                    key: "GPA.1111-2222-3333-44444", kind: .subscription, store: "GOOGLE_PLAY_STORE",
                    product: "weekly_499", plan: "b1", subscriptionID: nil))
        #expect(
            event.transaction
                == Transaction(
                    storeTransactionID: "GPA.1111-2222-3333-44444..1",
                    storeOriginalTransactionID: "GPA.1111-2222-3333-44444",
                    purchasedAt: Timestamp(milliseconds: 1_731_667_530_500), effectiveNextRenewalAt: Self.expiresAt,
                    offerType: "NONE", status: "AUTO_RENEWING"))
        #expect(
            event.facts == [
                Fact(kind: .gain, holder: .user("user-1"), at: Self.occurredAt, until: Self.expiresAt)
            ])
        #expect(event.change == nil)
        #expect(event.links == [HolderLink(anonymousID: "profile-1", userID: "user-1")])
        #expect(event.body == Array(AdaptyFixtures.subscriptionStarted.utf8))
    }

    @Test(arguments: AdaptyFixtures.published) func everyPublishedShapeIsRead(_ body: String) throws {
        let event = try adapty(body)
        #expect(event.purchase != nil && event.transaction != nil)
    }

    // MARK: Types and access

    static let rows: [(name: String, type: String, fact: Fact.Kind?, status: String?)] = [
        ("subscription_started", "SUBSCRIPTION_STARTED", .gain, "AUTO_RENEWING"),
        ("subscription_renewed", "SUBSCRIPTION_RENEWED", .gain, "AUTO_RENEWING"),
        ("subscription_renewal_cancelled", "RENEWAL_DISABLED", nil, "AUTO_RENEWING_CANCELED"),
        ("subscription_renewal_reactivated", "RENEWAL_ENABLED", .gain, "AUTO_RENEWING"),
        ("subscription_expired", "SUBSCRIPTION_TERMINATED", .loss, "DEACTIVATED"),
        // Its period has not ended yet; of one that has see below.
        ("subscription_paused", "SUBSCRIPTION_WILL_PAUSE", nil, nil),
        ("subscription_deferred", "SUBSCRIPTION_DEFERRED", .gain, "AUTO_RENEWING"),
        ("subscription_refunded", "SUBSCRIPTION_REFUNDED_REVOKED", .loss, "REVOKED"),
        ("non_subscription_purchase", "PURCHASE_VALIDATED", .gain, nil),
        ("non_subscription_purchase_refunded", "DEACTIVATE", .loss, "REVOKED"),
        ("trial_started", "TRIAL_STARTED", .gain, "AUTO_RENEWING"),
        ("trial_converted", "TRIAL_CONVERTED", .gain, "AUTO_RENEWING"),
        ("trial_renewal_cancelled", "RENEWAL_DISABLED", nil, "AUTO_RENEWING_CANCELED"),
        ("trial_renewal_reactivated", "RENEWAL_ENABLED", .gain, "AUTO_RENEWING"),
        ("trial_expired", "TRIAL_NOT_CONVERTED", .loss, "DEACTIVATED"),
        ("entered_grace_period", "GRACE_PERIOD_STARTED", .gain, "IN_GRACE_PERIOD"),
        ("billing_issue_detected", "ENTERED_BILLING_RETRY", nil, "ON_HOLD"),
        // Without a word on access it says nothing; with one see below.
        ("access_level_updated", "access_level_updated", nil, nil),
        ("something_new", "something_new", nil, nil),
    ]

    @Test(arguments: rows.indices) func everyTypeMeansWhatIsDocumented(_ index: Int) throws {
        let row = Self.rows[index]
        let event = try adapty(AdaptyFixtures.event(row.name, [("profile_has_access_level", nil)]))
        #expect(event.name == row.name)
        #expect(event.type == row.type)
        #expect(event.ownFacts.map(\.kind) == (row.fact.map { [$0] } ?? []))
        #expect(event.facts.allSatisfy { $0.isRevoked == (row.status == "REVOKED") && !$0.isFamilyShared })
        #expect(event.facts.allSatisfy { $0.until == Self.expiresAt })
        #expect(event.transaction?.status == row.status)
        #expect(event.purchase?.kind == (row.name.hasPrefix("non_subscription") ? .oneTime : .subscription))
    }

    /// Oracle: "Subscription Pause Flow": paid access remains for the rest of the period.
    @Test(
        arguments: [
            ("\"2024-11-15T10:45:36.181000+0000\"", true), ("\"2024-11-15T10:45:36.180000+0000\"", true), (nil, true),
            ("\"2024-11-15T10:45:36.182000+0000\"", false), ("\"2024-12-15T10:45:36.181000+0000\"", false),
        ] as [(String?, Bool)])
    func aPauseEndsNoAccessBeforeThePeriodEnds(_ end: String?, _ isOver: Bool) throws {
        let event = try adapty(AdaptyFixtures.event("subscription_paused", [("subscription_expires_at", end)]))
        #expect(event.type == (isOver ? "SUBSCRIPTION_PAUSED" : "SUBSCRIPTION_WILL_PAUSE"))
        #expect(event.ownFacts.map(\.kind) == (isOver ? [.loss] : []))
        #expect(event.transaction?.status == (isOver ? "PAUSED" : nil))
    }

    @Test(arguments: AdaptyNames.all) func aChangedRenewalAfterThePeriodYields(_ name: String) throws {
        let isOfRenewal = name.contains("_renewal_")
        let over = [("subscription_expires_at", String?.some("\"2024-11-15T10:45:36.181000+0000\""))]
        #expect(try adapty(AdaptyFixtures.event(name, over)).yieldsTransaction == isOfRenewal)
        #expect(try !adapty(AdaptyFixtures.event(name)).yieldsTransaction)
    }

    /// The page "Webhook event types and fields": a renewal that is switched on again with another product is still
    /// reported with the one before.
    @Test(arguments: AdaptyNames.all) func aChangedRenewalNamesTheProductBefore(_ name: String) throws {
        let event = try adapty(AdaptyFixtures.event(name, [("profile_has_access_level", nil)]))
        #expect(event.purchase?.product == "weekly_499")
        #expect(event.yieldsProduct == (name.contains("_renewal_") || name.hasSuffix("_expired")))
    }

    /// `profile_has_access_level`: "whether the profile has an active access level".
    @Test(arguments: [("true", true), ("false", false), (nil, false), ("null", false)] as [(String?, Bool)])
    func aRefundOfAPastPeriodEndsNothing(_ profileHas: String?, _ keepsAccess: Bool) throws {
        let fields = [("profile_has_access_level", profileHas)]
        let refund = try adapty(AdaptyFixtures.event("subscription_refunded", fields))
        #expect(refund.ownFacts.map(\.kind) == (keepsAccess ? [] : [.loss]) && refund.facts.isEmpty == keepsAccess)
        #expect(refund.type == "SUBSCRIPTION_REFUNDED_REVOKED" && refund.transaction?.status == "REVOKED")
        #expect(refund.yieldsProduct == keepsAccess)
        // Of a one-time purchase there is no other period.
        let oneTime = try adapty(AdaptyFixtures.event("non_subscription_purchase_refunded", fields))
        let lifetime = try adapty(AdaptyFixtures.event("subscription_refunded", fields + [("is_lifetime", "true")]))
        for refund in [oneTime, lifetime] {
            #expect(refund.ownFacts.map(\.kind) == [.loss] && !refund.yieldsProduct)
        }
    }

    /// Page "How profiles work": renewals go on under the profile that bought, also where another one has the access.
    @Test(arguments: rows.filter { $0.fact == .gain }.map(\.name))
    func whatGoesOnIsNotOfAProfileWithoutAccess(_ name: String) throws {
        for (has, gives) in [("true", true), (nil, true), ("null", true), ("false", false)] as [(String?, Bool)] {
            let event = try adapty(AdaptyFixtures.event(name, [("profile_has_access_level", has)]))
            #expect(event.ownFacts.map(\.kind) == (gives || name == "non_subscription_purchase" ? [.gain] : []))
            #expect(event.transaction != nil)
        }
        guard ["subscription_started", "trial_started"].contains(name) else { return }
        // A change of plan of the subscription that the profile has bought.
        for (original, gives) in [("t1", true), ("t0", false)] {
            let event = try adapty(
                AdaptyFixtures.event(
                    name,
                    [
                        ("profile_has_access_level", "false"), ("transaction_id", "\"t1\""),
                        ("original_transaction_id", "\"\(original)\""),
                    ]))
            #expect(event.ownFacts.map(\.kind) == (gives ? [.gain] : []))
        }
    }

    @Test func whatGoesOnIsOfThoseWhoShareIt() throws {
        let shared = try adapty(
            AdaptyFixtures.event(
                "subscription_renewed", [("profile_has_access_level", "false")],
                top: [("profiles_sharing_access_level", #"[{"profile_id":"p9","customer_user_id":"u9"}]"#)]))
        #expect(shared.facts.map(\.holder) == [.user("u9")] && shared.facts.allSatisfy(\.isFamilyShared))
        let lifetime = [("profile_has_access_level", String?.some("false")), ("is_lifetime", "true")]
        #expect(try adapty(AdaptyFixtures.event("subscription_renewed", lifetime)).ownFacts.map(\.kind) == [.gain])
    }

    @Test func theTableHoldsEveryKnownName() {
        let known = SourceAdapters.adapter(for: .adapty).knownEventNames
        #expect(known.count == 18)
        #expect(Set(known) == Set(Self.rows.map(\.name)).subtracting(["something_new"]))
    }

    @Test func aRenamedEventMeansWhatItDid() throws {
        let source = adaptySource(renamedEvents: ["churned": "subscription_expired"])
        let event = try adapty(AdaptyFixtures.event("churned"), from: source)
        #expect(event.name == "churned" && event.type == "SUBSCRIPTION_TERMINATED")
        #expect(event.ownFacts.map(\.kind) == [.loss])
    }

    @Test(
        arguments: [
            ("introductory", "free_trial", "FREE_TRIAL", "TRIAL_STARTED"),
            ("introductory", "pay_as_you_go", "INTRO_OFFER", "INTRO_OFFER_STARTED"),
            ("introductory", "pay_up_front", "INTRO_OFFER", "INTRO_OFFER_STARTED"),
            ("promotional", "free_trial", "PROMOTIONAL_OFFER", "PROMOTIONAL_OFFER_STARTED"),
            ("winback", "pay_up_front", "PROMOTIONAL_OFFER", "PROMOTIONAL_OFFER_STARTED"),
            ("win_back", "pay_up_front", "PROMOTIONAL_OFFER", "PROMOTIONAL_OFFER_STARTED"),
            ("retention", "pay_as_you_go", "PROMOTIONAL_OFFER", "PROMOTIONAL_OFFER_STARTED"),
            ("offer_code", "free_trial", "PROMO_CODE", "PROMO_CODE_STARTED"),
            ("", "", "NONE", "SUBSCRIPTION_STARTED"),
        ])
    func theOfferShowsWhatStarted(_ category: String, _ discount: String, _ offer: String, _ type: String) throws {
        let fields: [(String, String?)] = [
            ("store_offer_category", "\"\(category)\""), ("store_offer_discount_type", "\"\(discount)\""),
        ]
        let event = try adapty(AdaptyFixtures.event("subscription_started", fields))
        #expect(event.type == type)
        #expect(event.transaction?.offerType == offer)
    }

    @Test(arguments: [
        ("trial_started", "FREE_TRIAL"), ("trial_expired", "FREE_TRIAL"), ("trial_renewal_cancelled", "FREE_TRIAL"),
        ("trial_converted", "NONE"), ("subscription_renewed", "NONE"),
    ])
    func aTrialIsOneWithoutTheOffersFields(_ name: String, _ offer: String) throws {
        #expect(try adapty(AdaptyFixtures.event(name)).transaction?.offerType == offer)
    }

    // MARK: Purchase and transaction

    @Test(
        arguments: [
            ("\"t\"", "\"o\"", "o", "t"), ("\"t\"", nil, "t", "t"), (nil, "\"o\"", "o", nil), (nil, nil, nil, nil),
            ("\"\"", "null", nil, nil), ("7", "[]", "7", "7"),
        ] as [(String?, String?, String?, String?)])
    func theKeyIsTheFirstTransaction(
        _ transaction: String?, _ original: String?, _ key: String?, _ transactionID: String?
    ) throws {
        let fields = [("transaction_id", transaction), ("original_transaction_id", original)]
        let event = try adapty(AdaptyFixtures.event("subscription_renewed", fields))
        #expect(event.purchase?.key == key)
        #expect(event.transaction?.storeTransactionID == transactionID)
        #expect(event.facts.count == (key == nil ? 0 : 1), "a fact needs a purchase")
    }

    @Test(arguments: [
        ("app_store", "APPLE_APP_STORE"), ("play_store", "GOOGLE_PLAY_STORE"), ("stripe", "STRIPE"),
        ("paddle", "PADDLE"),
    ])
    func theStoreIsOfTheSharedVocabulary(_ store: String, _ shared: String) throws {
        let event = try adapty(AdaptyFixtures.event("subscription_renewed", [("store", "\"\(store)\"")]))
        #expect(event.purchase?.store == shared)
    }

    @Test func theSourceAndTheBodyShowTheScope() throws {
        func scope(_ raw: String?, from source: Source) throws -> Scope {
            try adapty(AdaptyFixtures.event("subscription_renewed", [("environment", raw)]), from: source).scope
        }
        #expect(try scope("\"Sandbox\"", from: adaptySource()).environment == "SANDBOX")
        #expect(try scope(nil, from: adaptySource(defaultEnvironment: "STAGING")).environment == "STAGING")
        #expect(try scope(nil, from: adaptySource(app: "mine")).app == "mine")
    }

    @Test func aLifetimeNeverEnds() throws {
        let event = try adapty(AdaptyFixtures.accessLevel([("is_active", "true"), ("is_lifetime", "true")]))
        #expect(event.purchase?.kind == .oneTime)
        #expect(event.facts.map(\.until) == [nil])
        #expect(event.transaction?.effectiveNextRenewalAt == nil)
    }
}
