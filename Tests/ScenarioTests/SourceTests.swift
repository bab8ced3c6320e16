import Crypto
import Foundation
import Testing

/// Every kind of source over HTTP to the real binary: what proves it, what does not, a duplicate, and the one
/// vocabulary that a receiver reads.
@Suite struct SourceTests {
    /// A source as the outside sees it.
    struct Sender: Sendable, CustomTestStringConvertible {
        var kind: String
        var settings: [String: String] = [:]
        var prove: @Sendable (_ body: String, _ secret: String) -> [(String, String)]
        /// A purchase by a user `u1`, product `premium`, transaction `T-1`, paid until `until`.
        var purchase: @Sendable (_ environment: String) -> String
        var type: String
        var testDescription: String { kind + (settings["auth"] ?? "") }
    }

    static let until: Int64 = 1_900_000_000_000
    static let at: Int64 = 1_768_464_000_000

    static let senders: [Sender] = [
        Sender(
            kind: "qonversion", prove: { _, secret in [("authorization", "Basic \(secret)")] },
            purchase: { _ in
                """
                {"event_name":"subscription_started","user_id":"u1","identity_id":"","custom_user_id":"",\
                "created_at":\(at / 1_000),"product_id":"premium","environment":"production","platform":"iOS",\
                "transaction":{"transaction_id":"T-1","original_transaction_id":"T-1","expires":\(until / 1_000)}}
                """
            }, type: "SUBSCRIPTION_STARTED"),
        Sender(
            kind: "apphud", prove: { _, secret in [("X-Apphud-Token", secret)] },
            purchase: { _ in
                """
                {"app":{"uid":"x","bundle_id":"com.example.app"},"event":{"id":"ev-1","name":"subscription_started",\
                "created_at":"2026-01-15T08:00:00.000Z","store":"app_store","properties":{"family_shared":false},\
                "receipt":{"id":"r","transaction_id":"T-1","original_transaction_id":"T-1","product_id":"premium",\
                "purchased_at":"2026-01-15T08:00:00.000Z","trial_period":false,"intro_period":false}},\
                "user":{"user_id":"u1","subscriptions":[{"original_transaction_id":"T-1","environment":"production",\
                "status":"regular","expires_at":"2030-03-17T17:46:40.000Z","autorenew_enabled":true}]}}
                """
            }, type: "SUBSCRIPTION_STARTED"),
        Sender(
            kind: "revenuecat", prove: { _, secret in [("Authorization", secret)] }, purchase: revenueCat,
            type: "SUBSCRIPTION_STARTED"),
        Sender(
            kind: "revenuecat", settings: ["auth": "\"signature\""],
            prove: { body, secret in
                let now = "\(Int(Date().timeIntervalSince1970))"
                let code = HMAC<SHA256>.authenticationCode(
                    for: Data("\(now).\(body)".utf8), using: SymmetricKey(data: Data(secret.utf8)))
                let hex = code.map { String(format: "%02x", $0) }.joined()
                return [("X-RevenueCat-Webhook-Signature", "t=\(now),v1=\(hex)")]
            }, purchase: revenueCat, type: "SUBSCRIPTION_STARTED"),
        Sender(
            kind: "adapty", prove: { _, secret in [("Authorization", secret)] },
            purchase: { _ in
                """
                {"profile_id":"p1","customer_user_id":"u1","event_type":"subscription_started",\
                "event_datetime":"2026-01-15T08:00:00.000000+0000","event_api_version":1,\
                "event_properties":{"profile_event_id":"ev-1","environment":"Production","store":"app_store",\
                "vendor_product_id":"premium","transaction_id":"T-1","original_transaction_id":"T-1",\
                "purchase_date":"2026-01-15T08:00:00.000000+0000",\
                "subscription_expires_at":"2030-03-17T17:46:40.000000+0000"},"profiles_sharing_access_level":[]}
                """
            }, type: "SUBSCRIPTION_STARTED"),
        Sender(
            kind: "sessions",
            prove: { body, secret in
                let now = "\(Int(Date().timeIntervalSince1970))"
                let key = Data(base64Encoded: String(secret.dropFirst(6))) ?? Data(secret.utf8)
                let code = HMAC<SHA256>.authenticationCode(
                    for: Data("id-1.\(now).\(body)".utf8), using: SymmetricKey(data: key))
                return [
                    ("webhook-id", "id-1"), ("webhook-timestamp", now),
                    ("webhook-signature", "v1,\(Data(code).base64EncodedString())"),
                ]
            },
            purchase: { _ in
                """
                {"type":"ACTIVATE","timestamp":"2026-01-15T08:00:00.000Z","data":{"user_id":"u1","purchase_id":"p-1",\
                "product":"premium","store":"APPLE_APP_STORE","store_transaction_id":"T-1",\
                "store_original_transaction_id":"T-1","effective_next_renewal_at_ms":\(until)}}
                """
            }, type: "ACTIVATE"),
    ]

