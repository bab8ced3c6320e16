import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// Oracle: Apple's pages notificationType, subtype, JWSTransactionDecodedPayload and JWSRenewalInfoDecodedPayload, and
/// posthouse-sources(7), "Vocabulary"; the rows are written out by hand.
@Suite("Apple's notifications")
struct AppleTests {
    @Test("Every member of a notification is read")
    func members() throws {
        let decoded = AppleFixtures.notification("DID_RENEW")
        let body = try AppleFixtures.seal(decoded)
        let event = try Apple().normalise(body, header: { _ in nil }, from: appleSource())
        #expect(event.scope == Scope(source: "apple", app: "com.example.one", environment: "PRODUCTION"))
        #expect(event.vendorEventID == AppleFixtures.notificationUUID)
        #expect(event.name == "DID_RENEW" && event.type == "SUBSCRIPTION_RENEWED")
        #expect(event.holder == .user(AppleFixtures.token))
        #expect(event.occurredAt == AppleFixtures.signedAt && event.isTimeRepeated)
        #expect(
            event.purchase
                == Purchase(
                    key: "3000000000000001", kind: .subscription, store: "APPLE_APP_STORE", product: "one.monthly",
                    plan: nil, subscriptionID: nil))
        #expect(
            event.transaction
                == Transaction(
                    storeTransactionID: "3000000000000002", storeOriginalTransactionID: "3000000000000001",
                    purchasedAt: Timestamp(milliseconds: 1_700_000_000_000),
                    effectiveNextRenewalAt: AppleFixtures.expiresAt, offerType: "NONE", status: "AUTO_RENEWING"))
        #expect(
            event.facts == [
                Fact(kind: .said, holder: .user(AppleFixtures.token), at: AppleFixtures.signedAt),
                Fact(
                    kind: .gain, holder: .anonymous("3000000000000001"), at: AppleFixtures.signedAt,
                    until: AppleFixtures.expiresAt, isNamed: false),
            ])
        #expect(event.change == nil && event.links.isEmpty)
        #expect(event.body == body)
        #expect(event.decoded == Array(decoded.utf8))
    }

    // MARK: Types and access

    struct Row: Sendable, CustomStringConvertible {
        let name: String
        /// Of the transaction, of `data`, of the renewal; nil: there is none.
        var transaction: BodyEdit.Fields = []
        var data: BodyEdit.Fields = []
        var renewal: BodyEdit.Fields? = []
        let means: String
        var fact: Fact.Kind?
        var status: String?
        var isRevoked = false
        var until: Timestamp? = AppleFixtures.expiresAt

        var description: String { "\(name) \(transaction) \(data)" }

        /// A subscription's.
        init(
            _ name: String, _ means: String, _ fact: Fact.Kind?, _ status: String?,
            _ transaction: BodyEdit.Fields = [], data: BodyEdit.Fields = [], renewal: BodyEdit.Fields = [],
            isRevoked: Bool = false, until: Timestamp? = AppleFixtures.expiresAt
        ) {
            self.name = name
            self.transaction = transaction
            self.data = data
            self.renewal = renewal
            self.means = means
            self.fact = fact
            self.status = status
            self.isRevoked = isRevoked
            self.until = until
        }

        /// A one-time purchase's.
        static func oneTime(
            _ name: String, _ means: String, _ fact: Fact.Kind?, _ status: String?,
            _ transaction: BodyEdit.Fields = [], isRevoked: Bool = false
        ) -> Row {
            var row = Row(
                name, means, fact, status, AppleFixtures.oneTime + transaction, isRevoked: isRevoked, until: nil)
            row.renewal = nil
            return row
        }
    }

    private static func offer(_ type: String, _ discount: String?) -> BodyEdit.Fields {
        [("offerType", type), ("offerDiscountType", discount.map { "\"\($0)\"" })]
    }
    private static let revoked: BodyEdit.Fields = [("revocationDate", "1700000000000"), ("revocationReason", "0")]
    private static let over: BodyEdit.Fields = [("expiresDate", "1700000005123")]
    private static let grace: BodyEdit.Fields = [("gracePeriodExpiresDate", "1703974400000")]
    private static let family: BodyEdit.Fields = [
        ("inAppOwnershipType", "\"FAMILY_SHARED\""), ("appAccountToken", nil),
    ]
    private static let overAt = AppleFixtures.signedAt

    static let starts: [Row] = [
        Row("SUBSCRIBED/INITIAL_BUY", "SUBSCRIPTION_STARTED", .gain, "AUTO_RENEWING"),
        Row("SUBSCRIBED/INITIAL_BUY", "TRIAL_STARTED", .gain, "AUTO_RENEWING", offer("1", "FREE_TRIAL")),
        Row("SUBSCRIBED/INITIAL_BUY", "INTRO_OFFER_STARTED", .gain, "AUTO_RENEWING", offer("1", "PAY_AS_YOU_GO")),
        Row("SUBSCRIBED/INITIAL_BUY", "INTRO_OFFER_STARTED", .gain, "AUTO_RENEWING", offer("1", nil)),
        Row("SUBSCRIBED/INITIAL_BUY", "PROMOTIONAL_OFFER_STARTED", .gain, "AUTO_RENEWING", offer("2", "PAY_UP_FRONT")),
        Row("SUBSCRIBED/INITIAL_BUY", "PROMO_CODE_STARTED", .gain, "AUTO_RENEWING", offer("3", "FREE_TRIAL")),
        Row("SUBSCRIBED/INITIAL_BUY", "PROMOTIONAL_OFFER_STARTED", .gain, "AUTO_RENEWING", offer("4", nil)),
        Row("SUBSCRIBED/INITIAL_BUY", "PROMOTIONAL_OFFER_STARTED", .gain, "AUTO_RENEWING", offer("5", nil)),
        Row("SUBSCRIBED/INITIAL_BUY", "SUBSCRIPTION_STARTED", .gain, "AUTO_RENEWING", offer("9", nil)),
        Row("SUBSCRIBED", "SUBSCRIPTION_STARTED", .gain, "AUTO_RENEWING"),
        Row("SUBSCRIBED/SOMETHING_NEW", "SUBSCRIPTION_STARTED", .gain, "AUTO_RENEWING"),
        Row("SUBSCRIBED/RESUBSCRIBE", "SUBSCRIPTION_REACTIVATED", .gain, "AUTO_RENEWING"),
        Row("SUBSCRIBED/RESUBSCRIBE", "SUBSCRIPTION_REACTIVATED", .gain, "AUTO_RENEWING", offer("4", "PAY_UP_FRONT")),
        Row.oneTime("ONE_TIME_CHARGE", "PURCHASE_VALIDATED", .gain, nil),
        Row.oneTime("ONE_TIME_CHARGE", "PURCHASE_VALIDATED", .gain, nil, [("type", "\"Consumable\"")]),
        Row.oneTime("ONE_TIME_CHARGE", "PURCHASE_VALIDATED", .gain, nil, [("type", "\"Non-Renewing Subscription\"")]),
    ]

    static let renewals: [Row] = [
        Row("DID_RENEW", "SUBSCRIPTION_RENEWED", .gain, "AUTO_RENEWING"),
        Row(
            "DID_RENEW", "SUBSCRIPTION_RENEWED", .gain, "AUTO_RENEWING_CANCELED", renewal: [("autoRenewStatus", "0")]),
        Row("DID_RENEW/BILLING_RECOVERY", "SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY", .gain, "AUTO_RENEWING"),
        Row("DID_CHANGE_RENEWAL_PREF/UPGRADE", "SUBSCRIPTION_UPGRADED", .gain, "AUTO_RENEWING"),
        Row("DID_CHANGE_RENEWAL_PREF/DOWNGRADE", "SUBSCRIPTION_DOWNGRADED", nil, "AUTO_RENEWING"),
        Row("DID_CHANGE_RENEWAL_PREF", "DID_CHANGE_RENEWAL_PREF", nil, "AUTO_RENEWING"),
        Row(
            "DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_DISABLED", "RENEWAL_DISABLED", nil, "AUTO_RENEWING_CANCELED",
            renewal: [("autoRenewStatus", "0")]),
        Row("DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_ENABLED", "RENEWAL_ENABLED", .gain, "AUTO_RENEWING"),
        Row(
            "DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_ENABLED", "RENEWAL_ENABLED", .gain, "IN_GRACE_PERIOD",
            data: [("status", "4")], renewal: grace, until: AppleFixtures.graceEnd),
        Row(
            "DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_ENABLED", "RENEWAL_ENABLED", nil, "ON_HOLD", data: [("status", "3")]),
        Row(
            "DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_ENABLED", "RENEWAL_ENABLED", nil, "DEACTIVATED",
            data: [("status", "2")]),
        Row("OFFER_REDEEMED/UPGRADE", "SUBSCRIPTION_UPGRADED", .gain, "AUTO_RENEWING"),
        Row("OFFER_REDEEMED", "OFFER_REDEEMED", nil, "AUTO_RENEWING"),
        Row("OFFER_REDEEMED/DOWNGRADE", "OFFER_REDEEMED/DOWNGRADE", nil, "AUTO_RENEWING"),
        Row("RENEWAL_EXTENDED", "SUBSCRIPTION_DEFERRED", .gain, "AUTO_RENEWING"),
        Row("RENEWAL_EXTENSION/FAILURE", "RENEWAL_EXTENSION/FAILURE", nil, "AUTO_RENEWING"),
        Row("PRICE_INCREASE/PENDING", "PRICE_INCREASE/PENDING", nil, "AUTO_RENEWING"),
        Row("PRICE_INCREASE/ACCEPTED", "PRICE_INCREASE/ACCEPTED", nil, "AUTO_RENEWING"),
        Row("PRICE_CHANGE", "PRICE_CHANGE", nil, "AUTO_RENEWING"),
    ]

    static let ends: [Row] = [
        Row(
            "DID_FAIL_TO_RENEW/GRACE_PERIOD", "GRACE_PERIOD_STARTED", .gain, "IN_GRACE_PERIOD", data: [("status", "4")],
            renewal: grace, until: AppleFixtures.graceEnd),
        // Apple does not say its end: its longest.
        Row(
            "DID_FAIL_TO_RENEW/GRACE_PERIOD", "GRACE_PERIOD_STARTED", .gain, "IN_GRACE_PERIOD", data: [("status", "4")],
            until: AppleFixtures.expiresAt.advanced(byMilliseconds: 28 * 86_400_000)),
        Row(
            "DID_FAIL_TO_RENEW", "ENTERED_BILLING_RETRY", .loss, "ON_HOLD", over, data: [("status", "3")],
            until: overAt),
        // In billing retry Apple takes the period for over, whatever its end says.
        Row("DID_FAIL_TO_RENEW", "ENTERED_BILLING_RETRY", .loss, "ON_HOLD", data: [("status", "3")]),
        Row(
            "DID_FAIL_TO_RENEW", "ENTERED_BILLING_RETRY", .loss, "ON_HOLD", over, data: [("status", "1")],
            until: overAt),
        Row(
            "DID_FAIL_TO_RENEW", "ENTERED_BILLING_RETRY", .loss, "ON_HOLD", over, data: [("status", nil)],
            until: overAt),
        // What is paid for still runs: it is lost neither now nor ahead of time.
        Row("DID_FAIL_TO_RENEW", "ENTERED_BILLING_RETRY", nil, "AUTO_RENEWING", data: [("status", "1")]),
        Row("DID_FAIL_TO_RENEW", "ENTERED_BILLING_RETRY", nil, nil, data: [("status", nil)]),
        Row("DID_FAIL_TO_RENEW/SOMETHING_NEW", "DID_FAIL_TO_RENEW/SOMETHING_NEW", nil, "AUTO_RENEWING"),
        Row(
            "GRACE_PERIOD_EXPIRED", "GRACE_PERIOD_TERMINATED", .loss, "ON_HOLD", data: [("status", "3")],
            renewal: grace, until: AppleFixtures.graceEnd),
        Row("EXPIRED/VOLUNTARY", "SUBSCRIPTION_TERMINATED", .loss, "DEACTIVATED", over, until: overAt),
        Row("EXPIRED/BILLING_RETRY", "SUBSCRIPTION_TERMINATED", .loss, "DEACTIVATED", over, until: overAt),
        Row("EXPIRED/PRICE_INCREASE", "SUBSCRIPTION_TERMINATED", .loss, "DEACTIVATED", over, until: overAt),
        Row("EXPIRED/PRODUCT_NOT_FOR_SALE", "SUBSCRIPTION_TERMINATED", .loss, "DEACTIVATED", over, until: overAt),
        Row("EXPIRED", "SUBSCRIPTION_TERMINATED", .loss, "DEACTIVATED", over, until: overAt),
        // A status of revoked is no refund of this period.
        Row("EXPIRED", "SUBSCRIPTION_TERMINATED", .loss, "DEACTIVATED", over, data: [("status", "5")], until: overAt),
        Row(
            "EXPIRED/VOLUNTARY", "TRIAL_NOT_CONVERTED", .loss, "DEACTIVATED", over + offer("1", "FREE_TRIAL"),
            until: overAt),
        Row(
            "EXPIRED/VOLUNTARY", "SUBSCRIPTION_TERMINATED", .loss, "DEACTIVATED", over + offer("3", "FREE_TRIAL"),
            until: overAt),
        Row("REVOKE", "FAMILY_SHARED_REVOKED", .loss, "REVOKED", revoked + family, isRevoked: true),
        Row.oneTime("REVOKE", "FAMILY_SHARED_REVOKED", .loss, "REVOKED", revoked + family, isRevoked: true),
    ]

    private static let refunded = "SUBSCRIPTION_REFUNDED_REVOKED"

    static let refunds: [Row] = [
        Row("REFUND", refunded, .loss, "REVOKED", revoked, data: [("status", "5")], isRevoked: true),
        Row("REFUND", refunded, .loss, "REVOKED", revoked, data: [("status", "2")], isRevoked: true),
        // Another period is paid: the refunded one is a past one.
        Row("REFUND", refunded, nil, "AUTO_RENEWING", revoked, data: [("status", "1")]),
        Row("REFUND", refunded, nil, "ON_HOLD", revoked, data: [("status", "3")]),
        Row("REFUND", refunded, nil, "IN_GRACE_PERIOD", revoked, data: [("status", "4")]),
        // Without a status, only a running period can be ended.
        Row("REFUND", refunded, .loss, "REVOKED", revoked, data: [("status", nil)], isRevoked: true),
        Row("REFUND", refunded, nil, nil, revoked + over, data: [("status", nil)], until: overAt),
        Row("REFUND", refunded, nil, nil, data: [("status", nil)]),
        Row("REFUND", refunded, nil, nil, data: [("status", "6")]),
        Row.oneTime("REFUND", "DEACTIVATE", .loss, "REVOKED", revoked, isRevoked: true),
        Row.oneTime("REFUND", "REFUND", nil, nil),
        Row("REFUND_REVERSED", "SUBSCRIPTION_REACTIVATED", .gain, "AUTO_RENEWING"),
        Row("REFUND_REVERSED", "SUBSCRIPTION_REACTIVATED", nil, "AUTO_RENEWING", over, until: overAt),
        Row("REFUND_REVERSED", "SUBSCRIPTION_REACTIVATED", nil, "DEACTIVATED", data: [("status", "2")]),
        Row.oneTime("REFUND_REVERSED", "PURCHASE_VALIDATED", .gain, nil),
        Row("REFUND_DECLINED", "REFUND_DECLINED", nil, "AUTO_RENEWING"),
        Row.oneTime("CONSUMPTION_REQUEST", "CONSUMPTION_REQUEST", nil, nil),
        Row("METADATA_UPDATE", "METADATA_UPDATE", nil, "AUTO_RENEWING"),
        Row("MIGRATION", "MIGRATION", nil, "AUTO_RENEWING"),
        Row("PURCHASE_ADMIRED/TWICE", "PURCHASE_ADMIRED/TWICE", nil, "AUTO_RENEWING"),
    ]

    static let rows = starts + renewals + ends + refunds

    @Test("Every type means what is documented", arguments: rows)
    func meaning(_ row: Row) throws {
        let decoded = AppleFixtures.notification(
            row.name, transaction: row.transaction, renewal: row.renewal, data: row.data)
        let event = try apple(decoded)
        #expect(event.name == row.name)
        #expect(event.type == row.means)
        // Whose it is, is said beside that (`tokenSetLater`, `lossOfWhoeverHasIt`).
        let isNaming = event.facts.first?.kind == .naming
        let facts = isNaming && row.fact == nil ? [] : event.stated.filter { $0.kind != .naming }
        #expect(facts.map(\.kind) == (row.fact.map { [$0] } ?? []))
        #expect(event.transaction?.status == row.status)
        #expect(event.transaction?.effectiveNextRenewalAt == row.until)
        #expect(event.purchase?.key == "3000000000000001")
        #expect(event.purchase?.kind == (row.renewal == nil ? .oneTime : .subscription))
        let isShared = row.transaction.contains { $0.key == "inAppOwnershipType" }
        #expect(event.facts.contains { $0.kind == .said } == (row.fact == .gain && !isShared))
        for fact in facts {
            #expect(fact.isRevoked == row.isRevoked && fact.until == row.until && fact.at == event.occurredAt)
            let isBought = ["SUBSCRIBED", "ONE_TIME_CHARGE"].contains { row.name.contains($0) }
            let isNamed = row.fact == .gain && !isShared && isBought
            #expect(fact.holder == (isNamed ? event.holder : Holder.anonymous("3000000000000001")))
            #expect(fact.isFamilyShared == isShared && fact.isNamed == isNamed)
        }
    }

    /// Oracle: "Set App Account Token" changes the token of a purchase that there is already, and no notification comes
    /// of it.
    @Test("A loss is that of whoever has the purchase, also under another account's token", arguments: ends + refunds)
    func lossOfWhoeverHasIt(_ row: Row) throws {
        guard row.fact == .loss else { return }
        let token = "b1b2c3d4-0000-4000-8000-00000000000f"
        let decoded = AppleFixtures.notification(
            row.name, transaction: row.transaction + [("appAccountToken", "\"\(token)\"")], renewal: row.renewal,
            data: row.data)
        func loss(of holder: Holder, isGiven: Bool = false) -> Fact {
            Fact(
                kind: .loss, holder: holder, at: AppleFixtures.signedAt, until: row.until, isRevoked: row.isRevoked,
                isFamilyShared: row.transaction.contains { $0.key == "inAppOwnershipType" }, isNamed: false,
                isGiven: isGiven)
        }
        let event = try apple(decoded)
        #expect(event.holder == .user(token), "the message names the account of the notification")
        let naming = Fact(kind: .naming, holder: .user(token), at: AppleFixtures.signedAt)
        #expect(event.facts == [naming, loss(of: .anonymous("3000000000000001"))])
        let install = try apple(decoded, from: appleSource(accountToken: .anonymous))
        #expect(install.facts == [loss(of: .anonymous(token), isGiven: true)])
    }

    /// Oracle: "Set App Account Token": a purchase by an offer code has none before, and no notification comes of it.
    @Test("An account token that is set later says whose the running subscription is", arguments: renewals)
    func tokenSetLater(_ row: Row) throws {
        func facts(_ transaction: BodyEdit.Fields, _ data: BodyEdit.Fields) throws -> [Fact] {
            try apple(
                AppleFixtures.notification(
                    row.name, transaction: row.transaction + transaction, renewal: row.renewal, data: row.data + data)
            ).facts
        }
        let isOwnGain = ["DID_RENEW", "UPGRADE", "RENEWAL_EXTENDED", "AUTO_RENEW_ENABLED"].contains {
            row.name.contains($0)
        }
        if isOwnGain { return }
        let whose = try facts([], [])
        #expect(whose.map(\.kind) == [.naming, .gain])
        #expect(whose.map(\.holder) == [.user(AppleFixtures.token), .anonymous("3000000000000001")])
        #expect(whose.map(\.isNamed) == [true, false] && whose[1].until == AppleFixtures.expiresAt)
        #expect(try facts([("appAccountToken", nil)], []).isEmpty, "nobody is named")
        #expect(try facts([], [("status", "2")]).isEmpty && facts([], [("status", "3")]).isEmpty)
        #expect(try facts(Self.over, []).isEmpty)
        #expect(try facts(Self.revoked, []).isEmpty)
    }

    @Test("A grace period that begins before the paid period ends is kept by whatever comes in it", arguments: renewals)
    func earlyGrace(_ row: Row) throws {
        let event = try apple(
            AppleFixtures.notification(
                row.name, transaction: row.transaction, renewal: (row.renewal ?? []) + Self.grace, data: row.data))
        #expect(event.transaction?.effectiveNextRenewalAt == AppleFixtures.graceEnd)
    }

    @Test("The table has every documented name that is about a purchase")
    func names() {
        let known = Apple().knownEventNames
        #expect(Set(known).count == known.count && known.count == 39)
        let others: Set = [
            "TEST", "RENEWAL_EXTENSION/SUMMARY", "EXTERNAL_PURCHASE_TOKEN/UNREPORTED",
            "EXTERNAL_PURCHASE_TOKEN/CREATED", "EXTERNAL_PURCHASE_TOKEN/ACTIVE_TOKEN_REMINDER", "RESCIND_CONSENT",
        ]
        #expect(Set(known).subtracting(Self.rows.map(\.name)) == others)
    }

    @Test("A type is one of the shared vocabulary, or the vendor's own name", arguments: rows)
    func vocabulary(_ row: Row) {
        #expect(StandardTypes.all.contains(row.means) || row.means == row.name)
    }

    @Test("A replaced transaction states nothing, and its product is not the purchase's", arguments: rows)
    func upgraded(_ row: Row) throws {
        let event = try apple(
            AppleFixtures.notification(
                row.name, transaction: row.transaction + [("isUpgraded", "true")], renewal: row.renewal,
                data: row.data))
        #expect(event.type == row.means && event.facts.isEmpty)
        #expect(event.purchase?.product == nil && event.transaction != nil)
    }

    /// Oracle: real receipts, where `purchaseDate` of a renewal is the end of the period before, and a renewal is
    /// charged up to a day before that.
    @Test("What replaces a renewal that was paid ahead of its period is newer than it, also once that is refunded")
    func replacedAhead() throws {
        func purchasedAt(_ name: String, _ transaction: BodyEdit.Fields) throws -> Timestamp {
            let event = try apple(AppleFixtures.notification(name, transaction: transaction))
            return try #require(event.transaction?.purchasedAt)
        }
        let ahead = AppleFixtures.signedAt.milliseconds + 50_000_000
        let first: BodyEdit.Fields = [("originalPurchaseDate", "1690000000000")]
        let before = try purchasedAt("DID_RENEW", first + [("purchaseDate", "1699000000000")])
        let renewed = try purchasedAt("DID_RENEW", first + [("purchaseDate", "\(ahead)")])
        let replacing = try purchasedAt(
            "DID_CHANGE_RENEWAL_PREF/UPGRADE",
            first + [("purchaseDate", "\(AppleFixtures.signedAt.milliseconds)")])
        let refunded = try purchasedAt(
            "REFUND", first + [("purchaseDate", "\(ahead)"), ("isUpgraded", "true")] + Self.revoked)
        #expect(before.milliseconds == 1_699_000_000_000)
        #expect(before < renewed && renewed <= replacing && refunded < before)
    }

    /// Oracle: the pages of the four types: the transaction is the one that is refunded or asked about.
    @Test("What is about one payment names its product, which need not be the purchase's any more", arguments: rows)
    func productOfPayment(_ row: Row) throws {
        let event = try apple(
            AppleFixtures.notification(row.name, transaction: row.transaction, renewal: row.renewal, data: row.data))
        let types = ["REFUND", "REFUND_DECLINED", "REFUND_REVERSED", "CONSUMPTION_REQUEST"]
        #expect(event.yieldsProduct == types.contains(row.name) && event.purchase?.product != nil)
    }

    @Test(
        "The offer of the period, not of the next one, is the transaction's",
        arguments: [
            (nil, nil, "NONE"), ("1", "FREE_TRIAL", "FREE_TRIAL"), ("1", "PAY_UP_FRONT", "INTRO_OFFER"),
            ("2", nil, "PROMOTIONAL_OFFER"), ("3", nil, "PROMO_CODE"), ("4", nil, "PROMOTIONAL_OFFER"),
            ("5", nil, "PROMOTIONAL_OFFER"), ("6", nil, nil), ("\"1\"", "FREE_TRIAL", "FREE_TRIAL"),
        ] as [(String?, String?, String?)])
    func offers(_ type: String?, _ discount: String?, _ offer: String?) throws {
        let event = try apple(
            AppleFixtures.notification(
                "DID_RENEW",
                transaction: [("offerType", type), ("offerDiscountType", discount.map { "\"\($0)\"" })],
                renewal: [("offerType", "2")]))
        #expect(event.transaction?.offerType == offer)
    }
}
