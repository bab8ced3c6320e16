import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// Holders, scopes, purchases, what is about no purchase, and what cannot be read. Oracle: Apple's pages
/// appAccountToken, originalTransactionId, environment and responseBodyV2DecodedPayload, written out by hand.
@Suite("The envelope of Apple's notifications")
struct AppleEnvelopeTests {
    // MARK: Holders

    @Test("The account token of the transaction is the holder, in lower case")
    func token() throws {
        let event = try apple(AppleFixtures.notification("DID_RENEW"))
        #expect(event.holder == .user(AppleFixtures.token))
        let upper = try apple(
            AppleFixtures.notification(
                "DID_RENEW", transaction: [("appAccountToken", "\"\(AppleFixtures.spelledToken.uppercased())\"")]))
        #expect(upper.holder == event.holder && upper.facts == event.facts)
    }

    @Test(
        "What is no UUID is no token: the purchase names its holder, and no account is named",
        arguments: [
            nil, "null", "\"\"", "7", "[]", "\"jeff\"", "\"a1b2c3d400004000800000000000000f\"",
            "\"a1b2c3d4-0000-4000-8000-00000000000g\"", "\"a1b2c3d4-0000-4000-8000-00000000000\"",
            "\"a1b2c3d40-000-4000-8000-00000000000f\"", "\"{a1b2c3d4-0000-4000-8000-00000000000\"",
            "\"\(String(repeating: "a", count: 5_000))\"",
        ] as [String?])
    func anonymous(_ token: String?) throws {
        let event = try apple(AppleFixtures.notification("DID_RENEW", transaction: [("appAccountToken", token)]))
        #expect(event.holder == .anonymous("3000000000000001"))
        #expect(event.facts.map(\.holder) == [.anonymous("3000000000000001")])
        #expect(event.facts.allSatisfy { !$0.isNamed })
    }

    @Test("A source may take the token for an anonymous name; it names an account nevertheless")
    func naming() throws {
        let source = appleSource(accountToken: .anonymous)
        let named = try apple(AppleFixtures.notification("DID_RENEW"), from: source)
        #expect(named.holder == .anonymous(AppleFixtures.token) && named.facts.allSatisfy { !$0.isNamed && $0.isGiven })
        let nameless = try apple(
            AppleFixtures.notification("DID_RENEW", transaction: [("appAccountToken", nil)]), from: source)
        #expect(nameless.holder == .anonymous("3000000000000001") && nameless.facts.allSatisfy { !$0.isNamed })
    }

