import Foundation

/// Every type that Apple documents, with each of its subtypes (developer.apple.com/documentation/
/// appstoreservernotifications: notificationType, subtype), and what must come of it: written by hand after those
/// pages, posthouse-sources(7), "Apple", and posthouse-messages(7), "Money".
struct AppleTypes {
    private(set) var notices: [StoreNotice] = []
    private(set) var others: [StoreNotice.Other] = []
    private let store: AppStore

    init(_ store: AppStore) throws {
        self.store = store
        try addStarts()
        try addRenewals()
        try addEnds()
        try addRefunds()
        try addWhatNamesNoPurchase()
        try addOthers()
    }

    // MARK: Types

    private mutating func addStarts() throws {
        let (bought, started) = ("SUBSCRIBED/INITIAL_BUY", "SUBSCRIPTION_STARTED")
        try add(bought, started, .has)
        try add(bought, "TRIAL_STARTED", .has, Self.trial, money: "0 EUR")
        let offers = [
            (1, "PAY_AS_YOU_GO", "INTRO_OFFER_STARTED"), (2, "PAY_UP_FRONT", "PROMOTIONAL_OFFER_STARTED"),
            (3, "FREE_TRIAL", "PROMO_CODE_STARTED"), (4, "PAY_AS_YOU_GO", "PROMOTIONAL_OFFER_STARTED"),
            (5, "PAY_AS_YOU_GO", "PROMOTIONAL_OFFER_STARTED"),
        ]
        for (offer, discount, type) in offers {
            try add(bought, type, .has, ["offerType": offer, "offerDiscountType": discount])
        }
        try add(bought, started, .has, Self.anonymous)
        try add(bought, started, .has, Self.familyShared, money: nil)
        try add(bought, started, .has, environment: "Sandbox")
        try add("SUBSCRIBED/RESUBSCRIBE", "SUBSCRIPTION_REACTIVATED", .has)
        for kind in ["Non-Consumable", "Consumable", "Non-Renewing Subscription"] {
            try add("ONE_TIME_CHARGE", "PURCHASE_VALIDATED", .has, Self.oneTime(kind), status: nil)
        }
    }

    private mutating func addRenewals() throws {
        try add("DID_RENEW", "SUBSCRIPTION_RENEWED", .has)
        try add("DID_RENEW/BILLING_RECOVERY", "SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY", .has)
        // Another transaction has taken its place.
        try add("DID_RENEW", "SUBSCRIPTION_RENEWED", .unstated, ["isUpgraded": true])
        // Apple does not say that a renewal converts a trial.
        let week = Self.trial.merging(["expiresDate": Self.at(days: 7)]) { $1 }
        let trial = try add("SUBSCRIBED/INITIAL_BUY", "TRIAL_STARTED", .has, week, money: "0 EUR")
        try add(
            "DID_RENEW", "TRIAL_CONVERTED", .has, ["transactionId": Self.transaction(trial) + "1"], of: trial, days: 7,
            isByMemory: true)
        // The token of another account.
        let former = try add("SUBSCRIBED/INITIAL_BUY", "SUBSCRIPTION_STARTED", .has)
        let other: [String: Any] = [
            "transactionId": Self.transaction(former) + "1", "appAccountToken": Self.user(notices.count),
        ]
        try add("DID_RENEW", "SUBSCRIPTION_RENEWED", .has, other, of: former, days: 1, passesFrom: former)

        try add("DID_CHANGE_RENEWAL_PREF/UPGRADE", "SUBSCRIPTION_UPGRADED", .has)
        // Those without a word on access: their account token says whose the running subscription is.
        try add("DID_CHANGE_RENEWAL_PREF/DOWNGRADE", "SUBSCRIPTION_DOWNGRADED", .named)
        try add("DID_CHANGE_RENEWAL_PREF", .named)
        try add(
            "DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_DISABLED", "RENEWAL_DISABLED", .named,
            renewal: ["autoRenewStatus": 0])
        try add("DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_ENABLED", "RENEWAL_ENABLED", .has)
        try add("OFFER_REDEEMED", .named)
        try add("OFFER_REDEEMED/UPGRADE", "SUBSCRIPTION_UPGRADED", .has)
        try add("OFFER_REDEEMED/DOWNGRADE", .named)
        try add("RENEWAL_EXTENDED", "SUBSCRIPTION_DEFERRED", .has)
        for name in [
            "RENEWAL_EXTENSION/FAILURE", "PRICE_INCREASE/PENDING", "PRICE_INCREASE/ACCEPTED", "PRICE_CHANGE",
        ] {
            try add(name, .named)
        }
        for name in ["METADATA_UPDATE", "MIGRATION", "PURCHASE_CELEBRATED/WITH_CAKE"] { try add(name, .unstated) }
    }

