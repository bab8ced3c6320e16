import JSONText
import Vocabulary

@testable import Inbound

func appleSource(
    app: String? = nil, bundleIDs: [String] = [AppleFixtures.bundleID],
    roots: [[UInt8]] = [AppleFixtures.chain.fingerprint], accountToken: AccountNaming = .user,
    defaultEnvironment: String = "PRODUCTION"
) -> Source {
    Source(
        name: "apple", kind: .apple, authentication: .signature, secrets: [], app: app,
        defaultEnvironment: defaultEnvironment, freshness: nil,
        settings: .apple(AppleSettings(bundleIDs: bundleIDs, roots: roots, accountToken: accountToken)))
}

/// Notifications with the members that Apple documents and values of our own: written in clear, then sealed.
enum AppleFixtures {
    /// One chain for all suites: making keys takes time.
    static let chain = try! AppleChain.make()

    static let bundleID = "com.example.one"
    static let notificationUUID = "00000000-1111-4222-8333-444444444444"
    static let signedAt = Timestamp(milliseconds: 1_700_000_005_123)
    static let expiresAt = Timestamp(milliseconds: 1_702_592_000_000)
    static let graceEnd = Timestamp(milliseconds: 1_703_974_400_000)
    /// As the app spelled it, and as it is read.
    static let spelledToken = "A1B2C3D4-0000-4000-8000-00000000000f"
    static let token = "a1b2c3d4-0000-4000-8000-00000000000f"

    static let transactionInfo =
        #"{"transactionId":"3000000000000002","originalTransactionId":"3000000000000001","#
        + #""webOrderLineItemId":"900000001","bundleId":"com.example.one","productId":"one.monthly","#
        + #""subscriptionGroupIdentifier":"200001","purchaseDate":1700000000000,"originalPurchaseDate":1690000000000,"#
        + #""expiresDate":1702592000000,"quantity":1,"type":"Auto-Renewable Subscription","#
        + #""appAccountToken":"A1B2C3D4-0000-4000-8000-00000000000f","inAppOwnershipType":"PURCHASED","#
        + #""signedDate":1700000005123,"environment":"Production","transactionReason":"PURCHASE","storefront":"FRA","#
        + #""storefrontId":"143442","price":9990,"currency":"EUR","appTransactionId":"704000000000000001"}"#

    /// The account token is that of the next renewal, another one on purpose.
    static let renewalInfo =
        #"{"originalTransactionId":"3000000000000001","autoRenewProductId":"one.yearly","productId":"one.monthly","#
        + #""autoRenewStatus":1,"renewalPrice":9990,"currency":"EUR","signedDate":1700000005123,"#
        + #""environment":"Production","renewalDate":1702592000000,"#
        + #""appAccountToken":"ffffffff-0000-4000-8000-00000000000f"}"#

    /// What makes a transaction one of a one-time purchase.
    static let oneTime: BodyEdit.Fields = [
        ("type", "\"Non-Consumable\""), ("expiresDate", nil), ("webOrderLineItemId", nil),
        ("subscriptionGroupIdentifier", nil), ("productId", "\"one.lifetime\""),
    ]

    /// A notification in clear. Edits are raw JSON values; nil in place of a list leaves the whole object out.
    static func notification(
        _ name: String, transaction: BodyEdit.Fields? = [], renewal: BodyEdit.Fields? = [], data: BodyEdit.Fields = [],
        top: BodyEdit.Fields = []
    ) -> String {
        let name = AppleName(text: name)
        var members: BodyEdit.Fields = []
        if let transaction { members.append(("transactionInfo", BodyEdit.edit(transactionInfo, transaction))) }
        if let renewal {
            members.append(("renewalInfo", BodyEdit.edit(renewalInfo, renewal)))
            members.append(("status", "1"))
        }
        let app = #"{"appAppleId":1,"bundleId":"com.example.one","bundleVersion":"7","environment":"Production"}"#
        return whole(name, [("data", BodyEdit.edit(app, members + data))] + top)
    }

