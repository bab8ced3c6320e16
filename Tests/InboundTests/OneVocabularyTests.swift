import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// The same purchase from three vendors reads the same. Oracle: posthouse-sources(7), "Vocabulary".
@Suite struct OneVocabularyTests {
    struct Case: Sendable, CustomStringConvertible {
        let type: String
        let purchasely: [(String, String?)]
        let revenueCat: (type: String, fields: [(String, String?)])
        let adapty: (type: String, fields: [(String, String?)])

        var description: String { type }
    }

    static let cases: [Case] = [
        Case(
            type: "SUBSCRIPTION_STARTED", purchasely: [("subscription_status", "\"AUTO_RENEWING\"")],
            revenueCat: ("INITIAL_PURCHASE", []), adapty: ("subscription_started", [])),
        Case(
            type: "TRIAL_STARTED", purchasely: [("offer_type", "\"FREE_TRIAL\"")],
            revenueCat: ("INITIAL_PURCHASE", [("period_type", "\"TRIAL\"")]), adapty: ("trial_started", [])),
        Case(
            type: "INTRO_OFFER_STARTED", purchasely: [("offer_type", "\"INTRO_OFFER\"")],
            revenueCat: ("INITIAL_PURCHASE", [("period_type", "\"INTRO\"")]),
            adapty: ("subscription_started", [("store_offer_category", "\"introductory\"")])),
        Case(
            type: "TRIAL_CONVERTED", purchasely: [], revenueCat: ("RENEWAL", [("is_trial_conversion", "true")]),
            adapty: ("trial_converted", [])),
        Case(
            type: "TRIAL_NOT_CONVERTED",
            purchasely: [("offer_type", "\"FREE_TRIAL\""), ("subscription_status", "\"DEACTIVATED\"")],
            revenueCat: ("EXPIRATION", [("period_type", "\"TRIAL\"")]), adapty: ("trial_expired", [])),
        Case(
            type: "SUBSCRIPTION_RENEWED", purchasely: [], revenueCat: ("RENEWAL", []),
            adapty: ("subscription_renewed", [])),
        Case(
            type: "RENEWAL_DISABLED", purchasely: [("subscription_status", "\"AUTO_RENEWING_CANCELED\"")],
            revenueCat: ("CANCELLATION", []), adapty: ("subscription_renewal_cancelled", [])),
        Case(
            type: "RENEWAL_ENABLED", purchasely: [], revenueCat: ("UNCANCELLATION", []),
            adapty: ("subscription_renewal_reactivated", [])),
        Case(
            type: "SUBSCRIPTION_TERMINATED", purchasely: [("subscription_status", "\"DEACTIVATED\"")],
            revenueCat: ("EXPIRATION", []), adapty: ("subscription_expired", [])),
        Case(
            type: "SUBSCRIPTION_REFUNDED_REVOKED",
            purchasely: [
                ("subscription_status", "\"REVOKED\""), ("effective_next_renewal_at_ms", "1731667536000"),
            ],
            revenueCat: (
                "CANCELLATION", [("cancel_reason", "\"CUSTOMER_SUPPORT\""), ("expiration_at_ms", "1731667536000")]
            ),
            adapty: (
                "subscription_refunded",
                [
                    ("subscription_expires_at", "\"2024-11-15T10:45:36.000000+0000\""),
                    ("profile_has_access_level", "false"),
                ]
            )),
        Case(
            type: "GRACE_PERIOD_STARTED", purchasely: [("subscription_status", "\"IN_GRACE_PERIOD\"")],
            revenueCat: ("BILLING_ISSUE", [("grace_period_expiration_at_ms", "1732272258594")]),
            adapty: ("entered_grace_period", [])),
        Case(
            type: "ENTERED_BILLING_RETRY", purchasely: [("subscription_status", "\"ON_HOLD\"")],
            revenueCat: ("BILLING_ISSUE", []), adapty: ("billing_issue_detected", [])),
        Case(
            type: "SUBSCRIPTION_PAUSED",
            purchasely: [
                ("subscription_status", "\"PAUSED\""), ("effective_next_renewal_at_ms", "1731667536000"),
            ],
            revenueCat: (
                "EXPIRATION",
                [("expiration_reason", "\"SUBSCRIPTION_PAUSED\""), ("expiration_at_ms", "1731667536000")]
            ),
            adapty: ("subscription_paused", [("subscription_expires_at", "\"2024-11-15T10:45:36.000000+0000\"")])),
        Case(
            type: "SUBSCRIPTION_DEFERRED", purchasely: [], revenueCat: ("SUBSCRIPTION_EXTENDED", []),
            adapty: ("subscription_deferred", [])),
    ]

