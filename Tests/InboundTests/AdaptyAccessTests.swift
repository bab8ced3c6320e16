import Testing
import Vocabulary

@testable import Inbound

/// Profiles, the access level event, shared access and the envelope. Oracle: Adapty's page "Event flows", "Sharing
/// Purchases Across User Accounts Flows", and Domain.md, "Readable envelope".
@Suite struct AdaptyAccessTests {
    // MARK: The access level event

    @Test(
        arguments: [
            ("true", "true", .gain), ("true", nil, .gain), (nil, "true", .gain), ("false", nil, .loss),
            (nil, "false", .loss), ("false", "true", .loss), ("true", "false", .loss), (nil, nil, nil),
            ("null", "\"yes\"", nil), ("1", "true", .gain),
        ] as [(String?, String?, Fact.Kind?)])
    func saysWhoHasAccess(_ isActive: String?, _ profileHas: String?, _ kind: Fact.Kind?) throws {
        let event = try adapty(
            AdaptyFixtures.accessLevel([("is_active", isActive), ("profile_has_access_level", profileHas)]))
        #expect(event.type == "access_level_updated")
        #expect(event.ownFacts.map(\.kind) == (kind.map { [$0] } ?? []))
    }

    @Test(
        arguments: [
            ([("is_active", "true"), ("will_renew", "true")], "AUTO_RENEWING", "NONE"),
            ([("is_active", "true"), ("will_renew", "false")], "AUTO_RENEWING_CANCELED", "NONE"),
            ([("is_active", "true")], nil, "NONE"),
            (
                [("is_active", "true"), ("is_in_grace_period", "true"), ("will_renew", "true")], "IN_GRACE_PERIOD",
                "NONE"
            ),
            ([("is_active", "false"), ("will_renew", "true")], "DEACTIVATED", "NONE"),
            ([("is_active", "false"), ("is_refund", "true")], "REVOKED", "NONE"),
            ([("is_active", "true"), ("active_introductory_offer_type", "\"free_trial\"")], nil, "FREE_TRIAL"),
            ([("is_active", "true"), ("active_introductory_offer_type", "\"pay_up_front\"")], nil, "INTRO_OFFER"),
            ([("is_active", "true"), ("active_promotional_offer_type", "\"free_trial\"")], nil, "PROMOTIONAL_OFFER"),
        ] as [([(String, String?)], String?, String)])
    func saysItsStatusAndOffer(_ fields: [(String, String?)], _ status: String?, _ offer: String) throws {
        let event = try adapty(AdaptyFixtures.accessLevel(fields))
        #expect(event.transaction?.status == status)
        #expect(event.transaction?.offerType == offer)
        #expect(event.ownFacts.map(\.isRevoked) == [status == "REVOKED"])
    }

    @Test func endsWithTheLaterOfPeriodAndAccess() throws {
        let later = [("expires_at", String?.some("\"2024-12-01T00:00:00+0000\"")), ("is_active", "true")]
        let event = try adapty(AdaptyFixtures.accessLevel(later))
        #expect(event.facts.map(\.until) == [Timestamp(iso8601: "2024-12-01T00:00:00Z")])
        let earlier = [("expires_at", String?.some("\"2024-11-16T00:00:00+0000\"")), ("is_active", "true")]
        #expect(try adapty(AdaptyFixtures.accessLevel(earlier)).facts.map(\.until) == [AdaptyTests.expiresAt])
    }

    /// "Transfer Access to New User Flow": nothing but these two events states it.
    @Test func twoOfThemPassAPurchaseOn() throws {
        let loss = try adapty(AdaptyFixtures.accessLevel([("profile_has_access_level", "false")]))
        let gain = try adapty(
            AdaptyFixtures.accessLevel(
                [("profile_has_access_level", "true")],
                top: [
                    ("profile_id", "\"profile-9\""), ("customer_user_id", "\"user-9\""),
                    ("event_datetime", "\"2024-11-15T11:00:00.000000+0000\""),
                ]))
        #expect(loss.purchase == gain.purchase)
        #expect(loss.ownFacts.map(\.kind) == [.loss] && loss.ownFacts.map(\.holder) == [.user("user-1")])
        #expect(gain.facts.map(\.kind) == [.gain] && gain.facts.map(\.holder) == [.user("user-9")])
    }

