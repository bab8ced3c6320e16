import Vocabulary

@testable import Inbound

func stripeSource(
    authentication: Source.Authentication = .signature, secrets: [String] = [StripeSignatureTests.secret],
    app: String? = nil, defaultEnvironment: String = "PRODUCTION", freshness: Duration? = nil,
    userKey: String = "user_id"
) -> Source {
    Source(
        name: "web", kind: .stripe, authentication: authentication, secrets: secrets.map { Secret(Array($0.utf8)) },
        app: app, defaultEnvironment: defaultEnvironment, freshness: freshness,
        settings: .stripe(StripeSettings(userKey: userKey)))
}

func stripe(_ body: String, from source: Source = stripeSource()) throws -> Event {
    try Stripe().normalise(Array(body.utf8), header: { _ in nil }, from: source)
}

/// What is wrong with a body, or nil where it is read.
func stripeReason(_ body: String, from source: Source = stripeSource()) -> String? {
    do {
        _ = try stripe(body, from: source)
        return nil
    } catch {
        return (error as? Unreadable)?.reason ?? "\(error)"
    }
}

/// Bodies in the shapes that Stripe documents, with values of our own. Times are in seconds.
enum StripeFixtures {
    static let at: Int64 = 1_790_000_000
    /// Bounds of three periods of 30 days.
    static let start: Int64 = 1_789_999_995
    static let end: Int64 = 1_792_591_995
    static let nextEnd: Int64 = 1_795_183_995
    /// The end of a trial of 7 days.
    static let trialEnd: Int64 = 1_790_604_795

    static func time(_ seconds: Int64, _ milliseconds: Int64 = 0) -> Timestamp {
        Timestamp(milliseconds: seconds * 1_000 + milliseconds)
    }

    // MARK: Parts

