import Crypto
import CryptoExtras
import Foundation
import Testing

/// Webhooks that are not what a store signs for this source, each wrong in one way, over HTTP to the real binary.
/// Oracle: RFC 7515 and RFC 7518, Apple's "JWSTransactionDecodedPayload", Google's "Authentication for push
/// subscriptions" and Stripe's "Verify webhook signatures manually", by hand; and psql.
@Suite struct StoreRefusalTests {
    private struct Attempt {
        let name: String
        let body: String
        var headers: [(String, String)] = []

        init(_ name: String, _ body: String, _ headers: [(String, String)] = []) {
            (self.name, self.body, self.headers) = (name, body, headers)
        }
    }

    /// Sends what must be refused, then what must not: the source works, and the refusals are not for another reason.
    private static func check(
        _ relay: Relay, _ source: String, refused: [Attempt], taken: [Attempt], first: Attempt? = nil
    ) throws {
        if let first {
            // The keys of signatures are fetched in the background.
            #expect(try eventually(within: 180) { try relay.post(source, first.headers, first.body) == 200 })
        }
        for attempt in refused {
            let status = try relay.post(source, attempt.headers, attempt.body)
            #expect(status == 401, "\(source), \(attempt.name)")
        }
        for table in ["events", "quarantine", "purchases", "identities", "messages", "transactions", "entitlements"] {
            #expect(try relay.database.count(table) == 0, "\(table)")
        }
        for attempt in taken {
            let status = try relay.post(source, attempt.headers, attempt.body)
            #expect(status == 200, "\(source), \(attempt.name)")
        }
        #expect(try relay.database.count("events") == 1, "each was the same event")
        #expect(try relay.database.count("quarantine") == 0)
    }

    // MARK: Apple

    private static let account = "0a1b2c3d-0000-4000-8000-00000000000a"

