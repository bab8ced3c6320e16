import Testing
import Vocabulary

@testable import Inbound

/// What each kind of source says of money. Oracle: the table of posthouse-messages(7), "Money", and the vendors' pages
/// named in the adapters; the objects are written out by hand.
@Suite("Money")
struct MoneyTests {
    static func said(_ event: Event) -> String? { event.money.map { String(decoding: $0, as: UTF8.self) } }

    /// The object of a message.
    static func money(
        _ amount: String? = nil, _ currency: String? = nil, usd: String? = nil, eur: String? = nil,
        proceeds: String? = nil, tax: String? = nil, isRefund: Bool = false
    ) -> String {
        func quoted(_ text: String?) -> String { text.map { "\"\($0)\"" } ?? "null" }
        return #"{"amount":\#(quoted(amount)),"currency":\#(quoted(currency)),"amount_usd":\#(quoted(usd)),"#
            + #""amount_eur":\#(quoted(eur)),"proceeds_usd":\#(quoted(proceeds)),"tax":\#(quoted(tax)),"#
            + #""commission":null,"is_refund":\#(isRefund)}"#
    }

    // MARK: Platforms

    @Test("Purchasely: the price of the period; of TRANSACTION_PROCESSED the amount of the payment")
    func purchasely() throws {
        for (name, body) in PurchaselyFixtures.named {
            let expected: String? =
                switch name {
                case "googleActivate", "googleDeactivate": Self.money("9.99", "EUR", eur: "9.99")
                case "subscriptionTransferred": Self.money("83.99", "EUR", usd: "83.71")
                default: nil
                }
            #expect(Self.said(try event(body)) == expected, "\(name)")
        }
        let payment: [(String, String?)] = [
            ("event_name", "\"TRANSACTION_PROCESSED\""), ("customer_currency", "\"GBP\""),
            ("plan_price_in_customer_currency", "99.99"), ("plan_price_in_usd", "120.99"),
        ]
        let amounts: [(String, String?)] = [
            ("amount_in_customer_currency", "7.99"), ("amount_in_usd", "9.9900"), ("cumulated_revenues_in_usd", "50"),
        ]
        #expect(Self.said(try event(body(payment + amounts))) == Self.money("7.99", "GBP", usd: "9.9900"))
        let back: [(String, String?)] = [("amount_in_customer_currency", "-7.99"), ("amount_in_eur", "-9.49")]
        #expect(
            Self.said(try event(body(payment + back))) == Self.money("-7.99", "GBP", eur: "-9.49", isRefund: true))
        #expect(Self.said(try event(body(payment))) == nil, "a price is not the payment's amount")
        let refunded = try event(body([("event_name", "\"SUBSCRIPTION_REFUNDED_REVOKED\"")]))
        #expect(Self.said(refunded) == Self.money(isRefund: true))
    }

    @Test("Qonversion: the revenue, before or after the store's commission, and never the product's price")
    func qonversion() throws {
        func read(_ body: String) throws -> String? {
            Self.said(try event(body, from: QonversionFixtures.source()))
        }
        #expect(try read(QonversionFixtures.documented) == Self.money("7.99", "GBP", usd: "9.99"))
        #expect(try read(QonversionFixtures.newer) == nil)
        for proceeds in ["1", "true", "\"1\""] {
            let body = BodyEdit.edit(QonversionFixtures.documented, in: "revenue", set: [("is_proceed", proceeds)])
            #expect(try read(body) == Self.money(proceeds: "9.99"), "\(proceeds)")
        }
        for name in ["subscription_refunded", "in_app_refunded"] {
            let expected = Self.money("7.99", "GBP", usd: "9.99", isRefund: true)
            #expect(try read(QonversionFixtures.named(name)) == expected, "\(name)")
        }
    }

    @Test("Apphud: the receipt, else the properties")
    func apphud() throws {
        func read(_ body: String) throws -> String? { Self.said(try event(body, from: ApphudFixtures.source)) }
        let proceeds = "2.1165000000000003"
        #expect(try read(ApphudFixtures.started) == Self.money(usd: "2.49", proceeds: proceeds))
        let properties: BodyEdit.Fields = [("local_price", "2.29"), ("currency", "\"EUR\"")]
        let local = BodyEdit.edit(ApphudFixtures.started, in: "event", "properties", set: properties)
        #expect(try read(local) == Self.money("2.29", "EUR", usd: "2.49", proceeds: proceeds))
        let receipt: BodyEdit.Fields = [("price", "1.99"), ("currency", "\"GBP\""), ("price_usd", "2.50")]
        let both = ApphudFixtures.receipt(receipt, of: local)
        #expect(try read(both) == Self.money("1.99", "GBP", usd: "2.50", proceeds: proceeds))
        for half in [[("currency", nil)], [("price", nil)]] as [BodyEdit.Fields] {
            let mixed = try read(ApphudFixtures.receipt(half, of: both))
            #expect(mixed == Self.money("2.29", "EUR", usd: "2.50", proceeds: proceeds), "of one object")
        }
        for name in ["subscription_refunded", "intro_refunded", "promo_refunded", "non_renewing_purchase_refunded"] {
            let refunded = ApphudFixtures.event([("name", "\"\(name)\"")], of: both)
            let expected = Self.money("1.99", "GBP", usd: "2.50", proceeds: proceeds, isRefund: true)
            #expect(try read(refunded) == expected, "\(name)")
        }
        for name in ApphudNames.notOfPurchases {
            #expect(try read(ApphudFixtures.event([("name", "\"\(name)\"")], of: both)) == nil, "\(name)")
        }
    }

    @Test("RevenueCat: the price as it was paid and in US dollars; no amount is made of a share")
    func revenueCat() throws {
        func read(_ type: String, _ fields: [(String, String?)]) throws -> String? {
            Self.said(try readRevenueCat(type, fields))
        }
        let paid: [(String, String?)] = [
            ("price", "8.14"), ("price_in_purchased_currency", "7.99"), ("currency", "\"EUR\""),
            ("tax_percentage", "0.1109"), ("commission_percentage", "0.15"),
        ]
        #expect(try read("INITIAL_PURCHASE", []) == Self.money("4.99", "USD", usd: "4.99"))
        #expect(try read("RENEWAL", paid) == Self.money("7.99", "EUR", usd: "8.14"))
        let back: [(String, String?)] = [("price", "-8.14"), ("price_in_purchased_currency", "-7.99")]
        let reason: [(String, String?)] = [("cancel_reason", "\"CUSTOMER_SUPPORT\"")]
        let expected = Self.money("-7.99", "EUR", usd: "-8.14", isRefund: true)
        #expect(try read("CANCELLATION", paid + back + reason) == expected)
        #expect(try read("CANCELLATION", paid + back) == expected, "less than nothing is given back")
        let free: [(String, String?)] = [("price", "0.0"), ("price_in_purchased_currency", "0")]
        #expect(try read("INITIAL_PURCHASE", paid + free) == Self.money("0", "EUR", usd: "0.0"))
        #expect(try read("CANCELLATION", paid + reason) == Self.money("7.99", "EUR", usd: "8.14", isRefund: true))
        let silent = [
            "CANCELLATION", "UNCANCELLATION", "EXPIRATION", "BILLING_ISSUE", "SUBSCRIPTION_EXTENDED", "PRODUCT_CHANGE",
        ]
        for name in silent {
            for price in [[], free] { #expect(try read(name, paid + price) == nil, "\(name) charges nothing") }
        }
        let unknown: [(String, String?)] = [("price", "null"), ("price_in_purchased_currency", "null")]
        #expect(try read("RENEWAL", paid + unknown) == nil)
        #expect(Self.said(try event(RevenueCatFixtures.transfer, from: revenueCatSource())) == nil)
    }

    @Test("Adapty: price, proceeds and tax")
    func adapty() throws {
        func read(_ body: String) throws -> String? { Self.said(try event(body, from: adaptySource())) }
        #expect(try read(AdaptyFixtures.subscriptionStarted) == Self.money(usd: "4.99"))
        let paid: [(String, String?)] = [
            ("currency", "\"KZT\""), ("price_local", "5090"), ("price_usd", "11.56406"), ("proceeds_local", "4326.5"),
            ("proceeds_usd", "9.829453830152271"), ("tax_amount_local", "463.55357142857133"),
            ("tax_amount_usd", "1.0531557675163146"), ("net_revenue_usd", "8.776298062635956"),
        ]
        func expected(isRefund: Bool) -> String {
            Self.money(
                "5090", "KZT", usd: "11.56406", proceeds: "9.829453830152271", tax: "463.55357142857133",
                isRefund: isRefund)
        }
        #expect(try read(AdaptyFixtures.event("subscription_renewed", paid)) == expected(isRefund: false))
        for name in ["subscription_refunded", "non_subscription_purchase_refunded"] {
            #expect(try read(AdaptyFixtures.event(name, paid)) == expected(isRefund: true), "\(name)")
        }
        let access: [(String, String?)] = [("is_active", "false"), ("is_refund", "true"), ("price_usd", nil)]
        #expect(try read(AdaptyFixtures.accessLevel(access)) == Self.money(isRefund: true))
    }

    @Test("An app's own server says nothing of money")
    func sessions() throws {
        let priced = BodyEdit.edit(SessionsFixtures.purchase, in: "data", set: [("price", "9.99")])
        for body in [SessionsFixtures.login, SessionsFixtures.purchase, priced] {
            #expect(Self.said(try event(body, from: SessionsFixtures.source)) == nil)
        }
    }

    // MARK: Stores

    @Test("Apple: thousandths of the currency's unit, of what the buyer was charged")
    func apple() throws {
        func read(_ name: String, _ transaction: BodyEdit.Fields? = []) throws -> String? {
            Self.said(try readApple(AppleFixtures.notification(name, transaction: transaction)))
        }
        #expect(try read("SUBSCRIBED/INITIAL_BUY") == Self.money("9.99", "EUR"))
        #expect(try read("SUBSCRIBED/INITIAL_BUY", [("price", "0")]) == Self.money("0", "EUR"))
        let yen: BodyEdit.Fields = [("price", "1200000"), ("currency", "\"JPY\"")]
        #expect(try read("DID_RENEW", yen) == Self.money("1200", "JPY"))
        #expect(try read("DID_RENEW", [("price", "9995"), ("currency", "\"KWD\"")]) == Self.money("9.995", "KWD"))
        #expect(try read("DID_RENEW", [("price", nil)]) == nil, "a currency without an amount says nothing")
        #expect(try read("REFUND") == Self.money("9.99", "EUR", isRefund: true))
        #expect(try read("REFUND", [("price", nil)]) == Self.money(isRefund: true))
        for name in ["REFUND_DECLINED", "REFUND_REVERSED", "CONSUMPTION_REQUEST"] {
            #expect(try read(name) == Self.money("9.99", "EUR"), "\(name)")
        }
        for name in ["SUBSCRIBED/INITIAL_BUY", "REVOKE"] {
            #expect(try read(name, [("inAppOwnershipType", "\"FAMILY_SHARED\"")]) == nil, "\(name)")
        }
        #expect(try read("DID_RENEW", nil) == nil, "the price of the next renewal is not charged yet")
        for other in [AppleFixtures.summary, AppleFixtures.externalPurchase, AppleFixtures.rescindConsent] {
            #expect(Self.said(try readApple(other)) == nil)
        }
    }

    @Test("Google Play: whether it is a refund, and no amount, because the price of a plan is not what was charged")
    func googlePlay() throws {
        typealias Fixtures = GooglePlayFixtures
        for body in Fixtures.all {
            let event = try event(body, from: googlePlaySource())
            let isVoid = event.name == "VOIDED_PURCHASE"
            #expect(Self.said(event) == (isVoid ? Self.money(isRefund: true) : nil), "\(event.name)")
        }
        let part = try event(Fixtures.voided(refundType: "2"), from: googlePlaySource())
        #expect(Self.said(part) == Self.money(isRefund: true))
        let price = #"{"autoRenewEnabled":true,"recurringPrice":{"currencyCode":"EUR","units":"7","nanos":990000000}}"#
        let state = Fixtures.state("ACTIVE", Fixtures.items(Fixtures.item([("autoRenewingPlan", price)])))
        var play = FakePlay([Fixtures.token: (200, state)])
        let answered = try play.event(Fixtures.subscription(2))
        #expect(answered.answer != nil && Self.said(answered) == nil)
    }

    @Test("Stripe: what an invoice or a session was paid with, and what was given back")
    func stripe() throws {
        typealias Fixtures = StripeFixtures
        func read(_ body: String) throws -> String? { Self.said(try event(body, from: stripeSource())) }
        let euro: BodyEdit.Fields = [("currency", "\"eur\"")]
        let taxed: BodyEdit.Fields = euro + [("total_taxes", #"[{"amount":128,"tax_behavior":"inclusive"}]"#)]
        #expect(try read(Fixtures.invoice("paid", euro)) == Self.money("7.99", "EUR"))
        #expect(try read(Fixtures.invoice("paid", taxed)) == Self.money("7.99", "EUR", tax: "1.28"))
        let fromBalance = taxed + [("amount_paid", "500")]
        #expect(try read(Fixtures.invoice("paid", fromBalance)) == Self.money("5.00", "EUR"), "the tax of the whole")
        let former = Fixtures.formerInvoice("paid", euro + [("tax", "128")])
        #expect(try read(former) == Self.money("7.99", "EUR", tax: "1.28"))
        let twice = Fixtures.invoice("paid", euro + [("total_taxes", #"[{"amount":1},{"amount":2}]"#)])
        #expect(try read(twice) == Self.money("7.99", "EUR"), "nothing is added up")
        #expect(try read(Fixtures.invoice("paid")) == nil, "an amount without a currency has no point")
        #expect(try read(Fixtures.invoice("paid", euro + [("parent", "null")])) == nil, "its session says it")
        for name in ["created", "finalized", "payment_failed", "payment_succeeded", "upcoming"] {
            #expect(try read(Fixtures.invoice(name, euro)) == nil, "\(name)")
        }

        let total: BodyEdit.Fields =
            euro + [("amount_total", "14999"), ("total_details", #"{"amount_discount":0,"amount_tax":2395}"#)]
        for name in ["completed", "async_payment_succeeded"] {
            let session = Fixtures.session(name, total)
            #expect(try read(session) == Self.money("149.99", "EUR", tax: "23.95"), "\(name)")
            for status in ["unpaid", "no_payment_required"] {
                let unpaid = Fixtures.session(name, total + [("payment_status", "\"\(status)\"")])
                #expect(try read(unpaid) == nil, "\(name) \(status)")
            }
        }
        #expect(try read(Fixtures.session("expired", total)) == nil)
        let subscription: BodyEdit.Fields = [("mode", "\"subscription\""), ("subscription", "\"sub_1\"")]
        #expect(try read(Fixtures.session("completed", total + subscription)) == nil, "its invoice says it")

        let part: BodyEdit.Fields = euro + [("amount_refunded", "5000"), ("refunded", "false")]
        #expect(try read(Fixtures.charge("refunded", part)) == Self.money("50.00", "EUR", isRefund: true))
        let rest = Fixtures.charge("refunded", euro, previous: #"{"amount_refunded":5000,"refunded":false}"#)
        #expect(try read(rest) == Self.money("99.99", "EUR", isRefund: true), "what is given back now")
        for previous in [nil, #"{"refunded":false}"#, #"{"amount_refunded":-1}"#, #"{"amount_refunded":20000}"#] {
            let unclear = Fixtures.charge("refunded", euro, previous: previous)
            #expect(try read(unclear) == Self.money(isRefund: true), "\(previous ?? "")")
        }
        #expect(try read(Fixtures.charge("refunded")) == Self.money(isRefund: true))
        let refund = #"{"id":"re_1","object":"refund","amount":5000,"currency":"eur","status":"succeeded"}"#
        for name in ["refund.created", "refund.updated", "charge.refund.updated"] {
            #expect(try read(Fixtures.other(name, refund)) == nil, "\(name): charge.refunded says it")
        }
        #expect(try read(Fixtures.subscription("updated")) == nil, "a price is no payment")
        let dispute = #"{"id":"dp_1","object":"dispute","amount":799,"currency":"eur","status":"lost"}"#
        #expect(try read(Fixtures.other("charge.dispute.closed", dispute)) == nil)
    }

    @Test(
        "Stripe: a currency has none, two or three digits after the point, as Stripe counts it",
        arguments: [
            ("eur", "5.00"), ("huf", "5.00"), ("twd", "5.00"), ("isk", "5.00"), ("ugx", "5.00"), ("jpy", "500"),
            ("krw", "500"), ("clp", "500"), ("xof", "500"), ("mga", "500"), ("bhd", "0.500"), ("kwd", "0.500"),
            ("tnd", "0.500"),
        ])
    func stripeCurrencies(currency: String, amount: String) throws {
        let fields: BodyEdit.Fields = [("currency", "\"\(currency)\""), ("amount_paid", "500")]
        let invoice = StripeFixtures.invoice("paid", fields)
        #expect(Self.said(try event(invoice, from: stripeSource())) == Self.money(amount, currency.uppercased()))
    }

    // MARK: Edges

    static let digits = String(repeating: "7", count: Limits.moneyDigitsMax)
    static let tooLong = digits + "7"

    @Test(
        "A number is taken digit for digit; anything else counts as absent and costs no webhook",
        arguments: [
            ("9.99", "9.99"), ("9.990", "9.990"), ("\"9.99\"", "9.99"), ("1E1", "10"), ("1e-2", "0.01"),
            ("-0.0", "0.0"), (digits, digits), (tooLong, nil), ("\"\(tooLong)\"", nil), ("1e999999", nil),
            ("null", nil), ("true", nil), ("{}", nil), ("[9.99]", nil), ("\"\"", nil), ("\" 9.99\"", nil),
            ("\"9,99\"", nil), ("\"NaN\"", nil), ("\"1e\"", nil),
        ] as [(String, String?)])
    func numbers(raw: String, expected: String?) throws {
        let event = try readRevenueCat("RENEWAL", [("price", raw)])
        #expect(event.type == "SUBSCRIPTION_RENEWED")
        #expect(Self.said(event) == Self.money("4.99", "USD", usd: expected))
    }

    @Test(
        "Amount and currency come together or not at all",
        arguments: [
            ("\"usd\"", "USD"), ("\"XTS\"", "XTS"), ("null", nil), ("\"\"", nil), ("\"EURO\"", nil), ("\"E1R\"", nil),
            ("\"€\"", nil), ("978", nil), ("{}", nil),
        ] as [(String, String?)])
    func currencies(raw: String, expected: String?) throws {
        let event = try readRevenueCat("RENEWAL", [("currency", raw), ("price", "5.10")])
        #expect(Self.said(event) == Self.money(expected == nil ? nil : "4.99", expected, usd: "5.10"))
    }

    @Test("A sample of each platform that states money in a purchase says it", arguments: SourceKind.allCases)
    func samples(kind: SourceKind) throws {
        let names: [SourceKind: String] = [
            .purchasely: "SUBSCRIPTION_STARTED", .qonversion: "subscription_started", .apphud: "subscription_started",
            .revenuecat: "INITIAL_PURCHASE", .adapty: "subscription_started", .stripe: "invoice.paid",
        ]
        // The stores' own are sealed, or name no amount.
        guard let name = names[kind] else { return }
        let body = SourceAdapters.adapter(for: kind).sample(
            SampleRequest(
                eventName: name, holder: .user("u1"), storeTransactionID: "t1", purchaseID: "sub_1",
                occurredAt: Timestamp(milliseconds: 1_700_000_000_000)))
        let source = Source(
            name: "s", kind: kind, authentication: .none, secrets: [], app: nil, defaultEnvironment: "PRODUCTION",
            freshness: nil)
        let event = try event(String(decoding: body, as: UTF8.self), from: source)
        let said = try #require(Self.said(event))
        #expect(said.hasPrefix(#"{"amount":"9.99","currency":""#), "\(said)")
    }
}

/// The fixtures' own readers, whose names the tests here have, too.
private func readApple(_ decoded: String) throws -> Event {
    try Apple().normalise(AppleFixtures.seal(decoded), header: { _ in nil }, from: appleSource())
}

private func readRevenueCat(_ type: String, _ fields: [(String, String?)]) throws -> Event {
    try event(RevenueCatFixtures.event(type, fields), from: revenueCatSource())
}
