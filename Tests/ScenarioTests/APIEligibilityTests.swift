import Foundation
import Testing
import Vocabulary

/// The pitfalls of the introductory offer, over HTTP to the real binary: for a receipt as Apple sends it, and for a
/// holder by what the ledger knows.
@Suite struct APIEligibilityTests {
    private static let groups = """
        [[subscription_group]]
        name = "G1"
        products = ["gold.month", "gold.year"]
        [[subscription_group]]
        name = "G2"
        products = ["silver.month"]

        """
    private static let past = "1700000000000"
    private static let future = "4100000000000"

    private struct Answer: Equatable {
        var eligibility: String
        var hasReason: Bool
    }

    private func ask(_ relay: Relay, _ method: String, _ path: String, _ body: String = "") throws -> String {
        let answer = try relay.ask(method, path, body)
        #expect(answer.status == 200, "\(answer.text)")
        let json = try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any]
        #expect((json?["reason"] as? String)?.isEmpty == false, "\(answer.text)")
        return json?["eligibility"] as? String ?? answer.text
    }

    @Test("For a receipt: group, refund, grace, flags as booleans and texts, the server's clock")
    func receipts() throws {
        let relay = try Relay.running([], settings: Self.groups)
        defer { relay.end() }
        func transaction(_ fields: String, group: String = "G1", product: String = "gold.month") -> String {
            #"{"product_id":"\#(product)","subscription_group_identifier":"\#(group)",\#(fields)}"#
        }
        func judge(
            _ transactions: [String], pending: [String] = [], offer: String = "introductory", group: String = "G1"
        ) throws -> String {
            try ask(
                relay, "POST", "/v1/eligibility",
                """
                {"receipt":{"latest_receipt_info":[\(transactions.joined(separator: ","))],\
                "pending_renewal_info":[\(pending.joined(separator: ","))]},"group":"\(group)","offer":"\(offer)"}
                """)
        }
        let lapsed = transaction(#""expires_date_ms":"\#(Self.past)""#)
        #expect(try judge([]) == "ELIGIBLE")
        #expect(try judge([lapsed]) == "ELIGIBLE")
        #expect(try judge([transaction(#""expires_date_ms":"\#(Self.future)""#)]) == "NOT_ELIGIBLE")
        #expect(
            try judge([transaction(#""expires_date_ms":\#(Self.past),"is_trial_period":"true""#)]) == "NOT_ELIGIBLE")
        #expect(
            try judge([transaction(#""expires_date_ms":"\#(Self.past)","is_in_intro_offer_period":true"#)])
                == "NOT_ELIGIBLE")
        #expect(
            try judge([transaction(#""expires_date_ms":"\#(Self.past)","is_trial_period":"false""#)]) == "ELIGIBLE")
        #expect(
            try judge([transaction(#""expires_date_ms":"\#(Self.past)","cancellation_date_ms":"\#(Self.past)""#)])
                == "NOT_ELIGIBLE")
        // Another group's trial and another group's running subscription say nothing of this one.
        let other = transaction(
            #""expires_date_ms":"\#(Self.future)","is_trial_period":"true""#, group: "G2", product: "silver.month")
        #expect(try judge([other, lapsed]) == "ELIGIBLE")
        let pending =
            #"{"product_id":"gold.month","auto_renew_product_id":"gold.month","grace_period_expires_date_ms":"\#(Self.future)"}"#
        #expect(try judge([lapsed], pending: [pending]) == "ENTITLED")
        #expect(try judge([transaction(#""expires_date":"whenever""#)]) == "UNKNOWN")
        #expect(try judge([], offer: "promotional") == "NOT_ELIGIBLE")
        let renewal = #"{"product_id":"gold.year","auto_renew_product_id":"gold.year"}"#
        #expect(try judge([lapsed], pending: [renewal], offer: "promotional") == "ELIGIBLE")
        let broken = #"{"receipt":{"status":21007},"group":"G1","offer":"introductory"}"#
        #expect(try ask(relay, "POST", "/v1/eligibility", broken) == "UNKNOWN")
        #expect(try relay.ask("POST", "/v1/eligibility", "{}").status == 400)
    }

    @Test("For a holder: what the ledger knows of trials, refunds, grace and running subscriptions")
    func holders() throws {
        let relay = try Relay.running([], settings: Self.groups)
        defer { relay.end() }
        func sendEvent(
            _ user: String, _ event: String, at: Int64 = Webhook.epoch, until: Int64, product: String = "gold.month",
            _ more: String = ""
        ) throws {
            let body = """
                {"event_name":"\(event)","user_id":"\(user)","event_created_at_ms":\(at),"environment":"PRODUCTION",\
                "store":"APPLE_APP_STORE","product":"\(product)","store_transaction_id":"t-\(user)",\
                "purchasely_subscription_id":"subs_\(user)","effective_next_renewal_at_ms":\(until)\(more)}
                """
            #expect(try relay.source().post(Array(body.utf8)) == 200)
        }
        let past = Webhook.epoch - 1
        let future: Int64 = 4_100_000_000_000
        try sendEvent("lapsed", "ACTIVATE", at: past - 10, until: past, #","offer_type":"NONE""#)
        try sendEvent("lapsed", "DEACTIVATE", until: past, #","offer_type":"NONE""#)
        try sendEvent("running", "ACTIVATE", until: future)
        try sendEvent("trial", "ACTIVATE", at: past - 10, until: past, #","offer_type":"FREE_TRIAL""#)
        try sendEvent("trial", "DEACTIVATE", until: past, #","offer_type":"FREE_TRIAL""#)
        try sendEvent("refunded", "ACTIVATE", at: past - 10, until: past)
        try sendEvent("refunded", "SUBSCRIPTION_REFUNDED_REVOKED", until: past, #","subscription_status":"REVOKED""#)
        try sendEvent("grace", "GRACE_PERIOD_STARTED", until: future, #","subscription_status":"IN_GRACE_PERIOD""#)
        try sendEvent("grace", "ACTIVATE", at: past - 10, until: future, #","subscription_status":"IN_GRACE_PERIOD""#)
        let expected = [
            "nobody": "ELIGIBLE", "lapsed": "ELIGIBLE", "running": "NOT_ELIGIBLE", "trial": "NOT_ELIGIBLE",
            "refunded": "NOT_ELIGIBLE", "grace": "ENTITLED",
        ]
        for (user, eligibility) in expected {
            let path = "/v1/eligibility?user_id=\(user)&offer=introductory&group="
            #expect(try ask(relay, "GET", path + "G1") == eligibility, "\(user)")
            #expect(try ask(relay, "GET", path + "G2") == "ELIGIBLE", "\(user)")
            #expect(try ask(relay, "GET", path + "unheard-of") == "UNKNOWN", "\(user)")
        }
        let promotional = "/v1/eligibility?offer=promotional&group=G1&user_id="
        #expect(try ask(relay, "GET", promotional + "lapsed") == "ELIGIBLE")
        #expect(try ask(relay, "GET", promotional + "nobody") == "NOT_ELIGIBLE")
        let several = try relay.ask("GET", "/v1/eligibility?user_id=trial&offer=introductory&group=G1&group=G2")
        let json = try JSONSerialization.jsonObject(with: Data(several.body)) as? [String: Any]
        let rows = json?["data"] as? [[String: Any]] ?? []
        #expect(rows.compactMap { $0["eligibility"] as? String } == ["NOT_ELIGIBLE", "ELIGIBLE"])
    }

    @Test("Without a token, with a wrong one, without the scope: 401, 401, 403; other tokens see only their source")
    func tokens() throws {
        let relay = try Relay.running([])
        defer { relay.end() }
        for path in ["/v1/entitlements?user_id=u", "/v3/users/u", "/v1/openapi.json", "/v1/nothing", "/v3"] {
            #expect(try relay.ask("GET", path, token: nil).status == 401, "\(path)")
            #expect(try relay.ask("GET", path, token: "wrong").status == 401, "\(path)")
        }
        #expect(try relay.ask("GET", "/v1/nothing").status == 404)
        #expect(try relay.ask("GET", "/v1/openapi.json").status == 200)
        #expect(try relay.ask("GET", "/v1/entitlements?user_id=a&install=b").status == 400)
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("jeff"), purchase: "subs_1")) == 200)
        let first = try relay.ask("GET", "/v1/entitlements?user_id=jeff")
        let tag = try #require(first["etag"])
        let again = try HTTPClient(port: relay.port).request(
            "GET", "/v1/entitlements?user_id=jeff",
            headers: [("authorization", "Bearer \(Relay.apiToken)"), ("if-none-match", tag)])
        #expect(again.status == 304 && again.body.isEmpty)
        #expect(try relay.ask("GET", "/v1/history?user_id=jeff").text.contains("ACTIVATE"))
        #expect(try relay.ask("GET", "/v1/entitlements?user_id=jeff&environment=SANDBOX").text.contains(#""data":[]"#))
    }
}
