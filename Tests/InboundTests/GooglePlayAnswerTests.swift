import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// Oracle: Google's reference of purchases.subscriptionsv2 and purchases.productsv2, and its page "Subscription
/// lifecycle": who has access in which state.
@Suite("Google Play's notifications with the API's answer")
struct GooglePlayAnswerTests {
    typealias Fixtures = GooglePlayFixtures

    @Test("An answer states holder, product, plan, payment and end as of the request")
    func fields() throws {
        let body = Fixtures.subscription(2)
        let event = try googlePlay(body, answered: Fixtures.state())
        let name = Fixtures.name()
        #expect(event.scope == Scope(source: "play", app: "com.example.app", environment: "PRODUCTION"))
        #expect(event.vendorEventID == Fixtures.messageID)
        #expect(event.type == "SUBSCRIPTION_RENEWED")
        #expect(event.holder == Holder.user(Fixtures.account))
        #expect(event.occurredAt == Fixtures.occurredAt)
        #expect(
            event.purchase
                == Purchase(
                    key: name, kind: .subscription, store: "GOOGLE_PLAY_STORE", product: "plus", plan: "monthly",
                    subscriptionID: nil))
        #expect(
            event.transaction
                == Transaction(
                    storeTransactionID: "GPA.3388-4471-9023-55182..0",
                    storeOriginalTransactionID: "GPA.3388-4471-9023-55182", purchasedAt: nil,
                    effectiveNextRenewalAt: Fixtures.expiresAt, offerType: "NONE", status: "AUTO_RENEWING"))
        #expect(
            event.facts == [
                Fact(kind: .said, holder: .user(Fixtures.account), at: Fixtures.askedAt),
                Fact(
                    kind: .gain, holder: .anonymous(name), at: Fixtures.askedAt, until: Fixtures.expiresAt,
                    isNamed: false),
            ])
        let bought = try googlePlay(Fixtures.subscription(4), answered: Fixtures.state())
        #expect(bought.facts.map(\.kind) == [.said, .gain] && bought.stated.map(\.holder) == [.user(Fixtures.account)])
        #expect(event.body == Array(body.utf8))
        let answer = try #require(event.answer)
        #expect(event.asOf == Fixtures.askedAt && event.isIDOfSource)
        let decoded = try JSONScan.topObject(try #require(event.decoded), depthMax: 16)
        #expect(decoded.raw("answer").map { Array($0) } == answer)
    }

    @Test("The stored answer gives the same event again, and nothing is asked")
    func replay() throws {
        let body = Fixtures.subscription(4)
        let first = try googlePlay(body, answered: Fixtures.state("CANCELED"))
        let again = try GooglePlay().normalise(
            Array(body.utf8), answer: first.answer, from: googlePlaySource())
        #expect(again.facts == first.facts && again.type == first.type && again.holder == first.holder)
        #expect(again.purchase == first.purchase && again.transaction == first.transaction)
        #expect(again.scope == first.scope && again.answer == first.answer)
    }

    // MARK: States

    struct Row: Sendable, CustomStringConvertible {
        let state: String
        let fact: Fact.Kind?
        let status: String?

        init(_ state: String, _ fact: Fact.Kind?, _ status: String?) {
            self.state = state
            self.fact = fact
            self.status = status
        }

        var description: String { state }
    }

    static let states: [Row] = [
        Row("ACTIVE", .gain, "AUTO_RENEWING"), Row("IN_GRACE_PERIOD", .gain, "IN_GRACE_PERIOD"),
        Row("CANCELED", .gain, "AUTO_RENEWING_CANCELED"), Row("ON_HOLD", .loss, "ON_HOLD"),
        Row("PAUSED", .loss, "PAUSED"), Row("EXPIRED", .loss, "DEACTIVATED"), Row("PENDING", nil, nil),
        Row("PENDING_PURCHASE_CANCELED", nil, nil),
    ]

    @Test("The state decides about access, whatever the notification is called", arguments: states)
    func access(_ row: Row) throws {
        for number in [2, 3, 13, 19, 99] {
            let event = try googlePlay(Fixtures.subscription(number), answered: Fixtures.state(row.state))
            let facts = Self.withoutNaming(event)
            #expect(facts.map(\.kind) == (row.fact.map { [$0] } ?? []))
            #expect(facts.allSatisfy { $0.at == Fixtures.askedAt && $0.until == Fixtures.expiresAt })
            #expect(facts.allSatisfy { !$0.isRevoked })
            #expect(event.transaction?.status == row.status)
        }
        let named = try googlePlay(Fixtures.subscription(13))
        #expect(try googlePlay(Fixtures.subscription(13), answered: Fixtures.state(row.state)).type == named.type)
    }

    /// Whose the purchase is, is said beside a loss (`lossOfWhoeverHasIt`).
    private static func withoutNaming(_ event: Event) -> [Fact] { event.stated.filter { $0.kind != .naming } }

    /// Oracle: "Subscription lifecycle", "Cancellations": one whose end is in the past loses entitlement at once.
    @Test("A cancelled subscription runs to its end, and is lost after it: cancelled in a hold, or by the end of one")
    func canceledAfterItsEnd() throws {
        let ends: [(expiry: String, isOver: Bool)] = [
            ("2026-09-28T08:00:00Z", true), (Fixtures.askedAt.iso8601, true),
            (Fixtures.askedAt.advanced(byMilliseconds: 1).iso8601, false),
        ]
        for (expiry, isOver) in ends {
            let items = Fixtures.items(Fixtures.item([(key: "expiryTime", raw: "\"\(expiry)\"")]))
            let event = try googlePlay(Fixtures.subscription(3), answered: Fixtures.state("CANCELED", items))
            let facts = Self.withoutNaming(event)
            let kind: Fact.Kind = isOver ? .loss : .gain
            #expect(facts.map(\.kind) == [kind], "\(expiry)")
            #expect(facts.allSatisfy { !$0.isRevoked && $0.until == Timestamp(iso8601: expiry) }, "\(expiry)")
            #expect(event.transaction?.status == (isOver ? "DEACTIVATED" : "AUTO_RENEWING_CANCELED"), "\(expiry)")
            #expect(event.type == "RENEWAL_DISABLED")
            // An end that passes without a word may be a silent grace period.
            let active = try googlePlay(Fixtures.subscription(3), answered: Fixtures.state("ACTIVE", items))
            #expect(active.stated.map(\.kind) == [.gain], "\(expiry)")
        }
    }

    @Test("A state that is not documented leaves it to the name", arguments: ["UNSPECIFIED", "SOMETHING_NEW"])
    func unknownState(_ state: String) throws {
        let expired = try googlePlay(Fixtures.subscription(13), answered: Fixtures.state(state))
        #expect(Self.withoutNaming(expired).map(\.kind) == [.loss])
        #expect(expired.facts.allSatisfy { $0.at == Fixtures.occurredAt })
        #expect(try googlePlay(Fixtures.subscription(19), answered: Fixtures.state(state)).facts.isEmpty)
        #expect(expired.holder == Holder.user(Fixtures.account))
    }

    @Test("A revocation takes back what was paid for; any other end does not")
    func revoked() throws {
        let revoked = try googlePlay(Fixtures.subscription(12), answered: Fixtures.state("EXPIRED"))
        #expect(Self.withoutNaming(revoked).map(\.isRevoked) == [true] && revoked.transaction?.status == "REVOKED")
        let running = try googlePlay(Fixtures.subscription(12), answered: Fixtures.state("ACTIVE"))
        #expect(running.stated.map(\.kind) == [.gain] && running.stated.map(\.isRevoked) == [false])
        let voided = try googlePlay(Fixtures.voided(productType: "1"), answered: Fixtures.state("ACTIVE"))
        #expect(voided.stated.map(\.kind) == [.gain], "the void of one payment ends nothing by itself")
    }

    @Test("A pending purchase that was called off was never held")
    func calledOff() throws {
        #expect(try googlePlay(Fixtures.subscription(20), answered: Fixtures.state("EXPIRED")).facts.isEmpty)
        #expect(try googlePlay(Fixtures.oneTimeProduct(2), answered: Fixtures.product("CANCELLED")).facts.isEmpty)
    }

    @Test("A plan that does not renew says so; a prepaid one says nothing")
    func renewal() throws {
        let off = Fixtures.item([(key: "autoRenewingPlan", raw: "{}")])
        let prepaid = Fixtures.item([
            (key: "autoRenewingPlan", raw: nil), (key: "prepaidPlan", raw: "{}"),
        ])
        for (item, status) in [(off, "AUTO_RENEWING_CANCELED"), (prepaid, nil)] as [(String, String?)] {
            let answer = Fixtures.state("ACTIVE", Fixtures.items(item))
            #expect(try googlePlay(Fixtures.subscription(2), answered: answer).transaction?.status == status)
        }
    }

    @Test(
        "The offer of the period names a purchase's begin and end",
        arguments: [
            (4, #"{"freeTrial":{}}"#, "TRIAL_STARTED", "FREE_TRIAL"),
            (4, #"{"introductoryPrice":{}}"#, "INTRO_OFFER_STARTED", "INTRO_OFFER"),
            (4, #"{"basePrice":{}}"#, "SUBSCRIPTION_STARTED", "NONE"),
            (4, #"{"prorationPeriod":{}}"#, "SUBSCRIPTION_STARTED", nil), (4, nil, "SUBSCRIPTION_STARTED", "NONE"),
            (13, #"{"freeTrial":{}}"#, "TRIAL_NOT_CONVERTED", "FREE_TRIAL"),
            (13, #"{"basePrice":{}}"#, "SUBSCRIPTION_TERMINATED", "NONE"),
            (2, #"{"freeTrial":{}}"#, "SUBSCRIPTION_RENEWED", "FREE_TRIAL"),
        ] as [(Int, String?, String, String?)])
    func offers(_ number: Int, _ phase: String?, _ type: String, _ offer: String?) throws {
        let answer = Fixtures.state("ACTIVE", Fixtures.items(Fixtures.item([(key: "offerPhase", raw: phase)])))
        let event = try googlePlay(Fixtures.subscription(number), answered: answer)
        #expect(event.type == type)
        #expect(event.transaction?.offerType == offer)
    }

    @Test("An offer without a phase is not known")
    func offerWithoutPhase() throws {
        let item = Fixtures.item([(key: "offerDetails", raw: #"{"basePlanId":"monthly","offerId":"win-back"}"#)])
        let event = try googlePlay(
            Fixtures.subscription(4), answered: Fixtures.state("ACTIVE", Fixtures.items(item)))
        #expect(event.transaction?.offerType == nil && event.transaction != nil)
    }

    @Test(
        "Only the first renewal may have converted a trial: its order has the number 0",
        arguments: [
            (2, "GPA.1-2..0", true), (2, "GPA.1-2..1", false), (2, "GPA.1-2..10", false), (2, "GPA.1-2", false),
            (1, "GPA.1-2..0", false), (4, "GPA.1-2..0", false),
        ])
    func firstRenewal(_ number: Int, _ order: String, _ mayConvert: Bool) throws {
        let item = Fixtures.item([(key: "latestSuccessfulOrderId", raw: "\"\(order)\"")])
        let answer = Fixtures.state("ACTIVE", Fixtures.items(item))
        #expect(try googlePlay(Fixtures.subscription(number), answered: answer).mayConvertTrial == mayConvert)
        #expect(try !googlePlay(Fixtures.subscription(number)).mayConvertTrial, "without an answer nothing is known")
    }

    @Test(
        "Only a recovery of which the API answered a state may end a pause",
        arguments: [(1, "SUBSCRIPTION_UNPAUSED"), (2, nil), (4, nil), (7, nil)] as [(Int, String?)])
    func endOfPause(_ number: Int, _ typeIfPaused: String?) throws {
        let answer = Fixtures.state("ACTIVE", Fixtures.items(Fixtures.item()))
        #expect(try googlePlay(Fixtures.subscription(number), answered: answer).typeIfPaused == typeIfPaused)
        #expect(try googlePlay(Fixtures.subscription(number)).typeIfPaused == nil)
    }

    @Test("The first payment has the time of the purchase, a renewal has none")
    func purchasedAt() throws {
        let first = Fixtures.item([(key: "latestSuccessfulOrderId", raw: "\"GPA.1-2\"")])
        let event = try googlePlay(
            Fixtures.subscription(4), answered: Fixtures.state("ACTIVE", Fixtures.items(first)))
        #expect(event.transaction?.purchasedAt == Timestamp(iso8601: "2026-09-01T08:00:05.377Z"))
        #expect(event.transaction?.storeOriginalTransactionID == "GPA.1-2")
        let older = Fixtures.item([(key: "latestSuccessfulOrderId", raw: nil)])
        let named = try googlePlay(
            Fixtures.subscription(4), answered: Fixtures.state("ACTIVE", Fixtures.items(older)))
        #expect(named.transaction?.storeTransactionID == "GPA.3388-4471-9023-55182..0")
    }

    @Test("The void of a former order says nothing of it, and takes nothing from what is known of it")
    func voidedOrder() throws {
        let (first, newest) = ("GPA.3388-4471-9023-55182", Fixtures.voidedOrder)
        func voided(_ order: String, _ state: String) throws -> Event {
            try googlePlay(Fixtures.voided(productType: "1", order: order), answered: Fixtures.state(state))
        }
        let former = try voided(first, "ACTIVE")
        #expect(
            former.transaction
                == Transaction(
                    storeTransactionID: first, storeOriginalTransactionID: first, purchasedAt: nil,
                    effectiveNextRenewalAt: nil, offerType: nil, status: nil))
        #expect(former.transactionAsOf == Event.yieldedTransaction && former.asOf == Fixtures.askedAt)
        for state in ["ACTIVE", "EXPIRED"] {
            let current = try voided(newest, state)
            #expect(current.transaction?.effectiveNextRenewalAt == Fixtures.expiresAt)
            #expect(current.transactionAsOf == Fixtures.askedAt)
        }
    }

    /// Oracle: `latestSuccessfulOrderId` in the reference of purchases.subscriptionsv2: a purchase by a promo code has
    /// none.
    @Test("A subscription without an order has its end all the same: its token stands for the payment")
    func withoutOrder() throws {
        let item = Fixtures.item([(key: "latestSuccessfulOrderId", raw: nil)])
        let orderless: BodyEdit.Fields = [(key: "latestOrderId", raw: nil), (key: "lineItems", raw: "[\(item)]")]
        func answer(_ state: String) -> String { Fixtures.state(state, orderless) }
        for (number, state) in [(4, "ACTIVE"), (2, "ACTIVE"), (5, "ON_HOLD")] {
            let event = try googlePlay(Fixtures.subscription(number), answered: answer(state))
            #expect(
                event.transaction
                    == Transaction(
                        storeTransactionID: Fixtures.name(), storeOriginalTransactionID: Fixtures.name(),
                        purchasedAt: Timestamp(iso8601: "2026-09-01T08:00:05.377Z"),
                        effectiveNextRenewalAt: Fixtures.expiresAt, offerType: "NONE",
                        status: state == "ACTIVE" ? "AUTO_RENEWING" : "ON_HOLD"))
            #expect(!event.mayConvertTrial)
        }
        let before = Fixtures.otherToken("f")
        let upgrade = try googlePlay(
            Fixtures.subscription(4), answered: Fixtures.linked(to: before, orderless))
        #expect(upgrade.purchase?.key == Fixtures.name(before))
        #expect(upgrade.transaction?.storeTransactionID == Fixtures.name(), "a plan is a payment of its own")
        #expect(try googlePlay(Fixtures.subscription(20), answered: answer("PENDING")).transaction == nil)
        let order = Fixtures.voidedOrder
        let voided = try googlePlay(Fixtures.voided(productType: "1", order: order), answered: answer("ACTIVE"))
        #expect(voided.transaction?.storeTransactionID == order && voided.transaction?.effectiveNextRenewalAt == nil)
        let product = Fixtures.product("PURCHASED", [(key: "orderId", raw: nil)])
        #expect(try googlePlay(Fixtures.oneTimeProduct(1), answered: product).transaction == nil, "it has no end")
    }

    // MARK: Holder and environment

    @Test("The account names the holder as the source says")
    func naming() throws {
        let body = Fixtures.subscription(2)
        let anonymous = try googlePlay(
            body, answered: Fixtures.state(), from: googlePlaySource(accountID: .anonymous))
        #expect(anonymous.holder == Holder.anonymous(Fixtures.account))
        #expect(anonymous.facts.map(\.isNamed) == [false] && anonymous.facts.map(\.isGiven) == [true])
    }

    /// Oracle: Google's account id of a token never changes, whoever the app's backend gives the purchase to.
    @Test("A loss is that of whoever has the purchase; the account of the purchase is named beside it")
    func lossOfWhoeverHasIt() throws {
        let product = Fixtures.product("PURCHASED")
        let losses: [(body: String, answer: String, until: Timestamp?, isRevoked: Bool)] = [
            (Fixtures.subscription(13), Fixtures.state("EXPIRED"), Fixtures.expiresAt, false),
            (Fixtures.subscription(12), Fixtures.state("EXPIRED"), Fixtures.expiresAt, true),
            (Fixtures.subscription(5), Fixtures.state("ON_HOLD"), Fixtures.expiresAt, false),
            (Fixtures.voided(), product, nil, true),
        ]
        for (body, answer, until, isRevoked) in losses {
            func loss(of holder: Holder, isGiven: Bool = false) -> Fact {
                Fact(
                    kind: .loss, holder: holder, at: Fixtures.askedAt, until: until, isRevoked: isRevoked,
                    isNamed: false, isGiven: isGiven)
            }
            let event = try googlePlay(body, answered: answer)
            #expect(event.holder == .user(Fixtures.account), "the message names the account of the purchase")
            let naming = Fact(kind: .naming, holder: .user(Fixtures.account), at: Fixtures.askedAt)
            #expect(event.facts == [naming, loss(of: .anonymous(Fixtures.name()))])
            let install = try googlePlay(body, answered: answer, from: googlePlaySource(accountID: .anonymous))
            #expect(install.facts == [loss(of: .anonymous(Fixtures.account), isGiven: true)])
        }
    }

    @Test("Without an account the purchase's anonymous holder has it, and the fact is nameless")
    func withoutAccount() throws {
        for accounts in [nil, "{}", #"{"obfuscatedExternalAccountId":""}"#, "7"] as [String?] {
            let answer = Fixtures.state("ACTIVE", [(key: "externalAccountIdentifiers", raw: accounts)])
            let event = try googlePlay(Fixtures.subscription(2), answered: answer)
            #expect(event.holder == Holder.anonymous(Fixtures.name()))
            #expect(event.facts.map(\.isNamed) == [false])
        }
    }

    @Test("A purchase outside the app is a new one of the account that its context names")
    func outOfApp() throws {
        let context =
            #"{"expiredPurchaseToken":"\#(Fixtures.otherToken("e"))","#
            + #""expiredExternalAccountIdentifiers":{"obfuscatedExternalAccountId":"before"}}"#
        let answer = Fixtures.state(
            "ACTIVE",
            [(key: "externalAccountIdentifiers", raw: nil), (key: "outOfAppPurchaseContext", raw: context)])
        let event = try googlePlay(Fixtures.subscription(4), answered: answer)
        #expect(event.holder == Holder.user("before") && event.stated.map(\.isNamed) == [true])
        #expect(event.purchase?.key == Fixtures.name(), "the expired purchase is another one")
        let both = Fixtures.state("ACTIVE", [(key: "outOfAppPurchaseContext", raw: context)])
        #expect(try googlePlay(Fixtures.subscription(4), answered: both).holder == Holder.user(Fixtures.account))
    }

    @Test("A licence tester's purchase is of the sandbox, any other of production")
    func environments() throws {
        let test = Fixtures.state("ACTIVE", [(key: "testPurchase", raw: "{}")])
        let source = googlePlaySource(defaultEnvironment: "STAGING")
        let body = Fixtures.subscription(2)
        #expect(try googlePlay(body, answered: test, from: source).scope.environment == "SANDBOX")
        #expect(try googlePlay(body, answered: Fixtures.state(), from: source).scope.environment == "PRODUCTION")
        #expect(try googlePlay(body, from: source).scope.environment == "STAGING")
        let product = Fixtures.product("PURCHASED", [(key: "testPurchaseContext", raw: "{}")])
        let event = try googlePlay(Fixtures.oneTimeProduct(1), answered: product, from: source)
        #expect(event.scope.environment == "SANDBOX")
    }

    // MARK: Replaced purchases

    @Test("A purchase whose place another one has taken states nothing")
    func replaced() throws {
        let answer = Fixtures.state(
            "EXPIRED", [(key: "canceledStateContext", raw: #"{"replacementCancellation":{}}"#)])
        let event = try googlePlay(Fixtures.subscription(13), answered: answer)
        #expect(event.facts.isEmpty && event.transaction == nil)
        #expect(event.purchase?.key == Fixtures.name() && event.purchase?.product == nil)
        #expect(event.type == "SUBSCRIPTION_TERMINATED")
        let other = Fixtures.state(
            "EXPIRED", [(key: "canceledStateContext", raw: #"{"userInitiatedCancellation":{}}"#)])
        #expect(try googlePlay(Fixtures.subscription(13), answered: other).facts.map(\.kind) == [.naming, .loss])
    }

    @Test("Nothing is stated of a token that the ledger knows to be replaced, whatever the API says")
    func knownAsReplaced() throws {
        let known = KnownToken(
            token: GooglePlayToken(Fixtures.token).id, first: "first.1", environment: "SANDBOX", isReplaced: true)
        for (status, answer) in [(200, Fixtures.state("EXPIRED")), (410, Fixtures.gone), (404, Fixtures.unknownToken)] {
            var play = FakePlay([Fixtures.token: (status, answer)], known: [Fixtures.token: known])
            let event = try play.event(Fixtures.subscription(13))
            #expect(event.facts.isEmpty && event.purchase?.key == "first.1")
        }
    }

    // MARK: 410 and 404

    @Test("A purchase that the API has forgotten has ended, but for one that never was")
    func ended() throws {
        for (body, revokes) in [
            (Fixtures.subscription(2), false), (Fixtures.subscription(12), true), (Fixtures.subscription(99), false),
            (Fixtures.oneTimeProduct(1), false), (Fixtures.voided(), true),
        ] {
            var play = FakePlay([Fixtures.token: (410, Fixtures.gone)])
            let event = try play.event(body)
            #expect(event.facts.map(\.kind) == [.loss] && event.facts.map(\.at) == [Fixtures.askedAt])
            #expect(event.facts.map(\.isRevoked) == [revokes] && event.facts.map(\.isNamed) == [false])
            #expect(event.holder == Holder.anonymous(Fixtures.name()))
        }
        for body in [Fixtures.subscription(20), Fixtures.oneTimeProduct(2)] {
            var play = FakePlay([Fixtures.token: (410, Fixtures.gone)])
            let event = try play.event(body)
            #expect(event.facts.isEmpty)
        }
    }

    @Test("What the API does not know means what its name says, in the environment that is known of the token")
    func noAnswer() throws {
        var play = FakePlay()
        let event = try play.event(Fixtures.subscription(13))
        let named = try googlePlay(Fixtures.subscription(13))
        #expect(event.facts == named.facts && event.type == named.type && event.scope == named.scope)
        #expect(event.answer != nil)
        let known = KnownToken(
            token: GooglePlayToken(Fixtures.token).id, first: "first.1", environment: "SANDBOX", isReplaced: false)
        var other = FakePlay(known: [Fixtures.token: known])
        let later = try other.event(Fixtures.subscription(13))
        #expect(later.scope.environment == "SANDBOX" && later.purchase?.key == "first.1")
        #expect(later.facts.map(\.at) == [Fixtures.occurredAt])
    }

    // MARK: One-time products

    @Test("A one-time purchase goes by its state, and its refund by the notification")
    func oneTimeProducts() throws {
        let bought = try googlePlay(Fixtures.oneTimeProduct(1), answered: Fixtures.product())
        #expect(bought.stated.map(\.kind) == [.gain] && bought.stated.map(\.until) == [nil])
        #expect(bought.stated.map(\.holder) == [.user(Fixtures.account)])
        #expect(bought.purchase?.kind == .oneTime && bought.purchase?.product == "lifetime.v2")
        #expect(bought.holder == Holder.user(Fixtures.account))
        #expect(bought.transaction?.storeTransactionID == "GPA.3391-0047-6612-80913")
        #expect(bought.transaction?.purchasedAt == Timestamp(iso8601: "2026-09-05T18:40:00.220Z"))
        #expect(bought.transaction?.status == nil)
        let late = try googlePlay(Fixtures.oneTimeProduct(1), answered: Fixtures.product("CANCELLED"))
        #expect(late.facts.map(\.kind) == [.naming, .loss] && Self.withoutNaming(late).map(\.isRevoked) == [true])
        #expect(try googlePlay(Fixtures.oneTimeProduct(1), answered: Fixtures.product("PENDING")).facts.isEmpty)
        for state in ["CANCELLED", "PURCHASED", "PENDING"] {
            let refunded = try googlePlay(Fixtures.voided(), answered: Fixtures.product(state))
            #expect(refunded.type == "DEACTIVATE")
            #expect(refunded.facts.map(\.kind) == [.naming, .loss])
            #expect(Self.withoutNaming(refunded).map(\.isRevoked) == [true])
            #expect(refunded.facts.allSatisfy { $0.at == Fixtures.askedAt })
            #expect(refunded.transaction?.storeTransactionID == Fixtures.voidedOrder)
        }
        let part = try googlePlay(Fixtures.voided(refundType: "2"), answered: Fixtures.product())
        #expect(part.stated.map(\.kind) == [.gain] && part.transaction?.status == nil)
    }

    // MARK: The stored document

    @Test(
        "A damaged answer is said to be one",
        arguments: [
            "", "[]", "{}", #"{"asked_at_ms":1}"#, #"{"asked_at_ms":1,"first_token":"a.1","status":200}"#,
            #"{"asked_at_ms":1,"first_token":"a.1","question":"subscription","status":500}"#,
            #"{"asked_at_ms":1,"first_token":"a.1","question":"subscription","status":200,"purchase":{}}"#,
            #"{"asked_at_ms":1,"first_token":"a.1","question":"product","status":200,"purchase":null}"#,
        ])
    func damaged(_ answer: String) {
        let (body, stored) = (Array(Fixtures.subscription(2).utf8), Array(answer.utf8))
        var reason: String?
        do {
            _ = try GooglePlay().normalise(body, answer: stored, from: googlePlaySource())
        } catch {
            reason = error.reason
        }
        #expect(reason?.hasPrefix("in the stored answer of the API, ") == true)
    }
}