    private mutating func addEnds() throws {
        let grace = ["gracePeriodExpiresDate": Self.at(days: 16)]
        try add("DID_FAIL_TO_RENEW/GRACE_PERIOD", "GRACE_PERIOD_STARTED", .has, Self.over, status: 4, renewal: grace)
        try add("DID_FAIL_TO_RENEW", "ENTERED_BILLING_RETRY", .hasNot, Self.over, status: 3)
        // What is paid for still runs.
        try add("DID_FAIL_TO_RENEW", "ENTERED_BILLING_RETRY", .unstated)
        let graceOver = ["gracePeriodExpiresDate": Self.at(days: 0) - 60_000]
        try add("GRACE_PERIOD_EXPIRED", "GRACE_PERIOD_TERMINATED", .hasNot, Self.over, status: 3, renewal: graceOver)
        for name in [
            "EXPIRED/VOLUNTARY", "EXPIRED/BILLING_RETRY", "EXPIRED/PRICE_INCREASE", "EXPIRED/PRODUCT_NOT_FOR_SALE",
            "EXPIRED",
        ] {
            try add(name, "SUBSCRIPTION_TERMINATED", .hasNot, Self.over, status: 2)
        }
        let trial = Self.trial.merging(Self.over) { $1 }
        try add("EXPIRED/VOLUNTARY", "TRIAL_NOT_CONVERTED", .hasNot, trial, status: 2, money: "0 EUR")
        let revoked = Self.familyShared.merging(Self.revoked) { $1 }
        try add("REVOKE", "FAMILY_SHARED_REVOKED", .hasNot, revoked, status: 5, money: nil)
    }

    private mutating func addRefunds() throws {
        let back = "9.99 EUR back"
        // Revoked and over; otherwise another period than the refunded one is paid.
        for (status, access) in [(5, .hasNot), (2, .hasNot), (1, .unstated), (3, .unstated), (4, .unstated)]
            as [(Int, StoreNotice.Access)]
        {
            try add("REFUND", "SUBSCRIPTION_REFUNDED_REVOKED", access, Self.revoked, status: status, money: back)
        }
        let once = Self.oneTime("Non-Consumable")
        let revoked = once.merging(Self.revoked) { $1 }
        try add("REFUND", "DEACTIVATE", .hasNot, revoked, status: nil, money: back)
        // The app has set another account meanwhile, of which no notification comes: whoever has it loses it.
        let bought = try add("ONE_TIME_CHARGE", "PURCHASE_VALIDATED", .has, once, status: nil)
        var other = revoked.merging(["appAccountToken": Self.user(notices.count)]) { $1 }
        try add(
            "REFUND", "DEACTIVATE", .hasNot, other, status: nil, of: bought, days: 1, money: back, endsFor: bought)
        let subscribed = try add("SUBSCRIBED/INITIAL_BUY", "SUBSCRIPTION_STARTED", .has)
        other = Self.revoked.merging(["appAccountToken": Self.user(notices.count)]) { $1 }
        try add(
            "REFUND", "SUBSCRIPTION_REFUNDED_REVOKED", .hasNot, other, status: 5, of: subscribed, days: 1, money: back,
            endsFor: subscribed)
        try add("REFUND_REVERSED", "SUBSCRIPTION_REACTIVATED", .has)
        try add("REFUND_REVERSED", "SUBSCRIPTION_REACTIVATED", .unstated, Self.over)
        try add("REFUND_REVERSED", "PURCHASE_VALIDATED", .has, once, status: nil)
        try add("REFUND_DECLINED", .unstated)
        try add("CONSUMPTION_REQUEST", .unstated, Self.oneTime("Consumable"), status: nil)
    }

