import Crypto
import Foundation
import Testing
import Vocabulary

/// Transfers of sources that name no transaction, logins of an app's own sessions, and one person with purchases from
/// two vendors: over HTTP, in any order.
@Suite struct SourceTransferTests {
    private static let at: Int64 = 1_768_464_000_000

    private static func revenueCat(
        _ type: String, _ user: String, transaction: String, at offset: Int64, environment: String
    ) -> String {
        """
        {"event":{"id":"\(type)-\(user)-\(transaction)-\(offset)-\(environment)","type":"\(type)","app_id":"a",\
        "app_user_id":"\(user)","aliases":["\(user)"],"original_app_user_id":"\(user)","product_id":"p-\(transaction)",\
        "period_type":"NORMAL","event_timestamp_ms":\(at + offset),"purchased_at_ms":\(at + offset),\
        "expiration_at_ms":\(at + 10_000_000_000),"environment":"\(environment)","transaction_id":"\(transaction)",\
        "original_transaction_id":"\(transaction)","store":"APP_STORE"},"api_version":"1.0"}
        """
    }

    @Test("A TRANSFER without a transaction moves every purchase of the old holder, in every order of arrival")
    func listTransfer() throws {
        let receiver = try Receiver()
        let relay = try Relay.running(
            [.init("backend", receiver, ["events": #"["SUBSCRIPTION_*ED"]"#])],
            sources: [.init(name: "revenuecat", secrets: ["revenuecat-secret"])])
        defer { relay.end() }
        var environments: [String] = []
        for (index, order) in permutations([0, 1, 2, 3]).enumerated() {
            let environment = "ENV\(index)"
            environments.append(environment)
            let bodies = [
                Self.revenueCat(
                    "INITIAL_PURCHASE", "$RCAnonymousID:a", transaction: "1", at: 0, environment: environment),
                Self.revenueCat(
                    "INITIAL_PURCHASE", "$RCAnonymousID:a", transaction: "2", at: 5, environment: environment),
                """
                {"event":{"id":"transfer-\(environment)","type":"TRANSFER","event_timestamp_ms":\(Self.at + 100_000),\
                "transferred_from":["$RCAnonymousID:a"],"transferred_to":["jeff"],"store":"APP_STORE","app_id":"a",\
                "environment":"\(environment)"},"api_version":"1.0"}
                """,
                Self.revenueCat("RENEWAL", "jeff", transaction: "1", at: 200_000, environment: environment),
            ]
            for event in order + [order[0]] {
                #expect(try relay.post("revenuecat", [("Authorization", "revenuecat-secret")], bodies[event]) == 200)
            }
        }
        #expect(try relay.database.drained())
        for environment in environments {
            let reported = receiver.received.filter { $0.data["environment"] as? String == environment }
            for transaction in ["1", "2"] {
                for type in ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"] {
                    let messages = reported.filter { message in
                        let purchase = message.data["purchase"] as? [String: Any]
                        return message.type == type && purchase?["key"] as? String == transaction
                    }
                    #expect(messages.count == 1, "\(environment) \(transaction) \(type)")
                    let transfer = messages.first?.data["transfer"] as? [String: Any]
                    #expect(transfer?["from"] as? [String: String] == ["anonymous_user_id": "$RCAnonymousID:a"])
                    #expect(transfer?["to"] as? [String: String] == ["user_id": "jeff"])
                }
            }
            // Not by the API: that knows no environment but those of the stores and of the configuration.
            let products = try relay.database.rows(
                """
                SELECT p.product FROM entitlements e JOIN purchases p ON p.id = e.purchase
                WHERE e.active AND e.holder = 'user:jeff' AND p.environment = '\(environment)'
                """
            ).map { $0[0] }
            #expect(Set(products) == ["p-1", "p-2"])
        }
        // journalctl and trace find what moved by the transaction that the transfer did not name.
        let trace = try relay.command("trace", "2", "--config", relay.configuration)
        #expect(trace.output.contains("SUBSCRIPTION_RECEIVED"), "\(trace.output) \(trace.errors)")
    }

    @Test("A web purchase that is redeemed passes once, also where a TRANSFER says so, too, in every order of arrival")
    func redemption() throws {
        let receiver = try Receiver()
        let relay = try Relay.running(
            [.init("backend", receiver, ["events": #"["SUBSCRIPTION_*ED"]"#])],
            sources: [.init(name: "revenuecat", secrets: ["revenuecat-secret"])])
        defer { relay.end() }
        let orders = permutations([0, 1, 2])
        for (index, order) in orders.enumerated() {
            let environment = "ENV\(index)"
            let bodies = [
                Self.revenueCat(
                    "INITIAL_PURCHASE", "$RCAnonymousID:web", transaction: "1", at: 0, environment: environment),
                """
                {"event":{"id":"redeemed-\(environment)","type":"PURCHASE_REDEEMED",\
                "event_timestamp_ms":\(Self.at + 100_000),"redeemed_from":["$RCAnonymousID:web"],\
                "redeemed_by":["jeff"],"redemption_outcome":"transfer","app_id":"a",\
                "environment":"\(environment)"},"api_version":"1.0"}
                """,
                """
                {"event":{"id":"transfer-\(environment)","type":"TRANSFER","event_timestamp_ms":\(Self.at + 100_500),\
                "transferred_from":["$RCAnonymousID:web"],"transferred_to":["jeff"],"store":"RC_BILLING","app_id":"a",\
                "environment":"\(environment)"},"api_version":"1.0"}
                """,
            ]
            for event in order {
                #expect(try relay.post("revenuecat", [("Authorization", "revenuecat-secret")], bodies[event]) == 200)
            }
        }
        #expect(try relay.database.drained())
        #expect(try relay.database.count("quarantine") == 0)
        for index in orders.indices {
            let reported = receiver.received.filter { $0.data["environment"] as? String == "ENV\(index)" }
            for type in ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"] {
                let messages = reported.filter { $0.type == type }
                #expect(messages.count == 1, "\(orders[index]) \(type)")
                let transfer = messages.first?.data["transfer"] as? [String: Any]
                #expect(transfer?["to"] as? [String: String] == ["user_id": "jeff"])
            }
        }
        let active = try relay.database.rows("SELECT DISTINCT holder FROM entitlements WHERE active")
        #expect(active == [["user:jeff"]])
    }

    private struct Session {
        let relay: Relay
        let source: String

        func post(_ type: String, _ data: String, at offset: Int64) throws {
            let time = Timestamp(milliseconds: SourceTransferTests.at + offset).iso8601
            let body = #"{"type":"\#(type)","timestamp":"\#(time)","data":{\#(data)}}"#
            let now = "\(Int(Date().timeIntervalSince1970))"
            let id = "\(type)-\(offset)-\(source)"
            let code = HMAC<SHA256>.authenticationCode(
                for: Data("\(id).\(now).\(body)".utf8), using: SymmetricKey(data: Data(repeating: 7, count: 32)))
            let headers = [
                ("webhook-id", id), ("webhook-timestamp", now),
                ("webhook-signature", "v1,\(Data(code).base64EncodedString())"),
            ]
            #expect(try relay.post(source, headers, body) == 200)
        }

        func active(_ query: String) throws -> [String] {
            let answer = try relay.ask("GET", "/v1/entitlements?\(query)&active=true&source=\(source)")
            let json = try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any]
            return (json?["data"] as? [[String: Any]] ?? []).compactMap { $0["product"] as? String }.sorted()
        }
    }

    @Test("A login merges only where the source says so; an expired session and a reset resolve as anonymous")
    func sessions() throws {
        let receiver = try Receiver()
        let secret = "whsec_" + Data(repeating: 7, count: 32).base64EncodedString()
        let relay = try Relay.running(
            [.init("backend", receiver)],
            sources: [
                .init(name: "merging", kind: "sessions", secrets: [secret], settings: ["merge": "true"]),
                .init(name: "apart", kind: "sessions", secrets: [secret]),
            ])
        defer { relay.end() }
        for source in ["merging", "apart"] {
            let session = Session(relay: relay, source: source)
            try session.post("SESSION_ANONYMOUS_STARTED", #""anonymous_id":"a1","reason":"skip""#, at: 0)
            try session.post(
                "ACTIVATE",
                #""anonymous_user_id":"a1","purchase_id":"p1","product":"premium","store_transaction_id":"t1""#,
                at: 1_000)
            try session.post(
                "SESSION_LOGIN",
                #""anonymous_id":"a1","user_id":"u1","expires_at":"\#(Timestamp(milliseconds: Self.at + 50_000).iso8601)""#,
                at: 10_000)
            try session.post("PROFILE_OPENED", #""anonymous_user_id":"a1""#, at: 20_000)
            try session.post("PROFILE_CLOSED", #""anonymous_user_id":"a1""#, at: 60_000)
            try session.post("DATA_RESET", #""anonymous_id":"a1","scope":"all""#, at: 70_000)
            try session.post("PROFILE_DELETED", #""anonymous_user_id":"a1""#, at: 80_000)
            let isMerged = source == "merging"
            #expect(try session.active("user_id=u1") == (isMerged ? ["premium"] : []))
            #expect(try session.active("anonymous_user_id=a1") == (isMerged ? [] : ["premium"]))
            #expect(try relay.database.drained())
            let mine = receiver.received.filter { $0.data["source"] as? String == source }
            let resolved = ["PROFILE_OPENED", "PROFILE_CLOSED", "PROFILE_DELETED"].map { type in
                mine.first { $0.type == type }?.data["resolved_user_id"] as? String
            }
            #expect(resolved == ["u1", nil, nil], "\(source)")
            let transfers = mine.map(\.type).filter { $0.hasPrefix("SUBSCRIPTION_") }
            #expect(transfers == (isMerged ? ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"] : []))
        }
    }

    @Test("One purchase from two vendors: kept apart by source, shown together by holder")
    func twoSources() throws {
        let relay = try Relay.running(
            [], sources: [.init(), .init(name: "revenuecat", secrets: ["revenuecat-secret"])])
        defer { relay.end() }
        #expect(
            try relay.source().post(Webhook("ACTIVATE", .user("jeff"), purchase: "subs_1", transaction: "T1")) == 200)
        let body = Self.revenueCat("INITIAL_PURCHASE", "jeff", transaction: "T1", at: 0, environment: "PRODUCTION")
        #expect(try relay.post("revenuecat", [("Authorization", "revenuecat-secret")], body) == 200)
        func sources(_ query: String) throws -> [String] {
            let answer = try relay.ask("GET", "/v1/entitlements?user_id=jeff\(query)")
            let json = try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any]
            return (json?["data"] as? [[String: Any]] ?? []).compactMap { $0["source"] as? String }.sorted()
        }
        #expect(try sources("") == ["purchasely", "revenuecat"])
        #expect(try sources("&source=revenuecat") == ["revenuecat"])
        #expect(try relay.database.count("purchases") == 2)
        #expect(try relay.database.count("transfers") == 0)
    }

    private func permutations(_ items: [Int]) -> [[Int]] {
        guard let first = items.first else { return [[]] }
        return permutations(Array(items.dropFirst())).flatMap { rest in
            (0...rest.count).map { place in Array(rest[..<place]) + [first] + Array(rest[place...]) }
        }
    }
}