    @Sendable private static func revenueCat(_ environment: String) -> String {
        """
        {"event":{"id":"ev-1","type":"INITIAL_PURCHASE","app_id":"a","app_user_id":"u1","aliases":["u1"],\
        "original_app_user_id":"u1","product_id":"premium","period_type":"NORMAL","event_timestamp_ms":\(at),\
        "purchased_at_ms":\(at),"expiration_at_ms":\(until),"environment":"PRODUCTION","transaction_id":"T-1",\
        "original_transaction_id":"T-1","store":"APP_STORE","is_family_share":false},"api_version":"1.0"}
        """
    }

    private func secret(of sender: Sender) -> String {
        sender.kind == "sessions" ? "whsec_" + Data(repeating: 7, count: 32).base64EncodedString() : "the-secret-text"
    }

    @Test("Proved: 200 and one message in the one vocabulary; not proved: 401 and nothing stored", arguments: senders)
    func sender(_ sender: Sender) throws {
        let receiver = try Receiver()
        let secret = secret(of: sender)
        let relay = try Relay.running(
            [.init("backend", receiver)],
            sources: [.init(name: "shop", kind: sender.kind, secrets: [secret], settings: sender.settings)])
        defer { relay.end() }
        let body = sender.purchase("PRODUCTION")
        let proof = sender.prove(body, secret)
        #expect(try relay.post("shop", [], body) == 401)
        #expect(try relay.post("shop", sender.prove(body, secret + "x"), body) == 401)
        #expect(try relay.post("shop", proof.map { ($0.0, String($0.1.dropLast())) }, body) == 401)
        #expect(try relay.database.count("events") == 0)
        #expect(try relay.post("shop", proof, body) == 200)
        #expect(try relay.post("shop", proof, body) == 200)
        #expect(try relay.post("shop", sender.prove("[]", secret), "[]") == 200)
        #expect(try relay.database.drained())
        #expect(try relay.database.count("events") == 1)
        #expect(try relay.database.count("quarantine") == 1)
        let message = try #require(receiver.received.first)
        #expect(receiver.count == 1 && message.isVerified && message.type == sender.type)
        let data = message.data
        let purchase = try #require(data["purchase"] as? [String: Any])
        let transaction = try #require(data["transaction"] as? [String: Any])
        #expect(purchase["product"] as? String == "premium")
        #expect(purchase["store"] as? String == "APPLE_APP_STORE")
        #expect(purchase["kind"] as? String == "subscription")
        #expect(data["environment"] as? String == "PRODUCTION")
        #expect(transaction["store_transaction_id"] as? String == "T-1")
        #expect(transaction["effective_next_renewal_at_ms"] as? Int64 == Self.until)
        let field = sender.kind == "qonversion" ? "install" : "user_id"
        let entitlements = try relay.ask("GET", "/v1/entitlements?\(field)=u1")
        #expect(entitlements.status == 200)
        #expect(entitlements.text.contains(#""active":true"#), "\(entitlements.text)")
    }

    @Test("A vendor's test request is answered as it needs, and stored nowhere")
    func handshake() throws {
        let relay = try Relay.running([], sources: [.init(name: "adapty", secrets: ["adapty-secret-text"])])
        defer { relay.end() }
        let client = HTTPClient(port: relay.port)
        func ask(_ body: String, _ secret: String) throws -> HTTPMessage {
            try client.request(
                "POST", "/ingest/adapty", headers: [("authorization", secret)], body: Array(body.utf8))
        }
        #expect(try ask("{}", "wrong").status == 401)
        let answer = try ask("{}", "adapty-secret-text")
        #expect(answer.status == 200 && answer["content-type"] == "application/json" && answer.text == "{}")
        #expect(try ask(#"{"adapty_check":"abc"}"#, "adapty-secret-text").text.contains("abc"))
        #expect(try relay.database.count("quarantine") == 0)
    }
}