    /// What the fixture of the third vendor states, in the first one's words.
    static func purchasely(_ example: Case) throws -> Event {
        let stated: [(String, String?)] = [
            ("event_name", "\"\(example.type)\""), ("event_created_at_ms", "1731667536181"), ("user_id", "\"user-1\""),
            ("environment", "\"PRODUCTION\""), ("store", "\"GOOGLE_PLAY_STORE\""), ("product", "\"weekly_499\""),
            ("plan", "\"b1\""), ("store_transaction_id", "\"GPA.1111-2222-3333-44444..1\""),
            ("store_original_transaction_id", "\"GPA.1111-2222-3333-44444\""), ("purchased_at_ms", "1731667530500"),
            ("effective_next_renewal_at_ms", "1732272258594"), ("offer_type", "\"NONE\""),
            ("subscription_status", "\"AUTO_RENEWING\""),
        ]
        return try event(body(stated + example.purchasely))
    }

    static func revenueCatEvent(_ example: Case) throws -> Event {
        let stated: [(String, String?)] = [
            ("event_timestamp_ms", "1731667536181"), ("store", "\"PLAY_STORE\""), ("product_id", "\"weekly_499:b1\""),
            ("transaction_id", "\"GPA.1111-2222-3333-44444..1\""),
            ("original_transaction_id", "\"GPA.1111-2222-3333-44444\""), ("purchased_at_ms", "1731667530500"),
            ("expiration_at_ms", "1732272258594"),
        ]
        return try revenueCat(example.revenueCat.type, stated + example.revenueCat.fields)
    }

    @Test(arguments: cases) func threeVendorsShowTheSame(_ example: Case) throws {
        let events = [
            try Self.purchasely(example), try Self.revenueCatEvent(example),
            try adapty(AdaptyFixtures.event(example.adapty.type, example.adapty.fields)),
        ]
        for event in events {
            #expect(event.type == example.type)
            #expect(event.scope.environment == "PRODUCTION")
            #expect(event.occurredAt == events[0].occurredAt)
            #expect(event.holder == .user("user-1"))
            #expect(event.purchase?.kind == .subscription)
            #expect(event.purchase?.store == "GOOGLE_PLAY_STORE")
            #expect(event.purchase?.product == "weekly_499")
            #expect(event.purchase?.plan == "b1")
            #expect(event.transaction == events[0].transaction)
        }
        // Of access the two without an event of its own name state the same; Adapty's end is before what has its time.
        let ahead: Int64 = AdaptyNames.ends.contains(example.adapty.type) ? 1 : 0
        let facts = events[2].ownFacts.map { fact in
            Fact(
                kind: fact.kind, holder: fact.holder, counterpart: fact.counterpart,
                at: fact.at.advanced(byMilliseconds: ahead), until: fact.until, isRevoked: fact.isRevoked,
                isFamilyShared: fact.isFamilyShared, endsAccessOnly: fact.endsAccessOnly)
        }
        #expect(events[1].ownFacts == facts)
    }

    @Test func everyTypeIsOneThatPurchaselyHasOrTheVendorsOwn() {
        let shared = Set(Purchasely().knownEventNames)
        let own = [
            "TEST", "TRANSFER", "PURCHASE_REDEEMED", "SUBSCRIBER_ALIAS", "TEMPORARY_ENTITLEMENT_GRANT",
            "VIRTUAL_CURRENCY_TRANSACTION", "access_level_updated",
        ]
        for name in RevenueCatNames.all {
            let type = RevenueCatNames.meaning(of: name, RevenueCatNames.Details()).type
            #expect(shared.contains(type) || own.contains(type))
        }
        for name in AdaptyNames.all {
            let type = AdaptyNames.meaning(of: name, offer: "NONE", isOver: true).type
            #expect(shared.contains(type) || own.contains(type))
        }
    }

    @Test(
        arguments: [
            ("app_store", "APPLE_APP_STORE"), ("iOS", "APPLE_APP_STORE"), ("APPLE_APP_STORE", "APPLE_APP_STORE"),
            ("Android", "GOOGLE_PLAY_STORE"), ("play_store", "GOOGLE_PLAY_STORE"),
            ("AMAZON_APP_STORE", "AMAZON_APPSTORE"),
            ("amazon", "AMAZON_APPSTORE"), ("HUAWEI_APP_GALLERY", "HUAWEI_APPGALLERY"), ("stripe", "STRIPE"),
            ("ünknown", "üNKNOWN"), ("", ""),
        ])
    func storesHaveOneSpelling(_ spelling: String, _ store: String) {
        #expect(SharedVocabulary.store(spelling) == store)
        #expect(SharedVocabulary.store(store) == store)
    }

    @Test(arguments: [
        ("Production", "PRODUCTION"), ("prod", "PRODUCTION"), ("sandbox", "SANDBOX"), ("Xcode", "XCODE"), ("", ""),
    ])
    func environmentsHaveOneSpelling(_ spelling: String, _ environment: String) {
        #expect(SharedVocabulary.environment(spelling) == environment)
    }
}
