import Foundation

/// Every event of a subscription, an invoice, a checkout session, a refund and a customer that Stripe documents
/// (docs.stripe.com/api/events/types), and what must come of it: written by hand after that page, "Using webhooks with
/// subscriptions", posthouse-sources(7), "Stripe", and posthouse-messages(7), "Money".
struct StripeTypes {
    private(set) var notices: [StoreNotice] = []
    private(set) var others: [StoreNotice.Other] = []

    init() throws {
        try addSubscriptions()
        try addChanges()
        try addEnds()
        try addInvoices()
        try addSessions()
        try addRefunds()
        try addCustomers()
        addOthers()
    }

    // MARK: Subscriptions

    private mutating func addSubscriptions() throws {
        let created = "customer.subscription.created"
        try add(created, "SUBSCRIPTION_STARTED", .has, subscription())
        try add(created, "SUBSCRIPTION_STARTED", .has, subscription(["metadata": [String: String]()]), .customer)
        try add(created, "SUBSCRIPTION_STARTED", .has, subscription(), isLive: false)
        try add(created, "TRIAL_STARTED", .has, subscription(Self.trialing))
        try add(created, .unstated, subscription(["status": "incomplete"]))
        // The period stood with the subscription before 2025-03-31.basil.
        var former = subscription(["items": Self.items(period: nil)])
        former["current_period_start"] = Self.start
        former["current_period_end"] = Self.end
        try add(created, "SUBSCRIPTION_STARTED", .has, former)
        try add("customer.subscription.trial_will_end", .unstated, subscription(Self.trialing))
        for name in ["pending_update_applied", "pending_update_expired"] {
            try add("customer.subscription." + name, .unstated, subscription())
        }
    }

    private mutating func addChanges() throws {
        let statuses: [(before: String, now: String, type: String, access: StoreNotice.Access)] = [
            ("incomplete", "active", "SUBSCRIPTION_STARTED", .has), ("trialing", "active", "TRIAL_CONVERTED", .has),
            ("active", "past_due", "ENTERED_BILLING_RETRY", .unstated),
            ("past_due", "active", "SUBSCRIPTION_RECOVERED_FROM_BILLING_RETRY", .has),
            ("past_due", "unpaid", "SUBSCRIPTION_TERMINATED", .hasNot),
            ("unpaid", "active", "SUBSCRIPTION_REACTIVATED", .has), ("incomplete", "incomplete_expired", "", .hasNot),
            // These have events of their own, too.
            ("active", "paused", "", .hasNot), ("paused", "active", "", .has),
        ]
        for row in statuses {
            try change(row.type, row.access, ["status": row.now], before: ["status": row.before])
        }
        let never: [String: Any] = ["cancel_at": NSNull(), "cancel_at_period_end": false]
        let atPeriodEnd: [String: Any] = ["cancel_at": Self.end, "cancel_at_period_end": true]
        try change("RENEWAL_DISABLED", .has, atPeriodEnd, before: never)
        try change("RENEWAL_DISABLED", .has, ["cancel_at": Self.end], before: ["cancel_at": NSNull()])
        try change("RENEWAL_ENABLED", .has, never, before: atPeriodEnd)
        let month = Self.items()
        let period = Self.items(period: (Self.start - 30 * Self.day, Self.start))
        try change("", .has, before: ["items": period, "latest_invoice": "in_0"])
        try change("SUBSCRIPTION_UPGRADED", .has, ["items": Self.items("price_2", 1_990)], before: ["items": month])
        try change("SUBSCRIPTION_DOWNGRADED", .has, ["items": Self.items("price_0", 490)], before: ["items": month])
        let year = Self.items("price_3", 9_900, interval: "year")
        try change("SUBSCRIPTION_CROSSGRADED", .has, ["items": year], before: ["items": month])
        let collection: [String: Any] = ["pause_collection": ["behavior": "void"]]
        try change("", .has, collection, before: ["pause_collection": NSNull()])
        try change("", .has, ["metadata": ["user_id": user(), "plan": "b"]], before: ["metadata": ["plan": "a"]])
        // Another user.
        let former = notices.count
        try add("customer.subscription.created", "SUBSCRIPTION_STARTED", .has, subscription())
        var object = subscription(of: former)
        object["metadata"] = ["user_id": user()]
        try add(
            "customer.subscription.updated", "", .has, object, previous: ["metadata": ["user_id": user(former)]],
            of: former, after: 5, passesFrom: former)
    }

