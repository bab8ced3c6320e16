internal import JSONText
internal import Vocabulary

/// An invented event in the shape of API version 2026-10-28.endive, with the members that are read and some beside.
struct StripeSample {
    private static let periodSeconds: Int64 = 30 * 86_400
    private static let trialSeconds: Int64 = 3 * 86_400
    private static let product = "prod_SampleReader0001"
    private static let price = "price_1SampleMonthly00001"
    private static let currency = "eur"
    private static let unitAmount = 999
    /// The prefixes of the ids of one-time purchases; others are subscriptions.
    private static let oneTimePrefixes = ["pi_", "cs_", "otp_"]

    private let request: SampleRequest
    /// The event time in whole seconds since 1970.
    private let seconds: Int64

    init(_ request: SampleRequest) {
        self.request = request
        let (quotient, rest) = request.occurredAt.nearestWritable.milliseconds.quotientAndRemainder(dividingBy: 1_000)
        seconds = rest < 0 ? quotient - 1 : quotient
    }

    var body: [UInt8] {
        JSONWriter.object { body in
            if let eventID = request.eventID { body.member("id", eventID) }
            body.member("object", "event")
            body.member("api_version", "2026-10-28.endive")
            body.member("created", seconds)
            body.key("data")
            body.object { writeData(to: &$0) }
            if let isLive { body.member("livemode", isLive) }
            body.member("pending_webhooks", 1)
            body.key("request")
            body.null()
            body.member("type", request.eventName)
        }
    }

    /// Stripe has two environments; another one is not named.
    private var isLive: Bool? {
        switch request.environment {
        case SharedVocabulary.production: true
        case SharedVocabulary.sandbox: false
        default: nil
        }
    }

    private var user: String? { request.holder.isAnonymous ? nil : request.holder.id }

    /// A user has one customer for each purchase, so that samples of two users name two customers.
    private var customer: String { request.holder.isAnonymous ? request.holder.id : "cus_of_" + request.purchaseID }

    private var isOneTime: Bool { Self.oneTimePrefixes.contains(where: request.purchaseID.hasPrefix) }

    private func writeData(to data: inout JSONWriter) {
        let name = request.eventName
        data.key("object")
        data.object { object in
            if name.hasPrefix(StripeNames.subscriptionPrefix) {
                writeSubscription(to: &object)
            } else if name.hasPrefix(StripeNames.invoicePrefix) {
                writeInvoice(to: &object)
            } else if name.hasPrefix(StripeNames.sessionPrefix) {
                writeSession(to: &object)
            } else if name == StripeNames.chargeRefunded {
                writeCharge(to: &object)
            } else if [StripeNames.customerCreated, StripeNames.customerUpdated, StripeNames.customerDeleted]
                .contains(name)
            {
                object.member("id", customer)
                object.member("object", "customer")
                writeMetadata(to: &object)
            } else {
                object.member("id", "obj_1Sample0000000001")
                object.member("customer", customer)
            }
        }
        guard name == StripeNames.updated else { return }
        data.key("previous_attributes")
        data.object { _ in }
    }

    private func writeMetadata(to object: inout JSONWriter) {
        object.key("metadata")
        object.object { metadata in
            if let user { metadata.member(StripeSettings.usualUserKey, user) }
        }
    }

    // MARK: Subscriptions

    private func writeSubscription(to object: inout JSONWriter) {
        let name = request.eventName
        let isOver = name == StripeNames.deleted
        let isTrial = name == StripeNames.trialWillEnd
        let end = seconds + (isTrial ? Self.trialSeconds : Self.periodSeconds)
        object.member("id", request.purchaseID)
        object.member("object", "subscription")
        object.member("cancel_at_period_end", false)
        object.member("customer", customer)
        object.member("ended_at", isOver ? seconds : nil)
        object.key("items")
        object.object { items in
            items.member("object", "list")
            items.key("data")
            items.array { list in list.object { writeItem(until: end, to: &$0) } }
        }
        object.member("latest_invoice", request.storeTransactionID)
        writeMetadata(to: &object)
        let status: StripeStatus =
            isOver ? .canceled : isTrial ? .trialing : name == StripeNames.paused ? .paused : .active
        object.member("status", status.rawValue)
        object.member("trial_end", isTrial ? end : nil)
    }

    private func writeItem(until end: Int64, to item: inout JSONWriter) {
        item.member("id", "si_Sample00000001")
        item.member("object", "subscription_item")
        item.member("current_period_end", end)
        item.member("current_period_start", seconds)
        item.key("price")
        item.object { price in
            price.member("id", Self.price)
            price.member("object", "price")
            price.member("currency", Self.currency)
            price.member("product", Self.product)
            price.key("recurring")
            price.object { recurring in
                recurring.member("interval", "month")
                recurring.member("interval_count", 1)
            }
            price.member("unit_amount", Self.unitAmount)
        }
        item.member("quantity", 1)
    }

    // MARK: Payments

    private func writeInvoice(to object: inout JSONWriter) {
        // An invoice that is to come has no id.
        if request.eventName != StripeNames.invoiceUpcoming { object.member("id", request.storeTransactionID) }
        object.member("object", "invoice")
        object.member("amount_paid", StripeNames.paidInvoices.contains(request.eventName) ? Self.unitAmount : 0)
        object.member("billing_reason", StripeNames.cycle)
        object.member("created", seconds)
        object.member("currency", Self.currency)
        object.member("customer", customer)
        object.key("lines")
        object.object { lines in
            lines.member("object", "list")
            lines.key("data")
            lines.array { list in list.object { writeLine(to: &$0) } }
        }
        object.key("parent")
        object.object { parent in
            parent.key("subscription_details")
            parent.object { details in
                writeMetadata(to: &details)
                details.member("subscription", request.purchaseID)
            }
        }
    }

    private func writeLine(to line: inout JSONWriter) {
        line.member("object", "line_item")
        line.key("parent")
        line.object { parent in
            parent.key("subscription_item_details")
            parent.object { details in
                details.member("proration", false)
                details.member("subscription", request.purchaseID)
            }
        }
        line.key("period")
        line.object { period in
            period.member("end", seconds + Self.periodSeconds)
            period.member("start", seconds)
        }
        line.key("pricing")
        line.object { pricing in
            pricing.key("price_details")
            pricing.object { details in
                details.member("price", Self.price)
                details.member("product", Self.product)
            }
        }
    }

    private func writeSession(to object: inout JSONWriter) {
        let isSession = request.purchaseID.hasPrefix("cs_")
        object.member("id", isSession ? request.purchaseID : "cs_Sample0000000001")
        object.member("object", "checkout.session")
        object.member("amount_total", Self.unitAmount)
        object.member("client_reference_id", user)
        object.member("currency", Self.currency)
        object.member("customer", customer)
        writeMetadata(to: &object)
        object.member("mode", isOneTime ? "payment" : "subscription")
        object.member("payment_intent", isOneTime && !isSession ? request.purchaseID : nil)
        object.member("payment_status", "paid")
        object.member("subscription", isOneTime ? nil : request.purchaseID)
    }

    private func writeCharge(to object: inout JSONWriter) {
        object.member("id", "ch_Sample0000000001")
        object.member("object", "charge")
        object.member("amount", Self.unitAmount)
        object.member("amount_refunded", Self.unitAmount)
        object.member("created", seconds)
        object.member("currency", Self.currency)
        object.member("customer", customer)
        object.member("payment_intent", request.purchaseID)
        object.member("refunded", true)
    }
}
