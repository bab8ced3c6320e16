import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// Oracle: Google's page "Real-time developer notifications reference guide", Pub/Sub's page "Receive messages from
/// push subscriptions", and the rules of the shared vocabulary, written out by hand.
@Suite("Google Play's notifications by themselves")
struct GooglePlayTests {
    typealias Fixtures = GooglePlayFixtures

    @Test("A notification alone states a type and an anonymous holder, and nothing of product and end")
    func fields() throws {
        let body = Fixtures.subscription(2)
        let event = try googlePlay(body)
        let name = Fixtures.name()
        #expect(event.scope == Scope(source: "play", app: "com.example.app", environment: "PRODUCTION"))
        #expect(event.vendorEventID == Fixtures.messageID)
        #expect(event.name == "SUBSCRIPTION_RENEWED")
        #expect(event.type == "SUBSCRIPTION_RENEWED")
        #expect(event.holder == Holder.anonymous(name))
        #expect(event.occurredAt == Fixtures.occurredAt)
        #expect(event.isTimeRepeated)
        #expect(
            event.purchase
                == Purchase(
                    key: name, kind: .subscription, store: "GOOGLE_PLAY_STORE", product: nil, plan: nil,
                    subscriptionID: nil))
        #expect(event.transaction == nil)
        #expect(
            event.facts == [Fact(kind: .gain, holder: .anonymous(name), at: Fixtures.occurredAt, isNamed: false)])
        #expect(event.change == nil && event.links.isEmpty)
        #expect(event.answer == nil)
        #expect(event.body == Array(body.utf8))
    }

    @Test("The decoded document is the notification beside the API's answer", arguments: Fixtures.all)
    func decoded(_ body: String) throws {
        let event = try googlePlay(body)
        let decoded = try JSONScan.topObject(try #require(event.decoded), depthMax: 8)
        let data = try JSONScan.topObject(Array(body.utf8), depthMax: 8).object("message")?.string("data")
        #expect(decoded.keys == ["notification", "answer"])
        #expect(decoded.raw("notification").map { Base64.encode($0) } == data)
        #expect(decoded.raw("answer").map { Array($0) } == Array("null".utf8))
    }

    // MARK: Types and access

    struct Row: Sendable, CustomStringConvertible {
        let body: String
        let name: String
        let type: String
        let fact: Fact.Kind?
        var isRevoked = false

        init(_ body: String, _ name: String, _ type: String, _ fact: Fact.Kind?, isRevoked: Bool = false) {
            self.body = body
            self.name = name
            self.type = type
            self.fact = fact
            self.isRevoked = isRevoked
        }

        var description: String { name }
    }

    static let rows: [Row] = [
        Row(
            Fixtures.subscription(1), "SUBSCRIPTION_RECOVERED", "SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY", .gain),
        Row(Fixtures.subscription(2), "SUBSCRIPTION_RENEWED", "SUBSCRIPTION_RENEWED", .gain),
        Row(Fixtures.subscription(3), "SUBSCRIPTION_CANCELED", "RENEWAL_DISABLED", nil),
        Row(Fixtures.subscription(4), "SUBSCRIPTION_PURCHASED", "SUBSCRIPTION_STARTED", .gain),
        Row(Fixtures.subscription(5), "SUBSCRIPTION_ON_HOLD", "ENTERED_BILLING_RETRY", .loss),
        Row(Fixtures.subscription(6), "SUBSCRIPTION_IN_GRACE_PERIOD", "GRACE_PERIOD_STARTED", .gain),
        Row(Fixtures.subscription(7), "SUBSCRIPTION_RESTARTED", "RENEWAL_ENABLED", .gain),
        Row(
            Fixtures.subscription(8), "SUBSCRIPTION_PRICE_CHANGE_CONFIRMED", "SUBSCRIPTION_PRICE_CHANGE_CONFIRMED",
            nil),
        Row(Fixtures.subscription(9), "SUBSCRIPTION_DEFERRED", "SUBSCRIPTION_DEFERRED", .gain),
        Row(Fixtures.subscription(10), "SUBSCRIPTION_PAUSED", "SUBSCRIPTION_PAUSED", .loss),
        Row(Fixtures.subscription(11), "SUBSCRIPTION_PAUSE_SCHEDULE_CHANGED", "SUBSCRIPTION_WILL_PAUSE", nil),
        Row(
            Fixtures.subscription(12), "SUBSCRIPTION_REVOKED", "SUBSCRIPTION_REFUNDED_REVOKED", .loss,
            isRevoked: true),
        Row(Fixtures.subscription(13), "SUBSCRIPTION_EXPIRED", "SUBSCRIPTION_TERMINATED", .loss),
        Row(Fixtures.subscription(14), "SUBSCRIPTION_14", "SUBSCRIPTION_14", nil),
        Row(Fixtures.subscription(17), "SUBSCRIPTION_ITEMS_CHANGED", "SUBSCRIPTION_ITEMS_CHANGED", nil),
        Row(
            Fixtures.subscription(18), "SUBSCRIPTION_CANCELLATION_SCHEDULED", "SUBSCRIPTION_CANCELLATION_SCHEDULED",
            nil),
        Row(
            Fixtures.subscription(19), "SUBSCRIPTION_PRICE_CHANGE_UPDATED", "SUBSCRIPTION_PRICE_CHANGE_UPDATED", nil),
        Row(
            Fixtures.subscription(20), "SUBSCRIPTION_PENDING_PURCHASE_CANCELED",
            "SUBSCRIPTION_PENDING_PURCHASE_CANCELED", nil),
        Row(
            Fixtures.subscription(22), "SUBSCRIPTION_PRICE_STEP_UP_CONSENT_UPDATED",
            "SUBSCRIPTION_PRICE_STEP_UP_CONSENT_UPDATED", nil),
        Row(Fixtures.subscription(99), "SUBSCRIPTION_99", "SUBSCRIPTION_99", nil),
        Row(Fixtures.oneTimeProduct(1), "ONE_TIME_PRODUCT_PURCHASED", "PURCHASE_VALIDATED", .gain),
        Row(Fixtures.oneTimeProduct(2), "ONE_TIME_PRODUCT_CANCELED", "ONE_TIME_PRODUCT_CANCELED", nil),
        Row(Fixtures.oneTimeProduct(7), "ONE_TIME_PRODUCT_7", "ONE_TIME_PRODUCT_7", nil),
        Row(Fixtures.voided(), "VOIDED_PURCHASE", "DEACTIVATE", .loss, isRevoked: true),
        Row(Fixtures.voided(refundType: nil), "VOIDED_PURCHASE", "DEACTIVATE", .loss, isRevoked: true),
        Row(Fixtures.voided(refundType: "2"), "VOIDED_PURCHASE", "VOIDED_PURCHASE", nil),
        Row(Fixtures.voided(refundType: "3"), "VOIDED_PURCHASE", "VOIDED_PURCHASE", nil),
        Row(Fixtures.voided(productType: "1"), "VOIDED_PURCHASE", "VOIDED_PURCHASE", nil),
        Row(Fixtures.voided(productType: "9"), "VOIDED_PURCHASE", "VOIDED_PURCHASE", nil),
        Row(Fixtures.pendingRefundReview, "PENDING_REFUND_REVIEW", "PENDING_REFUND_REVIEW", nil),
        Row(Fixtures.unknown, "celebrationNotification", "celebrationNotification", nil),
    ]

    @Test("Every notification means what is documented, and others keep their own name", arguments: rows)
    func meanings(_ row: Row) throws {
        let event = try googlePlay(row.body)
        #expect(event.name == row.name)
        #expect(event.type == row.type)
        #expect(event.facts.map(\.kind) == (row.fact.map { [$0] } ?? []))
        #expect(event.facts.allSatisfy { $0.isRevoked == row.isRevoked })
        #expect(event.facts.allSatisfy { $0.at == event.occurredAt && $0.until == nil && !$0.isNamed })
    }

    @Test("The table of meanings has every known name")
    func knownNames() {
        let known = GooglePlay().knownEventNames
        #expect(Set(known).count == known.count && known.count == 22)
        #expect(Set(known).isSubset(of: Set(Self.rows.map(\.name))))
    }

    // MARK: Purchase and transaction

    @Test("The purchase is of the notification's kind and product, and only a void names a payment")
    func purchases() throws {
        let oneTime = try googlePlay(Fixtures.oneTimeProduct(1))
        #expect(oneTime.purchase?.kind == .oneTime)
        #expect(oneTime.purchase?.product == "lifetime")
        #expect(oneTime.transaction == nil)
        let older = Fixtures.push(
            Fixtures.notification(
                "subscriptionNotification",
                #"{"notificationType":4,"purchaseToken":"\#(Fixtures.token)","subscriptionId":"plus"}"#))
        #expect(try googlePlay(older).purchase?.product == "plus")
        let voided = try googlePlay(Fixtures.voided())
        #expect(voided.purchase?.kind == .oneTime)
        #expect(
            voided.transaction
                == Transaction(
                    storeTransactionID: "GPA.3388-4471-9023-55182..0",
                    storeOriginalTransactionID: "GPA.3388-4471-9023-55182", purchasedAt: nil,
                    effectiveNextRenewalAt: nil, offerType: nil, status: "REVOKED"))
        let ofSubscription = try googlePlay(Fixtures.voided(productType: "1"))
        #expect(ofSubscription.purchase?.kind == .subscription)
        #expect(ofSubscription.transaction?.status == nil)
    }

    @Test(
        "The first order is the id without the number of the renewal",
        arguments: [
            ("GPA.1-2..0", "GPA.1-2"), ("GPA.1-2..17", "GPA.1-2"), ("GPA.1-2", "GPA.1-2"), ("GPA.1-2..", "GPA.1-2.."),
            ("GPA.1-2..x", "GPA.1-2..x"), ("GPA.1-2.3", "GPA.1-2.3"), ("..3", "..3"), (".3", ".3"), ("x", "x"),
        ])
    func firstOrder(_ order: String, _ first: String) throws {
        let transaction = try googlePlay(Fixtures.voided(order: order)).transaction
        #expect(transaction?.storeTransactionID == order)
        #expect(transaction?.storeOriginalTransactionID == first)
    }

    @Test(
        "A notification that names no purchase names nobody",
        arguments: [Fixtures.pendingRefundReview, Fixtures.unknown])
    func withoutPurchase(_ body: String) throws {
        let event = try googlePlay(body)
        #expect(event.holder == nil && event.purchase == nil && event.transaction == nil && event.facts.isEmpty)
    }

    // MARK: Envelope

    @Test("The time is read as a number and as a string", arguments: ["1790841606015", #""1790841606015""#])
    func time(_ time: String) throws {
        let fields = #"{"notificationType":2,"purchaseToken":"\#(Fixtures.token)"}"#
        let body = Fixtures.push(Fixtures.notification("subscriptionNotification", fields, time: time))
        #expect(try googlePlay(body).occurredAt == Fixtures.occurredAt)
    }

    @Test("A redelivery is the same event, whatever Pub/Sub adds to it")
    func redelivery() throws {
        let first = try googlePlay(Fixtures.subscription(2))
        let again = BodyEdit.edit(Fixtures.subscription(2), [(key: "deliveryAttempt", raw: "3")])
        let second = try googlePlay(again)
        #expect(first.vendorEventID == second.vendorEventID && first.occurredAt == second.occurredAt)
        #expect(first.repeated != nil && first.repeated == second.repeated && first.body != second.body)
        let snake = BodyEdit.edit(again, in: "message", set: [(key: "messageId", raw: nil)])
        let camel = BodyEdit.edit(again, in: "message", set: [(key: "message_id", raw: nil)])
        for body in [snake, camel] { #expect(try googlePlay(body).vendorEventID == Fixtures.messageID) }
    }

    @Test("App and environment come from the configuration where it has them")
    func scope() throws {
        let body = Fixtures.subscription(2, package: "com.example.other")
        #expect(try googlePlay(body).scope.app == "com.example.other")
        let source = googlePlaySource(app: "mine", defaultEnvironment: "SANDBOX")
        #expect(
            try googlePlay(body, from: source).scope
                == Scope(source: "play", app: "mine", environment: "SANDBOX"))
    }

    static let unreadable: [(String, String)] = [
        ("[]", "not one strict JSON object"), ("{}", "payload unwrapping"),
        (Fixtures.notification("subscriptionNotification", "{}"), "payload unwrapping"),
        (#"{"message":7}"#, "message cannot be read"),
        (#"{"message":{"data":"e30="}}"#, "message.messageId is missing"),
        (#"{"message":{"messageId":"1"}}"#, "message.data is missing"),
        (#"{"message":{"messageId":"1","data":""}}"#, "message.data is missing"),
        (#"{"message":{"messageId":"1","data":7}}"#, "message.data cannot be read"),
        (#"{"message":{"messageId":"1","data":"e30"}}"#, "message.data is not base64"),
        (#"{"message":{"messageId":"1","data":"e3\n0="}}"#, "message.data is not base64"),
        (#"{"message":{"messageId":"1","data":"_-8="}}"#, "message.data is not base64"),
        (Fixtures.push("nothing"), "in message.data, the body is not one strict JSON object"),
        (Fixtures.push("{}"), "packageName is missing"),
        (Fixtures.push(#"{"packageName":"com.example.app"}"#), "eventTimeMillis is missing"),
        (Fixtures.push(Fixtures.notification("version2", "{}")), "there is no notification"),
        (Fixtures.push(Fixtures.notification("subscriptionNotification", "7")), "there is no notification"),
        (Fixtures.push(Fixtures.notification("subscriptionNotification", "{}")), "notificationType is missing"),
        (
            Fixtures.push(Fixtures.notification("subscriptionNotification", #"{"notificationType":"two"}"#)),
            "notificationType is not an integer"
        ),
        (
            Fixtures.push(Fixtures.notification("subscriptionNotification", #"{"notificationType":2}"#)),
            "subscriptionNotification.purchaseToken is missing"
        ),
        (
            Fixtures.push(Fixtures.notification("voidedPurchaseNotification", #"{"productType":2}"#)),
            "voidedPurchaseNotification.purchaseToken is missing"
        ),
        (
            Fixtures.push(Fixtures.notification("testNotification", "{}", time: #""soon""#)),
            "eventTimeMillis is not an integer"
        ),
        (
            Fixtures.push(Fixtures.notification("testNotification", "{}", time: "9223372036854775807")),
            "eventTimeMillis lies outside"
        ),
        (
            Fixtures.push(
                Fixtures.notification("testNotification", #"{},"voidedPurchaseNotification":{}"#)),
            "several notifications: voidedPurchaseNotification, testNotification"
        ),
    ]

    @Test("What cannot be read is kept with its place", arguments: unreadable)
    func unreadableBodies(_ body: String, _ reason: String) {
        let found = Self.reason(body)
        #expect(found?.contains(reason) == true, "\(found ?? "it was read")")
    }

    @Test("What is about another app is none of the source's; once stored, it is read again all the same")
    func foreign() throws {
        let body = Fixtures.subscription(2, package: "com.example.foreign")
        let unreadable = Unreadable(reason: "in message.data, packageName is none of the source's packages")
        #expect(throws: unreadable) {
            try GooglePlay().requireOwn(Array(body.utf8), of: googlePlaySource())
        }
        #expect(throws: unreadable) {
            _ = try GooglePlay().enrichment(of: Array(body.utf8), from: googlePlaySource())
        }
        #expect(try googlePlay(body).scope.app == "com.example.foreign")
    }

    static func reason(_ body: String) -> String? {
        do {
            _ = try googlePlay(body)
            return nil
        } catch {
            return (error as? Unreadable)?.reason ?? "another error"
        }
    }

    // MARK: Handshake

    @Test("A test notification is answered and is no event")
    func handshake() throws {
        let answer = try #require(GooglePlay().handshake(Array(Fixtures.test.utf8)))
        #expect(try JSONScan.topObject(answer, depthMax: 2).count == 1)
        for body in Fixtures.all where body != Fixtures.test {
            #expect(GooglePlay().handshake(Array(body.utf8)) == nil)
        }
        for body in ["", "{}", "[]"] { #expect(GooglePlay().handshake(Array(body.utf8)) == nil) }
    }

    // MARK: Broken bodies

    @Test("A broken body traps nowhere, and no error quotes a token")
    func mutations() {
        var bodies = Mutations(of: Fixtures.all, seed: 20_261_001)
        var notifications = Mutations(
            of: [
                Fixtures.notification(
                    "subscriptionNotification", #"{"notificationType":2,"purchaseToken":"\#(Fixtures.token)"}"#),
                Fixtures.notification(
                    "voidedPurchaseNotification",
                    #"{"purchaseToken":"\#(Fixtures.token)","orderId":"GPA.1","productType":2,"refundType":1}"#),
            ], seed: 20_261_002)
        for _ in 0..<2_000 {
            let whole = String(decoding: bodies.next(), as: UTF8.self)
            let inner = Fixtures.push(String(decoding: notifications.next(), as: UTF8.self))
            for body in [whole, inner] {
                let reason = Self.reason(body) ?? ""
                #expect(!reason.contains(Fixtures.token.prefix(20)))
                _ = GooglePlay().handshake(Array(body.utf8))
            }
        }
    }
}