    /// "Immediate Product Change Flow": Apple keeps the original transaction, so the purchase goes on, and the event of
    /// its end has the product before the change.
    @Test(
        arguments: [
            ("app_store", "upgraded", false), ("app_store", "new_subscription_replace", false),
            ("app_store", "refund", true), ("play_store", "upgraded", true), ("app_store", "billing_error", true),
        ])
    func anUpgradeIsNoLossWhereThePurchaseGoesOn(_ store: String, _ reason: String, _ isLoss: Bool) throws {
        let fields: [(String, String?)] = [
            ("store", "\"\(store)\""), ("cancellation_reason", "\"\(reason)\""), ("profile_has_access_level", nil),
        ]
        for name in ["subscription_refunded", "subscription_expired"] {
            let end = try adapty(AdaptyFixtures.event(name, fields))
            #expect(end.ownFacts.map(\.kind) == (isLoss ? [.loss] : []) && end.facts.isEmpty == !isLoss)
            #expect(end.purchase?.product == "weekly_499")
            #expect(end.yieldsProduct == (!isLoss || name == "subscription_expired"))
        }
        let access = try adapty(AdaptyFixtures.accessLevel(fields + [("is_active", "false")]))
        #expect(access.facts.isEmpty == !isLoss && access.yieldsProduct == !isLoss)
        let renewal = try adapty(AdaptyFixtures.event("subscription_renewed", fields))
        #expect(renewal.facts.count == 1 && !renewal.yieldsProduct)
    }

    /// "Delayed Product Change Flow": the end of the old plan and the begin of the new one may have one time.
    @Test(arguments: ["subscription_expired", "trial_expired"])
    func whatBeginsComesAfterWhatEnds(_ name: String) throws {
        let (end, begin) = (
            try adapty(AdaptyFixtures.event(name)), try adapty(AdaptyFixtures.event("subscription_started"))
        )
        #expect(end.occurredAt == begin.occurredAt && end.purchase?.key == begin.purchase?.key)
        #expect(end.facts.allSatisfy { $0.at == begin.facts[0].at.advanced(byMilliseconds: -1) } && !end.facts.isEmpty)
        #expect(end.yieldsProduct && !begin.yieldsProduct)
    }

    // MARK: Profiles

    @Test(
        arguments: [
            ("\"u\"", "\"p\"", .user("u"), [HolderLink(anonymousID: "p", userID: "u")]),
            (nil, "\"p\"", .anonymous("p"), []), ("null", "\"p\"", .anonymous("p"), []),
            ("\"\"", "\"p\"", .anonymous("p"), []), ("\"u\"", nil, .user("u"), []), ("\"u\"", "{}", .user("u"), []),
            ("42", "null", .user("42"), []),
        ] as [(String?, String?, Holder, [HolderLink])])
    func theUserElseTheProfile(
        _ user: String?, _ profile: String?, _ holder: Holder, _ links: [HolderLink]
    ) throws {
        let members = [("customer_user_id", user), ("profile_id", profile)]
        let event = try adapty(AdaptyFixtures.event("trial_started", top: members))
        #expect(event.holder == holder)
        #expect(event.links == links)
        #expect(event.facts.map(\.holder) == [holder])
    }

