import Testing
import Vocabulary

@testable import Inbound

/// Invoices, checkout sessions and refunds. Oracle: Stripe's pages "The Invoice object", "The Checkout Session object",
/// "Fulfill orders" and "The Charge object", and posthouse-sources(7), "Vocabulary".
@Suite("Payments of Stripe")
struct StripePaymentTests {
    typealias Fixtures = StripeFixtures

    /// It was finalised an hour later, and paid after another.
    static let invoicedAt = Fixtures.time(Fixtures.at - 7_200, 1)
    static let paidAt = Fixtures.time(Fixtures.at, 1)
    static let customer = Holder.anonymous("cus_1")

    // MARK: Invoices

    /// Its copied metadata are those "when the invoice was finalized" (the page "The Invoice object",
    /// `parent.subscription_details.metadata`), so they take it from nobody.
    @Test("A paid cycle is a renewal as of its invoice, of whoever has it: the copied metadata say whose it is")
    func renewal() throws {
        for body in [Fixtures.invoice("paid"), Fixtures.formerInvoice("paid")] {
            let event = try stripe(body)
            #expect(event.name == "invoice.paid" && event.type == "SUBSCRIPTION_RENEWED")
            #expect(event.holder == .user("ada"))
            #expect(event.occurredAt == Fixtures.time(Fixtures.at))
            #expect(
                event.purchase
                    == Purchase(
                        key: "sub_1", kind: .subscription, store: "STRIPE", product: "prod_plus", plan: "price_month",
                        subscriptionID: "sub_1"))
            #expect(
                event.transaction
                    == Transaction(
                        storeTransactionID: "in_2", storeOriginalTransactionID: "sub_1",
                        purchasedAt: Fixtures.time(Fixtures.end),
                        effectiveNextRenewalAt: Fixtures.time(Fixtures.nextEnd), offerType: "NONE",
                        status: "AUTO_RENEWING"))
            let until = Fixtures.time(Fixtures.nextEnd)
            #expect(
                event.facts == [
                    Fact(kind: .gain, holder: Self.customer, at: Self.invoicedAt, until: until, isNamed: false),
                    Fact(kind: .naming, holder: .user("ada"), at: Fixtures.time(Fixtures.at - 7_200)),
                ])
            #expect(event.links.isEmpty && event.asOf == Self.invoicedAt)
        }
    }

    @Test("Without a user in the copied metadata there is the nameless fact alone")
    func namelessRenewal() throws {
        let bare = #"{"subscription_details":{"subscription":"sub_1","metadata":{}}}"#
        let event = try stripe(Fixtures.invoice("paid", [("parent", bare)]))
        #expect(event.holder == Self.customer)
        #expect(
            event.facts == [
                Fact(
                    kind: .gain, holder: Self.customer, at: Self.invoicedAt, until: Fixtures.time(Fixtures.nextEnd),
                    isNamed: false)
            ])
        let timeless = try stripe(Fixtures.invoice("paid", [("created", nil)]))
        #expect(timeless.facts.map(\.isNamed) == [false], "a user of no time is none")
        #expect(timeless.facts.map(\.at) == [Self.paidAt])
        let ahead = try stripe(Fixtures.invoice("paid", [("created", "\(Fixtures.at + 9)")]))
        let times = [Self.paidAt, Fixtures.time(Fixtures.at)]
        #expect(ahead.facts.map(\.at) == times, "no invoice is paid before it is made")
    }

    @Test("The metadata of the invoice itself name nobody")
    func ownMetadata() throws {
        let bare = #"{"subscription_details":{"subscription":"sub_1"}}"#
        let event = try stripe(
            Fixtures.invoice("paid", [("metadata", #"{"user_id":"eve"}"#), ("parent", bare)]))
        #expect(event.holder == Self.customer && event.facts.count == 1)
    }

    @Test(
        "Only the payment of a cycle states anything: everything else is passed on under its own name",
        arguments: StripeNames.all.filter { $0.hasPrefix("invoice.") } + ["invoice.something_new"],
        ["subscription_cycle", "subscription_create", "subscription_update", "manual", "of_tomorrow"])
    func otherInvoices(_ name: String, _ reason: String) throws {
        let body = Fixtures.invoice(String(name.dropFirst("invoice.".count)), [("billing_reason", "\"\(reason)\"")])
        let event = try stripe(body)
        let isRenewal = name == "invoice.paid" && reason == "subscription_cycle"
        #expect(event.name == name)
        #expect(event.type == (isRenewal ? "SUBSCRIPTION_RENEWED" : name))
        #expect(event.facts.map(\.kind) == (isRenewal ? [.gain, .naming] : []))
        #expect((event.transaction != nil) == isRenewal)
        #expect(event.purchase?.key == "sub_1" && event.holder == .user("ada"))
        #expect(event.yieldsProduct && event.yieldsTransaction, "the subscription says what it is")
    }

    /// Oracle: "subscription items in reverse chronological order" (the page "The Invoice object", `lines`).
    @Test("What an invoice says of product and period is the subscription's only while that has said nothing")
    func yielding() throws {
        let items = Fixtures.items(
            Fixtures.item(product: "prod_plus"), Fixtures.item("price_addon", product: "prod_addon"))
        let subscription = try stripe(Fixtures.subscription("updated", [("items", items)]))
        #expect(!subscription.yieldsProduct && !subscription.yieldsTransaction)
        #expect(subscription.purchase?.product == "prod_plus")
        let lines = [Fixtures.line("price_addon", product: "prod_addon"), Fixtures.line()]
        let list = #"{"data":[\#(lines.joined(separator: ","))]}"#
        let invoice = try stripe(Fixtures.invoice("payment_succeeded", [("lines", list)]))
        #expect(invoice.purchase == subscription.purchase, "the message names the same")
        // A scheduled change of plan.
        let next = #"{"data":[\#(Fixtures.line("price_basic", product: "prod_basic"))]}"#
        let upcoming = try stripe(Fixtures.invoice("upcoming", [("lines", next), ("id", nil)]))
        #expect(upcoming.purchase?.product == "prod_basic" && upcoming.yieldsProduct)
        #expect(upcoming.productAsOf < subscription.productAsOf && upcoming.transaction == nil)
        #expect(subscription.productAsOf == subscription.asOf)
    }

    @Test("An invoice that is to come has no id, and one without a subscription no purchase")
    func incompleteInvoices() throws {
        let upcoming = try stripe(Fixtures.invoice("upcoming", [("id", nil)]))
        #expect(upcoming.type == "invoice.upcoming" && upcoming.purchase?.key == "sub_1")
        let single = try stripe(Fixtures.invoice("paid", [("parent", "null")]))
        #expect(single.type == "invoice.paid" && single.purchase == nil && single.facts.isEmpty)
        #expect(single.holder == Self.customer)
    }

    static let line = Fixtures.line()
    static let longer = Fixtures.line("price_b", period: (1, Fixtures.nextEnd + 5))
    static let proration = Fixtures.line("price_b", period: (1, 9_999_999_999), isProration: true)
    static let foreign = Fixtures.line("price_b", period: (1, 9_999_999_999), subscription: "sub_2")
    /// What was used up until the invoice was made says nothing of the period to come.
    static let usage = Fixtures.line("price_b", period: (1, Fixtures.at - 7_200))

    @Test(
        "The paid period is that of the subscription's own lines that lie ahead",
        arguments: [
            ([line], Fixtures.nextEnd), ([line, proration], Fixtures.nextEnd), ([foreign, line], Fixtures.nextEnd),
            ([longer, line], Fixtures.nextEnd + 5), ([usage, line], Fixtures.nextEnd), ([usage], nil),
            ([proration], nil), ([], nil), (["{}", "7"], nil), ([Fixtures.formerLine()], Fixtures.nextEnd),
            ([Fixtures.formerLine(isProration: true)], nil),
        ] as [([String], Int64?)])
    func lines(_ lines: [String], _ until: Int64?) throws {
        let list = #"{"data":[\#(lines.joined(separator: ","))]}"#
        let event = try stripe(Fixtures.invoice("paid", [("lines", list)]))
        #expect(event.type == "SUBSCRIPTION_RENEWED", "the payment is one whatever it pays")
        let stated: [Timestamp?] = until.map { [Fixtures.time($0)] } ?? []
        #expect(event.facts.filter { $0.kind == .gain }.map(\.until) == stated)
        #expect(event.transaction?.effectiveNextRenewalAt == until.map { Fixtures.time($0) })
        #expect(event.purchase?.plan == (until == nil ? nil : "price_month"))
    }

    @Test("A payment that comes after the subscription was unpaid or canceled brings nothing back")
    func afterTheEnd() throws {
        let payment = try stripe(Fixtures.invoice("paid"))
        let gain = try #require(payment.facts.first)
        // Half an hour before the invoice is finalised, and half an hour after.
        for (name, status, second) in [("updated", "unpaid"), ("deleted", "canceled")].flatMap({ name, status in
            [Fixtures.at - 5_400, Fixtures.at - 1_800].map { (name, status, $0) }
        }) {
            let lost = BodyEdit.edit(
                Fixtures.subscription(name, [("status", "\"\(status)\"")]), [("created", "\(second)")])
            let loss = try #require(try stripe(lost).facts.first { $0.kind != .naming })
            #expect(loss.kind == .loss && gain.kind == .gain && gain.at < loss.at && loss.at < Self.paidAt)
        }
        // Stripe says itself that the unpaid one is active again.
        let again = try stripe(Fixtures.subscription("updated", previous: #"{"status":"unpaid"}"#))
        #expect(again.type == "SUBSCRIPTION_REACTIVATED" && again.stated.map(\.at) == [Self.paidAt])
    }

    @Test("Who pays for a period that is over renews nothing")
    func debt() throws {
        for (end, isOver) in [(Fixtures.at - 1, true), (Fixtures.at, true), (Fixtures.at + 1, false)] {
            let list = #"{"data":[\#(Fixtures.line(period: (Fixtures.start, end)))]}"#
            let event = try stripe(Fixtures.invoice("paid", [("lines", list)]))
            #expect(event.type == (isOver ? "invoice.paid" : "SUBSCRIPTION_RENEWED"), "\(end)")
            #expect(event.facts.isEmpty == isOver && (event.transaction == nil) == isOver, "\(end)")
            #expect(event.purchase?.key == "sub_1" && event.holder == .user("ada"))
        }
    }

    // MARK: Checkout sessions

    @Test("A paid session is a one-time purchase by its payment, and links the customer")
    func purchase() throws {
        let event = try stripe(Fixtures.session("completed"))
        #expect(event.type == "PURCHASE_VALIDATED" && event.holder == .user("ada"))
        #expect(
            event.purchase
                == Purchase(
                    key: "pi_1", kind: .oneTime, store: "STRIPE", product: nil, plan: nil, subscriptionID: nil))
        #expect(
            event.transaction
                == Transaction(
                    storeTransactionID: "pi_1", storeOriginalTransactionID: nil,
                    purchasedAt: Fixtures.time(Fixtures.at), effectiveNextRenewalAt: nil, offerType: "NONE",
                    status: nil))
        #expect(event.facts == [Fact(kind: .gain, holder: .user("ada"), at: Self.paidAt)])
        #expect(event.links == [HolderLink(anonymousID: "cus_1", userID: "ada")])
        #expect(event.change == .move(from: [.anonymous("cus_1")], to: .user("ada"), isNative: false))
    }

    @Test(
        "A session states a purchase once the money came",
        arguments: [
            ("completed", "\"paid\"", true), ("completed", "\"no_payment_required\"", true),
            ("completed", "\"unpaid\"", false), ("completed", nil, false), ("completed", "7", false),
            ("async_payment_succeeded", "\"paid\"", true), ("async_payment_succeeded", nil, true),
            ("async_payment_failed", "\"unpaid\"", false), ("something_new", "\"paid\"", false),
        ] as [(String, String?, Bool)])
    func payment(_ name: String, _ status: String?, _ isBought: Bool) throws {
        let event = try stripe(Fixtures.session(name, [("payment_status", status)]))
        #expect(event.type == (isBought ? "PURCHASE_VALIDATED" : "checkout.session." + name))
        #expect(event.facts.map(\.kind) == (isBought ? [.gain] : []))
        #expect((event.transaction != nil) == isBought)
        #expect(event.purchase?.key == "pi_1" && event.purchase?.kind == .oneTime)
    }

    @Test("A guest is known by the payment, and where nothing was to be paid by the session")
    func guest() throws {
        let guest: BodyEdit.Fields = [("customer", "null"), ("metadata", "{}")]
        let event = try stripe(Fixtures.session("completed", guest))
        #expect(event.holder == .anonymous("pi_1") && event.links.isEmpty)
        #expect(event.facts == [Fact(kind: .gain, holder: .anonymous("pi_1"), at: Self.paidAt, isNamed: false)])
        var free = guest
        free.append(("payment_intent", "null"))
        let gift = try stripe(Fixtures.session("completed", free))
        #expect(gift.purchase?.key == "cs_1" && gift.transaction?.storeTransactionID == "cs_1")
        #expect(gift.holder == .anonymous("cs_1"))
        let named = try stripe(Fixtures.session("completed", [("customer", "null")]))
        #expect(named.holder == .user("ada") && named.facts.map(\.isNamed) == [true] && named.links.isEmpty)
    }

    @Test("A customer without a name is the nameless holder of its one-time purchase")
    func namelessPurchase() throws {
        let event = try stripe(Fixtures.session("completed", [("metadata", "{}")]))
        #expect(event.facts == [Fact(kind: .gain, holder: Self.customer, at: Self.paidAt, isNamed: false)])
        #expect(event.links.isEmpty)
    }

    @Test("A session that has expired bought nothing")
    func expired() throws {
        let event = try stripe(Fixtures.session("expired", [("payment_status", "\"unpaid\"")]))
        #expect(event.type == "checkout.session.expired" && event.purchase == nil && event.facts.isEmpty)
        #expect(event.holder == .user("ada") && event.links.isEmpty && event.change == nil)
        let guest = try stripe(Fixtures.session("expired", [("customer", "null"), ("metadata", "{}")]))
        #expect(guest.holder == nil)
    }

    /// Whoever opens a payment link can name any user in its address.
    @Test(
        "Only a session that was completed says who the customer is",
        arguments: [
            ("completed", true), ("async_payment_succeeded", true), ("async_payment_failed", false),
            ("expired", false), ("something_new", false),
        ], ["payment", "subscription", "setup"])
    func links(_ session: (String, Bool), _ mode: String) throws {
        let (name, isLinked) = session
        let body = Fixtures.session(name, [("mode", "\"\(mode)\"")])
        let event = try stripe(body)
        #expect(event.links == (isLinked ? [HolderLink(anonymousID: "cus_1", userID: "ada")] : []))
        #expect((event.change != nil) == isLinked)
        let referred = try stripe(body, from: stripeSource(userKey: "client_reference_id"))
        #expect(referred.links.map(\.userID) == (isLinked ? ["ben"] : []))
    }

    @Test("A session of a subscription states no access: it says whose the subscription and the customer are")
    func subscription() throws {
        let fields: BodyEdit.Fields = [
            ("mode", "\"subscription\""), ("subscription", "\"sub_1\""), ("payment_intent", "null"),
        ]
        let event = try stripe(Fixtures.session("completed", fields))
        #expect(event.type == "checkout.session.completed" && event.transaction == nil)
        #expect(event.facts == [Fact(kind: .naming, holder: .user("ada"), at: event.occurredAt)])
        #expect(event.purchase?.key == "sub_1" && event.purchase?.kind == .subscription)
        #expect(event.purchase?.subscriptionID == "sub_1")
        #expect(event.links == [HolderLink(anonymousID: "cus_1", userID: "ada")])
        let nameless = try stripe(Fixtures.session("completed", fields + [("metadata", "{}")]))
        #expect(nameless.facts.isEmpty && nameless.links.isEmpty)
        let setup = try stripe(Fixtures.session("completed", [("mode", "\"setup\"")]))
        #expect(setup.purchase == nil && setup.facts.isEmpty && setup.links.count == 1)
    }

    // MARK: Refunds

    @Test("A refund of all is a revoked loss of the one-time purchase of that payment, under its own name")
    func refund() throws {
        let event = try stripe(Fixtures.charge("refunded"))
        #expect(event.type == "charge.refunded", "whether that purchase exists, the charge does not say")
        #expect(event.typeIfKnown == "DEACTIVATE")
        #expect(event.holder == Self.customer && event.links.isEmpty)
        #expect(
            event.purchase
                == Purchase(
                    key: "pi_1", kind: .oneTime, store: "STRIPE", product: nil, plan: nil, subscriptionID: nil))
        #expect(event.transaction?.storeTransactionID == "pi_1" && event.transaction?.status == "REVOKED")
        #expect(event.transaction?.purchasedAt == Fixtures.time(Fixtures.at - 600))
        #expect(
            event.facts == [
                Fact(
                    kind: .loss, holder: Self.customer, at: Fixtures.time(Fixtures.at, 999), isRevoked: true,
                    isNamed: false)
            ])
        let bought = try stripe(Fixtures.session("completed"))
        #expect(bought.purchase == event.purchase)
        let guest = try stripe(Fixtures.charge("refunded", [("customer", "null")]))
        #expect(guest.facts.map(\.holder) == [.anonymous("pi_1")])
    }

    @Test(
        "A part of a payment, and one without an intent, states nothing",
        arguments: [[("refunded", "false")], [("refunded", nil)], [("payment_intent", "null")]] as [BodyEdit.Fields])
    func partOfARefund(_ fields: BodyEdit.Fields) throws {
        let event = try stripe(Fixtures.charge("refunded", fields))
        #expect(event.type == "charge.refunded" && event.holder == Self.customer)
        #expect(event.purchase == nil && event.transaction == nil && event.facts.isEmpty && event.typeIfKnown == nil)
    }

    @Test(
        "A payment for a subscription is given back without a one-time purchase",
        arguments: ["Subscription creation", "Subscription update"], [nil, "\"in_2\""] as [String?])
    func refundOfASubscription(_ description: String, _ invoice: String?) throws {
        let event = try stripe(
            Fixtures.charge("refunded", [("description", "\"\(description)\""), ("invoice", invoice)]))
        #expect(event.type == "charge.refunded" && event.holder == Self.customer)
        #expect(event.purchase == nil && event.transaction == nil && event.facts.isEmpty)
    }

    /// A session in mode `payment` may have an invoice, too.
    @Test(
        "Any other description is that of a one-time purchase",
        arguments: [
            nil, "null", "\"\"", "\"Subscription box\"", "\"subscription update\"", "\"Payment for Invoice\"", "7",
            "\"\(String(repeating: "x", count: 2_000))\"",
        ] as [String?])
    func otherDescriptions(_ description: String?) throws {
        for invoice in [nil, "null", "\"in_2\""] as [String?] {
            let event = try stripe(
                Fixtures.charge("refunded", [("description", description), ("invoice", invoice)]))
            #expect(event.purchase?.key == "pi_1" && event.facts.map(\.kind) == [.loss])
        }
    }

    static let moneyBack = StripeNames.all.filter { name in
        ["refund.", "radar.", "charge."].contains(where: name.hasPrefix) && name != "charge.refunded"
    }

    @Test("Refunds and disputes of other names state nothing", arguments: moneyBack)
    func disputes(_ name: String) throws {
        let object = #"{"id":"dp_1","object":"dispute","charge":"ch_1","payment_intent":"pi_1","refunded":true}"#
        let event = try stripe(Fixtures.other(name, object))
        #expect(event.name == name && event.type == name)
        #expect(event.holder == nil && event.purchase == nil && event.facts.isEmpty && event.links.isEmpty)
    }
}
