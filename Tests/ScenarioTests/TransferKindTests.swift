import Testing
import Vocabulary

/// Transfers that are not a login after an anonymous purchase, and what must never become one. Each expectation is the
/// rule of Domain.md, "Transfers", that it names.
@Suite struct TransferKindTests {
    private let receiver: Receiver
    private let relay: Relay

    init() throws {
        receiver = try Receiver()
        relay = try Relay.running([.init("backend", receiver)])
    }

    private func send(_ webhooks: [Webhook]) throws {
        let connection = relay.source().connect()
        for webhook in webhooks { #expect(try connection.insist(on: webhook.body).status == 200) }
        #expect(try relay.database.drained())
    }

    private func pairs() -> [String] {
        receiver.received.filter { $0.data["transfer"] is [String: Any] }.map { message in
            let transfer = message.data["transfer"] as? [String: Any] ?? [:]
            let from = (transfer["from"] as? [String: String])?.first.map { "\($0.key)=\($0.value)" } ?? "?"
            let to = (transfer["to"] as? [String: String])?.first.map { "\($0.key)=\($0.value)" } ?? "?"
            return "\(message.type) \(from) \(to)"
        }
    }

    @Test("From user to user: a restore on another account")
    func userToUser() throws {
        defer { relay.end() }
        let (old, new): (Holder, Holder) = (.user("old"), .user("new"))
        try send([
            Webhook("ACTIVATE", old, purchase: "subs_1"),
            Webhook("ACTIVATE", new, purchase: "subs_1", at: Webhook.epoch + Webhook.day),
            Webhook("DEACTIVATE", old, purchase: "subs_1", at: Webhook.epoch + Webhook.day),
        ])
        #expect(
            pairs() == [
                "SUBSCRIPTION_TRANSFERRED user_id=old user_id=new", "SUBSCRIPTION_RECEIVED user_id=old user_id=new",
            ])
        #expect(try relay.database.access() == ["subs_1": ["user:old": false, "user:new": true]])
    }

