internal import Crypto
internal import JSONText
internal import Vocabulary

/// A notification as Apple might send it, before it is signed. All that the request does not say is made up.
struct AppleSample {
    private let request: SampleRequest
    private let bundleID: String
    private let signedAt: Timestamp
    private let name: AppleName

    static let appAppleID: Int64 = 6_500_000_001
    private static let dayMilliseconds: Int64 = 86_400_000
    private static let periodDays: Int64 = 30
    private static let graceDays: Int64 = 16

    init(request: SampleRequest, bundleID: String, signedAt: Timestamp) {
        self.request = request
        self.bundleID = bundleID
        self.signedAt = signedAt
        name = AppleName(text: request.eventName)
    }

    // MARK: The whole

    /// What is sealed inside the payload, in clear, each with the member that has it.
    var parts: [(name: String, text: [UInt8])] {
        var parts: [(name: String, text: [UInt8])] = []
        if subject == Self.appData {
            parts.append(("signedAppTransactionInfo", JSONWriter.object { writeAppTransaction(to: &$0) }))
        } else if subject == Self.data, name.type != AppleNames.test {
            parts.append(("signedTransactionInfo", JSONWriter.object { writeTransaction(to: &$0) }))
            if !isOneTime { parts.append(("signedRenewalInfo", JSONWriter.object { writeRenewal(to: &$0) })) }
        }
        return parts
    }

    /// The payload with `sealed`, the signed `parts`.
    func payload(_ sealed: [(name: String, text: String)]) -> [UInt8] {
        JSONWriter.object { json in
            json.member("notificationType", name.type)
            if let subtype = name.subtype { json.member("subtype", subtype) }
            if let eventID = request.eventID { json.member("notificationUUID", eventID) }
            json.key(subject)
            json.object { writeSubject(sealed, to: &$0) }
            json.member("version", "2.0")
            json.member("signedDate", signedAt.milliseconds)
        }
    }

    private static let data = "data"
    private static let appData = "appData"

    /// The member that names the app, and has all that is particular.
    private var subject: String {
        switch name.type {
        case AppleNames.externalPurchase: "externalPurchaseToken"
        case AppleNames.rescindConsent: Self.appData
        default: name == AppleNames.summary ? "summary" : Self.data
        }
    }

    private func writeSubject(_ sealed: [(name: String, text: String)], to json: inout JSONWriter) {
        if name.type == AppleNames.externalPurchase {
            let isSandbox = request.environment == SharedVocabulary.sandbox
            json.member("externalPurchaseId", (isSandbox ? "SANDBOX_" : "") + request.purchaseID)
            json.member("tokenCreationDate", signedAt.milliseconds)
        } else {
            json.member("environment", environment)
        }
        json.member("appAppleId", Self.appAppleID)
        json.member("bundleId", bundleID)
        if name == AppleNames.summary {
            json.member("requestIdentifier", "00000000-0000-4000-8000-000000000001")
            json.member("productId", product)
            json.member("storefrontCountryCodes", strings: ["FRA"])
            json.member("succeededCount", 1)
            json.member("failedCount", 0)
        }
        for part in sealed { json.member(part.name, part.text) }
        if subject == Self.data, !sealed.isEmpty, !isOneTime { json.member("status", status) }
    }

    // MARK: What is sealed

    private func writeTransaction(to json: inout JSONWriter) {
        json.member("transactionId", request.storeTransactionID)
        json.member("originalTransactionId", request.purchaseID)
        json.member("bundleId", bundleID)
        json.member("productId", product)
        json.member("purchaseDate", purchasedAt.milliseconds)
        json.member("originalPurchaseDate", purchasedAt.milliseconds)
        if !isOneTime { json.member("expiresDate", expiresAt.milliseconds) }
        json.member("quantity", 1)
        json.member("type", isOneTime ? "Non-Consumable" : "Auto-Renewable Subscription")
        if let accountToken { json.member("appAccountToken", accountToken) }
        json.member("inAppOwnershipType", name.type == "REVOKE" ? "FAMILY_SHARED" : "PURCHASED")
        json.member("signedDate", signedAt.milliseconds)
        json.member("environment", environment)
        json.member("transactionReason", name.type == "DID_RENEW" ? "RENEWAL" : "PURCHASE")
        json.member("storefront", "FRA")
        json.member("price", 9_990)
        json.member("currency", "EUR")
        guard name.type == "REFUND" || name.type == "REVOKE" else { return }
        json.member("revocationDate", before(60_000).milliseconds)
        json.member("revocationReason", 0)
        json.member("revocationType", name.type == "REVOKE" ? "FAMILY_REVOKE" : "REFUND_FULL")
    }

