import Foundation
import Testing
import Vocabulary

/// What a receiver gets, in both formats. The oracles: the list of fields in this file, JSON by
/// Foundation, signatures by the harness.
@Suite struct DeliveryFormatTests {
    private static let dataKeys: Set<String> = [
        "event_id", "event_name", "source", "environment", "holder", "resolved_user_id", "transfer", "purchase",
        "transaction", "money", "original",
    ]

    @Test("format = \"standard\": the documented fields, the original embedded byte for byte")
    func standard() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        var webhook = Webhook("SUBSCRIPTION_EXPIRED", .user("u-1"), purchase: "subs_1", transaction: "7001")
        webhook.eventID = "5b7c2d10-aaaa-4bbb-8ccc-0123456789ab"
        // Odd spacing must survive.
        let body = Array("{ \n".utf8) + webhook.body.dropFirst() + Array("\n ".utf8)
        #expect(try relay.source().post(body) == 200)
        #expect(receiver.waitForAccepted(1))
        let message = receiver.received[0]
        #expect(message.isVerified)
        #expect(message.request["content-type"] == "application/json")
        #expect(message.id.utf8.count <= 36)
        #expect(Set(message.json.keys) == ["type", "timestamp", "data"])
        // Purchasely's v3 name as the type, its own as event_name.
        #expect(message.type == "SUBSCRIPTION_TERMINATED")
        #expect(message.json["timestamp"] as? String == "2026-01-15T08:00:00.000Z")
        let data = message.data
        #expect(Set(data.keys) == Self.dataKeys)
        #expect(data["event_id"] as? String == webhook.eventID)
        #expect(data["event_name"] as? String == "SUBSCRIPTION_EXPIRED")
        #expect(data["source"] as? String == "purchasely")
        #expect(data["environment"] as? String == "PRODUCTION")
        #expect(data["holder"] as? [String: String] == ["user_id": "u-1"])
        #expect(data["resolved_user_id"] is NSNull)
        #expect(data["transfer"] is NSNull)
        let purchase = data["purchase"] as? [String: String]
        #expect(
            purchase == [
                "key": "subs_1", "kind": "subscription", "product": "premium", "plan": "premium_monthly",
                "store": "APPLE_APP_STORE", "app": "com.example.app", "subscription_id": "subs_1",
            ])
        let transaction = data["transaction"] as? [String: Any] ?? [:]
        #expect(
            Set(transaction.keys) == [
                "store_transaction_id", "store_original_transaction_id", "purchased_at_ms",
                "effective_next_renewal_at_ms", "offer_type", "status",
            ])
        #expect(transaction["store_transaction_id"] as? String == "7001")
        #expect(transaction["store_original_transaction_id"] as? String == "7000")
        #expect((transaction["purchased_at_ms"] as? NSNumber)?.int64Value == webhook.purchasedAt)
        #expect((transaction["effective_next_renewal_at_ms"] as? NSNumber)?.int64Value == webhook.renewsAt)
        #expect(transaction["offer_type"] as? String == "NONE")
        #expect(transaction["status"] as? String == "AUTO_RENEWING")
        let money = data["money"] as? [String: Any] ?? [:]
        #expect(
            Set(money.keys) == [
                "amount", "currency", "amount_usd", "amount_eur", "proceeds_usd", "tax", "commission", "is_refund",
            ])
        // A string, so that no parser makes a float of it.
        #expect(money["amount_eur"] as? String == "9.99" && money["is_refund"] as? Bool == false)
        for key in money.keys where key != "amount_eur" && key != "is_refund" {
            #expect(money[key] is NSNull, "\(key)")
        }
        #expect(message.body.firstRange(of: Array("\"original\":".utf8) + body + Array("}}".utf8)) != nil)
    }

    @Test("What a webhook leaves out is null")
    func absent() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        let bare = #"{"event_name":"APP_THING","anonymous_user_id":"a","event_created_at_ms":1768464000000}"#
        let partly = """
            {"event_name":"APP_THING","anonymous_user_id":"a","event_created_at":"2026-01-15T08:00:00Z",\
            "purchasely_one_time_purchase_id":"otp_1","store_transaction_id":"7001","store_country":null}
            """
        #expect(try relay.source().post(Array(bare.utf8)) == 200)
        #expect(try relay.source().post(Array(partly.utf8)) == 200)
        #expect(receiver.waitForAccepted(2))
        let messages = receiver.received.sorted { $0.body.count < $1.body.count }
        for message in messages {
            #expect(Set(message.data.keys) == Self.dataKeys)
            #expect(message.json["timestamp"] as? String == "2026-01-15T08:00:00.000Z")
            // The relay's own id where the vendor sends none.
            #expect((message.data["event_id"] as? String)?.hasPrefix("evt_") == true)
            #expect(message.data["environment"] as? String == "PRODUCTION")
        }
        #expect(messages[0].data["purchase"] is NSNull)
        #expect(messages[0].data["transaction"] is NSNull)
        #expect(messages[0].data["money"] is NSNull)
        let purchase = messages[1].data["purchase"] as? [String: Any] ?? [:]
        #expect(purchase["key"] as? String == "otp_1")
        #expect(purchase["kind"] as? String == "one_time")
        #expect(purchase["store"] as? String == "")
        #expect(purchase["app"] as? String == "")
        for key in ["product", "plan", "subscription_id"] { #expect(purchase[key] is NSNull, "\(key)") }
        let transaction = messages[1].data["transaction"] as? [String: Any] ?? [:]
        #expect(transaction["store_transaction_id"] as? String == "7001")
        for key in transaction.keys where key != "store_transaction_id" {
            #expect(transaction[key] is NSNull, "\(key)")
        }
        #expect(transaction.count == 6)
    }

    @Test("format = \"source\": the bytes as they were sent, signed as the source signs")
    func sourceBytes() throws {
        let receiver = try Receiver()
        let relay = try Relay.running(
            [.init("backend", receiver, ["format": "\"source\""])], sources: [.init(secrets: ["first", "second"])])
        defer { relay.end() }
        let body = Array(" {\t".utf8) + Webhook("ACTIVATE", .user("u"), purchase: "subs_1").body.dropFirst()
        #expect(try relay.source(secret: "second").post(body) == 200)
        #expect(receiver.waitForAccepted(1))
        let message = receiver.received[0]
        #expect(message.isVerified)
        #expect(message.body == body)
        try checkSourceSignature(message, secret: "first")
    }

    @Test("format = \"source\": an own header takes the place of the source's of the same name")
    func ownHeaderInSource() throws {
        let (own, plain) = (try Receiver(), try Receiver())
        let format = ["format": "\"source\""]
        let relay = try Relay.running(
            [
                .init("own", own, format.merging(["headers": #"{ authorization = "Bearer of the test" }"#]) { $1 }),
                .init("plain", plain, format),
            ], sources: [.init(name: "revenuecat", secrets: ["revenuecat-secret"])])
        defer { relay.end() }
        let body = """
            {"event":{"id":"ev-1","type":"INITIAL_PURCHASE","app_id":"a","app_user_id":"u1","aliases":["u1"],\
            "original_app_user_id":"u1","product_id":"p","period_type":"NORMAL","event_timestamp_ms":1768464000000,\
            "purchased_at_ms":1768464000000,"expiration_at_ms":1999999999000,"environment":"PRODUCTION",\
            "transaction_id":"1","original_transaction_id":"1","store":"APP_STORE"},"api_version":"1.0"}
            """
        #expect(try relay.post("revenuecat", [("Authorization", "revenuecat-secret")], body) == 200)
        for (receiver, value) in [(own, "Bearer of the test"), (plain, "revenuecat-secret")] {
            #expect(receiver.waitForAccepted(1))
            let headers = receiver.received[0].request.headers
            #expect(headers.filter { $0.name == "authorization" }.map(\.value) == [value])
        }
    }

    private func checkSourceSignature(_ message: Received, secret: String) throws {
        let timestamp = try #require(message.request["x-purchasely-timestamp"])
        let signature = Source.signature(message.body, secret: secret, timestamp: timestamp)
        #expect(message.request["x-purchasely-request-signature"] == signature)
        #expect(abs((Double(timestamp) ?? 0) - Date().timeIntervalSince1970) < 300)
    }

    @Test("A derived transfer in format = \"source\" is the original with its own name, id and holders")
    func derivedInSource() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver, ["format": "\"source\""])])
        defer { relay.end() }
        var activate = Webhook("ACTIVATE", .user("u"), purchase: "subs_1")
        activate.eventID = "0c1a2b3c-1111-4222-8333-444455556666"
        #expect(try relay.source().post(Webhook("DEACTIVATE", .anonymous("a"), purchase: "subs_1")) == 200)
        #expect(try relay.source().post(activate) == 200)
        #expect(receiver.waitForAccepted(4))
        let byType = Dictionary(receiver.received.map { ($0.type, $0) }, uniquingKeysWith: { first, _ in first })
        let sent = try #require(JSONSerialization.jsonObject(with: Data(activate.body)) as? [String: Any])
        let expectations: [(String, [String: String])] = [
            ("SUBSCRIPTION_TRANSFERRED", ["anonymous_user_id": "a", "transferred_to_user_id": "u"]),
            ("SUBSCRIPTION_RECEIVED", ["user_id": "u", "transferred_from_anonymous_user_id": "a"]),
        ]
        var ids: Set<String> = [activate.eventID ?? ""]
        for (type, holders) in expectations {
            let message = try #require(byType[type])
            #expect(message.isVerified)
            try checkSourceSignature(message, secret: "source-secret")
            var rest = message.json
            ids.insert(rest["event_id"] as? String ?? "")
            let named = rest.filter { $0.key.contains("user_id") } as? [String: String]
            #expect(named == holders)
            var expected = sent
            for key in ["event_name", "event_id", "user_id", "anonymous_user_id"] + holders.keys {
                rest[key] = nil
                expected[key] = nil
            }
            // Everything else as it came.
            #expect(NSDictionary(dictionary: rest) == NSDictionary(dictionary: expected))
        }
        #expect(ids.count == 3)
    }

    @Test("Two secrets sign while one is rotated; own headers are sent; the relay names itself")
    func secretsAndHeaders() throws {
        let (old, new) = (Receiver.newSecret(), Receiver.newSecret())
        let receivers = try [Receiver(secrets: [old]), Receiver(secrets: [new])]
        let integrations = receivers.enumerated().map { number, receiver in
            Relay.Integration(
                "r\(number)", url: receiver.url, secrets: [new, old],
                ["headers": #"{ Authorization = "Bearer of the test", X-Relay = "posthouse" }"#])
        }
        let relay = try Relay.running(integrations)
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        for receiver in receivers {
            #expect(receiver.waitForAccepted(1))
            let message = receiver.received[0]
            #expect(message.isVerified)
            #expect(message.request["webhook-signature"]?.split(separator: " ").count == 2)
            #expect(message.request["authorization"] == "Bearer of the test")
            #expect(message.request["x-relay"] == "posthouse")
            #expect(message.request["user-agent"]?.hasPrefix("posthouse/") == true)
        }
        // One message, one id, wherever it goes.
        #expect(receivers[0].received[0].id == receivers[1].received[0].id)
    }
}