    /// One item of a subscription.
    ///
    /// - Parameter period: nil as in API versions before 2025-03-31.basil.
    static func item(
        _ price: String = "price_month", amount: String = "799", currency: String = "eur", interval: String = "month",
        count: Int = 1, quantity: Int = 1, product: String = "prod_plus", period: (Int64, Int64)? = (start, end)
    ) -> String {
        let times = period.map { #""current_period_start":\#($0.0),"current_period_end":\#($0.1),"# } ?? ""
        return #"{"id":"si_1","object":"subscription_item",\#(times)"quantity":\#(quantity),"price":{"id":"\#(price)","#
            + #""object":"price","product":"\#(product)","unit_amount":\#(amount),"currency":"\#(currency)","#
            + #""recurring":{"interval":"\#(interval)","interval_count":\#(count)}}}"#
    }

    static func items(_ items: String...) -> String {
        #"{"object":"list","has_more":false,"data":[\#(items.joined(separator: ","))]}"#
    }

    /// One line of an invoice, in the shape since 2025-03-31.basil.
    static func line(
        _ price: String = "price_month", product: String = "prod_plus", period: (Int64, Int64) = (end, nextEnd),
        isProration: Bool = false, subscription: String = "sub_1"
    ) -> String {
        #"{"id":"il_1","object":"line_item","period":{"start":\#(period.0),"end":\#(period.1)},"#
            + #""parent":{"type":"subscription_item_details","subscription_item_details":{"proration":\#(isProration),"#
            + #""subscription":"\#(subscription)"}},"#
            + #""pricing":{"price_details":{"price":"\#(price)","product":"\#(product)"}}}"#
    }

    /// The same line before 2025-03-31.basil.
    static func formerLine(period: (Int64, Int64) = (end, nextEnd), isProration: Bool = false) -> String {
        #"{"id":"il_1","object":"line_item","period":{"start":\#(period.0),"end":\#(period.1)},"#
            + #""proration":\#(isProration),"subscription":"sub_1","#
            + #""price":{"id":"price_month","product":"prod_plus"}}"#
    }

    // MARK: Events

    private static func event(_ object: String) -> String {
        """
        {
          "id": "evt_1Sample", "object": "event", "api_version": "2026-10-28.endive", "created": \(at),
          "data": {"object": \(object)},
          "livemode": true, "pending_webhooks": 1,
          "request": {"id": null, "idempotency_key": null},
          "type": "sample"
        }
        """
    }

    static let subscriptionObject = """
        {
          "id": "sub_1", "object": "subscription", "cancel_at": null, "cancel_at_period_end": false,
          "canceled_at": null, "created": \(start), "currency": "eur", "customer": "cus_1", "customer_account": null,
          "ended_at": null, "items": \(items(item())), "latest_invoice": "in_1", "livemode": true,
          "metadata": {"user_id": "ada"}, "pause_collection": null, "status": "active", "trial_end": null,
          "trial_start": null
        }
        """

    static let invoiceObject = """
        {
          "id": "in_2", "object": "invoice", "amount_paid": 799, "billing_reason": "subscription_cycle",
          "created": \(at - 7_200), "customer": "cus_1", "customer_account": null,
          "lines": {"object": "list", "data": [\(line())]}, "metadata": {}, "period_end": \(end),
          "period_start": \(start), "status": "paid", "total": 799,
          "status_transitions": {"finalized_at": \(at - 3_600), "paid_at": \(at)},
          "parent": {"type": "subscription_details", "subscription_details":
            {"metadata": {"user_id": "ada"}, "subscription": "sub_1"}}
        }
        """

    /// The same in the shape before 2025-03-31.basil.
    static let formerInvoiceObject = """
        {
          "id": "in_2", "object": "invoice", "amount_paid": 799, "billing_reason": "subscription_cycle",
          "created": \(at - 7_200), "customer": "cus_1", "lines": {"object": "list", "data": [\(formerLine())]},
          "metadata": {}, "status": "paid", "subscription": "sub_1", "total": 799,
          "status_transitions": {"finalized_at": \(at - 3_600), "paid_at": \(at)},
          "subscription_details": {"metadata": {"user_id": "ada"}}
        }
        """

    static let sessionObject = """
        {
          "id": "cs_1", "object": "checkout.session", "client_reference_id": "ben", "customer": "cus_1",
          "customer_account": null, "invoice": null, "metadata": {"user_id": "ada", "product": "lifetime"},
          "mode": "payment", "payment_intent": "pi_1", "payment_status": "paid", "status": "complete",
          "subscription": null
        }
        """

    static let chargeObject = """
        {
          "id": "ch_1", "object": "charge", "amount": 14999, "amount_refunded": 14999, "created": \(at - 600),
          "customer": "cus_1", "metadata": {}, "payment_intent": "pi_1", "refunded": true, "status": "succeeded"
        }
        """

    static let customerObject = """
        {"id": "cus_1", "object": "customer", "email": "somebody@example.com", "metadata": {"user_id": "ada"}}
        """

    /// An event with `fields` (raw JSON values) set in its object or, where nil, taken out of it.
    private static func body(
        _ object: String, _ name: String, _ fields: BodyEdit.Fields, _ previous: String?
    ) -> String {
        let named = BodyEdit.edit(event(object), [("type", "\"\(name)\"")])
        let changed = BodyEdit.edit(named, in: "data", "object", set: fields)
        guard let previous else { return changed }
        return BodyEdit.edit(changed, in: "data", set: [("previous_attributes", previous)])
    }

    static func subscription(
        _ name: String, _ fields: BodyEdit.Fields = [], previous: String? = nil
    ) -> String {
        body(subscriptionObject, "customer.subscription." + name, fields, previous)
    }

    static func invoice(_ name: String, _ fields: BodyEdit.Fields = []) -> String {
        body(invoiceObject, "invoice." + name, fields, nil)
    }

    static func formerInvoice(_ name: String, _ fields: BodyEdit.Fields = []) -> String {
        BodyEdit.edit(
            body(formerInvoiceObject, "invoice." + name, fields, nil), [("api_version", "\"2024-06-20\"")])
    }

    static func session(_ name: String, _ fields: BodyEdit.Fields = []) -> String {
        body(sessionObject, "checkout.session." + name, fields, nil)
    }

    static func charge(
        _ name: String, _ fields: BodyEdit.Fields = [], previous: String? = #"{"amount_refunded":0,"refunded":false}"#
    ) -> String {
        body(chargeObject, "charge." + name, fields, previous)
    }

    static func customer(_ name: String, _ fields: BodyEdit.Fields = [], previous: String? = nil) -> String {
        body(customerObject, "customer." + name, fields, previous)
    }

    /// Any other event.
    static func other(_ name: String, _ object: String) -> String { body(object, name, [], nil) }

    static let thin = """
        {"id": "evt_test_1", "object": "v2.core.event", "context": null, "created": "2026-10-01T08:00:09.412Z",
        "livemode": true, "reason": null, "related_object": {"id": "sub_1", "type": "subscription",
        "url": "/v1/subscriptions/sub_1"}, "snapshot_event": "evt_1", "type": "v1.customer.subscription.updated"}
        """

    static let ping = """
        {"id": "evt_test_2", "object": "v2.core.event", "context": null, "created": "2026-08-30T12:30:00.125Z",
        "livemode": false, "reason": null, "related_object": {"id": "ed_1", "type": "v2.core.event_destination",
        "url": "/v2/core/event_destinations/ed_1"}, "type": "v2.core.event_destination.ping"}
        """

    /// One body of each shape.
    static let every: [String] = [
        subscription("created"), subscription("updated", previous: #"{"status":"past_due"}"#),
        subscription("updated", [("items", items(item("price_year")))], previous: #"{"items":\#(items(item()))}"#),
        subscription("paused", [("status", "\"paused\"")]),
        subscription("deleted", [("status", "\"canceled\""), ("ended_at", "\(at)")]),
        invoice("paid"), formerInvoice("paid"), session("completed"),
        session("completed", [("mode", "\"subscription\""), ("subscription", "\"sub_1\"")]), charge("refunded"),
        customer("created"), customer("updated", previous: #"{"metadata":{"user_id":null}}"#),
        other("charge.dispute.created", #"{"id":"dp_1","object":"dispute","charge":"ch_1"}"#),
    ]
}
