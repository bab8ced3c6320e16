import Foundation
import Testing
import Vocabulary

/// A source that is asked about before its webhooks are stored. Oracle: what the database and the receivers have, and
/// what Google's servers (`Google`) were asked.
@Suite struct GooglePlayTests {
    private static let token = "token-a-" + String(repeating: "0123456789", count: 14)
    private static let newer = "token-b-" + String(repeating: "0123456789", count: 14)

    private static func running(_ google: Google, _ receivers: [Relay.Integration] = []) throws -> Relay {
        let relay = try Relay(receivers)
        try relay.configure(receivers, sources: [try google.source(in: relay.directory)])
        try relay.start()
        return relay
    }

    /// Pushes until the keys are there; they are fetched in the background.
    private static func push(_ body: String, to relay: Relay) throws -> Int {
        try relay.post("play", Google.authorization(), body)
    }

    /// Posts until it is stored, and meanwhile Google is asked about this token alone; nil: about none. Each try asks
    /// once: what a busy machine has no time for is answered 503, and asked about again.
    private static func store(
        _ body: String, to relay: Relay, _ google: Google, asking token: String?,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let before = google.asked.count
        var (status, tries) = (503, 0)
        _ = try eventually(within: 60) {
            status = try relay.postOnce("play", Google.authorization(), body)
            tries += 1
            return status != 503
        }
        #expect(status == 200, sourceLocation: sourceLocation)
        let asked = Array(google.asked.dropFirst(before))
        let expected: Set<String> = token.map { [$0] } ?? []
        #expect(Set(asked) == expected && asked.count <= tries, "\(asked)", sourceLocation: sourceLocation)
    }

    @Test("A purchase is looked up, stored with what was answered, and delivered with it; a redelivery asks nothing")
    func enriched() throws {
        let (google, receiver) = (try Google(), try Receiver())
        google.know(Self.token, Google.state(account: "ada"))
        let relay = try Self.running(google, [.init("backend", receiver)])
        defer { relay.end() }
        #expect(try Self.push(Google.push(4, Self.token, id: "1"), to: relay) == 200)
        #expect(receiver.waitForAccepted(1))
        let message = try #require(receiver.received.first)
        #expect(message.type == "SUBSCRIPTION_STARTED" && message.data["event_id"] as? String == "1")
        #expect((message.data["holder"] as? [String: Any])?["user_id"] as? String == "ada")
        #expect((message.data["purchase"] as? [String: Any])?["product"] as? String == "plus")
        let decoded = try #require(message.data["decoded"] as? [String: Any])
        #expect(((decoded["answer"] as? [String: Any])?["purchase"] as? [String: Any])?["lineItems"] != nil)
        #expect((decoded["notification"] as? [String: Any])?["packageName"] as? String == "com.example.app")
        // On a busy machine the first may have been asked about twice.
        let (asked, tokens) = (google.asked, google.count("/token"))
        #expect(Set(asked) == [Self.token])
        #expect(try relay.post("play", Google.authorization(), Google.push(4, Self.token, id: "1", attempt: 2)) == 200)
        #expect(google.asked == asked && google.count("/token") == tokens)
        let database = try relay.database
        #expect(try database.count("events", where: "answer IS NOT NULL AND environment = 'PRODUCTION'") == 1)
        #expect(try database.count("events") == 1 && database.count("purchase_tokens") == 1)
        #expect(try database.access().values.map { $0.filter(\.value) } == [["user:ada": true]])
        let whole = "concat_ws(' ', holder, name, vendor_event_id) LIKE '%\(Self.token)%'"
        #expect(try database.count("events", where: whole) == 0)
        #expect(!relay.lines.contains { $0.contains(Self.token) }, "a token is in no line of the journal")
    }

