import Foundation
import Testing
import Vocabulary

/// The end of a subscription at Stripe, over HTTP. Oracle: what the database says of access and transfers.
@Suite struct StripeEndTests {
    private static let day: Int64 = 86_400

    /// Whole seconds since 1970, as Stripe counts them.
    private static var now: Int64 { Int64(Date().timeIntervalSince1970) }

    private static func send(_ body: String, to relay: Relay) throws {
        #expect(try relay.post("stripe", Stripe.signature(of: Array(body.utf8)), body) == 200)
    }

    @Test("A renewal and an end are those of whoever has the subscription, also after a restore unknown to Stripe")
    func afterRestore() throws {
        let relay = try Relay.running([], sources: [Stripe.source])
        defer { relay.end() }
        let ends: [(event: String, status: String)] = [
            ("deleted", "canceled"), ("updated", "unpaid"), ("paused", "paused"),
        ]
        let start = Self.now - 60
        let customers = ends.indices.map { Stripe.Customer(id: "cus_\($0)", subscription: "sub_\($0)") }
        func subscription(_ number: Int, _ status: String) -> String {
            customers[number].subscription(status, from: start, to: start + 30 * Self.day, user: "ada")
        }
        for number in ends.indices {
            try Self.send(
                Stripe.event(
                    "customer.subscription.created", id: "evt_\(number)", at: start, subscription(number, "active")),
                to: relay)
            let restored = try relay.ask(
                "POST", "/v1/users/device/restore?source=stripe&app=",
                #"{"transactions":["sub_\#(number)"],"strategy":"transfer"}"#)
            #expect(restored.status == 200, "\(restored.text)")
            #expect(try relay.database.access()["sub_\(number)"] == ["user:ada": false, "anon:device": true])
        }
        // Later than the restores, whose times are the database's.
        let end = Self.now + 2
        for (number, row) in ends.enumerated() {
            let renewed = Stripe.event(
                "customer.subscription.updated", id: "evt_renewed_\(number)", at: end - 1,
                subscription(number, "active"),
                previous: #"{"latest_invoice":"in_0"}"#)
            try Self.send(renewed, to: relay)
            let kept = try relay.database.access()["sub_\(number)"] ?? [:]
            #expect(kept.filter(\.value).keys.sorted() == ["anon:device"], "\(row): \(kept)")
            let before = row.event == "updated" ? #"{"status":"past_due"}"# : nil
            try Self.send(
                Stripe.event(
                    "customer.subscription." + row.event, id: "evt_end_\(number)", at: end,
                    subscription(number, row.status), previous: before),
                to: relay)
            let access = try relay.database.access()["sub_\(number)"] ?? [:]
            #expect(access.keys.contains("anon:device") && !access.values.contains(true), "\(row): \(access)")
        }
        #expect(try relay.database.count("transfers") == ends.count, "the restores")
    }

    @Test("An end that comes before the event of another user in the metadata ends the access of the user before")
    func beforeTheOtherUser() throws {
        let relay = try Relay.running([], sources: [Stripe.source])
        defer { relay.end() }
        let customer = Stripe.Customer(id: "cus_1", subscription: "sub_1")
        let start = Self.now - 10 * Self.day
        func event(_ name: String, _ status: String, user: String, day: Int64, previous: String? = nil) -> String {
            Stripe.event(
                "customer.subscription." + name, id: "evt_\(day)", at: start + day * Self.day,
                customer.subscription(status, from: start, to: start + 30 * Self.day, user: user), previous: previous)
        }
        try Self.send(event("created", "active", user: "ada", day: 0), to: relay)
        try Self.send(event("deleted", "canceled", user: "ben", day: 2), to: relay)
        let before = try relay.database.access()["sub_1"] ?? [:]
        #expect(before["user:ada"] == false && !before.values.contains(true), "\(before)")
        #expect(try relay.database.count("transfers") == 0)
        // As Stripe sends it again.
        let passed = event("updated", "active", user: "ben", day: 1, previous: #"{"metadata":{"user_id":"ada"}}"#)
        try Self.send(passed, to: relay)
        let after = try relay.database.access()["sub_1"] ?? [:]
        #expect(after.keys.contains("user:ben") && !after.values.contains(true), "\(after)")
        let transfers = try relay.database.rows("SELECT from_holder, to_holder, ordinal FROM transfers")
        #expect(transfers == [["user:ada", "user:ben", "1"]])
    }

    /// `GET /v1/entitlements` of a user.
    private static func entitlements(of user: String, at relay: Relay) throws -> [[String: Any]] {
        let answer = try relay.ask("GET", "/v1/entitlements?user_id=\(user)&environment=PRODUCTION")
        let json = try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any]
        return try #require(json?["data"] as? [[String: Any]], "\(answer.text)")
    }

    @Test("A subscription that is past due when its metadata first name a user is that user's to the end that is known")
    func namedWhilePastDue() throws {
        var source = Stripe.source
        source.settings["leeway"] = "\"24h\""
        let relay = try Relay.running([], sources: [source])
        defer { relay.end() }
        let (runs, over) = (Self.now + 10 * Self.day, Self.now - 30 * Self.day)
        // Of the last two, the period before is known, by an event that comes before or after.
        let rows: [(subscription: String, periodEnd: Int64, events: [String], end: Int64, isActive: Bool)] = [
            ("sub_1", runs, ["named"], runs, true), ("sub_2", over, ["named"], over, false),
            ("sub_3", over, ["created", "named"], over - 30 * Self.day, false),
            ("sub_4", over, ["named", "created"], over - 30 * Self.day, false),
        ]
        for row in rows {
            let customer = Stripe.Customer(id: "cus_" + row.subscription, subscription: row.subscription)
            let start = row.periodEnd - 30 * Self.day
            let since = start - 30 * Self.day
            let events = [
                "created": Stripe.event(
                    "customer.subscription.created", id: "evt_created_" + row.subscription, at: since,
                    customer.subscription("active", from: since, to: start, user: nil, since: since)),
                "named": Stripe.event(
                    "customer.subscription.updated", id: "evt_named_" + row.subscription, at: start + Self.day,
                    customer.subscription("past_due", from: start, to: row.periodEnd, user: "ada", since: since),
                    previous: #"{"metadata":{"user_id":null}}"#),
            ]
            for name in row.events { try Self.send(try #require(events[name]), to: relay) }
        }
        let found = try Self.entitlements(of: "ada", at: relay)
        #expect(found.count == rows.count, "\(found)")
        for row in rows {
            let held = found.first { $0["purchase"] as? String == row.subscription } ?? [:]
            #expect(held["until"] as? String == Timestamp(milliseconds: row.end * 1_000).iso8601, "\(row): \(held)")
            #expect(held["active"] as? Bool == row.isActive, "\(row): \(held)")
            #expect(held["overdue"] as? Bool == !row.isActive, "\(row): \(held)")
        }
    }

    /// By their bytes the former product and the former user would be the later ones.
    @Test("Of two events of one second the one that changes the price or the user is the later one, in both orders")
    func withinOneSecond() throws {
        let relay = try Relay.running([], sources: [Stripe.source])
        defer { relay.end() }
        let start = Self.now - Self.day
        for number in 0...1 {
            func event(
                _ name: String, _ id: String, _ customer: Stripe.Customer, user: String, previous: String? = nil
            ) -> String {
                Stripe.event(
                    "customer.subscription." + name, id: "evt_\(id)_\(number)", at: start,
                    customer.subscription("active", from: start, to: start + 30 * Self.day, user: user),
                    previous: previous)
            }
            let former = Stripe.Customer(id: "cus_\(number)", subscription: "sub_\(number)", plan: "basic")
            let upgraded = Stripe.Customer(id: "cus_\(number)", subscription: "sub_\(number)", plan: "a")
            let named = Stripe.Customer(id: "cus_named_\(number)", subscription: "sub_named_\(number)")
            let formerItems = former.items(from: start, to: start + 30 * Self.day)
            let events = [
                event("updated", "plain", former, user: "ada", previous: #"{"cancel_at_period_end":true}"#),
                event("updated", "price", upgraded, user: "ada", previous: #"{"items":\#(formerItems)}"#),
                event("created", "created", named, user: "u9"),
                event("updated", "user", named, user: "u1", previous: #"{"metadata":{"user_id":"u9"}}"#),
            ]
            for body in number == 0 ? events : Array(events.reversed()) { try Self.send(body, to: relay) }
            let stated = try relay.database.rows("SELECT product, plan FROM purchases WHERE key = 'sub_\(number)'")
            #expect(stated == [["prod_a", "price_a"]], "order \(number)")
            let access = try relay.database.access()["sub_named_\(number)"] ?? [:]
            #expect(access["user:u1"] == true && access["user:u9"] == false, "order \(number): \(access)")
        }
        let transfers = try relay.database.rows(
            """
            SELECT p.key, t.from_holder, t.to_holder FROM transfers t JOIN purchases p ON p.id = t.purchase
            WHERE p.key LIKE 'sub_named%' ORDER BY 1
            """)
        #expect(transfers == (0...1).map { ["sub_named_\($0)", "user:u9", "user:u1"] })
    }
}