    /// The payload of a notification.
    private static func payload(
        _ store: AppStore, signedAt: Int64 = Webhook.epoch, bundle: String? = AppStore.bundleID,
        environment: String = "Production"
    ) throws -> String {
        let transaction = try store.sign(
            #"""
            {"transactionId":"1","originalTransactionId":"1","bundleId":"\#(AppStore.bundleID)","productId":"plus",
            "purchaseDate":\#(Webhook.epoch),"expiresDate":\#(Webhook.epoch + Webhook.day),"quantity":1,
            "type":"Auto-Renewable Subscription","inAppOwnershipType":"PURCHASED","signedDate":\#(signedAt),
            "environment":"\#(environment)","appAccountToken":"\#(account)"}
            """#)
        let app = bundle.map { #""bundleId":"\#($0)","# } ?? ""
        return #"""
            {"notificationType":"SUBSCRIBED","subtype":"INITIAL_BUY","notificationUUID":"u-1","version":"2.0",
            "signedDate":\#(signedAt),"data":{\#(app)"environment":"\#(environment)","status":1,
            "signedTransactionInfo":"\#(transaction)"}}
            """#
    }

    private static func sealed(_ jws: String) -> String { #"{"signedPayload":"\#(jws)"}"# }

    /// Signed with a key under a header with these certificates.
    private static func jws(
        _ payload: String, _ certificates: [String], _ key: P256.Signing.PrivateKey, more: String = ""
    ) throws -> String {
        let input = AppStore.signingInput(payload, under: certificates, more: more)
        return input + "." + Google.base64url(try key.signature(for: Data(input.utf8)).rawRepresentation)
    }

    @Test("Apple: another algorithm, another chain, another app or a changed byte is answered 401; nothing is stored")
    func apple() throws {
        let (store, foreign) = (try AppStore(), try AppStore())
        let payload = try Self.payload(store)
        let (own, others, key) = (store.certificates, foreign.certificates, store.key)
        let input = AppStore.signingInput(payload, under: own)
        let signature = try key.signature(for: Data(input.utf8))
        let good = input + "." + Google.base64url(signature.rawRepresentation)
        let leaf = try #require(Data(base64Encoded: own[0]))
        let hmacInput = AppStore.signingInput(payload, algorithm: "HS256", under: own)
        let hmac = HMAC<SHA256>.authenticationCode(for: Data(hmacInput.utf8), using: SymmetricKey(data: leaf))
        let changed = AppStore.signingInput(payload.replacing("u-1", with: "u-2"), under: own)
        let urlSafe = own.map { $0.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "") }
        let refused: [(name: String, jws: String)] = [
            ("alg none", AppStore.signingInput(payload, algorithm: "none", under: own) + "."),
            ("HS256 with the certificate", hmacInput + "." + Google.base64url(Data(hmac))),
            ("x5c of one", try Self.jws(payload, [own[0]], key)),
            ("x5c of two", try Self.jws(payload, [own[0], own[1]], key)),
            ("x5c of four", try Self.jws(payload, own + [own[2]], key)),
            ("x5c of none", try Self.jws(payload, [], key)),
            ("x5c in base64url", try Self.jws(payload, urlSafe, key)),
            ("not valid at signedDate", try store.sign(try Self.payload(store, signedAt: 1_000))),
            ("not valid any more at signedDate", try store.sign(try Self.payload(store, signedAt: 32_503_680_000_000))),
            ("another authority", try foreign.sign(payload)),
            ("another authority, with the root", try Self.jws(payload, Array(others[..<2]) + [own[2]], foreign.key)),
            ("another root", try Self.jws(payload, Array(own[..<2]) + [others[2]], key)),
            ("another intermediate", try Self.jws(payload, [own[0], others[1], own[2]], key)),
            ("the root as intermediate", try Self.jws(payload, [own[0], own[2], own[2]], key)),
            ("another key", try Self.jws(payload, own, foreign.key)),
            ("a signature in DER", input + "." + Google.base64url(signature.derRepresentation)),
            ("no signature", input + "."),
            ("a changed payload", changed + "." + Google.base64url(signature.rawRepresentation)),
            ("a critical extension", try Self.jws(payload, own, key, more: #""crit":["b64"],"b64":false,"#)),
            ("another app", try store.sign(try Self.payload(store, bundle: "com.example.other"))),
            ("no app", try store.sign(try Self.payload(store, bundle: nil))),
            ("Xcode", try store.sign(try Self.payload(store, environment: "Xcode"))),
            ("LocalTesting", try store.sign(try Self.payload(store, environment: "LocalTesting"))),
            ("two parts", input),
        ]
        let bodies = refused.map { Attempt($0.name, Self.sealed($0.jws)) }
        // Version 1, and what only looks like version 2.
        let unsealed = [
            Attempt("version 1", #"{"notification_type":"DID_RENEW","password":"p"}"#), Attempt("empty", ""),
            Attempt("unsealed", payload), Attempt("no text", #"{"signedPayload":7}"#),
            Attempt("nested deeply", String(repeating: "[", count: 100_000)),
        ]
        let relay = try Relay.running([], sources: [store.source])
        defer { relay.end() }
        try Self.check(
            relay, "apple", refused: bodies + unsealed,
            taken: [Attempt("good", Self.sealed(good)), Attempt("again", Self.sealed(good))])
    }

    // MARK: Google

    @Test("Google Play: a token that Google did not sign for this subscription now is answered 401; nothing is stored")
    func googlePlay() throws {
        let google = try Google()
        let relay = try Relay([])
        defer { relay.end() }
        try relay.configure(
            [], sources: [try google.source(asksAPI: false, in: relay.directory, ["environment": "\"PRODUCTION\""])])
        try relay.start()
        let body = Google.push(4, "token-" + String(repeating: "0123456789", count: 14), id: "1")
        let other = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        let secret = SymmetricKey(data: Data(try Google.publicKey().utf8))
        let good = try Google.token()
        let parts = good.split(separator: ".")
        let tokens: [(name: String, token: String)] = [
            ("another audience", try Google.token(["aud": #""https://other.example.com/ingest/play""#])),
            ("a list of audiences", try Google.token(["aud": "[\"\(Google.audience)\"]"])),
            ("no audience", try Google.token(["aud": nil])),
            ("another sender", try Google.token(["email": #""push@other-project.iam.gserviceaccount.com""#])),
            ("no sender", try Google.token(["email": nil])),
            ("a sender in capitals", try Google.token(["email": "\"\(Google.sender.uppercased())\""])),
            ("another issuer", try Google.token(["iss": #""https://accounts.example.com""#])),
            ("unverified", try Google.token(["email_verified": "false"])),
            ("verified as a text", try Google.token(["email_verified": #""true""#])),
            ("not said to be verified", try Google.token(["email_verified": nil])),
            ("expired", try Google.token(seconds: 3_600 + 600)),
            ("issued ahead", try Google.token(seconds: -600)),
            ("without an end", try Google.token(["exp": nil])),
            ("an unknown key", try Google.token(keyID: "key-2")),
            (
                "another key of that name",
                try Google.token { try other.signature(for: $0, padding: .insecurePKCS1v1_5).rawRepresentation }
            ),
            ("alg none", try Google.token(algorithm: "none") { _ in Data() }),
            (
                "HS256 with the public key",
                try Google.token(algorithm: "HS256") { Data(HMAC<SHA256>.authenticationCode(for: $0, using: secret)) }
            ),
            ("two parts", parts[0] + "." + parts[1]), ("four parts", good + ".x"), ("no token", ""),
        ]
        let bearers = tokens.map { Attempt($0.name, body, [("Authorization", "Bearer \($0.token)")]) }
        let others = [
            Attempt("no header", body), Attempt("another scheme", body, [("Authorization", "Basic \(good)")]),
            Attempt("in the wrong header", body, [("X-Authorization", "Bearer \(good)")]),
        ]
        let proof = [("Authorization", "Bearer \(good)")]
        let test = Google.push(#""testNotification":{"version":"1.0"}"#, id: "test")
        let short = try Google.token(["iss": #""accounts.google.com""#])
        try Self.check(
            relay, "play", refused: bearers + others,
            taken: [
                Attempt("good", body, proof),
                Attempt("the short issuer", body, [("Authorization", "Bearer \(short)")]),
            ],
            first: Attempt("test", test, proof))
    }

    // MARK: Stripe

    @Test("Stripe: an old time, another scheme or secret, or a changed byte is answered 401; nothing is stored")
    func stripe() throws {
        let next = "whsec_another0123456789abcdef"
        var source = Stripe.source
        source.secrets.append(next)
        let relay = try Relay.running([], sources: [source])
        defer { relay.end() }
        let customer = Stripe.Customer(id: "cus_1", subscription: "sub_1")
        let start = Webhook.epoch / 1_000
        let body = Stripe.event(
            "customer.subscription.created", id: "evt_1", at: start,
            customer.subscription("active", from: start, to: start + 86_400, user: "ada"))
        let bytes = Array(body.utf8)
        let (time, code) = Stripe.proof(of: bytes)
        let old = Stripe.proof(of: bytes, age: 302)
        let unprefixed = Stripe.proof(of: bytes, secret: String(Stripe.secret.dropFirst("whsec_".count)))
        let foreign = Stripe.proof(of: bytes, secret: "whsec_unknown")
        let rolled = Stripe.proof(of: bytes, secret: next)
        let headers: [(name: String, value: String)] = [
            ("302 s old", "t=\(old.time),v1=\(old.code)"), ("v0 alone", "t=\(time),v0=\(code)"),
            ("no scheme", "t=\(time),\(code)"), ("the secret without its prefix", "t=\(time),v1=\(unprefixed.code)"),
            ("another secret", "t=\(time),v1=\(foreign.code)"), ("no time", "v1=\(code)"),
            ("two times", "t=\(time),t=\(time),v1=\(code)"), ("no digits", "t=now,v1=\(code)"),
            ("a time in ms", "t=\(time)000,v1=\(code)"), ("another time", "t=\((Int(time) ?? 0) + 1),v1=\(code)"),
            ("half a signature", "t=\(time),v1=\(code.prefix(32))"), ("no signature", "t=\(time)"), ("empty", ""),
        ]
        var refused = headers.map { Attempt($0.name, body, [("Stripe-Signature", $0.value)]) }
        let proof = [("Stripe-Signature", "t=\(time),v1=\(code)")]
        refused += [
            Attempt("no header", body), Attempt("a changed byte", body.replacing("ada", with: "adb"), proof),
            Attempt("written anew", body.replacing("\n", with: ""), proof), Attempt("a byte more", body + " ", proof),
        ]
        let fresh = Stripe.proof(of: bytes)
        let taken = [
            ("good", "t=\(fresh.time),v1=\(fresh.code)"),
            ("the second of two", "t=\(fresh.time),v1=\(foreign.code),v1=\(fresh.code)"),
            ("beside another scheme", "t=\(fresh.time),v0=\(foreign.code),v1=\(fresh.code)"),
            ("in capitals", "t=\(fresh.time),v1=\(fresh.code.uppercased())"),
            ("by the other secret", "t=\(rolled.time),v1=\(rolled.code)"),
        ]
        try Self.check(
            relay, "stripe", refused: refused,
            taken: taken.map { Attempt($0.0, body, [("Stripe-Signature", $0.1)]) })
    }
}
