import Foundation
import Testing

/// The six examples of Qonversion's page "User Identifiers", each step over HTTP, and after each step what every actor
/// sees. The actors are installs; the page leaves two answers open (example 5 after B's login, example 6 between the
/// logout and the restore), and so does this.
@Suite struct APIExampleTests {
    /// One relay for all examples: each has installs and identities of its own.
    private struct Stage {
        let relay: Relay
        let example: Int

        func name(_ actor: String) -> String { "ex\(example)-\(actor)" }

        /// The webhook of a purchase. `product` is also its transaction.
        func buys(_ actor: String, _ product: String, as identity: String = "", secondsAgo: Int = 0) throws {
            let now = Int(Date().timeIntervalSince1970) - secondsAgo
            let number = example * 1_000 + Int(product.utf8.first ?? 0)
            let body = """
                {"event_name":"subscription_started","user_id":"\(name(actor))","custom_user_id":"",\
                "identity_id":"\(identity.isEmpty ? "" : name(identity))","time":\(now),"created_at":\(now),\
                "product_id":"\(product)","transaction":{"transaction_id":\(number),"original_transaction_id":\(number),\
                "expires":\(now + 2_592_000)},"environment":"production","platform":"iOS"}
                """
            let headers = [("authorization", "Basic qonversion-token")]
            #expect(try relay.post("qonversion", headers, body) == 200)
        }

        func transaction(_ product: String) -> String { "\(example * 1_000 + Int(product.utf8.first ?? 0))" }

        @discardableResult
        func identifies(_ actor: String, _ identity: String) throws -> Set<String> {
            try answered("POST", "/v1/users/\(name(actor))/identify", #"{"identity":"\#(name(identity))"}"#)
        }

        @discardableResult
        func logsOut(_ actor: String) throws -> Set<String> {
            try answered("POST", "/v1/users/\(name(actor))/logout", "")
        }

        @discardableResult
        func restores(_ actor: String, _ product: String, _ more: String = "") throws -> Set<String> {
            try answered(
                "POST", "/v1/users/\(name(actor))/restore", #"{"transactions":["\#(transaction(product))"]\#(more)}"#)
        }

        /// Products that an install has now.
        func sees(_ actor: String) throws -> Set<String> {
            try answered("GET", "/v1/entitlements?install=\(name(actor))", "")
        }

        func identitySees(_ identity: String) throws -> Set<String> {
            try answered("GET", "/v1/entitlements?user_id=\(name(identity))", "")
        }

        private func answered(_ method: String, _ path: String, _ body: String) throws -> Set<String> {
            let answer = try relay.ask(method, path, body)
            #expect(answer.status == 200, "\(method) \(path): \(answer.text)")
            let json = try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any]
            let rows = try #require(json?["data"] as? [[String: Any]])
            return Set(rows.filter { $0["active"] as? Bool == true }.compactMap { $0["product"] as? String })
        }
    }