    @Test("Only what Google signs for this subscription is taken; its test notification is answered and not stored")
    func authentic() throws {
        let google = try Google()
        let relay = try Self.running(google)
        defer { relay.end() }
        let test = Google.push(#""testNotification":{"version":"1.0"}"#, id: "t")
        #expect(try Self.push(test, to: relay) == 200)
        let body = Google.push(2, Self.token, id: "1")
        #expect(try relay.post("play", [], body) == 401)
        #expect(try relay.post("play", Google.authorization(audience: "https://other.example.com"), body) == 401)
        #expect(try relay.post("play", Google.authorization(keyID: "invented"), body) == 401)
        #expect(google.asked.isEmpty && google.count("/certs") == 1, "an unknown key is asked for once a minute")
        #expect(try relay.database.count("events") == 0 && relay.database.count("quarantine") == 0)
    }

    @Test("An API that is out of reach costs time and no event; an end and an unknown purchase are answers")
    func outage() throws {
        let google = try Google()
        google.know(Self.token, Google.state(account: "ada"))
        let relay = try Self.running(google)
        defer { relay.end() }
        #expect(try Self.push(Google.push(#""testNotification":{}"#, id: "t"), to: relay) == 200)
        google.fail(500)
        func pushOnce() throws -> Int {
            try relay.postOnce("play", Google.authorization(), Google.push(4, Self.token, id: "1"))
        }
        for _ in 0..<5 { #expect(try pushOnce() == 503) }
        // Now and then one is asked about all the same; a busy machine may let so much time pass between two.
        let isOpen = try eventually { () throws -> Bool in
            let asked = google.asked.count
            #expect(try pushOnce() == 503)
            return google.asked.count == asked
        }
        #expect(isOpen, "the breaker is open")
        #expect(relay.waitForLine("the API of play is out of reach", "answered 500") != nil, "\(relay.lines)")
        #expect(try relay.database.count("events") == 0 && relay.database.count("quarantine") == 0)
        google.fail(nil)
        #expect(
            try eventually {
                try relay.post("play", Google.authorization(), Google.push(4, Self.token, id: "1")) == 200
            })
        #expect(relay.waitForLine("the API of play answers again") != nil)
        #expect(try relay.database.access().values.map { $0.filter(\.value) } == [["user:ada": true]])
        google.know(Self.token, (410, "{}"))
        #expect(try relay.post("play", Google.authorization(), Google.push(13, Self.token, id: "2")) == 200)
        #expect(try relay.post("play", Google.authorization(), Google.push(2, Self.newer, id: "3")) == 200)
        let types = try relay.database.rows("SELECT type, answer IS NULL FROM events ORDER BY id")
        #expect(
            types == [
                ["SUBSCRIPTION_STARTED", "f"], ["SUBSCRIPTION_TERMINATED", "f"], ["SUBSCRIPTION_RENEWED", "f"],
            ])
    }

    @Test("While there are no keys nothing is verified or refused; they are fetched again by themselves")
    func keys() throws {
        let google = try Google()
        google.failKeys(500)
        let relay = try Self.running(google)
        defer { relay.end() }
        #expect(relay.waitForLine("the keys of play cannot be fetched", "answered 500") != nil, "\(relay.lines)")
        #expect(try relay.postOnce("play", Google.authorization(), Google.push(2, Self.token, id: "1")) == 503)
        google.failKeys(200)
        #expect(relay.waitForLine("the keys of play are there again") != nil)
        #expect(try relay.post("play", Google.authorization(audience: "another"), "{}") == 401)
    }