    private func writeRenewal(to json: inout JSONWriter) {
        json.member("originalTransactionId", request.purchaseID)
        json.member("autoRenewProductId", product)
        json.member("productId", product)
        json.member("autoRenewStatus", isRenewing ? 1 : 0)
        json.member("signedDate", signedAt.milliseconds)
        json.member("environment", environment)
        if let accountToken { json.member("appAccountToken", accountToken) }
        if isInGrace || name.type == "GRACE_PERIOD_EXPIRED" {
            let graceEnd = expiresAt.advanced(byMilliseconds: Self.graceDays * Self.dayMilliseconds)
            json.member("gracePeriodExpiresDate", graceEnd.nearestWritable.milliseconds)
        }
    }

    private func writeAppTransaction(to json: inout JSONWriter) {
        json.member("receiptType", environment)
        json.member("appAppleId", Self.appAppleID)
        json.member("bundleId", bundleID)
        json.member("applicationVersion", "1.0")
        json.member("receiptCreationDate", signedAt.milliseconds)
        json.member("appTransactionId", request.storeTransactionID)
    }

    // MARK: Values

    private var isOneTime: Bool { name.type == AppleNames.oneTimeCharge || request.purchaseID.hasPrefix("otp_") }

    private var product: String { isOneTime ? "com.example.app.lifetime" : "com.example.app.monthly" }

    private var isInGrace: Bool { name == AppleName("DID_FAIL_TO_RENEW", "GRACE_PERIOD") }

    private var isRenewing: Bool { status == 1 && name.subtype != "AUTO_RENEW_DISABLED" || status > 2 && status < 5 }

    /// `data.status`.
    private var status: Int {
        switch name.type {
        case "EXPIRED": 2
        case "DID_FAIL_TO_RENEW": isInGrace ? 4 : 3
        case "GRACE_PERIOD_EXPIRED": 3
        case "REFUND", "REVOKE": 5
        default: 1
        }
    }

    /// Events about the end of a period come right after it, all others within it.
    private var expiresAt: Timestamp {
        switch name.type {
        case "EXPIRED", "DID_FAIL_TO_RENEW": before(2_000)
        case "GRACE_PERIOD_EXPIRED": before(2_000 + Self.graceDays * Self.dayMilliseconds)
        default: before(4_000 - Self.periodDays * Self.dayMilliseconds)
        }
    }

    private var purchasedAt: Timestamp {
        if isOneTime { return before(4_000) }
        return expiresAt.advanced(byMilliseconds: -Self.periodDays * Self.dayMilliseconds).nearestWritable
    }

    private func before(_ milliseconds: Int64) -> Timestamp {
        signedAt.advanced(byMilliseconds: -milliseconds).nearestWritable
    }

    /// Apple's spelling: a capital, then lower case.
    private var environment: String {
        switch request.environment {
        case SharedVocabulary.production: "Production"
        case SharedVocabulary.sandbox: "Sandbox"
        default: request.environment
        }
    }

    private var accountToken: String? { request.holder.isAnonymous ? nil : Self.token(of: request.holder.id) }

    /// The account token by which a sample names a user: the id itself if it is a UUID, else one made from it.
    static func token(of user: String) -> String {
        if let token = AppleNames.accountToken(user) { return token }
        return Identifier(bytes: SHA256.hash(data: Array(user.utf8))).uuid4
    }
}