    @Test("The six examples, checked after every step")
    func sixExamples() throws {
        let relay = try Relay.running(
            [], sources: [Relay.SourceTable(name: "qonversion", secrets: ["qonversion-token"])])
        defer { relay.end() }

        var stage = Stage(relay: relay, example: 1)
        try stage.buys("B", "X")
        #expect(try (stage.sees("A"), stage.sees("B")) == ([], ["X"]))
        try stage.buys("A", "Y")
        #expect(try (stage.sees("A"), stage.sees("B")) == (["Y"], ["X"]))

        stage = Stage(relay: relay, example: 2)
        try stage.buys("B", "X")
        #expect(try stage.identifies("B", "u1") == ["X"])
        #expect(try (stage.sees("A"), stage.sees("B")) == ([], ["X"]))
        #expect(try stage.identifies("A", "u1") == ["X"])
        #expect(try (stage.sees("A"), stage.sees("B")) == (["X"], ["X"]))

        stage = Stage(relay: relay, example: 3)
        try stage.buys("A", "X")
        #expect(try stage.identifies("A", "u1") == ["X"])
        try stage.buys("A", "Y", as: "u1")
        #expect(try stage.sees("A") == ["X", "Y"])
        #expect(try stage.logsOut("A") == ["X", "Y"])

        stage = Stage(relay: relay, example: 4)
        try stage.buys("A", "X")
        try stage.identifies("A", "u1")
        try stage.buys("A", "Y", as: "u1")
        #expect(try stage.identifies("B", "u1") == ["X", "Y"])
        #expect(try stage.logsOut("A") == ["X", "Y"])
        #expect(try stage.logsOut("B") == [])
        #expect(try stage.identitySees("u1") == ["X", "Y"])

        stage = Stage(relay: relay, example: 5)
        try stage.buys("A", "X")
        try stage.identifies("A", "u1")
        try stage.buys("B", "Y")
        #expect(try stage.sees("B") == ["Y"])
        #expect(try stage.identifies("B", "u1") == ["X", "Y"])
        #expect(try stage.logsOut("A") == ["X"])
        #expect(try stage.logsOut("B") == ["Y"])

        stage = Stage(relay: relay, example: 6)
        try stage.buys("A", "X")
        #expect(try stage.identifies("A", "u1") == ["X"])
        #expect(try stage.identifies("A2", "u1") == ["X"])
        try stage.logsOut("A")
        try stage.identifies("A", "u2")
        #expect(try stage.restores("A", "X") == ["X"])
        #expect(try stage.identitySees("u2") == ["X"])
        #expect(try stage.identitySees("u1") == [])
        #expect(try stage.sees("A2") == [])

        // Who a purchase is restored to is not who was logged in where it was: that session stays.
        stage = Stage(relay: relay, example: 11)
        for (install, product) in [("A", "X"), ("C", "Y")] { try stage.buys(install, product) }
        try stage.buys("D", "Z")
        #expect(try stage.identifies("C", "u1") == ["Y"])
        #expect(try stage.identifies("B", "u2") == [])
        #expect(try stage.restores("B", "X") == ["X"])
        #expect(try stage.restores("B", "Z") == ["X", "Z"])
        #expect(try (stage.sees("A"), stage.sees("D")) == ([], []))
        #expect(try stage.identifies("A", "u1") == ["Y"])
        #expect(try stage.restores("B", "Y") == ["X", "Y", "Z"])
        #expect(try (stage.sees("A"), stage.sees("C")) == ([], []))
    }

    @Test(
        "A restore that copies adds a holder; one that transfers announces it once to each side; both may come before the purchase"
    )
    func restores() throws {
        let receiver = try Receiver()
        let relay = try Relay.running(
            [.init("backend", receiver, ["events": #"["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"]"#])],
            sources: [Relay.SourceTable(name: "qonversion", secrets: ["qonversion-token"])])
        defer { relay.end() }

        let copied = Stage(relay: relay, example: 7)
        try copied.buys("A", "X")
        #expect(try copied.restores("B", "X", #","strategy":"copy""#) == ["X"])
        #expect(try (copied.sees("A"), copied.sees("B")) == (["X"], ["X"]))

        let moved = Stage(relay: relay, example: 8)
        try moved.buys("A", "X")
        #expect(try moved.restores("B", "X") == ["X"])
        #expect(try moved.restores("B", "X") == ["X"])
        #expect(try (moved.sees("A"), moved.sees("B")) == ([], ["X"]))

        let early = Stage(relay: relay, example: 9)
        #expect(try early.restores("B", "X") == [])
        #expect(try early.identifies("A", "u1") == [])
        try early.buys("A", "X", secondsAgo: 60)
        #expect(try (early.sees("A"), early.sees("B")) == ([], ["X"]))
        let shared = Stage(relay: relay, example: 10)
        #expect(try shared.identifies("A", "u1") == [])
        try shared.buys("A", "X", secondsAgo: 60)
        #expect(try shared.identitySees("u1") == ["X"])
        #expect(try relay.database.drained())
        #expect(receiver.received.count == 4)
        // In order within a purchase, not between two.
        for (stage, holders) in [(moved, ["ex8-A", "ex8-B"]), (early, ["ex9-A", "ex9-B"])] {
            let announced = receiver.received.filter {
                let transaction = $0.data["transaction"] as? [String: Any]
                return transaction?["store_transaction_id"] as? String == stage.transaction("X")
            }
            #expect(announced.map(\.type) == ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"])
            #expect(announced.map { ($0.data["holder"] as? [String: String])?["anonymous_user_id"] } == holders)
        }
    }
}