    static let externalPurchase = whole(
        AppleName("EXTERNAL_PURCHASE_TOKEN", "UNREPORTED"),
        [
            (
                "externalPurchaseToken",
                #"{"externalPurchaseId":"b2e0-1","tokenCreationDate":1700000000000,"appAppleId":1,"#
                    + #""bundleId":"com.example.one"}"#
            )
        ])
    static let summary = whole(
        AppleName("RENEWAL_EXTENSION", "SUMMARY"),
        [
            (
                "summary",
                #"{"requestIdentifier":"r-1","environment":"Production","appAppleId":1,"bundleId":"com.example.one","#
                    + #""productId":"one.monthly","storefrontCountryCodes":["FRA"],"succeededCount":5,"failedCount":0}"#
            )
        ])
    static let rescindConsent = whole(
        AppleName("RESCIND_CONSENT"),
        [
            (
                "appData",
                #"{"appAppleId":1,"bundleId":"com.example.one","environment":"Sandbox","#
                    + #""appTransactionInfo":{"receiptType":"Sandbox","appTransactionId":"704000000000000001"}}"#
            )
        ])
    static let test = notification("TEST", transaction: nil, renewal: nil, data: [("environment", "\"Sandbox\"")])

    static func whole(_ name: AppleName, _ members: BodyEdit.Fields) -> String {
        var head: BodyEdit.Fields = [("notificationType", "\"\(name.type)\"")]
        if let subtype = name.subtype { head.append(("subtype", "\"\(subtype)\"")) }
        head += [
            ("notificationUUID", "\"\(notificationUUID)\""), ("version", "\"2.0\""),
            ("signedDate", "\(signedAt.milliseconds)"),
        ]
        return BodyEdit.edit("{}", head + members)
    }

    // MARK: Sealing

    private static let sealed: [(container: String, open: String, sealed: String)] = [
        ("data", "transactionInfo", "signedTransactionInfo"), ("data", "renewalInfo", "signedRenewalInfo"),
        ("appData", "appTransactionInfo", "signedAppTransactionInfo"),
    ]

    /// The payload of a notification in clear: what is sealed in it is signed, in its place.
    static func payload(_ decoded: String, _ chain: AppleChain = chain) throws -> [UInt8] {
        let whole = try JSONScan.topObject(Array(decoded.utf8), depthMax: Limits.jsonDepthMax)
        var changes: [(key: String, change: JSONEdit.Change)] = []
        for container in ["data", "appData"] {
            guard let object = try whole.object(container) else { continue }
            var signed: [String: (name: String, jws: String)] = [:]
            for entry in sealed where entry.container == container {
                guard let raw = object.raw(entry.open), raw.first == UInt8(ascii: "{") else { continue }
                signed[entry.open] = (entry.sealed, try chain.sign(Array(raw)))
            }
            let members = signed
            let text = JSONWriter.object { json in
                for key in object.keys {
                    if let member = members[key] {
                        json.member(member.name, member.jws)
                    } else if let raw = object.raw(key) {
                        json.key(key)
                        json.raw(raw)
                    }
                }
            }
            changes.append((container, .set(text)))
        }
        return JSONEdit.apply(changes, to: whole)
    }

    /// The body of a notification in clear.
    static func seal(_ decoded: String, _ chain: AppleChain = chain) throws -> [UInt8] {
        body(try chain.sign(payload(decoded, chain)))
    }

    static func body(_ jws: String) -> [UInt8] { JSONWriter.object { $0.member("signedPayload", jws) } }
}

/// The event of a notification in clear.
func apple(_ decoded: String, from source: Source = appleSource()) throws -> Event {
    try Apple().normalise(AppleFixtures.seal(decoded), header: { _ in nil }, from: source)
}

/// What is wrong with a body, or nil where it is read.
func appleUnreadable(_ body: [UInt8], from source: Source = appleSource()) -> String? {
    do {
        _ = try Apple().normalise(body, header: { _ in nil }, from: source)
        return nil
    } catch {
        return error.reason
    }
}