    @Test(arguments: [("subscription_renewed", Fact.Kind.gain), ("subscription_expired", .loss)])
    func whoSharesAccessHasTheSameFact(_ name: String, _ kind: Fact.Kind) throws {
        let shared = [("profiles_sharing_access_level", String?.some(AdaptyFixtures.sharing))]
        let bodies = [
            AdaptyFixtures.event(name, top: shared), AdaptyFixtures.event(name, shared, top: [(shared[0].0, "[]")]),
        ]
        for body in bodies {
            let event = try adapty(body)
            #expect(event.ownFacts.map(\.kind) == [kind, kind, kind])
            #expect(event.ownFacts.map(\.holder) == [.user("user-1"), .user("user-2"), .anonymous("profile-3")])
            #expect(event.ownFacts.map(\.isFamilyShared) == [true, true, true])
            #expect(Set(event.facts.map(\.until)) == [AdaptyTests.expiresAt])
            let aliases = event.facts.filter(\.endsAccessOnly)
            #expect(
                aliases.map(\.holder) == (kind == .loss ? [.anonymous("profile-1"), .anonymous("profile-2")] : []))
            #expect(aliases.allSatisfy { $0.kind == .loss && !$0.isFamilyShared })
            #expect(
                event.links == [
                    HolderLink(anonymousID: "profile-1", userID: "user-1"),
                    HolderLink(anonymousID: "profile-2", userID: "user-2"),
                ])
        }
    }

    /// The purchase may have been the profile's before the app set its user.
    @Test func aRefundIsAlsoOneOfTheUsersProfile() throws {
        let members: [(String, String?)] = [("customer_user_id", "\"u\""), ("profile_id", "\"p\"")]
        let refund = try adapty(AdaptyFixtures.event("non_subscription_purchase_refunded", top: members))
        #expect(refund.facts.map(\.holder) == [.user("u"), .anonymous("p")])
        #expect(refund.facts.map(\.endsAccessOnly) == [false, true])
        #expect(refund.facts.allSatisfy { $0.kind == .loss && $0.isRevoked && !$0.isFamilyShared })
        let anonymous = [("customer_user_id", String?.none), members[1]]
        let alone = try adapty(AdaptyFixtures.event("non_subscription_purchase_refunded", top: anonymous))
        #expect(alone.facts.map(\.holder) == [.anonymous("p")] && !alone.facts[0].endsAccessOnly)
        let purchase = try adapty(AdaptyFixtures.event("non_subscription_purchase", top: members))
        #expect(purchase.facts.map(\.holder) == [.user("u")])
    }

    /// A profile that is a holder itself, or is named twice, loses it once.
    @Test func whoLosesItLosesItOnce() throws {
        let sharing =
            #"[{"profile_id":"p","customer_user_id":"user-2"},{"profile_id":"q"},"#
            + #"{"profile_id":"q","customer_user_id":"user-2"},{"profile_id":"p","customer_user_id":"user-1"}]"#
        let loss = try adapty(
            AdaptyFixtures.event("subscription_expired", top: [("profiles_sharing_access_level", sharing)]))
        #expect(loss.ownFacts.map(\.holder) == [.user("user-1"), .user("user-2"), .anonymous("q")])
        #expect(
            loss.facts.filter(\.endsAccessOnly).map(\.holder) == [.anonymous("profile-1"), .anonymous("p")])
    }

    @Test func whoSharesIsNamedOnce() throws {
        let sharing =
            #"[{"profile_id":"x","customer_user_id":"user-1"},{"profile_id":"y"},{"profile_id":"y"},{},7,"#
            + #"{"profile_id":{}}]"#
        let event = try adapty(
            AdaptyFixtures.event("subscription_renewed", top: [("profiles_sharing_access_level", sharing)]))
        #expect(event.facts.map(\.holder) == [.user("user-1"), .anonymous("y")])
    }

    // MARK: The envelope

    static func reason(_ body: String) -> String? {
        do {
            _ = try adapty(body)
            return nil
        } catch {
            return (error as? Unreadable)?.reason
        }
    }

    @Test(
        arguments: [
            ("event_type", nil, "event_type is missing"), ("event_type", "7", "event_type cannot be read: "),
            ("event_datetime", nil, "event_datetime is missing"),
            ("event_datetime", "1731667536", "event_datetime cannot be read: "),
            ("event_datetime", "\"yesterday\"", "event_datetime is not an ISO 8601 time with an offset"),
            ("event_datetime", "\"0000-01-01T00:00:00+0100\"", "event_datetime lies outside the years 0000 to 9999"),
            ("customer_user_id", "{}", "customer_user_id cannot be read: "),
            ("customer_user_id", "\"\(String(repeating: "x", count: 1_025))\"", "customer_user_id is longer than"),
        ] as [(String, String?, String)])
    func saysWhatIsUnreadable(_ key: String, _ raw: String?, _ reason: String) {
        let said = Self.reason(AdaptyFixtures.event("trial_started", top: [(key, raw)].filter { $0.0 != "event_type" }))
        let named = Self.reason(AdaptyFixtures.event("x", top: [(key, raw)]))
        #expect((key == "event_type" ? named : said)?.hasPrefix(reason) == true, "\(said ?? named ?? "read")")
    }

    @Test func withoutAnyProfileItIsQuarantined() {
        let body = AdaptyFixtures.event("x", top: [("customer_user_id", "null"), ("profile_id", nil)])
        #expect(Self.reason(body) == "neither customer_user_id nor profile_id is there")
    }

    @Test(
        arguments: [
            ("2024-01-31T10:11:12.123456+0000", "2024-01-31T10:11:12.123Z"),
            ("2024-01-31T10:11:12.123456+0530", "2024-01-31T04:41:12.123Z"),
            ("2024-01-31T10:11:12-0800", "2024-01-31T18:11:12.000Z"),
            ("2024-01-31T10:11:12.5+00", "2024-01-31T10:11:12.500Z"),
            ("2024-01-31T10:11:12.5Z", "2024-01-31T10:11:12.500Z"),
            ("2024-01-31T10:11:12+01:00", "2024-01-31T09:11:12.000Z"),
            ("2024-01-31T10:11:12", nil), ("2024-01-31", nil), ("2024-01-31T10:11:12+0", nil),
            ("2024-01-31T10:11:12+00000", nil), ("2024-01-31T10:11:12+2400", nil), ("2024-01-31T10:11:12+00é", nil),
            ("2024-02-30T10:11:12+0000", nil), ("+", nil), ("-", nil), ("+0000", nil), ("", nil),
        ] as [(String, String?)])
    func readsTheVendorsTimes(_ text: String, _ time: String?) {
        #expect(AdaptyNames.time(text)?.iso8601 == time)
    }

    /// Nothing outside the envelope costs the event, whatever type it has.
    @Test(arguments: [
        "profile_event_id", "environment", "store", "vendor_product_id", "base_plan_id", "transaction_id",
        "original_transaction_id", "purchase_date", "subscription_expires_at", "store_offer_category",
        "profiles_sharing_access_level", "is_lifetime",
    ])
    func aWrongTypeOutsideTheEnvelopeCountsAsAbsent(_ key: String) throws {
        let absent = try adapty(AdaptyFixtures.event("subscription_renewed", [(key, nil)]))
        for raw in ["null", "{}", "[1.5]", "1.5", "\"\""] {
            let event = try adapty(AdaptyFixtures.event("subscription_renewed", [(key, raw)]))
            #expect(event.scope == absent.scope && event.vendorEventID == absent.vendorEventID)
            #expect(event.purchase == absent.purchase && event.transaction == absent.transaction)
            #expect(event.facts == absent.facts && event.links == absent.links)
        }
    }

    @Test(arguments: [nil, "null", "7", "[]"]) func itsPropertiesMayBeAbsent(_ raw: String?) throws {
        let event = try adapty(AdaptyFixtures.event("subscription_renewed", top: [("event_properties", raw)]))
        #expect(event.type == "SUBSCRIPTION_RENEWED" && event.purchase == nil && event.facts.isEmpty)
        #expect(event.scope.environment == "PRODUCTION" && event.vendorEventID == nil)
    }

    /// Every mutated body gives an event or a reason, never a crash.
    @Test(arguments: 1...4 as ClosedRange<UInt64>) func endsOnAnyMutation(_ seed: UInt64) {
        var mutations = Mutations(of: AdaptyFixtures.published, seed: seed)
        var read = 0
        for _ in 0..<2_500 {
            let bytes = mutations.next()
            _ = Adapty().handshake(bytes)
            do throws(Unreadable) {
                let event = try Adapty().normalise(bytes, header: { _ in nil }, from: adaptySource())
                read += 1
                #expect(event.body == bytes)
                #expect(!event.name.isEmpty && event.holder?.id.isEmpty == false)
                #expect(Timestamp.writable.contains(event.occurredAt))
                #expect(event.purchase != nil || event.facts.isEmpty)
            } catch {
                #expect(!error.reason.isEmpty && !error.reason.contains("example.com"))
            }
        }
        #expect(read > 50, "the mutations hardly leave anything readable")
    }
}