    @Test("A family member's purchase is shared and nameless")
    func family() throws {
        let event = try apple(
            AppleFixtures.notification(
                "SUBSCRIBED/INITIAL_BUY",
                transaction: [("inAppOwnershipType", "\"FAMILY_SHARED\""), ("appAccountToken", nil)]))
        #expect(
            event.facts == [
                Fact(
                    kind: .gain, holder: .anonymous("3000000000000001"), at: AppleFixtures.signedAt,
                    until: AppleFixtures.expiresAt, isFamilyShared: true, isNamed: false)
            ])
    }

    // MARK: Purchases

    @Test(
        "The first transaction is the key of the purchase",
        arguments: [
            ("\"o\"", "\"t\"", "o", "t"), (nil, "\"t\"", "t", "t"), ("\"\"", "\"t\"", "t", "t"),
            ("\"o\"", nil, "o", nil), ("9007199254740993", "9007199254740995", "9007199254740993", "9007199254740995"),
            (nil, nil, nil, nil), ("null", "{}", nil, nil),
        ] as [(String?, String?, String?, String?)])
    func key(_ original: String?, _ own: String?, _ key: String?, _ transaction: String?) throws {
        let event = try apple(
            AppleFixtures.notification(
                "DID_RENEW", transaction: [("originalTransactionId", original), ("transactionId", own)]))
        #expect(event.purchase?.key == key)
        #expect(event.transaction?.storeTransactionID == transaction)
        #expect(event.facts.map(\.kind) == (key == nil ? [] : [.said, .gain]), "a fact needs a purchase")
        #expect((event.holder == nil) == (key == nil))
    }

    @Test(
        "Only auto-renewable subscriptions are subscriptions",
        arguments: [
            ("\"Auto-Renewable Subscription\"", .subscription), ("\"Non-Renewing Subscription\"", .oneTime),
            ("\"Non-Consumable\"", .oneTime), ("\"Consumable\"", .oneTime), ("\"Seat\"", .subscription),
            ("7", .subscription), ("{}", .subscription), ("null", .subscription), (nil, .subscription),
        ] as [(String?, Purchase.Kind)])
    func kind(_ type: String?, _ kind: Purchase.Kind) throws {
        let event = try apple(AppleFixtures.notification("DID_RENEW", transaction: [("type", type)]))
        #expect(event.purchase?.kind == kind)
    }

    @Test(
        "A transaction without a documented type and an end is a subscription's only if there is a status",
        arguments: [nil, "\"Seat\"", "7"] as [String?])
    func untyped(_ type: String?) throws {
        let transaction: BodyEdit.Fields = [("type", type), ("expiresDate", nil)]
        let event = try apple(AppleFixtures.notification("REFUND", transaction: transaction))
        #expect(event.purchase?.kind == .subscription && event.type == "SUBSCRIPTION_REFUNDED_REVOKED")
        let other = try apple(
            AppleFixtures.notification("DID_RENEW", transaction: transaction, data: [("status", nil)]))
        #expect(other.purchase?.kind == .oneTime && other.stated.map(\.until) == [nil])
    }

    // MARK: Scopes

    @Test("The app is the configured one, else the bundle id")
    func app() throws {
        let decoded = AppleFixtures.notification("DID_RENEW")
        #expect(try apple(decoded).scope.app == "com.example.one")
        #expect(try apple(decoded, from: appleSource(app: "one")).scope.app == "one")
    }

    @Test(
        "The environment is the notification's",
        arguments: [("\"Production\"", "PRODUCTION"), ("\"Sandbox\"", "SANDBOX"), (nil, "TESTING")]
            as [(String?, String)])
    func environment(_ written: String?, _ environment: String) throws {
        let event = try apple(
            AppleFixtures.notification("DID_RENEW", data: [("environment", written)]),
            from: appleSource(defaultEnvironment: "TESTING"))
        #expect(event.scope.environment == environment)
    }

    @Test(
        "The environment of an external purchase is in its id",
        arguments: [("b2e0-1", "PRODUCTION"), ("SANDBOX_b2e0", "SANDBOX"), ("sandbox_b2e0", "PRODUCTION")])
    func externalEnvironment(_ id: String, _ environment: String) throws {
        let decoded = BodyEdit.edit(
            AppleFixtures.externalPurchase, in: "externalPurchaseToken", set: [("externalPurchaseId", "\"\(id)\"")])
        #expect(try apple(decoded).scope.environment == environment)
    }

    // MARK: Without a purchase

    @Test(
        "What is about no purchase is passed on without holder and purchase",
        arguments: [
            (AppleFixtures.externalPurchase, "EXTERNAL_PURCHASE_TOKEN/UNREPORTED"),
            (AppleFixtures.summary, "RENEWAL_EXTENSION/SUMMARY"),
            (AppleFixtures.rescindConsent, "RESCIND_CONSENT"),
            (AppleFixtures.notification("SOMETHING_NEW", transaction: nil, renewal: nil), "SOMETHING_NEW"),
            (AppleFixtures.notification("DID_RENEW", transaction: nil, renewal: nil), "DID_RENEW"),
        ])
    func withoutPurchase(_ decoded: String, _ name: String) throws {
        let event = try apple(decoded)
        #expect(event.name == name && event.holder == nil && event.purchase == nil && event.transaction == nil)
        #expect(event.facts.isEmpty && event.links.isEmpty && event.change == nil)
        #expect(event.scope.app == "com.example.one" && event.vendorEventID == AppleFixtures.notificationUUID)
        #expect(event.decoded == Array(decoded.utf8))
    }

    // MARK: The document

    @Test("The sealed parts are opened in their places, byte for byte")
    func document() throws {
        let inner = "{ \"transactionId\" : \"1\",\n \"x\":1.50, \"y\":\"\\u00e9/\\/\" }"
        let chain = AppleFixtures.chain
        let sealed = try chain.sign(Array(inner.utf8))
        let payload =
            "{ \"data\":{ \"a\" : 1.0 , \"signedTransactionInfo\":\"\(sealed)\","
            + "\"signedRenewalInfo\":null,\"z\":[ 1 ] } ,\n\"notificationType\":\"X\", \"signedDate\":5}"
        let body = AppleFixtures.body(try chain.sign(Array(payload.utf8)))
        let expected =
            "{ \"data\":{\"a\":1.0,\"transactionInfo\":\(inner),\"signedRenewalInfo\":null,\"z\":[ 1 ]} ,\n"
            + "\"notificationType\":\"X\", \"signedDate\":5}"
        #expect(Apple().decoded(body, answer: nil).map { String(decoding: $0, as: UTF8.self) } == expected)
        let event = try Apple().normalise(body, header: { _ in nil }, from: appleSource())
        #expect(event.decoded.map { String(decoding: $0, as: UTF8.self) } == expected)
    }

    @Test("A member that has the name already keeps it")
    func takenName() throws {
        let chain = AppleFixtures.chain
        let sealed = try chain.sign(Array("{}".utf8))
        let payload = "{\"data\":{\"transactionInfo\":7,\"signedTransactionInfo\":\"\(sealed)\"}}"
        let body = AppleFixtures.body(try chain.sign(Array(payload.utf8)))
        let expected = "{\"data\":{\"transactionInfo\":7,\"signedTransactionInfo\":{}}}"
        #expect(Apple().decoded(body, answer: nil).map { String(decoding: $0, as: UTF8.self) } == expected)
    }

    @Test("The parts inside need no proof of their own: the one around them covers them")
    func innerProof() throws {
        let chain = AppleFixtures.chain
        let inner = String(decoding: Base64URL.encode(Array(#"{"transactionId":"9"}"#.utf8)), as: UTF8.self)
        let payload = AppleFixtures.notification(
            "DID_RENEW", transaction: nil, renewal: nil,
            data: [("signedTransactionInfo", "\"bm90IEpTT04.\(inner).\"")])
        let body = AppleFixtures.body(try chain.sign(Array(payload.utf8)))
        let event = try Apple().normalise(body, header: { _ in nil }, from: appleSource())
        #expect(event.transaction?.storeTransactionID == "9")
    }

    // MARK: Unreadable

    /// Each with the beginning of its reason, which names the place.
    private static let broken: [(data: BodyEdit.Fields, reason: String)] = [
        ([("signedTransactionInfo", "\"abc\"")], "data.signedTransactionInfo: the JWS does not have three parts"),
        ([("signedTransactionInfo", "\"a.b=.c\"")], "data.signedTransactionInfo: the JWS payload is not base64url"),
        ([("signedTransactionInfo", "\"a.bm90.c\"")], "data.signedTransactionInfo: the payload is not one strict JSON"),
        ([("signedTransactionInfo", "7")], "data.signedTransactionInfo: not a string"),
        ([("signedTransactionInfo", "{}")], "data.signedTransactionInfo: not a string"),
        ([("signedRenewalInfo", "\"a.W10.c\"")], "data.signedRenewalInfo: the payload is not one strict JSON object"),
    ]

    @Test("A part inside that cannot be opened is quarantined with its place")
    func brokenInside() throws {
        for (data, reason) in Self.broken {
            let payload = AppleFixtures.notification("DID_RENEW", transaction: nil, renewal: nil, data: data)
            let body = AppleFixtures.body(try AppleFixtures.chain.sign(Array(payload.utf8)))
            #expect(appleUnreadable(body)?.hasPrefix(reason) == true, "\(reason): \(appleUnreadable(body) ?? "")")
            #expect(Apple().decoded(body, answer: nil) == nil)
        }
    }

    @Test(
        "A payload without a readable envelope is quarantined",
        arguments: [
            ("notificationType", nil, "notificationType is missing"),
            ("notificationType", "\"\"", "notificationType is missing"),
            ("notificationType", "7", "notificationType cannot be read"),
            ("signedDate", nil, "no signedDate is there"), ("signedDate", "\"x\"", "signedDate cannot be read"),
            ("signedDate", "1.5", "signedDate cannot be read"),
            ("signedDate", "9223372036854775807", "signedDate lies outside the years"),
            ("subtype", "\"\(String(repeating: "S", count: 1_024))\"", "notificationType and subtype together"),
        ] as [(String, String?, String)])
    func envelope(_ key: String, _ raw: String?, _ reason: String) throws {
        let body = try AppleFixtures.seal(AppleFixtures.notification("DID_RENEW", top: [(key: key, raw: raw)]))
        #expect(appleUnreadable(body)?.hasPrefix(reason) == true, "\(appleUnreadable(body) ?? "it was read")")
    }

    @Test(
        "A body that is no sealed notification is unreadable",
        arguments: [
            ("", "the body is not one strict JSON object"), ("[]", "the body is not one strict JSON object"),
            ("{}", "signedPayload is missing"), (#"{"signedPayload":7}"#, "signedPayload is missing"),
            (#"{"signedPayload":null}"#, "signedPayload is missing"),
            (#"{"signedPayload":""}"#, "signedPayload: the JWS does not have three parts"),
            (#"{"signedPayload":"a.W10.c"}"#, "signedPayload: the payload is not one strict JSON object"),
            (#"{"signedPayload":"a.e30.c"}"#, "notificationType is missing"),
            (#"{"signedPayload":"\u0061.e30.c"}"#, "notificationType is missing"),
            (#"{"signedPayload":"a.\u006530.c"}"#, "signedPayload: the JWS payload is not base64url"),
        ])
    func body(_ body: String, _ reason: String) {
        let given = appleUnreadable(Array(body.utf8))
        #expect(given?.hasPrefix(reason) == true, "\(given ?? "it was read")")
    }

    @Test("An error outside the envelope costs no event")
    func tolerant() throws {
        let event = try apple(
            AppleFixtures.notification(
                "DID_RENEW",
                transaction: [
                    ("expiresDate", "1.5"), ("purchaseDate", "\"x\""), ("offerType", "{}"), ("isUpgraded", "\"x\""),
                    ("productId", "7"), ("inAppOwnershipType", "[]"),
                ], renewal: [("autoRenewStatus", "\"x\"")], data: [("status", "\"x\"")],
                top: [("notificationUUID", "null"), ("version", "{}"), ("more", "[[]]")]))
        #expect(event.vendorEventID == nil && event.purchase?.product == "7" && event.stated.map(\.until) == [nil])
    }

    // MARK: Handshake

    @Test("A test notification is answered with a JSON object; nothing else is")
    func handshake() throws {
        let answer = Apple().handshake(try AppleFixtures.seal(AppleFixtures.test))
        #expect(answer.map { String(decoding: $0, as: UTF8.self) } == #"{"notificationType":"TEST"}"#)
        #expect(Apple().handshake(try AppleFixtures.seal(AppleFixtures.summary)) == nil)
        #expect(Apple().handshake(try AppleFixtures.seal(AppleFixtures.notification("DID_RENEW"))) == nil)
        for body in ["", "{}", "[]", #"{"notificationType":"TEST"}"#, #"{"signedPayload":"a.e30.c"}"#] {
            #expect(Apple().handshake(Array(body.utf8)) == nil)
        }
        let long = BodyEdit.edit(
            AppleFixtures.test, [("more", "\"\(String(repeating: "a", count: 8_192))\"")])
        #expect(Apple().handshake(try AppleFixtures.seal(long)) == nil)
        #expect(try apple(AppleFixtures.test).name == "TEST")
    }

    /// The limit of a handshake stands between the two: the longest without a transaction, the shortest with one.
    @Test("A test notification is shorter than the limit, a transaction's longer")
    func handshakeSize() throws {
        #expect(try AppleFixtures.seal(AppleFixtures.test).count < 6_000)
        #expect(try AppleFixtures.seal(AppleFixtures.notification("DID_RENEW", renewal: nil)).count > 8_192)
    }
}
