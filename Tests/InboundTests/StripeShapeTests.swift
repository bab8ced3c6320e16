import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// Derived bodies and samples. Oracle: the relay's own reading, and every other byte of the original.
@Suite("Bodies in the shape of Stripe")
struct StripeShapeTests {
    typealias Fixtures = StripeFixtures

    static func derived(
        _ original: String, type: String, from: Holder, to: Holder, purchase: Purchase? = nil,
        transaction: Transaction? = nil
    ) -> String {
        let transfer = DerivedTransfer(
            type: type, from: from, to: to, eventID: "derived-1", unnamedPurchase: purchase,
            unnamedTransaction: transaction)
        return String(decoding: Stripe().derivedBody(from: Array(original.utf8), stating: transfer), as: UTF8.self)
    }

    @Test("A derived body has its own type and id, names both sides and states no access", arguments: Fixtures.every)
    func bothSides(_ original: String) throws {
        let before = try JSONScan.topObject(Array(original.utf8), depthMax: 16)
        let from = Holder.anonymous("cus_\"1\"")
        let to = Holder.user("ü-2")
        for type in ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED", "ONE_TIME_PURCHASE_RECEIVED"] {
            let body = Self.derived(original, type: type, from: from, to: to)
            let event = try stripe(body)
            #expect(event.name == type && event.type == type && event.vendorEventID == "derived-1")
            #expect(event.facts.isEmpty && event.change == nil, "stated twice, a transfer would be made twice")
            let after = try JSONScan.topObject(Array(body.utf8), depthMax: 16)
            let isReceived = type.hasSuffix("RECEIVED")
            let holder = try after.string(isReceived ? "user_id" : "anonymous_user_id")
            let other = try after.string(
                isReceived ? "transferred_from_anonymous_user_id" : "transferred_to_user_id")
            #expect(holder == (isReceived ? to.id : from.id) && other == (isReceived ? from.id : to.id))
            for key in before.keys where !["id", "type"].contains(key) { #expect(before.raw(key) == after.raw(key)) }
        }
    }

    @Test("Where the object names a user of either side, it names the one that the message is about")
    func holderOfTheObject() {
        let original =
            #"{ "id":"evt_1",  "type":"customer.subscription.updated", "data": {"object": {"id":"sub_1", "#
            + #""metadata": {"uid":"ben","team":"x"}}}, "created":1790000000 }"#
        #expect(
            Self.derived(original, type: "SUBSCRIPTION_TRANSFERRED", from: .user("ada"), to: .user("ben"))
                == #"{ "id":"derived-1",  "type":"SUBSCRIPTION_TRANSFERRED", "data": {"object": {"id":"sub_1", "#
                + #""metadata": {"uid":"ada","team":"x"}}}, "created":1790000000,  "user_id":"ada",  "#
                + #""transferred_to_user_id":"ben" }"#)
        #expect(
            Self.derived(original, type: "SUBSCRIPTION_TRANSFERRED", from: .anonymous("cus_1"), to: .user("ben"))
                == #"{ "id":"derived-1",  "type":"SUBSCRIPTION_TRANSFERRED", "data": {"object": {"id":"sub_1", "#
                + #""metadata": {"team":"x"}}}, "created":1790000000,  "anonymous_user_id":"cus_1",  "#
                + #""transferred_to_user_id":"ben" }"#)
    }

    @Test("A session names the holder in client_reference_id, too")
    func holderOfASession() throws {
        let body = Self.derived(
            Fixtures.session("completed"), type: "SUBSCRIPTION_TRANSFERRED", from: .anonymous("cus_1"),
            to: .user("ben"))
        let data = DerivedBody.inner("data", of: DerivedBody.object(Array(body.utf8)))
        let object = DerivedBody.inner("object", of: data)
        #expect(object.raw("client_reference_id").map { String(decoding: $0, as: UTF8.self) } == "null")
        #expect(try DerivedBody.inner("metadata", of: object).string("user_id") == "ada", "neither side")
    }

    @Test("A transfer that follows from a customer names its purchase")
    func unnamedPurchase() throws {
        let purchase = Purchase(
            key: "sub_1", kind: .subscription, store: "STRIPE", product: "prod_plus", plan: "price_month",
            subscriptionID: "sub_1")
        let transaction = Transaction(
            storeTransactionID: "in_2", storeOriginalTransactionID: "sub_1", purchasedAt: nil,
            effectiveNextRenewalAt: nil, offerType: nil, status: nil)
        let body = Self.derived(
            Fixtures.customer("created"), type: "SUBSCRIPTION_RECEIVED", from: .anonymous("cus_1"), to: .user("ada"),
            purchase: purchase, transaction: transaction)
        let object = try JSONScan.topObject(Array(body.utf8), depthMax: 16)
        for (key, text) in [
            ("subscription", "sub_1"), ("invoice", "in_2"), ("product", "prod_plus"), ("price", "price_month"),
        ] {
            #expect(try object.string(key) == text)
        }
        let single = Purchase(
            key: "pi_1", kind: .oneTime, store: "STRIPE", product: nil, plan: nil, subscriptionID: nil)
        let other = Self.derived(
            Fixtures.customer("created"), type: "ONE_TIME_PURCHASE_RECEIVED", from: .anonymous("cus_1"),
            to: .user("ada"), purchase: single)
        let otherObject = try JSONScan.topObject(Array(other.utf8), depthMax: 16)
        #expect(try otherObject.string("payment_intent") == "pi_1")
        #expect(otherObject.raw("subscription") == nil)
    }