    @Test("From user to anonymous, announced by the native webhooks alone")
    func userToAnonymous() throws {
        defer { relay.end() }
        let (old, new): (Holder, Holder) = (.user("old"), .anonymous("new"))
        try send([
            Webhook("SUBSCRIPTION_RECEIVED", new, to: old, purchase: "subs_1"),
            Webhook("SUBSCRIPTION_TRANSFERRED", old, to: new, purchase: "subs_1"),
        ])
        #expect(
            pairs() == [
                "SUBSCRIPTION_TRANSFERRED user_id=old anonymous_user_id=new",
                "SUBSCRIPTION_RECEIVED user_id=old anonymous_user_id=new",
            ])
        #expect(try relay.database.access() == ["subs_1": ["user:old": false, "anon:new": true]])
    }

    @Test("There and back and there again: three transfers, three pairs, each id its own")
    func pingPong() throws {
        defer { relay.end() }
        let (one, two): (Holder, Holder) = (.user("one"), .user("two"))
        let holders = [one, two, one, two]
        try send(
            holders.enumerated().map { number, holder in
                Webhook("ACTIVATE", holder, purchase: "subs_1", at: Webhook.epoch + Int64(number) * Webhook.day)
            })
        #expect(pairs().count == 6)
        let ids = Set(receiver.received.compactMap { ($0.data["transfer"] as? [String: Any])?["id"] as? String })
        #expect(ids.count == 3)
        #expect(try relay.database.access() == ["subs_1": ["user:one": false, "user:two": true]])
        // A webhook that comes late shows a third holder in between: what was announced stays.
        try send([Webhook("ACTIVATE", .user("three"), purchase: "subs_1", at: Webhook.epoch + Webhook.day / 2)])
        let voided = "transfer of subs_1 from user one to user two was announced and stays so"
        #expect(relay.waitForLine("level=warning", voided, "user:three held it in between") != nil)
        #expect(pairs().count == 10)
    }

    @Test("A lapsed purchase that somebody else starts anew is no transfer")
    func newStart() throws {
        defer { relay.end() }
        try send([
            Webhook("ACTIVATE", .anonymous("a"), purchase: "subs_1"),
            Webhook("ACTIVATE", .user("u"), purchase: "subs_1", at: Webhook.epoch + 90 * Webhook.day),
        ])
        #expect(pairs() == [])
        #expect(try relay.database.access() == ["subs_1": ["anon:a": false, "user:u": true]])
    }

    @Test("Sandbox and production, and two sources, never touch (I4)")
    func apart() throws {
        defer { relay.end() }
        var sandbox = Webhook("DEACTIVATE", .anonymous("a"), purchase: "subs_1")
        sandbox.environment = "SANDBOX"
        try send([sandbox, Webhook("ACTIVATE", .user("u"), purchase: "subs_1")])
        #expect(pairs() == [])
        #expect(try relay.database.count("purchases") == 2)
        let environments = receiver.received.compactMap { $0.data["environment"] as? String }
        #expect(environments.sorted() == ["PRODUCTION", "SANDBOX"])
    }

    @Test("A one-time purchase does not move by itself, and does by the vendor's own word (I3)")
    func oneTime() throws {
        defer { relay.end() }
        let (old, new): (Holder, Holder) = (.anonymous("a"), .user("u"))
        try send([
            Webhook("ACTIVATE", old, purchase: "otp_1"),
            Webhook("DEACTIVATE", old, purchase: "otp_1", at: Webhook.epoch + 1_000),
            Webhook("ACTIVATE", new, purchase: "otp_1", at: Webhook.epoch + 1_000),
        ])
        #expect(pairs() == [])
        try send([
            Webhook("ONE_TIME_PURCHASE_TRANSFERRED", old, to: new, purchase: "otp_1", at: Webhook.epoch + 2_000)
        ])
        #expect(
            pairs() == [
                "ONE_TIME_PURCHASE_TRANSFERRED anonymous_user_id=a user_id=u",
                "ONE_TIME_PURCHASE_RECEIVED anonymous_user_id=a user_id=u",
            ])
        #expect(try relay.database.access() == ["otp_1": ["anon:a": false, "user:u": true]])
    }

    @Test("After a transfer, what still names the anonymous holder says who that is (I5)")
    func resolvedUser() throws {
        defer { relay.end() }
        try send([
            Webhook("DEACTIVATE", .anonymous("a"), purchase: "subs_1"),
            Webhook("ACTIVATE", .user("u"), purchase: "subs_1"),
            Webhook("RENEWAL_DISABLED", .anonymous("a"), purchase: "subs_1", at: Webhook.epoch + 5_000),
            Webhook("RENEWAL_DISABLED", .anonymous("b"), purchase: "subs_2", at: Webhook.epoch + 5_000),
        ])
        let late = receiver.received.filter { $0.type == "RENEWAL_DISABLED" }
        let resolved = late.map { $0.data["resolved_user_id"] as? String }
        #expect(resolved.compactMap { $0 } == ["u"])
        #expect(late.count == 2)
    }

    @Test("A late native webhook of a transfer that was announced already is stored and not announced again")
    func lateNative() throws {
        defer { relay.end() }
        try send([
            Webhook("DEACTIVATE", .anonymous("a"), purchase: "subs_1"),
            Webhook("ACTIVATE", .user("u"), purchase: "subs_1"),
        ])
        let reported = receiver.count
        try send([
            Webhook("SUBSCRIPTION_TRANSFERRED", .anonymous("a"), to: .user("u"), purchase: "subs_1"),
            Webhook("SUBSCRIPTION_RECEIVED", .user("u"), to: .anonymous("a"), purchase: "subs_1"),
        ])
        #expect(reported == 4)
        #expect(receiver.count == reported)
        #expect(try relay.database.count("events") == 4)
        #expect(try relay.database.count("transfers") == 1)
    }
}
