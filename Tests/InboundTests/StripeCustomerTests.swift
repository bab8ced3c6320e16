import Testing
import Vocabulary

@testable import Inbound

/// Holders, links, scope, and what is no readable envelope. Oracle: Domain.md, "Readable envelope", and Stripe's pages
/// "The Event object", "Metadata" and "Thin events".
@Suite("Customers and envelopes of Stripe")
struct StripeCustomerTests {
    typealias Fixtures = StripeFixtures

    // MARK: Whom an event names

    @Test("The metadata under the configured key name the user; without them the customer is nameless")
    func userKey() throws {
        let source = stripeSource(userKey: "uid")
        let body = Fixtures.subscription("created", [("metadata", #"{"user_id":"ada","uid":"U-1"}"#)])
        #expect(try stripe(body).holder == .user("ada"))
        let other = try stripe(body, from: source)
        #expect(other.holder == .user("U-1") && other.stated.map(\.holder) == [.user("U-1")])
        let nameless = try stripe(Fixtures.subscription("created"), from: source)
        #expect(nameless.holder == .anonymous("cus_1"))
        #expect(nameless.facts.map(\.holder) == [.anonymous("cus_1")] && nameless.facts.map(\.isNamed) == [false])
        #expect(nameless.links.isEmpty)
    }

    @Test(
        "Metadata that name nobody", arguments: ["{}", "null", #"{"user_id":""}"#, #"{"user_id":null}"#, "[]", "7"])
    func noUser(_ metadata: String) throws {
        let event = try stripe(Fixtures.subscription("deleted", [("metadata", metadata)]))
        #expect(event.holder == .anonymous("cus_1"))
        #expect(event.facts.map(\.kind) == [.loss] && event.facts.map(\.isNamed) == [false])
    }

    @Test("An id is kept byte for byte, a number digit for digit")
    func ids() throws {
        for (raw, id) in [("\"e\u{301}\"", "e\u{301}"), ("\"é\"", "é"), ("9007199254740993", "9007199254740993")] {
            let event = try stripe(Fixtures.subscription("created", [("metadata", #"{"user_id":\#(raw)}"#)]))
            #expect(event.holder == .user(id))
        }
    }

    @Test("An account may stand for the customer; who names neither states nothing of access")
    func account() throws {
        let fields: BodyEdit.Fields = [
            ("customer", "null"), ("customer_account", "\"acct_2\""), ("metadata", "{}"),
        ]
        #expect(try stripe(Fixtures.subscription("created", fields)).holder == .anonymous("acct_2"))
        let nobody = try stripe(Fixtures.subscription("created", [("customer", nil), ("metadata", "{}")]))
        #expect(nobody.holder == nil && nobody.facts.isEmpty && nobody.purchase?.key == "sub_1")
        let alone = try stripe(Fixtures.subscription("created", [("customer", nil)]))
        #expect(alone.holder == .user("ada") && alone.links.isEmpty)
    }

    @Test("client_reference_id names the user where it is the configured key, and not elsewhere")
    func clientReference() throws {
        let source = stripeSource(userKey: "client_reference_id")
        let session = Fixtures.session("completed")
        #expect(try stripe(session).holder == .user("ada"))
        let referred = try stripe(session, from: source)
        #expect(referred.holder == .user("ben") && referred.facts.map(\.holder) == [.user("ben")])
        #expect(referred.links == [HolderLink(anonymousID: "cus_1", userID: "ben")])
        let copied = Fixtures.session(
            "completed", [("client_reference_id", "null"), ("metadata", #"{"client_reference_id":"cat"}"#)])
        #expect(try stripe(copied, from: source).holder == .user("cat"))
        #expect(try stripe(copied).holder == .anonymous("cus_1"))
        let bare = try stripe(Fixtures.session("completed", [("metadata", "{}")]))
        #expect(bare.holder == .anonymous("cus_1") && bare.links.isEmpty)
        let subscription = try stripe(Fixtures.subscription("created"), from: source)
        #expect(subscription.holder == .anonymous("cus_1") && subscription.facts.map(\.isNamed) == [false])
    }

    @Test("Another user in a subscription's metadata is a gain of that user, and moves no other purchase")
    func otherUser() throws {
        let event = try stripe(
            Fixtures.subscription(
                "updated", [("metadata", #"{"user_id":"ben"}"#)], previous: #"{"metadata":{"user_id":"ada"}}"#))
        #expect(event.type == event.name && event.holder == .user("ben"))
        #expect(event.stated.map(\.holder) == [.user("ben")] && event.stated.map(\.kind) == [.gain])
        #expect(event.stated.map(\.isNamed) == [true] && event.change == nil)
        #expect(event.links == [HolderLink(anonymousID: "cus_1", userID: "ben")], "who the customer is now")
        // Another user for what is lost, or not paid yet, gets nothing.
        let unpaid = try stripe(
            Fixtures.subscription(
                "updated", [("status", "\"incomplete\"")], previous: #"{"metadata":{"user_id":"ada"}}"#))
        #expect(unpaid.facts.isEmpty)
        // Metadata that no longer name anybody take nothing from whom they named.
        let forgotten = try stripe(
            Fixtures.subscription(
                "updated", [("status", "\"past_due\""), ("metadata", "{}")],
                previous: #"{"metadata":{"user_id":"ada"}}"#))
        #expect(forgotten.facts.isEmpty)
    }

    // MARK: Customers

    struct Customer: Sendable {
        let name: String
        let previous: String?
        let isLinked: Bool
    }

    @Test(
        "A customer is linked where its event sets the user",
        arguments: [
            Customer(name: "created", previous: nil, isLinked: true),
            Customer(name: "updated", previous: #"{"metadata":{"user_id":null}}"#, isLinked: true),
            Customer(name: "updated", previous: #"{"metadata":{"user_id":"old"}}"#, isLinked: true),
            Customer(name: "updated", previous: nil, isLinked: true),
            // Whatever else changes repeats who was named long ago.
            Customer(name: "updated", previous: #"{"balance":0}"#, isLinked: false),
            Customer(name: "updated", previous: #"{"metadata":{"plan":"a"}}"#, isLinked: false),
            Customer(name: "deleted", previous: nil, isLinked: false),
        ])
    func links(_ customer: Customer) throws {
        let event = try stripe(Fixtures.customer(customer.name, previous: customer.previous))
        #expect(event.type == "customer." + customer.name && event.holder == .user("ada"))
        #expect(event.links == (customer.isLinked ? [HolderLink(anonymousID: "cus_1", userID: "ada")] : []))
        #expect(event.purchase == nil && event.facts.isEmpty)
        // It is about every purchase of the customer.
        let change = HolderChange.move(from: [.anonymous("cus_1")], to: .user("ada"), isNative: false)
        #expect(event.change == (customer.isLinked ? change : nil))
    }

    @Test("A customer without a user is anonymous, and links nobody")
    func anonymousCustomer() throws {
        let event = try stripe(Fixtures.customer("created", [("metadata", "{}")]))
        #expect(event.holder == .anonymous("cus_1") && event.links.isEmpty)
    }

    // MARK: What is only passed on

    @Test(
        "An unknown event is passed on, with the customer where there is one",
        arguments: [
            ("payment_intent.succeeded", #"{"id":"pi_1","customer":"cus_9","metadata":{"user_id":"eve"}}"#, "cus_9"),
            ("entitlements.active_entitlement_summary.updated", #"{"customer":"cus_9"}"#, "cus_9"),
            ("subscription_schedule.released", #"{"id":"s","customer":null,"customer_account":"acct_9"}"#, "acct_9"),
            ("customer.discount.created", #"{"id":"di_1","customer":"cus_9"}"#, "cus_9"),
            ("charge.succeeded", #"{"id":"ch_1","customer":{"id":"cus_9"}}"#, nil),
            ("balance.available", #"{"object":"balance"}"#, nil), ("of.tomorrow", "{}", nil),
        ] as [(String, String, String?)])
    func passedOn(_ name: String, _ object: String, _ customer: String?) throws {
        let event = try stripe(Fixtures.other(name, object))
        #expect(event.name == name && event.type == name)
        #expect(event.holder == customer.map { Holder.anonymous($0) })
        #expect(event.purchase == nil && event.transaction == nil && event.facts.isEmpty && event.links.isEmpty)
    }

    // MARK: Scope

    @Test("Test mode is the sandbox, and a connected account is an app")
    func scope() throws {
        let body = Fixtures.subscription("created")
        let test = BodyEdit.edit(body, [("livemode", "false")])
        #expect(try stripe(test).scope.environment == "SANDBOX")
        let silent = BodyEdit.edit(body, [("livemode", nil)])
        #expect(try stripe(silent, from: stripeSource(defaultEnvironment: "STAGING")).scope.environment == "STAGING")
        let connected = BodyEdit.edit(body, [("account", "\"acct_7\"")])
        #expect(try stripe(connected).scope.app == "acct_7")
        #expect(try stripe(connected, from: stripeSource(app: "mine")).scope.app == "mine")
    }

    // MARK: The envelope

    @Test("A thin event is quarantined with what is to be changed at Stripe")
    func thin() {
        let thin = [
            Fixtures.thin, BodyEdit.edit(Fixtures.thin, [("object", nil)]),
            BodyEdit.edit(Fixtures.thin, [("type", "\"v2.core.account.updated\"")]),
            BodyEdit.edit(Fixtures.thin, [("type", "\"of.tomorrow\"")]),
        ]
        for body in thin {
            let reason = stripeReason(body)
            #expect(reason?.contains("Snapshot") == true && reason?.contains("thin event") == true)
        }
    }

    @Test("A ping is answered and is no event")
    func ping() {
        #expect(Stripe().handshake(Array(Fixtures.ping.utf8)) == Array("{}".utf8))
        for body in Fixtures.every + [Fixtures.thin, "", "{}", "[]"] {
            #expect(Stripe().handshake(Array(body.utf8)) == nil)
        }
        let long = BodyEdit.edit(Fixtures.ping, [("reason", "\"\(String(repeating: "x", count: 2_048))\"")])
        #expect(Stripe().handshake(Array(long.utf8)) == nil)
    }

    @Test(
        "What is no snapshot event is quarantined with its reason",
        arguments: [
            ("type", nil, "type is missing"), ("type", "7", "type cannot be read: "),
            ("created", nil, "no created is there"), ("created", "\"1790000000\"", "created cannot be read: "),
            ("created", "1790000000.5", "created cannot be read: "),
            ("data", nil, "data is missing"), ("data", "7", "data cannot be read: "),
            ("data", "{}", "data.object is missing"), ("data", #"{"object":[]}"#, "data.object cannot be read: "),
            ("id", "\"\(String(repeating: "x", count: 1_025))\"", "id is longer than 1024 bytes"),
        ] as [(String, String?, String)])
    func unreadableEnvelope(_ key: String, _ raw: String?, _ reason: String) {
        let said = stripeReason(BodyEdit.edit(Fixtures.subscription("created"), [(key, raw)]))
        #expect(said?.hasPrefix(reason) == true, "\(said ?? "read")")
    }

    @Test(
        "An id of a holder that is none is quarantined: it would be somebody else",
        arguments: [
            ("customer", #"{"id":"cus_1"}"#, "data.object.customer cannot be read: "),
            ("metadata", #"{"user_id":{}}"#, "data.object.metadata.user_id cannot be read: "),
            ("metadata", #"{"user_id":1.5}"#, "data.object.metadata.user_id cannot be read: "),
        ])
    func unreadableHolder(_ key: String, _ raw: String, _ reason: String) {
        let said = stripeReason(Fixtures.subscription("created", [(key, raw)]))
        #expect(said?.hasPrefix(reason) == true, "\(said ?? "read")")
    }

    /// Nothing outside the envelope costs the event, whatever type it has.
    @Test(
        "A wrong type outside the envelope counts as absent",
        arguments: [
            "id", "status", "items", "latest_invoice", "current_period_end", "cancel_at", "cancel_at_period_end",
            "trial_end", "ended_at", "status_details",
        ])
    func wrongTypes(_ key: String) throws {
        for name in ["created", "updated", "paused", "deleted"] {
            let absent = try stripe(Fixtures.subscription(name, [(key, nil)], previous: "{}"))
            for raw in ["null", "{}", "[1.5]", "1.5", "\"\""] {
                let event = try stripe(Fixtures.subscription(name, [(key, raw)], previous: "{}"))
                #expect(event.type == absent.type && event.purchase == absent.purchase)
                #expect(event.transaction == absent.transaction && event.facts == absent.facts)
            }
        }
    }

    @Test("Every mutated body gives an event or a reason, never a crash", arguments: 1...4 as ClosedRange<UInt64>)
    func mutations(_ seed: UInt64) {
        var mutations = Mutations(of: Fixtures.every, seed: seed)
        var read = 0
        for _ in 0..<2_500 {
            let bytes = mutations.next()
            do throws(Unreadable) {
                let event = try Stripe().normalise(bytes, header: { _ in nil }, from: stripeSource())
                read += 1
                #expect(event.body == bytes)
                #expect(!event.name.isEmpty && event.holder?.id.isEmpty != true)
                #expect(Timestamp.writable.contains(event.occurredAt))
                #expect(event.facts.allSatisfy { Timestamp.writable.contains($0.at) && !$0.holder.id.isEmpty })
                #expect(event.purchase != nil || event.facts.isEmpty)
            } catch {
                #expect(!error.reason.isEmpty && !error.reason.contains("example.com"))
            }
        }
        #expect(read > 50, "the mutations hardly leave anything readable")
    }
}