    @Test("A damaged original still leaves the facts", arguments: ["", "{", "[]", "{}", #"{"data":7}"#])
    func damaged(_ original: String) {
        let body = Self.derived(original, type: "SUBSCRIPTION_RECEIVED", from: .user("old"), to: .user("new"))
        let start = original == #"{"data":7}"# ? #"{"data":7,"# : "{"
        #expect(
            body == start + #""type":"SUBSCRIPTION_RECEIVED","id":"derived-1","user_id":"new","#
                + #""transferred_from_user_id":"old"}"#)
    }

    // MARK: Samples

    static func request(_ name: String, _ holder: Holder, purchase: String = "sub_9") -> SampleRequest {
        SampleRequest(
            eventName: name, holder: holder, storeTransactionID: "in_9", purchaseID: purchase,
            occurredAt: Timestamp(milliseconds: 1_700_000_000_999), eventID: "evt_9", environment: "SANDBOX")
    }

    /// What names no user in its body.
    static func namesNoUser(_ name: String) -> Bool {
        let prefixes = ["customer.", "invoice.", "checkout."]
        return !prefixes.contains(where: name.hasPrefix)
    }

    @Test("A sample reads as what was asked for", arguments: Stripe().knownEventNames + ["of.tomorrow"])
    func samples(_ name: String) throws {
        for holder in [Holder.user("u-\"1\""), .anonymous("cus_1")] {
            let event = try stripe(String(decoding: Stripe().sample(Self.request(name, holder)), as: UTF8.self))
            #expect(event.name == name && event.vendorEventID == "evt_9")
            let isUnnamed = Self.namesNoUser(name) && !holder.isAnonymous
            #expect(event.holder == (isUnnamed ? .anonymous("cus_of_sub_9") : holder))
            #expect(event.scope.environment == "SANDBOX")
            #expect(event.occurredAt == Timestamp(milliseconds: 1_700_000_000_000), "whole seconds")
            let isOfSubscription = ["customer.subscription.", "invoice.", "checkout."].contains(where: name.hasPrefix)
            #expect(event.purchase?.key == (isOfSubscription || name == "charge.refunded" ? "sub_9" : nil))
            if event.purchase?.kind == .subscription, let transaction = event.transaction {
                #expect(transaction.storeTransactionID == "in_9" && transaction.effectiveNextRenewalAt != nil)
            }
        }
    }

    @Test(
        "A sample states what its event means",
        arguments: [
            ("customer.subscription.created", "SUBSCRIPTION_STARTED", [.said, .gain]),
            ("customer.subscription.updated", "customer.subscription.updated", [.said, .gain]),
            ("customer.subscription.paused", "SUBSCRIPTION_PAUSED", [.naming, .loss]),
            ("customer.subscription.resumed", "SUBSCRIPTION_UNPAUSED", [.said, .gain]),
            ("customer.subscription.deleted", "SUBSCRIPTION_TERMINATED", [.naming, .loss]),
            ("customer.subscription.trial_will_end", "customer.subscription.trial_will_end", []),
            ("invoice.paid", "SUBSCRIPTION_RENEWED", [.gain, .naming]),
            ("invoice.payment_failed", "invoice.payment_failed", []),
            ("charge.refunded", "charge.refunded", [.loss]),
        ] as [(String, String, [Fact.Kind])])
    func meanings(_ name: String, _ type: String, _ facts: [Fact.Kind]) throws {
        let event = try stripe(String(decoding: Stripe().sample(Self.request(name, .user("u"))), as: UTF8.self))
        #expect(event.type == type && event.facts.map(\.kind) == facts)
    }

    @Test("The prefix of a sample's purchase makes it a one-time purchase", arguments: ["pi_9", "cs_9", "otp_9"])
    func oneTime(_ purchase: String) throws {
        let sample = Stripe().sample(Self.request("checkout.session.completed", .user("u"), purchase: purchase))
        let event = try stripe(String(decoding: sample, as: UTF8.self))
        #expect(event.type == "PURCHASE_VALIDATED" && event.purchase?.key == purchase)
        #expect(event.purchase?.kind == .oneTime && event.facts.map(\.kind) == [.gain])
        let referred = try stripe(
            String(decoding: sample, as: UTF8.self), from: stripeSource(userKey: "client_reference_id"))
        #expect(referred.holder == .user("u"))
    }

    @Test("A sample may be at any time, without an id and of any environment", arguments: Stripe().knownEventNames)
    func anySample(_ name: String) throws {
        for milliseconds in [Int64.min, -1, .max] {
            var request = Self.request(name, .user("u"))
            request.occurredAt = Timestamp(milliseconds: milliseconds)
            request.eventID = nil
            request.environment = "STAGING"
            let event = try stripe(
                String(decoding: Stripe().sample(request), as: UTF8.self),
                from: stripeSource(defaultEnvironment: "STAGING"))
            #expect(event.vendorEventID == nil && event.scope.environment == "STAGING")
            if milliseconds == -1 { #expect(event.occurredAt.milliseconds == -1_000) }
        }
    }
}
