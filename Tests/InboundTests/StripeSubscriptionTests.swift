import Testing
import Vocabulary

@testable import Inbound

/// Oracle: Stripe's pages "Using webhooks with subscriptions" and "The Subscription object", and
/// posthouse-sources(7), "Vocabulary".
@Suite("Subscriptions of Stripe")
struct StripeSubscriptionTests {
    typealias Fixtures = StripeFixtures

    @Test("Every field of a new subscription is read")
    func everyField() throws {
        let body = Fixtures.subscription("created")
        let event = try stripe(body)
        #expect(event.scope == Scope(source: "web", app: "", environment: "PRODUCTION"))
        #expect(event.vendorEventID == "evt_1Sample" && event.isTimeRepeated)
        #expect(event.name == "customer.subscription.created")
        #expect(event.type == "SUBSCRIPTION_STARTED")
        #expect(event.holder == .user("ada"))
        #expect(event.occurredAt == Fixtures.time(Fixtures.at), "whole seconds")
        #expect(
            event.purchase
                == Purchase(
                    key: "sub_1", kind: .subscription, store: "STRIPE", product: "prod_plus", plan: "price_month",
                    subscriptionID: "sub_1"))
        #expect(
            event.transaction
                == Transaction(
                    storeTransactionID: "in_1", storeOriginalTransactionID: "sub_1",
                    purchasedAt: Fixtures.time(Fixtures.start), effectiveNextRenewalAt: Fixtures.time(Fixtures.end),
                    offerType: "NONE", status: "AUTO_RENEWING"))
        #expect(
            event.facts == [
                Fact(kind: .said, holder: .user("ada"), at: Fixtures.time(Fixtures.at, 1)),
                Fact(
                    kind: .gain, holder: .user("ada"), at: Fixtures.time(Fixtures.at, 1),
                    until: Fixtures.time(Fixtures.end)),
            ])
        #expect(event.links == [HolderLink(anonymousID: "cus_1", userID: "ada")])
        #expect(event.change == nil, "the customer's other subscriptions may be of other users")
        #expect(event.body == Array(body.utf8))
    }

    // MARK: Types and access

    struct Row: Sendable, CustomStringConvertible {
        let name: String
        let fields: BodyEdit.Fields
        let previous: String?
        /// "": the event's own name.
        let type: String
        let fact: Fact.Kind?
        /// Milliseconds of the fact within its second.
        let rank: Int64
        let until: Int64?
        let status: String?

        init(
            _ name: String, set fields: BodyEdit.Fields = [], before previous: String? = nil, _ type: String,
            _ fact: Fact.Kind?, rank: Int64 = 1, until: Int64? = StripeFixtures.end, _ status: String?
        ) {
            self.name = name
            self.fields = fields
            self.previous = previous
            self.type = type
            self.fact = fact
            self.rank = rank
            self.until = until
            self.status = status
        }

        var description: String { "\(name) \(fields.map { "\($0.key)=\($0.raw ?? "-")" }) before: \(previous ?? "-")" }
    }

    static func status(_ status: String, _ more: (key: String, raw: String?)...) -> BodyEdit.Fields {
        var fields: BodyEdit.Fields = more
        fields.append(("status", "\"\(status)\""))
        return fields
    }

    static func paused(_ reason: String) -> BodyEdit.Fields {
        let details = #"{"paused":{"type":"subscription","subscription":{"type":"\#(reason)"}}}"#
        return status("paused", ("status_details", details))
    }

    static let at = String(Fixtures.at)
    static let end = String(Fixtures.end)
    static let trialEnd = String(Fixtures.trialEnd)
    static let later = String(Fixtures.trialEnd + 1)
    static let trialing = status("trialing", ("trial_end", trialEnd))
    static let month = Fixtures.items(Fixtures.item())
    static let nextMonth = Fixtures.items(Fixtures.item(period: (Fixtures.end, Fixtures.nextEnd)))

    static let news: [Row] = [
        Row("created", "SUBSCRIPTION_STARTED", .gain, "AUTO_RENEWING"),
        Row("created", set: trialing, "TRIAL_STARTED", .gain, until: Fixtures.trialEnd, "AUTO_RENEWING"),
        Row("created", set: status("incomplete"), "", nil, nil),
        Row("created", set: status("past_due"), "", nil, "ON_HOLD"),
        Row("created", set: status("unpaid"), "", .loss, rank: 0, "UNPAID"),
        Row("created", set: [("cancel_at", end)], "SUBSCRIPTION_STARTED", .gain, "AUTO_RENEWING_CANCELED"),
        Row("trial_will_end", set: trialing, "", nil, "AUTO_RENEWING"),
        Row("pending_update_applied", "", nil, "AUTO_RENEWING"),
        Row("pending_update_expired", "", nil, "AUTO_RENEWING"),
        Row("something_new", "", nil, "AUTO_RENEWING"),
    ]

    static let statuses: [Row] = [
        Row("updated", before: was("incomplete"), "SUBSCRIPTION_STARTED", .gain, "AUTO_RENEWING"),
        Row(
            "updated", set: trialing, before: was("incomplete"), "TRIAL_STARTED", .gain, until: Fixtures.trialEnd,
            "AUTO_RENEWING"),
        Row("updated", before: was("trialing"), "TRIAL_CONVERTED", .gain, "AUTO_RENEWING"),
        Row("updated", set: status("past_due"), before: was("active"), "ENTERED_BILLING_RETRY", nil, "ON_HOLD"),
        Row("updated", set: status("past_due"), before: was("trialing"), "ENTERED_BILLING_RETRY", nil, "ON_HOLD"),
        Row("updated", before: was("past_due"), "SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY", .gain, "AUTO_RENEWING"),
        Row(
            "updated", set: status("unpaid"), before: was("past_due"), "SUBSCRIPTION_TERMINATED", .loss, rank: 0,
            "UNPAID"),
        Row(
            "updated", set: status("incomplete_expired", ("ended_at", at)), before: was("incomplete"), "", .loss,
            rank: 999, until: Fixtures.at, "DEACTIVATED"),
        Row("updated", before: was("unpaid"), "SUBSCRIPTION_REACTIVATED", .gain, "AUTO_RENEWING"),
        Row("updated", set: status("paused"), before: was("active"), "", .loss, rank: 0, "PAUSED"),
        Row("updated", before: was("paused"), "", .gain, "AUTO_RENEWING"),
        Row("updated", set: trialing, before: was("active"), "", .gain, until: Fixtures.trialEnd, "AUTO_RENEWING"),
        Row(
            "updated", set: status("canceled", ("ended_at", at)), before: was("active"), "", .loss, rank: 999,
            until: Fixtures.at, "DEACTIVATED"),
        Row("updated", set: status("of_tomorrow"), before: was("active"), "", nil, nil),
        Row("updated", before: was("of_tomorrow"), "", .gain, "AUTO_RENEWING"),
        Row("updated", before: was("active"), "", .gain, "AUTO_RENEWING"),
        Row("updated", set: [("status", nil)], "", nil, nil),
    ]

    static func was(_ status: String) -> String { #"{"status":"\#(status)"}"# }

    static let others: [Row] = [
        Row(
            "updated", set: [("cancel_at_period_end", "true"), ("cancel_at", end)],
            before: #"{"cancel_at":null,"cancel_at_period_end":false,"canceled_at":null}"#, "RENEWAL_DISABLED", .gain,
            "AUTO_RENEWING_CANCELED"),
        Row(
            "updated", set: [("cancel_at_period_end", "true")], before: #"{"cancel_at_period_end":false}"#,
            "RENEWAL_DISABLED", .gain, "AUTO_RENEWING_CANCELED"),
        Row(
            "updated", set: [("cancel_at", end)], before: #"{"cancel_at":null}"#, "RENEWAL_DISABLED", .gain,
            "AUTO_RENEWING_CANCELED"),
        Row(
            "updated", before: #"{"cancel_at":1792591995,"cancel_at_period_end":true}"#, "RENEWAL_ENABLED", .gain,
            "AUTO_RENEWING"),
        Row("updated", before: #"{"cancel_at":1792591995}"#, "RENEWAL_ENABLED", .gain, "AUTO_RENEWING"),
        // Another end, of what was to end before.
        Row(
            "updated", set: [("cancel_at", end)], before: #"{"cancel_at":1795183995}"#, "", .gain,
            "AUTO_RENEWING_CANCELED"),
        Row(
            "updated", set: [("cancel_at", end)], before: #"{"cancel_at":null,"cancel_at_period_end":true}"#, "", .gain,
            "AUTO_RENEWING_CANCELED"),
        Row(
            "updated", set: [("items", nextMonth)], before: #"{"items":\#(month),"latest_invoice":"in_0"}"#, "", .gain,
            until: Fixtures.nextEnd, "AUTO_RENEWING"),
        Row("updated", before: #"{"metadata":{"user_id":"ben"}}"#, "", .gain, rank: 2, "AUTO_RENEWING"),
        Row("updated", before: #"{"pause_collection":null}"#, "", .gain, "AUTO_RENEWING"),
        Row("updated", before: "{}", "", .gain, "AUTO_RENEWING"),
        Row("updated", "", .gain, "AUTO_RENEWING"),
        // What has not changed is stated again.
        Row("updated", set: status("unpaid"), before: #"{"metadata":{"a":"b"}}"#, "", .loss, rank: 0, "UNPAID"),
        Row("updated", set: status("past_due"), before: #"{"metadata":{"a":"b"}}"#, "", nil, nil),
        // While a payment is retried there is access to hand over.
        Row(
            "updated", set: status("past_due"), before: #"{"metadata":{"user_id":"ben"}}"#, "", .gain, rank: 2,
            "ON_HOLD"),
    ]

    static let ends: [Row] = [
        Row("paused", set: paused("pause_requested"), "SUBSCRIPTION_PAUSED", .loss, rank: 0, "PAUSED"),
        Row(
            "paused", set: paused("trial_end_without_payment_method"), "TRIAL_NOT_CONVERTED", .loss, rank: 0, "PAUSED"),
        // Older API versions do not say why: within the first period it is the trial.
        Row(
            "paused", set: status("paused", ("trial_end", trialEnd)), "TRIAL_NOT_CONVERTED", .loss, rank: 0, "PAUSED"),
        Row(
            "paused", set: status("paused", ("trial_end", String(Fixtures.start))), "SUBSCRIPTION_PAUSED", .loss,
            rank: 0, "PAUSED"),
        Row("paused", set: [("status", nil)], "SUBSCRIPTION_PAUSED", .loss, rank: 0, "PAUSED"),
        Row("resumed", "SUBSCRIPTION_UNPAUSED", .gain, "AUTO_RENEWING"),
        Row("resumed", set: status("past_due"), "SUBSCRIPTION_UNPAUSED", nil, "ON_HOLD"),
        Row(
            "deleted", set: status("canceled", ("ended_at", at)), "SUBSCRIPTION_TERMINATED", .loss, rank: 999,
            until: Fixtures.at, "DEACTIVATED"),
        Row(
            "deleted", set: status("canceled", ("ended_at", trialEnd), ("trial_end", trialEnd)), "TRIAL_NOT_CONVERTED",
            .loss, rank: 999, until: Fixtures.trialEnd, "DEACTIVATED"),
        Row(
            "deleted", set: status("canceled", ("ended_at", later), ("trial_end", trialEnd)), "SUBSCRIPTION_TERMINATED",
            .loss, rank: 999, until: Fixtures.trialEnd + 1, "DEACTIVATED"),
        Row("deleted", "SUBSCRIPTION_TERMINATED", .loss, rank: 999, until: nil, "DEACTIVATED"),
        Row(
            "deleted", set: status("incomplete_expired"), "SUBSCRIPTION_TERMINATED", .loss, rank: 999, until: nil,
            "DEACTIVATED"),
    ]

    @Test("Every event means what is documented", arguments: news + statuses + others + ends)
    func meaning(_ row: Row) throws {
        let event = try stripe(Fixtures.subscription(row.name, row.fields, previous: row.previous))
        #expect(event.name == "customer.subscription." + row.name)
        #expect(event.type == (row.type.isEmpty ? event.name : row.type))
        #expect(event.transaction?.status == row.status)
        let (at, until) = (Fixtures.time(Fixtures.at, row.rank), row.until.map { Fixtures.time($0) })
        let ada = Holder.user("ada")
        let expected: [Fact] =
            switch row.fact {
            case nil: []
            case .gain? where row.name == "created" || row.previous?.contains("metadata") == true:
                [
                    Fact(kind: .said, holder: ada, at: at), Fact(kind: .gain, holder: ada, at: at, until: until),
                ]
            // What ends or goes on is the subscription, for whoever has it.
            case let kind?:
                [
                    Fact(kind: kind == .loss ? .naming : .said, holder: ada, at: at),
                    Fact(kind: kind, holder: .anonymous("cus_1"), at: at, until: until, isNamed: false),
                ]
            }
        #expect(event.facts == expected)
        #expect(event.asOf == (row.fact == nil ? event.occurredAt : at))
        #expect(event.holder == ada && event.occurredAt == Fixtures.time(Fixtures.at))
    }

    @Test("Without a customer, who is documented to be there, an end is that of the user in the metadata")
    func endWithoutCustomer() throws {
        let event = try stripe(Fixtures.subscription("deleted", [("customer", nil)]))
        let at = Fixtures.time(Fixtures.at, 999)
        #expect(event.facts == [Fact(kind: .loss, holder: .user("ada"), at: at)])
    }

    /// Oracle: "The subscription continues to create invoices" (the page "Subscriptions overview", past_due).
    @Test("A period that begins while payment is past due is nobody's")
    func unpaidPeriod() throws {
        let rolled = try stripe(
            Fixtures.subscription(
                "updated",
                Self.status(
                    "past_due", ("current_period_start", "\(Fixtures.end)"),
                    ("current_period_end", "\(Fixtures.nextEnd)")),
                previous: #"{"current_period_end":\#(Fixtures.end)}"#))
        #expect(rolled.transaction == nil && rolled.facts.isEmpty && rolled.purchase != nil)
        for name in ["pending_update_expired", "pending_update_applied", "trial_will_end", "something_new"] {
            let later = try stripe(Fixtures.subscription(name, Self.status("past_due")))
            #expect(later.transaction == nil && later.facts.isEmpty && later.purchase != nil, "\(name)")
        }
        let began = try stripe(
            Fixtures.subscription("updated", Self.status("past_due"), previous: #"{"status":"active"}"#))
        #expect(began.transaction?.effectiveNextRenewalAt == Fixtures.time(Fixtures.end))
    }

    @Test("Who gets a subscription in an unpaid period has it to the end of that period, if no other end is known")
    func namedInUnpaidPeriod() throws {
        let since = Fixtures.start - 60 * 86_400
        let starts: [(fields: BodyEdit.Fields, purchasedAt: Int64)] = [
            ([("start_date", "\(since)")], since), ([], Fixtures.start),
        ]
        for (fields, purchasedAt) in starts {
            let named = try stripe(
                Fixtures.subscription(
                    "updated", Self.status("past_due") + fields, previous: #"{"metadata":{"user_id":null}}"#))
            #expect(
                named.transaction
                    == Transaction(
                        storeTransactionID: "sub_1", storeOriginalTransactionID: "sub_1",
                        purchasedAt: Fixtures.time(purchasedAt), effectiveNextRenewalAt: Fixtures.time(Fixtures.end),
                        offerType: nil, status: "ON_HOLD"))
            #expect(named.transactionAsOf == Event.yieldedTransaction && named.productAsOf == named.asOf)
        }
        let began = try stripe(
            Fixtures.subscription(
                "updated", Self.status("past_due"), previous: #"{"status":"active","metadata":{"user_id":null}}"#))
        #expect(began.transaction?.storeTransactionID == "in_1" && began.transactionAsOf == began.asOf)
    }

    @Test("The rows have every documented event of a subscription")
    func names() {
        let rows = Set((Self.news + Self.statuses + Self.others + Self.ends).map { "customer.subscription." + $0.name })
        let known = Stripe().knownEventNames
        #expect(Set(known).count == known.count)
        #expect(rows.isSuperset(of: known.filter { $0.hasPrefix("customer.subscription.") }))
    }

    /// Status, price, cancellation, period and metadata; the last two have no name.
    @Test("Of several changes the first names the event, in every combination", arguments: 1...31)
    func order(_ changes: Int) throws {
        let dearer = Fixtures.items(Fixtures.item("price_dear", amount: "999"))
        let conditions: [(fields: BodyEdit.Fields, previous: String, type: String?)] = [
            ([], #""status":"past_due""#, "SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY"),
            ([("items", dearer)], #""items":\#(Fixtures.items(Fixtures.item()))"#, "SUBSCRIPTION_UPGRADED"),
            ([("cancel_at_period_end", "true")], #""cancel_at_period_end":false"#, "RENEWAL_DISABLED"),
            ([("current_period_end", "\(Fixtures.nextEnd)")], #""current_period_end":\#(Fixtures.end)"#, nil),
            ([("metadata", #"{"user_id":"ben"}"#)], #""metadata":{"user_id":"ada"}"#, nil),
        ]
        let held = conditions.indices.filter { changes & 1 << $0 != 0 }.map { conditions[$0] }
        let previous = "{" + held.map(\.previous).joined(separator: ",") + "}"
        let event = try stripe(Fixtures.subscription("updated", held.flatMap(\.fields), previous: previous))
        #expect(event.type == held.compactMap(\.type).first ?? "customer.subscription.updated")
        let isPeriodChanged = changes & 8 != 0
        let fact = event.stated.first
        #expect(event.stated.count == 1 && fact?.kind == .gain, "whatever it is called, the status says who has access")
        #expect(fact?.until == Fixtures.time(isPeriodChanged ? Fixtures.nextEnd : Fixtures.end))
        let isOther = changes & 16 != 0
        #expect(event.facts.first?.kind == .said && event.facts.first?.holder == .user(isOther ? "ben" : "ada"))
        #expect(
            fact?.holder == (isOther ? .user("ben") : .anonymous("cus_1")), "who has it, unless it is said just now")
    }

    @Test(
        "Another price is an upgrade or a downgrade only where the amounts can be compared",
        arguments: [
            ([Fixtures.item("price_b", amount: "999")], "SUBSCRIPTION_UPGRADED"),
            ([Fixtures.item("price_b", amount: "499")], "SUBSCRIPTION_DOWNGRADED"),
            ([Fixtures.item("price_b", amount: "799")], "SUBSCRIPTION_CROSSGRADED"),
            ([Fixtures.item("price_b", amount: "null")], "SUBSCRIPTION_CROSSGRADED"),
            ([Fixtures.item("price_b", amount: "999", interval: "year")], "SUBSCRIPTION_CROSSGRADED"),
            ([Fixtures.item("price_b", amount: "999", count: 3)], "SUBSCRIPTION_CROSSGRADED"),
            ([Fixtures.item("price_b", amount: "999", currency: "usd")], "SUBSCRIPTION_CROSSGRADED"),
            ([Fixtures.item("price_b", amount: "999", quantity: 2)], "SUBSCRIPTION_CROSSGRADED"),
            ([Fixtures.item("price_b"), Fixtures.item("price_c")], "SUBSCRIPTION_CROSSGRADED"),
            ([Fixtures.item(), Fixtures.item("price_b", amount: "999")], "SUBSCRIPTION_CROSSGRADED"),
            ([Fixtures.item(quantity: 2)], "customer.subscription.updated"),
            ([Fixtures.item(amount: "999")], "customer.subscription.updated"),
        ] as [([String], String)])
    func prices(_ items: [String], _ type: String) throws {
        let list = #"{"data":[\#(items.joined(separator: ","))]}"#
        let previous = #"{"items":{"data":[\#(Fixtures.item())]}}"#
        let event = try stripe(Fixtures.subscription("updated", [("items", list)], previous: previous))
        #expect(event.type == type)
        #expect(event.stated.map(\.kind) == [.gain])
    }

    @Test("A price among several that stay is compared with the one in whose place it comes")
    func onePriceOfTwo() throws {
        let before = #"{"items":\#(Fixtures.items(Fixtures.item("price_seat", amount: "100"), Fixtures.item()))}"#
        let after = Fixtures.items(Fixtures.item("price_b", amount: "999"), Fixtures.item("price_seat", amount: "100"))
        let event = try stripe(Fixtures.subscription("updated", [("items", after)], previous: before))
        #expect(event.type == "SUBSCRIPTION_UPGRADED")
    }

    // MARK: Items and versions

    @Test("A subscription of several items is one purchase: the first names it, the latest end counts")
    func severalItems() throws {
        let items = Fixtures.items(
            Fixtures.item("price_a", product: "prod_a"),
            Fixtures.item("price_b", product: "prod_b", period: (Fixtures.end, Fixtures.nextEnd)))
        let event = try stripe(Fixtures.subscription("updated", [("items", items)]))
        #expect(event.purchase?.product == "prod_a" && event.purchase?.plan == "price_a")
        #expect(event.stated.map(\.until) == [Fixtures.time(Fixtures.nextEnd)])
        #expect(event.transaction?.purchasedAt == Fixtures.time(Fixtures.end))
        #expect(event.transaction?.effectiveNextRenewalAt == Fixtures.time(Fixtures.nextEnd))
    }

    @Test("Both shapes of a subscription read the same: the period with the items, or with the subscription")
    func formerShape() throws {
        let former: BodyEdit.Fields = [
            ("items", Fixtures.items(Fixtures.item(period: nil))), ("current_period_start", "\(Fixtures.start)"),
            ("current_period_end", "\(Fixtures.end)"), ("customer_account", nil),
        ]
        for (name, previous) in [("created", nil), ("updated", #"{"status":"past_due"}"#)] as [(String, String?)] {
            let event = try stripe(Fixtures.subscription(name, former, previous: previous))
            let now = try stripe(Fixtures.subscription(name, previous: previous))
            #expect(event.type == now.type && event.facts == now.facts && event.purchase == now.purchase)
            #expect(event.transaction == now.transaction)
            #expect(event.stated.first?.until == Fixtures.time(Fixtures.end))
        }
        var moved = former
        moved.append(("current_period_end", "\(Fixtures.nextEnd)"))
        let renewed = try stripe(
            Fixtures.subscription(
                "updated", moved,
                previous: #"{"current_period_end":\#(Fixtures.end),"current_period_start":\#(Fixtures.start)}"#))
        #expect(renewed.type == renewed.name)
        #expect(renewed.stated.map(\.until) == [Fixtures.time(Fixtures.nextEnd)])
    }

    @Test("An item of the oldest shape has a plan in place of a price")
    func plan() throws {
        func items(_ id: String, _ amount: Int) -> String {
            #"{"data":[{"id":"si_1","quantity":1,"plan":{"id":"\#(id)","product":"prod_plus","amount":\#(amount),"#
                + #""currency":"eur","interval":"month","interval_count":1}}]}"#
        }
        let event = try stripe(
            Fixtures.subscription(
                "updated", [("items", items("gold", 999))], previous: #"{"items":\#(items("silver", 799))}"#))
        #expect(event.purchase?.plan == "gold" && event.purchase?.product == "prod_plus")
        #expect(event.type == "SUBSCRIPTION_UPGRADED")
    }

    @Test("A trial has its offer and its own end, and so has what ends with it")
    func trial() throws {
        let started = try stripe(Fixtures.subscription("created", Self.trialing))
        #expect(started.transaction?.offerType == "FREE_TRIAL")
        #expect(started.transaction?.effectiveNextRenewalAt == Fixtures.time(Fixtures.trialEnd))
        let over = Self.status("canceled", ("trial_end", Self.trialEnd), ("ended_at", Self.trialEnd))
        let ended = try stripe(Fixtures.subscription("deleted", over))
        #expect(ended.transaction?.offerType == "FREE_TRIAL")
        let converted = try stripe(Fixtures.subscription("updated", previous: #"{"status":"trialing"}"#))
        #expect(converted.transaction?.offerType == "NONE")
        let endless = try stripe(Fixtures.subscription("created", Self.status("trialing")))
        #expect(endless.stated.map(\.until) == [Fixtures.time(Fixtures.end)], "without its end, that of the period")
    }

    @Test("Before the first invoice the subscription is its own transaction")
    func noInvoice() throws {
        let event = try stripe(Fixtures.subscription("created", [("latest_invoice", "null")]))
        #expect(event.transaction?.storeTransactionID == "sub_1")
        #expect(event.transaction?.effectiveNextRenewalAt == Fixtures.time(Fixtures.end))
    }

    @Test("More items than are read do no harm")
    func manyItems() throws {
        let many = Array(repeating: Fixtures.item("price_b"), count: 2_000).joined(separator: ",")
        let event = try stripe(
            Fixtures.subscription(
                "updated", [("items", #"{"data":[\#(many)]}"#)], previous: #"{"items":\#(Self.month)}"#))
        #expect(event.type == "SUBSCRIPTION_CROSSGRADED")
    }

    // MARK: Within one second

    @Test("Within one second an interruption yields to a gain, that to a change of price or user, and each to the end")
    func ties() throws {
        func at(_ name: String, _ fields: BodyEdit.Fields, before previous: String? = nil) throws -> Timestamp? {
            try stripe(Fixtures.subscription(name, fields, previous: previous)).facts.first?.at
        }
        let unpaid = try #require(try at("updated", Self.status("unpaid")))
        let active = try #require(try at("updated", []))
        let ended = try #require(try at("deleted", Self.status("canceled")))
        let formerPrice = #"{"items":\#(Fixtures.items(Fixtures.item("price_b")))}"#
        let repriced = try #require(try at("updated", [], before: formerPrice))
        let renamed = try #require(try at("updated", [], before: #"{"metadata":{"user_id":null}}"#))
        #expect(unpaid < active && active < repriced && repriced == renamed && renamed < ended)
        let lost = try at("updated", Self.status("unpaid"), before: formerPrice)
        #expect(lost == unpaid, "what is lost has no later change")
        #expect(ended < Fixtures.time(Fixtures.at + 1), "the next second comes after all of them")
    }
}