    private mutating func addWhatNamesNoPurchase() throws {
        let app: [String: Any] = ["appAppleId": 1, "bundleId": AppStore.bundleID]
        let ofProduction = app.merging(["environment": "Production"]) { $1 }
        let counts: [String: Any] = [
            "requestIdentifier": "r-1", "productId": "plus.monthly", "succeededCount": 5, "failedCount": 0,
        ]
        try add("RENEWAL_EXTENSION/SUMMARY", "summary", ofProduction.merging(counts) { $1 })
        for (subtype, id) in [
            ("UNREPORTED", "b2e0-1"), ("CREATED", "b2e0-2"), ("ACTIVE_TOKEN_REMINDER", "SANDBOX_b2e0-3"),
        ] {
            let token: [String: Any] = ["externalPurchaseId": id, "tokenCreationDate": Self.at(days: 0)]
            try add(
                "EXTERNAL_PURCHASE_TOKEN/" + subtype, "externalPurchaseToken", app.merging(token) { $1 },
                environment: id.hasPrefix("SANDBOX") ? "SANDBOX" : "PRODUCTION")
        }
        let transaction: [String: Any] = ["receiptType": "Production", "appTransactionId": "704000000000000001"]
        let sealed: [String: Any] = ["signedAppTransactionInfo": try store.sign(StoreNotice.json(transaction))]
        try add("RESCIND_CONSENT", "appData", ofProduction.merging(sealed) { $1 })
    }

    private mutating func addOthers() throws {
        let data: [String: Any] = ["bundleId": AppStore.bundleID, "environment": "Sandbox"]
        func other(_ name: String, _ data: [String: Any], _ status: Int, isKept: Bool = false) throws {
            let body = try notification(name, id: "other-\(others.count)", ["data": data])
            others.append(.init(source: "apple", body: body, status: status, isKept: isKept))
        }
        try other("TEST", data, 200)
        try other("DID_RENEW", data.merging(["bundleId": "com.example.foreign"]) { $1 }, 401)
        try other("DID_RENEW", data.merging(["environment": "Xcode"]) { $1 }, 401)
        try other("DID_RENEW", data.merging(["signedTransactionInfo": "not.sealed.well"]) { $1 }, 200, isKept: true)
        try other(String(repeating: "N", count: 2_000), data, 200, isKept: true)
        let whole = try notification("DID_RENEW", id: "forged", ["data": data])
        let forged = whole.replacing("\"}", with: "A\"}")
        for body in ["garbage", "{}", #"{"notification_type":"DID_RENEW"}"#, #"{"signedPayload":"a.b.c"}"#, forged] {
            others.append(.init(source: "apple", body: body, status: 401))
        }
    }

    // MARK: Members

    /// Milliseconds since 1970.
    private static func at(days: Int64) -> Int { Int(Webhook.epoch + days * Webhook.day) }

    private static func transaction(_ number: Int) -> String { "71\(1_000_000 + number)" }

    private static func user(_ number: Int) -> String {
        let digits = String(number)
        return "0a1b2c3d-0000-4000-8000-" + String(repeating: "0", count: 12 - digits.count) + digits
    }

    private static var trial: [String: Any] { ["offerType": 1, "offerDiscountType": "FREE_TRIAL", "price": 0] }
    private static var anonymous: [String: Any] { ["appAccountToken": NSNull()] }
    private static var familyShared: [String: Any] {
        ["appAccountToken": NSNull(), "inAppOwnershipType": "FAMILY_SHARED"]
    }
    private static var revoked: [String: Any] {
        ["revocationDate": at(days: 0) - 60_000, "revocationReason": 0, "revocationType": "REFUND_FULL"]
    }
    /// The period has ended.
    private static var over: [String: Any] {
        ["purchaseDate": at(days: -30), "expiresDate": at(days: 0) - 3_000]
    }

    private static func oneTime(_ kind: String) -> [String: Any] {
        ["type": kind, "expiresDate": NSNull(), "productId": "lifetime"]
    }

    // MARK: Notifications

    /// One that keeps its own name.
    private mutating func add(
        _ name: String, _ access: StoreNotice.Access, _ changes: [String: Any] = [:], status: Int? = 1
    ) throws {
        try add(name, name, access, changes, status: status)
    }