    @Test("An upgrade is one purchase that goes on; what comes late about the old token states nothing")
    func upgrade() throws {
        let google = try Google()
        google.know(Self.token, Google.state(account: "ada"))
        let relay = try Self.running(google)
        defer { relay.end() }
        try Self.store(Google.push(4, Self.token, id: "1"), to: relay, google, asking: Self.token)
        google.know(Self.newer, Google.state(account: "ada", #""linkedPurchaseToken":"\#(Self.token)""#))
        let replaced = #""canceledStateContext":{"replacementCancellation":{}}"#
        google.know(Self.token, Google.state("EXPIRED", account: "ada", replaced))
        // The ledger knows the first token.
        try Self.store(Google.push(4, Self.newer, id: "2"), to: relay, google, asking: Self.newer)
        try Self.store(Google.push(13, Self.token, id: "3"), to: relay, google, asking: Self.token)
        #expect(try relay.database.access().values.map { $0.filter(\.value) } == [["user:ada": true]])
        #expect(try relay.database.count("purchases") == 1 && relay.database.count("events") == 3)
        #expect(try relay.database.count("purchase_tokens", where: "is_replaced") == 1)
    }

    @Test("Two webhooks of an upgrade at once: what was asked before the other was stored is asked about again")
    func atOnce() throws {
        let google = try Google()
        let relay = try Self.running(google)
        defer { relay.end() }
        let authorization = try Google.authorization()
        /// The status once the webhook is answered.
        func push(_ body: String) -> Monitor<Int?> {
            let status = Monitor<Int?>(nil)
            Thread.detachNewThread {
                let answered = (try? relay.postOnce("play", authorization, body)) ?? 0
                status.change { $0 = answered }
            }
            return status
        }
        // The upgrade is asked about first. The end of the old plan is stored before it, then after it.
        for isEndFirst in [true, false] {
            var (old, pushes, statuses): (String, [String], [Int]) = ("", [], [])
            // A machine that is too busy to answer the one that is released first within its time does it another time.
            for round in 0..<5 where statuses.isEmpty || statuses[isEndFirst ? 1 : 0] == 503 {
                let name = (isEndFirst ? "c" : "d") + String(round)
                let digits = String(repeating: "0123456789", count: 14)
                old = "token-\(name)-old-\(digits)"
                let new = "token-\(name)-new-\(digits)"
                google.know(old, Google.state(account: "ada"))
                #expect(try Self.push(Google.push(4, old, id: name + "1"), to: relay) == 200)
                google.know(new, Google.state(account: "ada", #""linkedPurchaseToken":"\#(old)""#))
                google.know(old, Google.state("EXPIRED", account: "ada", until: "2026-01-01T00:00:00Z"))
                pushes = [Google.push(4, new, id: name + "2"), Google.push(13, old, id: name + "3")]
                let asked = google.asked.count
                for token in [old, new] { google.hold(token) }
                defer { for token in [old, new] { google.release(token) } }
                let upgrade = push(pushes[0])
                #expect(eventually { google.asked.count > asked || upgrade.current != nil })
                let end = push(pushes[1])
                #expect(eventually { google.asked.count > asked + 1 || end.current != nil })
                for (token, status) in isEndFirst ? [(old, end), (new, upgrade)] : [(new, upgrade), (old, end)] {
                    google.release(token)
                    #expect(status.wait(180) { $0 != nil })
                }
                statuses = [upgrade.current ?? 0, end.current ?? 0]
            }
            #expect(statuses == (isEndFirst ? [503, 200] : [200, 503]), "\(statuses)")
            // As Pub/Sub sends it again.
            #expect(try relay.post("play", authorization, pushes[isEndFirst ? 0 : 1]) == 200)
            let key = Google.name(of: old)
            #expect(try relay.database.access()[key]?.filter(\.value).keys.sorted() == ["user:ada"])
            let ofKey = "purchase IN (SELECT id FROM purchases WHERE key = '\(key)')"
            #expect(try relay.database.count("events", where: ofKey) == 3, "one purchase")
        }
        #expect(relay.waitForLine("another webhook of its purchase was recorded meanwhile") != nil)
    }

    @Test("A recovery from a pause is SUBSCRIPTION_UNPAUSED, once; repair and replay keep its name and the access")
    func pause() throws {
        let (google, receiver) = (try Google(), try Receiver())
        google.know(Self.token, Google.state(account: "ada"))
        let relay = try Self.running(google, [.init("backend", receiver)])
        defer { relay.end() }
        try Self.store(Google.push(4, Self.token, id: "1"), to: relay, google, asking: Self.token)
        let recoveries: [(pushes: [Int], state: String, access: Bool)] = [
            ([11], "ACTIVE", true), ([10], "PAUSED", false), ([1, 1], "ACTIVE", true), ([5], "ON_HOLD", false),
            ([1], "ACTIVE", true),
        ]
        var number = 1
        for (pushes, state, access) in recoveries {
            google.know(Self.token, Google.state(state, account: "ada"))
            for type in pushes {
                number += 1
                let body = Google.push(type, Self.token, id: "\(number)", at: Webhook.epoch + Int64(number) * 1_000)
                for token in [Self.token, nil] { try Self.store(body, to: relay, google, asking: token) }
            }
            let holders = try relay.database.access().values.map { $0.filter(\.value).keys.sorted() }
            #expect(holders == [access ? ["user:ada"] : []], "\(state)")
        }
        let types = [
            "SUBSCRIPTION_STARTED", "SUBSCRIPTION_WILL_PAUSE", "SUBSCRIPTION_PAUSED", "SUBSCRIPTION_UNPAUSED",
            "SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY", "ENTERED_BILLING_RETRY",
            "SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY",
        ]
        #expect(receiver.waitForAccepted(types.count))
        #expect(receiver.received.map(\.type) == types)
        let stored = "SELECT type FROM events ORDER BY id"
        #expect(try relay.database.rows(stored).map { $0[0] } == types)

        let asked = google.asked.count
        #expect(try relay.json("repair", "--all")["repaired"] as? Int == 0)
        try relay.database.rows("UPDATE purchases SET state = '\\xff'")
        #expect(try relay.json("repair", "--all")["repaired"] as? Int == 1)
        #expect(try relay.database.access().values.map { $0.filter(\.value).keys.sorted() } == [["user:ada"]])
        #expect(try relay.database.rows(stored).map { $0[0] } == types)
        #expect(try relay.database.drained())
        #expect(try relay.json("replay", "--since", "1h")["queued"] as? Int == types.count)
        #expect(receiver.waitForAccepted(2 * types.count))
        #expect(receiver.received.dropFirst(types.count).map(\.type) == types)
        #expect(google.asked.count == asked, "neither asks again")
    }

    @Test(
        "A renewal and an end are those of whoever has the purchase, also after a restore, of which Google knows nothing"
    )
    func afterRestore() throws {
        let google = try Google()
        google.know(Self.token, Google.state(account: "ada"))
        let relay = try Self.running(google)
        defer { relay.end() }
        #expect(try Self.push(Google.push(4, Self.token, id: "1"), to: relay) == 200)
        let key = Google.name(of: Self.token)
        let restored = try relay.ask(
            "POST", "/v1/users/device/restore?source=play&app=com.example.app",
            #"{"transactions":["\#(key)"],"strategy":"transfer"}"#)
        #expect(restored.status == 200, "\(restored.text)")
        #expect(try relay.database.access()[key]?.filter(\.value) == ["anon:device": true])
        #expect(try relay.post("play", Google.authorization(), Google.push(2, Self.token, id: "renewed")) == 200)
        #expect(try relay.database.access()[key]?.filter(\.value).keys.sorted() == ["anon:device"])
        google.know(Self.token, Google.state("EXPIRED", account: "ada", until: "2026-01-25T08:00:00Z"))
        #expect(try relay.post("play", Google.authorization(), Google.push(13, Self.token, id: "2")) == 200)
        let access = try relay.database.access()[key]
        #expect(access?.values.contains(true) == false, "\(access ?? [:])")
        #expect(try relay.database.count("transfers") == 1, "the restore")
    }

    @Test("With and without the API: a token that was recorded keeps its purchase")
    func addedAndRemoved() throws {
        let google = try Google()
        let relay = try Relay([])
        defer { relay.end() }
        try relay.configure([], sources: [try google.source(asksAPI: false, in: relay.directory)])
        try relay.start()
        #expect(try Self.push(Google.push(4, Self.newer, id: "1"), to: relay) == 200)
        google.know(Self.token, Google.state(account: "ada"))
        google.know(Self.newer, Google.state(account: "ada", #""linkedPurchaseToken":"\#(Self.token)""#))
        try relay.configure([], sources: [try google.source(in: relay.directory)])
        #expect(try relay.reload().contains("changed source play"))
        try Self.store(Google.push(2, Self.newer, id: "2"), to: relay, google, asking: Self.newer)
        #expect(try relay.database.count("purchases") == 1)
        #expect(try relay.database.access().values.first?["user:ada"] == true)
        let third = "token-e-" + String(repeating: "0123456789", count: 14)
        google.know(third, Google.state(account: "ada", #""linkedPurchaseToken":"\#(Self.newer)""#))
        try Self.store(Google.push(4, third, id: "3"), to: relay, google, asking: third)
        try relay.configure([], sources: [try google.source(asksAPI: false, in: relay.directory)])
        #expect(try relay.reload().contains("changed source play"))
        try Self.store(Google.push(13, Self.newer, id: "4"), to: relay, google, asking: nil)
        try Self.store(Google.push(2, third, id: "5"), to: relay, google, asking: nil)
        #expect(try relay.database.count("purchases") == 1 && relay.database.count("events") == 5)
        #expect(try relay.database.access().values.first?["user:ada"] == true)
    }

    @Test("Repair reads what was answered; what was never asked about is asked about when it leaves quarantine")
    func readAgain() throws {
        let google = try Google()
        google.know(Self.token, Google.state(account: "ada"))
        let relay = try Self.running(google)
        defer { relay.end() }
        try Self.store(Google.push(4, Self.token, id: "1"), to: relay, google, asking: Self.token)
        google.know(Self.token, Google.state(account: "ben"))
        try relay.database.rows("UPDATE purchases SET state = '\\xff'")
        // The state of its purchase cannot be read: its answer is kept with it.
        try Self.store(Google.push(2, Self.token, id: "2"), to: relay, google, asking: Self.token)
        try Self.store("{}", to: relay, google, asking: nil)
        let asked = google.asked.count
        let repaired = try relay.json("repair", "--all")
        #expect(repaired["repaired"] as? Int == 1, "\(repaired)")
        #expect(try relay.database.access().values.map { $0.filter(\.value) } == [["user:ada": true]])
        // As if a version before could not read it.
        let hex = Google.push(2, Self.newer, id: "3").utf8.map { String(format: "%02x", $0) }.joined()
        try relay.database.rows("UPDATE quarantine SET body = '\\x\(hex)' WHERE body = '{}'")
        google.fail(500)
        let kept = try relay.json("quarantine", "retry", "--all", ended: 1)
        let results = (kept["retried"] as? [[String: Any]] ?? []).map { $0["result"] as? String }
        #expect(results == ["recorded", "kept"], "\(kept)")
        #expect(google.asked.count == asked + 1, "what has an answer is not asked about again")
        google.fail(nil)
        google.know(Self.newer, Google.state(account: "eve"))
        let retried = try relay.json("quarantine", "retry", "--all")
        #expect((retried["retried"] as? [[String: Any]])?.first?["result"] as? String == "recorded", "\(retried)")
        #expect(google.asked.last == Self.newer)
        #expect(try relay.database.count("events", where: "holder = 'user:eve' AND answer IS NOT NULL") == 1)
        let holders = try relay.database.rows("SELECT holder FROM events ORDER BY id").map { $0[0] }
        #expect(holders == ["user:ada", "user:ben", "user:eve"])
    }

    @Test("Without the API: the event by its name, an anonymous holder, no end; keys from a file that is read again")
    func withoutAPI() throws {
        let google = try Google()
        let relay = try Relay([])
        defer { relay.end() }
        let keys = try relay.directory.write("keys.json", try Google.keySet(id: "key-0"))
        let more = ["keys": "{ file = \"\(keys)\" }", "environment": "\"SANDBOX\""]
        try relay.configure([], sources: [try google.source(asksAPI: false, in: relay.directory, more)])
        try relay.start()
        let body = Google.push(4, Self.token, id: "1")
        #expect(try relay.post("play", Google.authorization(), body) == 401)
        try relay.directory.write("keys.json", try Google.keySet(id: "key-1"))
        #expect(try eventually { try relay.post("play", Google.authorization(), body) == 200 })
        #expect(google.receiver.count == 0)
        let row = try #require(try relay.database.rows("SELECT environment, answer IS NULL, holder FROM events").first)
        #expect(row[0] == "SANDBOX" && row[1] == "t" && row[2].hasPrefix("anon:token-a-"), "\(row)")
        #expect(try relay.database.access().values.map { Array($0.values) } == [[true]])
    }

    @Test("A reload that changes nothing of the store keeps keys and access token; a broken account is refused")
    func reload() throws {
        let google = try Google()
        google.know(Self.token, Google.state(account: "ada"))
        let relay = try Self.running(google)
        defer { relay.end() }
        #expect(try Self.push(Google.push(4, Self.token, id: "1"), to: relay) == 200)
        let (keys, tokens) = (google.count("/certs"), google.count("/token"))
        try relay.configure([], sources: [try google.source(in: relay.directory, ["account_id": "\"anonymous\""])])
        #expect(try relay.reload().contains("changed source play"))
        #expect(try relay.post("play", Google.authorization(), Google.push(2, Self.token, id: "2")) == 200)
        #expect(google.count("/certs") == keys && google.count("/token") == tokens)
        #expect(try relay.database.count("events", where: "holder = 'anon:ada'") == 1)
        try relay.directory.write("account.json", "{}\n")
        #expect(try relay.reload().contains("`api` of source play: its type is not service_account"))
        let checked = try relay.command("check", "--config", relay.configuration)
        #expect(checked.end == .exited(0) && checked.errors.contains("`api` of source play: "), "\(checked)")
    }
}
