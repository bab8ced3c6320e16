import Testing
import Vocabulary

@testable import Inbound

/// Oracle: Purchasely's samples and Domain.md, "Purchase key", field by field.
@Suite struct PurchaselyTests {
    // MARK: The published shapes

    @Test func readsEveryField() throws {
        let event = try event(PurchaselyFixtures.googleActivate)
        #expect(event.scope == Scope(source: "purchasely", app: "com.example.app", environment: "SANDBOX"))
        #expect(event.vendorEventID == "0c1a2b3c-1111-4222-8333-444455556666")
        #expect(event.name == "ACTIVATE")
        #expect(event.type == "ACTIVATE")
        #expect(event.holder == .user("user-4"))
        #expect(event.occurredAt == Timestamp(milliseconds: 1_702_390_766_120))
        #expect(
            event.purchase
                == Purchase(
                    key: "subs_google00001", kind: .subscription, store: "GOOGLE_PLAY_STORE", product: "PREMIUM",
                    plan: "monthly", subscriptionID: "subs_google00001"))
        #expect(
            event.transaction
                == Transaction(
                    storeTransactionID: "GPA.1234-5678-9012-34567..5",
                    storeOriginalTransactionID: "GPA.1234-5678-9012-34567",
                    purchasedAt: Timestamp(milliseconds: 1_702_390_391_777),
                    effectiveNextRenewalAt: Timestamp(milliseconds: 1_702_390_991_777), offerType: "NONE",
                    status: "AUTO_RENEWING"))
        #expect(
            event.facts.first
                == Fact(
                    kind: .gain, holder: .user("user-4"), at: Timestamp(milliseconds: 1_702_390_766_120),
                    until: Timestamp(milliseconds: 1_702_390_991_777), plan: "monthly"))
        #expect(event.body == Array(PurchaselyFixtures.googleActivate.utf8))
    }

    /// One transaction id, two purchases, three distinct events ("Anonymous user" page).
    @Test func theThreeSamplesAreTwoPurchasesAndThreeEvents() throws {
        let oneTime = try event(PurchaselyFixtures.oneTimeActivate)
        let loss = try event(PurchaselyFixtures.transferDeactivate)
        let gain = try event(PurchaselyFixtures.transferActivate)
        #expect(Set([oneTime, loss, gain].map { $0.transaction?.storeTransactionID }) == ["400000011112222"])
        #expect(oneTime.purchase?.key == "otp_lifetime0001")
        #expect(oneTime.purchase?.kind == .oneTime)
        #expect(oneTime.purchase?.subscriptionID == nil)
        #expect(
            oneTime.facts.first
                == Fact(kind: .gain, holder: .anonymous("anon-1"), at: oneTime.occurredAt, plan: "lifetime"))
        #expect(loss.purchase == gain.purchase)
        #expect(loss.purchase?.kind == .subscription)
        #expect(loss.occurredAt == gain.occurredAt)
        #expect(loss.holder == .anonymous("anon-2"))
        #expect(gain.holder == .user("user-2"))
        #expect(loss.facts.first?.kind == .loss)
        #expect(gain.facts.first?.kind == .gain)
        #expect([oneTime, loss, gain].allSatisfy { $0.vendorEventID == nil })
    }

    @Test func aNativeTransferNamesBothHolders() throws {
        let old = Holder.anonymous("9A1B2C3D-0000-4000-8000-000000000001")
        let event = try event(PurchaselyFixtures.subscriptionTransferred)
        #expect(event.holder == old)
        #expect(
            event.facts.first
                == Fact(
                    kind: .transferred, holder: old, counterpart: .user("user-5"),
                    at: Timestamp(milliseconds: 1_661_335_218_794),
                    until: Timestamp(milliseconds: 1_661_335_464_000)))
        // It says so of the old holder: the subscription runs for the new one.
        #expect(event.transaction?.status == "DEACTIVATED" && event.yieldsTransaction)
    }

    @Test(arguments: PurchaselyFixtures.names) func everyPublishedShapeIsRead(_ name: String) throws {
        let event = try event(try #require(PurchaselyFixtures.named[name]))
        #expect(event.purchase != nil)
        #expect(event.transaction != nil)
        #expect(
            (event.facts.first == nil) == !["ACTIVATE", "DEACTIVATE", "SUBSCRIPTION_TRANSFERRED"].contains(event.name))
    }

    // MARK: Names

    @Test func knowsEachNameOnce() {
        let names = SourceAdapters.adapter(for: .purchasely).knownEventNames
        // 2 of access, 13 of the lifecycle, 6 of billing, 5 of pauses, 4 of transfers, 12 of offers, 3 of money, 2 of
        // v2.
        #expect(names.count == 47)
        #expect(Set(names).count == names.count)
    }

    @Test(arguments: Purchasely().knownEventNames + ["SOMETHING_NEW", "ünknown name"])
    func everyNameIsPassedOnAndFewStateFacts(_ name: String) throws {
        let event = try event(body([("event_name", "\"\(name)\"")]))
        #expect(event.name == name)
        #expect(event.type == (name == "SUBSCRIPTION_EXPIRED" ? "SUBSCRIPTION_TERMINATED" : name))
        let kind: Fact.Kind? =
            switch name {
            case "ACTIVATE": .gain
            case "DEACTIVATE": .loss
            case "SUBSCRIPTION_TRANSFERRED", "ONE_TIME_PURCHASE_TRANSFERRED": .transferred
            case "SUBSCRIPTION_RECEIVED", "ONE_TIME_PURCHASE_RECEIVED": .received
            default: nil
            }
        #expect(event.facts.first?.kind == kind)
        #expect(event.purchase?.kind == (name.hasPrefix("ONE_TIME_PURCHASE_") ? .oneTime : .subscription))
    }

    /// The plan that ends may have been left for another one, which an ACTIVATE names.
    @Test(arguments: Purchasely().knownEventNames) func onlyTheEndOfAPlanYieldsTheProduct(_ name: String) throws {
        #expect(try event(body([("event_name", "\"\(name)\"")])).yieldsProduct == (name == "DEACTIVATE"))
    }

    /// The transaction may be the one by which the purchase goes on, with another plan or another holder.
    @Test(arguments: Purchasely().knownEventNames)
    func theEndOfAPlanOrOfAHolderYieldsTheTransactionUnlessItIsTakenBack(_ name: String) throws {
        let isTransfer = name.hasSuffix("_TRANSFERRED")
        for status in [nil, "\"AUTO_RENEWING\"", "\"DEACTIVATED\"", "\"REVOKED\""] {
            let event = try event(body([("event_name", "\"\(name)\""), ("subscription_status", status)]))
            #expect(event.yieldsTransaction == (isTransfer || name == "DEACTIVATE" && status != "\"REVOKED\""))
        }
    }

    // MARK: Purchase and transaction

    @Test func theKeyIsTheFirstIDThatIsThere() throws {
        let ids = [
            "purchasely_subscription_id", "purchasely_one_time_purchase_id", "store_original_transaction_id",
            "store_transaction_id",
        ]
        for first in ids.indices {
            var fields = ids[first...].map { ($0, String?.some("\"\($0)\"")) }
            // What comes before is absent, null, empty or of another type.
            fields += zip(ids[..<first], [nil, "null", "\"\""]).map { ($0, $1) }
            let purchase = try event(body(fields)).purchase
            #expect(purchase?.key == ids[first])
            #expect(purchase?.subscriptionID == (first == 0 ? ids[0] : nil))
            #expect(purchase?.kind == (first == 1 ? .oneTime : .subscription))
        }
        let none = try event(body(ids.map { ($0, nil) }))
        #expect(none.purchase == nil)
        #expect(none.transaction == nil)
        #expect(none.facts.first == nil)
    }

    @Test(
        arguments: [
            ("CONSUMABLE", .oneTime, .oneTime), ("NON_CONSUMABLE", .oneTime, .oneTime),
            ("RENEWING_SUBSCRIPTION", .subscription, .subscription),
            ("NON_RENEWING_SUBSCRIPTION", .subscription, .subscription), ("", .subscription, .oneTime),
            ("A_NEW_TYPE", .subscription, .oneTime),
        ] as [(String, Purchase.Kind, Purchase.Kind)])
    func thePurchaseTypeShowsTheKindElseTheIDs(
        _ type: String, _ withSubscription: Purchase.Kind, _ withOneTime: Purchase.Kind
    ) throws {
        let type = ("purchase_type", String?.some("\"\(type)\""))
        let otp = ("purchasely_one_time_purchase_id", String?.some("\"otp_1\""))
        #expect(try event(body([type])).purchase?.kind == withSubscription)
        #expect(try event(body([type, otp])).purchase?.kind == withSubscription)
        #expect(try event(body([type, otp, ("purchasely_subscription_id", nil)])).purchase?.kind == withOneTime)
    }

    @Test(arguments: [
        ("AMAZON_APP_STORE", "AMAZON_APPSTORE"), ("AMAZON_APPSTORE", "AMAZON_APPSTORE"),
        ("HUAWEI_APP_GALLERY", "HUAWEI_APPGALLERY"), ("HUAWEI_APPGALLERY", "HUAWEI_APPGALLERY"), ("STRIPE", "STRIPE"),
        ("", ""),
    ])
    func bothSpellingsOfAStoreAreOne(_ spelling: String, _ store: String) throws {
        #expect(try event(body([("store", "\"\(spelling)\"")])).purchase?.store == store)
    }

    @Test(arguments: [nil, "null", "7"]) func aStoreMayBeAbsent(_ raw: String?) throws {
        #expect(try event(body([("store", raw)])).purchase?.store == (raw == "7" ? "7" : ""))
    }

    @Test func withoutATransactionIDThereIsNoTransaction() throws {
        let event = try event(body([("store_transaction_id", nil)]))
        #expect(event.transaction == nil)
        #expect(event.purchase?.key == "subs_1")
        #expect(event.facts.first?.kind == .gain)
    }

    // MARK: Scope

    @Test func theSourcesAppReplacesTheBundleID() throws {
        let bundle = [("store_app_bundle_id", String?.some("\"com.example\""))]
        #expect(try event(body()).scope.app == "")
        #expect(try event(body(bundle)).scope.app == "com.example")
        #expect(try event(body(bundle), from: purchaselySource(app: "mine")).scope.app == "mine")
    }

    @Test func theBodysEnvironmentReplacesTheDefault() throws {
        let sandbox = [("environment", String?.some("\"SANDBOX\""))]
        #expect(try event(body()).scope.environment == "PRODUCTION")
        #expect(try event(body(), from: purchaselySource(defaultEnvironment: "TEST")).scope.environment == "TEST")
        #expect(try event(body(sandbox)).scope.environment == "SANDBOX")
        #expect(try event(body([("environment", "null")])).scope.environment == "PRODUCTION")
    }

    // MARK: Facts

    @Test(
        arguments: [
            (#""b""#, nil, .user("b")), (nil, #""c""#, .anonymous("c")), ("null", #""c""#, .anonymous("c")),
            ("7", "null", .user("7")), (nil, nil, nil), (#""b""#, #""c""#, nil), ("{}", nil, nil),
        ] as [(String?, String?, Holder?)])
    func readsTheOtherSideOfATransfer(_ user: String?, _ anonymous: String?, _ other: Holder?) throws {
        for (name, prefix) in [("TRANSFERRED", "transferred_to_"), ("RECEIVED", "transferred_from_")] {
            for purchase in ["SUBSCRIPTION_", "ONE_TIME_PURCHASE_"] {
                let fields = [
                    ("event_name", "\"\(purchase)\(name)\""), (prefix + "user_id", user),
                    (prefix + "anonymous_user_id", anonymous),
                    // The other direction's fields say nothing here.
                    (name == "RECEIVED" ? "transferred_to_user_id" : "transferred_from_user_id", "\"x\""),
                ]
                #expect(try event(body(fields)).facts.first?.counterpart == other)
            }
        }
    }

    /// A plan is what a gain begins and a loss ends; a native is about the purchase, whatever its plan.
    @Test func anAccessEventNamesItsPlan() throws {
        for name in ["ACTIVATE", "DEACTIVATE", "SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"] {
            let fields = [("event_name", String?.some("\"\(name)\"")), ("plan", "\"monthly\"")]
            let plan = try event(body(fields)).facts.first?.plan
            #expect(plan == (name.hasSuffix("ACTIVATE") ? "monthly" : nil))
        }
        #expect(try event(body()).facts.first?.plan == nil)
    }

    @Test func readsStatusAndFamilySharing() throws {
        let plain = try #require(try event(body()).facts.first)
        #expect(!plain.isRevoked && !plain.isFamilyShared && plain.until == nil)
        let revoked = [("subscription_status", String?.some("\"REVOKED\"")), ("is_family_shared", "true")]
        let fact = try #require(try event(body(revoked)).facts.first)
        #expect(fact.isRevoked && fact.isFamilyShared)
    }

    @Test(
        arguments: [
            ("1636307237000", nil, 1_636_307_237_000), ("1636307237000", "\"2000-01-01T00:00:00Z\"", 1_636_307_237_000),
            (nil, "\"2021-11-07T17:47:17.000Z\"", 1_636_307_237_000),
            ("null", "\"2021-11-07T17:47:17Z\"", 1_636_307_237_000),
            (nil, nil, nil), ("\"soon\"", "\"soon\"", nil), ("9999999999999999", nil, 253_402_300_799_999),
            ("99999999999999999999", nil, nil),
        ] as [(String?, String?, Int64?)])
    func thePaidPeriodEndsAtTheEffectiveRenewal(_ ms: String?, _ iso: String?, _ until: Int64?) throws {
        let fields = [
            ("effective_next_renewal_at_ms", ms), ("effective_next_renewal_at", iso),
            ("next_renewal_at_ms", "1600000000000"),
        ]
        let event = try event(body(fields))
        #expect(event.facts.first?.until?.milliseconds == until)
        #expect(event.transaction?.effectiveNextRenewalAt?.milliseconds == until)
    }
}