    private mutating func addEnds() throws {
        for (reason, type) in [
            ("pause_requested", "SUBSCRIPTION_PAUSED"), ("trial_end_without_payment_method", "TRIAL_NOT_CONVERTED"),
        ] {
            let details = ["paused": ["type": "subscription", "subscription": ["type": reason]] as [String: Any]]
            let changes: [String: Any] = ["status": "paused", "status_details": details]
            try add("customer.subscription.paused", type, .hasNot, subscription(changes))
        }
        try add("customer.subscription.resumed", "SUBSCRIPTION_UNPAUSED", .has, subscription())
        let deleted = "customer.subscription.deleted"
        let ended: [String: Any] = ["status": "canceled", "ended_at": Self.at]
        for reason in ["cancellation_requested", "payment_failed", "payment_disputed"] {
            let details: [String: Any] = ["cancellation_details": ["reason": reason]]
            let changes = ended.merging(details) { $1 }
            try add(deleted, "SUBSCRIPTION_TERMINATED", .hasNot, subscription(changes))
        }
        let trial = ended.merging(["trial_end": Self.at]) { $1 }
        try add(deleted, "TRIAL_NOT_CONVERTED", .hasNot, subscription(trial))
    }

    // MARK: Invoices

    private mutating func addInvoices() throws {
        let money = "9.90 EUR"
        try add("invoice.paid", "SUBSCRIPTION_RENEWED", .named, invoice(), money: money)
        // Before 2025-03-31.basil.
        var former = invoice()
        former["parent"] = nil
        former["subscription"] = "sub_\(notices.count)"
        former["subscription_details"] = ["metadata": ["user_id": user()]]
        try add("invoice.paid", "SUBSCRIPTION_RENEWED", .named, former, money: money)
        for reason in ["subscription_create", "subscription_update", "subscription_threshold", "manual"] {
            try add("invoice.paid", .unstated, invoice(["billing_reason": reason]), money: money)
        }
        // The beginning of a trial.
        let free: [String: Any] = ["billing_reason": "subscription_create", "amount_paid": 0, "total": 0]
        try add("invoice.paid", .unstated, invoice(free), money: "0.00 EUR")
        // invoice.paid says it, too.
        try add("invoice.payment_succeeded", .unstated, invoice())
        for name in [
            "payment_failed", "payment_action_required", "payment_attempt_required", "created", "finalized",
            "finalization_failed", "overdue", "voided", "marked_uncollectible", "sent", "updated", "deleted",
        ] {
            try add("invoice." + name, .unstated, invoice(["status": "open", "amount_paid": 0]))
        }
        var upcoming = invoice(["status": "draft", "amount_paid": 0])
        upcoming["id"] = nil
        try add("invoice.upcoming", .unstated, upcoming)
    }

    // MARK: Checkout sessions

    private mutating func addSessions() throws {
        let (completed, money) = ("checkout.session.completed", "9.90 EUR")
        let ofSubscription: [String: Any] = ["mode": "subscription", "payment_intent": NSNull()]
        var subscribed = session(ofSubscription)
        subscribed["subscription"] = "sub_\(notices.count)"
        // It says whose the subscription is, and not that it runs.
        try add(completed, .hasNot, subscribed)
        try add(completed, "PURCHASE_VALIDATED", .has, session(), about: .payment, money: money)
        let guest = session(["customer": NSNull(), "metadata": [String: String]()])
        try add(completed, "PURCHASE_VALIDATED", .has, guest, .payment, about: .payment, money: money)
        try add(completed, .unstated, session(["payment_status": "unpaid"]), about: .payment)
        let free = session(["payment_status": "no_payment_required", "payment_intent": NSNull(), "amount_total": 0])
        try add(completed, "PURCHASE_VALIDATED", .has, free, about: .session)
        try add(
            "checkout.session.async_payment_succeeded", "PURCHASE_VALIDATED", .has, session(), about: .payment,
            money: money)
        try add(
            "checkout.session.async_payment_failed", .unstated, session(["payment_status": "unpaid"]), about: .payment)
        try add("checkout.session.expired", .unstated, session(["payment_status": "unpaid"]), about: .nothing)
        try add(completed, .unstated, session(["mode": "setup", "payment_intent": NSNull()]), about: .nothing)
    }

    // MARK: Refunds and disputes