    /// - Parameters:
    ///   - changes: of the transaction; NSNull: it lacks the member.
    ///   - status: of the subscription; nil: of a one-time purchase.
    ///   - renewal: changes of the renewal info.
    ///   - former: another notification of the same purchase; nil: it has one of its own.
    ///   - passesFrom: the notification whose account loses the purchase to another one by this one.
    ///   - endsFor: the notification whose account loses the purchase by this one.
    /// - Returns: the number of the notification.
    @discardableResult
    private mutating func add(
        _ name: String, _ type: String, _ access: StoreNotice.Access, _ changes: [String: Any] = [:],
        status: Int? = 1, renewal: [String: Any] = [:], of former: Int? = nil, days: Int64 = 0,
        environment: String = "Production", money: String? = "9.99 EUR", isByMemory: Bool = false,
        passesFrom: Int? = nil, endsFor: Int? = nil
    ) throws -> Int {
        let number = notices.count
        let (key, time) = (Self.transaction(former ?? number), Self.at(days: days))
        // As an app may spell it; it is read in lower case.
        let token = Self.user(former ?? number).uppercased()
        let transaction: [String: Any] = [
            "transactionId": key, "originalTransactionId": key, "bundleId": AppStore.bundleID,
            "productId": "plus.monthly", "purchaseDate": time, "expiresDate": Self.at(days: days + 30), "quantity": 1,
            "type": "Auto-Renewable Subscription", "appAccountToken": token, "inAppOwnershipType": "PURCHASED",
            "signedDate": time, "environment": environment, "price": 9_990, "currency": "EUR",
        ]
        let stated = transaction.merging(changes) { $1 }.filter { !($0.value is NSNull) }
        var data: [String: Any] = [
            "appAppleId": 1, "bundleId": AppStore.bundleID, "bundleVersion": "7", "environment": environment,
            "signedTransactionInfo": try store.sign(StoreNotice.json(stated)),
        ]
        if let status {
            let info: [String: Any] = [
                "originalTransactionId": key, "productId": "plus.monthly", "autoRenewProductId": "plus.monthly",
                "autoRenewStatus": status == 2 || status == 5 ? 0 : 1, "signedDate": time,
                "environment": environment, "appAccountToken": "ffffffff-0000-4000-8000-00000000000f",
            ]
            data["status"] = status
            data["signedRenewalInfo"] = try store.sign(StoreNotice.json(info.merging(renewal) { $1 }))
        }
        let named = (stated["appAccountToken"] as? String).map { "user:" + $0.lowercased() }
        let holder = named ?? "anon:" + key
        var holders: [String: Bool] = access == .unstated ? [:] : [holder: access != .hasNot]
        // A loss, too, is stated of whoever has the purchase.
        if access == .named || access == .hasNot { holders["anon:" + key] = false }
        if let loser = passesFrom ?? endsFor { holders["user:" + Self.user(loser)] = false }
        notices.append(
            StoreNotice(
                source: "apple", id: "apple-\(number)",
                body: try notification(name, id: "apple-\(number)", days: days, ["data": data]), name: name, type: type,
                isByMemory: isByMemory, holder: holder, purchase: key, access: holders, isTransfer: passesFrom != nil,
                money: money, environment: environment.uppercased()))
        return number
    }

    /// One that is about no purchase and names nobody.
    private mutating func add(
        _ name: String, _ subject: String, _ members: [String: Any], environment: String = "PRODUCTION"
    ) throws {
        let id = "apple-\(notices.count)"
        notices.append(
            StoreNotice(
                source: "apple", id: id, body: try notification(name, id: id, [subject: members]), name: name,
                type: name, holder: "", purchase: nil, access: [:], money: nil, environment: environment))
    }

    private func notification(
        _ name: String, id: String, days: Int64 = 0, _ subject: [String: Any]
    ) throws -> String {
        let names = name.split(separator: "/").map(String.init)
        var payload = subject
        payload["notificationType"] = names[0]
        if names.count > 1 { payload["subtype"] = names[1] }
        payload["notificationUUID"] = id
        payload["version"] = "2.0"
        payload["signedDate"] = Self.at(days: days)
        return #"{"signedPayload":"\#(try store.sign(StoreNotice.json(payload)))"}"#
    }
}