    private mutating func addRefunds() throws {
        let refunded = "charge.refunded"
        let none: [String: Any] = ["amount_refunded": 0, "refunded": false]
        // Of a purchase that is known by its payment, and of one that is not.
        let bought = notices.count
        try add(
            "checkout.session.completed", "PURCHASE_VALIDATED", .has, session(), about: .payment, money: "9.90 EUR")
        try add(
            refunded, "DEACTIVATE", .hasNot, charge(of: bought), .customer, previous: none, about: .payment,
            of: bought, after: 60, isByMemory: true, endsFor: bought, money: "9.90 EUR back")
        try add(
            refunded, "", .hasNot, charge(), .customer, previous: none, about: .payment, money: "9.90 EUR back")
        let part = charge(["amount_refunded": 500, "refunded": false])
        try add(refunded, "", .unstated, part, .customer, previous: none, about: .nothing, money: "5.00 EUR back")
        for description in ["Subscription creation", "Subscription update"] {
            let ofSubscription = charge(["description": description])
            try add(
                refunded, "", .unstated, ofSubscription, .customer, previous: none, about: .nothing,
                money: "9.90 EUR back")
        }
        let refund: [String: Any] = [
            "id": "re_1", "object": "refund", "amount": 990, "currency": "eur", "charge": "ch_1",
            "payment_intent": "pi_1", "status": "succeeded",
        ]
        for name in [
            "refund.created", "refund.updated", "refund.failed", "charge.refund.updated", "charge.dispute.created",
            "charge.dispute.updated", "charge.dispute.closed", "charge.dispute.funds_withdrawn",
            "charge.dispute.funds_reinstated", "radar.early_fraud_warning.created",
        ] {
            try add(name, "", .unstated, refund, .nobody, about: .nothing)
        }
    }

    // MARK: Customers and others

    private mutating func addCustomers() throws {
        for name in ["customer.created", "customer.updated", "customer.deleted"] {
            let number = notices.count
            let customer: [String: Any] = [
                "id": "cus_\(number)", "object": "customer", "metadata": ["user_id": user(number)],
            ]
            try add(name, "", .unstated, customer, about: .nothing)
        }
        for name in [
            "entitlements.active_entitlement_summary.updated", "subscription_schedule.created",
            "subscription_schedule.updated", "subscription_schedule.released", "subscription_schedule.completed",
            "subscription_schedule.canceled", "subscription_schedule.aborted", "subscription_schedule.expiring",
            "something.of_tomorrow",
        ] {
            let object: [String: Any] = ["object": "something", "customer": "cus_\(notices.count)"]
            try add(name, "", .unstated, object, .customer, about: .nothing)
        }
    }

    private mutating func addOthers() {
        let thin =
            #"{"id":"evt_thin","object":"v2.core.event","created":"2026-10-01T08:00:09.412Z","livemode":true,"#
            + #""type":"v1.customer.subscription.updated","related_object":{"id":"sub_1","type":"subscription"}}"#
        let ping =
            #"{"id":"evt_ping","object":"v2.core.event","created":"2026-10-01T08:00:09.412Z","livemode":false,"#
            + #""type":"v2.core.event_destination.ping"}"#
        others.append(.init(source: "stripe", body: ping, status: 200))
        for body in [thin, "garbage", #"{"id":"evt_empty","type":"invoice.paid"}"#] {
            others.append(.init(source: "stripe", body: body, status: 200, isKept: true))
        }
        others.append(.init(source: "stripe", body: "{}", status: 401, isProven: false))
    }

    // MARK: Objects

    /// Seconds since 1970.
    private static let at = Int(Webhook.epoch / 1_000)
    private static let day = 86_400
    private static let start = at - 10 * day
    private static let end = at + 20 * day

    private static var trialing: [String: Any] { ["status": "trialing", "trial_end": at + 7 * day] }

    private func user(_ number: Int? = nil) -> String { "web-\(number ?? notices.count)" }

    /// - Parameter period: nil as before API version 2025-03-31.basil.
    private static func items(
        _ price: String = "price_1", _ amount: Int = 990, interval: String = "month", period: (Int, Int)? = (start, end)
    ) -> [String: Any] {
        let recurring: [String: Any] = ["interval": interval, "interval_count": 1]
        let details: [String: Any] = [
            "id": price, "object": "price", "product": "prod_1", "unit_amount": amount, "currency": "eur",
            "recurring": recurring,
        ]
        var item: [String: Any] = ["id": "si_1", "object": "subscription_item", "quantity": 1, "price": details]
        if let period {
            item["current_period_start"] = period.0
            item["current_period_end"] = period.1
        }
        return ["object": "list", "data": [item]]
    }

    /// - Parameter number: of the notice whose subscription it is; nil: of the next one.
    private func subscription(_ changes: [String: Any] = [:], of number: Int? = nil) -> [String: Any] {
        let number = number ?? notices.count
        let object: [String: Any] = [
            "id": "sub_\(number)", "object": "subscription", "customer": "cus_\(number)", "status": "active",
            "cancel_at": NSNull(), "cancel_at_period_end": false, "trial_end": NSNull(), "ended_at": NSNull(),
            "latest_invoice": "in_\(number)", "metadata": ["user_id": user(number)], "items": Self.items(),
        ]
        return object.merging(changes) { $1 }
    }

    private func invoice(_ changes: [String: Any] = [:]) -> [String: Any] {
        let number = notices.count
        let details: [String: Any] = ["subscription": "sub_\(number)", "metadata": ["user_id": user()]]
        let parent: [String: Any] = ["type": "subscription_details", "subscription_details": details]
        let line: [String: Any] = [
            "object": "line_item", "period": ["start": Self.start, "end": Self.end],
            "pricing": ["price_details": ["price": "price_1", "product": "prod_1"]],
        ]
        let lines: [String: Any] = ["object": "list", "data": [line]]
        let object: [String: Any] = [
            "id": "in_\(number)", "object": "invoice", "billing_reason": "subscription_cycle",
            "customer": "cus_\(number)", "created": Self.at - 3_600, "status": "paid", "amount_paid": 990,
            "total": 990, "currency": "eur", "parent": parent, "lines": lines,
        ]
        return object.merging(changes) { $1 }
    }

    private func session(_ changes: [String: Any] = [:]) -> [String: Any] {
        let number = notices.count
        let object: [String: Any] = [
            "id": "cs_\(number)", "object": "checkout.session", "mode": "payment", "status": "complete",
            "payment_status": "paid", "payment_intent": "pi_\(number)", "customer": "cus_\(number)",
            "subscription": NSNull(), "client_reference_id": NSNull(), "metadata": ["user_id": user()],
            "amount_total": 990, "currency": "eur",
        ]
        return object.merging(changes) { $1 }
    }

    private func charge(_ changes: [String: Any] = [:], of number: Int? = nil) -> [String: Any] {
        let number = number ?? notices.count
        let object: [String: Any] = [
            "id": "ch_\(number)", "object": "charge", "customer": "cus_\(number)", "payment_intent": "pi_\(number)",
            "amount": 990, "amount_refunded": 990, "refunded": true, "currency": "eur", "created": Self.at - 600,
        ]
        return object.merging(changes) { $1 }
    }

    // MARK: Events

    /// Whom the event names.
    private enum Named { case user, customer, payment, nobody }

    /// What the event is about.
    private enum About { case subscription, payment, session, nothing }

    /// One of customer.subscription.updated.
    private mutating func change(
        _ type: String, _ access: StoreNotice.Access, _ changes: [String: Any] = [:], before previous: [String: Any]
    ) throws {
        try add("customer.subscription.updated", type, access, subscription(changes), previous: previous)
    }

    /// One that keeps its own name.
    private mutating func add(
        _ name: String, _ access: StoreNotice.Access, _ object: [String: Any], about: About = .subscription,
        money: String? = nil
    ) throws {
        try add(name, "", access, object, about: about, money: money)
    }

    /// - Parameters:
    ///   - type: "": its own name.
    ///   - former: another notice about the same purchase; nil: it has one of its own.
    ///   - after: seconds.
    ///   - passesFrom: the notice whose user loses the purchase to another one by this one.
    ///   - endsFor: the notice whose user loses the purchase by this one.
    private mutating func add(
        _ name: String, _ type: String, _ access: StoreNotice.Access, _ object: [String: Any], _ named: Named = .user,
        previous: [String: Any]? = nil, about: About = .subscription, of former: Int? = nil, after: Int = 0,
        isLive: Bool = true, isByMemory: Bool = false, passesFrom: Int? = nil, endsFor: Int? = nil,
        money: String? = nil
    ) throws {
        let number = former ?? notices.count
        let id = "evt_\(notices.count)"
        let holder =
            switch named {
            // Whoever gets a purchase from somebody else has the number of this notice.
            case .user: "user:" + user(passesFrom == nil ? number : notices.count)
            case .customer: "anon:cus_\(number)"
            case .payment: "anon:pi_\(number)"
            case .nobody: ""
            }
        let purchase: String? =
            switch about {
            case .subscription: "sub_\(number)"
            case .payment: "pi_\(number)"
            case .session: "cs_\(number)"
            case .nothing: nil
            }
        var data: [String: Any] = ["object": object]
        if let previous { data["previous_attributes"] = previous }
        let event: [String: Any] = [
            "id": id, "object": "event", "api_version": "2026-10-28.endive", "created": Self.at + after,
            "livemode": isLive, "pending_webhooks": 1, "request": NSNull(), "type": name, "data": data,
        ]
        var holders: [String: Bool] = access == .unstated ? [:] : [holder: access != .hasNot]
        // The end of a subscription is stated of whoever has it.
        let isEnd = access == .hasNot && name.hasPrefix("customer.subscription.")
        if access == .named || isEnd { holders["anon:cus_\(number)"] = false }
        if let loser = passesFrom ?? endsFor { holders["user:" + user(loser)] = false }
        notices.append(
            StoreNotice(
                source: "stripe", id: id, body: try StoreNotice.json(event), name: name,
                type: type.isEmpty ? name : type, isByMemory: isByMemory, holder: holder, purchase: purchase,
                access: holders, isTransfer: passesFrom != nil, money: money,
                environment: isLive ? "PRODUCTION" : "SANDBOX"))
    }
}
